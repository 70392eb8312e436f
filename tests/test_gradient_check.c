/* The gradient checker on functions that make it hard: what they make, free, leave open or read late; derivatives that
 * bend, vanish, drown in rounding or do not exist; options without sense. Nothing of it may show afterwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "tapehead/check.h"
#include "tapehead/tapehead.h"
#include "tensor/context.h"

#include "context.h"

static th_tensor *weight, *other; /* float32, 3 elements */
static th_gradient_report report;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    weight =
        th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3), (const float[]){0.3f, -1.7f, 0.9f}), true);
    other =
        th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3), (const float[]){1.1f, 0.7f, -0.2f}), true);
    ck_assert_ptr_nonnull(other);
}

static th_tensor *vector(double a, double b, double c)
{
    return th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){a, b, c});
}

/* -- what must be the same afterwards -- */

typedef struct state {
    float weight[3], gradient[3], other[3];
    uint32_t calls[TH_STREAM_COUNT], calls_at_clear;
    int64_t step;
    uint64_t seed;
    int no_grad_depth, no_grad_at_clear, scope_depth, threads;
    th_depths around;
    th_dtype default_dtype;
    bool training, fusion, keep_values, tracing;
    size_t live;
} state;

static state state_now(void)
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
    s.around = ctx->around;
    s.threads = ctx->threads;
    s.default_dtype = ctx->default_dtype;
    s.training = ctx->training;
    s.fusion = ctx->fusion;
    s.keep_values = ctx->keep_values;
    s.tracing = ctx->tracing;
    s.live = th_memory(ctx).live;
    return s;
}

static void expect_unchanged(const state *before)
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

/* Runs the check, full and fast, and looks that it leaves nothing behind: no change, and from the second time on no
 * memory. */
static void expect_at(int line, th_gradient_function_of_one *function, void *user, th_tensor *x,
                      th_gradient_verdict verdict, const char *sentence)
{
    ck_assert_msg(th_backward(th_sum(th_mul(weight, weight), TH_ALL_AXES, NULL)) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_ptr_nonnull(th_dropout(weight, 0.5)); /* so that a call has been drawn */
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

/* -- what a function reads late -- */

static th_tensor *either_weight(void *user, th_tensor *x)
{
    (void)user;
    return th_get(x, TH_INDEX(0)) > 0 ? th_mul(th_exp(x), weight) : th_mul(x, other);
}

START_TEST(a_parameter_behind_a_branch_is_found)
{
    /* the usual step falls on the other side; the slopes differ, a shorter one tells */
    expect(either_weight, NULL, vector(1e-7, 0.5, 2), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

static th_tensor *bent_at_zero(void *user, th_tensor *x)
{
    (void)user;
    return th_get(x, TH_INDEX(0)) > 0 ? th_mul(x, weight) : th_mul(x, other);
}

START_TEST(a_branch_that_flips_at_the_point_cannot_be_told)
{
    expect(bent_at_zero, NULL, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(3)), TH_GRADIENT_CANNOT_TELL, "a kink, or a branch");
}
END_TEST

typedef struct lazy {
    th_module *layer;
    th_tensor *table;
    int calls;
} lazy;

static th_tensor *with_lazy_layer(void *user, th_tensor *x)
{
    lazy *l = user;
    if (l->layer == NULL)
        l->layer = th_dense_new(ctx, 3, 2, NULL);
    return th_module_forward(l->layer, x);
}

START_TEST(a_layer_made_in_the_first_run_is_a_parameter)
{
    lazy l = {.layer = NULL};
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 3));
    ck_assert_int_eq(th_check_gradient_of(with_lazy_layer, &l, x, NULL, &report), TH_OK);
    /* 4 outputs: x, weight and bias, each element with every output and twice under a cotangent */
    ck_assert_int_eq(report.checked, (6 + 6 + 2) * (4 + 2));
    expect(with_lazy_layer, &l, x, TH_GRADIENT_RIGHT, NULL);
    ck_assert_ptr_nonnull(th_module_forward(l.layer, x));
}
END_TEST

static th_tensor *with_lazy_table(void *user, th_tensor *x)
{
    lazy *l = user;
    if (l->table == NULL)
        l->table = th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2);
    return th_mul(x, l->table);
}

START_TEST(a_constant_kept_from_run_to_run_stays)
{
    lazy l = {.layer = NULL};
    expect(with_lazy_table, &l, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    ck_assert_int_eq(th_dtype_of(l.table), TH_FLOAT32);
    ck_assert_double_eq(th_get(l.table, TH_INDEX(2)), 2);
}
END_TEST

static th_tensor *another_every_time(void *user, th_tensor *x)
{
    lazy *l = user;
    l->table = th_set_requires_gradient(th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 2), true);
    th_tensor *kept = l->calls++ % 2 ? weight : other;
    return th_mul(th_mul(x, l->table), th_mul(kept, th_scale(kept, 0)));
}

START_TEST(a_leaf_made_inside_is_a_constant_of_the_run)
{
    lazy l = {.layer = NULL};
    expect(another_every_time, &l, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

typedef struct many {
    th_tensor *all[64];
    int calls;
} many;

static th_tensor *never_the_same(void *user, th_tensor *x)
{
    many *m = user;
    return th_add(x, th_scale(m->all[m->calls++], 0));
}

START_TEST(parameters_without_end_are_refused)
{
    many m = {.calls = 0};
    for (int i = 0; i < 64; i++)
        m.all[i] = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(3)), true);
    expect_status(th_check_gradient_of(never_the_same, &m, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "other parameters in every run");
}
END_TEST

/* -- what a function makes and frees -- */

static th_tensor *with_constants(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *two = th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2), *three = th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 3),
              *noise = th_randn(ctx, TH_FLOAT32, TH_SHAPE(3)), *index = th_arange(ctx, TH_INT64, 0, 3, 1);
    ck_assert_ptr_nonnull(index);
    return th_add(th_mul(th_mul(x, two), th_mul(weight, noise)), three);
}

static th_tensor *freeing_its_constants(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *two = th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2), *three = th_full(ctx, TH_FLOAT64, TH_SHAPE(3), 3),
              *unused = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3));
    th_tensor *y = th_add(th_mul(th_mul(x, two), weight), three);
    th_tensor_free(two);
    th_tensor_free(three);
    th_tensor_free(unused);
    return y;
}

static th_tensor *keeping_copies(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *kept = th_keep(th_exp(x));
    return th_mul(th_mul(x, kept), th_keep(th_scale(kept, 0)));
}

static th_tensor *layer_made_and_freed(void *user, th_tensor *x)
{
    (void)user;
    th_module *layer = th_dense_new(ctx, 3, 2, NULL);
    th_tensor *y = th_module_forward(layer, th_reshape(x, TH_SHAPE(1, 3)));
    th_module_free(layer);
    return y;
}

START_TEST(what_is_made_inside_is_gone_afterwards)
{
    expect(with_constants, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(freeing_its_constants, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(layer_made_and_freed, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(keeping_copies, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

START_TEST(thousands_of_runs_make_thousands_of_constants)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(600, 3));
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST, .samples = 1800, .input_names = NULL};
    ck_assert_gradient_with(with_constants, NULL, x, &fast);
    const size_t live = th_memory(ctx).live;
    ck_assert_gradient_with(with_constants, NULL, x, &fast);
    ck_assert_uint_eq(th_memory(ctx).live, live);
}
END_TEST

static th_tensor *layer_left_behind(void *user, th_tensor *x)
{
    (void)user;
    return th_module_forward(th_dense_new(ctx, 3, 2, NULL), th_reshape(x, TH_SHAPE(1, 3)));
}

START_TEST(a_layer_left_behind_in_every_run_is_refused)
{
    expect_status(th_check_gradient_of(layer_left_behind, NULL, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "makes a module or an optimiser in every run");
}
END_TEST

static th_tensor *freeing_weight(void *user, th_tensor *x)
{
    th_tensor *y = th_mul(x, user);
    th_tensor_free(user);
    return y;
}

static th_tensor *freeing_module(void *user, th_tensor *x)
{
    lazy *l = user;
    ck_assert_msg(l->calls++ == 0, "run a second time");
    th_tensor *y = th_module_forward(l->layer, th_reshape(x, TH_SHAPE(1, 3)));
    th_module_free(l->layer);
    return y;
}

static th_tensor *freeing_module_unread(void *user, th_tensor *x)
{
    lazy *l = user;
    ck_assert_msg(l->calls++ == 0, "run a second time");
    th_module_free(l->layer);
    return th_exp(x);
}

static th_tensor *freeing_input(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_exp(x);
    th_tensor_free(x);
    return y;
}

START_TEST(what_was_there_before_may_not_be_freed)
{
    th_tensor *mine = th_set_requires_gradient(th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2), true);
    expect_status(th_check_gradient_of(freeing_weight, mine, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "frees parameter 0, which it has not made");
    ck_assert_ptr_null(th_exp(mine)); /* it is freed all the same */
    th_error_clear(ctx);
    for (int child = 0; child < 2; child++) {
        th_module *list = th_module_list_new(ctx);
        lazy l = {.layer = th_dense_new(ctx, 3, 2, NULL)};
        if (child)
            ck_assert_ptr_nonnull(th_module_list_add(list, l.layer));
        expect_status(th_check_gradient_of(freeing_module, &l, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                      "weight, which it has not made");
        l = (lazy){.layer = th_dense_new(ctx, 3, 2, NULL)};
        ck_assert_int_eq(th_check_gradient_of(freeing_module_unread, &l, vector(1, 2, 3), NULL, &report),
                         TH_ERROR_STATE);
        th_error_clear(ctx);
        l = (lazy){.layer = th_dropout_new(ctx, 0.5)};
        ck_assert_int_eq(th_check_gradient_of(freeing_module_unread, &l, vector(1, 2, 3), NULL, &report),
                         TH_ERROR_STATE);
        ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "frees a module"));
        th_error_clear(ctx);
    }
    expect(freeing_input, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "frees x, which it has not made");
}
END_TEST

/* -- what a function returns -- */

static th_tensor *identity(void *user, th_tensor *x)
{
    (void)user;
    return x;
}

static th_tensor *part_of_it(void *user, th_tensor *x)
{
    (void)user;
    return th_slice(x, 0, 0, 3, 2);
}

static th_tensor *weight_alone(void *user, th_tensor *x)
{
    (void)user;
    (void)x;
    return weight;
}

static th_tensor *constant_alone(void *user, th_tensor *x)
{
    (void)user;
    (void)x;
    return th_full(ctx, TH_FLOAT32, TH_SHAPE(3), 2);
}

static th_tensor *integers(void *user, th_tensor *x)
{
    (void)user;
    return th_argmax(x, 0);
}

START_TEST(any_tensor_may_be_the_result)
{
    expect(identity, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(part_of_it, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(weight_alone, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect_status(th_check_gradient_of(constant_alone, NULL, vector(1, 2, 3), NULL, &report), TH_ERROR_STATE,
                  "no path back");
    expect(integers, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "output is int64");
}
END_TEST

/* -- what a function does besides -- */

static th_tensor *leaving_scopes_open(void *user, th_tensor *x)
{
    (void)user;
    th_scope_begin(ctx, "open");
    th_scope_begin(ctx, "wide");
    th_no_grad_begin(ctx);
    th_no_grad_end(ctx);
    th_set_training(ctx, false);
    th_set_fusion(ctx, false);
    ck_assert_int_eq(th_set_threads(ctx, 2), TH_OK);
    th_set_seed(ctx, 99);
    th_set_step(ctx, 7);
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    return th_mul(th_exp(x), weight);
}

static th_tensor *leaving_no_grad_open(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_mul(th_exp(x), weight);
    th_no_grad_begin(ctx);
    return y;
}

static th_tensor *ending_too_much(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    return th_mul(th_exp(x), weight);
}

static th_tensor *clearing_first(void *user, th_tensor *x)
{
    (void)user;
    ck_assert_ptr_nonnull(th_mul(x, weight));
    th_tape_clear(ctx);
    return th_mul(th_exp(x), weight);
}

static th_tensor *clearing_last(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_mul(x, weight);
    th_tape_clear(ctx);
    return y;
}

static th_tensor *calling_backward(void *user, th_tensor *x)
{
    (void)user;
    if (th_backward(th_sum(th_mul(x, weight), TH_ALL_AXES, NULL)))
        return NULL;
    ck_assert_ptr_nonnull(th_gradient(x));
    ck_assert_ptr_nonnull(th_gradient(weight));
    return th_keep_gradient(th_mul(th_exp(x), th_keep(th_gradient(x))));
}

static th_tensor *checking_again(void *user, th_tensor *x)
{
    th_gradient_report inner;
    const th_status status = th_check_gradient_of(calling_backward, user, x, NULL, &inner);
    ck_assert(status == TH_ERROR_STATE && !inner.ok);
    return th_exp(x);
}

static th_tensor *failing(void *user, th_tensor *x)
{
    (void)user;
    th_scope_begin(ctx, NULL);
    return th_add(th_mul(x, weight), th_zeros(ctx, TH_FLOAT64, TH_SHAPE(5)));
}

static th_tensor *failing_later(void *user, th_tensor *x)
{
    (void)user;
    return th_get(x, TH_INDEX(1)) == 2 ? th_mul(x, weight) : failing(NULL, x);
}

static th_tensor *returning_nothing(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    (void)th_mul(x, weight);
    return NULL;
}

static th_tensor *forgiving_itself(void *user, th_tensor *x)
{
    (void)user;
    ck_assert_ptr_null(failing(NULL, x));
    th_error_clear(ctx);
    return th_mul(x, weight);
}

START_TEST(whatever_it_does_is_put_back)
{
    th_tensor *x = vector(1, 2, 3);
    expect(leaving_scopes_open, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(leaving_no_grad_open, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(ending_too_much, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(clearing_first, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(clearing_last, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "what the function returned");
    expect(forgiving_itself, NULL, x, TH_GRADIENT_RIGHT, NULL);
    expect(failing, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "do not broadcast");
    expect(failing_later, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "do not broadcast");
    expect(returning_nothing, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "returned NULL");
    expect(checking_again, NULL, x, TH_GRADIENT_COULD_NOT_RUN, "is being checked");
}
END_TEST

START_TEST(a_function_may_call_backward)
{
    expect(calling_backward, NULL, vector(1, 2, 3), TH_GRADIENT_WRONG, NULL); /* its gradient of th_gradient is lost */
    ck_assert_int_eq(report.input, 1);
}
END_TEST

START_TEST(looking_at_values_changes_nothing)
{
    th_keep_values(ctx, true);
    th_set_tracing(ctx, true);
    expect(with_constants, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(leaving_scopes_open, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

START_TEST(inside_a_scope_and_with_recording_off_it_works_too)
{
    th_tensor *x = vector(1, 2, 3);
    th_scope_begin(ctx, "outer");
    th_no_grad_begin(ctx);
    const state before = state_now();
    ck_assert_gradient(with_constants, NULL, x);
    expect_unchanged(&before);
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    ck_assert_int_eq(ctx->scope_depth, 0);
}
END_TEST

static th_tensor *ending_the_forward_around(void *user, th_tensor *x)
{
    th_module_end(user, NULL);
    th_scope_end(ctx, NULL);
    ck_assert(th_module_begin(user)); /* left open */
    th_tensor *y = th_mul(th_exp(x), weight);
    th_no_grad_begin(ctx);
    return y;
}

/* Checks a gradient on its way. */
static th_tensor *checking_forward(th_module *m, th_tensor *x)
{
    const state before = state_now();
    ck_assert_gradient(ending_the_forward_around, m, x);
    expect_unchanged(&before);
    return th_scale(x, 2);
}

START_TEST(a_forward_may_check_a_gradient)
{
    th_tensor *x = vector(1, 2, 3);
    th_module *m = th_module_new(ctx, sizeof *m, "checking", checking_forward);
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(th_get(th_module_forward(m, x), TH_INDEX(2)), 6);
        ck_assert_int_eq(ctx->scope_depth, 0);
        th_tape_clear(ctx);
    }
    th_module_free(m);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
}
END_TEST

static th_tensor *breaking_off(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    return th_dropout(th_add(x, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(5))), 0.5);
}

/* The step in which a check was made that broke off has failed, in whichever order it is cleared. */
START_TEST(a_check_that_failed_is_a_step_that_failed)
{
    for (int order = 0; order < 2; order++) {
        th_tape_clear(ctx);
        const uint32_t calls = ctx->calls[TH_STREAM_DROPOUT];
        ck_assert_ptr_nonnull(th_dropout(weight, 0.5));
        ck_assert_int_eq(th_check_gradient_of(breaking_off, NULL, vector(1, 2, 3), NULL, &report), TH_ERROR_SHAPE);
        ck_assert_uint_eq(ctx->calls[TH_STREAM_DROPOUT], calls + 1);
        if (order == 0)
            th_error_clear(ctx);
        th_tape_clear(ctx);
        th_error_clear(ctx);
        ck_assert_uint_eq(ctx->calls[TH_STREAM_DROPOUT], calls);
        ck_assert(th_is_recording(ctx));
    }
}
END_TEST

static th_tensor *stepping(void *user, th_tensor *x)
{
    lazy *l = user;
    th_tensor *y = th_module_forward(l->layer, th_reshape(x, TH_SHAPE(1, 3)));
    if (l->calls == 0)
        (void)!(th_backward(th_sum(y, TH_ALL_AXES, NULL)) || th_optimizer_step((th_optimizer *)(void *)l->table));
    else
        (void)!th_module_cast(l->layer, TH_FLOAT32);
    return y;
}

START_TEST(models_are_not_changed_inside)
{
    lazy l = {.layer = th_dense_new(ctx, 3, 2, NULL)};
    th_optimizer *sgd = th_sgd_new(l.layer, &(th_sgd_options){.learning_rate = 1});
    l.table = (th_tensor *)(void *)sgd;
    const uint32_t bits = th_module_crc32c(l.layer);
    for (l.calls = 0; l.calls < 2; l.calls++)
        expect(stepping, &l, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "is being checked");
    ck_assert_uint_eq(th_module_crc32c(l.layer), bits);
}
END_TEST

static th_tensor *changing_its_input(void *user, th_tensor *x)
{
    (void)user;
    ck_assert_int_eq(th_fill(x, 0.5), TH_OK);
    return th_exp(x);
}

static th_tensor *changing_its_parameter(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_mul(x, weight);
    return th_set(weight, TH_INDEX(0), 7) ? NULL : th_mul(th_exp(x), th_detach(y));
}

/* Reads through a pointer that it could write to, and keeps a mean of what it sees. */
static th_tensor *running_mean(void *user, th_tensor *x)
{
    th_tensor *mean = user;
    const double *p = th_data(x);
    th_tensor *y = th_mul(th_add(x, mean), th_full(ctx, TH_FLOAT64, TH_SHAPE(3), p ? 2 : 0));
    return th_copy_into(mean, th_detach(y)) ? NULL : y;
}

START_TEST(what_is_changed_in_place_is_seen)
{
    expect(changing_its_input, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "changes x in place");
    expect(changing_its_parameter, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "changes parameter 0 in place");
    th_tensor *mean = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3));
    expect(running_mean, mean, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    ck_assert_double_eq(th_get(mean, TH_INDEX(1)), 0);
}
END_TEST

/* -- a path back that is missing, numbers that are not the same -- */

static th_tensor *without_recording(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    th_tensor *y = th_exp(x);
    th_no_grad_end(ctx);
    return y;
}

static th_tensor *partly_without_recording(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *h = th_exp(x);
    th_no_grad_begin(ctx);
    th_tensor *scale = th_sum(h, TH_ALL_AXES, NULL);
    th_no_grad_end(ctx);
    return th_mul(h, scale);
}

static th_tensor *detached(void *user, th_tensor *x)
{
    (void)user;
    return th_exp(th_detach(x));
}

START_TEST(recording_that_was_off_is_named)
{
    expect(without_recording, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "recording was off inside");
    expect(partly_without_recording, NULL, vector(0.1, 0.2, 0.3), TH_GRADIENT_WRONG, "recording was off inside");
    expect(detached, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "th_detach");
    ck_assert_ptr_null(strstr(report.text, "recording was off"));
}
END_TEST

static th_tensor *fresh_numbers(void *user, th_tensor *x)
{
    (void)user;
    return th_scale(x, 1 + rand() / (double)RAND_MAX);
}

static th_tensor *counting(void *user, th_tensor *x)
{
    return th_add_scalar(x, ++((lazy *)user)->calls);
}

static th_tensor *replayed_numbers(void *user, th_tensor *x)
{
    (void)user;
    return th_dropout(th_mul(x, th_uniform(ctx, TH_FLOAT64, TH_SHAPE(3), 1, 2)), 0.5);
}

START_TEST(fresh_random_numbers_are_named)
{
    lazy l = {.layer = NULL};
    expect(fresh_numbers, NULL, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "fresh random numbers");
    expect(counting, &l, vector(1, 2, 3), TH_GRADIENT_COULD_NOT_RUN, "keeps a state");
    expect(replayed_numbers, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

/* -- nothing compared -- */

static th_tensor *embedded(void *user, th_tensor *x)
{
    return th_embedding(user, x);
}

static th_tensor *of_no_element(void *user, th_tensor *x)
{
    (void)user;
    return th_slice(x, 0, 1, 1, 1);
}

static th_tensor *exponential(void *user, th_tensor *x)
{
    (void)user;
    return th_exp(x);
}

static th_tensor *nothing_at_all(void *user, th_tensor *const *inputs)
{
    (void)inputs;
    return th_exp(user);
}

START_TEST(a_check_that_compares_nothing_says_so)
{
    th_tensor *frozen = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 2));
    expect(embedded, frozen, th_arange(ctx, TH_INT64, 0, 3, 1), TH_GRADIENT_NOTHING_COMPARED, "no parameter requires");
    expect(exponential, NULL, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(0, 3)), TH_GRADIENT_NOTHING_COMPARED, "no elements");
    expect(of_no_element, NULL, vector(1, 2, 3), TH_GRADIENT_NOTHING_COMPARED, "the output has no elements");
    ck_assert_int_eq(th_check_gradient(ctx, nothing_at_all, frozen, 0, NULL, NULL, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_NOTHING_COMPARED);
    ck_assert_int_eq(th_check_gradient(ctx, nothing_at_all, weight, 0, NULL, NULL, &report), TH_OK);
}
END_TEST

START_TEST(an_operation_has_to_compare_something)
{
    th_op exp = *th_op_find("exp");
    const th_sample some[] = {{.name = "nothing", .n_inputs = 1, .input = {{.shape = TH_SIZES(0, 3)}}},
                              {.name = "some", .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 3)}}},
                              {.name = "nothing", .n_inputs = 1, .input = {{.shape = TH_SIZES(0, 3)}}},
                              {.name = NULL}};
    const th_sample none[] = {some[0], {.name = NULL}};
    exp.samples = some;
    ck_assert_int_eq(th_check_op(ctx, &exp, NULL, &report), TH_OK);
    ck_assert(report.ok && report.text[0] == 0 && report.verdict == TH_GRADIENT_RIGHT);
    ck_assert_int_eq(report.checked, 2 * (6 * 8 + 0) + 6 * 8 + 0);
    exp.samples = none;
    ck_assert_int_eq(th_check_op(ctx, &exp, NULL, &report), TH_ERROR_VALUE);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_NOTHING_COMPARED);
    ck_assert_int_eq(th_check_op(ctx, th_op_find("argmax"), NULL, &report), TH_ERROR_VALUE);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_NOTHING_COMPARED);
    ck_assert_ptr_nonnull(strstr(report.text, th_op_find("argmax")->not_differentiable));
}
END_TEST

/* -- scales -- */

/* offset + scale f(x), its gradient `factor` times what it should be. */
typedef struct scaled {
    double offset, scale, factor;
} scaled;

static th_tensor *scaled_sine(void *user, th_tensor *x)
{
    const scaled *s = user;
    th_tensor *y = th_sin(x);
    y = th_add(th_scale(y, s->factor), th_scale(th_detach(y), 1 - s->factor));
    return th_add_scalar(th_scale(y, s->scale), s->offset);
}

START_TEST(tolerances_follow_the_gradient_and_the_rounding)
{
    static const scaled right[] = {{0, 1, 1},    {0, 1e-9, 1}, {0, 1e-30, 1}, {0, 1e-300, 1},
                                   {0, 1e30, 1}, {1e8, 1, 1},  {1e9, 1, 1},   {1, 1e-9, 1}};
    static const double factors[] = {0, -1, 2, 1.01};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        scaled s = right[i];
        expect(scaled_sine, &s, vector(0.3, -0.7, 1.2), TH_GRADIENT_RIGHT, NULL);
        for (size_t k = 0; k < 4; k++) {
            s.factor = factors[k];
            expect(scaled_sine, &s, vector(0.3, -0.7, 1.2), TH_GRADIENT_WRONG, "is wrong");
        }
    }
}
END_TEST

/* weight counts for little; with a user, its gradient is lost besides. */
static th_tensor *weak_coupling(void *user, th_tensor *x)
{
    return th_add(x, th_scale(user ? th_add(th_detach(weight), th_scale(weight, 0)) : weight, 1e-9));
}

static th_tensor *constant_sum(void *user, th_tensor *x)
{
    (void)user;
    return th_sum(th_softmax(x, -1), TH_AXES(-1), NULL);
}

START_TEST(small_beside_large_is_seen)
{
    expect(weak_coupling, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(weak_coupling, ctx, vector(1, 2, 3), TH_GRADIENT_WRONG, "parameter 0");
    expect(constant_sum, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL); /* 0, but for rounding on both sides */
}
END_TEST

/* -- functions that bend -- */

static th_tensor *logarithm(void *user, th_tensor *x)
{
    (void)user;
    return th_log(x);
}

static th_tensor *reciprocal_root(void *user, th_tensor *x)
{
    (void)user;
    return th_rsqrt(x);
}

static th_tensor *fast_sine(void *user, th_tensor *x)
{
    return th_sin(th_scale(x, *(const double *)user));
}

static th_tensor *narrow_bell(void *user, th_tensor *x)
{
    th_tensor *z = th_scale(x, *(const double *)user);
    return th_exp(th_neg(th_mul(z, z)));
}

START_TEST(functions_that_bend_quickly_are_right)
{
    expect(logarithm, NULL, vector(1e-3, 2e-3, 0.5), TH_GRADIENT_RIGHT, NULL);
    expect(logarithm, NULL, vector(1e-9, 1e-15, 1e-6), TH_GRADIENT_RIGHT, NULL);
    expect(reciprocal_root, NULL, vector(1e-3, 1e-4, 1e-7), TH_GRADIENT_RIGHT, NULL);
    for (double k = 1; k <= 1e8; k *= 100) {
        expect(fast_sine, &k, vector(0.3, -0.7, 1.2), TH_GRADIENT_RIGHT, NULL);
        expect(narrow_bell, &k, vector(0.3 / k, -0.7 / k, 1.2 / k), TH_GRADIENT_RIGHT, NULL);
    }
}
END_TEST

static th_tensor *rectified(void *user, th_tensor *x)
{
    (void)user;
    return th_relu(x);
}

static th_tensor *steps(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(x, th_full(ctx, TH_FLOAT64, TH_SHAPE(3), th_get(x, TH_INDEX(1)) >= 2 ? 3 : 1));
}

static th_tensor *squared(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(x, x);
}

static th_tensor *far_out(void *user, th_tensor *x)
{
    return th_add_scalar(th_sin(x), *(const double *)user);
}

START_TEST(what_cannot_be_told_is_told_apart)
{
    expect(rectified, NULL, vector(1, 0, -1), TH_GRADIENT_CANNOT_TELL, "a kink");
    ck_assert_ptr_nonnull(strstr(report.text, "x"));
    expect(rectified, NULL, vector(1e-6, -1e-8, 1e-11), TH_GRADIENT_RIGHT, NULL);
    expect(steps, NULL, vector(1, 2, 3), TH_GRADIENT_CANNOT_TELL, "jumps");
    expect(logarithm, NULL, vector(1, -2, 3), TH_GRADIENT_CANNOT_TELL, "not a number");
    expect(narrow_bell, &(double){1e200}, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL); /* 0, and its inside infinite */
    ck_assert_int_eq(th_check_gradient_of(squared, NULL, vector(1e160, 1, 2),
                                          &(th_gradient_options){.mode = TH_GRADIENT_FULL}, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_CANNOT_TELL);
    ck_assert_ptr_nonnull(strstr(report.text, "infinite or"));
    double offset = 1e11;
    expect(far_out, &offset, vector(1, 2, 3), TH_GRADIENT_CANNOT_TELL, "rounding hides it");
    ck_assert(!report.ok && report.uncertainty > 0);
}
END_TEST

/* -- rounding that no output shows -- */

static th_tensor *softplus(void *user, th_tensor *x)
{
    (void)user;
    return th_log(th_add_scalar(th_exp(x), 1)); /* of numbers around 1, however small the output is */
}

static th_tensor *log_softmax(void *user, th_tensor *x)
{
    (void)user;
    return th_log_softmax(x, -1);
}

START_TEST(rounding_inside_is_not_a_mistake)
{
    static const double at[] = {-29, -28.3, -27.1, -25.9, -24.4, -23.2, -22.478, -20.7};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        expect(softplus, NULL, vector(at[i], 1.6, 12), TH_GRADIENT_RIGHT, NULL);
        const th_gradient_options full = {.mode = TH_GRADIENT_FULL};
        const th_status status = th_check_gradient_of(softplus, NULL, vector(at[i], at[i], at[i]), &full, &report);
        ck_assert_msg(status == TH_OK || report.verdict == TH_GRADIENT_CANNOT_TELL, "%g: %s", at[i], report.text);
    }
    expect(log_softmax, NULL, vector(-33.7353, -29.0823, 17.79), TH_GRADIENT_RIGHT, NULL);
    expect(log_softmax, NULL, vector(14.2337, -13.9127, 43.5), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

static th_tensor *softmax(void *user, th_tensor *x)
{
    (void)user;
    return th_softmax(x, -1);
}

START_TEST(a_jump_far_away_is_not_called_one_here)
{
    /* its largest steps go from one end of the function to the other; the numbers of no step are sure */
    ck_assert_int_ne(th_check_gradient_of(softmax, NULL, vector(502.419, 525.068, -794.75), NULL, &report),
                     TH_ERROR_ARGUMENT);
    ck_assert_ptr_null(strstr(report.text, "jumps"));
    ck_assert_ptr_null(strstr(report.text, "kink"));
    ck_assert_int_ne(report.verdict, TH_GRADIENT_WRONG);
}
END_TEST

/* -- mistakes of a thousandth -- */

/* The root, one element's gradient 1.001 times what it should be. */
static th_tensor *root_off_by_a_thousandth(void *user, th_tensor *x)
{
    const double *factor = user;
    th_tensor *f = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){1, *factor, 1});
    th_tensor *rest = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){0, 1 - *factor, 0});
    return th_sqrt(th_add(th_mul(x, f), th_mul(th_detach(x), rest)));
}

START_TEST(a_thousandth_too_much_is_found)
{
    double off = 1.001, none = 1;
    for (int i = 0; i < 60; i++) { /* at some of these the truncation of the usual steps is as large */
        th_tensor *x = vector(0.5, 1.05e-5 + 2e-8 * i, 3.4e-9);
        for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
            const th_gradient_options options = {.mode = (th_gradient_mode)mode};
            ck_assert_int_eq(th_check_gradient_of(root_off_by_a_thousandth, &off, x, &options, &report),
                             TH_ERROR_VALUE);
            ck_assert_msg(report.verdict == TH_GRADIENT_WRONG, "%d: %s", i, report.text);
            ck_assert_int_eq(th_check_gradient_of(root_off_by_a_thousandth, &none, x, &options, &report), TH_OK);
        }
        th_tensor_free(x);
    }
    scaled s = {1e6, 1, 1.0011};
    expect(scaled_sine, &s, vector(0.3, -0.7, 1.2), TH_GRADIENT_WRONG, "is wrong");
}
END_TEST

static th_tensor *a_two_hundredth(void *user, th_tensor *x)
{
    const double *factor = user;
    th_tensor *y = th_scale(x, 0.005);
    return th_add(th_scale(y, *factor), th_scale(th_detach(y), 1 - *factor));
}

START_TEST(small_outputs_beside_huge_ones_are_seen)
{
    double right = 1, wrong = 2;
    th_tensor *x = vector(-1.26e-3, 5.4e27, -3.9e15);
    expect(a_two_hundredth, &right, x, TH_GRADIENT_RIGHT, NULL);
    ck_assert_int_eq(
        th_check_gradient_of(a_two_hundredth, &wrong, x, &(th_gradient_options){.mode = TH_GRADIENT_FULL}, &report),
        TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "every element is 2 times"));
}
END_TEST

/* -- many kinks, none at the point -- */

START_TEST(kinks_nearby_do_not_make_a_gradient_wrong)
{
    static const double near[] = {1e-8, 2.3e-8, 7e-8, 1.9e-7, 5e-7, 3e-6};
    for (int i = 0; i < 216; i++) {
        const double sign = i % 2 ? -1 : 1;
        th_tensor *x = vector(near[i % 6] * sign, near[i / 6 % 6], -near[i / 36]);
        const th_gradient_options options = {.mode = TH_GRADIENT_FAST, .seed = (uint64_t)i};
        ck_assert_msg(th_check_gradient_of(rectified, NULL, x, &options, &report) == TH_OK, "%s", report.text);
        th_tensor_free(x);
    }
}
END_TEST

/* -- a point at infinity -- */

START_TEST(an_infinite_element_does_not_move)
{
    expect(softmax, NULL, vector(0.3, -INFINITY, 1.2), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

START_TEST(a_map_shows_what_cannot_be_told)
{
    const th_gradient_options full = {.mode = TH_GRADIENT_FULL};
    ck_assert_int_eq(th_check_gradient_of(rectified, NULL, vector(1, 0, -1), &full, &report), TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "~ cannot tell):\n    .~.\n"));
    ck_assert_ptr_nonnull(strstr(report.text, "the slope is 0 below and 1 above"));
}
END_TEST

/* -- options -- */

static void expect_refused(const th_gradient_options *options, const char *sentence)
{
    ck_assert_int_eq(th_check_gradient_of(exponential, NULL, vector(1, 2, 3), options, &report), TH_ERROR_ARGUMENT);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_COULD_NOT_RUN);
    ck_assert_msg(strstr(th_error_message(ctx), sentence) != NULL, "%s", th_error_message(ctx));
    ck_assert_ptr_nonnull(strstr(report.text, sentence));
    th_error_clear(ctx);
    ck_assert_int_eq(th_check_op(ctx, th_op_find("exp"), options, &report), TH_ERROR_ARGUMENT);
    ck_assert(!report.ok);
    th_error_clear(ctx);
}

START_TEST(options_without_sense_are_refused)
{
    expect_refused(&(th_gradient_options){.step = -0.1}, "step is -0.1");
    expect_refused(&(th_gradient_options){.step = NAN}, "step is");
    expect_refused(&(th_gradient_options){.step = INFINITY}, "step is inf");
    expect_refused(&(th_gradient_options){.relative_tolerance = -1}, "relative_tolerance is -1");
    expect_refused(&(th_gradient_options){.relative_tolerance = NAN}, "relative_tolerance is");
    expect_refused(&(th_gradient_options){.absolute_tolerance = -1e-9}, "absolute_tolerance is -1e-09");
    expect_refused(&(th_gradient_options){.absolute_tolerance = INFINITY}, "absolute_tolerance is inf");
    expect_refused(&(th_gradient_options){.directions = -5}, "directions is -5");
    expect_refused(&(th_gradient_options){.samples = -1}, "samples is -1");
    expect_refused(&(th_gradient_options){.mode = (th_gradient_mode)17}, "mode is 17");
    expect_refused(&(th_gradient_options){.mode = (th_gradient_mode)-1}, "mode is -1");
}
END_TEST

static th_tensor *of_two(void *user, th_tensor *const *inputs)
{
    (void)user;
    return inputs[0] ? th_mul(inputs[0], inputs[1]) : th_exp(inputs[1]);
}

START_TEST(arguments_without_sense_are_refused)
{
    th_tensor *x[2] = {vector(1, 2, 3), vector(4, 5, 6)}, *absent[2] = {NULL, x[1]};
    ck_assert_int_eq(th_check_gradient(ctx, of_two, NULL, 2, x, NULL, &report), TH_OK);
    ck_assert_int_eq(th_check_gradient(ctx, of_two, NULL, 2, absent, NULL, &report), TH_OK);
    const struct {
        th_gradient_function *function;
        int n;
        th_tensor *const *inputs;
        const char *sentence;
    } wrong[] = {{of_two, 2, NULL, "inputs is NULL"},
                 {NULL, 2, x, "function is NULL"},
                 {of_two, -1, x, "is -1"},
                 {of_two, 1000, x, "is 1000"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        report.ok = true;
        ck_assert_int_eq(th_check_gradient(ctx, wrong[i].function, NULL, wrong[i].n, wrong[i].inputs, NULL, &report),
                         TH_ERROR_ARGUMENT);
        ck_assert(!report.ok);
        ck_assert_msg(strstr(th_error_message(ctx), wrong[i].sentence) != NULL, "%s", th_error_message(ctx));
        report.ok = true; /* with an error pending */
        ck_assert_int_eq(th_check_gradient(ctx, of_two, NULL, 2, x, NULL, &report), TH_ERROR_ARGUMENT);
        ck_assert(!report.ok);
        ck_assert_int_eq(th_check_op(ctx, th_op_find("exp"), NULL, &report), TH_ERROR_ARGUMENT);
        ck_assert(!report.ok);
        th_error_clear(ctx);
    }
    ck_assert_int_eq(th_check_gradient(NULL, of_two, NULL, 2, x, NULL, &report), TH_ERROR_ARGUMENT);
    ck_assert(!report.ok);
}
END_TEST

START_TEST(given_tolerances_and_steps_decide)
{
    scaled s = {0, 1, 1.01};
    th_tensor *x = vector(0.3, -0.7, 1.2);
    ck_assert_int_eq(
        th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.relative_tolerance = 0.02}, &report), TH_OK);
    ck_assert_int_eq(
        th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.absolute_tolerance = 0.02}, &report), TH_OK);
    ck_assert_int_eq(
        th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.relative_tolerance = 0.005}, &report),
        TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
    s.factor = 1;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.step = 1e-4}, &report), TH_OK);
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.step = 0.1}, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_CANNOT_TELL);
    ck_assert_ptr_nonnull(strstr(report.text, "the step that was given, 0.1"));
    s.factor = 2;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.step = 1e-4}, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
}
END_TEST

START_TEST(float32_alone_is_checked_too)
{
    const th_gradient_options options = {.float32 = true};
    scaled s = {0, 1, 1};
    th_tensor *x = vector(0.3, -0.7, 1.2);
    ck_assert_gradient_with(with_constants, NULL, x, &options);
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), TH_OK);
    s.scale = 1e-6;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), TH_OK);
    s.factor = 0;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
    ck_assert_int_eq(th_check_gradient_of(constant_sum, NULL, x, &options, &report), TH_OK);
}
END_TEST

/* -- memory that runs out -- */

START_TEST(every_allocation_may_fail)
{
    bool done = false;
    for (int64_t after = 1; !done; after++) {
        test_memory memory = {0};
        th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        lazy l = {.layer = th_dense_new(c, 3, 2, NULL)};
        th_tensor *x = th_randn(c, TH_FLOAT32, TH_SHAPE(4, 3));
        const uint32_t bits = th_module_crc32c(l.layer);
        memory.fail_at = memory.calls + after;
        const th_status status = th_check_gradient_of(with_lazy_layer, &l, x, NULL, &report);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        ck_assert_int_eq(report.ok, status == TH_OK);
        done = status == TH_OK;
        memory.fail_at = 0;
        th_error_clear(c);
        ck_assert_uint_eq(th_module_crc32c(l.layer), bits);
        ck_assert_int_eq(th_check_gradient_of(with_lazy_layer, &l, x, NULL, &report), TH_OK);
        th_context_free(c);
        ck_assert_int_lt(after, 1000);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("gradient check", setup, close_context);
    tcase_add_test(tcase, a_parameter_behind_a_branch_is_found);
    tcase_add_test(tcase, a_branch_that_flips_at_the_point_cannot_be_told);
    tcase_add_test(tcase, a_layer_made_in_the_first_run_is_a_parameter);
    tcase_add_test(tcase, a_constant_kept_from_run_to_run_stays);
    tcase_add_test(tcase, a_leaf_made_inside_is_a_constant_of_the_run);
    tcase_add_test(tcase, parameters_without_end_are_refused);
    tcase_add_test(tcase, what_is_made_inside_is_gone_afterwards);
    tcase_add_test(tcase, thousands_of_runs_make_thousands_of_constants);
    tcase_add_test(tcase, a_layer_left_behind_in_every_run_is_refused);
    tcase_add_test(tcase, what_was_there_before_may_not_be_freed);
    tcase_add_test(tcase, any_tensor_may_be_the_result);
    tcase_add_test(tcase, whatever_it_does_is_put_back);
    tcase_add_test(tcase, looking_at_values_changes_nothing);
    tcase_add_test(tcase, a_function_may_call_backward);
    tcase_add_test(tcase, inside_a_scope_and_with_recording_off_it_works_too);
    tcase_add_test(tcase, a_forward_may_check_a_gradient);
    tcase_add_test(tcase, a_check_that_failed_is_a_step_that_failed);
    tcase_add_test(tcase, models_are_not_changed_inside);
    tcase_add_test(tcase, what_is_changed_in_place_is_seen);
    tcase_add_test(tcase, recording_that_was_off_is_named);
    tcase_add_test(tcase, fresh_random_numbers_are_named);
    tcase_add_test(tcase, a_check_that_compares_nothing_says_so);
    tcase_add_test(tcase, an_operation_has_to_compare_something);
    tcase_add_test(tcase, tolerances_follow_the_gradient_and_the_rounding);
    tcase_add_test(tcase, small_beside_large_is_seen);
    tcase_add_test(tcase, functions_that_bend_quickly_are_right);
    tcase_add_test(tcase, what_cannot_be_told_is_told_apart);
    tcase_add_test(tcase, rounding_inside_is_not_a_mistake);
    tcase_add_test(tcase, a_jump_far_away_is_not_called_one_here);
    tcase_add_test(tcase, a_thousandth_too_much_is_found);
    tcase_add_test(tcase, small_outputs_beside_huge_ones_are_seen);
    tcase_add_test(tcase, kinks_nearby_do_not_make_a_gradient_wrong);
    tcase_add_test(tcase, an_infinite_element_does_not_move);
    tcase_add_test(tcase, a_map_shows_what_cannot_be_told);
    tcase_add_test(tcase, options_without_sense_are_refused);
    tcase_add_test(tcase, arguments_without_sense_are_refused);
    tcase_add_test(tcase, given_tolerances_and_steps_decide);
    tcase_add_test(tcase, float32_alone_is_checked_too);
    tcase_add_test(tcase, every_allocation_may_fail);
    return run_suites();
}
