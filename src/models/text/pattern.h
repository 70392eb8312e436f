/* The regular expressions with which tokenizers split text. Files have Oniguruma's (Ruby's) syntax, which the
 * reference library runs; here PCRE2 or an automaton runs them. Syntax with the same meaning in both is translated, and
 * the few classes of characters that differ are spelled out. All other syntax is rejected, so no file splits text
 * differently than in the reference. */
#ifndef TH_MODELS_TEXT_PATTERN_H
#define TH_MODELS_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TH_MAX_PATTERN = 4096, TH_PATTERN_TROUBLE = 200 };

typedef struct th_pattern th_pattern;

/* Compiles an expression. Returns NULL with a sentence in trouble if the syntax is wrong or not supported, or if the
 * expression can match the empty string. If out of memory, trouble is "". */
th_pattern *th_pattern_new(const char *expression, size_t count, char trouble[TH_PATTERN_TROUBLE]);
/* Frees a pattern; NULL is allowed. */
void th_pattern_free(th_pattern *pattern);
/* Returns the memory of a pattern, without PCRE2's. */
size_t th_pattern_memory(const th_pattern *pattern);

typedef enum th_match { TH_MATCH, TH_NO_MATCH, TH_MATCH_GAVE_UP } th_match;
/* Returns the number of steps that all matches in a text of this length may take together. */
uint64_t th_pattern_budget(size_t bytes);
/* Finds the next match in a text, starting at `from`; patterns may look back at the bytes before. The text must be
 * UTF-8. Subtracts the steps of slow matches from *budget. GAVE_UP: the budget is exhausted, or the match needs too
 * much memory. Without a match, *begin and *end stay as they are. */
th_match th_pattern_next(th_pattern *pattern, const char *text, size_t count, size_t from, uint64_t *budget,
                         size_t *begin, size_t *end);

/* Only translates: writes PCRE2's expression into translated[0 .. capacity-1]. Returns false with a sentence in
 * trouble. */
bool th_pattern_translate(const char *expression, size_t count, char *translated, size_t capacity,
                          char trouble[TH_PATTERN_TROUBLE]);

#endif
