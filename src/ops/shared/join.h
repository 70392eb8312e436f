/* What concat and stack share: tensors joined along an axis that they have, or that is new. Each is copied into its
 * part of the result, and its part of the gradient back. */
#ifndef TH_OPS_SHARED_JOIN_H
#define TH_OPS_SHARED_JOIN_H

#include "tapehead/op.h"

typedef struct th_join_attributes {
    int axis; /* of the result */
} th_join_attributes;

th_tensor *th_join_apply(const th_op *op, th_tensor *const *xs, int count, int axis);
/* Completes the axis, and checks that all inputs have one type and, but for a joined axis that is not new, one shape. */
th_status th_join_check(th_call *call, bool new_axis);
void th_join_forward(const th_call *call);
void th_join_backward(const th_call *call);

#endif
