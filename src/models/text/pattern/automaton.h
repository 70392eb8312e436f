/* A regular expression as a deterministic automaton, which reads each character once. It finds the matches of a search
 * that tries alternatives in order (Oniguruma, PCRE2). The patterns of most tokenizers can be such an automaton. */
#ifndef TH_MODELS_TEXT_PATTERN_AUTOMATON_H
#define TH_MODELS_TEXT_PATTERN_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>

#include "models/text/pattern/program.h"

typedef struct th_automaton th_automaton;

/* Makes the automaton of a program, which must stay. *automaton is NULL if the program is not plain, or if the
 * automaton would be too large. Returns false if out of memory. */
bool th_automaton_new(const th_program *program, th_automaton **automaton);
/* Frees an automaton; NULL is allowed. */
void th_automaton_free(th_automaton *automaton);
/* Returns the memory of an automaton; 0 for NULL. */
size_t th_automaton_memory(const th_automaton *automaton);
/* Matches at text[at], in UTF-8. Returns the end of the match; `at` without a match. Sets *seen to the end of the
 * characters that were read. */
size_t th_automaton_match(th_automaton *automaton, const char *text, size_t count, size_t at, size_t *seen);

#endif
