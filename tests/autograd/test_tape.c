/* Tests of the tape: recording, all forms of backward, gradients of views, scopes, recomputation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/context.h"
#include "tapehead/gradient_check.h"
#include "tapehead/layers.h"
#include "tapehead/module.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "leaf_and_loss.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1});
    ck_assert_ptr_nonnull(ctx);
}

START_TEST(backward_of_a_square_is_twice_the_value)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    ck_assert_int_eq(th_backward(total(th_mul(x, x)), NULL), TH_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(i)), 2.0 * (i + 1));
}
END_TEST

START_TEST(gradients_accumulate_until_emptied)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    for (int i = 1; i <= 3; i++) {
        ck_assert_int_eq(th_backward(total(th_scale(x, 2)), NULL), TH_OK);
        ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 2.0 * i);
        th_tape_clear(ctx);
    }
    th_empty_gradient(x);
    ck_assert_ptr_null(th_gradient(x));
    ck_assert_int_eq(th_backward(total(x), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(0)), 1);
}
END_TEST

START_TEST(a_second_backward_needs_keep_tape)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *loss = total(th_exp(x));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "consumed");
    th_tape_clear(ctx);
    loss = total(th_exp(x));
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(loss, &(th_backward_options){.keep_tape = true}), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_double_eq_tol(th_get(th_gradient(x), TH_INDEX(0)), 2 * exp(1), 1e-5);
}
END_TEST

START_TEST(a_cotangent_weights_the_outputs)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2, 2));
    th_tensor *c = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2, 2), (float[]){1, 10, 100, 1000});
    ck_assert_int_eq(th_backward(th_scale(x, 3), &(th_backward_options){.cotangent = c}), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1, 0)), 300);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_backward(th_scale(x, 3), NULL), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "one element");
}
END_TEST

START_TEST(requested_gradients_do_not_change_those_of_leaves)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2)), *y = counting_leaf(TH_SHAPE(2));
    ck_assert_int_eq(th_backward(total(x), NULL), TH_OK);
    th_tape_clear(ctx);
    th_tensor *square = th_mul(x, x);
    th_tensor *loss = total(th_mul(square, y));
    th_tensor *wrt[] = {x, square}, *gradients[2];
    ck_assert_int_eq(th_backward(loss, &(th_backward_options){.wrt = wrt, .n_wrt = 2, .gradients = gradients}), TH_OK);
    ck_assert_double_eq(th_get(gradients[0], TH_INDEX(1)), 8);
    ck_assert_double_eq(th_get(gradients[1], TH_INDEX(1)), 2);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 1);
    ck_assert_ptr_null(th_gradient(y));
}
END_TEST

START_TEST(a_requested_gradient_of_an_unused_tensor_is_zeros)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2)), *y = counting_leaf(TH_SHAPE(3));
    th_tensor *gradient;
    ck_assert_int_eq(th_backward(total(x), &(th_backward_options){.wrt = &y, .n_wrt = 1, .gradients = &gradient}),
                     TH_OK);
    ck_assert_int_eq(th_numel(gradient), 3);
    ck_assert_double_eq(th_get(gradient, TH_INDEX(2)), 0);
}
END_TEST

START_TEST(saved_gradients_of_intermediate_results_can_be_read)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *h = th_keep_gradient(th_scale(x, 2));
    th_tensor *other = th_scale(x, 3);
    ck_assert_int_eq(th_backward(total(th_add(th_mul(h, h), other)), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(h), TH_INDEX(1)), 8);
    ck_assert_ptr_null(th_gradient(other));
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 19);
}
END_TEST

START_TEST(shared_gradient_memory_is_copied_before_an_addition)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    th_tensor *a = th_keep_gradient(th_scale(x, 1));
    th_tensor *b = th_keep_gradient(th_scale(a, 5));
    th_tensor *sum = th_keep_gradient(th_add(a, b));
    ck_assert_int_eq(th_backward(total(th_scale(sum, 2)), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(sum), TH_INDEX(0)), 2);
    ck_assert_double_eq(th_get(th_gradient(b), TH_INDEX(0)), 2);
    ck_assert_double_eq(th_get(th_gradient(a), TH_INDEX(0)), 12);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(0)), 12);
}
END_TEST

/* Several parts of one tensor are used: their gradients are parts of one memory. Unused elements have the gradient
 * 0. */
START_TEST(gradients_of_views_are_views)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2, 6));
    th_tensor *first = th_slice(x, 1, 0, 2, 1), *second = th_slice(x, 1, 3, 5, 1);
    th_tensor *swapped = th_swap_axes(second, 0, 1);
    th_tensor *loss = th_add(total(th_scale(first, 2)), total(th_mul(swapped, swapped)));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const double expected[2][6] = {{2, 2, 0, 8, 10, 0}, {2, 2, 0, 20, 22, 0}};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 6; j++)
            ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(i, j)), expected[i][j]);
    ck_assert(th_shares_memory(th_gradient(x), th_gradient(first)));
    ck_assert_double_eq(th_get(th_gradient(second), TH_INDEX(1, 0)), 20);
}
END_TEST

START_TEST(overlapping_views_add_up)
{
    th_tensor *x = counting_leaf(TH_SHAPE(6));
    th_tensor *loss = total(th_scale(th_slice(x, 0, 0, 4, 1), 2));
    loss = th_add(loss, total(th_scale(th_slice(x, 0, 2, 6, 1), 3)));
    loss = th_add(loss, total(th_scale(th_slice(x, 0, 0, 6, 3), 10)));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const double expected[6] = {12, 2, 5, 15, 3, 3};
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(i)), expected[i]);
}
END_TEST

START_TEST(views_below_an_expand_sum_back)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3, 1));
    th_tensor *wide = th_expand(x, TH_SHAPE(2, 3, 4));
    th_tensor *part = th_slice(th_swap_axes(wide, 1, 2), 1, 1, 3, 1); /* (2, 2, 3) */
    ck_assert_int_eq(th_backward(total(th_mul(part, part)), NULL), TH_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(i, 0)), 4 * 2.0 * (i + 1));
}
END_TEST

START_TEST(no_grad_and_detach_stop_recording)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_no_grad_begin(ctx);
    th_tensor *y = th_scale(x, 2);
    th_no_grad_end(ctx);
    ck_assert(!th_requires_gradient(y));
    ck_assert_int_eq(th_tape_length(ctx), 0);
    ck_assert_int_eq(th_backward(total(y), NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "recording was off");
    ck_assert_int_eq(th_backward(total(th_mul(th_detach(x), x)), NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 2);
}
END_TEST

START_TEST(a_scope_releases_everything_except_its_result)
{
    th_tensor *x = counting_leaf(TH_SHAPE(1000));
    th_scope_begin(ctx, "block");
    th_tensor *hidden = th_exp(x);
    th_tensor *made = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1000));
    th_tensor *result = th_scope_end(ctx, th_mul(th_scale(hidden, 2), made));
    ck_assert_double_eq_tol(th_get(result, TH_INDEX(0)), 2 * exp(1), 1e-5);
    ck_assert(isnan(th_get(hidden, TH_INDEX(0))));
    expect_error(TH_ERROR_STATE, "was released when its scope ended");
    ck_assert_ptr_null(th_scale(made, 1));
    expect_error(TH_ERROR_STATE, "was released when its scope ended");
    ck_assert_int_eq(th_backward(total(result), NULL), TH_OK);
    ck_assert_double_eq_tol(th_get(th_gradient(x), TH_INDEX(0)), 2 * exp(1), 1e-5);
}
END_TEST

START_TEST(results_of_cheap_operations_are_recomputed)
{
    const th_shape shape = TH_SHAPE(64, 64);
    double gradient[2];
    size_t live[2];
    for (int keep = 0; keep < 2; keep++) {
        th_keep_values(ctx, keep);
        th_tensor *x = counting_leaf(shape);
        ck_assert_int_eq(th_fill_uniform(x, -1, 1), TH_OK);
        ck_assert_int_eq(th_copy_into(x, th_sin(th_arange(ctx, TH_FLOAT32, 0, 64, 1))), TH_OK);
        th_scope_begin(ctx, NULL);
        th_tensor *h = th_gelu_tanh(th_scale(x, 1));
        th_tensor *y = th_scope_end(ctx, total(th_mul(h, h)));
        live[keep] = th_memory(ctx).live;
        ck_assert_int_eq(th_backward(y, NULL), TH_OK);
        gradient[keep] = th_get(th_gradient(x), TH_INDEX(3, 5));
        th_tape_clear(ctx);
    }
    ck_assert(gradient[0] == gradient[1]);
    ck_assert_uint_lt(live[0] + 64 * 64 * 4, live[1]);
}
END_TEST

START_TEST(a_repeated_step_draws_the_same_numbers)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(64));
    float first[64], again[64];
    ck_assert_int_eq(th_copy_out(th_dropout(x, 0.5), first, sizeof first), TH_OK);
    ck_assert_ptr_null(th_reshape(x, TH_SHAPE(5, 5)));
    th_tape_clear(ctx);
    th_error_clear(ctx);
    ck_assert_int_eq(th_copy_out(th_dropout(x, 0.5), again, sizeof again), TH_OK);
    ck_assert_mem_eq(first, again, sizeof first);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_copy_out(th_dropout(x, 0.5), again, sizeof again), TH_OK);
    ck_assert_mem_ne(first, again, sizeof first);
}
END_TEST

/* The backward of scale can overwrite its output gradient, but not if that gradient was requested. */
START_TEST(a_requested_gradient_is_not_overwritten)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    th_tensor *h = th_scale(x, 1), *y = th_scale(h, 5);
    th_tensor *wrt[] = {y, h}, *gradients[2];
    ck_assert_int_eq(
        th_backward(total(th_scale(y, 2)), &(th_backward_options){.wrt = wrt, .n_wrt = 2, .gradients = gradients}),
        TH_OK);
    ck_assert_double_eq(th_get(gradients[0], TH_INDEX(0)), 2);
    ck_assert_double_eq(th_get(gradients[1], TH_INDEX(0)), 10);
}
END_TEST

/* The chain rule by hand: a backward down to h, and another one that continues from there. */
START_TEST(backward_can_run_in_two_parts)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *h = th_exp(x), *gradient;
    ck_assert_int_eq(
        th_backward(total(th_mul(h, h)), &(th_backward_options){.wrt = &h, .n_wrt = 1, .gradients = &gradient}), TH_OK);
    ck_assert_int_eq(th_backward(h, &(th_backward_options){.cotangent = gradient}), TH_OK);
    ck_assert_double_eq_tol(th_get(th_gradient(x), TH_INDEX(0)), 2 * exp(2), 1e-4);
}
END_TEST

START_TEST(a_saved_gradient_and_a_requested_one_are_independent)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *h = th_keep_gradient(th_scale(x, 2)), *gradient;
    ck_assert_int_eq(th_backward(total(th_mul(h, h)), NULL), TH_OK);
    ck_assert_int_eq(th_backward(total(x), &(th_backward_options){.wrt = &h, .n_wrt = 1, .gradients = &gradient}),
                     TH_OK);
    ck_assert_double_eq(th_get(gradient, TH_INDEX(1)), 0);
    ck_assert_double_eq(th_get(th_gradient(h), TH_INDEX(1)), 8);
}
END_TEST

START_TEST(a_cheap_result_that_was_changed_is_not_recomputed)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3)), *c = counting_leaf(TH_SHAPE(3));
    th_scope_begin(ctx, NULL);
    th_tensor *y = th_gelu(x);
    ck_assert_int_eq(th_fill(y, 3), TH_OK);
    th_tensor *loss = th_scope_end(ctx, total(th_mul(y, c)));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(c), TH_INDEX(0)), 3);
}
END_TEST

/* A product whose weight is a result too: a result without other users, or x itself, recomputed. */
static th_tensor *dense_of_results(th_tensor *x, bool with_itself)
{
    th_scope_begin(ctx, NULL);
    th_tensor *h = th_gelu_tanh(x);
    return th_scope_end(ctx, th_dense(h, with_itself ? h : th_scale(x, 0.5), NULL));
}

START_TEST(a_gradient_does_not_overwrite_values_that_are_still_read)
{
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(64, 128)), true), *dx[2];
    for (int kept = 0; kept < 2; kept++) {
        th_keep_values(ctx, kept);
        th_tensor *y = dense_of_results(x, _i);
        ck_assert_int_eq(th_backward(th_mean(th_mul(y, y), TH_ALL_AXES, NULL), NULL), TH_OK);
        dx[kept] = th_keep(th_gradient(x));
        th_empty_gradient(x);
        th_tape_clear(ctx);
    }
    const float *a = th_data(dx[0]), *b = th_data(dx[1]);
    for (int i = 0; i < 64 * 128; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5F))
            ck_abort_msg("dx[%d]: %g, with all values kept %g", i, (double)a[i], (double)b[i]);
}
END_TEST

/* The node that made the requested tensor is not run, so that the pass itself must complete the gradient. */
START_TEST(a_requested_gradient_is_zero_for_unused_elements)
{
    th_tensor *x = counting_leaf(TH_SHAPE(4, 3));
    for (int64_t used = 4; used > 0; used--) {
        th_tensor *y = th_scale(x, 2), *gradient;
        th_tensor *loss = total(th_slice(y, 0, 0, used, 1));
        ck_assert_int_eq(th_backward(loss, &(th_backward_options){.wrt = &y, .n_wrt = 1, .gradients = &gradient}),
                         TH_OK);
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq(th_get(gradient, TH_INDEX(i, 1)), i < used);
        th_tape_clear(ctx);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("tape", setup, close_context);
    tcase_add_test(tcase, backward_of_a_square_is_twice_the_value);
    tcase_add_test(tcase, gradients_accumulate_until_emptied);
    tcase_add_test(tcase, a_second_backward_needs_keep_tape);
    tcase_add_test(tcase, a_cotangent_weights_the_outputs);
    tcase_add_test(tcase, requested_gradients_do_not_change_those_of_leaves);
    tcase_add_test(tcase, a_requested_gradient_of_an_unused_tensor_is_zeros);
    tcase_add_test(tcase, saved_gradients_of_intermediate_results_can_be_read);
    tcase_add_test(tcase, shared_gradient_memory_is_copied_before_an_addition);
    tcase_add_test(tcase, gradients_of_views_are_views);
    tcase_add_test(tcase, overlapping_views_add_up);
    tcase_add_test(tcase, views_below_an_expand_sum_back);
    tcase_add_test(tcase, no_grad_and_detach_stop_recording);
    tcase_add_test(tcase, a_scope_releases_everything_except_its_result);
    tcase_add_test(tcase, results_of_cheap_operations_are_recomputed);
    tcase_add_test(tcase, a_repeated_step_draws_the_same_numbers);
    tcase_add_test(tcase, a_requested_gradient_is_not_overwritten);
    tcase_add_test(tcase, backward_can_run_in_two_parts);
    tcase_add_test(tcase, a_saved_gradient_and_a_requested_one_are_independent);
    tcase_add_test(tcase, a_cheap_result_that_was_changed_is_not_recomputed);
    tcase_add_loop_test(tcase, a_gradient_does_not_overwrite_values_that_are_still_read, 0, 2);
    tcase_add_test(tcase, a_requested_gradient_is_zero_for_unused_elements);
    return run_suites();
}
