/* Runs a program by a table: the match from each step at each position of a part of the text. The table is computed
 * from the end of that part to its beginning, so each character costs one visit to each step, whatever the expression
 * is. */
#ifndef TH_MODELS_TEXT_PATTERN_TABLE_H
#define TH_MODELS_TEXT_PATTERN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/pattern/program.h"

typedef struct th_table th_table;

/* Makes an empty table of a program, which must stay. Returns NULL if out of memory. */
th_table *th_table_new(const th_program *program);
/* Frees a table; NULL is allowed. */
void th_table_free(th_table *table);
/* Begins a text, in UTF-8, which must stay. */
void th_table_begin(th_table *table, const char *text, size_t count);
/* Matches at text[at], which is not before the position of an earlier call. Sets *end to the end of the match; `at`
 * without a match. Returns false if out of memory. */
bool th_table_match(th_table *table, size_t at, size_t *end);
/* Returns how many times a step was visited. */
uint64_t th_table_visits(const th_table *table);

#endif
