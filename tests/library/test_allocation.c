/* Failing allocations. Every allocation of a training step, and of the calls around it, fails once, or it and all
 * later ones fail. A second test: after the first step nothing is allocated. */
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "suite.h"
#include "tapehead/tapehead.h"

/* -- malloc that counts the allocations of the whole process while `watching` -- */

#if OWN_MALLOC
static _Atomic int watching, allocations;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    allocations += watching;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations += watching;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    allocations += watching;
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    allocations += watching;
    return __libc_memalign(alignment, bytes);
}
#endif

/* -- a small model that uses most features -- */

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
    h = th_attend(t->attention, h, h, h, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
    return th_module_forward(t->head, th_gelu_tanh(th_add(x, th_module_forward(t->dropout, h))));
}

typedef struct training {
    test_memory memory;
    size_t limit; /* 0: no limit */
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens, *targets;
    bool error_cleared_first; /* th_error_clear is called before th_tape_clear */
} training;

/* Creates everything before the first step. Members are NULL after memory ran out. */
static void start(training *t, int threads)
{
    t->ctx = th_context_new(&(th_context_options){
        .seed = 5, .threads = threads, .memory_limit = t->limit, .allocator = allocator_of(&t->memory)});
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
    const th_status status = th_backward(loss, NULL) || th_optimizer_step(t->adam) ? th_error_code(t->ctx) : TH_OK;
    if (t->error_cleared_first)
        th_error_clear(t->ctx);
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
    ck_assert_uint_eq(t.memory.bytes, 0);
    return crc;
}

START_TEST(a_step_survives_the_failure_of_any_allocation)
{
    const bool forever = _i % 2 == 1;
    const uint32_t expected = bits_after_one_good_step();
    for (int64_t n = 1;; n++) {
        training t = {.error_cleared_first = _i >= 2};
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
        if (status == TH_OK) { /* the block allocator took a smaller chunk */
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
        ck_assert_uint_eq(t.memory.bytes, 0);
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
        ck_assert_uint_eq(t.memory.bytes, 0);
        if (!reached)
            return;
    }
}
END_TEST

/* -- a program of many parts: each can be repeated after it failed -- */

static th_status trained(training *t)
{
    return step(t);
}

/* Evaluates without recording and keeps a result. */
static th_status evaluated(training *t)
{
    th_tensor *kept = th_keep(th_module_evaluate(t->model, t->tokens));
    const th_status status = kept ? TH_OK : th_error_code(t->ctx);
    if (kept)
        ck_assert(th_get(kept, TH_INDEX(0, 0, 0)) == th_get(kept, TH_INDEX(0, 0, 0)));
    th_tensor_free(kept);
    th_tape_clear(t->ctx);
    return status;
}

/* Reads and keeps the gradients of a result and of a parameter, without an optimizer step. */
static th_status gradients_read(training *t)
{
    th_tensor *logits = th_keep_gradient(th_module_forward(t->model, t->tokens));
    th_tensor *loss = th_cross_entropy(logits, t->targets, NULL);
    th_tensor *weight = th_module_find_parameter(t->model, "head.weight"), *copy = NULL;
    th_status status = th_backward(loss, NULL);
    if (status == TH_OK) {
        th_tensor *of_result = th_gradient(logits);
        copy = of_result ? th_keep(th_gradient(weight)) : NULL;
        status = copy ? TH_OK : th_error_code(t->ctx);
    }
    th_tensor *chosen[1] = {NULL};
    if (status == TH_OK) {
        loss = th_sum(th_module_forward(t->model, t->tokens), TH_ALL_AXES, NULL);
        status = th_backward(loss, &(th_backward_options){.wrt = &weight, .n_wrt = 1, .gradients = chosen});
        ck_assert(status != TH_OK || chosen[0]);
    }
    th_tensor_free(copy);
    th_tape_clear(t->ctx);
    for (th_parameter_iterator p = th_module_parameters(t->model); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
    return status;
}

static th_status profiled(training *t)
{
    FILE *nowhere = fopen("/dev/null", "w");
    th_status status = th_profile_begin(t->ctx, NULL);
    if (status == TH_OK) {
        (void)th_module_evaluate(t->model, t->tokens);
        status = th_profile_end(t->ctx);
    }
    if (status == TH_OK)
        status = th_profile_print(t->ctx, nowhere);
    if (status == TH_OK)
        status = th_profile_write_trace_to(t->ctx, nowhere);
    if (status == TH_OK)
        status = th_error_code(t->ctx);
    th_profile_free(t->ctx);
    th_tape_clear(t->ctx);
    fclose(nowhere);
    return status;
}

static th_status printed_and_written(training *t)
{
    th_tensor *weight = th_module_find_parameter(t->model, "head.weight"), *read = NULL;
    FILE *nowhere = fopen("/dev/null", "w"), *file = tmpfile();
    (void)th_module_forward(t->model, t->tokens);
    th_status status = th_tape_print(t->ctx, nowhere, &(th_tape_print_options){.formulas = true});
    if (status == TH_OK)
        status = th_npy_write_to(th_swap_axes(weight, 0, 1), file);
    if (status == TH_OK) {
        rewind(file);
        read = th_npy_read_from(t->ctx, file);
        status = read ? th_picture_heatmaps(read, "/dev/null", NULL) : th_error_code(t->ctx);
    }
    if (status == TH_OK)
        status = th_error_code(t->ctx);
    th_tensor_free(read);
    th_tape_clear(t->ctx);
    fclose(nowhere);
    fclose(file);
    return status;
}

static th_tensor *normed(void *user, th_tensor *x)
{
    return th_gelu_tanh(th_module_forward(user, x));
}

static th_status checked(training *t)
{
    th_tensor *x = th_arange(t->ctx, TH_FLOAT32, 0, WIDTH, 1);
    x = x ? th_keep(th_reshape(x, TH_SHAPE(1, WIDTH))) : NULL;
    static th_gradient_report report;
    const th_status status =
        th_check_gradient_of(normed, th_module_find(t->model, "norm"), x,
                             &(th_gradient_options){.mode = TH_GRADIENT_FAST, .directions = 1, .samples = 2}, &report);
    ck_assert_msg(status == TH_OK || status == th_error_code(t->ctx), "%s", report.text);
    th_tensor_free(x);
    th_tape_clear(t->ctx);
    return status;
}

static th_status widened(training *t)
{
    return th_module_cast(t->model, TH_FLOAT64);
}

static th_status narrowed(training *t)
{
    return th_module_cast(t->model, TH_FLOAT32);
}

typedef th_status part(training *t);
static part *const parts[] = {trained, evaluated, gradients_read, trained,  profiled, printed_and_written, checked,
                              trained, widened,   trained,        narrowed, trained,  evaluated,           trained};
enum { PARTS = sizeof parts / sizeof *parts };

/* Runs all parts after the model was created. Repeats a part that fails. Returns the checksum of the model. */
static uint32_t program(training *t, int64_t fail_at, bool forever, bool *reached)
{
    start(t, 1);
    ck_assert_int_eq(th_error_code(t->ctx), TH_OK);
    const int64_t before = t->memory.calls;
    t->memory.fail_at = fail_at ? before + fail_at : 0;
    t->memory.forever = forever;
    for (int i = 0; i < PARTS; i++) {
        const size_t live = th_memory(t->ctx).live;
        const uint32_t bits = th_module_crc32c(t->model);
        const th_status status = parts[i](t);
        if (status == TH_OK)
            continue;
        ck_assert_msg(status == TH_ERROR_MEMORY && th_error_code(t->ctx) == TH_ERROR_MEMORY,
                      "part %d, allocation %lld: %s", i, (long long)fail_at, th_error_message(t->ctx));
        ck_assert_uint_eq(th_module_crc32c(t->model), bits);
        if (parts[i] == widened || parts[i] == narrowed) /* a failed conversion leaves no memory allocated */
            ck_assert_uint_eq(th_memory(t->ctx).live, live);
        t->memory.fail_at = 0;
        th_tape_clear(t->ctx);
        th_error_clear(t->ctx);
        for (th_parameter_iterator p = th_module_parameters(t->model); th_parameter_next(&p);)
            th_empty_gradient(p.tensor);
        ck_assert_msg(parts[i](t) == TH_OK, "part %d after allocation %lld failed: %s", i, (long long)fail_at,
                      th_error_message(t->ctx));
    }
    *reached = fail_at && t->memory.calls >= before + fail_at;
    const uint32_t bits = th_module_crc32c(t->model);
    th_context_free(t->ctx);
    ck_assert_uint_eq(t->memory.bytes, 0);
    return bits;
}

START_TEST(a_program_survives_the_failure_of_any_allocation)
{
    bool reached;
    const uint32_t expected = program(&(training){.ctx = NULL}, 0, false, &reached);
    int64_t n = 1;
    do {
        const uint32_t bits = program(&(training){.ctx = NULL}, n, _i == 1, &reached);
        ck_assert_msg(bits == expected, "other bits after allocation %lld failed", (long long)n);
        n++;
    } while (reached);
    ck_assert_int_gt(n, 50);
}
END_TEST

/* As above, but with a memory limit that grows a little from run to run, instead of a failing allocator. */
START_TEST(a_program_survives_any_limit)
{
    bool reached;
    const uint32_t expected = program(&(training){.ctx = NULL}, 0, false, &reached);
    int trained_to_the_end = 0;
    for (size_t limit = 64; trained_to_the_end < 2; limit += limit / 12 + 64) {
        training t = {.limit = limit};
        start(&t, 1);
        th_status status = t.ctx ? th_error_code(t.ctx) : TH_ERROR_MEMORY;
        for (int i = 0; i < PARTS && status == TH_OK; i++)
            status = parts[i](&t);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        ck_assert_uint_le(th_memory(t.ctx).reserved_peak, t.ctx ? limit : 0);
        if (status == TH_OK) {
            ck_assert_uint_eq(th_module_crc32c(t.model), expected);
            trained_to_the_end++;
        }
        th_context_free(t.ctx);
        ck_assert_uint_eq(t.memory.bytes, 0);
    }
}
END_TEST

START_TEST(no_step_after_the_first_allocates)
{
    training t = {.ctx = NULL};
    start(&t, _i);
    ck_assert_msg(step(&t) == TH_OK, "%s", th_error_message(t.ctx));
    const int64_t calls = t.memory.calls;
    ck_assert_int_eq(step(&t),
                     TH_OK); /* the first step creates the moments at its end; the second step's peak includes them */
    const size_t reserved = th_memory(t.ctx).reserved, peak = th_memory(t.ctx).peak;
#if OWN_MALLOC
    allocations = 0;
    watching = 1;
#endif
    int failed = 0; /* no assertions in this loop, because they allocate memory */
    for (int i = 0; i < 10; i++)
        failed += step(&t) != TH_OK;
#if OWN_MALLOC
    watching = 0;
    ck_assert_int_eq(allocations, 0);
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
    TCase *tcase = new_suite("allocation", NULL, NULL);
    tcase_add_loop_test(tcase, a_step_survives_the_failure_of_any_allocation, 0, 4);
    tcase_add_loop_test(tcase, making_a_model_survives_the_failure_of_any_allocation, 0, 2);
    tcase_add_loop_test(tcase, a_program_survives_the_failure_of_any_allocation, 0, 2);
    tcase_add_test(tcase, a_program_survives_any_limit);
    tcase_add_loop_test(tcase, no_step_after_the_first_allocates, 1, 3);
    return run_suites();
}
