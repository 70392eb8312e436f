/* repeat: y = x tiled along its axes and along new leading ones, as numpy.tile. It copies; expand repeats axes of
 * size 1 without a copy. */
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

static th_status repeat_shape(th_call *call)
{
    const th_repeat_attributes *attributes = call->attributes;
    const th_shape *times = &attributes->times;
    const th_array *x = &call->input[0];
    if (times->ndim < 0 || times->ndim > TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "a tensor has 0 to %d dimensions, not %d", TH_MAX_DIMS, times->ndim);
    const int ndim = times->ndim > x->ndim ? times->ndim : x->ndim;
    const int new_axes = ndim - x->ndim, without_times = ndim - times->ndim;
    int64_t size[TH_MAX_DIMS], numel;
    th_axis_letters letters;
    for (int i = 0; i < ndim; i++) {
        const int64_t from = i < new_axes ? 1 : x->size[i - new_axes];
        const int64_t factor = i < without_times ? 1 : times->size[i - without_times];
        if (factor < 0)
            return th_call_fail(call, TH_ERROR_SHAPE, "%s repeats an axis a negative number of times",
                                TH_SIZES_TEXT(times->ndim, times->size));
        if (!th_checked_multiply(from, factor, &size[i]))
            return th_call_fail(call, TH_ERROR_SHAPE, "x, %s, repeated %s times overflows", TH_TEXT(x),
                                TH_SIZES_TEXT(times->ndim, times->size));
        letters[i] = i < new_axes ? ' ' : th_letter(x, i - new_axes);
    }
    size_t bytes;
    if (!th_checked_numel(ndim, size, &numel) || !th_checked_bytes(numel, th_dtype_size(x->dtype), &bytes))
        return th_call_fail(call, TH_ERROR_SHAPE, "x, %s, repeated %s times overflows", TH_TEXT(x),
                            TH_SIZES_TEXT(times->ndim, times->size));
    th_call_output(call, 0, x->dtype, ndim, size, th_letters(letters, ndim));
    return TH_OK;
}

typedef struct tile_axis {
    int64_t size, x, y; /* strides, elements */
    bool tile;          /* the axis repeats x: its stride in x is 0 */
} tile_axis;

/* Describes y with two axes (tile, element) for every axis of x. An array cannot have so many. So the arrays x and y
 * have only the last TH_MAX_DIMS of these axes; in x, tile axes have size 1. for_tiles iterates over the other axes, in
 * order, and runs one array operation for each index. */
typedef struct plan {
    tile_axis axis[2 * TH_MAX_DIMS];
    int outer; /* the number of axes before the arrays' axes */
    th_array x, y;
    size_t sums; /* in backward: offset of partial sums */
} plan;

static plan tiling_of(const th_array *x, const th_array *y)
{
    plan p = {.x = *x, .y = *y};
    int count = 0;
    for (int i = 0; i < y->ndim; i++) {
        const int x_axis = i - (y->ndim - x->ndim);
        const int64_t length = x_axis >= 0 ? x->size[x_axis] : 1;
        if (length == 0 || y->size[i] != length)
            p.axis[count++] =
                (tile_axis){.size = length ? y->size[i] / length : 0, .y = length * y->stride[i], .tile = true};
        if (length != 1)
            p.axis[count++] = (tile_axis){.size = length, .x = x->stride[x_axis], .y = y->stride[i]};
    }
    p.outer = count > TH_MAX_DIMS ? count - TH_MAX_DIMS : 0;
    p.x.ndim = p.y.ndim = count - p.outer;
    for (int i = 0; i < p.x.ndim; i++) {
        const tile_axis *axis = &p.axis[p.outer + i];
        p.x.size[i] = axis->tile ? 1 : axis->size;
        p.y.size[i] = axis->size;
        p.x.stride[i] = axis->x;
        p.y.stride[i] = axis->y;
    }
    return p;
}

static void repeat_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    *p = backward ? tiling_of(&call->input_gradient[0], &call->output_gradient[0])
                  : tiling_of(&call->input[0], &call->output[0]);
    if (backward)
        p->sums = th_plan_scratch(call, 1, th_sum_scratch_bytes(&p->x, &p->y, true));
}

typedef void tile_task(const th_call *call, const th_array *x, const th_array *y, bool add);

/* Runs the array operation for every index of the outer axes, from axis `outer` on. The caller has moved x and y along
 * the axes before it. add: earlier tiles have written the destination. */
static void for_tiles(const th_call *call, int outer, const th_array *x, const th_array *y, bool add, tile_task *task)
{
    const plan *p = call->plan;
    if (outer == p->outer) {
        task(call, x, y, add);
        return;
    }
    const tile_axis *axis = &p->axis[outer];
    const int64_t element = (int64_t)th_dtype_size(x->dtype);
    for (int64_t i = 0; i < axis->size; i++) {
        th_array x_at = *x, y_at = *y;
        x_at.data = (char *)x->data + i * axis->x * element;
        y_at.data = (char *)y->data + i * axis->y * element;
        for_tiles(call, outer + 1, &x_at, &y_at, add || (axis->tile && i > 0), task);
    }
}

static void copy_tile(const th_call *call, const th_array *x, const th_array *y, bool add)
{
    (void)add;
    th_copy_array(call->ctx, y, x, false);
}

static void repeat_forward(const th_call *call)
{
    const plan *p = call->plan;
    if (th_array_numel(&call->output[0]) > 0)
        for_tiles(call, 0, &p->x, &p->y, false, copy_tile);
}

static void sum_tile(const th_call *call, const th_array *dx, const th_array *dy, bool add)
{
    th_sum_with_scratch(call->ctx, dx, dy, add, th_call_scratch(call, ((const plan *)call->plan)->sums));
}

/* y[tile, i] = x[i]:  dx[i] = sum_tile dy[tile, i] */
static void repeat_backward(const th_call *call)
{
    const plan *p = call->plan;
    if (th_array_numel(&call->output_gradient[0]) > 0)
        for_tiles(call, 0, &p->x, &p->y, call->add[0], sum_tile);
    else if (!call->add[0]) /* an empty sum */
        th_fill_array(call->ctx, &call->input_gradient[0], 0);
}

static const th_sample repeat_samples[] = {
    {"rows", &(th_repeat_attributes){{2, {2, 1}}}, 1, {{.shape = {2, {2, 3}}}}, 0},
    {"both axes", &(th_repeat_attributes){{2, {2, 3}}}, 1, {{.shape = {2, {3, 2}}}}, 0},
    {"new axes", &(th_repeat_attributes){{3, {2, 1, 2}}}, 1, {{.shape = {1, {3}}}}, 0},
    {"fewer times than axes", &(th_repeat_attributes){{1, {2}}}, 1, {{.shape = {2, {2, 2}}}}, 0},
    {"more than eight axes", &(th_repeat_attributes){{5, {2, 2, 2, 2, 2}}}, 1, {{.shape = {5, {2, 1, 2, 2, 2}}}}, 0},
    {"scalar", &(th_repeat_attributes){{1, {3}}}, 1, {{.shape = {0, {0}}}}, 0},
    {"no times", &(th_repeat_attributes){{2, {0, 2}}}, 1, {{.shape = {2, {2, 2}}}}, 0},
    {.name = NULL},
};

const th_op th_op_repeat = {
    .name = "repeat",
    .value = "y = x, tiled",
    .gradient = "dx = dy summed over the tiles",
    .n_inputs = 1,
    .attributes_size = sizeof(th_repeat_attributes),
    .shape = repeat_shape,
    .forward = repeat_forward,
    .backward = repeat_backward,
    .plan = repeat_plan,
    .plan_size = sizeof(plan),
    .samples = repeat_samples,
};

th_tensor *th_repeat(th_tensor *x, th_shape times)
{
    return th_apply(&th_op_repeat, &(th_repeat_attributes){times}, x);
}
