/* Errors of wrong user-written operations: descriptors, shape rules, calls, samples, and functions that break the
 * rules. */
#include <math.h>

#include "user_ops.h"

/* -- wrong descriptors -- */

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
    op->saves = TH_INPUT(1);
}
static void saves_a_ninth_input(th_op *op)
{
    op->saves = TH_INPUT(9);
}
static void saves_a_second_output(th_op *op)
{
    op->saves = TH_OUTPUT(1);
}
static void saves_for_a_second_input(th_op *op)
{
    op->saves_for[1] = TH_INPUT(0);
}
static void saves_for_with_a_missing_one(th_op *op)
{
    op->saves_for[0] = TH_INPUT(3);
}
static void optional_beyond(th_op *op)
{
    op->optional = TH_INPUT(1);
}
static void passes_beyond(th_op *op)
{
    op->identity_gradients = TH_INPUT(1);
}
static void precomputed_beyond(th_op *op)
{
    op->precomputed = TH_INPUT(2);
}
static void precomputed_and_passing(th_op *op)
{
    op->precomputed = op->identity_gradients = TH_INPUT(0);
}
static void precomputed_without_backward(th_op *op)
{
    op->precomputed = TH_INPUT(0);
    op->backward = NULL;
}
static void precomputed_of_two_outputs(th_op *op)
{
    op->precomputed = TH_INPUT(0);
    op->n_outputs = 2;
    op->differentiable_outputs = 3;
}
static void precomputed_and_broadcasts(th_op *op)
{
    op->precomputed = TH_INPUT(0);
    op->flags = TH_OP_BROADCASTS;
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
    op->optional = TH_INPUT(0);
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
    DESCRIPTOR(saves_a_second_input, "names an input or output that does not exist"),
    DESCRIPTOR(saves_a_ninth_input, "names an input or output that does not exist"),
    DESCRIPTOR(saves_a_second_output, "names an input or output that does not exist"),
    DESCRIPTOR(saves_for_a_second_input, "at most 1 entries"),
    DESCRIPTOR(saves_for_with_a_missing_one, "names an input or output that does not exist"),
    DESCRIPTOR(optional_beyond, "optional names an input that does not exist"),
    DESCRIPTOR(passes_beyond, "identity_gradients names an input that does not exist"),
    DESCRIPTOR(precomputed_beyond, "precomputed names an input that does not exist"),
    DESCRIPTOR(precomputed_and_passing, "both precomputed and an identity gradient"),
    DESCRIPTOR(precomputed_without_backward, "precomputed gradients need a backward"),
    DESCRIPTOR(precomputed_of_two_outputs, "only output 0 may be differentiable"),
    DESCRIPTOR(precomputed_and_broadcasts, "gradients of TH_OP_BROADCASTS are summed first"),
    DESCRIPTOR(differentiable_beyond, "differentiable_outputs names an output"),
    DESCRIPTOR(unknown_flags, "not a TH_OP_* flag"),
    DESCRIPTOR(over_input_and_broadcasts, "TH_OP_OVER_INPUT excludes TH_OP_BROADCASTS"),
    DESCRIPTOR(contiguous_and_any_layout, "TH_OP_CONTIGUOUS needs contiguous memory"),
    DESCRIPTOR(a_reason_and_a_backward, "a reason for not having one"),
    DESCRIPTOR(a_view_with_forward, "forward must be NULL"),
    DESCRIPTOR(a_view_of_two, "one input and one output"),
    DESCRIPTOR(a_view_of_any, "one input and one output"),
    DESCRIPTOR(a_view_of_nothing, "one input and one output"),
    DESCRIPTOR(a_view_with_two_outputs, "one input and one output"),
    DESCRIPTOR(an_optional_view, "must not have optional inputs"),
    DESCRIPTOR(a_cheap_view, "describe a kernel"),
};

START_TEST(invalid_descriptors_are_rejected)
{
    th_op op = square;
    op.flags = 0;
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true), *inputs[20], *second;
    for (int i = 0; i < 20; i++)
        inputs[i] = x;
    /* Every call checks the descriptor: a correct one was at the same address before. */
    ck_assert_ptr_nonnull(th_apply(&op, NULL, x));
    descriptors[_i].change(&op);
    const int n = op.n_inputs < 0 ? 3 : op.n_inputs;
    ck_assert_ptr_null(th_apply_n(&op, NULL, n, inputs, (th_tensor * *[8]){&second}));
    expect_error(TH_ERROR_ARGUMENT, descriptors[_i].words);
    th_gradient_report report;
    const th_status checked = th_check_op(ctx, &op, NULL, &report);
    ck_assert(!report.ok);
    if (checked == TH_ERROR_VALUE) /* reported before: there is nothing to check */
        ck_assert_ptr_nonnull(strstr(report.text, "neither a backward nor a reason"));
    else
        expect_error(TH_ERROR_ARGUMENT, descriptors[_i].words);
    op = square;
    ck_assert_ptr_nonnull(th_apply(&op, NULL, x));
}
END_TEST

START_TEST(invalid_calls_are_rejected)
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
    expect_error(TH_ERROR_ARGUMENT, "attributes is NULL; it must point to 8 bytes");
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

/* -- wrong shape rules -- */

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
static th_status orders_an_undeclared_output(th_call *c)
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
static th_status fails_without_error(th_call *c)
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
    {declares_nothing, TH_ERROR_STATE, "does not declare output 0"},
    {declares_output_one, TH_ERROR_SHAPE, "output 1"},
    {declares_output_minus_one, TH_ERROR_SHAPE, "output -1"},
    {declares_nine_dimensions, TH_ERROR_SHAPE, "9 dimensions"},
    {declares_minus_one_dimension, TH_ERROR_SHAPE, "-1 dimensions"},
    {declares_without_sizes, TH_ERROR_SHAPE, "no sizes"},
    {declares_a_negative_size, TH_ERROR_SHAPE, "negative size"},
    {declares_no_type, TH_ERROR_SHAPE, "an unknown element type"},
    {declares_too_much, TH_ERROR_SHAPE, "overflows"},
    {writes_strides, TH_ERROR_SHAPE, "outside its own memory"},
    {writes_sizes, TH_ERROR_SHAPE, "dimensions outside 0 to 8"},
    {orders_an_axis_twice, TH_ERROR_SHAPE, "not a permutation"},
    {orders_axes_beyond, TH_ERROR_SHAPE, "not a permutation"},
    {orders_an_undeclared_output, TH_ERROR_SHAPE, "has not declared"},
    {declares_a_view, TH_ERROR_ARGUMENT, "without the flag TH_OP_VIEW"},
    {fails_with_ok, TH_ERROR_ARGUMENT, "all the same"},
    {fails_without_error, TH_ERROR_SHAPE, "rejected the inputs"},
    {runs_an_operation, TH_ERROR_STATE, "must not run operations"},
};

START_TEST(invalid_shape_rules_are_rejected)
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
static th_status another_shape(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 2, (int64_t[]){2, 2}, NULL);
    return TH_OK;
}
/* A rule that gives another answer in each call. */
static th_status inconsistent_shape(th_call *c)
{
    static int64_t answer = 0;
    answer = answer % 3 + 1;
    th_call_view(c, 1, &answer, (int64_t[]){1}, 0, NULL);
    return TH_OK;
}

START_TEST(shape_rules_must_match_the_flags)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true);
    th_op op = flip;
    op.shape = of_another_type;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_TYPE, "a view must have its input's element type, float32, not float64");
    op.shape = a_view_without_strides;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_ARGUMENT, "a view without strides");
    op.shape = inconsistent_shape;
    ck_assert_ptr_null(th_apply(&op, NULL, th_expand(x, TH_SHAPE(4, 2, 3))));
    expect_error(TH_ERROR_STATE, "different shapes for different strides");
    op = line;
    op.shape = another_shape;
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, x));
    expect_error(TH_ERROR_SHAPE,
                 "input 0, (2, 3), does not broadcast to the output that the shape rule declares, (2, 2)");
    op.flags = 0; /* identity gradients also broadcast */
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, x));
    expect_error(TH_ERROR_SHAPE, "input 2, (2, 3), does not broadcast");
    op = square;
    op.flags = 0;
    op.shape = of_another_type;
    op.identity_gradients = TH_INPUT(0);
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_TYPE, "input 0 receives the output's gradient unchanged, but their types differ");
    op = line;
    op.shape = same_shape;
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, 3))));
    expect_error(TH_ERROR_TYPE, "input 2 receives the output's gradient unchanged, but their types differ");
    op = energy;
    op.shape = same_shape;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_SHAPE, "precomputed gradients need an output 0 of one element, but it is (2, 3)");
    op = line; /* without a backward, only inputs with identity gradients can require one */
    op.backward = NULL;
    ck_assert_ptr_null(th_apply(&op, NULL, x, x, x));
    expect_error(TH_ERROR_ARGUMENT, "input 0 requires a gradient, but the operation has no backward");
    th_tensor *a = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3));
    ck_assert_int_eq(th_backward(th_sum(th_apply(&op, NULL, a, a, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1, 2)), 1);
    op = square; /* requested or saved, but not declared */
    op.n_outputs = 3;
    th_tensor *third = NULL;
    ck_assert_ptr_null(th_apply_n(&op, NULL, 1, &x, (th_tensor * *[]){NULL, &third}));
    expect_error(TH_ERROR_STATE, "output 2 is requested or saved");
    op.saves |= TH_OUTPUT(1);
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_STATE, "output 1 is requested or saved");
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
                         .identity_gradients = TH_INPUT(0),
                         .shape = noise_shape,
                         .forward = noise_forward,
                         .samples = square_samples};
    ck_assert_op(ctx, &noise);
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1));
    const double first = th_item(th_apply(&noise, NULL, x));
    ck_assert_double_eq(th_item(th_apply(&noise, NULL, x)), first + 1);
}
END_TEST

/* -- functions that break the rules -- */

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
static void calls_backward(const th_call *c)
{
    ck_assert_int_ne(th_backward(secret, NULL), TH_OK);
    square_forward(c);
}
static void calls_tape_clear(const th_call *c)
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

START_TEST(functions_of_an_operation_cannot_run_operations)
{
    th_tensor *x = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3000), 2), true);
    secret = x;
    th_op op = square;
    op.flags = 0;
    op.forward = adding;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_STATE, "add: is called inside square");
    secret = th_sum(x, TH_ALL_AXES, NULL);
    op.forward = calls_backward;
    ck_assert_ptr_null(th_apply(&op, NULL, x));
    expect_error(TH_ERROR_STATE, "backward: is called inside square");
    op.forward = calls_tape_clear;
    ck_assert_ptr_null(th_apply(&op, NULL, th_scale(x, 1)));
    expect_error(TH_ERROR_STATE, "tape_clear: is called inside square");
    op.forward = freeing_context;
    ck_assert_ptr_null(th_apply(&op, NULL, th_scale(x, 1)));
    expect_error(TH_ERROR_STATE, "context_free: the context cannot be freed while an operation runs");
    /* In backward. */
    secret = x;
    op = square;
    op.flags = 0;
    op.backward = adding_backward;
    ck_assert_int_ne(th_backward(th_sum(th_apply(&op, NULL, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    expect_error(TH_ERROR_STATE, "add: is called inside square");
    /* A tensor freed in a function is released when that is safe. */
    secret = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3000));
    op = square;
    op.flags = 0;
    op.forward = freeing;
    th_tensor *y = th_apply(&op, NULL, (th_tensor *)secret);
    ck_assert_double_eq(th_get(y, TH_INDEX(2999)), 1);
    th_tape_clear(ctx);
    /* The context works as before. */
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(th_sum(th_apply(&square, NULL, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(7)), 4);
}
END_TEST

/* Operands that were not saved have no data. */
static void looking_backward(const th_call *c)
{
    ck_assert_ptr_null(c->input[0].data);
    ck_assert_ptr_null(c->output[0].data);
    ck_assert(c->input[0].given);
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        give(c, 0, i, 0);
}

START_TEST(backward_gets_only_saved_values)
{
    th_op op = square;
    op.flags = 0;
    op.saves = 0;
    op.backward = looking_backward;
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(3)), true);
    ck_assert_int_eq(th_backward(th_sum(th_apply(&op, NULL, x), TH_ALL_AXES, NULL), NULL), TH_OK);
}
END_TEST

/* Sizes larger than any memory, with another order of axes. */
static th_status huge_and_ordered(th_call *c)
{
    th_call_output(c, 0, TH_FLOAT32, 3, (const int64_t[]){INT64_MAX, 3, INT64_MAX}, NULL);
    th_call_output_order(c, 0, (const int[]){2, 0, 1});
    return TH_OK;
}

START_TEST(huge_sizes_in_another_order_are_rejected)
{
    th_op op = square;
    op.shape = huge_and_ordered;
    op.flags = 0;
    ck_assert_ptr_null(th_apply(&op, NULL, th_ones(ctx, TH_FLOAT32, TH_SHAPE(3))));
    expect_error(TH_ERROR_SHAPE, "");
}
END_TEST

START_TEST(invalid_samples_are_rejected)
{
    th_op odd = flip;
    const th_sample_input usual = {.shape = TH_SIZES(3)};
    th_sample bad[] = {{.name = "no such kind", .n_inputs = 1, .input = {usual}},
                       {.name = "kinks", .n_inputs = 1, .input = {usual}},
                       {.name = "a negative number of kinks", .n_inputs = 1, .input = {usual}},
                       {.name = "an end that is NaN", .n_inputs = 1, .input = {usual}},
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
    TCase *tcase = new_suite("a user's operations misused", setup, close_context);
    tcase_add_loop_test(tcase, invalid_descriptors_are_rejected, 0, (int)(sizeof descriptors / sizeof *descriptors));
    tcase_add_test(tcase, invalid_calls_are_rejected);
    tcase_add_loop_test(tcase, invalid_shape_rules_are_rejected, 0, (int)(sizeof shape_rules / sizeof *shape_rules));
    tcase_add_test(tcase, shape_rules_must_match_the_flags);
    tcase_add_test(tcase, random_numbers_are_drawn_once);
    tcase_add_test(tcase, functions_of_an_operation_cannot_run_operations);
    tcase_add_test(tcase, backward_gets_only_saved_values);
    tcase_add_test(tcase, invalid_samples_are_rejected);
    tcase_add_test(tcase, huge_sizes_in_another_order_are_rejected);
    return run_suites();
}
