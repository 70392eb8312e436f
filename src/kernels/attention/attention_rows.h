/* What the drivers of attention and its row kernels (vector/attention*.c) agree on: rows of scores in a buffer, and
 * what is hidden in them.
 *
 * A hidden weight is stored as -0. It is a zero in every product, and no visible weight is ever written so (exp is not
 * negative): where a zero is not enough, because what it is multiplied with is NaN or infinite, hidden pairs are still
 * known. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_ROWS_H
#define TH_KERNELS_ATTENTION_ATTENTION_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/random/philox.h"
#include "kernels/rows/visible.h"

/* Queries of one head against consecutive keys; column x of the buffer is key x of those. */
typedef struct th_attention_rows {
    int64_t rows;
    int64_t begin, end;       /* the columns worked on: multiples of TH_LANES */
    const th_key_range *keys; /* (rows): columns outside it are hidden; begin <= first < past <= end, or it is empty */
    double scale;
    double soft_cap;   /* logits are soft_cap tanh(score scale / soft_cap) before anything is added; 0: score scale */
    const void *slope; /* of what is taken off for each key between a row's place and the column; NULL: nothing */
    const int64_t *place; /* (rows), columns as `keys` counts them; read if there is a slope */
    const bool *keep;     /* at row 0, column 0; NULL: none */
    int64_t keep_row, keep_column;
    const void *additive; /* likewise */
    int64_t additive_row, additive_column;
    const th_dropout_mask *dropout;      /* NULL: none */
    int64_t dropout_row, dropout_column; /* of row 0, column 0 */
    void *scores;                        /* (rows, stride): scores before scaling, which the weights replace */
    int64_t stride;
} th_attention_rows;

#endif
