/* One vector for each sequence: pools the hidden states of an encoder (tapehead/language_model.h), as
 * sentence-transformers does. B batch, T length, E width. */
#ifndef TAPEHEAD_POOLING_H
#define TAPEHEAD_POOLING_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* How the hidden states x[0 .. n-1] of a sequence of n tokens become one vector. */
typedef enum th_pooling_kind {
    TH_POOL_CLS,              /* x[0] */
    TH_POOL_MEAN,             /* sum_t x[t] / n */
    TH_POOL_MAX,              /* max_t x[t], element by element */
    TH_POOL_MEAN_SQRT_LENGTH, /* sum_t x[t] / sqrt(n) */
    TH_POOL_WEIGHTED_MEAN,    /* sum_t (t + 1) x[t] / sum_t (t + 1) */
    TH_POOL_LAST              /* x[n - 1] */
} th_pooling_kind;

/* Pools x (B, T, E) -> (B, E). lengths (B) int32/int64: the number n of tokens in each sequence, in [1, T]. The rows
 * behind them are padding: they must be finite, have no effect and get no gradient. NULL: T. Errors: TH_ERROR_SHAPE,
 * TH_ERROR_TYPE, TH_ERROR_INDEX for a length outside [1, T], TH_ERROR_ARGUMENT for an unknown kind. */
TH_API th_tensor *th_pooling(th_tensor *x, th_tensor *lengths, th_pooling_kind kind);

/* Divides each row by its length: x / sqrt(sum_e x[e]^2 + 1e-24), (N, E) -> (N, E). */
TH_API th_tensor *th_unit_length(th_tensor *x);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_pooling(...) TH_AT(th_pooling(__VA_ARGS__))
#define th_unit_length(...) TH_AT(th_unit_length(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
