/* The attribute, shape rule and computation that dropout and dropout_residual share. */
#ifndef TH_OPS_SHARED_DROP_H
#define TH_OPS_SHARED_DROP_H

#include "tapehead/op.h"

typedef struct th_drop_attributes {
    double p; /* the probability that an element becomes 0 */
} th_drop_attributes;

/* Checks p and input 0, declares output 0 with input 0's shape, and draws random numbers (th_call_draw). */
th_status th_drop_shape(th_call *call);

/* to = from * m + residual, where the call's random numbers choose m = 0 or 1 / (1 - p). residual may be NULL. All
 * arrays are contiguous and have one shape; `to` may be the memory of another. */
void th_drop(const th_call *call, const th_array *from, const th_array *residual, const th_array *to);

/* Returns whether dropout leaves x unchanged: p is 0, or the mode is evaluation. False for invalid arguments, which the
 * operation then rejects. */
bool th_drops_nothing(th_tensor *x, double p, const char *operation);

#endif
