/* Where tokens stand, for models that add it to their embeddings. */
#ifndef TH_NN_POSITIONS_H
#define TH_NN_POSITIONS_H

#include "tapehead/language_model.h"

typedef struct th_positions {
    th_tensor *table;  /* (length, E): a parameter, or a constant in float64; NULL: nothing is added */
    th_module *member; /* the module that has the table */
    int64_t length;
} th_positions;

/* Makes a model's member of this name (none for TH_POSITIONS_NONE). What goes wrong is pending. */
void th_positions_add(th_positions *p, th_module *model, const char *name, th_position_kind kind, int64_t length,
                      int64_t width);
/* TH_ERROR_... unless the tokens are indices (B, T), at most p->length long, and positions, if given, are theirs. what:
 * "tokens". */
th_status th_positions_check(const th_positions *p, const th_module *model, const char *what, th_tensor *tokens,
                             th_tensor *positions);
/* x (B, T, E) and the rows of positions (T) or (B, T), or of 0 .. T - 1 if that is NULL. */
th_tensor *th_positions_added(const th_positions *p, th_tensor *x, th_tensor *positions);
/* Row rows[b] of each sequence of x (B, T, E): (B, E); x itself when rows is NULL. */
th_tensor *th_rows_taken(th_tensor *x, th_tensor *rows);

#endif
