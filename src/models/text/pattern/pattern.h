/* The regular expressions with which tokenizers split text: the syntax that tree.h lists, with the matches that
 * the reference library (Oniguruma) finds. The time of all matches in a text is proportional to its length, whatever
 * the expression and the text are: see pattern.c. */
#ifndef TH_MODELS_TEXT_PATTERN_PATTERN_H
#define TH_MODELS_TEXT_PATTERN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of an expression: bytes, steps (program.h), and possessive or atomic groups and lookbehinds. */
enum { TH_MAX_PATTERN = 4096, TH_MAX_PATTERN_STEPS = 5000, TH_MAX_PATTERN_KEPT = 64 };
enum { TH_PATTERN_REASON = 200 };

typedef struct th_pattern th_pattern;

/* Compiles an expression. Returns NULL with a sentence in reason if the syntax is wrong or not supported, if the
 * expression exceeds a limit, or if it can match the empty string. If out of memory, reason is "". */
th_pattern *th_pattern_new(const char *expression, size_t count, char reason[TH_PATTERN_REASON]);
/* Frees a pattern; NULL is allowed. */
void th_pattern_free(th_pattern *pattern);
/* Returns the memory of a pattern, without the working memory of matches. */
size_t th_pattern_memory(const th_pattern *pattern);

typedef enum th_match { TH_MATCH, TH_NO_MATCH, TH_MATCH_NO_MEMORY } th_match;
/* Begins the matches in a text, which must be UTF-8, and must stay. */
void th_pattern_begin(th_pattern *pattern, const char *text, size_t count);
/* Finds the next match, starting at `from`, which is not before the end of the last match; patterns may look back at
 * the bytes before. Without a match, *begin and *end stay as they are. */
th_match th_pattern_next(th_pattern *pattern, size_t from, size_t *begin, size_t *end);
/* Returns the work of all matches so far: characters that the automaton has read, and steps that the table has
 * visited. */
uint64_t th_pattern_work(const th_pattern *pattern);

#endif
