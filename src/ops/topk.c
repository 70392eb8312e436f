/* topk: y[.., j, ..] = the index of the j-th largest element along one axis, int64. Without a gradient: th_gather of x at
 * the indices has the values, and their gradient. */
#include <math.h>

#include "ops/shared/axes.h"
#include "tapehead/ops.h"
#include "tensor/context.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"
#include "tensor/threaded_loop.h"

typedef struct topk_attributes {
    int axis; /* counted from the end when negative */
    int64_t k;
} topk_attributes;

static th_status topk_shape(th_call *call)
{
    topk_attributes *attributes = th_call_attributes(call);
    const th_array *x = &call->input[0];
    if (th_call_floating(call, 0))
        return TH_ERROR_TYPE;
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, x->ndim))
        return TH_ERROR_SHAPE;
    attributes->axis = axis;
    if (attributes->k < 0 || attributes->k > x->size[axis])
        return th_call_fail(call, TH_ERROR_ARGUMENT, "k must be in [0, %lld], the size of axis %d; it is %lld",
                            (long long)x->size[axis], axis, (long long)attributes->k);
    int64_t size[TH_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        size[i] = i == axis ? attributes->k : x->size[i];
    th_call_output(call, 0, TH_INT64, x->ndim, size, x->axes);
    return TH_OK;
}

enum { Y, X, ARRAYS };

typedef struct topk_lines {
    th_iterator iterator; /* over the lines along the axis */
    bool wide;            /* x is float64 */
    int64_t k, length, stride[ARRAYS];
} topk_lines;

/* One line: the indices y, which are a heap of the best so far, and the elements x. */
typedef struct topk_line {
    const topk_lines *lines;
    int64_t *y;
    const void *x;
} topk_line;

static int64_t *entry(const topk_line *l, int64_t j)
{
    return l->y + j * l->lines->stride[Y];
}

static double element(const topk_line *l, int64_t i)
{
    const int64_t at = i * l->lines->stride[X];
    return l->lines->wide ? ((const double *)l->x)[at] : (double)((const float *)l->x)[at];
}

/* Whether element a is before element b in the result. NaN is the largest; of equal elements the first is before. */
static bool is_before(const topk_line *l, int64_t a, int64_t b)
{
    const double p = element(l, a), q = element(l, b);
    if (isnan(p) || isnan(q))
        return isnan(p) && (!isnan(q) || a < b);
    return p > q || (p == q && a < b);
}

/* Moves entry j down, so that no entry of the heap is before an entry above it. */
static void sift_down(const topk_line *l, int64_t j, int64_t size)
{
    for (int64_t child = 2 * j + 1; child < size; child = 2 * j + 1) {
        if (child + 1 < size && is_before(l, *entry(l, child), *entry(l, child + 1)))
            child++;
        if (is_before(l, *entry(l, child), *entry(l, j)))
            return;
        const int64_t other = *entry(l, child);
        *entry(l, child) = *entry(l, j);
        *entry(l, j) = other;
        j = child;
    }
}

/* Keeps the k best elements in a heap whose root is the last of them, and sorts it. */
static void choose(const topk_line *l)
{
    const int64_t k = l->lines->k;
    for (int64_t j = 0; j < k; j++)
        *entry(l, j) = j;
    for (int64_t j = k / 2 - 1; j >= 0; j--)
        sift_down(l, j, k);
    for (int64_t i = k; i < l->lines->length; i++)
        if (is_before(l, i, *entry(l, 0))) {
            *entry(l, 0) = i;
            sift_down(l, 0, k);
        }
    for (int64_t end = k - 1; end > 0; end--) {
        const int64_t last = *entry(l, 0);
        *entry(l, 0) = *entry(l, end);
        *entry(l, end) = last;
        sift_down(l, 0, end);
    }
}

static void choose_lines(void *shared, int64_t first, int64_t end, int worker)
{
    (void)worker;
    const topk_lines *lines = shared;
    th_iterator_position position;
    th_iterator_seek(&lines->iterator, first, &position);
    for (int64_t i = first; i < end; i++, th_iterator_advance(&lines->iterator, 1, &position))
        choose(&(topk_line){lines, (int64_t *)(void *)position.address[Y], position.address[X]});
}

static void topk_forward(const th_call *call)
{
    const topk_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0], *y = &call->output[0];
    const int axis = attributes->axis;
    const th_array starts[ARRAYS] = {th_line_starts(y, y, axis), th_line_starts(x, y, axis)};
    topk_lines lines = {.wide = x->dtype == TH_FLOAT64,
                        .k = attributes->k,
                        .length = x->size[axis],
                        .stride = {y->stride[axis], x->stride[axis]}};
    if (lines.k > 0 && th_iterator_build(&lines.iterator, &starts[Y], 1, (const th_array *const[]){&starts[X]}))
        th_for_rows(call->ctx, lines.iterator.numel, 2 * lines.length, choose_lines, &lines);
}

static const th_sample topk_samples[] = {
    {"last axis", &(topk_attributes){-1, 4}, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"first axis", &(topk_attributes){0, 2}, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"middle axis", &(topk_attributes){1, 4}, 1, {{.shape = {3, {2, 4, 3}}}}, 0},
    {"none", &(topk_attributes){0, 0}, 1, {{.shape = {1, {7}}}}, 0},
    {"nothing", &(topk_attributes){1, 2}, 1, {{.shape = {2, {0, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_topk = {
    .name = "topk",
    .value = "y[.., j, ..] = the index of the j-th largest x",
    .gradient = "none",
    .n_inputs = 1,
    .attributes_size = sizeof(topk_attributes),
    .shape = topk_shape,
    .forward = topk_forward,
    .not_differentiable = "its values are indices",
    .samples = topk_samples,
};

th_tensor *th_topk(th_tensor *x, int axis, int64_t k)
{
    const topk_attributes attributes = {axis, k};
    return th_apply(&th_op_topk, &attributes, x);
}
