/* The regular expressions by which tokenizers split text. Files give them in the syntax of Oniguruma (Ruby's), which
 * the reference library runs; here PCRE2 runs them. What both understand alike is translated, with the few classes of
 * characters in which they differ spelt out; everything else is refused, so that no file splits otherwise here than
 * there. */
#ifndef TH_TEXT_PATTERN_H
#define TH_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum { TH_MAX_PATTERN = 4096, TH_PATTERN_TROUBLE = 200 };

typedef struct th_pattern th_pattern;

/* NULL with a sentence in trouble: what is not understood, what is wrong, that it matches nothing at all. trouble is
 * "" when memory is out. */
th_pattern *th_pattern_new(const char *expression, size_t count, char trouble[TH_PATTERN_TROUBLE]);
void th_pattern_free(th_pattern *pattern);

typedef enum th_match { TH_MATCH, TH_NO_MATCH, TH_MATCH_GAVE_UP } th_match;
/* The next match in a text, from `from` on; what comes before is looked back at only. The text must be UTF-8. GAVE_UP:
 * it takes too many steps or too much memory. */
th_match th_pattern_next(th_pattern *pattern, const char *text, size_t count, size_t from, size_t *begin, size_t *end);

/* The translation alone: PCRE2's expression, into translated[0 .. capacity-1]; false with the sentence. */
bool th_pattern_translate(const char *expression, size_t count, char *translated, size_t capacity,
                          char trouble[TH_PATTERN_TROUBLE]);

#endif
