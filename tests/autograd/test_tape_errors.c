/* Tests of errors of the tape: changed values, released tensors, backward and recomputation that fail. */
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

int main(void)
{
    TCase *tcase = new_suite("tape_errors", setup, close_context);
    tcase_add_test(tcase, a_changed_saved_value_is_an_error_that_names_both_lines);
    tcase_add_test(tcase, a_stale_handle_is_detected);
    tcase_add_test(tcase, a_tensor_freed_while_the_tape_uses_it_stays_until_the_clear);
    tcase_add_test(tcase, a_failed_backward_empties_the_gradients_it_wrote);
    tcase_add_test(tcase, a_saved_operand_that_is_a_changed_gradient_is_an_error);
    tcase_add_test(tcase, the_handle_of_a_gradient_cannot_be_freed);
    tcase_add_test(tcase, only_owned_tensors_can_become_leaves);
    tcase_add_test(tcase, a_tensor_of_a_failed_context_is_rejected);
    tcase_add_test(tcase, a_failed_recomputation_can_be_repeated);
    tcase_add_test(tcase, a_failed_backward_consumes_its_node);
    tcase_add_test(tcase, the_checker_rejects_a_result_of_an_ended_step);
    tcase_add_test(tcase, the_checker_needs_values);
    tcase_add_test(tcase, the_error_at_the_memory_limit_contains_it);
    return run_suites();
}
