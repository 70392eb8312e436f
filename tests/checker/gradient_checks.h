/* Shared by the tests of the gradient checker: two parameters, a point, two functions, and a comparison of the state
 * before and after a check. */
#ifndef TESTS_GRADIENT_CHECKS_H
#define TESTS_GRADIENT_CHECKS_H

#include <string.h>

#include "tapehead/check.h"
#include "tapehead/tapehead.h"
#include "tensor/context.h"

#include "context.h"

static th_tensor *weight, *other; /* float32, 3 elements */
static th_gradient_report report;

static inline void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    weight =
        th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3), (const float[]){0.3f, -1.7f, 0.9f}), true);
    other =
        th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3), (const float[]){1.1f, 0.7f, -0.2f}), true);
    ck_assert_ptr_nonnull(other);
}

static inline th_tensor *vector(double a, double b, double c)
{
    return th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){a, b, c});
}

/* -- two functions to check -- */

static inline th_tensor *exponential(void *user, th_tensor *x)
{
    (void)user;
    return th_exp(x);
}

static inline th_tensor *with_constants(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *two = th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2), *three = th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 3),
              *noise = th_randn(ctx, TH_FLOAT32, TH_SHAPE(3)), *index = th_arange(ctx, TH_INT64, 0, 3, 1);
    ck_assert_ptr_nonnull(index);
    return th_add(th_mul(th_mul(x, two), th_mul(weight, noise)), three);
}

/* -- the state that a check must not change -- */

typedef struct state {
    float weight[3], gradient[3], other[3];
    uint32_t calls[TH_STREAM_COUNT], calls_at_clear;
    int64_t step;
    uint64_t seed;
    int no_grad_depth, no_grad_at_clear, scope_depth, threads;
    th_depths around;
    th_dtype default_dtype;
    bool training, fusion, keep_values, tracing, in_step;
    size_t live;
} state;

static inline state state_now(void)
{
    state s;
    memset(&s, 0, sizeof s);
    memcpy(s.weight, th_data_const(weight), sizeof s.weight);
    memcpy(s.other, th_data_const(other), sizeof s.other);
    if (th_gradient(weight))
        memcpy(s.gradient, th_data_const(th_gradient(weight)), sizeof s.gradient);
    memcpy(s.calls, ctx->calls, sizeof s.calls);
    s.calls_at_clear = ctx->calls_at_clear;
    s.step = ctx->step;
    s.seed = ctx->seed;
    s.no_grad_depth = ctx->no_grad_depth;
    s.no_grad_at_clear = ctx->no_grad_at_clear;
    s.scope_depth = ctx->scope_depth;
    s.in_step = ctx->in_step;
    s.around = ctx->outer_depths;
    s.threads = ctx->threads;
    s.default_dtype = ctx->default_dtype;
    s.training = ctx->training;
    s.fusion = ctx->fusion;
    s.keep_values = ctx->keep_values;
    s.tracing = ctx->tracing;
    s.live = th_memory(ctx).live;
    return s;
}

static inline void expect_unchanged(const state *before)
{
    const state after = state_now();
    ck_assert_mem_eq(before->weight, after.weight, sizeof after.weight);
    ck_assert_mem_eq(before->other, after.other, sizeof after.other);
    ck_assert_mem_eq(before->gradient, after.gradient, sizeof after.gradient);
    ck_assert_mem_eq(before->calls, after.calls, sizeof after.calls);
    ck_assert_uint_eq(before->calls_at_clear, after.calls_at_clear);
    ck_assert_int_eq(before->step, after.step);
    ck_assert_uint_eq(before->seed, after.seed);
    ck_assert_int_eq(before->no_grad_depth, after.no_grad_depth);
    ck_assert_int_eq(before->no_grad_at_clear, after.no_grad_at_clear);
    ck_assert_int_eq(before->scope_depth, after.scope_depth);
    ck_assert_int_eq(before->around.scopes, after.around.scopes);
    ck_assert_int_eq(before->around.no_grad, after.around.no_grad);
    ck_assert_int_eq(before->threads, after.threads);
    ck_assert_int_eq(before->default_dtype, after.default_dtype);
    ck_assert(before->training == after.training && before->fusion == after.fusion);
    ck_assert(before->keep_values == after.keep_values && before->tracing == after.tracing);
    ck_assert_int_eq(th_dtype_of(weight), TH_FLOAT32);
    ck_assert(th_requires_gradient(weight) && th_requires_gradient(other));
}

/* Runs the check twice in full and in fast mode. It must change nothing, and allocate nothing after the first time. */
static inline void expect_at(int line, th_gradient_function_of_one *function, void *user, th_tensor *x,
                             th_gradient_verdict verdict, const char *sentence)
{
    ck_assert_msg(th_backward(th_sum(th_mul(weight, weight), TH_ALL_AXES, NULL), NULL) == TH_OK, "%s",
                  th_error_message(ctx));
    ck_assert_ptr_nonnull(th_dropout(weight, 0.5)); /* draws a random number */
    size_t live[4];
    for (int i = 0; i < 4; i++) {
        const state before = state_now();
        const th_gradient_options options = {.mode = i % 2 ? TH_GRADIENT_FAST : TH_GRADIENT_FULL};
        const th_status status = th_check_gradient_of(function, user, x, &options, &report);
        const char *said = th_gradient_failure(ctx, &report);
        ck_assert_msg(report.verdict == verdict, "line %d, run %d: verdict %d: %s", line, i, (int)report.verdict, said);
        ck_assert_int_eq(report.ok, verdict == TH_GRADIENT_RIGHT);
        ck_assert_msg(sentence == NULL || strstr(said, sentence), "no \"%s\" in %s", sentence, said);
        if (verdict == TH_GRADIENT_COULD_NOT_RUN) {
            ck_assert(status != TH_OK && status != TH_ERROR_VALUE);
            ck_assert_int_eq(th_error_code(ctx), status);
            th_error_clear(ctx);
        } else {
            ck_assert_int_eq(status, verdict == TH_GRADIENT_RIGHT ? TH_OK : TH_ERROR_VALUE);
            ck_assert_int_eq(th_error_code(ctx), TH_OK);
            ck_assert_int_eq(report.text[0] == 0, verdict == TH_GRADIENT_RIGHT);
        }
        expect_unchanged(&before);
        live[i] = th_memory(ctx).live;
    }
    ck_assert_uint_le(live[2], live[0] > live[1] ? live[0] : live[1]);
    ck_assert_uint_eq(live[3], live[2]);
}
#define expect(...) expect_at(__LINE__, __VA_ARGS__)

#endif
