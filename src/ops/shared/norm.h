/* Normalization of rows along the last axis, for layer_norm and rms_norm. Inputs: x (N, E), weight (E) or NULL, bias
 * (E) or NULL. Outputs: y (N, E) and, for backward only, saved numbers of each row. */
#ifndef TH_OPS_SHARED_NORM_H
#define TH_OPS_SHARED_NORM_H

#include "ops/shared/rows.h"
#include "tapehead/ops.h"

enum { TH_NORM_X, TH_NORM_WEIGHT, TH_NORM_BIAS };

typedef struct th_norm_attributes {
    double eps; /* 0 means 1e-5, which the shape rule then writes here */
} th_norm_attributes;

/* The plan of a call: the rows, and offsets of memory for weight and bias. copy: a contiguous copy, if one is needed.
 * sums: the partial sums of the gradient. */
typedef struct th_norm_rows {
    th_rows rows;
    size_t copy[TH_NORM_BIAS + 1], sums[TH_NORM_BIAS + 1];
} th_norm_rows;

/* The fields of a norm's descriptor except names, .shape and .samples. Arguments: the fields of a th_rows_operation. */
#define TH_NORM(...)                                                                                                   \
    .n_inputs = 3, .optional = TH_INPUT(TH_NORM_WEIGHT) | TH_INPUT(TH_NORM_BIAS), .n_outputs = 2,                      \
    .attributes_size = sizeof(th_norm_attributes), .flags = TH_OP_RECOMPUTE,                                           \
    .saves = TH_INPUT(TH_NORM_X) | TH_OUTPUT(1), .saves_for = {[TH_NORM_X] = TH_INPUT(TH_NORM_WEIGHT)},                \
    .forward = th_norm_forward, .backward = th_norm_backward, .plan = th_norm_plan, .plan_size = sizeof(th_norm_rows), \
    .kernel = &(const th_rows_operation)                                                                               \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

th_tensor *th_norm_apply(const th_op *op, th_tensor *x, const th_norm_options *options);
/* The shape rule. n_saved: the number of saved numbers of each row. */
th_status th_norm_shape(th_call *call, int n_saved);
void th_norm_plan(const th_call *call, bool backward, void *plan);
void th_norm_forward(const th_call *call);
void th_norm_backward(const th_call *call);

#endif
