/* Position embeddings, for models that add them to token embeddings. */
#ifndef TH_NN_POSITIONS_H
#define TH_NN_POSITIONS_H

#include "tapehead/language_model.h"

typedef struct th_positions {
    th_tensor *table;  /* (first + length, E): a parameter, or a constant in float64; NULL: none */
    th_module *member; /* the module that owns the table */
    int64_t first;     /* the row of position 0 */
    int64_t length;
} th_positions;

/* Adds a module of position embeddings to the model under this name; nothing for TH_POSITIONS_NONE. p->first and
 * p->length must be set. After a failure the error is pending. */
void th_positions_add_member(th_positions *p, th_module *model, const char *name, th_position_kind kind, int64_t width);
/* Checks that the tokens are indices (B, T) with T <= p->length, and that positions are indices (T) or (B, T), or NULL.
 * what: "tokens", for the message. */
th_status th_positions_check(const th_positions *p, const th_module *model, const char *what, th_tensor *tokens,
                             th_tensor *positions);
/* Returns x (B, T, E) plus the embeddings of positions (T) or (B, T). NULL: 0 .. T - 1. */
th_tensor *th_positions_apply(const th_positions *p, th_tensor *x, th_tensor *positions);
/* Returns the position of each token in its document, int64 of the shape of documents, (T) or (B, T)
 * (th_mask.documents). NULL with the error pending. */
th_tensor *th_positions_in_documents(const th_module *model, th_tensor *documents);
/* Returns row rows[b] of each sequence of x (B, T, E): (B, E). Returns x if rows is NULL. */
th_tensor *th_select_rows(th_tensor *x, th_tensor *rows);

#endif
