/* The regular expressions by which tokenizers split text. Files give them in the syntax of Oniguruma (Ruby's), which
 * the reference library runs; here PCRE2 runs them. What both understand alike is translated, with the few classes of
 * characters in which they differ spelled out; everything else is refused, so that no file splits otherwise here than
 * there. */
#ifndef TH_MODELS_TEXT_PATTERN_H
#define TH_MODELS_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TH_MAX_PATTERN = 4096, TH_PATTERN_TROUBLE = 200 };

typedef struct th_pattern th_pattern;

/* NULL with a sentence in trouble: what is not understood, what is wrong, that it matches nothing at all. trouble is
 * "" when memory is out. */
th_pattern *th_pattern_new(const char *expression, size_t count, char trouble[TH_PATTERN_TROUBLE]);
void th_pattern_free(th_pattern *pattern);

typedef enum th_match { TH_MATCH, TH_NO_MATCH, TH_MATCH_GAVE_UP } th_match;
/* The number of steps that all matches in a text of this length may take together. */
uint64_t th_pattern_budget(size_t bytes);
/* The next match in a text, starting at `from`; patterns may look back at the bytes before. The text must be UTF-8.
 * Subtracts the steps of slow matches from *budget. GAVE_UP: the budget is exhausted, or the match needs too much
 * memory. */
th_match th_pattern_next(th_pattern *pattern, const char *text, size_t count, size_t from, uint64_t *budget,
                         size_t *begin, size_t *end);

/* The translation alone: PCRE2's expression, into translated[0 .. capacity-1]; false with the sentence. */
bool th_pattern_translate(const char *expression, size_t count, char *translated, size_t capacity,
                          char trouble[TH_PATTERN_TROUBLE]);

#endif
