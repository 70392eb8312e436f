/* repeat: x tiled along its axes and along new leading ones, as numpy.tile. A copy; expand repeats axes of size 1
 * without one. */
#include "ops/shared/letters.h"
#include "ops/shared/walk.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

typedef struct repeat_attributes {
    th_shape times; /* aligned with x at the last axis */
} repeat_attributes;

static th_status repeat_shape(th_call *call)
{
    const repeat_attributes *attributes = call->attributes;
    const th_shape *times = &attributes->times;
    const th_array *x = &call->input[0];
    if (times->ndim < 0 || times->ndim > TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "a tensor has 0 to %d dimensions, not %d", TH_MAX_DIMS, times->ndim);
    const int ndim = times->ndim > x->ndim ? times->ndim : x->ndim;
    const int new_axes = ndim - x->ndim, without_times = ndim - times->ndim;
    int64_t size[TH_MAX_DIMS], numel;
    char letters[TH_MAX_DIMS + 1];
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

/* y cut into the axes (tile, element) for every axis of x. That may be more axes than an array has: those before the
 * last TH_MAX_DIMS are walked, one array operation for each index. */
typedef struct tiling {
    th_walk outer;                    /* operand 0: x, operand 1: y */
    bool outer_is_tile[TH_WALK_DIMS]; /* walks over tiles, where x stands still */
    th_array x, y;                    /* the inner axes; tile axes of x have size 1 */
} tiling;

static tiling tiling_of(const th_array *x, const th_array *y)
{
    int64_t size[2 * TH_MAX_DIMS], x_stride[2 * TH_MAX_DIMS], y_stride[2 * TH_MAX_DIMS];
    bool tile[2 * TH_MAX_DIMS];
    int count = 0;
    for (int i = 0; i < y->ndim; i++) {
        const int own = i - (y->ndim - x->ndim);
        const int64_t length = own >= 0 ? x->size[own] : 1;
        if (length == 0 || y->size[i] != length) {
            size[count] = length ? y->size[i] / length : 0;
            x_stride[count] = 0;
            y_stride[count] = length * y->stride[i];
            tile[count++] = true;
        }
        if (length != 1) {
            size[count] = length;
            x_stride[count] = x->stride[own];
            y_stride[count] = y->stride[i];
            tile[count++] = false;
        }
    }
    const int outer = count > TH_MAX_DIMS ? count - TH_MAX_DIMS : 0;
    tiling t = {.outer.ndim = outer, .x = *x, .y = *y};
    t.x.ndim = t.y.ndim = count - outer;
    for (int i = 0; i < count; i++) {
        if (i < outer) {
            t.outer.size[i] = size[i];
            t.outer.stride[0][i] = x_stride[i];
            t.outer.stride[1][i] = y_stride[i];
            t.outer_is_tile[i] = tile[i];
        } else {
            t.x.size[i - outer] = tile[i] ? 1 : size[i];
            t.y.size[i - outer] = size[i];
            t.x.stride[i - outer] = x_stride[i];
            t.y.stride[i - outer] = y_stride[i];
        }
    }
    return t;
}

/* The arrays of the present outer index. */
static th_array at(const th_array *array, int64_t offset)
{
    th_array moved = *array;
    moved.data = (char *)array->data + offset * (int64_t)th_dtype_size(array->dtype);
    return moved;
}

static void repeat_forward(const th_call *call)
{
    if (th_array_numel(&call->output[0]) == 0)
        return;
    tiling t = tiling_of(&call->input[0], &call->output[0]);
    for (int64_t i = 0, count = th_walk_count(&t.outer); i < count; i++, th_walk_next(&t.outer)) {
        const th_array x = at(&t.x, t.outer.offset[0]), y = at(&t.y, t.outer.offset[1]);
        th_copy_array(call->ctx, &y, &x, false);
    }
}

/* Whether the tiles at the present outer index are added to those before. */
static bool adds(const th_call *call, const tiling *t)
{
    bool add = call->add[0];
    for (int axis = 0; axis < t->outer.ndim; axis++)
        add |= t->outer_is_tile[axis] && t->outer.index[axis] > 0;
    return add;
}

/* y[tile, i] = x[i]:  dx[i] = sum_tile dy[tile, i] */
static void repeat_backward(const th_call *call)
{
    if (th_array_numel(&call->output_gradient[0]) == 0) { /* a sum over nothing */
        if (!call->add[0])
            th_fill_array(call->ctx, &call->input_gradient[0], 0);
        return;
    }
    tiling t = tiling_of(&call->input_gradient[0], &call->output_gradient[0]);
    for (int64_t i = 0, count = th_walk_count(&t.outer); i < count; i++, th_walk_next(&t.outer)) {
        const th_array dx = at(&t.x, t.outer.offset[0]), dy = at(&t.y, t.outer.offset[1]);
        th_sum_within(call->ctx, &dx, &dy, adds(call, &t), call->scratch);
    }
}

static size_t repeat_scratch(const th_call *call, bool backward)
{
    if (!backward || th_array_numel(&call->output_gradient[0]) == 0)
        return 0;
    const tiling t = tiling_of(&call->input_gradient[0], &call->output_gradient[0]);
    return th_sum_scratch(&t.x, &t.y, true);
}

static const th_sample repeat_samples[] = {
    {"rows", &(repeat_attributes){{2, {2, 1}}}, 1, {{.shape = {2, {2, 3}}}}, 0},
    {"both axes", &(repeat_attributes){{2, {2, 3}}}, 1, {{.shape = {2, {3, 2}}}}, 0},
    {"new axes", &(repeat_attributes){{3, {2, 1, 2}}}, 1, {{.shape = {1, {3}}}}, 0},
    {"fewer times than axes", &(repeat_attributes){{1, {2}}}, 1, {{.shape = {2, {2, 2}}}}, 0},
    {"more than eight axes", &(repeat_attributes){{5, {2, 2, 2, 2, 2}}}, 1, {{.shape = {5, {2, 1, 2, 2, 2}}}}, 0},
    {"scalar", &(repeat_attributes){{1, {3}}}, 1, {{.shape = {0, {0}}}}, 0},
    {"no times", &(repeat_attributes){{2, {0, 2}}}, 1, {{.shape = {2, {2, 2}}}}, 0},
    {.name = NULL},
};

const th_op th_op_repeat = {
    .name = "repeat",
    .value = "y = x, tiled",
    .gradient = "dx = dy summed over the tiles",
    .n_inputs = 1,
    .attributes_size = sizeof(repeat_attributes),
    .shape = repeat_shape,
    .forward = repeat_forward,
    .backward = repeat_backward,
    .scratch = repeat_scratch,
    .samples = repeat_samples,
};

th_tensor *(th_repeat)(th_tensor *x, th_shape times)
{
    return th_apply(&th_op_repeat, &(repeat_attributes){times}, x);
}
