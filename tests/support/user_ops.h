/* User-written operations that use the public headers only: one of every kind, for suites that check them, take
 * views of them and misuse them. */
#ifndef TESTS_USER_OPS_H
#define TESTS_USER_OPS_H

#include <string.h>

#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "context.h"

static inline void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
}

/* Returns the address of element i in row-major order, for any strides. */
static inline int64_t offset_of(const th_array *array, int64_t i)
{
    int64_t at = 0;
    for (int d = array->ndim - 1; d >= 0; d--) {
        at += i % array->size[d] * array->stride[d];
        i /= array->size[d];
    }
    return at;
}

static inline double load(const th_array *array, int64_t i)
{
    const int64_t at = offset_of(array, i);
    return array->dtype == TH_FLOAT64 ? ((const double *)array->data)[at] : (double)((const float *)array->data)[at];
}

static inline void store(const th_array *array, int64_t i, double value)
{
    const int64_t at = offset_of(array, i);
    if (array->dtype == TH_FLOAT64)
        ((double *)array->data)[at] = value;
    else
        ((float *)array->data)[at] = (float)value;
}

static inline void give(const th_call *c, int input, int64_t i, double value)
{
    store(&c->input_gradient[input], i, value + (c->add[input] ? load(&c->input_gradient[input], i) : 0));
}

/* -- views -- */

typedef struct one_number {
    int64_t n;
} one_number;

/* The last axis reversed. */
static th_status flip_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    if (x->ndim == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "x needs an axis; it is %s", TH_TEXT(x));
    int64_t stride[TH_MAX_DIMS];
    memcpy(stride, x->stride, sizeof stride);
    const int last = x->ndim - 1;
    stride[last] = -x->stride[last];
    th_call_view(c, x->ndim, x->size, stride, x->size[last] ? (x->size[last] - 1) * x->stride[last] : 0, x->axes);
    return TH_OK;
}

static const th_sample flip_samples[] = {
    {.name = "vector", .n_inputs = 1, .input = {{.shape = TH_SIZES(5)}}},
    {.name = "rows", .n_inputs = 1, .input = {{.shape = TH_SIZES(3, 4)}}},
    {.name = "nothing", .n_inputs = 1, .input = {{.shape = TH_SIZES(3, 0)}}},
    {.name = NULL},
};
static const th_op flip = {
    .name = "flip", .n_inputs = 1, .flags = TH_OP_VIEW, .shape = flip_shape, .samples = flip_samples};

/* Overlapping windows of n neighbors along a vector: (N) to (N - n + 1, n). */
static th_status windows_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    const one_number *width = c->attributes;
    if (x->ndim != 1 || x->size[0] < width->n)
        return th_call_fail(c, TH_ERROR_SHAPE, "%s has no windows of %lld", TH_TEXT(x), (long long)width->n);
    th_call_view(c, 2, (int64_t[]){x->size[0] - width->n + 1, width->n}, (int64_t[]){x->stride[0], x->stride[0]}, 0,
                 NULL);
    return TH_OK;
}

static const th_sample windows_samples[] = {
    {.name = "overlapping", .attributes = &(one_number){3}, .n_inputs = 1, .input = {{.shape = TH_SIZES(7)}}},
    {.name = "beside each other", .attributes = &(one_number){1}, .n_inputs = 1, .input = {{.shape = TH_SIZES(4)}}},
    {.name = NULL},
};
static const th_op windows = {.name = "windows",
                              .n_inputs = 1,
                              .attributes_size = sizeof(one_number),
                              .flags = TH_OP_VIEW,
                              .shape = windows_shape,
                              .samples = windows_samples};

/* -- one that is recomputed: y = x^2 -- */

static th_status same_shape(th_call *c)
{
    if (th_call_floating(c, 0))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, c->input[0].dtype, c->input[0].ndim, c->input[0].size, c->input[0].axes);
    return TH_OK;
}

static int square_runs;

static void square_forward(const th_call *c)
{
    square_runs++;
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, load(&c->input[0], i) * load(&c->input[0], i));
}

/* dx = 2 x dy */
static void square_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        give(c, 0, i, 2 * load(&c->input[0], i) * load(&c->output_gradient[0], i));
}

static const th_sample square_samples[] = {
    {.name = "matrix", .n_inputs = 1, .input = {{.shape = TH_SIZES(3, 4)}}},
    {.name = "number", .n_inputs = 1, .input = {{.shape = {0, {0}}}}},
    {.name = NULL},
};
static const th_op square = {.name = "square",
                             .n_inputs = 1,
                             .flags = TH_OP_RECOMPUTE | TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
                             .saves = TH_INPUT(0),
                             .shape = same_shape,
                             .forward = square_forward,
                             .backward = square_backward,
                             .samples = square_samples};

/* -- one with precomputed gradients: y = sum of x^2 / 2 -- */

static th_status energy_shape(th_call *c)
{
    if (th_call_floating(c, 0))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, c->input[0].dtype, 0, NULL, NULL);
    return TH_OK;
}

static int precomputed_forwards, precomputed_backwards;

static void energy_forward(const th_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++) {
        const double x = load(&c->input[0], i);
        sum += x * x / 2;
        if (c->precomputed)
            store(&c->input_gradient[0], i, x);
    }
    store(&c->output[0], 0, sum);
    precomputed_forwards += c->precomputed;
}

/* dx = x dy */
static void energy_backward(const th_call *c)
{
    const double dy = load(&c->output_gradient[0], 0);
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        if (c->precomputed)
            store(&c->input_gradient[0], i, load(&c->input_gradient[0], i) * dy);
        else
            give(c, 0, i, load(&c->input[0], i) * dy);
    precomputed_backwards += c->precomputed;
}

static const th_op energy = {.name = "energy",
                             .n_inputs = 1,
                             .precomputed = TH_INPUT(0),
                             .saves = TH_INPUT(0),
                             .shape = energy_shape,
                             .forward = energy_forward,
                             .backward = energy_backward,
                             .samples = square_samples};

/* -- any number of inputs, read as plain memory: y = x_0 x_1 ... -- */

static th_status product_shape(th_call *c)
{
    for (int i = 0; i < c->n_inputs; i++)
        if (th_call_floating(c, i))
            return TH_ERROR_TYPE;
    if (c->n_inputs == 0)
        return th_call_fail(c, TH_ERROR_ARGUMENT, "there is nothing to multiply");
    if (th_call_same_type(c))
        return TH_ERROR_TYPE;
    for (int i = 1; i < c->n_inputs; i++)
        if (th_array_numel(&c->input[i]) != th_array_numel(&c->input[0]))
            return th_call_fail(c, TH_ERROR_SHAPE, "input %d is %s, input 0 %s", i, TH_TEXT(&c->input[i]),
                                TH_TEXT(&c->input[0]));
    return same_shape(c);
}

static double plain(const th_array *array, int64_t i)
{
    return array->dtype == TH_FLOAT64 ? ((const double *)array->data)[i] : (double)((const float *)array->data)[i];
}

static void put_plain(const th_array *array, int64_t i, double value)
{
    if (array->dtype == TH_FLOAT64)
        ((double *)array->data)[i] = value;
    else
        ((float *)array->data)[i] = (float)value;
}

static double product_of_all_except(const th_call *c, int left_out, int64_t i)
{
    double product = 1;
    for (int k = 0; k < c->n_inputs; k++)
        product *= k == left_out ? 1 : plain(&c->input[k], i);
    return product;
}

static void product_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        put_plain(&c->output[0], i, product_of_all_except(c, -1, i));
}

/* dx_k = dy times all other inputs */
static void product_backward(const th_call *c)
{
    for (int k = 0; k < c->n_inputs; k++)
        for (int64_t i = 0; c->input_gradient[k].given && i < th_array_numel(&c->output_gradient[0]); i++)
            put_plain(&c->input_gradient[k], i, plain(&c->output_gradient[0], i) * product_of_all_except(c, k, i));
}

#define FACTOR                                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(2, 3), .low = 0.5, .high = 1.5                                                               \
    }
#define FACTORS                                                                                                        \
    {                                                                                                                  \
        FACTOR, FACTOR, FACTOR, FACTOR, FACTOR, FACTOR, FACTOR, FACTOR                                                 \
    }
static const th_sample product_samples[] = {
    {.name = "one", .n_inputs = 1, .input = FACTORS},
    {.name = "eight", .n_inputs = 8, .input = FACTORS},
    {.name = "nine", .n_inputs = 9, .input = FACTORS},
    {.name = "twenty", .n_inputs = 20, .input = FACTORS},
    {.name = NULL},
};
static const th_op product = {.name = "product",
                              .n_inputs = TH_ANY_INPUTS,
                              .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
                              .saves = TH_INPUT(0),
                              .shape = product_shape,
                              .forward = product_forward,
                              .backward = product_backward,
                              .samples = product_samples};

/* -- a fused one: y = a x + b, broadcast -- */

static void line_forward(const th_call *c)
{
    th_array in[3];
    for (int k = 0; k < 3; k++) { /* broadcast to the output's shape */
        in[k] = c->output[0];
        in[k].data = c->input[k].data;
        for (int d = 0; d < in[k].ndim; d++) {
            const int own = d - in[k].ndim + c->input[k].ndim;
            in[k].stride[d] = own >= 0 && c->input[k].size[own] != 1 ? c->input[k].stride[own] : 0;
        }
    }
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, load(&in[0], i) * load(&in[1], i) + load(&in[2], i));
}

/* da = dy x, dx = dy a, db = dy, each in y's shape */
static void line_backward(const th_call *c)
{
    for (int k = 0; k < 2; k++) {
        if (!c->input_gradient[k].given)
            continue;
        th_array other = c->output_gradient[0];
        const th_array *in = &c->input[1 - k];
        other.data = in->data;
        for (int d = 0; d < other.ndim; d++) {
            const int own = d - other.ndim + in->ndim;
            other.stride[d] = own >= 0 && in->size[own] != 1 ? in->stride[own] : 0;
        }
        for (int64_t i = 0; i < th_array_numel(&c->output_gradient[0]); i++)
            give(c, k, i, load(&c->output_gradient[0], i) * load(&other, i));
    }
}

static th_tensor *line_composed(const void *attributes, th_tensor *const *inputs, int n_inputs)
{
    (void)attributes, (void)n_inputs;
    return th_add(th_mul(inputs[0], inputs[1]), inputs[2]);
}

static const th_sample line_samples[] = {
    {.name = "alike",
     .n_inputs = 3,
     .input = {{.shape = TH_SIZES(2, 3)}, {.shape = TH_SIZES(2, 3)}, {.shape = TH_SIZES(2, 3)}}},
    {.name = "broadcast",
     .n_inputs = 3,
     .input = {{.shape = TH_SIZES(3)}, {.shape = TH_SIZES(4, 1)}, {.shape = TH_SIZES(2, 1, 3)}}},
    {.name = NULL},
};
static const th_op line = {.name = "line",
                           .n_inputs = 3,
                           .flags = TH_OP_BROADCASTS,
                           .identity_gradients = TH_INPUT(2),
                           .saves_for = {TH_INPUT(1), TH_INPUT(0)},
                           .shape = th_shape_elementwise,
                           .forward = line_forward,
                           .backward = line_backward,
                           .composed = line_composed,
                           .samples = line_samples};

/* -- a view with any sizes, strides and offset -- */

typedef struct layout {
    th_shape size;
    int64_t stride[TH_MAX_DIMS], offset;
} layout;

static inline th_status strided_shape(th_call *c)
{
    const layout *l = c->attributes;
    th_call_view(c, l->size.ndim, l->size.size, l->stride, l->offset, NULL);
    return TH_OK;
}

static const th_op strided = {
    .name = "strided", .n_inputs = 1, .attributes_size = sizeof(layout), .flags = TH_OP_VIEW, .shape = strided_shape};

#endif
