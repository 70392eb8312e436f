/* Broadcasting in shape rules whose inputs are not all floating (th_shape_elementwise is for those that are). */
#ifndef TH_OPS_SHARED_BROADCAST_H
#define TH_OPS_SHARED_BROADCAST_H

#include "tapehead/op.h"

/* Output 0: all inputs broadcast together, of this type, with the letters of the first input that names all its axes.
 */
static inline th_status th_broadcast_inputs(th_call *c, th_dtype dtype)
{
    th_array shape = c->input[0];
    for (int i = 1; i < c->n_inputs; i++) {
        const th_status status = th_call_broadcast(c, &shape, &c->input[i], &shape.ndim, shape.size);
        if (status)
            return status;
    }
    const char *axes = NULL;
    for (int i = c->n_inputs - 1; i >= 0; i--)
        if (c->input[i].ndim == shape.ndim && c->input[i].axes[0])
            axes = c->input[i].axes;
    th_call_output(c, 0, dtype, shape.ndim, shape.size, axes);
    return TH_OK;
}

#endif
