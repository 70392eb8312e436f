/* Tests of the tape: recording, all forms of backward, views, scopes, recomputation, tracing, printing, memory,
 * errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
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

START_TEST(a_changed_saved_value_is_an_error_that_names_both_lines)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *loss = total(th_mul(x, x));
    ck_assert_int_eq(th_fill(x, 7), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "mul saved at"));
    expect_error(TH_ERROR_STATE, "changed at");
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

START_TEST(a_stale_handle_is_detected)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *y = th_scale(x, 2);
    th_tape_clear(ctx);
    ck_assert_ptr_null(th_scale(y, 2));
    expect_error(TH_ERROR_STATE, "th_tape_clear");
    th_tensor *z = th_scale(x, 3); /* z uses y's memory */
    ck_assert_ptr_null(th_scale(y, 2));
    expect_error(TH_ERROR_STATE, "th_tape_clear");
    ck_assert_double_eq(th_get(z, TH_INDEX(0)), 3);
}
END_TEST

START_TEST(a_tensor_freed_while_the_tape_uses_it_stays_until_the_clear)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2)), *w = counting_leaf(TH_SHAPE(2));
    th_tensor *loss = total(th_mul(x, w));
    th_tensor_free(w);
    ck_assert_ptr_null(th_scale(w, 2));
    expect_error(TH_ERROR_STATE, "freed");
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 2);
    th_tape_clear(ctx);
}
END_TEST

static double one_step(th_tensor *x)
{
    th_scope_begin(ctx, "model");
    th_tensor *h = th_gelu_tanh(th_matmul(x, x));
    th_tensor *parts[2];
    ck_assert_int_eq(th_split(h, 1, 2, (int64_t[]){8, 8}, parts), TH_OK);
    h = th_dropout(th_add(th_matmul(parts[0], th_swap_axes(parts[1], 0, 1)), h), 0.1);
    th_tensor *loss = th_scope_end(ctx, th_mean(th_mul(h, h), TH_ALL_AXES, NULL));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const double value = th_item(loss);
    th_tape_clear(ctx);
    th_empty_gradient(x);
    return value;
}

START_TEST(after_the_first_step_no_step_allocates)
{
    th_tensor *x = counting_leaf(TH_SHAPE(16, 16));
    ck_assert_int_eq(th_fill_uniform(x, -1, 1), TH_OK);
    one_step(x);
    const size_t before = th_memory(ctx).allocations;
    th_memory_reset_peak(ctx);
    const size_t live = th_memory(ctx).live;
    for (int i = 0; i < 5; i++)
        one_step(x);
    ck_assert_uint_eq(th_memory(ctx).allocations, before);
    ck_assert_uint_eq(th_memory(ctx).live, live);
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

START_TEST(tracing_finds_the_first_value_that_is_not_finite)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    th_set_tracing(ctx, true);
    th_scope_begin(ctx, "head");
    th_tensor *y = th_log(th_add_scalar(x, -2));
    th_scope_end(ctx, th_exp(y));
    const char *finding = th_trace_finding(ctx);
    ck_assert_ptr_nonnull(finding);
    ck_assert_msg(strncmp(finding, "log: output 0 is not finite", 27) == 0, "%s", finding);
    ck_assert_ptr_nonnull(strstr(finding, "in head"));
    ck_assert_ptr_nonnull(strstr(finding, "test_tape.c:"));
    ck_assert_ptr_nonnull(strstr(finding, "-1 .. 1"));
    th_tape_clear(ctx);
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    th_tape_clear(ctx);
    ck_assert_ptr_null(th_trace_finding(ctx));
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

/* A pass that wrote to a gradient and then failed also empties the gradient that was saved before. */
START_TEST(a_failed_backward_empties_the_gradients_it_wrote)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    th_tensor *untouched = th_keep_gradient(th_scale(x, 2));
    th_tensor *h = th_keep_gradient(th_mul(x, untouched));
    th_tensor *loss = total(th_scale(h, 3));
    const th_backward_options keep = {.keep_tape = true};
    ck_assert_int_eq(th_backward(loss, &keep), TH_OK);
    ck_assert_double_eq(th_get(th_gradient(h), TH_INDEX(1)), 3);
    ck_assert_double_eq(th_get(th_gradient(untouched), TH_INDEX(1)), 6);
    ck_assert_int_eq(th_fill(x, 5), TH_OK);
    ck_assert_int_eq(th_backward(loss, &keep), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "mul saved at");
    th_error_clear(ctx);
    ck_assert_ptr_null(th_gradient(h));
    ck_assert_double_eq(th_get(th_gradient(untouched), TH_INDEX(1)), 6);
}
END_TEST

START_TEST(a_saved_operand_that_is_a_changed_gradient_is_an_error)
{
    th_tensor *x = counting_leaf(TH_SHAPE(1)), *w = counting_leaf(TH_SHAPE(1));
    ck_assert_int_eq(th_backward(total(th_scale(x, 3)), NULL), TH_OK);
    th_tape_clear(ctx);
    th_tensor *product = th_mul(w, th_gradient(x)); /* saves the gradient; the same backward adds to it */
    ck_assert_int_eq(th_backward(total(th_add(product, th_scale(x, 7))), NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "mul saved at");
}
END_TEST

START_TEST(the_handle_of_a_gradient_cannot_be_freed)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    ck_assert_int_eq(th_backward(total(th_scale(x, 3)), NULL), TH_OK);
    th_tensor_free(th_gradient(x));
    ck_assert_double_eq(th_get(th_gradient(x), TH_INDEX(1)), 3);
}
END_TEST

START_TEST(only_owned_tensors_can_become_leaves)
{
    th_scope_begin(ctx, NULL);
    th_tensor *made = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    ck_assert_ptr_null(th_set_requires_gradient(made, true));
    expect_error(TH_ERROR_ARGUMENT, "belongs to the tape");
    th_scope_end(ctx, NULL);
    th_no_grad_begin(ctx);
    th_tensor *result = th_scale(counting_leaf(TH_SHAPE(2)), 2);
    th_no_grad_end(ctx);
    ck_assert_ptr_null(th_set_requires_gradient(result, true));
    expect_error(TH_ERROR_ARGUMENT, "belongs to the tape");
    ck_assert_ptr_nonnull(th_set_requires_gradient(th_keep(result), true));
}
END_TEST

/* A context rejects tensors of another one, also if an error is pending there. */
START_TEST(a_tensor_of_a_failed_context_is_rejected)
{
    th_context *other = th_context_new(NULL);
    th_tensor *foreign = th_ones(other, TH_FLOAT32, TH_SHAPE(2));
    ck_assert_ptr_null(th_reshape(foreign, TH_SHAPE(7)));
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    ck_assert_ptr_null(th_add(x, foreign));
    expect_error(TH_ERROR_ARGUMENT, "another context");
    ck_assert_int_eq(th_backward(th_exp(x), &(th_backward_options){.cotangent = foreign}), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "another context");
    th_context_free(other);
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

/* Each allocation of a backward with recomputation fails once. With keep_tape the next backward must be correct. */
START_TEST(a_failed_recomputation_can_be_repeated)
{
    bool failed = true;
    for (int call = 1; failed; call++) {
        test_memory memory = {0};
        th_context *c = th_context_new(&(th_context_options){.seed = 1, .allocator = allocator_of(&memory)});
        th_tensor *x = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(300, 400)), true);
        th_tensor *w = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(400, 300)), true);
        th_scope_begin(c, NULL);
        th_tensor *y = th_dropout(th_swap_axes(x, 0, 1), 0.5); /* allocates a contiguous copy of x */
        th_tensor *expected = th_keep(y);
        th_tensor *loss = th_scope_end(c, total(th_mul(y, w)));
        memory.fail_at = memory.calls + call;
        failed = th_backward(loss, &(th_backward_options){.keep_tape = true}) != TH_OK;
        memory.fail_at = 0;
        th_error_clear(c);
        th_empty_gradient(x);
        th_empty_gradient(w);
        ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        ck_assert_mem_eq(th_data_const(th_gradient(w)), th_data_const(expected), (size_t)300 * 400 * sizeof(float));
        th_context_free(c);
    }
}
END_TEST

/* Each allocation of a dense layer's backward fails once. Its values may be overwritten then: a second backward
 * succeeds or returns an error. */
START_TEST(a_failed_backward_consumes_its_node)
{
    bool failed = true;
    for (int call = 1; failed; call++) {
        test_memory memory = {0};
        th_context *c = th_context_new(&(th_context_options){.seed = 1, .allocator = allocator_of(&memory)});
        th_tensor *x = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(300, 400)), true);
        th_tensor *w = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(300, 400)), true);
        th_scope_begin(c, NULL);
        th_tensor *y = th_scope_end(c, th_dense(th_scale(x, 2), w, NULL));
        const th_backward_options options = {.cotangent = th_ones(c, TH_FLOAT32, TH_SHAPE(300, 300))};
        memory.fail_at = memory.calls + call;
        failed = th_backward(y, &options) != TH_OK;
        memory.fail_at = 0;
        th_error_clear(c);
        const th_status again = th_backward(y, &options);
        ck_assert_msg(again == TH_ERROR_STATE || (failed && again == TH_OK), "call %d: %s", call, th_error_message(c));
        th_context_free(c);
    }
}
END_TEST

/* An operation whose name contains quotes, without formulas. */
static th_status twice_shape(th_call *call)
{
    th_call_output(call, 0, call->input[0].dtype, call->input[0].ndim, call->input[0].size, NULL);
    return TH_OK;
}

static void twice_forward(const th_call *call)
{
    const float *x = call->input[0].data; /* (n) */
    float *y = call->output[0].data;      /* (n) */
    for (int64_t i = 0; i < th_array_numel(&call->input[0]); i++)
        y[i] = 2 * x[i];
}

static void twice_backward(const th_call *call)
{
    const float *dy = call->output_gradient[0].data; /* (n) */
    float *dx = call->input_gradient[0].data;        /* (n) */
    for (int64_t i = 0; i < th_array_numel(&call->input_gradient[0]); i++)
        dx[i] = 2 * dy[i];
}

START_TEST(any_name_can_be_printed)
{
    static const th_op twice = {.name = "\"twice\"",
                                .n_inputs = 1,
                                .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
                                .shape = twice_shape,
                                .forward = twice_forward,
                                .backward = twice_backward};
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    th_scope_begin(ctx, "a \"quoted\" \\ name");
    th_scope_end(ctx, th_add(th_apply(&twice, NULL, x), x));
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true}), TH_OK);
    fflush(file);
    ck_assert_ptr_null(strstr(text, "(null)"));
    ck_assert_ptr_null(strstr(text, "a view"));
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "label=\"a \\\"quoted\\\" \\\\ name\""));
    ck_assert_ptr_nonnull(strstr(text, "label=\"\\\"twice\\\"\\n(3)\""));
    ck_assert_ptr_null(strstr(strstr(text, " -> n"), "subgraph")); /* edges come after all boxes */
    free(text);
}
END_TEST

/* The operation's own gradient is finite; the sum over the broadcast axis is not. */
START_TEST(tracing_finds_a_broadcast_sum_that_overflows)
{
    th_tensor *x = counting_leaf(TH_SHAPE(1)), *ones = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4));
    const th_backward_options options = {.cotangent = th_full(ctx, TH_FLOAT32, TH_SHAPE(4), 1e38)};
    th_set_tracing(ctx, true);
    ck_assert_int_eq(th_backward(th_mul(x, ones), &options), TH_OK);
    ck_assert(isinf(th_get(th_gradient(x), TH_INDEX(0))));
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "mul: the gradient of input 0"));
    th_tape_clear(ctx);
    th_empty_gradient(x);
    ck_assert_int_eq(th_backward(th_expand(x, TH_SHAPE(4)), &options), TH_OK);
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "expand: the gradient of input 0"));
}
END_TEST

/* dropout computes on a contiguous copy, which is freed before the finding is written. AddressSanitizer detects a read
 * of the copy. */
START_TEST(tracing_reads_operands_and_not_freed_copies)
{
    th_tensor *x = counting_leaf(TH_SHAPE(2, 64));
    ck_assert_int_eq(th_set(x, TH_INDEX(1, 3), INFINITY), TH_OK);
    ck_assert_int_eq(th_fill(th_slice(x, 1, 4, 64, 1), 1.5), TH_OK);
    th_set_tracing(ctx, true);
    th_tensor *y = th_dropout(th_swap_axes(x, 0, 1), 0.01);
    ck_assert_ptr_nonnull(th_trace_finding(ctx));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "dropout: output 0 is not finite"));
    ck_assert_ptr_nonnull(strstr(th_trace_finding(ctx), "input 0: 1 .. 67, 1 inf"));
    ck_assert_ptr_nonnull(y);
}
END_TEST

static th_tensor *result_of_an_ended_step(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_exp(x);
    th_tape_clear(ctx);
    return y;
}

START_TEST(the_checker_rejects_a_result_of_an_ended_step)
{
    th_tensor *x = counting_leaf(TH_SHAPE(3));
    ck_assert_int_eq(th_check_gradient_of(result_of_an_ended_step, NULL, x, NULL, NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "what the function returned");
}
END_TEST

static th_tensor *exponential(void *user, th_tensor *x)
{
    (void)user;
    return th_exp(x);
}

START_TEST(the_checker_needs_values)
{
    th_context *c = th_context_new(&(th_context_options){.shapes_only = true});
    th_tensor *x = th_zeros(c, TH_FLOAT32, TH_SHAPE(3));
    ck_assert_int_eq(th_check_gradient_of(exponential, NULL, x, NULL, NULL), TH_ERROR_STATE);
    th_context_free(c);
}
END_TEST

/* The message contains the size of the refused allocation (a page of handles here), not the size of the tensor. */
START_TEST(the_error_at_the_memory_limit_contains_it)
{
    th_context *c = th_context_new(&(th_context_options){.memory_limit = 20000});
    ck_assert_ptr_null(th_zeros(c, TH_FLOAT32, TH_SHAPE(1)));
    ck_assert_ptr_nonnull(strstr(th_error_message(c), "would exceed the context's limit of 20000"));
    th_error_clear(c);
    th_scope_begin(c, "name");
    ck_assert_ptr_nonnull(strstr(th_error_message(c), "would exceed the context's limit of 20000"));
    ck_assert_int_eq(
        th_backward(NULL, NULL),
        TH_ERROR_MEMORY); /* the pending error of the context used last, because no tensor names a context */
    th_context_free(c);
}
END_TEST

/* Returns the peak memory of an operation's forward and backward on a sample, in bytes. */
static size_t peak_of_sample(const th_op *op, const th_sample *sample, th_dtype dtype, bool shapes_only,
                             th_shape *shape)
{
    th_context *c = th_context_new(&(th_context_options){.shapes_only = shapes_only, .default_dtype = dtype});
    th_tensor *inputs[TH_MAX_INPUTS];
    ck_assert_int_eq(th_sample_inputs(c, sample, dtype, 1, inputs), TH_OK);
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_dtype storage = sample->input[i].storage;
        ck_assert(sample->input[i].kind > TH_SAMPLE_DISTINCT || th_dtype_of(inputs[i]) == (storage ? storage : dtype));
        if (inputs[i] && !storage && sample->input[i].kind <= TH_SAMPLE_DISTINCT && !sample->input[i].constant)
            ck_assert_ptr_nonnull(th_set_requires_gradient(inputs[i], true));
    }
    th_tensor *y = th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL);
    ck_assert_msg(y != NULL, "%s", th_error_message(c));
    *shape = th_shape_of(y);
    if (th_requires_gradient(y)) {
        th_tensor *cotangent = th_ones(c, th_dtype_of(y), *shape);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    }
    const size_t peak = th_memory(c).peak;
    th_context_free(c);
    return peak;
}

START_TEST(the_forecast_of_every_operation_is_exact)
{
    for (int i = 0; i < th_op_count(); i++) {
        const th_op *op = th_op_at(i);
        for (const th_sample *sample = op->samples; sample->name; sample++)
            for (int dtype = TH_FLOAT32; dtype <= TH_FLOAT64; dtype++) {
                th_shape real, forecast;
                const size_t peak = peak_of_sample(op, sample, (th_dtype)dtype, false, &real);
                ck_assert_uint_eq(peak_of_sample(op, sample, (th_dtype)dtype, true, &forecast), peak);
                ck_assert_int_eq(forecast.ndim, real.ndim);
                ck_assert_mem_eq(forecast.size, real.size, (size_t)real.ndim * sizeof real.size[0]);
            }
    }
}
END_TEST

START_TEST(the_printed_tape_names_shapes_modules_and_costs)
{
    th_tensor *x = th_set_axes(counting_leaf(TH_SHAPE(2, 3)), "BE");
    th_scope_begin(ctx, "layers.0");
    th_tensor *y = th_scope_end(ctx, th_softmax(th_matmul(x, th_swap_axes(x, 0, 1)), -1));
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_print(ctx, file, &(th_tape_print_options){.formulas = true}), TH_OK);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    for (const char *const *part = (const char *[]){"layers.0", "(B=2, E=3)", "matmul", "softmax",
                                                    "exp(x_i) / sum_j exp(x_j)", "digraph", "->", NULL};
         *part; part++)
        ck_assert_msg(strstr(text, *part) != NULL, "\"%s\" is not in\n%s", *part, text);
    free(text);
    th_node_info info;
    ck_assert_int_eq(th_tape_node(ctx, 1, &info), TH_OK);
    ck_assert_str_eq(info.operation, "matmul");
    ck_assert_int_eq(info.multiply_adds, 2 * 2 * 3);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = y}), TH_OK);
}
END_TEST

/* Names are copied. That of an owned tensor has at most 63 bytes. */
START_TEST(names)
{
    char text[100] = "";
    th_tensor *x = counting_leaf(TH_SHAPE(2));
    ck_assert_ptr_eq(th_set_name(x, "first"), x);
    ck_assert_ptr_eq(th_set_name(x, "x"), x);
    memset(text, 'a', 80);
    th_tensor *y = th_set_name(th_exp(x), text);
    memcpy(text + 60, "ééé", 6);
    th_tensor *w = th_set_name(th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true), text);
    memset(text, 'b', 80);
    ck_assert_ptr_nonnull(th_mul(y, w));
    char *dot = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&dot, &size);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(dot, "label=\"x\\nfloat32 (2)\""));
    memset(text, 'a', 80);
    strcpy(text + 80, " = exp\\n(2)\"");
    ck_assert_ptr_nonnull(strstr(dot, text)); /* a result's name is not cut */
    strcpy(text + 60, "é\\nfloat32 (2)\"");   /* the name of an owned tensor is cut, after a whole character */
    ck_assert_ptr_nonnull(strstr(dot, text));
    free(dot);
    assert_error(th_set_name(x, NULL), TH_ERROR_ARGUMENT, "the name is NULL");
    assert_error(th_set_name(NULL, "x"), TH_ERROR_ARGUMENT, "the tensor is NULL");
}
END_TEST

/* With th_keep_values the graph shows few numbers, not many. */
START_TEST(the_graph_has_values)
{
    th_keep_values(ctx, true);
    th_tensor *x = counting_leaf(TH_SHAPE(2)), *many = counting_leaf(TH_SHAPE(9));
    ck_assert_int_eq(th_backward(th_add(total(th_mul(x, x)), total(many)), NULL), TH_OK);
    char *dot = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&dot, &size);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(dot, "label=\"mul\\n(2)\\n= 1 4\\ngradient 1 1\""));
    ck_assert_ptr_nonnull(strstr(dot, "label=\"input\\nfloat32 (2)\\n= 1 2\\ngradient 2 4\""));
    ck_assert_ptr_nonnull(strstr(dot, "label=\"input\\nfloat32 (9)\""));
    free(dot);
}
END_TEST

static char *dot_of_tape(void) /* free */
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    return text;
}

START_TEST(the_graph_names_its_leaves)
{
    th_module *model = th_module_new(ctx, sizeof *model, "model", NULL);
    th_module *inner = th_module_add(model, "block", th_module_new(ctx, sizeof *model, "inner", NULL));
    th_module *dense = th_module_add(inner, "linear1", th_dense_new(ctx, 2, 3, NULL));
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4, 2)), *factor = th_full(ctx, TH_FLOAT32, (th_shape){0}, 2);
    th_tensor *axes = th_set_axes(counting_leaf(TH_SHAPE(3)), "E");
    th_tensor *y = th_mul(th_add(th_module_forward(dense, x), axes), factor);
    ck_assert_ptr_nonnull(th_sum(y, TH_ALL_AXES, NULL));
    char *text = dot_of_tape();
    for (const char *const *part =
             (const char *[]){"style=bold, label=\"block.linear1.weight\\nfloat32 (3, 2)\"",
                              "style=bold, label=\"block.linear1.bias\\nfloat32 (3)\"",
                              "style=dashed, label=\"input\\nfloat32 (4, 2)\"",
                              "style=dashed, label=\"input\\nfloat32 scalar\"",
                              "style=bold, label=\"input\\nfloat32 (E=3)\"", "label=\"sum\\nscalar\"", NULL};
         *part; part++)
        ck_assert_msg(strstr(text, *part) != NULL, "\"%s\" is not in\n%s", *part, text);
    ck_assert_ptr_null(strstr(text, "()"));
    /* The box of a module contains its parameters, but no inputs. Its title is at the left, above a margin. */
    const char *box = strstr(text, "subgraph"), *end = strstr(box, "\n  }"), *graph = strstr(text, "labeljust=l");
    ck_assert(graph && graph < box && strstr(box, "margin=16") < end);
    ck_assert(strstr(box, "linear1.weight") < end && strstr(box, "linear1.bias") < end);
    ck_assert_ptr_null(strstr(text, "cluster_1"));
    ck_assert(strstr(text, "label=\"input") > end);
    free(text);
    th_module_free(model); /* its parameters, which the tape still uses, lose their names */
    text = dot_of_tape();
    ck_assert_ptr_nonnull(strstr(text, "style=bold, label=\"input\\nfloat32 (3, 2)\""));
    ck_assert_ptr_null(strstr(text, "weight"));
    free(text);
}
END_TEST

START_TEST(a_shapes_only_run_forecasts_memory)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(&(th_context_options){.seed = 1, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(128, 256)), true);
        th_tensor *w = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(256, 256)), true);
        th_scope_begin(c, NULL);
        th_tensor *h = th_gelu_tanh(th_dense(x, w, NULL));
        h = th_layer_norm(th_dense(h, w, NULL), NULL);
        th_tensor *loss = th_scope_end(c, th_sum(th_mul(h, h), TH_ALL_AXES, NULL));
        ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(c));
        ck_assert(shapes_only ? isnan(th_item(loss)) : isfinite(th_item(loss)));
        peak[shapes_only] = th_memory(c).peak;
        th_context_free(c);
    }
    ck_assert_double_eq_tol((double)peak[1] / (double)peak[0], 1, 0.05);
}
END_TEST

/* A shapes-only context counts the memory of contiguous copies, although it copies nothing. */
START_TEST(the_forecast_counts_copies_of_operands)
{
    size_t peak[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(&(th_context_options){.seed = 1, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_zeros(c, TH_FLOAT32, TH_SHAPE(128, 64)), true);
        th_tensor *y = th_mean(th_dropout(th_swap_axes(x, 0, 1), 0.5), TH_ALL_AXES, NULL);
        ck_assert_int_eq(th_backward(y, NULL), TH_OK);
        peak[shapes_only] = th_memory(c).peak;
        th_context_free(c);
    }
    ck_assert_uint_eq(peak[1], peak[0]);
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
    tcase_add_test(tcase, a_changed_saved_value_is_an_error_that_names_both_lines);
    tcase_add_test(tcase, a_scope_releases_everything_except_its_result);
    tcase_add_test(tcase, results_of_cheap_operations_are_recomputed);
    tcase_add_test(tcase, a_stale_handle_is_detected);
    tcase_add_test(tcase, a_tensor_freed_while_the_tape_uses_it_stays_until_the_clear);
    tcase_add_test(tcase, after_the_first_step_no_step_allocates);
    tcase_add_test(tcase, a_repeated_step_draws_the_same_numbers);
    tcase_add_test(tcase, tracing_finds_the_first_value_that_is_not_finite);
    tcase_add_test(tcase, a_requested_gradient_is_not_overwritten);
    tcase_add_test(tcase, backward_can_run_in_two_parts);
    tcase_add_test(tcase, a_saved_gradient_and_a_requested_one_are_independent);
    tcase_add_test(tcase, a_failed_backward_empties_the_gradients_it_wrote);
    tcase_add_test(tcase, a_saved_operand_that_is_a_changed_gradient_is_an_error);
    tcase_add_test(tcase, the_handle_of_a_gradient_cannot_be_freed);
    tcase_add_test(tcase, only_owned_tensors_can_become_leaves);
    tcase_add_test(tcase, a_tensor_of_a_failed_context_is_rejected);
    tcase_add_test(tcase, a_cheap_result_that_was_changed_is_not_recomputed);
    tcase_add_test(tcase, a_failed_recomputation_can_be_repeated);
    tcase_add_test(tcase, a_failed_backward_consumes_its_node);
    tcase_add_loop_test(tcase, a_gradient_does_not_overwrite_values_that_are_still_read, 0, 2);
    tcase_add_test(tcase, a_requested_gradient_is_zero_for_unused_elements);
    tcase_add_test(tcase, any_name_can_be_printed);
    tcase_add_test(tcase, tracing_finds_a_broadcast_sum_that_overflows);
    tcase_add_test(tcase, tracing_reads_operands_and_not_freed_copies);
    tcase_add_test(tcase, the_checker_rejects_a_result_of_an_ended_step);
    tcase_add_test(tcase, the_checker_needs_values);
    tcase_add_test(tcase, the_error_at_the_memory_limit_contains_it);
    tcase_add_test(tcase, the_forecast_of_every_operation_is_exact);
    tcase_add_test(tcase, the_printed_tape_names_shapes_modules_and_costs);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, the_graph_has_values);
    tcase_add_test(tcase, the_graph_names_its_leaves);
    tcase_add_test(tcase, a_shapes_only_run_forecasts_memory);
    tcase_add_test(tcase, the_forecast_counts_copies_of_operands);
    return run_suites();
}
