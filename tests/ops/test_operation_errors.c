/* Wrong operands and options of operations: at each limit the largest legal value works, and the next one is an error
 * that names the operation, the number and the shapes. */
#include <limits.h>
#include <math.h>
#include <stdint.h>

#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

static th_tensor *x; /* (2, 3) float32 leaf */

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 2});
    x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3));
    no_error();
}

static th_tensor *real(th_shape shape)
{
    return th_ones(ctx, TH_FLOAT32, shape);
}

static th_tensor *indices(th_shape shape)
{
    return th_zeros(ctx, TH_INT64, shape);
}

static const th_shape eight = {8, {1, 1, 1, 1, 1, 1, 1, 1}};

/* -- an axis outside its range -- */

static th_tensor *select_at(int axis)
{
    return th_select(x, axis, 0);
}
static th_tensor *slice_at(int axis)
{
    return th_slice(x, axis, 0, 1, 1);
}
static th_tensor *softmax_at(int axis)
{
    return th_softmax(x, axis);
}
static th_tensor *log_softmax_at(int axis)
{
    return th_log_softmax(x, axis);
}
static th_tensor *argmax_at(int axis)
{
    return th_argmax(x, axis);
}
static th_tensor *topk_at(int axis)
{
    return th_topk(x, axis, 1);
}
static th_tensor *gather_at(int axis)
{
    return th_gather(x, axis, indices(TH_SHAPE(1, 1)));
}
static th_tensor *concat_at(int axis)
{
    return th_concat((th_tensor *[]){x, x}, 2, axis);
}
static th_tensor *stack_at(int axis)
{
    return th_stack((th_tensor *[]){x, x}, 2, axis);
}
static th_tensor *unsqueeze_at(int axis)
{
    return th_unsqueeze(x, axis);
}
static th_tensor *squeeze_at(int axis)
{
    return th_squeeze(real(TH_SHAPE(1, 1)), axis);
}
static th_tensor *swap_from(int axis)
{
    return th_swap_axes(x, axis, 0);
}
static th_tensor *swap_to(int axis)
{
    return th_swap_axes(x, 0, axis);
}

static const struct {
    const char *name;
    th_tensor *(*call)(int axis);
    int ndim; /* legal: -ndim .. ndim - 1 */
} axes[] = {{"select", select_at, 2},   {"slice", slice_at, 2},
            {"softmax", softmax_at, 2}, {"log_softmax", log_softmax_at, 2},
            {"argmax", argmax_at, 2},   {"gather", gather_at, 2},
            {"topk", topk_at, 2},       {"concat", concat_at, 2},
            {"stack", stack_at, 3},     {"unsqueeze", unsqueeze_at, 3},
            {"squeeze", squeeze_at, 2}, {"transpose", swap_from, 2},
            {"transpose", swap_to, 2}};

START_TEST(an_axis_is_in_its_range)
{
    const int ndim = axes[_i].ndim, wrong[] = {ndim, -ndim - 1, INT_MAX, INT_MIN};
    for (int axis = -ndim; axis < ndim; axis++)
        ck_assert_msg(axes[_i].call(axis) != NULL, "%s", th_error_message(ctx));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char words[100];
        snprintf(words, sizeof words, "%s: axis %d is outside [%d, %d) of (", axes[_i].name, wrong[i], -ndim, ndim);
        expect_failure(axes[_i].call(wrong[i]) == NULL, TH_ERROR_SHAPE, words);
    }
}
END_TEST

typedef th_tensor *reduction(th_tensor *x, th_shape axes, const th_reduce_options *options);

static const struct {
    const char *name;
    reduction *call;
} reductions[] = {
    {"sum", th_sum}, {"mean", th_mean}, {"max", th_max}, {"variance", th_variance}, {"log_sum_exp", th_log_sum_exp}};

START_TEST(axes_of_a_reduction_are_in_their_range)
{
    const char *const name = reductions[_i].name;
    reduction *const call = reductions[_i].call;
    const struct {
        th_shape axes;
        th_status code;
        const char *words;
    } wrong[] = {{TH_AXES(2), TH_ERROR_SHAPE, "axis 2 is outside the 2 dimensions of (2, 3)"},
                 {TH_AXES(0, -3), TH_ERROR_SHAPE, "axis -3 is outside the 2 dimensions of (2, 3)"},
                 {TH_AXES(1, -1), TH_ERROR_SHAPE, "axis 1 is given twice"},
                 {TH_AXES(0, 1, 0), TH_ERROR_SHAPE, "axis 0 is given twice"},
                 {{9, {0}}, TH_ERROR_ARGUMENT, "a set of axes has 0 to 8 members, not 9"},
                 {{-1, {0}}, TH_ERROR_ARGUMENT, "a set of axes has 0 to 8 members, not -1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char words[100];
        snprintf(words, sizeof words, "%s: %s", name, wrong[i].words);
        expect_failure(call(x, wrong[i].axes, NULL) == NULL, wrong[i].code, words);
    }
    assert_shape(call(x, TH_AXES(-2, 1), NULL), TH_SCALAR);
    assert_shape(call(real(eight), TH_AXES(0, 1, 2, 3, 4, 5, 6, -1), NULL), TH_SCALAR);
    expect_failure(call(x, TH_ALL_AXES, &(th_reduce_options){.correction = (double)INFINITY}) == NULL,
                   TH_ERROR_ARGUMENT, "the correction must be a finite number");
}
END_TEST

/* -- shapes at the limits -- */

START_TEST(a_tensor_has_at_most_eight_dimensions)
{
    th_shape seven = eight;
    seven.ndim = 7;
    th_tensor *seven_real = real(seven), *eight_real = real(eight);
    assert_shape(th_unsqueeze(seven_real, -1), eight);
    assert_shape(th_stack(&seven_real, 1, 7), eight);
    assert_shape(th_embedding(real(TH_SHAPE(2, 1)), indices(seven)), eight);
    assert_shape(th_one_hot(indices(seven), 1), eight);
    assert_shape(th_expand(x, ((th_shape){8, {1, 1, 1, 1, 1, 1, 2, 3}})), ((th_shape){8, {1, 1, 1, 1, 1, 1, 2, 3}}));
    assert_error(th_unsqueeze(eight_real, 0), TH_ERROR_SHAPE,
                 "unsqueeze: x, (1, 1, 1, 1, 1, 1, 1, 1), has as many dimensions as a tensor can have");
    assert_error(th_stack(&eight_real, 1, 0), TH_ERROR_SHAPE,
                 "stack: input 0, (1, 1, 1, 1, 1, 1, 1, 1), has as many dimensions as a tensor can have");
    assert_error(th_embedding(real(TH_SHAPE(2, 1)), indices(eight)), TH_ERROR_SHAPE,
                 "embedding: the indices, (1, 1, 1, 1, 1, 1, 1, 1), have as many dimensions as a tensor can have");
    assert_error(th_one_hot(indices(eight), 1), TH_ERROR_SHAPE,
                 "one_hot: the indices, (1, 1, 1, 1, 1, 1, 1, 1), have as many dimensions as a tensor can have");
    static const int wrong[] = {9, -1};
    for (int i = 0; i < 2; i++) {
        char words[60];
        snprintf(words, sizeof words, ": a tensor has 0 to 8 dimensions, not %d", wrong[i]);
        const th_shape shape = {wrong[i], {1, 1, 1, 1, 1, 1, 2, 3}};
        assert_error(th_expand(x, shape), TH_ERROR_SHAPE, words);
        assert_error(th_repeat(x, shape), TH_ERROR_SHAPE, words);
        assert_error(th_reshape(x, shape), TH_ERROR_SHAPE, words);
    }
}
END_TEST

/* Letters of all eight axes, and of the axes that an operation moves. */
START_TEST(results_keep_the_letters_of_their_axes)
{
    th_tensor *e = th_set_axes(real(eight), "ABCDEFGH"), *seven = th_squeeze(e, 3);
    ck_assert_str_eq(th_axes_of(seven), "ABCEFGH");
    ck_assert_str_eq(th_axes_of(th_unsqueeze(seven, 3)), "ABC EFGH");
    ck_assert_str_eq(th_axes_of(th_stack(&seven, 1, 0)), " ABCEFGH");
    ck_assert_str_eq(th_axes_of(th_repeat(e, TH_SHAPE(2, 2))), "ABCDEFGH");
    ck_assert_str_eq(th_axes_of(th_expand(e, eight)), "ABCDEFGH");
    ck_assert_str_eq(th_axes_of(th_reshape(e, eight)), "ABCDEFGH");
    ck_assert_str_eq(th_axes_of(th_swap_axes(e, 1, -1)), "AHCDEFGB");
    ck_assert_str_eq(th_axes_of(th_sum(e, TH_AXES(2), &(th_reduce_options){.keep_axes = true})), "AB DEFGH");
    th_tensor *positions = th_set_axes(indices((th_shape){7, {1, 1, 1, 1, 1, 1, 1}}), "ABCDEFG");
    th_tensor *table = th_set_axes(real(TH_SHAPE(2, 1)), "VE");
    ck_assert_str_eq(th_axes_of(th_embedding(table, positions)), "ABCDEFGE");
    ck_assert_str_eq(th_axes_of(th_one_hot(positions, 1)), "ABCDEFG ");
    ck_assert_str_eq(th_axes_of(th_matmul(e, e)), "ABCDEFGH");
    ck_assert_str_eq(th_axes_of(th_masked_matmul(e, e, NULL, TH_MASK_LEFT)), "ABCDEFGH");
    ck_assert_str_eq(th_axes_of(th_dense(e, table, NULL)), "ABCDEFGV");
    th_tensor *matrix = th_set_axes(real(TH_SHAPE(2, 1)), "RK"),
              *batches = th_set_axes(real(TH_SHAPE(1, 1, 1, 4)), "BHKC");
    ck_assert_str_eq(th_axes_of(th_matmul(matrix, batches)), "BHRC"); /* leading letters of the second operand */
    ck_assert_str_eq(th_axes_of(th_matmul(th_set_axes(real(TH_SHAPE(1, 2, 1)), "ORK"), batches)), "BORC");
}
END_TEST

START_TEST(results_that_overflow)
{
    const int64_t half = (int64_t)1 << 62;
    th_tensor *one = real(TH_SHAPE(1, 1)), *yes = th_ones(ctx, TH_BOOL, TH_SHAPE(1));
    assert_error(th_expand(one, TH_SHAPE(half, 4)), TH_ERROR_SHAPE, "expand: the size of (4611686018427387904, 4)");
    assert_error(th_expand(one, TH_SHAPE(half, 1)), TH_ERROR_SHAPE, "expand: the size of (4611686018427387904, 1)");
    assert_error(th_repeat(x, TH_SHAPE(half, 1)), TH_ERROR_SHAPE,
                 "repeat: x, (2, 3), repeated (4611686018427387904, 1)");
    assert_error(th_repeat(one, TH_SHAPE(half, 2)), TH_ERROR_SHAPE,
                 "repeat: x, (1, 1), repeated (4611686018427387904, 2)");
    assert_error(th_repeat(one, TH_SHAPE(1, half)), TH_ERROR_SHAPE,
                 "repeat: x, (1, 1), repeated (1, 4611686018427387904)");
    assert_error(th_one_hot(indices(TH_SHAPE(2, 3)), half), TH_ERROR_SHAPE,
                 "one_hot: a one-hot tensor of 4611686018427387904 classes for indices (2, 3) overflows");
    assert_error(th_one_hot(indices(TH_SCALAR), half), TH_ERROR_SHAPE, "4611686018427387904 classes for indices ()");
    const int64_t most = INT64_MAX / 8; /* elements; as float64 they fill more bytes than fit */
    th_tensor *wide64 = th_ones(ctx, TH_FLOAT64, TH_SHAPE(1));
    assert_error(th_one_hot(indices(TH_SCALAR), most), TH_ERROR_SHAPE, "one_hot: a one-hot tensor of");
    assert_error(th_repeat(wide64, TH_SHAPE(most)), TH_ERROR_SHAPE, "repeat: x, (1), repeated (1152921504606846975)");
    assert_error(th_expand(wide64, TH_SHAPE(most)), TH_ERROR_SHAPE, "expand: the size of (1152921504606846975) in");
    if (sizeof(size_t) == 8) { /* its sizes need 64 bits */
        th_tensor *const wide = th_expand(yes, TH_SHAPE(half / 16)), *many[32];
        for (int i = 0; i < 32; i++)
            many[i] = wide;
        assert_error(th_concat(many, 32, 0), TH_ERROR_SHAPE, "concat: the size of axis 0 overflows");
    }
    th_tensor *parts[2];
    expect_status(th_split(x, 0, 2, (int64_t[]){INT64_MAX, 1}, parts), TH_ERROR_SHAPE,
                  "split: the sizes' sum overflows");
    expect_status(th_split(x, 2, 1, (int64_t[]){2}, parts), TH_ERROR_SHAPE,
                  "split: axis 2 does not exist in x, (2, 3)");
    expect_status(th_split(x, 0, 1, (int64_t[]){2}, NULL), TH_ERROR_ARGUMENT, "split: needs at least one part");
    expect_status(th_split(x, 0, 0, (int64_t[]){2}, parts), TH_ERROR_ARGUMENT, "split: needs at least one part");
}
END_TEST

/* A forecast of rows so long that the scratch memory of the threads overflows. */
START_TEST(a_forecast_of_scratch_memory_overflows)
{
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true, .threads = 4});
    th_tensor *long_rows = th_empty(forecast, TH_FLOAT32, TH_SHAPE((int64_t)1 << 58, 2));
    ck_assert_ptr_nonnull(th_softmax(th_empty(forecast, TH_FLOAT32, TH_SHAPE(1 << 20, 2)), 0));
    ck_assert_ptr_null(th_softmax(long_rows, 0));
    ck_assert_int_eq(th_error_code(forecast), TH_ERROR_MEMORY);
    th_context_free(forecast);
}
END_TEST

START_TEST(wrong_orders_and_bounds)
{
    assert_error(th_transpose(x, TH_AXES(0, 5)), TH_ERROR_SHAPE, "transpose: axis 5 in the order is outside [-2, 2)");
    assert_error(th_transpose(x, TH_AXES(-3, 1)), TH_ERROR_SHAPE, "transpose: axis -3 in the order is outside [-2, 2)");
    assert_error(th_transpose(x, TH_AXES(0, 1, 2)), TH_ERROR_SHAPE, "transpose: the order has 3 axes, but x is (2, 3)");
    assert_error(th_transpose(x, TH_AXES(1, -1)), TH_ERROR_SHAPE,
                 "transpose: axis 1 appears twice in the order (1, -1)");
    assert_error(th_slice(x, 1, 4, 4, 1), TH_ERROR_INDEX, "slice: start 4 is outside axis 1 of x, (2, 3)");
    assert_error(th_slice(x, 1, -4, 3, 1), TH_ERROR_INDEX, "slice: start -4 is outside axis 1 of x, (2, 3)");
    assert_error(th_slice(x, 0, 0, 3, 1), TH_ERROR_INDEX, "slice: stop 3 is outside axis 0 of x, (2, 3)");
    assert_error(th_slice(x, 0, 0, -3, 1), TH_ERROR_INDEX, "slice: stop -3 is outside axis 0 of x, (2, 3)");
    assert_error(th_slice(x, 1, -1, 1, 1), TH_ERROR_INDEX, "slice: start -1 is after stop 1 on axis 1 of x, (2, 3)");
    assert_error(th_slice(x, 1, 0, 3, -2), TH_ERROR_ARGUMENT, "slice: the step must be at least 1, not -2");
    assert_shape(th_slice(x, 1, -3, 3, INT64_MAX), TH_SHAPE(2, 1));
    assert_shape(th_slice(x, 1, 3, 3, 1), TH_SHAPE(2, 0));
    const th_shape flat = {1, {6}};
    ck_assert_ptr_null(th_apply_n(th_op_find("reshape"), &flat, 1, (th_tensor *[]){th_swap_axes(x, 0, 1)}, NULL));
    expect_error(TH_ERROR_SHAPE, "reshape: the strides of x, (3, 2), allow no view (6): th_reshape copies it first");
}
END_TEST

/* -- products and norms -- */

START_TEST(wrong_operands_of_products)
{
    th_tensor *weight = real(TH_SHAPE(4, 3));
    static const th_shape residuals[] = {{2, {2, 3}}, {2, {3, 4}}, {1, {4}}, {3, {1, 2, 4}}};
    for (size_t i = 0; i < sizeof residuals / sizeof *residuals; i++) {
        const th_dense_options options = {.residual = real(residuals[i])};
        assert_error(th_dense(x, weight, &options), TH_ERROR_SHAPE,
                     "dense: the residual must have the result's shape: ");
        ck_assert_ptr_null(th_dense(x, weight, &options));
        expect_error(TH_ERROR_SHAPE, ", x is (2, 3), the weight (out, in) is (4, 3)");
    }
    assert_error(th_dense(x, weight, &(th_dense_options){.residual = real(TH_SHAPE(2, 5))}), TH_ERROR_SHAPE,
                 "residual is (2, 5)");
    assert_error(th_dense(real(TH_SCALAR), weight, NULL), TH_ERROR_SHAPE, "dense: the last axis of x must match");
    th_tensor *keep = th_ones(ctx, TH_BOOL, TH_SHAPE(3, 4)), *right = real(TH_SHAPE(3, 4));
    assert_error(th_masked_matmul(x, right, keep, TH_MASK_LEFT), TH_ERROR_SHAPE,
                 "masked_matmul: keep, (3, 4), does not broadcast to a, (2, 3)");
    assert_error(th_masked_matmul(x, right, keep, TH_MASK_RESULT), TH_ERROR_SHAPE,
                 "masked_matmul: keep, (3, 4), does not broadcast to the result, (2, 4)");
    assert_error(th_masked_matmul(x, right, NULL, (th_mask_side)2), TH_ERROR_ARGUMENT,
                 "masked_matmul: unknown side of a mask: 2");
    assert_error(th_masked_matmul(x, right, x, TH_MASK_LEFT), TH_ERROR_TYPE, "input 2 must be bool; it is float32");
    assert_error(th_dense_cross_entropy(x, real(TH_SHAPE(4, 5)), indices(TH_SHAPE(2)), NULL), TH_ERROR_SHAPE,
                 "but x is (2, 3), the weight (4, 5)");
    assert_error(th_dense_cross_entropy(x, real(TH_SHAPE(0, 3)), indices(TH_SHAPE(2)), NULL), TH_ERROR_SHAPE,
                 "dense_cross_entropy: the weight (0, 3) has no classes");
    assert_error(th_cross_entropy(real(TH_SHAPE(2, 0)), indices(TH_SHAPE(2)), NULL), TH_ERROR_SHAPE,
                 "cross_entropy: logits (2, 0) have no classes");
}
END_TEST

START_TEST(wrong_options_of_norms_and_losses)
{
    th_tensor *logits = real(TH_SHAPE(2, 3)), *targets = indices(TH_SHAPE(2));
    static const double wrong[] = {-0.5, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        assert_error(th_layer_norm(x, &(th_norm_options){.eps = wrong[i]}), TH_ERROR_ARGUMENT, "layer_norm: eps is ");
        assert_error(th_rms_norm(x, &(th_norm_options){.eps = wrong[i]}), TH_ERROR_ARGUMENT, "rms_norm: eps is ");
        assert_error(th_cross_entropy(logits, targets, &(th_cross_entropy_options){.label_smoothing = wrong[i]}),
                     TH_ERROR_ARGUMENT, "cross_entropy: label_smoothing is ");
        assert_error(th_cross_entropy(logits, targets, &(th_cross_entropy_options){.normalizer = wrong[i]}),
                     TH_ERROR_ARGUMENT, "cross_entropy: normalizer is ");
        assert_error(th_dropout(x, wrong[i]), TH_ERROR_ARGUMENT, "dropout: p = ");
        assert_error(th_dropout_residual(x, wrong[i], x), TH_ERROR_ARGUMENT, "dropout_residual: p = ");
    }
    for (size_t i = 0; i < 2; i++) {
        const th_norm_options options[2] = {{.weight = real(TH_SHAPE(3, 1))}, {.bias = real(TH_SHAPE(3, 1))}};
        assert_error(th_layer_norm(x, &options[i]), TH_ERROR_SHAPE,
                     i ? "layer_norm: bias is (3, 1), but the last axis of x (2, 3) has 3 elements"
                       : "layer_norm: weight is (3, 1), but the last axis of x (2, 3) has 3 elements");
    }
    assert_error(th_cross_entropy(logits, targets, &(th_cross_entropy_options){.ignore_index = -7}), TH_ERROR_ARGUMENT,
                 "ignore_index is -7, but .ignore is false: TH_IGNORE(-7) sets both");
    ck_assert_int_eq(th_target_count(NULL, NULL), 0);
    expect_error(TH_ERROR_ARGUMENT, "target_count: targets is NULL");
    ck_assert_int_eq(th_target_count(x, NULL), 0);
    expect_error(TH_ERROR_TYPE, "target_count: targets are float32");
}
END_TEST

/* -- positions -- */

START_TEST(wrong_positions_of_rotary)
{
    th_tensor *heads = real(TH_SHAPE(2, 1, 3, 4)), *plane = real(TH_SHAPE(3, 4));
    static const th_shape wrong[] = {{0, {0}}, {1, {2}}, {2, {1, 3}}, {2, {2, 4}}, {3, {2, 1, 3}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_error(th_rotary(heads, &(th_rotary_options){.positions = indices(wrong[i])}), TH_ERROR_SHAPE,
                     "but x (2, 1, 3, 4) takes positions of shape (T) or (B, T)");
    assert_error(th_rotary(plane, &(th_rotary_options){.positions = indices(TH_SHAPE(3, 3))}), TH_ERROR_SHAPE,
                 "rotary: positions is (3, 3), but x (3, 4) takes positions of shape (T)");
    ck_assert_ptr_nonnull(th_rotary(heads, &(th_rotary_options){.positions = indices(TH_SHAPE(2, 3))}));
    ck_assert_ptr_nonnull(th_rotary(plane, &(th_rotary_options){.positions = indices(TH_SHAPE(3))}));
}
END_TEST

/* -- operands without elements, and forecasts -- */

START_TEST(products_and_attention_of_nothing)
{
    th_tensor *bad = real(TH_SHAPE(3, 2));
    ((float *)th_data(bad))[4] = INFINITY;
    th_tensor *none = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 2, 3)), *keep = th_ones(ctx, TH_BOOL, TH_SHAPE(3));
    assert_shape(th_masked_matmul(none, bad, keep, TH_MASK_LEFT), TH_SHAPE(0, 2, 2));
    th_tensor *q = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 3, 2)),
              *k = th_set_requires_gradient(real(TH_SHAPE(2, 5, 2)), true);
    th_tensor *first = th_scaled_dot_product_attention(q, k, k, NULL),
              *second = th_scaled_dot_product_attention(q, k, k, NULL);
    th_tensor *loss = th_add(th_sum(k, TH_ALL_AXES, NULL), th_sum(th_add(first, second), TH_ALL_AXES, NULL));
    ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(ctx));
    for (int i = 0; i < 2 * 5 * 2; i++)
        ck_assert_double_eq((double)((const float *)th_data(th_gradient(k)))[i], 1);
}
END_TEST

START_TEST(operations_that_return_their_operand_check_it)
{
    assert_error(th_cast(NULL, TH_FLOAT32), TH_ERROR_ARGUMENT, "cast: ");
    assert_error(th_cast(x, (th_dtype)77), TH_ERROR_TYPE, "cast: 77 is not an element type");
    ck_assert_ptr_eq(th_cast(x, TH_FLOAT32), x);
    ck_assert_ptr_eq(th_contiguous(x), x);
    ck_assert_ptr_eq(th_dropout(x, 0), x);
    assert_error(th_contiguous(NULL), TH_ERROR_ARGUMENT, "contiguous: ");
    assert_error(th_dropout(NULL, 0), TH_ERROR_ARGUMENT, "dropout: ");
    assert_error(th_dropout(indices(TH_SCALAR), 0), TH_ERROR_TYPE, "dropout: input 0 must be float32 or float64");
    assert_error(th_reshape(x, TH_SHAPE(-1, INT64_MAX, INT64_MAX)), TH_ERROR_SHAPE, "reshape: 6 elements do not fill");
    th_tensor *freed = real(TH_SHAPE(2));
    th_tensor_free(freed);
    assert_error(th_cast(freed, TH_FLOAT32), TH_ERROR_STATE, "cast: x has been freed");
    assert_error(th_contiguous(freed), TH_ERROR_STATE, "contiguous: x has been freed");
    assert_error(th_dropout(freed, 0), TH_ERROR_STATE, "dropout: x has been freed");
    assert_error(th_reshape(freed, TH_SHAPE(2)), TH_ERROR_STATE, "reshape: x has been freed");
}
END_TEST

START_TEST(forecasts_of_large_products_and_slopes)
{
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    if (sizeof(size_t) == 8) { /* its sizes need 64 bits */
        th_tensor *a = th_empty(forecast, TH_FLOAT32, TH_SHAPE((int64_t)1 << 29, (int64_t)1 << 10)),
                  *b = th_empty(forecast, TH_FLOAT32, TH_SHAPE((int64_t)1 << 10, (int64_t)1 << 28));
        ck_assert_ptr_nonnull(th_matmul(th_set_requires_gradient(a, true), b));
        th_node_info node;
        ck_assert_int_eq(th_tape_node(forecast, 0, &node), TH_OK);
        ck_assert_int_eq(node.multiply_adds, INT64_MAX); /* 2^67 does not fit */
    }
    th_set_fusion(forecast, false);
    th_tensor *q = th_zeros(forecast, TH_FLOAT32, TH_SHAPE(2, 3, 4)),
              *slopes = th_zeros(forecast, TH_FLOAT32, TH_SHAPE(2));
    ck_assert_ptr_nonnull(th_scaled_dot_product_attention(q, q, q, &(th_attention_options){.alibi = slopes}));
    ck_assert_int_eq(th_error_code(forecast), TH_OK);
    th_context_free(forecast);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("operation_errors", setup, close_context);
    tcase_add_loop_test(tcase, an_axis_is_in_its_range, 0, sizeof axes / sizeof *axes);
    tcase_add_loop_test(tcase, axes_of_a_reduction_are_in_their_range, 0, sizeof reductions / sizeof *reductions);
    tcase_add_test(tcase, a_tensor_has_at_most_eight_dimensions);
    tcase_add_test(tcase, results_keep_the_letters_of_their_axes);
    tcase_add_test(tcase, results_that_overflow);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tcase, a_forecast_of_scratch_memory_overflows);
    tcase_add_test(tcase, wrong_orders_and_bounds);
    tcase_add_test(tcase, wrong_operands_of_products);
    tcase_add_test(tcase, wrong_options_of_norms_and_losses);
    tcase_add_test(tcase, wrong_positions_of_rotary);
    tcase_add_test(tcase, products_and_attention_of_nothing);
    tcase_add_test(tcase, operations_that_return_their_operand_check_it);
    tcase_add_test(tcase, forecasts_of_large_products_and_slopes);
    return run_suites();
}
