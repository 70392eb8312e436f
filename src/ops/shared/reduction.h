/* What the reductions over axes share: their attributes, their shape rule, and an output seen with the reduced axes of
 * size 1. */
#ifndef TH_OPS_SHARED_REDUCTION_H
#define TH_OPS_SHARED_REDUCTION_H

#include "tapehead/op.h"
#include "tapehead/ops.h"

typedef struct th_reduction {
    th_shape axes;     /* as the caller gave them; no dimensions: all axes */
    double correction; /* variance only */
    uint32_t along;    /* completed by the shape rule: bit i is set when axis i is reduced */
    bool keep_axes;
} th_reduction;

th_reduction th_reduction_of(th_shape axes, const th_reduce_options *options);
/* Input 0 is floating, the axes exist and none is given twice; declares output 0. */
th_status th_reduction_shape(th_call *call);
/* The number of elements that go into each result. */
int64_t th_reduction_count(const th_call *call);
/* output 0 (or its gradient) with input 0's number of dimensions: reduced axes have size 1. */
th_array th_reduction_kept(const th_call *call, const th_array *reduced);

#endif
