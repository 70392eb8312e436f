/* Scaled dot-product attention, fused: value and gradients over strided memory, float32 and float64.
 *
 *     o = dropout(softmax(cap(scale q kᵀ) + alibi + mask)) v
 *
 * computed in tiles, a block of queries against a block of keys (Rabe & Staats 2021, Dao et al. 2022), so that nothing
 * of size T x S is ever stored. The forward keeps o and the log-sum-exp of each row; the backward recomputes the
 * scores. Nothing here checks, allocates or fails. Letters: N leading dimensions (an index is one head of one example),
 * T queries, S keys, D width of queries and keys, Dv width of values.
 *
 * What comes out depends on no number of threads, no batch, no instruction set with fused multiply-add, and not in one
 * bit on a hidden (query, key) pair, nor on a query without keys: that one gives output 0, log-sum-exp -inf and
 * gradients of exactly 0. NaN and infinity at a visible pair spread as IEEE arithmetic has it. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_H
#define TH_KERNELS_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/machine/machine.h"
#include "kernels/random/philox.h"
#include "kernels/rows/visible.h"

enum { TH_ATTENTION_DIMS = 7 };

/* An operand: element (n, i, j) is data[n · leading + i row + j column]. Strides count elements and may be anything; 0
 * repeats (not in what is written, except where the comment says that a sum goes there). */
typedef struct th_attention_array {
    void *data; /* NULL: not given */
    int64_t leading[TH_ATTENTION_DIMS], row, column;
} th_attention_array;

/* Zero in every field that is not needed: no mask, no dropout, nothing written. */
typedef struct th_attention {
    int dims; /* the leading dimensions N */
    int64_t size[TH_ATTENTION_DIMS];
    bool grouped; /* the last leading dimension is a group of heads that share k and v: their strides are 0 there, and
                     so are those of k_gradient and v_gradient, which are sums over it in order */
    int64_t queries, keys, width, value_width; /* T, S, D, Dv */
    double scale;
    double soft_cap;                /* cap(x) = soft_cap tanh(x / soft_cap); 0: cap(x) = x */
    th_attention_array q;           /* (N, T, D) */
    th_attention_array k;           /* (N, S, D) */
    th_attention_array v;           /* (N, S, Dv) */
    th_attention_array o;           /* (N, T, Dv), which the forward writes */
    th_attention_array log_sum_exp; /* (N, T), likewise; may be left out of the forward */

    /* A pair counts when all of this lets it (visible.h). */
    th_band band;
    th_attention_array positions; /* (N, T) int32 or int64: the queries' places, instead of the band's */
    bool positions_64;
    th_attention_array valid_lengths; /* (N, T) int32 or int64: keys from there on are hidden */
    bool valid_lengths_64;
    th_attention_array keep;     /* (N, T, S) bool: false hides */
    th_attention_array additive; /* (N, T, S) added to the scores: -inf hides, nothing else does */

    th_attention_array alibi; /* (N) slopes, row and column 0: -slope |key - place of the query| is added */

    bool drops; /* dropout on the weights; row: the index of (n, t) in row-major order, column: s */
    th_dropout_mask dropout;

    /* Backward. Of what is not given, the cotangents count as 0 and the gradients are not computed. */
    th_attention_array o_gradient;           /* (N, T, Dv) */
    th_attention_array log_sum_exp_gradient; /* (N, T) */
    th_attention_array q_gradient, k_gradient, v_gradient;
    bool wants_q;                         /* q_gradient is given, or will be when this is run: it takes workspace */
    th_attention_array additive_gradient; /* a stride of 0: the sum along that dimension goes there, in order */
    th_attention_array alibi_gradient;    /* likewise */
    bool add_q, add_k, add_v, add_additive, add_alibi; /* add to what is there */
} th_attention;

/* Bytes of workspace (64-byte aligned) that each of the following takes for this problem and team; SIZE_MAX when that
 * is more than a size_t holds. Only sizes and flags are looked at. */
size_t th_attention_forward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads);
size_t th_attention_backward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads);

/* o and log_sum_exp. */
void th_attention_forward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                          void *workspace);

/* The gradients, from q, k, v, o, log_sum_exp and the cotangents. */
void th_attention_backward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                           void *workspace);

#endif
