/* Calls at the wrong time, in the wrong order or twice: options, failed steps, backward, modules and optimizers. Each one is
 * an error with its message, never a crash. Afterwards the context continues with identical results. (Wrong operands: test_errors.
 * Handles: test_stale_handles. Scopes: test_open_scopes.) */
#include <stdlib.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "misuse.h"

/* -- wrong options -- */

/* Aligns the first block only. */
static void *allocate_misaligned(void *user, size_t bytes)
{
    char *memory = aligned_alloc(64, bytes + 64);
    size_t *calls = user;
    return memory == NULL ? NULL : memory + (++*calls > 1 ? 16 : 0);
}

static void release_misaligned(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free((char *)memory - (uintptr_t)memory % 64);
}

START_TEST(an_allocator_that_does_not_align)
{
    size_t calls = 0;
    th_context_options options = {.threads = 1, .allocator = {allocate_misaligned, release_misaligned, &calls}};
    th_context *misaligned = th_context_new(&options);
    ck_assert_ptr_null(th_randn(misaligned, TH_FLOAT32, TH_SHAPE(20)));
    assert_error_of(misaligned, TH_ERROR_ARGUMENT, "allocator: the memory that it returned is not aligned to 64 bytes");
    ck_assert_ptr_null(th_module_list_new(misaligned));
    assert_error_of(misaligned, TH_ERROR_ARGUMENT, "aligned");
    th_context_free(misaligned);
    ck_assert_ptr_null(th_context_new(&options)); /* the memory of the context itself is not aligned */
}
END_TEST

START_TEST(half_an_allocator)
{
    th_context *half = th_context_new(&(th_context_options){.allocator = {.allocate = allocate_misaligned}});
    assert_error_of(half, TH_ERROR_ARGUMENT, "needs both allocate and release; release is NULL");
    th_context_free(half);
    half = th_context_new(&(th_context_options){.allocator = {.release = release_misaligned}});
    assert_error_of(half, TH_ERROR_ARGUMENT, "allocate is NULL");
    th_context_free(half);
}
END_TEST

START_TEST(illegal_numbers_of_steps)
{
    th_set_step(ctx, 5);
    const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        th_set_step(ctx, wrong[i]);
        expect_error(TH_ERROR_ARGUMENT, "the number of steps must be");
        ck_assert_int_eq(th_step(ctx), 5);
    }
}
END_TEST

/* -- a failed step has no effect -- */

typedef enum recovery { NEVER_FAILED, CLEAR_TAPE_FIRST, CLEAR_ERROR_FIRST, RECOVERIES } recovery;

/* Trains with dropout. Step 2 fails once, after dropout has drawn numbers. Returns the checksum of the model. */
static uint32_t train(recovery way, bool in_backward)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 5, .threads = 1});
    th_module *m = th_dense_new(c, 8, 8, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1});
    th_tensor *x = th_uniform(c, TH_FLOAT32, TH_SHAPE(4, 8), -1, 1), *wrong = th_ones(c, TH_FLOAT32, TH_SHAPE(3));
    bool failed = way == NEVER_FAILED;
    for (int step = 0; step < 4; step++)
        for (int part = 0; part < 2; part++) { /* gradients of two batches accumulate */
            th_tensor *h = th_dropout(th_module_forward(m, th_dropout(x, 0.5)), 0.5);
            if (step == 2 && part == 1 && !failed) {
                failed = true;
                ck_assert(in_backward ? th_backward(h, NULL) != TH_OK : th_add(h, wrong) == NULL);
                if (way == CLEAR_ERROR_FIRST)
                    th_error_clear(c);
                th_tape_clear(c);
                th_error_clear(c);
                part--;
                continue;
            }
            ck_assert_int_eq(th_backward(th_mean(th_mul(h, h), TH_ALL_AXES, NULL), NULL), TH_OK);
            if (part == 1)
                ck_assert_int_eq(th_optimizer_step(o), TH_OK);
            th_tape_clear(c);
        }
    const uint32_t sum = th_module_crc32c(m);
    ck_assert_int_eq(th_error_code(c), TH_OK);
    th_context_free(c);
    return sum;
}

START_TEST(both_orders_of_clearing_equal_a_run_that_never_failed)
{
    const uint32_t expected = train(NEVER_FAILED, false);
    for (recovery way = CLEAR_TAPE_FIRST; way < RECOVERIES; way++)
        for (int in_backward = 0; in_backward < 2; in_backward++)
            ck_assert_uint_eq(train(way, in_backward), expected);
}
END_TEST

/* After th_error_clear within a step, the step continues and its random numbers stay. */
START_TEST(a_cleared_error_changes_no_random_numbers)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(64)), true);
    float drawn[2][3][64];
    for (int fails = 0; fails < 2; fails++) {
        th_set_seed(ctx, 9);
        for (int part = 0; part < 3; part++) {
            th_tensor *h = th_dropout(x, 0.5);
            if (fails) {
                ck_assert_ptr_null(th_dropout(th_reshape(h, TH_SHAPE(5)), 0.5));
                expect_error(TH_ERROR_SHAPE, "reshape");
                ck_assert_ptr_null(th_dropout(h, 2));
                th_error_clear(ctx);
            }
            h = th_dropout(h, 0.25);
            ck_assert_int_eq(th_backward(th_sum(h, TH_ALL_AXES, NULL), NULL), TH_OK);
            ck_assert_int_eq(th_copy_out(h, drawn[fails][part], sizeof drawn[fails][part]), TH_OK);
            th_tape_clear(ctx);
        }
    }
    ck_assert_mem_eq(drawn[0], drawn[1], sizeof drawn[0]);
    ck_assert_mem_ne(drawn[0][0], drawn[0][1], sizeof drawn[0][0]);
}
END_TEST

START_TEST(a_failed_operation_draws_no_random_numbers)
{
    enum { N = 1 << 20 }; /* more than fits in step_memory */
    float drawn[2][64];
    for (int fails = 0; fails < 2; fails++) {
        test_memory memory = {0};
        th_context *c =
            th_context_new(&(th_context_options){.seed = 1, .threads = 1, .allocator = allocator_of(&memory)});
        th_tensor *x = th_ones(c, TH_FLOAT32, TH_SHAPE(N));
        ck_assert_ptr_nonnull(th_scale(th_slice(x, 0, 0, 1, 1), 1)); /* creates the tape */
        if (fails) {
            run_out(&memory);
            ck_assert_ptr_null(th_dropout(x, 0.5));
            assert_error_of(c, TH_ERROR_MEMORY, "dropout: out of memory");
        }
        memory.fail_at = 0;
        th_tensor *y = th_slice(th_dropout(x, 0.5), 0, 0, 64, 1);
        ck_assert_int_eq(th_copy_out(y, drawn[fails], sizeof drawn[fails]), TH_OK);
        th_context_free(c);
    }
    ck_assert_mem_eq(drawn[0], drawn[1], sizeof drawn[0]);
}
END_TEST

/* -- gradients -- */

START_TEST(a_tensor_recorded_without_gradient_gets_none)
{
    for (int precomputed = 0; precomputed < 2; precomputed++) {
        th_module *m = th_dense_new(ctx, 3, 3, NULL);
        th_tensor *weight = th_module_find_parameter(m, "weight");
        th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true);
        th_tensor *targets = th_zeros(ctx, TH_INT64, TH_SHAPE(2));
        ck_assert_int_eq(th_module_freeze(m, true), TH_OK);
        th_tensor *loss = precomputed ? th_dense_cross_entropy(x, weight, targets, NULL)
                                      : th_sum(th_module_forward(m, x), TH_ALL_AXES, NULL);
        ck_assert_int_eq(th_module_freeze(m, false), TH_OK);
        ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        ck_assert_ptr_nonnull(th_gradient(x));
        ck_assert_ptr_null(th_gradient(weight));
        th_tape_clear(ctx);
        th_module_free(m);
    }
    no_error();
}
END_TEST

START_TEST(backwards_at_the_wrong_time)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true);
    th_context *other = th_context_new(NULL);
    th_tensor *foreign = th_ones(other, TH_FLOAT32, TH_SHAPE(2));
    th_tensor *h = th_mul(x, x), *loss = th_sum(h, TH_ALL_AXES, NULL);
    ck_assert_int_ne(th_backward(h, &(th_backward_options){.cotangent = foreign}), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "the cotangent is a tensor of another context");
    ck_assert_int_ne(th_backward(loss, &(th_backward_options){.wrt = &foreign, .n_wrt = 1}), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "a tensor of wrt is a tensor of another context");
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "was consumed by an earlier backward");
    th_tape_clear(ctx);
    ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "ended");
    /* A leaf or module that is freed during a step stays until th_tape_clear. */
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    loss = th_sum(th_module_forward(m, th_mul(x, x)), TH_ALL_AXES, NULL);
    th_module_free(m);
    th_tensor_free(x);
    ck_assert_ptr_null(th_scale(x, 1));
    expect_error(TH_ERROR_STATE, "input 0 has been freed");
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    th_tape_clear(ctx);
    no_error();
    ck_assert_int_eq(th_error_code(other), TH_OK);
    th_context_free(other);
}
END_TEST

/* -- modules and optimizers -- */

static th_tensor *freeing_forward(th_module *m, th_tensor *x)
{
    th_context_free(m->ctx);
    return x;
}

static th_tensor *freeing_function(void *user, th_tensor *x)
{
    (void)user;
    th_context_free(ctx);
    return x;
}

static void free_again(th_module *m)
{
    th_module_free(m);
}

START_TEST(freeing_while_it_is_in_use)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    th_module *m = th_module_new(ctx, sizeof *m, "freeing", freeing_forward);
    ck_assert_ptr_null(th_module_forward(m, x));
    expect_error(TH_ERROR_STATE, "context_free: the context cannot be freed while a module's forward runs");
    ck_assert_int_eq(th_check_gradient_of(freeing_function, NULL, x, NULL, NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "context_free: the context cannot be freed while a gradient is being checked");
    th_module *list = th_module_list_new(ctx);
    ck_assert_ptr_nonnull(th_module_list_add(list, m));
    m->destroy = free_again;
    th_module_free(m);
    expect_error(TH_ERROR_STATE, "freeing has already been freed");
    ck_assert_int_eq(th_module_list_length(list), 0);
}
END_TEST

START_TEST(a_part_of_a_module_is_freed_with_it_only)
{
    static const char *const part[] = {
        "embedding",      "position",           "layers",           "norm",
        "layers.0.norm1", "layers.0.self_attn", "layers.1.linear2", "layers.1.self_attn.out_proj"};
    th_module *m = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 5, .length = 4, .width = 8, .heads = 2, .layers = 2});
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(1, 4));
    const int64_t count = th_module_count(m);
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        th_module *member = th_module_find(m, part[i]);
        ck_assert_ptr_nonnull(member);
        th_module_free(member);
        expect_error(TH_ERROR_STATE, "is part of");
        ck_assert_int_eq(th_module_count(m), count);
    }
    ck_assert_ptr_nonnull(th_module_forward(m, tokens));
    th_module_free(th_module_find(m, "layers.0")); /* the list becomes shorter */
    ck_assert_ptr_nonnull(th_module_forward(m, tokens));
    ck_assert_int_lt(th_module_count(m), count);
    th_tape_clear(ctx);
    th_module_free(m);
    no_error();
}
END_TEST

typedef struct holder {
    th_module base;
    th_module *member;
} holder;

static th_tensor *holder_forward(th_module *m, th_tensor *x)
{
    return th_module_forward(((holder *)m)->member, x);
}

START_TEST(a_freed_module_is_rejected)
{
    holder *h = th_module_new(ctx, sizeof *h, "holder", holder_forward);
    h->member = th_module_add(&h->base, "member", th_dense_new(ctx, 2, 2, NULL));
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 2));
    th_tensor *weight = th_module_find_parameter(h->member, "weight");
    ck_assert_ptr_nonnull(th_module_forward(&h->base, x));
    th_tape_clear(ctx);
    th_module_free(h->member);
    ck_assert_ptr_null(th_module_forward(&h->base, x));
    expect_error(TH_ERROR_STATE, "module_forward: dense has been freed");
    ck_assert_ptr_null(th_dense_residual(h->member, x, x));
    expect_error(TH_ERROR_STATE, "dense has been freed");
    ck_assert_ptr_null(th_module_evaluate(h->member, x));
    expect_error(TH_ERROR_STATE, "dense has been freed");
    ck_assert_ptr_null(th_dense(x, weight, NULL));
    expect_error(TH_ERROR_STATE, "dense: input 1 has been freed");
    ck_assert_ptr_null(th_module_add(&h->base, "again", h->member));
    expect_error(TH_ERROR_STATE, "dense has been freed");
    ck_assert_ptr_null(th_module_add_parameter(h->member, "more", TH_SHAPE(1)));
    expect_error(TH_ERROR_STATE, "dense has been freed");
    ck_assert_ptr_null(th_sgd_new(h->member, &(th_sgd_options){.learning_rate = 1}));
    expect_error(TH_ERROR_STATE, "sgd: dense has been freed");
    ck_assert_int_eq(th_module_cast(h->member, TH_FLOAT64), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "dense has been freed");
    ck_assert_int_eq(th_module_count(h->member), 0);
    ck_assert_ptr_null(th_module_find_parameter(h->member, "weight"));
    th_module_free(h->member);
    expect_error(TH_ERROR_STATE, "module_free: dense has already been freed");
    th_module_free(&h->base);
    no_error();
}
END_TEST

START_TEST(memory_of_freed_modules_is_released)
{
    th_memory_usage before = {0};
    for (int i = 0; i < 5000; i++) {
        if (i == 1000)
            before = th_memory(ctx);
        th_module *m = th_module_new(ctx, i % 100 ? sizeof(holder) : 3 << 20, "m", NULL);
        ck_assert_ptr_nonnull(m);
        th_module_free(m);
    }
    ck_assert_uint_eq(th_memory(ctx).live, before.live);
    ck_assert_uint_lt(th_memory(ctx).reserved, 2 << 20);
}
END_TEST

START_TEST(optimizers_and_modules_end_in_any_order)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 2));
    for (int first = 0; first < 2; first++) {
        th_module *m = th_dense_new(ctx, 2, 2, NULL);
        th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1});
        ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        if (first) {
            th_module_free(m); /* the tape still uses its parameters */
            ck_assert_int_eq(th_optimizer_step(o), TH_OK);
            th_tape_clear(ctx);
        }
        th_optimizer_free(o);
        ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE);
        expect_error(TH_ERROR_STATE, "optimizer_step: the optimizer (adam) has been freed");
        ck_assert_int_eq(th_optimizer_set_learning_rate(o, 1), TH_ERROR_STATE);
        expect_error(TH_ERROR_STATE, "has been freed");
        ck_assert_double_eq(th_optimizer_learning_rate(o), 0);
        expect_error(TH_ERROR_STATE, "has been freed");
        th_optimizer_free(o);
        expect_error(TH_ERROR_STATE, "has been freed");
        if (!first)
            th_module_free(m);
        th_tape_clear(ctx);
    }
    no_error();
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("misuse", setup, close_context);
    tcase_add_test(tcase, an_allocator_that_does_not_align);
    tcase_add_test(tcase, half_an_allocator);
    tcase_add_test(tcase, illegal_numbers_of_steps);
    tcase_add_test(tcase, both_orders_of_clearing_equal_a_run_that_never_failed);
    tcase_add_test(tcase, a_cleared_error_changes_no_random_numbers);
    tcase_add_test(tcase, a_failed_operation_draws_no_random_numbers);
    tcase_add_test(tcase, a_tensor_recorded_without_gradient_gets_none);
    tcase_add_test(tcase, backwards_at_the_wrong_time);
    tcase_add_test(tcase, freeing_while_it_is_in_use);
    tcase_add_test(tcase, a_part_of_a_module_is_freed_with_it_only);
    tcase_add_test(tcase, a_freed_module_is_rejected);
    tcase_add_test(tcase, memory_of_freed_modules_is_released);
    tcase_add_test(tcase, optimizers_and_modules_end_in_any_order);
    return run_suites();
}
