/* The counts of th_memory. A shapes-only run counts the memory that a run with data takes, chunk by chunk, so its
 * `reserved` is enough as a memory_limit. A limit is never exceeded. th_tape_clear releases all memory of the step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "suite.h"
#include "tapehead/tapehead.h"

/* -- programs to forecast -- */

typedef enum optimizer_rule { ADAM_W, SGD, SGD_MOMENTUM, AMSGRAD } optimizer_rule;

typedef struct program {
    const char *name;
    int64_t width, heads, layers, vocabulary, batch, length; /* E, H, layers, V, B, T */
    double dropout;
    bool composed;
    th_dtype dtype;
    optimizer_rule rule;
    int micro_batches;
    bool no_mlp;
    th_precision precision;
} program;

static const program programs[] = {
    {"copyA", 64, 4, 1, 16, 32, 16, 0, false, TH_FLOAT32, ADAM_W, 1, true, TH_PRECISION_FLOAT32},
    {"copyB", 64, 4, 2, 16, 64, 32, 0, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"composed", 64, 4, 2, 16, 16, 32, 0, true, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"dropout", 64, 4, 2, 16, 16, 32, 0.1, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"dropout, composed", 64, 2, 2, 16, 16, 32, 0.1, true, TH_FLOAT32, SGD_MOMENTUM, 1, false, TH_PRECISION_FLOAT32},
    {"float64", 64, 4, 2, 100, 8, 32, 0, false, TH_FLOAT64, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"float64, composed, dropout", 64, 4, 1, 100, 8, 32, 0.2, true, TH_FLOAT64, SGD, 2, false, TH_PRECISION_FLOAT32},
    {"plain SGD", 64, 4, 3, 300, 8, 32, 0, false, TH_FLOAT32, SGD, 1, false, TH_PRECISION_FLOAT32},
    {"AMSGrad, micro-batches", 64, 4, 2, 300, 8, 32, 0, false, TH_FLOAT32, AMSGRAD, 3, false, TH_PRECISION_FLOAT32},
    {"width 128, 3 layers", 128, 4, 3, 100, 16, 32, 0, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"width 96, 6 layers", 96, 3, 6, 100, 4, 64, 0.1, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"width 256, 6 layers", 256, 8, 6, 100, 1, 16, 0, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_FLOAT32},
    {"odd sizes", 60, 5, 2, 77, 7, 33, 0.1, false, TH_FLOAT32, AMSGRAD, 2, false, TH_PRECISION_FLOAT32},
    {"bfloat16x3", 60, 5, 2, 77, 7, 70, 0.1, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_BFLOAT16X3},
    {"bfloat16", 64, 4, 2, 16, 16, 32, 0, false, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_BFLOAT16},
    {"bfloat16, composed", 64, 4, 2, 16, 16, 32, 0, true, TH_FLOAT32, ADAM_W, 1, false, TH_PRECISION_BFLOAT16},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static th_optimizer *optimizer_new(th_module *model, optimizer_rule rule)
{
    const th_sgd_options sgd = {.learning_rate = 1e-2, .momentum = rule == SGD_MOMENTUM ? 0.9 : 0, .max_norm = 1};
    const th_adam_options adam = {.learning_rate = 1e-3, .weight_decay = 0.1, .amsgrad = rule == AMSGRAD};
    return rule == SGD || rule == SGD_MOMENTUM ? th_sgd_new(model, &sgd) : th_adam_w_new(model, &adam);
}

/* Trains as a user does, with an evaluation and th_keep between the steps. */
static void run(th_context *ctx, const program *p, int steps)
{
    th_set_fusion(ctx, !p->composed);
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = p->vocabulary,
                                          .length = p->length,
                                          .width = p->width,
                                          .heads = p->heads,
                                          .layers = p->layers,
                                          .dropout = p->dropout,
                                          .block = {.attention_dropout = p->dropout, .no_mlp = p->no_mlp}});
    th_optimizer *optimizer = optimizer_new(model, p->rule);
    const int64_t batch = UNDER_SANITIZER && p->batch > 8 ? 8 : p->batch; /* the sanitizers are slow */
    th_tensor *text = th_random_integers(ctx, TH_INT32, TH_SHAPE(batch, p->length + 1), 0, p->vocabulary);
    for (int step = 0; step < steps; step++) {
        th_tensor *tokens = th_slice(text, 1, 0, p->length, 1), *next = th_slice(text, 1, 1, p->length + 1, 1);
        th_status status = TH_OK;
        for (int i = 0; i < p->micro_batches && status == TH_OK; i++) {
            th_tensor *loss = th_language_model_loss(model, tokens, next, NULL);
            status = th_backward(p->micro_batches > 1 ? th_scale(loss, 1.0 / p->micro_batches) : loss, NULL);
        }
        if (status || th_optimizer_step(optimizer))
            return;
        th_tape_clear(ctx);
        th_tensor *logits = th_module_evaluate(model, th_slice(text, 1, 0, p->length, 1));
        th_tensor *kept = th_keep(th_max(logits, TH_ALL_AXES, NULL));
        th_tape_clear(ctx);
        th_tensor_free(kept);
    }
}

static th_memory_usage memory_after(const program *p, const th_context_options *options, int steps)
{
    th_context *ctx = th_context_new(options);
    run(ctx, p, steps);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s: %s", p->name, th_error_message(ctx));
    const th_memory_usage memory = th_memory(ctx);
    th_context_free(ctx);
    return memory;
}

START_TEST(the_forecast_is_exact_and_enough)
{
    const program *p = &programs[_i];
    test_memory none = {0}, all = {0};
    th_context_options options = {
        .seed = 3, .threads = _i == 0 ? 2 : 1, .default_dtype = p->dtype, .precision = p->precision};
    options.shapes_only = true;
    options.allocator = allocator_of(&none);
    const th_memory_usage forecast = memory_after(p, &options, 2);
    options.shapes_only = false;
    options.allocator.user = &all;
    const th_memory_usage real = memory_after(p, &options, 2);
    ck_assert_uint_eq(forecast.live, real.live);
    ck_assert_uint_eq(forecast.peak, real.peak);
    ck_assert_uint_eq(forecast.reserved, real.reserved);
    ck_assert_uint_eq(forecast.reserved_peak, real.reserved_peak);
    ck_assert_uint_eq(forecast.allocations, real.allocations);
    ck_assert_uint_eq(real.reserved_peak, all.max);
    ck_assert_uint_eq(real.allocations, (size_t)all.calls);
    ck_assert_uint_lt(none.max, real.reserved_peak / 2); /* handles and records only */
    ck_assert_uint_ge(real.reserved_peak, real.peak);

    all.max = 0;
    options.memory_limit = forecast.reserved_peak;
    const th_memory_usage limited = memory_after(p, &options, 3);
    ck_assert_uint_eq(limited.reserved_peak, forecast.reserved_peak);
    ck_assert_uint_le(all.max, options.memory_limit);
    ck_assert_uint_eq(all.bytes, 0);
}
END_TEST

/* A step that exceeds the limit fails in the forecast with the same message as in the real run. */
START_TEST(a_limit_holds_in_the_forecast_as_well)
{
    const program *p = &programs[1];
    const size_t enough = memory_after(p, &(th_context_options){.threads = 1, .shapes_only = true}, 2).reserved_peak;
    for (size_t part = 1; part < 10; part++) {
        char message[2][1024];
        th_memory_usage memory[2];
        for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
            test_memory c = {0};
            const th_context_options options = {.threads = 1,
                                                .shapes_only = shapes_only,
                                                .memory_limit = enough * part / 10,
                                                .allocator = allocator_of(&c)};
            th_context *ctx = th_context_new(&options);
            run(ctx, p, 2);
            memory[shapes_only] = th_memory(ctx);
            snprintf(message[shapes_only], sizeof *message, "%s", th_error_message(ctx));
            ck_assert_uint_le(memory[shapes_only].reserved_peak, options.memory_limit);
            ck_assert_uint_le(c.max, options.memory_limit);
            th_context_free(ctx);
            ck_assert_uint_eq(c.bytes, 0);
        }
        ck_assert_str_eq(message[1], message[0]);
        ck_assert_uint_eq(memory[1].reserved_peak, memory[0].reserved_peak);
        ck_assert(message[0][0] != 0 || part > 7);
    }
}
END_TEST

/* Sums whose partial sums do not fit on the stack, conversions, copies, a gradient that accumulates. */
START_TEST(the_forecast_counts_scratch_memory_of_sums_and_copies)
{
    th_memory_usage memory[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *ctx = th_context_new(&(th_context_options){.threads = 2, .shapes_only = shapes_only});
        th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(700, 3000)), true);
        th_tensor *row = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3000)), true);
        th_tensor *column = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(700, 1)), true);
        th_tensor *transposed = th_swap_axes(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(300, 70)), 0, 1);
        ck_assert_int_eq(th_fill_normal(transposed, 0, 1), TH_OK);
        th_memory_reset_peak(ctx);
        for (int step = 0; step < 2; step++) {
            th_tensor *y = th_add(th_mul(x, row), column);
            y = th_add(y, th_repeat(row, TH_SHAPE(700, 1)));
            y = th_layer_norm(y, &(th_norm_options){.weight = row, .bias = row});
            th_tensor *loss = th_add(th_mse(y, row), th_sum(th_mean(y, TH_AXES(0), NULL), TH_ALL_AXES, NULL));
            loss = th_add(loss, th_sum(th_sum(y, TH_AXES(0), NULL), TH_ALL_AXES, NULL));
            ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(ctx));
            th_tape_clear(ctx);
        }
        memory[shapes_only] = th_memory(ctx);
        th_context_free(ctx);
    }
    ck_assert_uint_eq(memory[1].peak, memory[0].peak);
    ck_assert_uint_eq(memory[1].reserved_peak, memory[0].reserved_peak);
    ck_assert_uint_eq(memory[1].allocations, memory[0].allocations);
}
END_TEST

/* -- the counts -- */

/* Tensors created in a step end with it: 2,000 steps take as much memory as two. */
START_TEST(a_loop_that_creates_its_batches_takes_no_more_memory)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
    th_module *model = th_dense_new(ctx, 8, 4, NULL);
    th_optimizer *sgd = th_sgd_new(model, &(th_sgd_options){.learning_rate = 1e-3, .momentum = 0.9});
    const float numbers[8] = {1, 2, 3};
    th_memory_usage precomputed = {0};
    th_tensor *kept = NULL, *stale = NULL;
    for (int step = 0; step < 2000; step++) {
        th_step_begin(ctx);
        th_step_begin(ctx);
        th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(16, 8)), *bias = th_full(ctx, TH_FLOAT32, TH_SHAPE(4), 2);
        th_tensor *mean = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(8), numbers);
        th_tensor *labels = th_random_integers(ctx, TH_INT64, TH_SHAPE(16), 0, 4);
        th_tensor *loss = th_cross_entropy(th_add(th_module_forward(model, th_sub(x, mean)), bias), labels, NULL);
        if (step == 0)
            kept = th_keep(stale = x);
        ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(sgd) == TH_OK, "%s", th_error_message(ctx));
        th_tape_clear(ctx);
        if (step == 2)
            precomputed = th_memory(ctx);
        if (step > 2)
            ck_assert_uint_eq(th_memory(ctx).live, precomputed.live);
    }
    const th_memory_usage late = th_memory(ctx);
    ck_assert_uint_eq(late.reserved, precomputed.reserved);
    ck_assert_uint_eq(late.owned, precomputed.owned);
    ck_assert_uint_eq(late.allocations, precomputed.allocations);
    ck_assert(isfinite(th_get(kept, TH_INDEX(3, 3))) && th_error_code(ctx) == TH_OK);
    ck_assert(isnan(th_get(stale, TH_INDEX(3, 3))) || th_error_code(ctx) == TH_ERROR_STATE);
    th_error_clear(ctx);
    /* after th_tape_clear, the user owns created tensors again */
    th_tensor *own = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    th_tape_clear(ctx);
    ck_assert(th_get(own, TH_INDEX(1)) == 1 && th_error_code(ctx) == TH_OK);
    th_step_begin(NULL);
    th_context_free(ctx);
}
END_TEST

/* When memory is out, the message names a line that created many tensors which were not freed. */
START_TEST(the_limit_names_the_line_that_created_most)
{
    th_context *ctx = th_context_new(&(th_context_options){.threads = 1, .memory_limit = 4 << 20});
    th_tensor *few = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(100, 1000));
    int line = 0;
    const size_t before = th_memory(ctx).owned;
    while (th_error_code(ctx) == TH_OK) {
        line = __LINE__ + 1;
        th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(64, 64));
        th_relu(x);
        th_tape_clear(ctx);
    }
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_MEMORY);
    char words[100];
    snprintf(words, sizeof words, "tensors created at test_memory.c:%d hold ", line);
    ck_assert_msg(strstr(th_error_message(ctx), words) && strstr(th_error_message(ctx), "th_step_begin"), "%s",
                  th_error_message(ctx));
    ck_assert_uint_gt(th_memory(ctx).owned, before + (2 << 20));
    ck_assert_ptr_nonnull(few);
    th_context_free(ctx);
    /* without such tensors the message does not name a line */
    ctx = th_context_new(&(th_context_options){.threads = 1, .memory_limit = 1 << 20});
    ck_assert_ptr_null(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1000, 1000)));
    ck_assert(th_error_code(ctx) == TH_ERROR_MEMORY && strstr(th_error_message(ctx), "created at") == NULL);
    th_context_free(ctx);
}
END_TEST

START_TEST(tape_clear_releases_the_memory_of_the_step)
{
    const program *p = &programs[3];
    th_context *ctx = th_context_new(&(th_context_options){.threads = 1});
    run(ctx, p, 2);
    const th_memory_usage before = th_memory(ctx);
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(64, 64)), true);
    const size_t with_leaf = th_memory(ctx).live;
    ck_assert_uint_eq(with_leaf, before.live + (size_t)64 * 64 * 4);
    for (int i = 0; i < 4; i++) {
        th_tensor *y = th_softmax(th_matmul(x, x), -1);
        ck_assert_uint_gt(th_memory(ctx).live, with_leaf);
        if (i == 1) /* a tape with backward, one without, one with an error, one with kept values */
            ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        if (i == 2)
            ck_assert_ptr_null(th_add(y, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3))));
        th_keep_values(ctx, i == 3);
        th_tape_clear(ctx);
        th_error_clear(ctx);
    }
    th_tensor_free(x);
    ck_assert_uint_le(th_memory(ctx).live - before.live, 64 * 3); /* the user still owns the zeros of the failed step */
    ck_assert_uint_ge(th_memory(ctx).reserved_peak, th_memory(ctx).reserved);
    th_memory_reset_peak(ctx);
    ck_assert_uint_eq(th_memory(ctx).peak, th_memory(ctx).live);
    ck_assert_uint_eq(th_memory(ctx).reserved_peak, th_memory(ctx).reserved);
    th_context_free(ctx);
}
END_TEST

/* Blocks of parameters have space for more of them. That space is reserved, and not live: of a model with any number of
 * layers, live is the bytes of its parameters and those of its modules. */
START_TEST(space_for_more_parameters_is_not_live)
{
    enum { WIDTH = 256, LAYERS = 9, SOME = 2 << 10 }; /* SOME: for the structs of a layer */
    const size_t weight = (size_t)WIDTH * WIDTH * sizeof(float);
    bool space_seen = false;
    for (int shapes = 0; shapes < 2; shapes++) {
        th_context *ctx = th_context_new(&(th_context_options){.threads = 1, .shapes_only = shapes});
        th_module *layer[LAYERS], *first = th_dense_new(ctx, 4, 4, NULL); /* takes memory that the context keeps */
        ck_assert_ptr_nonnull(first);
        const th_memory_usage before = th_memory(ctx);
        for (int i = 0; i < LAYERS; i++) {
            layer[i] = th_dense_new(ctx, WIDTH, WIDTH, &(th_dense_layer_options){.no_bias = true});
            const th_memory_usage now = th_memory(ctx);
            const size_t live = now.live - before.live, needed = (size_t)(i + 1) * weight;
            ck_assert_msg(live >= needed && live < needed + (size_t)(i + 1) * SOME, "%d layers: %zu, not %zu", i + 1,
                          live, needed);
            ck_assert_uint_eq(now.peak, now.live);
            ck_assert_uint_ge(now.reserved - before.reserved, live);
            space_seen = space_seen || now.reserved - before.reserved > live + weight;
        }
        for (int i = 0; i < LAYERS; i++)
            th_module_free(layer[(i * 4) % LAYERS]); /* in another order */
        ck_assert_uint_le(th_memory(ctx).live, before.live + SOME);
        th_context_free(ctx);
    }
    ck_assert(space_seen); /* otherwise the test would prove nothing */
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("memory", NULL, NULL);
    tcase_add_loop_test(tcase, the_forecast_is_exact_and_enough, 0, PROGRAMS);
    tcase_add_test(tcase, a_limit_holds_in_the_forecast_as_well);
    tcase_add_test(tcase, the_forecast_counts_scratch_memory_of_sums_and_copies);
    tcase_add_test(tcase, a_loop_that_creates_its_batches_takes_no_more_memory);
    tcase_add_test(tcase, the_limit_names_the_line_that_created_most);
    tcase_add_test(tcase, tape_clear_releases_the_memory_of_the_step);
    tcase_add_test(tcase, space_for_more_parameters_is_not_live);
    return run_suites();
}
