/* Scaled dot-product attention, fused: value and gradients over strided memory, float32 and float64.
 *
 *     O = dropout(softmax(cap(scale Q Kᵀ) + alibi + mask)) V
 *
 * It is computed in tiles, a block of queries by a block of keys (Rabe & Staats 2021, Dao et al. 2022): nothing of size
 * T x S is stored. The forward saves O and the log-sum-exp of each row; the backward recomputes the scores.
 *
 * The letters of matrices (X, S, A, P, O and their gradients) are those of ops/scaled_dot_product_attention.c. Sizes: N
 * leading dimensions (an index over them is one head of one example), T queries, S keys, D width of queries and keys,
 * Dv width of values.
 *
 * The bits do not depend on the number of threads, the batch, the instruction set with fused multiply-add, or the
 * numbers at masked (query, key) pairs. A query without visible keys has output 0, log-sum-exp -inf and gradients of
 * exactly 0. NaN and infinity at visible pairs follow IEEE arithmetic. Nothing here checks, allocates or fails. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_H
#define TH_KERNELS_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/machine/machine.h"
#include "kernels/random/philox.h"
#include "kernels/rows/visible.h"

enum { TH_ATTENTION_DIMS = 7 };

/* An operand: element (n, i, j) is data[n · leading + i row + j column]. Strides count elements. A stride of 0 repeats;
 * an output has no stride of 0, unless its comment says that it is a sum. */
typedef struct th_attention_array {
    void *data; /* NULL: not given */
    int64_t leading[TH_ATTENTION_DIMS], row, column;
} th_attention_array;

/* Fields that are not needed are zero: no mask, no dropout, no output. */
typedef struct th_attention {
    int dims; /* the leading dimensions N */
    int64_t size[TH_ATTENTION_DIMS];
    bool grouped; /* the last leading dimension is a group of heads that share k and v. In it the strides of k, v,
                     k_gradient and v_gradient are 0; the gradients are sums over the group, in order */
    int64_t queries, keys, width, value_width; /* T, S, D, Dv */
    double scale;
    double soft_cap;                /* cap(x) = soft_cap tanh(x / soft_cap); 0: cap(x) = x */
    th_attention_array q;           /* (N, T, D) */
    th_attention_array k;           /* (N, S, D) */
    th_attention_array v;           /* (N, S, Dv) */
    th_attention_array o;           /* (N, T, Dv), written by the forward */
    th_attention_array log_sum_exp; /* (N, T), written by the forward; optional */

    /* A pair is visible if all of these permit it (visible.h). */
    th_band band;
    th_attention_array positions; /* (N, T) int32 or int64: positions of queries, instead of the band's */
    bool positions_64;
    th_attention_array valid_lengths; /* (N, T) int32 or int64: keys from here on are masked */
    bool valid_lengths_64;
    th_attention_array keep;     /* (N, T, S) bool: false masks */
    th_attention_array additive; /* (N, T, S) added to the scores; only -inf masks */

    th_attention_array alibi; /* (N) slopes, row and column 0: adds -slope |key - position of the query| */

    /* Dropout of the weights. The row of a weight is the index of (n, t) in row-major order, its column is s. A problem
     * may be cut from a larger one: then rows and columns count in the larger one, whose T is rows_of_head (0: T). */
    bool drops;
    th_dropout_mask dropout;
    int64_t rows_of_head, first_row, first_column;

    /* Backward. A missing cotangent counts as 0; a missing gradient is not computed. */
    th_attention_array o_gradient;           /* (N, T, Dv) */
    th_attention_array log_sum_exp_gradient; /* (N, T) */
    th_attention_array q_gradient, k_gradient, v_gradient;
    bool wants_q;                         /* q_gradient exists, or will when this runs: plan its workspace */
    th_attention_array additive_gradient; /* a stride of 0: the sum along that dimension, in order */
    th_attention_array alibi_gradient;    /* likewise */
    bool add_q, add_k, add_v, add_additive, add_alibi; /* add to the gradient instead of overwriting it */
} th_attention;

/* These two return the bytes of workspace (64-byte aligned) that the functions below need for this problem and team, or
 * SIZE_MAX if a size_t cannot hold them. They read only sizes and flags. */
size_t th_attention_forward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads);
size_t th_attention_backward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads);

/* Computes o and log_sum_exp. */
void th_attention_forward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                          void *workspace);

/* Computes the gradients from q, k, v, o, log_sum_exp and the cotangents. */
void th_attention_backward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                           void *workspace);

#endif
