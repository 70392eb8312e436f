/* PCRE2 as the oracle of patterns: an independent engine, which backtracks. */
#ifndef TEST_PATTERN_ORACLE_H
#define TEST_PATTERN_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct oracle oracle;

/* Returns an oracle for an expression that th_pattern_new accepts. Returns NULL if PCRE2 refuses it. */
oracle *oracle_new(const char *expression, size_t count);
/* Frees an oracle; NULL is allowed. */
void oracle_free(oracle *o);
/* Finds the match at text[at]. Sets *end to its end; `at` without a match. Returns false if PCRE2 gives up. */
bool oracle_match(oracle *o, const char *text, size_t count, size_t at, size_t *end);
/* Finds the next match at `from` or later, as th_pattern_next: *end is *begin without a match. Returns false if PCRE2
 * gives up. */
bool oracle_next(oracle *o, const char *text, size_t count, size_t from, size_t *begin, size_t *end);

#endif
