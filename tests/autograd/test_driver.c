/* Tests of the driver that need a user's operation of an unusual kind: layouts, saved and precomputed results, wanted
 * gradients. Also which context a call uses. */
#include <math.h>

#include "user_ops.h"

#include "leaf_and_loss.h"

static th_tensor *leaf(th_dtype dtype, th_shape shape)
{
    return th_set_requires_gradient(th_randn(ctx, dtype, shape), true);
}

/* -- layouts -- */

/* The views span as many elements as they have, but contain some twice and others never. */
START_TEST(a_result_never_has_two_elements_at_one_address)
{
    static const layout views[] = {
        {{3, {2, 2, 2}}, {3, 3, 1}, 0}, {{3, {3, 2, 2}}, {3, 4, 1}, 0}, {{3, {2, 2, 3}}, {4, 3, 2}, 0}};
    const layout *view = &views[_i];
    th_tensor *x = th_arange(ctx, TH_FLOAT32, 0, 12, 1);
    th_tensor *a = th_apply(&strided, view, x), *b = th_arange(ctx, TH_FLOAT32, 0, (double)th_numel(a), 1);
    th_tensor *sum = th_add(a, th_reshape(th_scale(b, 100), view->size));
    const int64_t *n = view->size.size;
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++) {
                const int64_t at = i * view->stride[0] + j * view->stride[1] + k * view->stride[2];
                const int64_t index = (i * n[1] + j) * n[2] + k;
                ck_assert_double_eq(th_get(sum, TH_INDEX(i, j, k)), (double)(at + 100 * index));
            }
}
END_TEST

/* y stored with its axes in the opposite order; the kernels write and read plain memory. */
static th_status turned_shape(th_call *c)
{
    th_call_output(c, 0, c->input[0].dtype, 2, c->input[0].size, NULL);
    th_call_output_order(c, 0, (int[]){1, 0});
    return TH_OK;
}

static void turned_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, exp(plain(&c->input[0], i)));
}

/* dx = y dy */
static void turned_backward(const th_call *c)
{
    ck_assert(th_array_contiguous(&c->output[0]) && th_array_contiguous(&c->output_gradient[0]));
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        put_plain(&c->input_gradient[0], i, plain(&c->output[0], i) * plain(&c->output_gradient[0], i));
}

static const th_op turned = {.name = "turned",
                             .n_inputs = 1,
                             .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
                             .saves = TH_OUTPUT(0),
                             .shape = turned_shape,
                             .forward = turned_forward,
                             .backward = turned_backward};

START_TEST(backward_reads_contiguous_outputs_and_their_gradients)
{
    th_tensor *x = leaf(TH_FLOAT64, TH_SHAPE(3, 4)), *weights = th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, 4));
    th_tensor *y = th_apply(&turned, NULL, x);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = weights}), TH_OK);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(i, j)),
                                exp(th_get(x, TH_INDEX(i, j))) * th_get(weights, TH_INDEX(i, j)));
}
END_TEST

/* -- what an operation gets -- */

static th_status failing_shape(th_call *c)
{
    ck_assert_ptr_null(c->attributes);
    ck_assert_ptr_null(th_call_attributes(c));
    ck_assert_int_eq(th_call_fail(c, TH_ERROR_TYPE, "refused"), TH_ERROR_TYPE);
    ck_assert_int_eq(th_call_fail(c, TH_OK, "refused"), TH_ERROR_ARGUMENT);
    return TH_OK;
}

START_TEST(a_shape_rule_without_attributes_that_fails)
{
    th_op op = square;
    op.shape = failing_shape;
    ck_assert_ptr_null(th_apply(&op, NULL, leaf(TH_FLOAT32, TH_SHAPE(2))));
    expect_error(TH_ERROR_TYPE, "square: refused");
}
END_TEST

START_TEST(the_cotangent_must_match_the_tensor)
{
    th_tensor *y = th_exp(leaf(TH_FLOAT32, TH_SHAPE(2, 3)));
    th_backward_options options = {.cotangent = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, 3))};
    expect_status(th_backward(y, &options), TH_ERROR_TYPE, "the cotangent is float64, the tensor float32");
    options.cotangent = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 2));
    expect_status(th_backward(y, &options), TH_ERROR_SHAPE, "the cotangent is (3, 2), the tensor (2, 3)");
    options.cotangent = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    expect_status(th_backward(y, &options), TH_ERROR_SHAPE, "the cotangent is (3), the tensor (2, 3)");
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3))}),
                     TH_OK);
}
END_TEST

/* -- saved and precomputed results -- */

enum { LARGE = 10000 };

/* Returns x, and as a second output a copy that backward reads. */
static th_status copied_shape(th_call *c)
{
    for (int i = 0; i < 2; i++)
        th_call_output(c, i, c->input[0].dtype, 1, c->input[0].size, NULL);
    return TH_OK;
}

static void copied_forward(const th_call *c)
{
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; c->output[i].given && k < th_array_numel(&c->output[i]); k++)
            store(&c->output[i], k, load(&c->input[0], k));
}

/* dx = dy times the copy */
static void copied_backward(const th_call *c)
{
    for (int64_t k = 0; k < th_array_numel(&c->input_gradient[0]); k++)
        give(c, 0, k, load(&c->output[1], k) * load(&c->output_gradient[0], k));
}

static const th_op copied_op = {.name = "copied",
                                .n_inputs = 1,
                                .n_outputs = 2,
                                .saves = TH_OUTPUT(1),
                                .shape = copied_shape,
                                .forward = copied_forward,
                                .backward = copied_backward};

START_TEST(a_saved_output_is_released_after_backward)
{
    th_tensor *x = leaf(TH_FLOAT32, TH_SHAPE(LARGE)), *outputs[2] = {NULL};
    for (int requested = 0; requested < 2; requested++) {
        th_empty_gradient(x);
        const size_t before = th_memory(ctx).live;
        th_scope_begin(ctx, NULL);
        th_tensor *y = th_apply_n(&copied_op, NULL, 1, &x, requested ? (th_tensor * *[]){&outputs[1]} : NULL);
        outputs[0] = th_scope_end(ctx, total(y));
        ck_assert_uint_gt(th_memory(ctx).live, before + LARGE * sizeof(float));
        ck_assert_int_eq(th_backward(outputs[0], NULL), TH_OK);
        ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(7)), th_get(x, TH_INDEX(7)));
        th_tape_clear(ctx);
    }
    /* Only the node uses an output that was not requested, also without a scope. */
    size_t live[2];
    for (int i = 0; i < 2; i++) {
        th_tensor *loss = total(th_apply_n(&copied_op, NULL, 1, &x, NULL));
        live[0] = th_memory(ctx).live;
        ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        live[1] = th_memory(ctx).live;
        th_tape_clear(ctx);
    }
    ck_assert_uint_le(live[1] + LARGE * sizeof(float), live[0]);
}
END_TEST

/* y = sum of a b, with precomputed gradients of both */
static th_status inner_shape(th_call *c)
{
    th_call_output(c, 0, c->input[0].dtype, 0, NULL, NULL);
    return TH_OK;
}

static void inner_forward(const th_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++) {
        sum += load(&c->input[0], i) * load(&c->input[1], i);
        for (int k = 0; k < 2; k++)
            if (c->precomputed && c->input_gradient[k].given)
                store(&c->input_gradient[k], i, load(&c->input[1 - k], i));
    }
    store(&c->output[0], 0, sum);
    precomputed_forwards += c->precomputed;
}

static void inner_backward(const th_call *c)
{
    const double dy = load(&c->output_gradient[0], 0);
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; c->input_gradient[k].given && i < th_array_numel(&c->input_gradient[k]); i++)
            if (c->precomputed)
                store(&c->input_gradient[k], i, load(&c->input_gradient[k], i) * dy);
            else
                give(c, k, i, load(&c->input[1 - k], i) * dy);
}

static const th_op inner = {.name = "inner",
                            .n_inputs = 2,
                            .precomputed = TH_INPUT(0) | TH_INPUT(1),
                            .saves = TH_INPUT(0) | TH_INPUT(1),
                            .shape = inner_shape,
                            .forward = inner_forward,
                            .backward = inner_backward};

/* Forward cannot write two gradients to the memory of one tensor. */
START_TEST(the_precomputed_gradients_of_one_tensor_add_up)
{
    th_tensor *x = leaf(TH_FLOAT64, TH_SHAPE(4)), *y = leaf(TH_FLOAT64, TH_SHAPE(4));
    th_tensor *a = th_scale(x, 2), *b = th_scale(y, 3);
    ck_assert_int_eq(th_backward(th_apply(&inner, NULL, a, b), NULL), TH_OK);
    ck_assert_int_eq(precomputed_forwards, 1);
    ck_assert_double_eq_tol(th_get(th_gradient(x), TH_INDEX(1)), 6 * th_get(y, TH_INDEX(1)), 1e-12);
    ck_assert_double_eq_tol(th_get(th_gradient(y), TH_INDEX(1)), 6 * th_get(x, TH_INDEX(1)), 1e-12);
    th_empty_gradient(x);
    a = th_scale(x, 2);
    ck_assert_int_eq(th_backward(th_apply(&inner, NULL, a, a), NULL), TH_OK);
    ck_assert_int_eq(precomputed_forwards, 1);
    ck_assert_double_eq_tol(th_get(th_gradient(x), TH_INDEX(1)), 8 * th_get(x, TH_INDEX(1)), 1e-12);
}
END_TEST

START_TEST(an_error_about_precomputed_gradients_names_the_output)
{
    th_op op = energy;
    op.shape = copied_shape;
    op.n_outputs = 2;
    op.differentiable_outputs = 1;
    ck_assert_ptr_null(th_apply(&op, NULL, leaf(TH_FLOAT32, TH_SHAPE(5, 2))));
    expect_error(TH_ERROR_SHAPE, "need an output 0 of one element, but it is (5)");
}
END_TEST

/* -- gradients that are wanted -- */

START_TEST(a_leaf_that_no_longer_requires_a_gradient_gets_none)
{
    th_tensor *a = leaf(TH_FLOAT32, TH_SHAPE(3)), *b = leaf(TH_FLOAT32, TH_SHAPE(3));
    th_tensor *loss = total(th_mul(a, b));
    th_set_requires_gradient(a, false);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    th_set_requires_gradient(a, true);
    ck_assert_ptr_null(th_gradient(a));
    ck_assert_double_eq(th_get(th_gradient(b), TH_INDEX(1)), th_get(a, TH_INDEX(1)));
}
END_TEST

/* A pass for w needs no gradient of h, so that the nodes before h are neither run nor consumed. */
START_TEST(a_pass_for_one_tensor_leaves_other_nodes_usable)
{
    th_tensor *x = leaf(TH_FLOAT32, TH_SHAPE(2, 3)), *w = leaf(TH_FLOAT32, TH_SHAPE(3, 4)), *gradient;
    th_tensor *g = th_exp(x), *h = th_exp(g);
    th_tensor *loss = total(th_matmul(h, w));
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    ck_assert_int_eq(th_backward(loss, &(th_backward_options){.wrt = &w, .n_wrt = 1, .gradients = &gradient}), TH_OK);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    ck_assert_int_eq(th_profile_count(ctx), 2); /* sum and matmul */
    ck_assert_int_eq(th_profile_sum(ctx).multiply_adds, 2 * 3 * 4);
    ck_assert_int_eq(th_backward(total(h), NULL), TH_OK);
    const double value = th_get(x, TH_INDEX(1, 1));
    ck_assert_double_eq_tol(th_get(th_gradient(x), TH_INDEX(1, 1)), exp(value + exp(value)),
                            1e-3 * exp(value + exp(value)));
}
END_TEST

START_TEST(backward_of_a_leaf_adds_one)
{
    th_tensor *x = leaf(TH_FLOAT64, (th_shape){0});
    for (int i = 1; i <= 3; i++) {
        ck_assert_int_eq(th_backward(x, NULL), TH_OK);
        ck_assert_double_eq(th_item(th_gradient(x)), i);
    }
}
END_TEST

/* -- contexts -- */

START_TEST(a_scope_makes_its_context_the_one_used_last)
{
    th_context *other = th_context_new(NULL);
    ck_assert_ptr_nonnull(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1)));
    th_scope_begin(other, NULL);
    ck_assert_ptr_null(th_exp(NULL));
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
    ck_assert_int_eq(th_error_code(other), TH_ERROR_ARGUMENT);
    th_context_free(other);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("driver", setup, close_context);
    tcase_add_loop_test(tcase, a_result_never_has_two_elements_at_one_address, 0, 3);
    tcase_add_test(tcase, backward_reads_contiguous_outputs_and_their_gradients);
    tcase_add_test(tcase, a_shape_rule_without_attributes_that_fails);
    tcase_add_test(tcase, the_cotangent_must_match_the_tensor);
    tcase_add_test(tcase, a_saved_output_is_released_after_backward);
    tcase_add_test(tcase, the_precomputed_gradients_of_one_tensor_add_up);
    tcase_add_test(tcase, an_error_about_precomputed_gradients_names_the_output);
    tcase_add_test(tcase, a_leaf_that_no_longer_requires_a_gradient_gets_none);
    tcase_add_test(tcase, a_pass_for_one_tensor_leaves_other_nodes_usable);
    tcase_add_test(tcase, backward_of_a_leaf_adds_one);
    tcase_add_test(tcase, a_scope_makes_its_context_the_one_used_last);
    return run_suites();
}
