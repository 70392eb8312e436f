/* gather: elements picked along one axis, an index for each element of the result. Repeated indices are legal: backward
 * adds. */
#include <string.h>

#include "ops/shared/indices.h"
#include "ops/shared/scratch.h"
#include "ops/shared/walk.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

typedef struct gather_attributes {
    int32_t axis;
} gather_attributes;

static th_status gather_shape(th_call *call)
{
    gather_attributes *attributes = th_call_attributes(call);
    const th_array *x = &call->input[0], *index = &call->input[1];
    int axis = attributes->axis;
    if (th_call_index_type(call, 1))
        return TH_ERROR_TYPE;
    if (th_call_axis(call, &axis, x->ndim))
        return TH_ERROR_SHAPE;
    attributes->axis = axis;
    bool fits = index->ndim == x->ndim;
    for (int i = 0; i < x->ndim && fits; i++)
        fits = i == axis || index->size[i] <= x->size[i];
    if (!fits)
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the index, %s, is larger than x, %s, on an axis other than %d, or has other dimensions",
                            TH_TEXT(index), TH_TEXT(x), axis);
    th_call_output(call, 0, x->dtype, index->ndim, index->size, x->axes);
    return TH_OK;
}

/* The lines along the axis: independent of each other, forward and backward, so that they can be shared out among
 * threads. */
typedef struct gather_lines {
    const th_kernels *kernels;
    size_t element;
    th_walk walk;              /* over the lines. Operands: 0 the indices, 1 x or dx, 2 y or dy */
    int64_t length, stride[3]; /* along the axis */
    const int64_t *index;
    char *x, *y;
} gather_lines;

static gather_lines lines_of(const th_call *call, const th_array *x, const th_array *y, const int64_t *index)
{
    const int axis = ((const gather_attributes *)call->attributes)->axis;
    gather_lines lines = {.kernels = th_context_kernels(call->ctx, x->dtype),
                          .element = th_dtype_size(x->dtype),
                          .length = y->size[axis],
                          .index = index,
                          .x = x->data,
                          .y = y->data};
    int64_t index_stride[TH_MAX_DIMS];
    th_contiguous_strides(y->ndim, y->size, index_stride);
    const int64_t *const stride[3] = {index_stride, x->stride, y->stride};
    for (int i = 0; i < y->ndim; i++)
        if (i != axis)
            lines.walk.size[lines.walk.ndim++] = y->size[i];
    for (int o = 0; o < 3; o++) {
        lines.stride[o] = stride[o][axis];
        for (int i = 0, to = 0; i < y->ndim; i++)
            if (i != axis)
                lines.walk.stride[o][to++] = stride[o][i];
    }
    return lines;
}

static inline void take_elements(const gather_lines *lines, size_t element, const int64_t *index, const char *x,
                                 char *y)
{
    const int64_t bytes = (int64_t)element;
    for (int64_t j = 0; j < lines->length; j++)
        memcpy(y + j * lines->stride[2] * bytes, x + index[j * lines->stride[0]] * lines->stride[1] * bytes, element);
}

static void take_lines(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const gather_lines *lines = shared;
    th_walk walk = lines->walk;
    th_walk_seek(&walk, first);
    for (int64_t i = first; i < end; i++, th_walk_next(&walk)) {
        const int64_t *index = lines->index + walk.offset[0];
        const char *x = lines->x + walk.offset[1] * (int64_t)lines->element;
        char *y = lines->y + walk.offset[2] * (int64_t)lines->element;
        switch (lines->element) { /* constant sizes become single moves */
        case 1:
            take_elements(lines, 1, index, x, y);
            break;
        case 4:
            take_elements(lines, 4, index, x, y);
            break;
        case 8:
            take_elements(lines, 8, index, x, y);
            break;
        default:
            take_elements(lines, lines->element, index, x, y);
            break;
        }
    }
}

static void add_lines(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const gather_lines *lines = shared;
    th_walk walk = lines->walk;
    th_walk_seek(&walk, first);
    for (int64_t i = first; i < end; i++, th_walk_next(&walk))
        lines->kernels->scatter_add(lines->length, lines->index + walk.offset[0], lines->stride[0],
                                    lines->y + walk.offset[2] * (int64_t)lines->element, lines->stride[2],
                                    lines->x + walk.offset[1] * (int64_t)lines->element, lines->stride[1]);
}

static size_t gather_scratch(const th_call *call, bool backward)
{
    (void)backward;
    return th_scratch_add(0, th_array_numel(&call->input[1]), sizeof(int64_t));
}

static void gather_forward(const th_call *call)
{
    int64_t *index = call->scratch;
    th_indices_read(call, 1, index);
    if (!th_indices_check(call, 1, "index", call->input[0].size[((const gather_attributes *)call->attributes)->axis],
                          index))
        return;
    gather_lines lines = lines_of(call, &call->input[0], &call->output[0], index);
    if (th_array_numel(&call->output[0]) > 0)
        th_for_rows(call->ctx, th_walk_count(&lines.walk), lines.length, take_lines, &lines);
}

/* y_j = x_{index_j}:  dx_i = sum over the j with index_j = i of dy_j, in the order of j */
static void gather_backward(const th_call *call)
{
    int64_t *index = call->scratch;
    th_indices_read(call, 1, index);
    if (!call->add[0])
        th_fill_array(call->ctx, &call->input_gradient[0], 0);
    gather_lines lines = lines_of(call, &call->input_gradient[0], &call->output_gradient[0], index);
    if (th_array_numel(&call->output_gradient[0]) > 0)
        th_for_rows(call->ctx, th_walk_count(&lines.walk), lines.length, add_lines, &lines);
}

static const th_sample gather_samples[] = {
    {"columns",
     &(gather_attributes){1},
     2,
     {{.shape = {2, {2, 3}}}, {.shape = {2, {2, 4}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {"fewer rows",
     &(gather_attributes){-1},
     2,
     {{.shape = {2, {3, 3}}}, {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {"middle axis",
     &(gather_attributes){1},
     2,
     {{.shape = {3, {2, 3, 2}}}, {.shape = {3, {2, 2, 2}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {.name = NULL},
};

const th_op th_op_gather = {
    .name = "gather",
    .value = "y[.., j, ..] = x[.., index[.., j, ..], ..]",
    .gradient = "dx[.., index[.., j, ..], ..] += dy[.., j, ..]",
    .n_inputs = 2,
    .attributes_size = sizeof(gather_attributes),
    .saves = TH_SAVE_INPUT(1),
    .shape = gather_shape,
    .forward = gather_forward,
    .backward = gather_backward,
    .scratch = gather_scratch,
    .samples = gather_samples,
};

th_tensor *(th_gather)(th_tensor *x, int axis, th_tensor *index)
{
    return th_apply(&th_op_gather, &(gather_attributes){axis}, x, index);
}
