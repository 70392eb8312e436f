/* Texts of a padded batch, packed into fewer rows, so that the layers compute little padding. B texts, T tokens of the
 * longest one, R rows of C tokens. */
#ifndef TH_NN_PACKED_ROWS_H
#define TH_NN_PACKED_ROWS_H

#include "tapehead/module.h"

typedef struct th_packed_rows {
    th_tensor *tokens, *types; /* (R, C); types is NULL without types */
    th_tensor *documents;      /* (R, C): the number of each token's text; padding is a document, too */
    th_tensor *places; /* (B, T): where each token is in the R C tokens; padding has the place of another token */
} th_packed_rows;

/* Packs the texts in their order, into rows of at most `longest` tokens, for a model of this width. tokens (B, T) are valid.
 * types may be NULL. Returns false with the error pending. Also returns false, without an error, if it would save too
 * little, in a shapes-only context, without memory for the order, and if types or lengths are not valid. */
bool th_pack_rows(const th_module *model, th_tensor *tokens, th_tensor *types, th_tensor *lengths, int64_t longest,
                  int64_t width, th_packed_rows *packed);
/* Returns the rows of x (R, C, E) at the places of a padded batch: (B, T, E). */
th_tensor *th_unpack_rows(th_tensor *x, th_tensor *places);

#endif
