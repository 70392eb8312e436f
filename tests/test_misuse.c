/* Calls at the wrong time, in the wrong order or twice. Each one is an error with its message, never a crash and
 * never the numbers of another tensor. Afterwards the context continues with identical results. (Wrong operands:
 * test_errors.) */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"
#include "tensor/handle_bits.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
}

/* Checks the code and some words of the pending error, and clears it. */
static void assert_error_of(th_context *c, th_status code, const char *words)
{
    ck_assert_msg(th_error_code(c) == code && strstr(th_error_message(c), words), "\"%s\" (%d) instead of \"%s\" (%d)",
                  th_error_message(c), (int)th_error_code(c), words, (int)code);
    th_error_clear(c);
}

/* Checks that the user owns a tensor created now. */
static void assert_outside(void)
{
    th_tensor *t = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    th_tape_clear(ctx);
    ck_assert_double_eq(th_item(t), 1);
    th_tensor_free(t);
    no_error();
}

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

/* -- stale handles -- */

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

/* -- scopes that a forward leaves open -- */

typedef struct careless {
    th_module base;
    bool returns_early;
    void (*before)(th_module *m);
} careless;

static th_tensor *careless_forward(th_module *m, th_tensor *x)
{
    const careless *c = (const careless *)m;
    if (c->before)
        c->before(m);
    return c->returns_early ? NULL : th_scale(x, 2);
}

static careless *new_careless(void)
{
    careless *c = th_module_new(ctx, sizeof *c, "careless", careless_forward);
    ck_assert_ptr_nonnull(c);
    return c;
}

/* A forward as a user writes it in C. */
static th_tensor *careless_function(careless *c, th_tensor *x, th_tensor *y)
{
    if (!th_module_begin(&c->base))
        return NULL;
    th_tensor *h = th_add(x, y);
    if (!h)
        return NULL;
    return th_module_end(&c->base, th_scale(h, 2));
}

START_TEST(tape_clear_closes_scopes_that_a_forward_left_open)
{
    careless *outer = new_careless(), *c = new_careless();
    ck_assert_ptr_nonnull(th_module_add(&outer->base, "inner", &c->base));
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    for (int i = 0; i < 200; i++) {
        if (i % 2) {
            th_scope_begin(ctx, "more");
            ck_assert(th_module_begin(&outer->base));
        }
        ck_assert_ptr_null(careless_function(c, x, wrong));
        if (i % 4 < 2) {
            expect_error(TH_ERROR_SHAPE, i % 2 ? "; in more.inner" : "; in inner");
            th_tape_clear(ctx);
        } else {
            th_tape_clear(ctx);
            th_error_clear(ctx);
        }
        assert_outside();
        th_tensor *y = careless_function(c, x, x);
        ck_assert_double_eq(th_get(y, TH_INDEX(1)), 4);
    }
}
END_TEST

START_TEST(a_module_closes_scopes_left_open_in_it)
{
    careless *outer = new_careless(), *inner = new_careless();
    ck_assert_ptr_nonnull(th_module_add(&outer->base, "inner", &inner->base));
    th_module_pin_evaluation(&inner->base, true);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    ck_assert(th_module_begin(&outer->base));
    th_scope_begin(ctx, NULL);
    ck_assert(th_module_begin(&inner->base));
    th_no_grad_begin(ctx);
    ck_assert(!th_is_training(ctx) && !th_is_recording(ctx));
    th_tensor *y = th_scale(x, 3);
    ck_assert_ptr_eq(th_module_end(&outer->base, y), y);
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
    ck_assert_double_eq(th_get(y, TH_INDEX(0)), 3);
    ck_assert_ptr_eq(th_module_end(&inner->base, y), y); /* too late, twice, and without a begin */
    ck_assert_ptr_eq(th_module_end(&outer->base, y), y);
    ck_assert_ptr_eq(th_scope_end(ctx, y), y);
    assert_outside();
}
END_TEST

START_TEST(an_extra_end_does_not_close_the_forward_around_it)
{
    careless *c = new_careless();
    ck_assert(th_module_begin(&c->base));
    th_scope_end(ctx, NULL);
    th_tensor *inside = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_ptr_null(th_module_end(&c->base, NULL));
    ck_assert(isnan(th_item(inside)));
    expect_error(TH_ERROR_STATE, "was released when its scope ended");
    assert_outside();
}
END_TEST

static void end_around(th_module *m)
{
    ck_assert_ptr_null(th_module_end(m, NULL));
    ck_assert_ptr_null(th_module_end(m->parent, NULL));
    th_scope_end(m->ctx, NULL);
    th_tape_clear(m->ctx);
    ck_assert(!th_is_training(m->ctx));
}

START_TEST(a_forward_cannot_end_the_scopes_around_it)
{
    careless *outer = new_careless(), *inner = new_careless();
    ck_assert_ptr_nonnull(th_module_add(&outer->base, "inner", &inner->base));
    inner->before = end_around;
    th_module_pin_evaluation(&inner->base, true);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    for (int i = 0; i < 3; i++) {
        ck_assert(th_module_begin(&outer->base));
        ck_assert_double_eq(th_get(th_module_forward(&inner->base, x), TH_INDEX(1)), 2);
        ck_assert(th_is_training(ctx));
        th_tensor *inside = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1)), *y = th_scale(x, 3);
        ck_assert_ptr_eq(th_module_end(&outer->base, y), y);
        ck_assert_double_eq(th_get(y, TH_INDEX(0)), 3);
        ck_assert(isnan(th_item(inside)));
        expect_error(TH_ERROR_STATE, "was released when its scope ended");
        assert_outside();
    }
    th_module_free(&outer->base);
    no_error();
}
END_TEST

static void clear_tape(th_module *m)
{
    th_tape_clear(m->ctx);
    th_tensor *t = th_ones(m->ctx, TH_FLOAT32, TH_SHAPE(1));
    th_tape_clear(m->ctx);
    ck_assert(isnan(th_item(t))); /* created in a forward, so the step owned it */
    assert_error_of(m->ctx, TH_ERROR_STATE, "ended");
}

START_TEST(tape_clear_inside_a_forward_ends_its_operand)
{
    careless *c = new_careless();
    c->before = clear_tape;
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_double_eq(th_item(th_module_forward(&c->base, x)), 2); /* an owned operand survives th_tape_clear */
    ck_assert_ptr_null(th_module_forward(&c->base, th_scale(x, 1)));
    expect_error(TH_ERROR_STATE, "scale: input 0 belongs to a step that th_tape_clear ended");
    ck_assert_double_eq(th_item(th_module_evaluate(&c->base, x)), 2);
    ck_assert(th_is_recording(ctx) && th_is_training(ctx));
    assert_outside();
}
END_TEST

START_TEST(recording_is_on_again_after_a_failed_step)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    for (int i = 0; i < 4; i++) {
        th_tape_clear(ctx);
        th_no_grad_begin(ctx);
        ck_assert_ptr_null(th_add(x, wrong)); /* without th_no_grad_end */
        if (i % 2)
            th_error_clear(ctx);
        th_tape_clear(ctx);
        th_error_clear(ctx);
        ck_assert(th_is_recording(ctx));
    }
    /* Recording that was off before the failed step stays off, and so does recording in a step that did not fail. */
    th_no_grad_begin(ctx);
    th_tape_clear(ctx);
    ck_assert(!th_is_recording(ctx));
    ck_assert_ptr_null(th_add(x, wrong));
    th_error_clear(ctx);
    th_tape_clear(ctx);
    ck_assert(!th_is_recording(ctx));
    th_no_grad_end(ctx);
    ck_assert(th_is_recording(ctx));
}
END_TEST

START_TEST(a_mode_set_after_an_early_return_stays)
{
    careless *c = new_careless();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    ck_assert_ptr_null(careless_function(c, x, wrong));
    th_set_training(ctx, false);
    th_error_clear(ctx);
    th_tape_clear(ctx);
    ck_assert(!th_is_training(ctx));
    th_set_training(ctx, true);
    th_module_pin_evaluation(&c->base, true);
    ck_assert_ptr_null(careless_function(c, x, wrong));
    ck_assert(!th_is_training(ctx));
    th_error_clear(ctx);
    th_tape_clear(ctx);
    ck_assert(th_is_training(ctx));
}
END_TEST

START_TEST(a_module_that_returned_early_can_be_freed)
{
    careless *c = new_careless();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    ck_assert_ptr_null(careless_function(c, x, wrong));
    th_module_free(&c->base); /* with the error pending */
    expect_error(TH_ERROR_SHAPE, "add");
    assert_outside();
    c = new_careless();
    ck_assert_ptr_null(careless_function(c, x, wrong));
    th_error_clear(ctx);
    th_module_free(&c->base);
    expect_error(TH_ERROR_STATE, "careless cannot be freed while its forward runs (th_tape_clear ends");
    th_tape_clear(ctx);
    th_module_free(&c->base);
    assert_outside();
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

START_TEST(too_many_scopes)
{
    for (int i = 0; i < 3; i++) {
        for (int depth = 0; depth < 70; depth++)
            th_scope_begin(ctx, "s");
        expect_error(TH_ERROR_STATE, "more than 64 scopes are open");
        ck_assert(!th_module_begin(&new_careless()->base));
        expect_error(TH_ERROR_STATE, "more than 64 scopes are open");
        for (int depth = 0; depth < 70; depth++)
            th_scope_end_all(ctx, NULL, 0);
        assert_outside();
    }
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
    expect_error(TH_ERROR_STATE, "(dense) has been freed");
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

/* -- threads -- */

static th_context *shared;
static atomic_int stage;

static void wait_for(int value)
{
    while (atomic_load(&stage) < value)
        sched_yield();
}

/* Uses a context that another thread then frees or uses. */
static void *use_and_continue(void *unused)
{
    (void)unused;
    th_tensor *t = th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_double_eq(th_item(t), 1);
    atomic_store(&stage, 1);
    wait_for(2); /* the other thread uses it now */
    ck_assert_ptr_null(th_add(NULL, NULL));
    ck_assert_ptr_null(th_module_forward(NULL, NULL));
    ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    atomic_store(&stage, 3);
    wait_for(4); /* it is freed */
    ck_assert_ptr_null(th_add(NULL, NULL));
    ck_assert_ptr_null(th_stack(NULL, 0, 0));
    ck_assert(isnan(th_item(NULL)) && isnan(th_item(t)));
    ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    ck_assert_int_ne(th_optimizer_step(NULL), TH_OK);
    ck_assert_ptr_null(th_zeros(NULL, TH_FLOAT32, TH_SHAPE(1)));
    return NULL;
}

START_TEST(another_thread_frees_the_context_that_was_used_last)
{
    pthread_t thread;
    atomic_store(&stage, 0);
    shared = th_context_new(NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, use_and_continue, NULL), 0);
    wait_for(1);
    th_tensor *t = th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    atomic_store(&stage, 2);
    wait_for(3);
    ck_assert_double_eq(th_item(t), 1); /* errors of the other thread are not stored in this context */
    ck_assert_int_eq(th_error_code(shared), TH_OK);
    th_context_free(shared);
    atomic_store(&stage, 4);
    pthread_join(thread, NULL);
}
END_TEST

/* Calls without an operand while another thread frees the context used last. */
static void *use_and_fail(void *unused)
{
    (void)unused;
    th_tensor *t = th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    atomic_store(&stage, 1);
    for (int i = 0; i < 200; i++) {
        ck_assert_ptr_null(th_add(NULL, NULL));
        ck_assert_ptr_null(th_module_forward(NULL, NULL));
        ck_assert_ptr_null(th_apply_n(th_op_find("add"), NULL, 0, NULL, NULL));
        ck_assert_int_ne(th_backward(NULL, NULL), TH_OK);
    }
    (void)t;
    return NULL;
}

START_TEST(a_context_is_freed_while_an_error_is_stored_in_it)
{
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        atomic_store(&stage, 0);
        shared = th_context_new(NULL);
        ck_assert_int_eq(pthread_create(&thread, NULL, use_and_fail, NULL), 0);
        wait_for(1);
        th_context_free(shared);
        pthread_join(thread, NULL);
    }
}
END_TEST

/* An allocator whose memory cannot be read after its release. */
static void *map(void *user, size_t bytes)
{
    (void)user;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *user, void *memory, size_t bytes)
{
    (void)user;
    munmap(memory, bytes);
}

static atomic_int stopped, freed;

static void wait_until_freed(int number)
{
    (void)number;
    atomic_store(&stopped, 1);
    for (int i = 0; !atomic_load(&freed) && i < 10000;
         i++) /* with a limit, because the signal may have interrupted a call that holds a lock */
        sched_yield();
}

static void *use_and_fail_until_freed(void *unused)
{
    (void)unused;
    (void)th_ones(shared, TH_FLOAT32, TH_SHAPE(1));
    atomic_store(&stage, 1);
    while (!atomic_load(&freed)) {
        for (int i = 0; i < 10; i++)
            (void)th_apply_n(th_op_find("add"), NULL, 0, NULL, NULL);
        (void)(th_backward(NULL, NULL) == TH_OK);
    }
    return NULL;
}

/* Another thread frees the context while a signal handler delays a call without an operand. */
START_TEST(a_context_is_freed_in_the_middle_of_a_call_without_operand)
{
    signal(SIGUSR1, wait_until_freed);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        atomic_store(&stage, 0);
        atomic_store(&stopped, 0);
        atomic_store(&freed, 0);
        shared = th_context_new(&(th_context_options){.threads = 1, .allocator = {map, unmap, NULL}});
        ck_assert_int_eq(pthread_create(&thread, NULL, use_and_fail_until_freed, NULL), 0);
        wait_for(1);
        ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
        while (!atomic_load(&stopped))
            sched_yield();
        th_context_free(shared);
        atomic_store(&freed, 1);
        pthread_join(thread, NULL);
    }
    signal(SIGUSR1, SIG_DFL);
}
END_TEST

static void *fail_until_stopped(void *unused)
{
    (void)unused;
    th_context *c = th_context_new(NULL);
    while (atomic_load(&stage) == 0) {
        (void)th_add(NULL, NULL);
        th_error_clear(c);
    }
    th_context_free(c);
    return NULL;
}

START_TEST(a_process_is_forked_while_other_threads_store_errors)
{
    pthread_t thread[2];
    atomic_store(&stage, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, fail_until_stopped, NULL), 0);
    for (int i = 0; i < 100; i++) {
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            alarm(60);
            th_context *c = th_context_new(NULL);
            const bool right = th_item(th_ones(c, TH_FLOAT32, TH_SHAPE(1))) == 1;
            th_context_free(c);
            _exit(!right);
        }
        int status = 0;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: %s", i,
                      WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "a wrong number");
    }
    atomic_store(&stage, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("misuse", setup, close_context);
    tcase_add_test(tcase, an_allocator_that_does_not_align);
    tcase_add_test(tcase, half_an_allocator);
    tcase_add_test(tcase, illegal_numbers_of_steps);
    tcase_add_test(tcase, a_handle_of_a_step_stays_stale);
    tcase_add_test(tcase, a_handle_of_a_freed_tensor_stays_stale);
    tcase_add_test(tcase, a_handle_outlives_its_scope_only_as_its_result);
    tcase_add_test(tcase, the_handle_of_a_gradient_ends_with_its_tensor);
    tcase_add_test(tcase, a_handle_of_a_freed_context_is_an_error);
    tcase_add_test(tcase, the_largest_number_of_contexts);
    tcase_add_test(tcase, every_operation_rejects_stale_handles);
    tcase_add_test(tcase, tape_clear_closes_scopes_that_a_forward_left_open);
    tcase_add_test(tcase, a_module_closes_scopes_left_open_in_it);
    tcase_add_test(tcase, an_extra_end_does_not_close_the_forward_around_it);
    tcase_add_test(tcase, a_forward_cannot_end_the_scopes_around_it);
    tcase_add_test(tcase, tape_clear_inside_a_forward_ends_its_operand);
    tcase_add_test(tcase, recording_is_on_again_after_a_failed_step);
    tcase_add_test(tcase, a_mode_set_after_an_early_return_stays);
    tcase_add_test(tcase, a_module_that_returned_early_can_be_freed);
    tcase_add_test(tcase, both_orders_of_clearing_equal_a_run_that_never_failed);
    tcase_add_test(tcase, a_cleared_error_changes_no_random_numbers);
    tcase_add_test(tcase, a_failed_operation_draws_no_random_numbers);
    tcase_add_test(tcase, a_tensor_recorded_without_gradient_gets_none);
    tcase_add_test(tcase, backwards_at_the_wrong_time);
    tcase_add_test(tcase, freeing_while_it_is_in_use);
    tcase_add_test(tcase, too_many_scopes);
    tcase_add_test(tcase, a_part_of_a_module_is_freed_with_it_only);
    tcase_add_test(tcase, a_freed_module_is_rejected);
    tcase_add_test(tcase, memory_of_freed_modules_is_released);
    tcase_add_test(tcase, optimizers_and_modules_end_in_any_order);
    tcase_add_test(tcase, another_thread_frees_the_context_that_was_used_last);
    tcase_add_test(tcase, a_context_is_freed_while_an_error_is_stored_in_it);
    tcase_add_test(tcase, a_context_is_freed_in_the_middle_of_a_call_without_operand);
    tcase_add_test(tcase, a_process_is_forked_while_other_threads_store_errors);
    return run_suites();
}
