/* The interface between the drivers of attention and its row kernels (vector/attention*.c): rows of scores in a buffer,
 * and their masks.
 *
 * A masked weight is stored as -0. It is a zero in every product, and no visible weight is -0, because exp is not
 * negative. So -0 marks masked pairs where a zero is not enough: in a product with NaN or infinity. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_ROWS_H
#define TH_KERNELS_ATTENTION_ATTENTION_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/random/philox.h"
#include "kernels/rows/visible.h"

/* Scores of some queries of one head (rows) by consecutive keys (columns of the buffer). docs/attention-backward.md
 * explains the letters. */
typedef struct th_attention_rows {
    int64_t rows;
    int64_t begin, end;       /* the columns to compute: multiples of TH_LANES */
    const th_key_range *keys; /* (rows): other columns are masked; begin <= first < past <= end, or empty */
    double scale;
    double soft_cap;         /* S = soft_cap tanh(X / soft_cap) before anything is added; 0: S = X */
    const void *slope;       /* subtracted, times the distance between a row's position and the column; NULL: none */
    const int64_t *position; /* (rows), counted as columns; read only with a slope */
    const bool *keep;        /* at row 0, column 0; NULL: none */
    int64_t keep_row, keep_column;
    const void *additive; /* at row 0, column 0; NULL: none */
    int64_t additive_row, additive_column;
    const th_dropout_mask *dropout;      /* NULL: none */
    int64_t dropout_row, dropout_column; /* of row 0, column 0 */
    void *scores;                        /* (rows, stride): Q Kᵀ, which S and then the weights replace */
    int64_t stride;
} th_attention_rows;

#endif
