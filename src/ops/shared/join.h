/* Joining tensors along an existing axis (concat) or a new one (stack). Forward copies each input to its slice of the
 * result; backward copies this slice of the gradient back. */
#ifndef TH_OPS_SHARED_JOIN_H
#define TH_OPS_SHARED_JOIN_H

#include "tapehead/op.h"

typedef struct th_join_attributes {
    int axis; /* of the result */
} th_join_attributes;

th_tensor *th_join_apply(const th_op *op, th_tensor *const *xs, int count, int axis);
/* Makes the axis non-negative. Checks that all inputs have the same type and the same shape; sizes along an existing
 * axis to join may differ. */
th_status th_join_check(th_call *call, bool new_axis);
void th_join_forward(const th_call *call);
void th_join_backward(const th_call *call);

#endif
