/* Handles of tensors that no longer exist. Each use is an error, and never reads another tensor. */
#include <math.h>
#include <stdlib.h>

#include "tapehead/tapehead.h"

#include "misuse.h"
#include "tensor/handle_bits.h"

static th_tensor *itself(void *user, th_tensor *x)
{
    (void)user;
    return x;
}

/* Every function that takes a tensor rejects `gone`. alive is a leaf. Clears the tape. */
static void assert_refused(th_tensor *gone, th_tensor *alive, const char *words)
{
    float number = 0;
    char text[64];
#define ASSERT_REFUSED(...)                                                                                            \
    do {                                                                                                               \
        ck_assert(__VA_ARGS__);                                                                                        \
        expect_error(TH_ERROR_STATE, words);                                                                           \
    } while (0)
    ASSERT_REFUSED(isnan(th_item(gone)));
    ASSERT_REFUSED(isnan(th_get(gone, TH_INDEX(0))));
    ASSERT_REFUSED(th_set(gone, TH_INDEX(0), 1) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_data(gone) == NULL);
    ASSERT_REFUSED(th_data_const(gone) == NULL);
    ASSERT_REFUSED(th_copy_out(gone, &number, sizeof number) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_copy_in(gone, &number, sizeof number) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_copy_into(gone, alive) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_copy_into(alive, gone) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_fill(gone, 1) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_fill_normal(gone, 0, 1) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_keep(gone) == NULL);
    ASSERT_REFUSED(th_ndim(gone) == 0);
    ASSERT_REFUSED(th_dtype_of(gone) == TH_FLOAT32);
    ASSERT_REFUSED(th_shape_of(gone).ndim == 0);
    ASSERT_REFUSED(th_size(gone, 0) == -1);
    ASSERT_REFUSED(th_stride(gone, 0) == -1);
    ASSERT_REFUSED(th_numel(gone) == 0);
    ASSERT_REFUSED(!th_is_contiguous(gone));
    ASSERT_REFUSED(!th_shares_memory(gone, alive));
    ASSERT_REFUSED(th_axes_of(gone)[0] == 0);
    ASSERT_REFUSED(th_set_axes(gone, NULL) == NULL);
    ASSERT_REFUSED(th_print(gone, stdout, NULL) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_print_text(gone, text, sizeof text, NULL) == -1);
    ASSERT_REFUSED(th_add(alive, gone) == NULL);
    ASSERT_REFUSED(th_reshape(gone, TH_SHAPE(1)) == NULL);
    ASSERT_REFUSED(th_dropout(gone, 0) == NULL);
    ASSERT_REFUSED(th_dropout_residual(gone, 0, alive) == NULL);
    ASSERT_REFUSED(th_dropout_residual(alive, 0.5, gone) == NULL);
    ASSERT_REFUSED(th_concat((th_tensor *[]){alive, gone}, 2, 0) == NULL);
    ASSERT_REFUSED(th_masked_softmax(alive, &(th_mask){.additive = gone}) == NULL);
    ASSERT_REFUSED(th_backward(gone, NULL) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_backward(alive, &(th_backward_options){.cotangent = gone}) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_backward(alive, &(th_backward_options){.wrt = &gone, .n_wrt = 1}) == TH_ERROR_STATE);
    ASSERT_REFUSED(th_gradient(gone) == NULL);
    ASSERT_REFUSED(th_keep_gradient(gone) == NULL);
    ASSERT_REFUSED(th_set_requires_gradient(gone, true) == NULL);
    ASSERT_REFUSED(!th_requires_gradient(gone));
    ASSERT_REFUSED((th_empty_gradient(gone), true));
    ASSERT_REFUSED(th_check_gradient_of(itself, NULL, gone, NULL, NULL) == TH_ERROR_STATE);
#undef ASSERT_REFUSED
    th_tensor_free(gone);
    no_error();
}

START_TEST(a_handle_of_a_step_stays_stale)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 1)), true);
    th_tensor *first = th_scale(x, 2);
    ck_assert_double_eq(th_item(first), 2);
    for (int step = 0; step < 1000; step++) {
        th_tape_clear(ctx);
        th_tensor *now = th_scale(x, step);
        ck_assert_ptr_ne(now, first);
        ck_assert(isnan(th_item(first)));
        expect_error(TH_ERROR_STATE, "t belongs to a step that th_tape_clear ended");
        ck_assert_double_eq(th_item(now), step);
        if (step < 3) {
            assert_refused(first, x, "belongs to a step that th_tape_clear ended");
            continue;
        }
        for (int i = 0; i < step % 7; i++) /* steps of different lengths */
            now = th_scale(now, 1);
    }
    no_error();
}
END_TEST

START_TEST(a_handle_of_a_freed_tensor_stays_stale)
{
    th_tensor *alive = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 1)), true);
    th_tensor *freed = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    th_tensor_free(freed);
    assert_refused(freed, alive, "has been freed");
    th_tensor_free(freed);
    for (int i = 0; i < 300000; i++) { /* more often than the bits of a handle can distinguish */
        th_tensor *other = th_empty(ctx, TH_FLOAT32, TH_SHAPE(1));
        ck_assert(other && other != freed);
        if (i % 1000 == 0) {
            ck_assert_int_eq(th_fill(other, i), TH_OK);
            th_tensor_free(freed);
            ck_assert(isnan(th_item(freed)));
            expect_error(TH_ERROR_STATE, "t has been freed");
            ck_assert_double_eq(th_item(other), i);
        }
        th_tensor_free(other);
    }
    ck_assert_uint_lt(th_memory(ctx).live, 1 << 20);
}
END_TEST

START_TEST(a_handle_outlives_its_scope_only_as_its_result)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 1)), true);
    th_scope_begin(ctx, NULL);
    th_tensor *inner = th_scale(x, 2);
    th_tensor *result = th_scope_end(ctx, th_scale(inner, 2));
    ck_assert_double_eq(th_item(result), 4);
    assert_refused(inner, x, "was released when its scope ended");
}
END_TEST

START_TEST(the_handle_of_a_gradient_ends_with_its_tensor)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1)), true);
    th_tensor *h = th_keep_gradient(th_scale(x, 2));
    ck_assert_int_eq(th_backward(th_sum(h, TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tensor *of_leaf = th_gradient(x), *of_result = th_gradient(h);
    th_tape_clear(ctx);
    ck_assert_double_eq(th_item(of_leaf), 2);
    ck_assert(isnan(th_item(of_result)));
    expect_error(TH_ERROR_STATE, "ended");
    th_tensor_free(x);
    ck_assert(isnan(th_item(of_leaf)));
    expect_error(TH_ERROR_STATE, "freed");
}
END_TEST

START_TEST(a_handle_of_a_freed_context_is_an_error)
{
    th_tensor *alive = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    for (int i = 0; i < 5000; i++) { /* more contexts than can live at once */
        th_context *other = th_context_new(NULL);
        ck_assert_ptr_nonnull(other);
        th_tensor *gone = th_ones(other, TH_FLOAT32, TH_SHAPE(1));
        th_context_free(other);
        ck_assert_ptr_null(th_context_of(gone));
        ck_assert(isnan(th_item(gone))); /* the context used last was freed */
        no_error();
        ck_assert_ptr_null(th_add(alive, gone));
        expect_error(TH_ERROR_STATE, "input 1 is not a tensor of a live context");
        ck_assert(isnan(th_item(gone)));
        expect_error(TH_ERROR_STATE, "t is not a tensor of a live context");
    }
    int number = 0;
    ck_assert(isnan(th_item((th_tensor *)(void *)&number)));
    expect_error(TH_ERROR_STATE, "t is not a tensor");
}
END_TEST

START_TEST(the_largest_number_of_contexts)
{
    enum { MAX_CONTEXTS = TH_HANDLE_FIRST_CONTEXT < 4096 ? TH_HANDLE_FIRST_CONTEXT : 4096 };
    th_context **live = malloc(MAX_CONTEXTS * sizeof(th_context *));
    int count = 0;
    while (count < MAX_CONTEXTS && (live[count] = th_context_new(NULL)))
        count++;
    ck_assert_int_eq(count, MAX_CONTEXTS - 1); /* and ctx */
    ck_assert_double_eq(th_item(th_full(live[7], TH_FLOAT32, TH_SCALAR, 3)), 3);
    th_context_free(live[7]);
    live[7] = th_context_new(NULL);
    ck_assert_double_eq(th_item(th_full(live[7], TH_FLOAT32, TH_SCALAR, 4)), 4);
    for (int i = 0; i < count; i++)
        th_context_free(live[i]);
    free(live);
    assert_outside();
}
END_TEST

START_TEST(every_operation_rejects_stale_handles)
{
    th_context *other = th_context_new(NULL);
    th_tensor *foreign = th_ones(other, TH_FLOAT32, TH_SHAPE(1));
    th_tensor *cleared = th_scale(th_ones(ctx, TH_FLOAT32, TH_SHAPE(1)), 1),
              *freed = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    th_tape_clear(ctx);
    th_tensor_free(freed);
    for (int k = 0; k < th_op_count(); k++) {
        const th_op *op = th_op_at(k);
        const th_sample *sample = op->samples;
        if (sample == NULL || sample->name == NULL)
            continue;
        th_tensor *inputs[TH_MAX_INPUTS] = {NULL};
        ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 1, inputs), TH_OK);
        for (int i = 0; i < sample->n_inputs; i++) {
            th_tensor *const right = inputs[i];
            inputs[i] = cleared;
            ck_assert_ptr_null(th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL));
            expect_error(TH_ERROR_STATE, "belongs to a step that th_tape_clear ended");
            inputs[i] = freed;
            ck_assert_ptr_null(th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL));
            expect_error(TH_ERROR_STATE, "has been freed");
            inputs[i] = foreign; /* as the only operand it is legal, in its context */
            ck_assert(th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL) == NULL ||
                      sample->n_inputs == 1);
            if (i > 0 && inputs[0])
                expect_error(TH_ERROR_ARGUMENT, "is a tensor of another context");
            else
                no_error();
            th_error_clear(other);
            inputs[i] = right;
        }
        for (int i = 0; i < sample->n_inputs; i++)
            th_tensor_free(inputs[i]);
    }
    th_tape_clear(ctx);
    th_context_free(other);
    no_error();
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("stale_handles", setup, close_context);
    tcase_add_test(tcase, a_handle_of_a_step_stays_stale);
    tcase_add_test(tcase, a_handle_of_a_freed_tensor_stays_stale);
    tcase_add_test(tcase, a_handle_outlives_its_scope_only_as_its_result);
    tcase_add_test(tcase, the_handle_of_a_gradient_ends_with_its_tensor);
    tcase_add_test(tcase, a_handle_of_a_freed_context_is_an_error);
    tcase_add_test(tcase, the_largest_number_of_contexts);
    tcase_add_test(tcase, every_operation_rejects_stale_handles);
    return run_suites();
}
