/* Tests that a tuner stops within an operation, and repeats the micro-batch with the same bits. It keeps a limit of
 * memory, and another context gets a snapshot of its adapters. */
#include "tapehead/models.h"

#include "tuner.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

/* A function that stops the tuner. */
typedef struct countdown {
    int64_t left;  /* calls that return false before the first that returns true */
    int64_t after; /* calls after that one */
} countdown;

static bool stop_after(void *user)
{
    countdown *c = user;
    c->after += c->left < 0;
    return c->left-- <= 0;
}

/* Dropout of the adapters draws random numbers, which the repeated micro-batch draws again. */
static th_tune_options stopping_options(countdown *c)
{
    return (th_tune_options){.lora = {.dropout = 0.3},
                             .learning_rate = 0.01,
                             .length = 40,
                             .micro_batches = 2,
                             .stop = c ? stop_after : NULL,
                             .user = c};
}

enum { CALLS = 4, STRIDE = 9 };

static void generate(const tuned_model *m)
{
    const int32_t prompt[] = {65, 66};
    th_step_begin(ctx);
    const th_generate_options options = {.prompts = th_from_data(ctx, TH_INT32, TH_SHAPE(1, 2), prompt),
                                         .max_new_tokens = 2};
    ck_assert_int_eq(th_generate(m->model, &options, NULL), TH_OK);
    th_tape_clear(ctx);
}

/* Stops each call after 0, 9, 18 ... operations, until one is complete. Returns how often it was stopped. */
static int step_with_stops(const tuned_model *m, countdown *c)
{
    int stops = 0;
    for (;; stops++) {
        const th_tune_progress before = th_tune_progress_of(m->tune);
        *c = (countdown){.left = STRIDE * stops};
        ck_assert_int_eq(th_tune_step(m->tune), TH_OK);
        const th_tune_progress now = th_tune_progress_of(m->tune);
        ck_assert_int_eq(c->after, 0);
        if (!now.stopped)
            return stops;
        ck_assert_int_eq(now.micro_batches, before.micro_batches);
        ck_assert_int_eq(now.steps, before.steps);
        if (stops % 4 == 0)
            generate(m); /* between two steps, with the same context, model and adapters */
    }
}

START_TEST(a_stopped_micro_batch_is_repeated_with_the_same_bits)
{
    th_tune_options options = stopping_options(NULL);
    tuned_model plain = tuner_new(&options);
    teach_colors(&plain);
    take_steps(&plain, CALLS);
    const uint32_t expected = th_module_crc32c(plain.model);
    const double loss = th_tune_progress_of(plain.tune).loss;
    tuner_free(&plain);

    countdown c = {0};
    options = stopping_options(&c);
    tuned_model stopped = tuner_new(&options);
    teach_colors(&stopped);
    for (int i = 0; i < CALLS; i++)
        ck_assert_int_gt(step_with_stops(&stopped, &c), 5);
    ck_assert_double_eq(th_tune_progress_of(stopped.tune).loss, loss);
    ck_assert_uint_eq(th_module_crc32c(stopped.model), expected);
    tuner_free(&stopped);
}
END_TEST

/* Other functions are not stopped. */
START_TEST(only_steps_are_stopped)
{
    countdown c = {0};
    const th_tune_options options = stopping_options(&c);
    tuned_model m = tuner_new(&options);
    teach_colors(&m);
    c = (countdown){0};
    take_steps(&m, 1);
    ck_assert(th_tune_progress_of(m.tune).stopped);
    ck_assert_int_eq(c.left, -1);
    generate(&m);
    ck_assert_int_eq(c.left, -1);
    tuner_free(&m);
}
END_TEST

static void teach_much(const tuned_model *m)
{
    for (int i = 0; i < 4; i++)
        teach(m, "Count to twenty, please.", "one two three four five six seven eight nine ten eleven twelve thirteen");
}

/* The reserved memory after some steps, without a limit. */
static size_t memory_without_limit(bool recompute, size_t *kept)
{
    th_context *outer = ctx;
    setup();
    tuned_model m = tuner_new(&(th_tune_options){.recompute = recompute});
    *kept = th_memory(ctx).reserved;
    teach_much(&m);
    take_steps(&m, 6);
    const size_t reserved = th_memory(ctx).reserved;
    close_context();
    ctx = outer;
    return reserved;
}

/* With a limit, a micro-batch is recomputed, or has fewer tokens, and the limit is kept. */
START_TEST(a_limit_is_kept)
{
    size_t kept;
    const size_t most = memory_without_limit(false, &kept), least = kept + (most - kept) / 20 * 17;
    th_tune_options options = {.memory_limit = least};
    tuned_model m = tuner_new(&options);
    teach_much(&m);
    take_steps(&m, 12);
    const th_tune_progress p = th_tune_progress_of(m.tune);
    ck_assert_int_eq(p.steps, 12);
    ck_assert(p.recompute);
    ck_assert_int_lt(p.length, MODEL_LENGTH);
    ck_assert_uint_le(th_memory(ctx).reserved_peak, least);
    (void)th_ones(ctx, TH_FLOAT32, TH_SHAPE((int64_t)most)); /* the limit ends with the call */
    no_error();
    tuner_free(&m);
}
END_TEST

/* The bits do not depend on recomputation. */
START_TEST(recomputation_has_the_same_bits)
{
    uint32_t crc[2];
    for (int i = 0; i < 2; i++) {
        tuned_model m = tuner_new(&(th_tune_options){.recompute = i == 1, .lora = {.dropout = 0.3}});
        teach_colors(&m);
        take_steps(&m, 4);
        ck_assert(th_tune_progress_of(m.tune).recompute == (i == 1));
        crc[i] = th_module_crc32c(m.model);
        tuner_free(&m);
    }
    ck_assert_uint_eq(crc[0], crc[1]);
}
END_TEST

START_TEST(a_limit_that_is_too_small_is_an_error)
{
    tuned_model m = tuner_new(&(th_tune_options){.memory_limit = 1});
    expect_failure(m.tune == NULL, TH_ERROR_MEMORY, "limit");
    ck_assert_int_eq(th_lora_count(m.model), 0);
    tuner_free(&m);
}
END_TEST

/* A model of another context gets the adapters of this moment. */
START_TEST(another_context_has_a_snapshot)
{
    tuned_model m = tuner_new(&(th_tune_options){.learning_rate = 0.01});
    teach_colors(&m);
    take_steps(&m, 2);
    th_context *const first = ctx;
    setup();
    th_context *const second = ctx;
    tuned_model other = tuner_new(NULL);
    th_tune_free(other.tune);
    other.tune = NULL;
    ck_assert_int_eq(th_lora_detach(other.model), TH_OK);
    ck_assert_int_eq(th_lora_copy(other.model, m.model), TH_OK);
    const uint32_t snapshot = th_module_crc32c(m.model);
    ck_assert_uint_eq(th_module_crc32c(other.model), snapshot);
    ctx = first;
    take_steps(&m, 1);
    ck_assert_uint_ne(th_module_crc32c(m.model), snapshot);
    ck_assert_uint_eq(th_module_crc32c(other.model), snapshot);
    ck_assert_int_eq(th_lora_copy(other.model, m.model), TH_OK); /* into the adapters that it has */
    ck_assert_uint_eq(th_module_crc32c(other.model), th_module_crc32c(m.model));
    th_context_free(second);
    tuner_free(&m);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tune_stop", setup, close_context);
    tcase_add_test(tests, a_stopped_micro_batch_is_repeated_with_the_same_bits);
    tcase_add_test(tests, only_steps_are_stopped);
    tcase_add_test(tests, a_limit_is_kept);
    tcase_add_test(tests, recomputation_has_the_same_bits);
    tcase_add_test(tests, a_limit_that_is_too_small_is_an_error);
    tcase_add_test(tests, another_context_has_a_snapshot);
    return run_suites();
}
