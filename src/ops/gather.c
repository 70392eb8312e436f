/* gather: y[.., j, ..] = x[.., index[.., j, ..], ..] along one axis. Indices may repeat: backward adds. */
#include <string.h>

#include "ops/shared/attributes.h"
#include "ops/shared/axes.h"
#include "ops/shared/indices.h"
#include "tapehead/ops.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

static th_status gather_shape(th_call *call)
{
    th_gather_attributes *attributes = th_call_attributes(call);
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

/* A line is the elements along the axis. Lines are independent of each other, forward and backward, so threads share
 * them. Three arrays have such lines: y or dy, the indices, x or dx. */
enum { Y, INDEX, FROM, ARRAYS };

typedef struct gather_lines {
    const th_kernels *kernels;
    size_t element;
    th_iterator iterator;           /* over the lines */
    int64_t length, stride[ARRAYS]; /* along the axis, elements */
} gather_lines;

static void run_lines(const th_call *call, const th_array *x, const th_array *y, int64_t *index, th_rows_task *task)
{
    const int axis = ((const th_gather_attributes *)call->attributes)->axis;
    th_array indices = {.given = true, .data = index, .dtype = TH_INT64};
    th_compute_contiguous_strides(y->ndim, y->size, indices.stride);
    const th_array starts[ARRAYS] = {th_line_starts(y, y, axis), th_line_starts(&indices, y, axis),
                                     th_line_starts(x, y, axis)};
    gather_lines lines = {.kernels = th_context_kernels(call->ctx, x->dtype),
                          .element = th_dtype_size(x->dtype),
                          .length = y->size[axis],
                          .stride = {y->stride[axis], indices.stride[axis], x->stride[axis]}};
    if (lines.length > 0 &&
        th_iterator_build(&lines.iterator, &starts[Y], 2, (const th_array *const[]){&starts[INDEX], &starts[FROM]}))
        th_for_rows(call->ctx, lines.iterator.numel, lines.length, task, &lines);
}

static inline void copy_elements(const gather_lines *lines, size_t element, char *const *at)
{
    const int64_t bytes = (int64_t)element, *index = (const int64_t *)(const void *)at[INDEX];
    for (int64_t j = 0; j < lines->length; j++)
        memcpy(at[Y] + j * lines->stride[Y] * bytes,
               at[FROM] + index[j * lines->stride[INDEX]] * lines->stride[FROM] * bytes, element);
}

static void copy_lines(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const gather_lines *lines = shared;
    th_iterator_position position;
    th_iterator_seek(&lines->iterator, first, &position);
    for (int64_t i = first; i < end; i++, th_iterator_advance(&lines->iterator, 1, &position)) {
        if (lines->element == 4) /* constant sizes become single moves */
            copy_elements(lines, 4, position.address);
        else if (lines->element == 8)
            copy_elements(lines, 8, position.address);
        else
            copy_elements(lines, lines->element, position.address);
    }
}

static void add_lines(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const gather_lines *lines = shared;
    th_iterator_position position;
    th_iterator_seek(&lines->iterator, first, &position);
    for (int64_t i = first; i < end; i++, th_iterator_advance(&lines->iterator, 1, &position))
        lines->kernels->scatter_add(lines->length, (const int64_t *)(const void *)position.address[INDEX],
                                    lines->stride[INDEX], position.address[Y], lines->stride[Y], position.address[FROM],
                                    lines->stride[FROM]);
}

static void gather_forward(const th_call *call)
{
    const int axis = ((const th_gather_attributes *)call->attributes)->axis;
    int64_t *index = th_indices_of(call);
    if (th_indices_check(call, 1, "index", call->input[0].size[axis], index))
        run_lines(call, &call->input[0], &call->output[0], index, copy_lines);
}

/* y_j = x_{index_j}:  dx_i = sum over the j with index_j = i of dy_j, in the order of j */
static void gather_backward(const th_call *call)
{
    if (!call->add[0])
        th_fill_array(call->ctx, &call->input_gradient[0], 0);
    run_lines(call, &call->input_gradient[0], &call->output_gradient[0], th_indices_of(call), add_lines);
}

static const th_sample gather_samples[] = {
    {"columns", &(th_gather_attributes){1}, 2,
     .input = {{.shape = {2, {2, 3}}}, {.shape = {2, {2, 4}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {"fewer rows", &(th_gather_attributes){-1}, 2,
     .input = {{.shape = {2, {3, 3}}}, {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {"middle axis", &(th_gather_attributes){1}, 2,
     .input = {{.shape = {3, {2, 3, 2}}}, {.shape = {3, {2, 2, 2}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {.name = NULL},
};

const th_op th_op_gather = {
    .name = "gather",
    .value = "y[.., j, ..] = x[.., index[.., j, ..], ..]",
    .gradient = "dx[.., index[.., j, ..], ..] += dy[.., j, ..]",
    .n_inputs = 2,
    .attributes_size = sizeof(th_gather_attributes),
    .saves = TH_INPUT(1),
    .shape = gather_shape,
    .forward = gather_forward,
    .backward = gather_backward,
    .plan = th_indices_plan,
    .plan_size = sizeof(size_t),
    .samples = gather_samples,
};

th_tensor *th_gather(th_tensor *x, int axis, th_tensor *index)
{
    return th_apply(&th_op_gather, &(th_gather_attributes){axis}, x, index);
}
