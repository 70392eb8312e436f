/* Attributes, shape rules and samples of operations along one axis (softmax) and of reductions over a set of axes
 * (sum). */
#ifndef TH_OPS_SHARED_AXES_H
#define TH_OPS_SHARED_AXES_H

#include <stddef.h>

#include "tapehead/op.h"
#include "tapehead/ops.h"

/* Returns the set of axes: bit i is set if it contains axis i. The attributes of both kinds start with this set,
 * which the shape rule computes. */
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

/* Checks that input 0 is floating and the axis exists, and sets attributes->along. */
th_status th_axis_check(th_call *call);
/* A shape rule: calls th_axis_check, and declares output 0 with the shape of input 0. */
th_status th_axis_shape(th_call *call);
extern const th_sample th_axis_samples[];

/* Returns an array with the first element of each line of `array` that belongs to a line of y. A line is the elements along
 * the axis. */
th_array th_line_starts(const th_array *array, const th_array *y, int axis);

/* -- reductions over a set of axes -- */

typedef struct th_reduction {
    uint32_t along;
    bool keep_axes;
    double correction; /* variance only */
    th_shape axes;     /* as the caller gave them; no dimensions: all axes */
} th_reduction;
_Static_assert(offsetof(th_reduction, along) == 0, "th_along reads it there");

th_tensor *th_reduction_apply(const th_op *op, th_tensor *x, th_shape axes, const th_reduce_options *options);
/* A shape rule: checks that input 0 is floating and that each axis exists and is given once; declares output 0. */
th_status th_reduction_shape(th_call *call);
extern const th_sample th_reduction_samples[];

/* Declares output 0: input 0 without the axes, or with size 1 for each. */
void th_reduction_output(th_call *call, bool keep_axes, th_dtype dtype);
/* Returns the number of elements that are reduced to each result. */
int64_t th_reduction_count(const th_call *call);
/* Checks that this number is not 0. */
th_status th_reduction_has_largest(th_call *call);
/* Returns output 0, or its gradient, with the dimensions of input 0; reduced axes have size 1. */
th_array th_reduction_with_axes(const th_call *call, const th_array *reduced);

/* In .plan: reserves scratch memory for th_reduction_sum and returns its offset. */
size_t th_reduction_plan_sum(const th_call *call);
/* Sums input 0 over the axes into output 0. */
void th_reduction_sum(const th_call *call, size_t offset);

#endif
