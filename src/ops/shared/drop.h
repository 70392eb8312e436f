/* What the operations with dropout share: the attribute, its check, and the pass that drops. */
#ifndef TH_OPS_SHARED_DROP_H
#define TH_OPS_SHARED_DROP_H

#include "tapehead/op.h"

typedef struct th_drop_attributes {
    double p; /* with which an element becomes 0 */
} th_drop_attributes;

/* Checks p and input 0, declares output 0 of its shape, and draws. */
th_status th_drop_shape(th_call *call);

/* to = from * the call's multipliers, 0 or 1 / (1 - p), added to onto unless that is NULL. All are contiguous and of
 * one shape; `to` may be the memory of another. */
void th_drop(const th_call *call, const th_array *from, const th_array *onto, const th_array *to);

/* Whether nothing is dropped from x: p is 0, or this is evaluation. Not so where there is something to refuse. */
bool th_drop_is_idle(th_tensor *x, double p, const char *operation);

#endif
