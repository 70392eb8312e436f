/* Memory in a training step: every allocation made to fail, once and for good; and no allocation at all after the first
 * step. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

/* -- malloc, watched: what the whole process asks the C library for while `watching` -- */

#if defined(__SANITIZE_ADDRESS__)
#define WATCHES_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHES_MALLOC 0
#endif
#endif
#ifndef WATCHES_MALLOC
#define WATCHES_MALLOC 1
#endif
#if WATCHES_MALLOC
static _Atomic int watching, seen;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    seen += watching;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    seen += watching;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    seen += watching;
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    seen += watching;
    return __libc_memalign(alignment, bytes);
}
#endif

/* -- an allocator that fails when told to -- */

typedef struct failing {
    int64_t calls, fail_at; /* call number fail_at fails; 0: none */
    bool forever;           /* and all after it */
    int64_t bytes;          /* outstanding */
} failing;

static void *failing_allocate(void *user, size_t bytes)
{
    failing *f = user;
    f->calls++;
    if (f->fail_at && (f->calls == f->fail_at || (f->forever && f->calls > f->fail_at)))
        return NULL;
    f->bytes += (int64_t)bytes;
    return aligned_alloc(64, bytes);
}

static void failing_release(void *user, void *memory, size_t bytes)
{
    failing *f = user;
    f->bytes -= (int64_t)bytes;
    free(memory);
}

/* -- a small model that uses most of what there is -- */

enum { VOCABULARY = 11, WIDTH = 16, BATCH = 3, LENGTH = 5 };

typedef struct toy {
    th_module base;
    th_module *embedding, *norm, *attention, *dropout, *head;
} toy;

static th_tensor *toy_forward(th_module *m, th_tensor *tokens)
{
    toy *t = (toy *)m;
    th_tensor *x = th_module_forward(t->embedding, tokens);
    th_tensor *h = th_module_forward(t->norm, x);
    h = th_attend(t->attention, h, h, h, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT});
    return th_module_forward(t->head, th_gelu_tanh(th_add(x, th_module_forward(t->dropout, h))));
}

typedef struct training {
    failing memory;
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens, *targets;
} training;

/* Everything before the first step; entries are NULL where memory ran out. */
static void start(training *t, int threads)
{
    t->ctx = th_context_new(&(th_context_options){
        .seed = 5, .threads = threads, .allocator = {failing_allocate, failing_release, &t->memory}});
    if (t->ctx == NULL)
        return;
    toy *model = th_module_new(t->ctx, sizeof *model, "toy", toy_forward);
    if (model) {
        t->model = &model->base;
        model->embedding = th_module_add(t->model, "embedding", th_embedding_new(t->ctx, VOCABULARY, WIDTH));
        model->norm = th_module_add(t->model, "norm", th_layer_norm_new(t->ctx, WIDTH, NULL));
        model->attention = th_module_add(
            t->model, "attention",
            th_multi_head_attention_new(t->ctx, WIDTH, 2, &(th_multi_head_attention_options){.dropout = 0.1}));
        model->dropout = th_module_add(t->model, "dropout", th_dropout_new(t->ctx, 0.2));
        model->head = th_module_add(t->model, "head", th_dense_new(t->ctx, WIDTH, VOCABULARY, NULL));
    }
    t->adam = th_adam_w_new(t->model, &(th_adam_options){.learning_rate = 1e-2, .weight_decay = 0.1, .max_norm = 1});
    t->tokens = th_random_integers(t->ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, VOCABULARY);
    t->targets = th_random_integers(t->ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, VOCABULARY);
}

static th_status step(training *t)
{
    th_tensor *loss = th_cross_entropy(th_module_forward(t->model, t->tokens), t->targets, NULL);
    const th_status status = th_backward(loss) || th_optimizer_step(t->adam) ? th_error_code(t->ctx) : TH_OK;
    th_tape_clear(t->ctx);
    return status;
}

static uint32_t bits_after_one_good_step(void)
{
    training t = {.ctx = NULL};
    start(&t, 1);
    ck_assert_int_eq(step(&t), TH_OK);
    const uint32_t crc = th_module_crc32c(t.model);
    th_context_free(t.ctx);
    ck_assert_int_eq(t.memory.bytes, 0);
    return crc;
}

START_TEST(a_step_survives_the_failure_of_any_allocation)
{
    const bool forever = _i == 1;
    const uint32_t expected = bits_after_one_good_step();
    for (int64_t n = 1;; n++) {
        training t = {.ctx = NULL};
        start(&t, 1);
        ck_assert_int_eq(th_error_code(t.ctx), TH_OK);
        const int64_t before = t.memory.calls;
        t.memory.fail_at = before + n;
        t.memory.forever = forever;
        const th_status status = step(&t);
        const bool reached = t.memory.calls >= t.memory.fail_at;
        t.memory.fail_at = 0;
        if (!reached) {
            ck_assert_int_eq(status, TH_OK);
            ck_assert_int_gt(n, 3);
            th_context_free(t.ctx);
            return;
        }
        if (status == TH_OK) { /* the arena managed with a smaller chunk */
            ck_assert_uint_eq(th_module_crc32c(t.model), expected);
        } else {
            ck_assert_msg(status == TH_ERROR_MEMORY, "allocation %lld: %s", (long long)n, th_error_message(t.ctx));
            th_error_clear(t.ctx);
            for (th_parameter_iterator p = th_module_parameters(t.model); th_parameter_next(&p);)
                th_empty_gradient(p.tensor);
            ck_assert_msg(step(&t) == TH_OK, "after allocation %lld failed: %s", (long long)n, th_error_message(t.ctx));
            ck_assert_msg(th_module_crc32c(t.model) == expected, "other bits after allocation %lld failed",
                          (long long)n);
        }
        th_context_free(t.ctx);
        ck_assert_int_eq(t.memory.bytes, 0);
    }
}
END_TEST

START_TEST(making_a_model_survives_the_failure_of_any_allocation)
{
    for (int64_t n = 1;; n++) {
        training t = {.memory = {.fail_at = n, .forever = _i == 1}};
        start(&t, 1);
        const bool reached = t.memory.calls >= n;
        if (t.ctx) {
            ck_assert_msg(!reached || th_error_code(t.ctx) == TH_ERROR_MEMORY || th_error_code(t.ctx) == TH_OK,
                          "allocation %lld: %s", (long long)n, th_error_message(t.ctx));
            th_error_clear(t.ctx);
        }
        th_context_free(t.ctx);
        ck_assert_int_eq(t.memory.bytes, 0);
        if (!reached)
            return;
    }
}
END_TEST

START_TEST(no_step_after_the_first_allocates)
{
    training t = {.ctx = NULL};
    start(&t, _i);
    ck_assert_msg(step(&t) == TH_OK, "%s", th_error_message(t.ctx));
    const int64_t calls = t.memory.calls;
    ck_assert_int_eq(step(&t), TH_OK); /* the moments, made at the end of the first step, count in the second's peak */
    const size_t reserved = th_memory(t.ctx).reserved, peak = th_memory(t.ctx).peak;
#if WATCHES_MALLOC
    seen = 0;
    watching = 1;
#endif
    int failed = 0; /* an assertion allocates: none in here */
    for (int i = 0; i < 10; i++)
        failed += step(&t) != TH_OK;
#if WATCHES_MALLOC
    watching = 0;
    ck_assert_int_eq(seen, 0);
#endif
    ck_assert_int_eq(failed, 0);
    ck_assert_int_eq(t.memory.calls, calls);
    ck_assert_uint_eq(th_memory(t.ctx).reserved, reserved);
    ck_assert_uint_eq(th_memory(t.ctx).peak, peak);
    th_context_free(t.ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocation");
    TCase *tcase = tcase_create("allocation");
    tcase_add_loop_test(tcase, a_step_survives_the_failure_of_any_allocation, 0, 2);
    tcase_add_loop_test(tcase, making_a_model_survives_the_failure_of_any_allocation, 0, 2);
    tcase_add_loop_test(tcase, no_step_after_the_first_allocates, 1, 3);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
