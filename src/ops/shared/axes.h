/* Along which axes an operation goes: attributes, shape rules and samples of those along one axis (softmax) and of the
 * reductions over a set of axes (sum). */
#ifndef TH_OPS_SHARED_AXES_H
#define TH_OPS_SHARED_AXES_H

#include <stddef.h>

#include "tapehead/op.h"
#include "tapehead/ops.h"

/* The attributes of both kinds begin with the set of axes, which the shape rule completes: bit i is set when axis i is
 * one of them. */
static inline uint32_t th_along(const th_call *call)
{
    return *(const uint32_t *)call->attributes;
}

/* -- one axis -- */

typedef struct th_axis {
    uint32_t along;
    int axis; /* counted from the end when negative */
} th_axis;
_Static_assert(offsetof(th_axis, along) == 0, "th_along reads it there");

/* Input 0 is floating, and the axis exists. */
th_status th_axis_check(th_call *call);
/* The shape rule that checks this and declares output 0 of input 0's shape. */
th_status th_axis_shape(th_call *call);
extern const th_sample th_axis_samples[];

/* -- reductions over a set of axes -- */

typedef struct th_reduction {
    uint32_t along;
    bool keep_axes;
    double correction; /* variance only */
    th_shape axes;     /* as the caller gave them; no dimensions: all axes */
} th_reduction;
_Static_assert(offsetof(th_reduction, along) == 0, "th_along reads it there");

th_tensor *th_reduction_apply(const th_op *op, th_tensor *x, th_shape axes, const th_reduce_options *options);
/* The shape rule: input 0 is floating, the axes exist and none is given twice; declares output 0. */
th_status th_reduction_shape(th_call *call);
extern const th_sample th_reduction_samples[];

/* Declares output 0: input 0 without the axes, or with size 1 for each. */
void th_reduction_output(th_call *call, bool keep_axes, th_dtype dtype);
/* The number of elements that go into each result. */
int64_t th_reduction_count(const th_call *call);
/* Checks that there are some. */
th_status th_reduction_has_largest(th_call *call);
/* output 0 (or its gradient) with input 0's number of dimensions: reduced axes have size 1. */
th_array th_reduction_saved(const th_call *call, const th_array *reduced);

/* The sum over the axes, for sum and mean. In .plan: reserves scratch memory and returns its place. */
size_t th_reduction_plan_sum(const th_call *call);
void th_reduction_sum(const th_call *call, size_t place);

#endif
