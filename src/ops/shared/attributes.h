/* The attributes of operations that no other header of this folder describes. The exporters of the tape read them too.
 * scale, add_scalar and pow_scalar have a double; cross_entropy and dense_cross_entropy a th_cross_entropy_options. */
#ifndef TH_OPS_SHARED_ATTRIBUTES_H
#define TH_OPS_SHARED_ATTRIBUTES_H

#include "tapehead/ops.h"

typedef struct th_cast_attributes {
    int32_t dtype;
} th_cast_attributes;

typedef struct th_clamp_attributes {
    double low, high;
} th_clamp_attributes;

typedef struct th_expand_attributes {
    th_shape shape; /* -1 keeps a size */
} th_expand_attributes;

typedef struct th_gather_attributes {
    int axis;
} th_gather_attributes;

typedef struct th_masked_matmul_attributes {
    int32_t side; /* th_mask_side */
} th_masked_matmul_attributes;

typedef struct th_repeat_attributes {
    th_shape times; /* aligned with x at the last axis */
} th_repeat_attributes;

typedef struct th_reshape_attributes {
    th_shape shape; /* one size may be -1 */
} th_reshape_attributes;

typedef struct th_rotary_attributes {
    double base;   /* 0: 10000 */
    int64_t width; /* 0: all */
    int32_t pairing;
    th_rotary_scaling scaling;
} th_rotary_attributes;

typedef struct th_select_attributes {
    int axis;
    int64_t index; /* negative: from the end */
} th_select_attributes;

typedef struct th_slice_attributes {
    int axis;
    int64_t start, stop, step;
} th_slice_attributes;

typedef struct th_squeeze_attributes {
    int axis;
} th_squeeze_attributes;

typedef struct th_transpose_attributes {
    th_shape order; /* axis i of y is axis order[i] of x */
    bool swap;      /* exchange axes a and b instead of using order */
    int32_t a, b;
} th_transpose_attributes;

typedef struct th_unsqueeze_attributes {
    int axis; /* of the result */
} th_unsqueeze_attributes;

#endif
