/* A user's own operations, through the public headers alone: of every kind, each checked on its samples; and what the
 * engine says of descriptors, shape rules and calls that make no sense. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
}

/* Element i in row-major order, wherever it lies. */
static int64_t place(const th_array *array, int64_t i)
{
    int64_t at = 0;
    for (int d = array->ndim - 1; d >= 0; d--) {
        at += i % array->size[d] * array->stride[d];
        i /= array->size[d];
    }
    return at;
}

static double load(const th_array *array, int64_t i)
{
    const int64_t at = place(array, i);
    return array->dtype == TH_FLOAT64 ? ((const double *)array->data)[at] : (double)((const float *)array->data)[at];
}

static void store(const th_array *array, int64_t i, double value)
{
    const int64_t at = place(array, i);
    if (array->dtype == TH_FLOAT64)
        ((double *)array->data)[at] = value;
    else
        ((float *)array->data)[at] = (float)value;
}

static void give(const th_call *c, int input, int64_t i, double value)
{
    store(&c->input_gradient[input], i, value + (c->add[input] ? load(&c->input_gradient[input], i) : 0));
}

/* -- views -- */

typedef struct one_number {
    int64_t n;
} one_number;

/* The last axis backwards. */
static th_status flip_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    if (x->ndim == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "x needs an axis, it is %s", TH_TEXT(x));
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

/* Windows of n neighbours along a vector, which overlap: (N) to (N - n + 1, n). */
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

/* Everything n times, by a stride of 0 on an axis in the middle: (A, B) to (A, n, B). */
static th_status again_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    const one_number *times = c->attributes;
    th_call_view(c, 3, (int64_t[]){x->size[0], times->n, x->size[1]}, (int64_t[]){x->stride[0], 0, x->stride[1]}, 0,
                 NULL);
    return TH_OK;
}

static const th_sample again_samples[] = {
    {.name = "thrice", .attributes = &(one_number){3}, .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 3)}}},
    {.name = "never", .attributes = &(one_number){0}, .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 3)}}},
    {.name = NULL},
};
static const th_op again = {.name = "again",
                            .n_inputs = 1,
                            .attributes_size = sizeof(one_number),
                            .flags = TH_OP_VIEW,
                            .shape = again_shape,
                            .samples = again_samples};

START_TEST(views_have_the_right_gradient)
{
    ck_assert_op(ctx, &flip);
    ck_assert_op(ctx, &windows);
    ck_assert_op(ctx, &again);
}
END_TEST

/* Views of views, beside others of the same base. */
static th_tensor *tangled(void *user, th_tensor *x) /* (6, 4) */
{
    (void)user;
    th_tensor *row = th_select(x, 0, 2);
    th_tensor *overlapping = th_apply(&windows, &(one_number){2}, th_apply(&flip, NULL, row)); /* (3, 2) */
    th_tensor *expanded = th_expand(th_slice(x, 0, 0, 1, 1), TH_SHAPE(3, 4));
    th_tensor *back = th_apply(&flip, NULL, th_swap_axes(expanded, 0, 1)); /* (4, 3), below an expand */
    th_tensor *odd = th_apply(&flip, NULL, th_slice(x, 1, 1, 4, 2));       /* (6, 2) */
    th_tensor *twice = th_apply(&again, &(one_number){2}, th_apply(&flip, NULL, th_slice(x, 0, 1, 4, 1)));
    th_tensor *many = th_apply(&windows, &(one_number){3}, th_reshape(twice, TH_SHAPE(24)));
    th_tensor *sums[] = {th_sum(th_mul(overlapping, th_exp(overlapping)), TH_ALL_AXES, NULL),
                         th_sum(th_mul(back, th_sin(back)), TH_ALL_AXES, NULL),
                         th_sum(th_mul(odd, th_tanh(odd)), TH_ALL_AXES, NULL),
                         th_sum(th_mul(many, th_cos(many)), TH_ALL_AXES, NULL)};
    return th_stack(sums, 4, 0);
}

START_TEST(views_of_views_have_the_right_gradient)
{
    ck_assert_gradient(tangled, NULL, th_randn(ctx, TH_FLOAT64, TH_SHAPE(6, 4)));
}
END_TEST

/* Any sizes, strides and offset: those of the elements of a leaf. */
typedef struct layout {
    th_shape size;
    int64_t stride[TH_MAX_DIMS], offset;
} layout;

static th_status strided_shape(th_call *c)
{
    const layout *l = c->attributes;
    th_call_view(c, l->size.ndim, l->size.size, l->stride, l->offset, NULL);
    return TH_OK;
}

static const th_op strided = {
    .name = "strided", .n_inputs = 1, .attributes_size = sizeof(layout), .flags = TH_OP_VIEW, .shape = strided_shape};

static uint64_t random_state = 12345;

static int64_t random_below(int64_t end)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(random_state >> 33) % end;
}

enum { LEAF = 40 };

/* A random view of LEAF elements, in about half of the cases one that does not fit. */
static layout random_layout(int64_t *low, int64_t *high)
{
    layout l = {.size.ndim = (int)random_below(4), .offset = random_below(LEAF)};
    int64_t room = 12;
    *low = *high = l.offset;
    for (int d = 0; d < l.size.ndim; d++) {
        l.size.size[d] = 1 + random_below(room < 6 ? room : 6);
        room /= l.size.size[d];
        l.stride[d] = random_below(17) - 8;
        const int64_t extent = (l.size.size[d] - 1) * l.stride[d];
        *(extent < 0 ? low : high) += extent;
    }
    return l;
}

/* Gradients of two views of one leaf that overlap in any way, against sums by index. */
START_TEST(any_view_has_the_right_gradient_or_is_refused)
{
    int right = 0, refused = 0;
    for (int round = 0; round < 3000; round++) {
        th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(LEAF)), true);
        double expected[LEAF] = {0};
        th_tensor *loss = NULL;
        bool fits = true;
        const int views = 1 + (int)random_below(3);
        for (int v = 0; v < views && fits; v++) {
            int64_t low, high;
            const layout l = random_layout(&low, &high);
            fits = low >= 0 && high < LEAF;
            th_tensor *view = th_apply(&strided, &l, x);
            ck_assert_int_eq(view != NULL, fits);
            if (view == NULL)
                break;
            th_tensor *weights = th_arange(ctx, TH_FLOAT64, 1, 1 + (double)th_numel(view), 1);
            const th_array array = {.ndim = l.size.ndim};
            for (int64_t i = 0; i < th_numel(view); i++) {
                th_array own = array;
                memcpy(own.size, l.size.size, sizeof own.size);
                memcpy(own.stride, l.stride, sizeof own.stride);
                expected[l.offset + place(&own, i)] += 1 + (double)i;
            }
            th_tensor *sum = th_sum(th_mul(view, th_reshape(weights, l.size)), TH_ALL_AXES, NULL);
            loss = loss ? th_add(loss, sum) : sum;
            ck_assert_ptr_nonnull(loss);
            th_tensor_free(weights);
        }
        if (fits) {
            ck_assert_msg(th_backward(loss) == TH_OK, "%s", th_error_message(ctx));
            const double *gradient = th_data_const(th_gradient(x));
            for (int i = 0; i < LEAF; i++)
                ck_assert_double_eq(gradient[i], expected[i]);
            right++;
        } else {
            expect_error(TH_ERROR_SHAPE, "leaves the memory of its input");
            refused++;
        }
        th_tape_clear(ctx);
        th_tensor_free(x);
    }
    ck_assert_int_gt(right, 300);
    ck_assert_int_gt(refused, 300);
}
END_TEST

START_TEST(a_view_stays_in_the_memory_of_its_input)
{
    static const layout wrong[] = {
        {{1, {4}}, {1}, 37},
        {{1, {4}}, {-1}, 2},
        {{1, {1}}, {1}, 40},
        {{1, {1}}, {1}, -1},
        {{1, {3}}, {INT64_MAX / 2}, 0},
        {{1, {3}}, {INT64_MIN}, 39},
        {{2, {3, 3}}, {INT64_MAX / 3, INT64_MAX / 3}, 0},
        {{1, {2}}, {1}, INT64_MAX},
        {{1, {2}}, {-1}, INT64_MIN},
    };
    th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(LEAF)), true);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_ptr_null(th_apply(&strided, &wrong[i], x));
        expect_error(TH_ERROR_SHAPE, "strided: a view");
    }
    const layout endless = {{2, {INT64_MAX / 4, 3}}, {0, 0}, 0}, of_nothing = {{1, {1}}, {1}, 0};
    ck_assert_ptr_null(th_apply(&strided, &endless, x));
    expect_error(TH_ERROR_SHAPE, "overflows");
    ck_assert_ptr_null(th_apply(&strided, &of_nothing, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 3))));
    expect_error(TH_ERROR_SHAPE, "which has no elements");
    /* Where there is nothing, or one, strides and offset do not matter. */
    const layout empty = {{2, {0, 3}}, {INT64_MIN, 7}, 1000}, single = {{2, {1, 2}}, {INT64_MAX, 1}, 3};
    th_tensor *sum = th_add(
        th_sum(th_apply(&strided, &empty, x), TH_ALL_AXES, NULL),
        th_sum(th_matmul(th_apply(&strided, &single, x), th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 2))), TH_ALL_AXES, NULL));
    ck_assert_int_eq(th_backward(sum), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(4)), 2);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(5)), 0);
}
END_TEST

static double element(th_tensor *t, int64_t i)
{
    const void *data = th_data_const(t);
    switch (th_dtype_of(t)) {
    case TH_FLOAT32:
        return (double)((const float *)data)[i];
    case TH_FLOAT64:
        return ((const double *)data)[i];
    case TH_INT32:
        return ((const int32_t *)data)[i];
    case TH_INT64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const bool *)data)[i];
    }
}

/* What a built-in operation makes of inputs whose last axis runs backwards through memory: the same. */
static void compare_flipped(const th_op *op, const th_sample *sample)
{
    th_tensor *plain[TH_MAX_SAMPLE_INPUTS], *base[TH_MAX_SAMPLE_INPUTS], *view[TH_MAX_SAMPLE_INPUTS];
    ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT32, 7, plain), TH_OK);
    for (int i = 0; i < sample->n_inputs; i++) {
        base[i] = view[i] = plain[i];
        if (plain[i] == NULL)
            continue;
        const bool floating = th_dtype_of(plain[i]) == TH_FLOAT32;
        if (th_ndim(plain[i]) > 0)
            base[i] = th_keep(th_contiguous(th_apply(&flip, NULL, plain[i])));
        else
            base[i] = th_keep(plain[i]);
        if (floating) {
            th_set_requires_gradient(plain[i], true);
            th_set_requires_gradient(base[i], true);
        }
    }
    th_tape_clear(ctx);
    th_tensor *result[2];
    for (int flipped = 0; flipped < 2; flipped++) {
        for (int i = 0; i < sample->n_inputs; i++)
            view[i] = !flipped ? plain[i] : base[i] && th_ndim(base[i]) > 0 ? th_apply(&flip, NULL, base[i]) : base[i];
        th_set_step(ctx, 1); /* the same dropout */
        th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, view, NULL);
        ck_assert_msg(y != NULL, "%s (%s): %s", op->name, sample->name, th_error_message(ctx));
        result[flipped] = th_keep(y);
        if (th_requires_gradient(y)) {
            th_tensor *cotangent = th_ones(ctx, th_dtype_of(y), th_shape_of(y));
            const th_backward_options options = {.cotangent = cotangent};
            ck_assert_msg(th_backward_with(y, &options) == TH_OK, "%s (%s): %s", op->name, sample->name,
                          th_error_message(ctx));
            th_tensor_free(cotangent);
        }
        th_tape_clear(ctx);
    }
    for (int64_t k = 0; k < th_numel(result[0]); k++) {
        const double left = element(result[0], k), right = element(result[1], k);
        ck_assert_msg(fabs(left - right) <= 1e-6 * fmax(1, fabs(left)) || left == right, "%s (%s): %g is not %g",
                      op->name, sample->name, left, right);
    }
    for (int i = 0; i < sample->n_inputs; i++) {
        th_tensor *a = plain[i] ? th_gradient(plain[i]) : NULL, *b = plain[i] ? th_gradient(base[i]) : NULL;
        ck_assert_int_eq(a != NULL, b != NULL);
        for (int64_t k = 0, n = th_numel(a); a && k < n; k++) {
            const int64_t columns = th_ndim(a) > 0 ? th_size(a, -1) : 1, turned = k / columns * columns + columns - 1;
            const float left = ((const float *)th_data_const(a))[k],
                        right = ((const float *)th_data_const(b))[turned - k % columns];
            ck_assert_msg(fabsf(left - right) <= 1e-5f * fmaxf(1, fabsf(left)), "%s (%s): d input %d: %g is not %g",
                          op->name, sample->name, i, (double)left, (double)right);
        }
        th_tensor_free(plain[i]);
        th_tensor_free(base[i]);
    }
    th_tensor_free(result[0]);
    th_tensor_free(result[1]);
}

START_TEST(every_operation_reads_backwards)
{
    const th_op *op = th_op_at(_i);
    for (const th_sample *sample = op->samples; sample && sample->name; sample++)
        compare_flipped(op, sample);
}
END_TEST

/* -- a cheap one: y = x^2 -- */

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
                             .saves = TH_SAVE_INPUT(0),
                             .shape = same_shape,
                             .forward = square_forward,
                             .backward = square_backward,
                             .samples = square_samples};

START_TEST(a_cheap_operation_is_run_again)
{
    ck_assert_op(ctx, &square);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(4), 3), true);
    square_runs = 0;
    th_scope_begin(ctx, "fourth power");
    th_tensor *y = th_apply(&square, NULL, th_apply(&square, NULL, x));
    th_tensor *loss = th_scope_end(ctx, th_sum(y, TH_ALL_AXES, NULL));
    ck_assert_int_eq(square_runs, 2);
    ck_assert_int_eq(th_backward(loss), TH_OK);
    ck_assert_int_eq(square_runs, 3); /* x^2 once more, for the outer one */
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 4 * 27);
}
END_TEST

/* -- one with early gradients: y = sum of x^2 / 2 -- */

static th_status energy_shape(th_call *c)
{
    if (th_call_floating(c, 0))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, c->input[0].dtype, 0, NULL, NULL);
    return TH_OK;
}

static int early_forwards, early_backwards;

static void energy_forward(const th_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++) {
        const double x = load(&c->input[0], i);
        sum += x * x / 2;
        if (c->early)
            store(&c->input_gradient[0], i, x);
    }
    store(&c->output[0], 0, sum);
    early_forwards += c->early;
}

/* dx = x dy */
static void energy_backward(const th_call *c)
{
    const double dy = load(&c->output_gradient[0], 0);
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        if (c->early)
            store(&c->input_gradient[0], i, load(&c->input_gradient[0], i) * dy);
        else
            give(c, 0, i, load(&c->input[0], i) * dy);
    early_backwards += c->early;
}

static const th_op energy = {.name = "energy",
                             .n_inputs = 1,
                             .early = TH_SAVE_INPUT(0),
                             .saves = TH_SAVE_INPUT(0),
                             .shape = energy_shape,
                             .forward = energy_forward,
                             .backward = energy_backward,
                             .samples = square_samples};

START_TEST(an_early_gradient_is_taken_where_it_stands)
{
    ck_assert_op(ctx, &energy);
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 5), true);
    early_forwards = early_backwards = 0;
    ck_assert_int_eq(th_backward(th_scale(th_apply(&energy, NULL, x), 2)), TH_OK);
    ck_assert_int_eq(early_forwards, 1);
    ck_assert_int_eq(early_backwards, 1);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(2)), 10);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_backward(th_apply(&energy, NULL, x)), TH_OK); /* onto what is there */
    ck_assert_int_eq(early_backwards, 1);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(2)), 15);
}
END_TEST

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

static double product_of_all_but(const th_call *c, int left_out, int64_t i)
{
    double product = 1;
    for (int k = 0; k < c->n_inputs; k++)
        product *= k == left_out ? 1 : plain(&c->input[k], i);
    return product;
}

static void product_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        put_plain(&c->output[0], i, product_of_all_but(c, -1, i));
}

/* dx_k = dy times all the others */
static void product_backward(const th_call *c)
{
    for (int k = 0; k < c->n_inputs; k++)
        for (int64_t i = 0; c->input_gradient[k].given && i < th_array_numel(&c->output_gradient[0]); i++)
            put_plain(&c->input_gradient[k], i, plain(&c->output_gradient[0], i) * product_of_all_but(c, k, i));
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
                              .saves = TH_SAVE_INPUT(0),
                              .shape = product_shape,
                              .forward = product_forward,
                              .backward = product_backward,
                              .samples = product_samples};

START_TEST(any_number_of_inputs_is_saved_and_contiguous)
{
    ck_assert_op(ctx, &product);
    th_op other = product; /* named for the gradient of each, by any of the bits */
    other.saves = 0;
    other.saves_for[0] = TH_SAVE_INPUT(11);
    ck_assert_op(ctx, &other);
    /* What was saved and changed is noticed beyond the eighth, too. */
    th_tensor *x[12];
    for (int i = 0; i < 12; i++)
        x[i] = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 2), true);
    th_tensor *y = th_sum(th_apply_n(&product, NULL, 12, x, NULL), TH_ALL_AXES, NULL);
    ck_assert_double_eq(th_item(y), 2 * 4096);
    FILE *file = tmpfile();
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true}), TH_OK);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_int_eq(th_fill(x[10], 3), TH_OK);
    ck_assert_int_ne(th_backward(y), TH_OK);
    expect_error(TH_ERROR_STATE, "a value that product saved");
    for (int i = 0; i < 12; i++)
        th_tensor_free(x[i]);
    ck_assert_ptr_null(th_apply_n(&product, NULL, 0, NULL, NULL));
    expect_error(TH_ERROR_ARGUMENT, "nothing to multiply");
}
END_TEST

START_TEST(the_forecast_counts_every_copy)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *own = th_context_new(&(th_context_options){.threads = 1, .shapes_only = shapes_only});
        th_tensor *x[12];
        for (int i = 0; i < 12; i++)
            x[i] = th_swap_axes(th_set_requires_gradient(th_ones(own, TH_FLOAT32, TH_SHAPE(40, 50)), true), 0, 1);
        ck_assert_int_eq(th_backward(th_sum(th_apply_n(&product, NULL, 12, x, NULL), TH_ALL_AXES, NULL)), TH_OK);
        peak[shapes_only] = th_memory(own).peak;
        th_context_free(own);
    }
    ck_assert_uint_eq(peak[0], peak[1]);
}
END_TEST

/* Of any number of inputs, all handed on or all left out. */
static void sum_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++) {
        double sum = 0;
        for (int k = 0; k < c->n_inputs; k++)
            sum += c->input[k].given ? load(&c->input[k], i) : 0;
        store(&c->output[0], i, sum);
    }
}

static th_status first_given_shape(th_call *c)
{
    for (int k = 0; k < c->n_inputs; k++)
        if (c->input[k].given) {
            th_call_output(c, 0, c->input[k].dtype, c->input[k].ndim, c->input[k].size, NULL);
            return TH_OK;
        }
    return th_call_fail(c, TH_ERROR_ARGUMENT, "there is nothing to add");
}

static const th_op total = {.name = "total",
                            .n_inputs = TH_ANY_INPUTS,
                            .optional = TH_SAVE_INPUT(0),
                            .identity_gradients = TH_SAVE_INPUT(0),
                            .shape = first_given_shape,
                            .forward = sum_forward,
                            .samples = product_samples};

START_TEST(any_number_of_inputs_passes_and_may_be_left_out)
{
    ck_assert_op(ctx, &total);
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true);
    th_tensor *some[11] = {[3] = x, [9] = x, [10] = x};
    ck_assert_int_eq(th_backward(th_sum(th_apply_n(&total, NULL, 11, some, NULL), TH_ALL_AXES, NULL)), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(0)), 3);
    ck_assert_ptr_null(th_apply_n(&total, NULL, 10, (th_tensor *[10]){NULL}, NULL));
    expect_error(TH_ERROR_ARGUMENT, "nothing to add");
}
END_TEST

/* -- a fused one: y = a x + b, broadcast -- */

static void line_forward(const th_call *c)
{
    th_array in[3];
    for (int k = 0; k < 3; k++) { /* stretched to the output's shape */
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
                           .identity_gradients = TH_SAVE_INPUT(2),
                           .saves_for = {TH_SAVE_INPUT(1), TH_SAVE_INPUT(0)},
                           .shape = th_shape_elementwise,
                           .forward = line_forward,
                           .backward = line_backward,
                           .composed = line_composed,
                           .samples = line_samples};

START_TEST(a_fused_operation_equals_its_composition)
{
    ck_assert_op(ctx, &line);
    for (const th_sample *sample = line.samples; sample->name; sample++) {
        th_tensor *inputs[3], *gradients[2][3];
        double value[2];
        ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 3, inputs), TH_OK);
        for (int composed = 0; composed < 2; composed++) {
            for (int i = 0; i < 3; i++)
                th_empty_gradient(th_set_requires_gradient(inputs[i], true));
            th_tensor *y = composed ? line.composed(NULL, inputs, 3) : th_apply_n(&line, NULL, 3, inputs, NULL);
            th_tensor *loss = th_sum(th_mul(y, th_sin(y)), TH_ALL_AXES, NULL);
            value[composed] = th_item(loss);
            ck_assert_int_eq(th_backward(loss), TH_OK);
            for (int i = 0; i < 3; i++)
                gradients[composed][i] = th_keep(th_gradient(inputs[i]));
            th_tape_clear(ctx);
        }
        ck_assert_double_eq_tol(value[0], value[1], 1e-14);
        for (int i = 0; i < 3; i++)
            for (int64_t k = 0; k < th_numel(inputs[i]); k++)
                ck_assert_double_eq_tol(((const double *)th_data_const(gradients[0][i]))[k],
                                        ((const double *)th_data_const(gradients[1][i]))[k], 1e-14);
    }
}
END_TEST

/* -- descriptors that make no sense -- */

static const th_op empty_descriptor = {.name = NULL};

static void nine_inputs(th_op *op)
{
    op->n_inputs = 9;
}
static void minus_two_inputs(th_op *op)
{
    op->n_inputs = -2;
}
static void five_outputs(th_op *op)
{
    op->n_outputs = 5;
}
static void minus_one_output(th_op *op)
{
    op->n_outputs = -1;
}
static void no_name(th_op *op)
{
    op->name = NULL;
}
static void no_shape(th_op *op)
{
    op->shape = NULL;
}
static void no_forward(th_op *op)
{
    op->forward = NULL;
}
static void nothing_at_all(th_op *op)
{
    *op = empty_descriptor;
}
static void saves_a_second_input(th_op *op)
{
    op->saves = TH_SAVE_INPUT(1);
}
static void saves_a_ninth_input(th_op *op)
{
    op->saves = TH_SAVE_INPUT(9);
}
static void saves_a_second_output(th_op *op)
{
    op->saves = TH_SAVE_OUTPUT(1);
}
static void saves_for_a_second_input(th_op *op)
{
    op->saves_for[1] = TH_SAVE_INPUT(0);
}
static void saves_for_with_a_missing_one(th_op *op)
{
    op->saves_for[0] = TH_SAVE_INPUT(3);
}
static void optional_beyond(th_op *op)
{
    op->optional = TH_SAVE_INPUT(1);
}
static void passes_beyond(th_op *op)
{
    op->identity_gradients = TH_SAVE_INPUT(1);
}
static void early_beyond(th_op *op)
{
    op->early = TH_SAVE_INPUT(2);
}
static void early_and_passing(th_op *op)
{
    op->early = op->identity_gradients = TH_SAVE_INPUT(0);
}
static void early_without_backward(th_op *op)
{
    op->early = TH_SAVE_INPUT(0);
    op->backward = NULL;
}
static void early_of_two_outputs(th_op *op)
{
    op->early = TH_SAVE_INPUT(0);
    op->n_outputs = 2;
    op->differentiable_outputs = 3;
}
static void differentiable_beyond(th_op *op)
{
    op->differentiable_outputs = 2;
}
static void unknown_flags(th_op *op)
{
    op->flags = 1u << 20;
}
static void over_input_and_broadcasts(th_op *op)
{
    op->flags = TH_OP_OVER_INPUT | TH_OP_BROADCASTS;
}
static void contiguous_and_any_layout(th_op *op)
{
    op->flags = TH_OP_CONTIGUOUS | TH_OP_ANY_LAYOUT;
}
static void a_reason_and_a_backward(th_op *op)
{
    op->not_differentiable = "it is not";
}
static void a_view_with_forward(th_op *op)
{
    op->flags = TH_OP_VIEW;
    op->saves = 0;
}
static void a_view_of_two(th_op *op)
{
    *op = flip;
    op->n_inputs = 2;
}
static void a_view_of_any(th_op *op)
{
    *op = flip;
    op->n_inputs = TH_ANY_INPUTS;
}
static void a_view_of_nothing(th_op *op)
{
    *op = flip;
    op->n_inputs = 0;
}
static void a_view_with_two_outputs(th_op *op)
{
    *op = flip;
    op->n_outputs = 2;
}
static void an_optional_view(th_op *op)
{
    *op = flip;
    op->optional = TH_SAVE_INPUT(0);
}
static void a_cheap_view(th_op *op)
{
    *op = flip;
    op->flags |= TH_OP_RECOMPUTE;
}

#define DESCRIPTOR(change, words)                                                                                      \
    {                                                                                                                  \
        change, #change, words                                                                                         \
    }
static const struct {
    void (*change)(th_op *op);
    const char *name, *words;
} descriptors[] = {
    DESCRIPTOR(nine_inputs, "square: n_inputs is 9"),
    DESCRIPTOR(minus_two_inputs, "n_inputs is -2"),
    DESCRIPTOR(five_outputs, "square: n_outputs is 5"),
    DESCRIPTOR(minus_one_output, "n_outputs is -1"),
    DESCRIPTOR(no_name, "no name"),
    DESCRIPTOR(nothing_at_all, "no name"),
    DESCRIPTOR(no_shape, "no shape rule"),
    DESCRIPTOR(no_forward, "no forward"),
    DESCRIPTOR(saves_a_second_input, "names an input or output that is not there"),
    DESCRIPTOR(saves_a_ninth_input, "names an input or output that is not there"),
    DESCRIPTOR(saves_a_second_output, "names an input or output that is not there"),
    DESCRIPTOR(saves_for_a_second_input, "more entries than the 1 that count"),
    DESCRIPTOR(saves_for_with_a_missing_one, "names an input or output that is not there"),
    DESCRIPTOR(optional_beyond, "optional names an input that is not there"),
    DESCRIPTOR(passes_beyond, "identity_gradients names an input that is not there"),
    DESCRIPTOR(early_beyond, "early names an input that is not there"),
    DESCRIPTOR(early_and_passing, "either early or passed on"),
    DESCRIPTOR(early_without_backward, "early gradients need a backward"),
    DESCRIPTOR(early_of_two_outputs, "the one differentiable output"),
    DESCRIPTOR(differentiable_beyond, "differentiable_outputs names an output"),
    DESCRIPTOR(unknown_flags, "none of TH_OP_*"),
    DESCRIPTOR(over_input_and_broadcasts, "TH_OP_OVER_INPUT cannot be had with TH_OP_BROADCASTS"),
    DESCRIPTOR(contiguous_and_any_layout, "TH_OP_CONTIGUOUS wants plain memory"),
    DESCRIPTOR(a_reason_and_a_backward, "a reason for having none"),
    DESCRIPTOR(a_view_with_forward, "forward must be NULL"),
    DESCRIPTOR(a_view_of_two, "one input and one output"),
    DESCRIPTOR(a_view_of_any, "one input and one output"),
    DESCRIPTOR(a_view_of_nothing, "one input and one output"),
    DESCRIPTOR(a_view_with_two_outputs, "one input and one output"),
    DESCRIPTOR(an_optional_view, "no optional input"),
    DESCRIPTOR(a_cheap_view, "say how a kernel runs"),
};

START_TEST(a_descriptor_that_makes_no_sense_is_refused)
{
    th_op op = square;
    op.flags = 0;
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true), *inputs[20], *second;
    for (int i = 0; i < 20; i++)
        inputs[i] = x;
    /* It is looked at every time: here a right one lies at the same address before and after. */
    ck_assert_ptr_nonnull(th_apply(&op, NULL, x));
    descriptors[_i].change(&op);
    const int n = op.n_inputs < 0 ? 3 : op.n_inputs;
    ck_assert_ptr_null(th_apply_n(&op, NULL, n, inputs, (th_tensor * *[8]){&second}));
    expect_error(TH_ERROR_ARGUMENT, descriptors[_i].words);
    th_gradient_report report;
    const th_status checked = th_check_op(ctx, &op, NULL, &report);
    ck_assert(!report.ok);
    if (checked == TH_ERROR_VALUE) /* said before: there is nothing to check */
        ck_assert_ptr_nonnull(strstr(report.text, "neither a backward nor a reason"));
    else
        expect_error(TH_ERROR_ARGUMENT, descriptors[_i].words);
    op = square;
    ck_assert_ptr_nonnull(th_apply(&op, NULL, x));
}
END_TEST

START_TEST(a_call_that_makes_no_sense_is_refused)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4));
    ck_assert_ptr_null(th_apply_n(NULL, NULL, 1, &x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "the operation is NULL");
    ck_assert_ptr_null(th_apply_n(&square, NULL, 1, NULL, NULL));
    expect_error(TH_ERROR_ARGUMENT, "square: 1 inputs at NULL");
    ck_assert_ptr_null(th_apply_n(&product, NULL, -3, &x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "product: -3 inputs");
    ck_assert_ptr_null(th_apply_n(&product, NULL, 2, NULL, NULL));
    expect_error(TH_ERROR_ARGUMENT, "product: 2 inputs at NULL");
    ck_assert_ptr_null(th_apply(&windows, NULL, x));
    expect_error(TH_ERROR_ARGUMENT, "attributes of 8 bytes must be given");
    ck_assert_ptr_null(th_apply(&square, &(one_number){1}, x));
    expect_error(TH_ERROR_ARGUMENT, "attributes_size is 0");
    th_op huge = windows;
    huge.attributes_size = SIZE_MAX - 3;
    ck_assert_ptr_null(th_apply(&huge, &(one_number){1}, x));
    expect_error(TH_ERROR_MEMORY, "windows");
    th_tensor *inputs[3];
    const th_sample wrong = {.name = "many", .n_inputs = 33};
    ck_assert_int_eq(th_sample_inputs(ctx, &wrong, TH_FLOAT32, 1, inputs), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "0 to 32 inputs");
    th_op op = square;
    const th_sample samples[] = {wrong, {.name = NULL}};
    op.samples = samples;
    th_gradient_report report;
    ck_assert_int_eq(th_check_op(ctx, &op, NULL, &report), TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "number of inputs"));
}
END_TEST

/* -- shape rules that misbehave -- */

static th_status declares_nothing(th_call *c)
{
    (void)c;
    return TH_OK;
}
static th_status declares_output_one(th_call *c)
{
    th_call_output(c, 1, TH_FLOAT32, 0, NULL, NULL);
    return TH_OK;
}
static th_status declares_output_minus_one(th_call *c)
{
    th_call_output(c, -1, TH_FLOAT32, 0, NULL, NULL);
    return TH_OK;
}
static th_status declares_nine_dimensions(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 9, (int64_t[9]){1, 1, 1, 1, 1, 1, 1, 1, 1}, NULL);
    return TH_OK;
}
static th_status declares_minus_one_dimension(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, -1, (int64_t[]){1}, NULL);
    return TH_OK;
}
static th_status declares_without_sizes(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, NULL, NULL);
    return TH_OK;
}
static th_status declares_a_negative_size(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){2, -3}, NULL);
    return TH_OK;
}
static th_status declares_no_type(th_call *c)
{
    th_call_output(c, 0, (th_dtype)77, 0, NULL, NULL);
    return TH_OK;
}
static th_status declares_too_much(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){INT64_MAX / 2, 8}, NULL);
    return TH_OK;
}
static th_status writes_strides(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){2, 3}, NULL);
    c->output[0].stride[0] = 100;
    return TH_OK;
}
static th_status writes_sizes(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 1, (int64_t[]){2}, NULL);
    c->output[0].ndim = 12;
    return TH_OK;
}
static th_status orders_an_axis_twice(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){2, 3}, NULL);
    th_call_output_order(c, 0, (int[]){1, 1});
    return TH_OK;
}
static th_status orders_axes_beyond(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){2, 3}, NULL);
    th_call_output_order(c, 0, (int[]){0, 5});
    return TH_OK;
}
static th_status orders_what_it_has_not_declared(th_call *c)
{
    th_call_output_order(c, 0, (int[]){0, 1});
    return TH_OK;
}
static th_status declares_a_view(th_call *c)
{
    th_call_view(c, 1, (int64_t[]){2}, (int64_t[]){1}, 0, NULL);
    return TH_OK;
}
static th_status fails_with_ok(th_call *c)
{
    return th_call_fail(c, TH_OK, "this is an error all the same");
}
static th_status says_nothing(th_call *c)
{
    (void)c;
    return TH_ERROR_SHAPE;
}
static th_status runs_an_operation(th_call *c)
{
    th_tensor *a = th_ones(c->ctx, TH_FLOAT32, TH_SHAPE(2));
    th_add(a, a);
    return same_shape(c);
}

static const struct {
    th_status (*shape)(th_call *call);
    th_status code;
    const char *words;
} shape_rules[] = {
    {declares_nothing, TH_ERROR_STATE, "declares no output 0"},
    {declares_output_one, TH_ERROR_SHAPE, "output 1"},
    {declares_output_minus_one, TH_ERROR_SHAPE, "output -1"},
    {declares_nine_dimensions, TH_ERROR_SHAPE, "9 dimensions"},
    {declares_minus_one_dimension, TH_ERROR_SHAPE, "-1 dimensions"},
    {declares_without_sizes, TH_ERROR_SHAPE, "no sizes"},
    {declares_a_negative_size, TH_ERROR_SHAPE, "negative size"},
    {declares_no_type, TH_ERROR_SHAPE, "no element type"},
    {declares_too_much, TH_ERROR_SHAPE, "overflows"},
    {writes_strides, TH_ERROR_SHAPE, "outside its own memory"},
    {writes_sizes, TH_ERROR_SHAPE, "dimensions outside 0 to 8"},
    {orders_an_axis_twice, TH_ERROR_SHAPE, "each of them once"},
    {orders_axes_beyond, TH_ERROR_SHAPE, "each of them once"},
    {orders_what_it_has_not_declared, TH_ERROR_SHAPE, "has not declared"},
    {declares_a_view, TH_ERROR_ARGUMENT, "without TH_OP_VIEW"},
    {fails_with_ok, TH_ERROR_ARGUMENT, "all the same"},
    {says_nothing, TH_ERROR_SHAPE, "refused its inputs"},
    {runs_an_operation, TH_ERROR_STATE, "may run no operation"},
};

START_TEST(a_shape_rule_that_misbehaves_is_refused)
{
    th_op op = square;
    op.flags = 0;
    op.shape = shape_rules[_i].shape;
    for (int recorded = 0; recorded < 2; recorded++) {
        th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), recorded);
        ck_assert_ptr_null(th_apply(&op, NULL, x));
        expect_error(shape_rules[_i].code, shape_rules[_i].words);
    }
    ck_assert_int_eq(th_tape_length(ctx), 0);
}
END_TEST

static th_status of_another_type(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT64, c->input[0].ndim, c->input[0].size, NULL);
    return TH_OK;
}
static th_status a_view_without_strides(th_call *c)
{
    th_call_view(c, c->input[0].ndim, c->input[0].size, NULL, 0, NULL);
    return TH_OK;
}
static th_status a_shape_of_its_own(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){2, 2}, NULL);
    return TH_OK;
}
/* Another answer whenever it is asked. */
static th_status of_two_minds(th_call *c)
{
    static int64_t answer = 0;
    answer = answer % 3 + 1;
    th_call_view(c, 1, &answer, (int64_t[]){1}, 0, NULL);
    return TH_OK;
}

START_TEST(what_a_shape_rule_declares_must_fit_the_flags)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true);
    th_op op = flip;
    op.shape = of_another_type;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_TYPE, "a view has its input's element type, float32, not float64");
    op.shape = a_view_without_strides;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_ARGUMENT, "a view without strides");
    op.shape = of_two_minds;
    ck_assert_ptr_null(th_apply(&op, NULL, th_expand(x, TH_SHAPE(4, 2, 3))));
    expect_error(TH_ERROR_STATE, "another shape for other strides");
    op = line;
    op.shape = a_shape_of_its_own;
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, x));
    expect_error(TH_ERROR_SHAPE,
                 "input 0, (2, 3), does not broadcast to the output that the shape rule declares, (2, 2)");
    op.flags = 0; /* what passes broadcasts, too */
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, x));
    expect_error(TH_ERROR_SHAPE, "input 2, (2, 3), does not broadcast");
    op = square;
    op.flags = 0;
    op.shape = of_another_type;
    op.identity_gradients = TH_SAVE_INPUT(0);
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_TYPE, "the types differ");
    op = energy;
    op.shape = same_shape;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_SHAPE, "early gradients are those of one number, but output 0 is (2, 3)");
    op = line; /* without a backward only what passes can require a gradient */
    op.backward = NULL;
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, x));
    expect_error(TH_ERROR_ARGUMENT, "input 0 requires a gradient, which does not pass to it");
    th_tensor *a = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3));
    ck_assert_int_eq(th_backward(th_sum(th_apply(&op, NULL, a, a, x), TH_ALL_AXES, NULL)), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1, 2)), 1);
    op = square; /* asked for, or saved, and not declared */
    op.n_outputs = 3;
    th_tensor *third = NULL;
    ck_assert_ptr_null(th_apply_n(&op, NULL, 1, &x, (th_tensor * *[]){NULL, &third}));
    expect_error(TH_ERROR_STATE, "output 2 is asked for or saved");
    op.saves |= TH_SAVE_OUTPUT(1);
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_STATE, "output 1 is asked for or saved");
}
END_TEST

static th_status noise_shape(th_call *c)
{
    th_call_draw(c);
    const uint32_t call = c->random.call;
    th_call_draw(c);
    ck_assert_uint_eq(c->random.call, call);
    return same_shape(c);
}

static void noise_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, load(&c->input[0], i) + c->random.call);
}

START_TEST(random_numbers_are_drawn_once)
{
    const th_op noise = {.name = "noise",
                         .n_inputs = 1,
                         .identity_gradients = TH_SAVE_INPUT(0),
                         .shape = noise_shape,
                         .forward = noise_forward,
                         .samples = square_samples};
    ck_assert_op(ctx, &noise);
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1));
    const double first = th_item(th_apply(&noise, NULL, x));
    ck_assert_double_eq(th_item(th_apply(&noise, NULL, x)), first + 1);
}
END_TEST

/* -- functions that do what they must not -- */

static void *secret; /* a tensor that the functions below use */

static void adding(const th_call *c)
{
    th_add(secret, secret);
    square_forward(c);
}
static void adding_backward(const th_call *c)
{
    (void)c;
    ck_assert_ptr_null(th_add(secret, secret));
}
static void going_back(const th_call *c)
{
    ck_assert_int_ne(th_backward(secret), TH_OK);
    square_forward(c);
}
static void clearing(const th_call *c)
{
    th_tape_clear(c->ctx);
    square_forward(c);
}
static void freeing_context(const th_call *c)
{
    th_context_free(c->ctx);
    square_forward(c);
}
static void freeing(const th_call *c)
{
    th_tensor_free(secret);
    square_forward(c);
}

START_TEST(functions_of_an_operation_run_no_operation)
{
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3000), 2), true);
    secret = x;
    th_op op = square;
    op.flags = 0;
    op.forward = adding;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_STATE, "add: is run within square");
    secret = th_sum(x, TH_ALL_AXES, NULL);
    op.forward = going_back;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_STATE, "backward: is called within square");
    op.forward = clearing;
    ck_assert_ptr_null(th_apply(&op, NULL, th_scale(x, 1)));
    expect_error(TH_ERROR_STATE, "tape_clear: is called within square");
    op.forward = freeing_context;
    ck_assert_ptr_null(th_apply(&op, NULL, th_scale(x, 1)));
    expect_error(TH_ERROR_STATE, "context_free: the context cannot be freed while an operation runs");
    /* In backward. */
    secret = x;
    op = square;
    op.flags = 0;
    op.backward = adding_backward;
    ck_assert_int_ne(th_backward(th_sum(th_apply(&op, NULL, x), TH_ALL_AXES, NULL)), TH_OK);
    expect_error(TH_ERROR_STATE, "add: is run within square");
    /* A tensor freed meanwhile goes when that does no harm. */
    secret = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3000));
    op = square;
    op.flags = 0;
    op.forward = freeing;
    th_tensor *y = th_apply(&op, NULL, (th_tensor *)secret);
    ck_assert_double_eq(th_get(y, TH_INDEX(2999)), 1);
    th_tape_clear(ctx);
    /* The context works as before. */
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(th_sum(th_apply(&square, NULL, x), TH_ALL_AXES, NULL)), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(7)), 4);
}
END_TEST

/* What was not saved is not there. */
static void looking_backward(const th_call *c)
{
    ck_assert_ptr_null(c->input[0].data);
    ck_assert_ptr_null(c->output[0].data);
    ck_assert(c->input[0].given);
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        give(c, 0, i, 0);
}

START_TEST(backward_finds_nothing_that_was_not_saved)
{
    th_op op = square;
    op.flags = 0;
    op.saves = 0;
    op.backward = looking_backward;
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(3)), true);
    ck_assert_int_eq(th_backward(th_sum(th_apply(&op, NULL, x), TH_ALL_AXES, NULL)), TH_OK);
}
END_TEST

/* Sizes that no memory has, laid out in another order. */
static th_status huge_and_ordered(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 3, (const int64_t[]){INT64_MAX, 3, INT64_MAX}, NULL);
    th_call_output_order(c, 0, (const int[]){2, 0, 1});
    return TH_OK;
}

START_TEST(huge_sizes_in_another_order_are_refused)
{
    th_op op = square;
    op.shape = huge_and_ordered;
    op.flags = 0;
    ck_assert_ptr_null(th_apply(&op, NULL, th_ones(ctx, TH_FLOAT32, TH_SHAPE(3))));
    expect_error(TH_ERROR_SHAPE, "");
}
END_TEST

START_TEST(samples_without_sense_are_refused)
{
    th_op odd = flip;
    const th_sample_input usual = {.shape = TH_SIZES(3)};
    th_sample bad[] = {{.name = "no such kind", .n_inputs = 1, .input = {usual}},
                       {.name = "kinks", .n_inputs = 1, .input = {usual}},
                       {.name = "fewer than no kinks", .n_inputs = 1, .input = {usual}},
                       {.name = "an end that is no number", .n_inputs = 1, .input = {usual}},
                       {.name = "indices beyond int64", .n_inputs = 1, .input = {usual}}};
    static const char *const words[] = {"kind 7", "5 kinks", "-2 kinks", "nan", "1e+19"};
    bad[0].input[0].kind = (th_sample_kind)7;
    bad[1].input[0].n_kinks = 5;
    bad[2].input[0].n_kinks = -2;
    bad[3].input[0].high = (double)NAN;
    bad[4].input[0].kind = TH_SAMPLE_INDEX;
    bad[4].input[0].high = 1e19;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const th_sample list[] = {bad[i], {.name = NULL}};
        odd.samples = list;
        th_gradient_report report;
        ck_assert_int_eq(th_check_op(ctx, &odd, NULL, &report), TH_ERROR_ARGUMENT);
        ck_assert_int_eq(report.verdict, TH_GRADIENT_COULD_NOT_RUN);
        expect_error(TH_ERROR_ARGUMENT, words[i]);
        th_tensor *inputs[1];
        ck_assert_int_eq(th_sample_inputs(ctx, &bad[i], TH_FLOAT32, 1, inputs), TH_ERROR_ARGUMENT);
        expect_error(TH_ERROR_ARGUMENT, words[i]);
    }
}
END_TEST

int main(void)
{
    TCase *kinds = new_suite("a user's operations: every kind", setup, close_context);
    tcase_add_test(kinds, views_have_the_right_gradient);
    tcase_add_test(kinds, views_of_views_have_the_right_gradient);
    tcase_add_test(kinds, any_view_has_the_right_gradient_or_is_refused);
    tcase_add_test(kinds, a_view_stays_in_the_memory_of_its_input);
    tcase_add_loop_test(kinds, every_operation_reads_backwards, 0, th_op_count());
    tcase_add_test(kinds, a_cheap_operation_is_run_again);
    tcase_add_test(kinds, an_early_gradient_is_taken_where_it_stands);
    tcase_add_test(kinds, any_number_of_inputs_is_saved_and_contiguous);
    tcase_add_test(kinds, the_forecast_counts_every_copy);
    tcase_add_test(kinds, any_number_of_inputs_passes_and_may_be_left_out);
    tcase_add_test(kinds, a_fused_operation_equals_its_composition);
    TCase *misuse = new_suite("a user's operations: misuse", setup, close_context);
    tcase_add_loop_test(misuse, a_descriptor_that_makes_no_sense_is_refused, 0,
                        (int)(sizeof descriptors / sizeof *descriptors));
    tcase_add_test(misuse, a_call_that_makes_no_sense_is_refused);
    tcase_add_loop_test(misuse, a_shape_rule_that_misbehaves_is_refused, 0,
                        (int)(sizeof shape_rules / sizeof *shape_rules));
    tcase_add_test(misuse, what_a_shape_rule_declares_must_fit_the_flags);
    tcase_add_test(misuse, random_numbers_are_drawn_once);
    tcase_add_test(misuse, functions_of_an_operation_run_no_operation);
    tcase_add_test(misuse, backward_finds_nothing_that_was_not_saved);
    tcase_add_test(misuse, samples_without_sense_are_refused);
    tcase_add_test(misuse, huge_sizes_in_another_order_are_refused);
    return run_suites();
}
