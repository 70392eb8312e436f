/* Tests of scopes whose values are recomputed (activation checkpointing). Gradients equal those of plain scopes bit for
 * bit, whatever the scope contains, and only values from outside are saved. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/check.h"
#include "tapehead/tapehead.h"
#include "user_ops.h"

#include "context.h"

enum { ROWS = 6, WIDTH = 8 };

static th_tensor *leaf(th_shape shape)
{
    return th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, shape), true);
}

/* -- functions of three leaves, whose values a scope releases -- */

typedef struct leaves {
    th_tensor *x, *w, *b; /* (ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH) */
} leaves;

typedef th_tensor *inner_function(const leaves *l, th_tensor *x);

static th_tensor *saves_its_result(const leaves *l, th_tensor *x)
{
    (void)l;
    return th_exp(th_tanh(th_sigmoid(x)));
}

static th_tensor *ends_with_a_norm(const leaves *l, th_tensor *x)
{
    th_tensor *y = th_gelu(th_dense(x, l->w, &(th_dense_options){.bias = l->b}));
    return th_layer_norm(th_add(x, y), &(th_norm_options){.weight = l->b, .bias = l->b});
}

static th_tensor *uses_dropout(const leaves *l, th_tensor *x)
{
    return th_add(x, th_dropout(th_dense(th_dropout(x, 0.3), l->w, NULL), 0.5));
}

static th_tensor *uses_attention(const leaves *l, th_tensor *x)
{
    th_tensor *q = th_dense(x, l->w, NULL), *heads = th_swap_axes(th_reshape(q, TH_SHAPE(ROWS, 2, WIDTH / 2)), 0, 1);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *y =
        th_scaled_dot_product_attention(heads, heads, heads, &(th_attention_options){.mask = &mask, .dropout = 0.25});
    return th_mul(th_reshape(th_swap_axes(y, 0, 1), TH_SHAPE(ROWS, WIDTH)), th_rms_norm(q, NULL));
}

static th_tensor *slices_and_concatenates(const leaves *l, th_tensor *x)
{
    th_tensor *y = th_mul(x, x);
    th_tensor *parts[9];
    for (int i = 0; i < 9; i++)
        parts[i] = th_slice(y, 1, i % WIDTH, i % WIDTH + 1, 1);
    th_tensor *joined = th_slice(th_concat(parts, 9, 1), 1, 1, 9, 1);
    return th_add(th_mul(joined, th_expand(l->b, TH_SHAPE(ROWS, WIDTH))), th_slice(th_concat(parts, 8, 1), 1, 0, 8, 1));
}

static th_tensor *contains_a_scope(const leaves *l, th_tensor *x)
{
    th_tensor *y = th_silu(th_dense(x, l->w, NULL));
    th_scope_begin_recomputed(ctx, "inner");
    y = th_scope_end(ctx, ends_with_a_norm(l, th_exp(y)));
    return th_add(uses_dropout(l, y), th_mul(y, y));
}

static th_tensor *uses_a_users_operation(const leaves *l, th_tensor *x)
{
    return th_tanh(th_mul(th_apply(&square, NULL, th_dense(x, l->w, NULL)), th_apply(&square, NULL, x)));
}

static th_tensor *is_partly_unrecorded(const leaves *l, th_tensor *x)
{
    th_tensor *scale = th_detach(th_abs(th_dense(x, l->w, NULL)));
    th_tensor *constant = th_full(ctx, TH_FLOAT32, TH_SHAPE(ROWS, WIDTH), 0.5);
    return th_mul(th_mul(th_mul(x, scale), constant), th_add(x, l->b));
}

static th_tensor *contains_a_loss(const leaves *l, th_tensor *x)
{
    const int32_t target[ROWS] = {0, 1, 2, 3, 4, 5};
    th_tensor *h = th_relu(th_dense(x, l->w, NULL));
    th_tensor *loss = th_dense_cross_entropy(h, l->w, th_from_data(ctx, TH_INT32, TH_SHAPE(ROWS), target), NULL);
    return th_add(th_scale(x, 0.01), loss);
}

static th_tensor *returns_its_input(const leaves *l, th_tensor *x)
{
    (void)th_dense(x, l->w, NULL);
    return x;
}

static th_tensor *uses_a_users_views(const leaves *l, th_tensor *x)
{
    th_tensor *row = th_select(th_dense(x, l->w, NULL), 0, 2); /* (WIDTH) */
    th_tensor *both = th_apply(&windows, (&(one_number){3}), th_apply(&flip, NULL, th_sin(row)));
    return th_add(x, th_mul(th_sum(both, TH_ALL_AXES, NULL), th_mean(th_mul(both, both), TH_ALL_AXES, NULL)));
}

/* An additional output is used in the scope. */
static th_tensor *requests_more_outputs(const leaves *l, th_tensor *x)
{
    th_tensor *weights, *q = th_dense(x, l->w, NULL);
    th_tensor *y = th_scaled_dot_product_attention(q, x, q, &(th_attention_options){.weights = &weights});
    return th_add(y, th_matmul(th_softmax(weights, 0), x));
}

static inner_function *const inner[] = {saves_its_result,       ends_with_a_norm,        uses_dropout,
                                        uses_attention,         slices_and_concatenates, contains_a_scope,
                                        uses_a_users_operation, is_partly_unrecorded,    contains_a_loss,
                                        returns_its_input,      uses_a_users_views,      requests_more_outputs};
enum { INNER = sizeof inner / sizeof *inner };

static leaves new_leaves(void)
{
    return (leaves){leaf(TH_SHAPE(ROWS, WIDTH)), leaf(TH_SHAPE(WIDTH, WIDTH)), leaf(TH_SHAPE(WIDTH))};
}

/* Applies the function three times, between operations that use its input and its output. */
static th_tensor *program(const leaves *l, inner_function *function, bool recomputed)
{
    th_tensor *x = th_gelu(l->x);
    for (int i = 0; i < 3; i++) {
        if (recomputed)
            th_scope_begin_recomputed(ctx, NULL);
        else
            th_scope_begin(ctx, NULL);
        th_tensor *y = th_scope_end(ctx, function(l, x));
        x = th_mul(th_add(y, x), th_sigmoid(y));
    }
    return th_mean(th_mul(x, x), TH_ALL_AXES, NULL);
}

static uint32_t hashed(uint32_t sum, th_tensor *t)
{
    const size_t bytes = (size_t)th_numel(t) * sizeof(float);
    const unsigned char *data = th_data_const(t);
    no_error();
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ data[i]) * 16777619u;
    return sum;
}

/* Returns a checksum of the gradients of all leaves, and empties them. */
static uint32_t sum_of_gradients(const leaves *l)
{
    th_tensor *const all[] = {l->x, l->w, l->b};
    uint32_t sum = 2166136261u;
    for (int i = 0; i < 3; i++)
        if (th_gradient(all[i])) {
            sum = hashed(sum, th_gradient(all[i]));
            th_empty_gradient(all[i]);
        }
    return sum;
}

static uint32_t gradients(const leaves *l, inner_function *function, bool recomputed)
{
    th_set_step(ctx, 3); /* the same dropout in each run */
    ck_assert_int_eq(th_backward(program(l, function, recomputed), NULL), TH_OK);
    const uint32_t sum = sum_of_gradients(l);
    th_tape_clear(ctx);
    return sum;
}

START_TEST(gradients_are_the_same_bit_for_bit)
{
    th_set_fusion(ctx, _i % 2 == 0);
    const leaves l = new_leaves();
    const uint32_t usual = gradients(&l, inner[_i / 2], false);
    for (int again = 0; again < 2; again++)
        ck_assert_uint_eq(gradients(&l, inner[_i / 2], true), usual);
    th_keep_values(ctx, true);
    ck_assert_uint_eq(gradients(&l, inner[_i / 2], true), usual);
    th_keep_values(ctx, false);
    th_set_tracing(ctx, true);
    ck_assert_uint_eq(gradients(&l, inner[_i / 2], true), usual);
    ck_assert_ptr_null(th_trace_finding(ctx));
}
END_TEST

START_TEST(a_tape_can_run_backward_again)
{
    const leaves l = new_leaves();
    uint32_t sum[2][3];
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        th_set_step(ctx, 3);
        th_tensor *loss = program(&l, inner[_i], recomputed), *wanted;
        ck_assert_int_eq(th_backward(loss, &(th_backward_options){.keep_tape = true}), TH_OK);
        sum[recomputed][0] = sum_of_gradients(&l);
        const th_backward_options one = {.keep_tape = true, .wrt = &l.x, .n_wrt = 1, .gradients = &wanted};
        ck_assert_int_eq(th_backward(loss, &one), TH_OK);
        sum[recomputed][1] = hashed(0, wanted);
        ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        sum[recomputed][2] = sum_of_gradients(&l);
        ck_assert_uint_eq(sum[recomputed][0], sum[recomputed][2]);
        ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
        expect_error(TH_ERROR_STATE, "consumed");
        th_tape_clear(ctx);
    }
    ck_assert_mem_eq(sum[0], sum[1], sizeof sum[0]);
}
END_TEST

/* -- saved values -- */

START_TEST(only_values_from_outside_are_saved)
{
    th_tensor *x = leaf(TH_SHAPE(256, 64));
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        const size_t before = th_memory(ctx).live;
        if (recomputed)
            th_scope_begin_recomputed(ctx, NULL);
        else
            th_scope_begin(ctx, NULL);
        th_tensor *y = x;
        for (int i = 0; i < 10; i++)
            y = th_tanh(y);
        y = th_scope_end(ctx, y);
        const size_t values = 256 * 64 * sizeof(float), saved = th_memory(ctx).live - before;
        if (recomputed)
            ck_assert_uint_lt(saved, 2 * values);
        else
            ck_assert_uint_ge(saved, 10 * values);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = th_detach(y)}), TH_OK);
        th_empty_gradient(x);
        th_tape_clear(ctx);
    }
}
END_TEST

/* A node outside the scope holds the result that it saves: the second scope does not make the first run again. */
START_TEST(a_result_is_not_recomputed_for_a_node_outside)
{
    const leaves l = new_leaves();
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    th_tensor *x = l.x;
    th_scope_begin(ctx, NULL);
    for (int i = 0; i < 4; i++) {
        th_scope_begin_recomputed(ctx, NULL);
        x = th_scope_end(ctx, th_sqrt(th_exp(th_sin(x))));
    }
    ck_assert_int_eq(th_backward(th_scope_end(ctx, th_mean(x, TH_ALL_AXES, NULL)), NULL), TH_OK);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    int64_t again = 0;
    for (int64_t i = 0; i < th_profile_count(ctx); i++) {
        th_profile_entry entry;
        ck_assert_int_eq(th_profile_entry_at(ctx, i, &entry), TH_OK);
        again += entry.phase == TH_PROFILE_RECOMPUTE ? entry.calls : 0;
    }
    ck_assert_int_eq(again, 4 * 3); /* in each scope sin, exp, and sqrt, whose own backward reads its result */
}
END_TEST

/* -- long scopes and errors -- */

/* A chain of any length does not overflow the C stack. */
START_TEST(a_scope_may_be_long)
{
    enum { LONG = 20000 };
    th_tensor *x = leaf(TH_SHAPE(3));
    uint32_t sum[2];
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        if (recomputed)
            th_scope_begin_recomputed(ctx, "long");
        else
            th_scope_begin(ctx, "long");
        th_tensor *y = x;
        for (int i = 0; i < LONG; i++)
            y = i % 2 ? th_tanh(y) : th_scale(y, 1.01);
        y = th_scope_end(ctx, y);
        ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        sum[recomputed] = hashed(0, th_gradient(x));
        th_empty_gradient(x);
        th_tape_clear(ctx);
    }
    ck_assert_uint_eq(sum[0], sum[1]);
}
END_TEST

static th_tensor *checked_function(void *user, th_tensor *const *x)
{
    (void)user;
    const leaves l = {x[0], x[1], x[2]};
    th_scope_begin_recomputed(ctx, NULL);
    th_tensor *y = th_scope_end(ctx, contains_a_scope(&l, l.x));
    return th_mul(y, th_sin(y));
}

START_TEST(the_gradient_checker_accepts_recomputation)
{
    const leaves l = new_leaves();
    th_tensor *const inputs[] = {l.x, l.w, l.b};
    th_gradient_report report;
    const th_status status = th_check_gradient(ctx, checked_function, NULL, 3, inputs, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s%s", report.text, th_error_message(ctx));
}
END_TEST

START_TEST(a_changed_value_from_outside_is_an_error)
{
    th_tensor *x = leaf(TH_SHAPE(4)), *outside = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4));
    th_scope_begin_recomputed(ctx, NULL);
    th_tensor *y = th_scope_end(ctx, th_exp(th_add(x, outside)));
    y = th_scale(y, 2);
    ck_assert_int_eq(th_fill(outside, 1), TH_OK);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = outside}), TH_OK); /* y is still there */
    th_tape_clear(ctx);
    th_scope_begin_recomputed(ctx, NULL);
    y = th_scope_end(ctx, th_sin(th_add(x, outside)));
    ck_assert_int_eq(th_fill(outside, 2), TH_OK);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = outside}), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "a value that add saved at");
}
END_TEST

/* A result that was changed after the scope keeps its new values when its operation's other outputs are recomputed. */
START_TEST(a_result_that_was_changed_stays_changed)
{
    th_tensor *x = leaf(TH_SHAPE(3, 4)), *gradient[2];
    for (int written = 0; written < 2; written++) {
        th_scope_begin_recomputed(ctx, NULL);
        th_tensor *y = th_scope_end(ctx, th_layer_norm(th_tanh(x), NULL));
        if (written)
            ck_assert_int_eq(th_fill(y, 7), TH_OK);
        th_tensor *one = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 4));
        ck_assert_int_eq(th_set(one, TH_INDEX(1, 2), 3), TH_OK);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = one}), TH_OK);
        gradient[written] = th_keep(th_gradient(x));
        if (written)
            ck_assert_double_eq(th_get(y, TH_INDEX(1, 1)), 7);
        th_empty_gradient(x);
        th_tape_clear(ctx);
    }
    ck_assert_uint_eq(hashed(0, gradient[0]), hashed(0, gradient[1]));
}
END_TEST

/* th_tape_clear closes a scope that a forward left open. */
START_TEST(tape_clear_closes_an_open_scope)
{
    th_tensor *x = leaf(TH_SHAPE(4));
    th_scope_begin_recomputed(ctx, NULL);
    (void)th_exp(x);
    th_tape_clear(ctx);
    square_runs = 0;
    th_tensor *y = th_tanh(th_mul(x, x));
    th_node_info node;
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = x, .keep_tape = true}), TH_OK);
    ck_assert_int_eq(th_tape_node(ctx, 1, &node), TH_OK);
    ck_assert_uint_gt(node.saved_bytes, 0);
}
END_TEST

START_TEST(a_failed_allocation_is_an_error_without_other_effects)
{
    th_context *before = ctx;
    test_memory memory = {0};
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 1, .allocator = allocator_of(&memory)});
    leaves l = {leaf(TH_SHAPE(64, 64)), leaf(TH_SHAPE(64, 64)), leaf(TH_SHAPE(64))};
    l.b = leaf(TH_SHAPE(64));
    uint32_t usual = 0;
    for (int64_t fail_at = 0;; fail_at++) {
        memory.calls = 0;
        memory.fail_at = fail_at;
        th_set_step(ctx, 3);
        th_tensor *x = l.x;
        for (int i = 0; i < 3 && x; i++) {
            th_scope_begin_recomputed(ctx, NULL);
            x = th_scope_end(ctx, uses_dropout(&l, ends_with_a_norm(&l, x)));
        }
        const th_status status = th_backward(th_mean(x, TH_ALL_AXES, NULL), NULL);
        const bool reached = memory.calls >= fail_at;
        memory.fail_at = 0;
        if (fail_at == 0)
            ck_assert_int_eq(status, TH_OK);
        if (status == TH_OK) {
            const uint32_t sum = sum_of_gradients(&l);
            usual = fail_at == 0 ? sum : usual;
            ck_assert_uint_eq(sum, usual);
        } else {
            expect_error(TH_ERROR_MEMORY, "memory");
        }
        th_tape_clear(ctx);
        if (fail_at > 0 && !reached)
            break;
    }
    th_context_free(ctx);
    ck_assert_uint_eq(memory.bytes, 0);
    ctx = before;
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("recomputed_scope", setup, close_context);
    tcase_add_loop_test(tcase, gradients_are_the_same_bit_for_bit, 0, 2 * INNER);
    tcase_add_loop_test(tcase, a_tape_can_run_backward_again, 0, INNER);
    tcase_add_test(tcase, only_values_from_outside_are_saved);
    tcase_add_test(tcase, a_result_is_not_recomputed_for_a_node_outside);
    tcase_add_test(tcase, a_scope_may_be_long);
    tcase_add_test(tcase, the_gradient_checker_accepts_recomputation);
    tcase_add_test(tcase, a_changed_value_from_outside_is_an_error);
    tcase_add_test(tcase, a_result_that_was_changed_stays_changed);
    tcase_add_test(tcase, tape_clear_closes_an_open_scope);
    tcase_add_test(tcase, a_failed_allocation_is_an_error_without_other_effects);
    return run_suites();
}
