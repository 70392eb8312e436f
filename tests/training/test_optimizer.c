/* Tests optimizers against their formulas in float64, with generated gradients: all rules and options, groups,
 * clipping, rejected steps, memory. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* Returns deterministic pseudo-random numbers in [-1, 1). */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(*state >> 32) / 2147483648.0;
}

/* Creates three parameters of odd sizes, so that runs have gaps. */
enum { PARAMETERS = 3, LARGEST = 35 };
static const int64_t sizes[PARAMETERS] = {35, 5, 18};
static const char *const names[PARAMETERS] = {"weight", "bias", "other"};

static th_module *three_new(th_context *c)
{
    th_module *m = th_module_new(c, sizeof(th_module), "three", NULL);
    uint64_t state = 1;
    for (int p = 0; p < PARAMETERS; p++) {
        th_tensor *t = th_module_add_parameter(m, names[p], TH_SHAPE(sizes[p]));
        for (int64_t i = 0; i < sizes[p]; i++)
            ck_assert_int_eq(th_set(t, TH_INDEX(i), draw(&state)), TH_OK);
    }
    return m;
}

/* Sets the gradient of t to g. */
static void set_gradient(th_tensor *t, const double *g)
{
    th_tensor *cotangent = th_empty(th_context_of(t), th_dtype_of(t), th_shape_of(t));
    for (int64_t i = 0; i < th_numel(t); i++)
        ck_assert_int_eq(th_set(cotangent, TH_INDEX(i), g[i]), TH_OK);
    ck_assert_int_eq(th_backward(t, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    th_tape_clear(th_context_of(t));
    th_tensor_free(cotangent);
}

/* The reference: the state of one parameter in float64. */
typedef struct {
    double p[LARGEST], m[LARGEST], v[LARGEST], largest[LARGEST];
    int64_t steps;
} reference;

typedef struct {
    bool sgd, decoupled;
    th_sgd_options s;
    th_adam_options a;
} recipe;

static void reference_step(reference *r, const recipe *rule, double rate, double decay, int64_t n,
                           const double *gradient)
{
    r->steps++;
    for (int64_t i = 0; i < n; i++) {
        double g = gradient[i];
        if (!rule->decoupled)
            g += decay * r->p[i];
        if (rule->sgd) {
            double step = g;
            if (rule->s.momentum > 0) {
                r->m[i] = r->steps == 1 ? g : rule->s.momentum * r->m[i] + (1 - rule->s.dampening) * g;
                step = rule->s.nesterov ? g + rule->s.momentum * r->m[i] : r->m[i];
            }
            r->p[i] -= rate * step;
            continue;
        }
        const double b1 = rule->a.beta1 != 0 || rule->a.has_betas ? rule->a.beta1 : 0.9;
        const double b2 = rule->a.beta2 != 0 ? rule->a.beta2 : 0.999, eps = rule->a.eps != 0 ? rule->a.eps : 1e-8;
        if (rule->decoupled)
            r->p[i] -= rate * decay * r->p[i];
        r->m[i] = b1 * r->m[i] + (1 - b1) * g;
        r->v[i] = b2 * r->v[i] + (1 - b2) * g * g;
        r->largest[i] = fmax(r->largest[i], r->v[i]);
        const double m = r->m[i] / (1 - pow(b1, (double)r->steps));
        const double v = (rule->a.amsgrad ? r->largest[i] : r->v[i]) / (1 - pow(b2, (double)r->steps));
        r->p[i] -= rate * m / (rule->a.eps_inside ? sqrt(v + eps) : sqrt(v) + eps);
    }
}

static th_optimizer *optimizer_of(th_module *m, const recipe *rule)
{
    th_optimizer *o = rule->sgd         ? th_sgd_new(m, &rule->s)
                      : rule->decoupled ? th_adam_w_new(m, &rule->a)
                                        : th_adam_new(m, &rule->a);
    no_error();
    return o;
}

static void start_reference(reference *r, const th_module *m)
{
    memset(r, 0, PARAMETERS * sizeof *r);
    for (int p = 0; p < PARAMETERS; p++)
        for (int64_t i = 0; i < sizes[p]; i++)
            r[p].p[i] = th_get(th_module_find_parameter(m, names[p]), TH_INDEX(i));
}

static void compare(const reference *r, const th_module *m, double tolerance)
{
    for (int p = 0; p < PARAMETERS; p++)
        for (int64_t i = 0; i < sizes[p]; i++) {
            const double value = th_get(th_module_find_parameter(m, names[p]), TH_INDEX(i));
            ck_assert_msg(fabs(value - r[p].p[i]) <= tolerance, "%s[%lld] is %.9g, the reference %.9g", names[p],
                          (long long)i, value, r[p].p[i]);
        }
}

/* Runs steps of the optimizer and of the reference with the same gradients. In every seventh step the second parameter
 * has no gradient. */
static void run_both(th_module *m, th_optimizer *o, const recipe *rule, reference *r, int steps, double rate,
                     double decay, uint64_t *state)
{
    for (int step = 0; step < steps; step++) {
        for (int p = 0; p < PARAMETERS; p++) {
            double g[LARGEST];
            for (int64_t i = 0; i < sizes[p]; i++)
                g[i] = (double)(float)(draw(state) + 0.2 * (double)p - 0.1);
            if (p == 1 && step % 7 == 3)
                continue;
            set_gradient(th_module_find_parameter(m, names[p]), g);
            reference_step(&r[p], rule, rate, decay, sizes[p], g);
        }
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    }
}

static const recipe rules[] = {
    {.a = {.learning_rate = 1e-3}},
    {.a = {.learning_rate = 1e-3, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6}},
    {.a = {.learning_rate = 1e-3, .eps = 1e-4, .eps_inside = true}},
    {.a = {.learning_rate = 1e-3, .amsgrad = true, .beta2 = 0.9}},
    {.a = {.learning_rate = 1e-3, TH_BETAS(0, 0.999)}},
    {.decoupled = true, .a = {.learning_rate = 1e-3, .weight_decay = 0.1}},
    {.decoupled = true,
     .a = {.learning_rate = 1e-3, .weight_decay = 0.3, .amsgrad = true, .eps_inside = true, .eps = 1e-5}},
    {.sgd = true, .s = {.learning_rate = 1e-3}},
    {.sgd = true, .s = {.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 0.01}},
    {.sgd = true, .s = {.learning_rate = 1e-3, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
    {.sgd = true, .s = {.learning_rate = 1e-3, .momentum = 0.7, .dampening = 0.3, .weight_decay = 0.02}},
    {.sgd = true, .s = {.learning_rate = 1e-3, .momentum = 0.7, .dampening = 1, .weight_decay = 0.02}},
    {.sgd = true, .s = {.learning_rate = 1e-3, .dampening = 0.3}},
};
enum { RULES = sizeof rules / sizeof *rules };

/* Differences add up. Under the sanitizers, which do not look at numbers, few steps run the same code. */
START_TEST(many_steps_agree_with_float64)
{
    enum { STEPS = UNDER_SANITIZER ? 50 : 1000 };
    const recipe *rule = &rules[_i];
    const double rate = rule->sgd ? rule->s.learning_rate : rule->a.learning_rate;
    const double decay = rule->sgd ? rule->s.weight_decay : rule->a.weight_decay;
    for (int wide = 0; wide < 2; wide++) {
        th_module *m = three_new(ctx);
        if (wide)
            ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
        th_optimizer *o = optimizer_of(m, rule);
        reference r[PARAMETERS];
        start_reference(r, m);
        uint64_t state = 99;
        run_both(m, o, rule, r, STEPS, rate, decay, &state);
        compare(r, m, wide ? 1e-12 : 1e-5);
        th_optimizer_free(o);
        th_module_free(m);
    }
    ck_assert_int_eq(th_step(ctx), 2 * STEPS);
    no_error();
}
END_TEST

/* With beta2 = 0 (and beta1 = 0) every step is learning_rate in the gradient's direction, after a large gradient too.
 */
START_TEST(a_moment_without_memory_forgets_a_large_gradient)
{
    for (int wide = 0; wide < 2; wide++) {
        th_module *m = three_new(ctx);
        if (wide)
            ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
        th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.5, TH_BETAS(0, 0), .eps = 1e-12});
        th_tensor *bias = th_module_find_parameter(m, "bias");
        const double large[LARGEST] = {1e4, 1e4, 1e4}, small[LARGEST] = {1e-5, 2e-5, -3e-5};
        set_gradient(bias, large);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        const double before = th_get(bias, TH_INDEX(2));
        set_gradient(bias, small);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        ck_assert_double_eq_tol(th_get(bias, TH_INDEX(2)), before + 0.5, 1e-5);
    }
    no_error();
}
END_TEST

START_TEST(moments_follow_a_conversion)
{
    const recipe *rule = &rules[3];
    th_module *m = three_new(ctx);
    th_optimizer *o = optimizer_of(m, rule);
    reference r[PARAMETERS];
    start_reference(r, m);
    uint64_t state = 5;
    run_both(m, o, rule, r, 50, 1e-3, 0, &state);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    run_both(m, o, rule, r, 50, 1e-3, 0, &state);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT32), TH_OK);
    run_both(m, o, rule, r, 50, 1e-3, 0, &state);
    compare(r, m, 2e-6);
    no_error();
}
END_TEST

static bool is_other(const char *name, th_tensor *parameter, void *user)
{
    return th_numel(parameter) == *(int64_t *)user && strcmp(name, "other") == 0;
}

START_TEST(groups)
{
    int64_t eighteen = 18;
    const th_parameter_group list[] = {
        {.pattern = "*ias", .no_weight_decay = true},
        {.takes = is_other, .user = &eighteen, .learning_rate_factor = 0.5, .weight_decay = 0.2},
    };
    const recipe rule = {.decoupled = true,
                         .a = {.learning_rate = 1e-2, .weight_decay = 0.1, .groups = list, .n_groups = 2}};
    th_module *m = three_new(ctx);
    th_optimizer *o = optimizer_of(m, &rule);
    reference r[PARAMETERS];
    start_reference(r, m);
    uint64_t state = 5;
    for (int step = 0; step < 30; step++) {
        for (int p = 0; p < PARAMETERS; p++) {
            double g[LARGEST];
            for (int64_t i = 0; i < sizes[p]; i++)
                g[i] = draw(&state);
            set_gradient(th_module_find_parameter(m, names[p]), g);
            reference_step(&r[p], &rule, p == 2 ? 0.005 : 0.01, p == 0 ? 0.1 : p == 1 ? 0 : 0.2, sizes[p], g);
        }
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    }
    compare(r, m, 1e-6);
    /* The parameters of a group with no_update do not change. */
    const th_parameter_group still = {.no_update = true};
    th_optimizer *idle = th_adam_new(m, &(th_adam_options){.learning_rate = 1, .groups = &still, .n_groups = 1});
    const uint32_t crc = th_module_crc32c(m);
    double g[LARGEST] = {1, 2, 3};
    set_gradient(th_module_find_parameter(m, "bias"), g);
    ck_assert_int_eq(th_optimizer_step(idle), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    no_error();
}
END_TEST

START_TEST(learning_rates)
{
    th_module *m = three_new(ctx);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.5});
    ck_assert(th_optimizer_learning_rate(o) == 0.5);
    th_tensor *bias = th_module_find_parameter(m, "bias");
    const double before = th_get(bias, TH_INDEX(0)), g[LARGEST] = {1};
    set_gradient(bias, g);
    ck_assert_int_eq(th_optimizer_set_learning_rate(o, 0), TH_OK); /* 0 is allowed */
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert(th_get(bias, TH_INDEX(0)) == before);
    set_gradient(bias, g);
    ck_assert_int_eq(th_optimizer_set_learning_rate(o, 0.25), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_double_eq_tol(th_get(bias, TH_INDEX(0)), before - 0.25, 1e-6);
    ck_assert_int_eq(th_optimizer_set_learning_rate(o, -1), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "not negative");
    ck_assert_int_eq(th_optimizer_set_learning_rate(o, NAN), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
}
END_TEST

START_TEST(options_outside_their_range)
{
    th_module *m = three_new(ctx), *empty = th_module_new(ctx, sizeof(th_module), "empty", NULL);
    ck_assert_ptr_null(th_adam_new(m, NULL));
    expect_error(TH_ERROR_ARGUMENT, "learning rate must be given");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.momentum = 0.9}));
    expect_error(TH_ERROR_ARGUMENT, "learning rate must be given");
    ck_assert_ptr_null(th_adam_new(m, &(th_adam_options){.learning_rate = -1}));
    expect_error(TH_ERROR_ARGUMENT, "learning_rate = -1");
    ck_assert_ptr_null(th_adam_new(m, &(th_adam_options){.learning_rate = NAN}));
    expect_error(TH_ERROR_ARGUMENT, "learning_rate");
    ck_assert_ptr_null(th_adam_new(m, &(th_adam_options){.learning_rate = 1, .beta1 = 1}));
    expect_error(TH_ERROR_ARGUMENT, "beta1 = 1");
    ck_assert_ptr_null(th_adam_w_new(m, &(th_adam_options){.learning_rate = 1, .beta2 = -0.1}));
    expect_error(TH_ERROR_ARGUMENT, "adam_w: beta2");
    ck_assert_ptr_null(th_adam_w_new(m, &(th_adam_options){.learning_rate = 1, .eps = -1}));
    expect_error(TH_ERROR_ARGUMENT, "eps");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .momentum = 1.5}));
    expect_error(TH_ERROR_ARGUMENT, "momentum = 1.5");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .nesterov = true}));
    expect_error(TH_ERROR_ARGUMENT, "nesterov needs momentum");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .weight_decay = -1}));
    expect_error(TH_ERROR_ARGUMENT, "weight_decay");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .n_groups = 2}));
    expect_error(TH_ERROR_ARGUMENT, "n_groups");
    ck_assert_ptr_null(th_sgd_new(empty, &(th_sgd_options){.learning_rate = 1}));
    expect_error(TH_ERROR_ARGUMENT, "empty has no parameters");
    ck_assert_ptr_null(th_sgd_new(NULL, &(th_sgd_options){.learning_rate = 1}));
    expect_error(TH_ERROR_ARGUMENT, "the module is NULL");
    ck_assert_int_ne(th_optimizer_step(NULL), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "the optimizer is NULL");
    ck_assert_int_eq(th_clip_gradients(m, 0, NULL), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "max_norm");
    th_optimizer_free(NULL);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_is_rejected)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    th_module *m = th_module_new(ctx, sizeof(th_module), "m", NULL);
    th_module *list = th_module_add(m, "layers", th_module_list_new(ctx));
    th_module_list_add(list, th_dense_new(ctx, 3, 2, NULL));
    th_tensor *weight = th_module_find_parameter(m, "layers.0.weight"),
              *bias = th_module_find_parameter(m, "layers.0.bias");
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1, .max_norm = 1});
    const double fine[6] = {1, 2, 3, 4, 5, 6};
    set_gradient(bias, fine);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    const uint32_t crc = th_module_crc32c(m);
    float g[6] = {1, 2, 3, 4, 5, 6};
    g[5] = (float)bad[_i];
    th_tensor *cotangent = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2, 3), g);
    set_gradient(bias, fine);
    ck_assert_int_eq(th_backward(weight, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_VALUE);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_VALUE); /* still pending */
    expect_error(TH_ERROR_VALUE, "the gradient of layers.0.weight is");
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    ck_assert_int_eq(th_step(ctx), 1);
    ck_assert(!isfinite(th_get(th_gradient(weight), TH_INDEX(1, 2)))); /* can be examined */
    ck_assert(th_get(th_gradient(bias), TH_INDEX(1)) == 2);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_VALUE);
    expect_error(TH_ERROR_VALUE, "at [1, 2]; no parameter was changed");
    double norm;
    ck_assert_int_eq(th_clip_gradients(m, 1, &norm), TH_ERROR_VALUE);
    expect_error(TH_ERROR_VALUE, "clip_gradients: the gradient of layers.0.weight");
    ck_assert(isnan(norm));
    ck_assert(th_get(th_gradient(bias), TH_INDEX(1)) == 2);
    /* After emptying the gradients, the next step is as usual. */
    th_empty_gradient(weight);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_int_eq(th_step(ctx), 2);
    no_error();
}
END_TEST

START_TEST(a_rejected_step_draws_the_same_numbers_again)
{
    th_module *m = th_dense_new(ctx, 8, 8, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1});
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 8)), *weight = th_module_find_parameter(m, "weight");
    float before[64], after[64];
    for (int attempt = 0; attempt < 2; attempt++) {
        th_tensor *y = th_dropout(th_module_forward(m, x), 0.5);
        ck_assert_int_eq(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(weight), attempt ? after : before, sizeof before), TH_OK);
        if (attempt == 0) {
            ck_assert_int_eq(th_set(th_gradient(weight), TH_INDEX(0, 0), NAN), TH_OK);
            ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_VALUE);
            th_tape_clear(ctx);
            th_error_clear(ctx);
            ck_assert(isnan(
                th_get(th_gradient(weight), TH_INDEX(0, 0)))); /* can be examined; the next backward overwrites it */
        }
    }
    ck_assert_int_eq(memcmp(before, after, sizeof before), 0);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    th_tape_clear(ctx);
    /* The step after it draws other numbers. */
    th_tensor *y = th_dropout(th_module_forward(m, x), 0.5);
    ck_assert_int_eq(th_backward(th_mean(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_copy_out(th_gradient(weight), after, sizeof after), TH_OK);
    ck_assert_int_ne(memcmp(before, after, sizeof before), 0);
    no_error();
}
END_TEST

/* A repeated step ignores rejected gradients that its backward did not overwrite. */
START_TEST(a_repeated_step_without_the_rejected_gradient)
{
    th_module *m = three_new(ctx);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.5});
    th_tensor *weight = th_module_find_parameter(m, "weight"), *bias = th_module_find_parameter(m, "bias");
    const double bad[LARGEST] = {NAN}, fine[LARGEST] = {1}, w = th_get(weight, TH_INDEX(0)),
                 b = th_get(bias, TH_INDEX(0));
    set_gradient(weight, bad);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_VALUE);
    th_error_clear(ctx);
    set_gradient(bias, fine);
    set_gradient(bias, fine); /* these two accumulate */
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert(th_get(weight, TH_INDEX(0)) == w);
    ck_assert_double_eq_tol(th_get(bias, TH_INDEX(0)), b - 1, 1e-6);
    ck_assert_ptr_null(th_gradient(weight));
    no_error();
}
END_TEST

START_TEST(clipping)
{
    th_module *m = three_new(ctx), *same = three_new(ctx);
    const double g0[LARGEST] = {3}, g1[LARGEST] = {0, 4};
    th_module *both[2] = {m, same};
    for (int i = 0; i < 2; i++) {
        set_gradient(th_module_find_parameter(both[i], "weight"), g0);
        set_gradient(th_module_find_parameter(both[i], "bias"), g1);
    }
    double norm = 0;
    ck_assert_int_eq(th_clip_gradients(m, 10, &norm), TH_OK);
    ck_assert_double_eq_tol(norm, 5, 1e-6);
    ck_assert(th_get(th_gradient(th_module_find_parameter(m, "weight")), TH_INDEX(0)) == 3); /* below max_norm */
    ck_assert_int_eq(th_clip_gradients(m, 1, &norm), TH_OK);
    ck_assert_double_eq_tol(norm, 5, 1e-6);
    ck_assert_double_eq_tol(th_get(th_gradient(th_module_find_parameter(m, "weight")), TH_INDEX(0)), 0.6, 1e-6);
    ck_assert_double_eq_tol(th_get(th_gradient(th_module_find_parameter(m, "bias")), TH_INDEX(1)), 0.8, 1e-6);
    /* The optimizer's max_norm gives the same step. */
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1});
    th_optimizer *clips = th_sgd_new(same, &(th_sgd_options){.learning_rate = 1, .max_norm = 1});
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_int_eq(th_optimizer_step(clips), TH_OK);
    ck_assert_double_eq_tol(th_optimizer_gradient_norm(clips), 5, 1e-6);
    for (int p = 0; p < PARAMETERS; p++)
        for (int64_t i = 0; i < sizes[p]; i++)
            ck_assert_double_eq_tol(th_get(th_module_find_parameter(m, names[p]), TH_INDEX(i)),
                                    th_get(th_module_find_parameter(same, names[p]), TH_INDEX(i)), 1e-6);
    no_error();
}
END_TEST

/* The largest gradients with a small max_norm: the factor is almost 0. */
START_TEST(clipping_to_a_tiny_norm_keeps_parameters_finite)
{
    const double g[LARGEST] = {3e38, -2e38, 1e38}, max_norms[] = {5e-324, 1e-30, 1};
    for (int i = 0; i < 6; i++) {
        th_module *m = three_new(ctx);
        th_tensor *weight = th_module_find_parameter(m, "weight");
        ck_assert_int_eq(th_fill(weight, 100), TH_OK);
        const double max_norm = max_norms[i / 2], decay = i % 2 ? 0.5 : 0;
        th_optimizer *o = th_adam_new(
            m, &(th_adam_options){.learning_rate = 1e-3, .max_norm = max_norm, .weight_decay = decay, .eps = 1e-3});
        set_gradient(weight, g);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        for (int at = 0; at < 4; at++) { /* Adam's first step is learning_rate g / (|g| + eps) */
            const double clipped = (float)(g[at] * (max_norm / sqrt(14e76))) + decay * 100;
            ck_assert_double_eq_tol(th_get(weight, TH_INDEX(at)), 100 - 1e-3 * clipped / (fabs(clipped) + 1e-3), 2e-5);
        }
        th_module_free(m);
    }
    no_error();
}
END_TEST

START_TEST(overflowing_squares_are_not_rejected)
{
    th_module *m = three_new(ctx);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    const double g[LARGEST] = {3e200, -4e200};
    set_gradient(th_module_find_parameter(m, "weight"), g);
    double norm;
    ck_assert_int_eq(th_clip_gradients(m, 5, &norm), TH_OK);
    ck_assert_double_eq_tol(norm / 1e200, 5, 1e-9);
    ck_assert_double_eq_tol(th_get(th_gradient(th_module_find_parameter(m, "weight")), TH_INDEX(1)), -4, 1e-9);
    no_error();
}
END_TEST

/* One huge but finite gradient element, then ordinary ones: parameters stay finite, and the others continue to
 * learn. */
START_TEST(a_huge_gradient_leaves_finite_parameters)
{
    const recipe *rule = &rules[_i];
    for (int wide = 0; wide < 2; wide++) {
        th_module *m = three_new(ctx);
        if (wide)
            ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
        th_optimizer *o = optimizer_of(m, rule);
        th_tensor *bias = th_module_find_parameter(m, "bias");
        const double huge = wide ? 1e200 : 1e20;
        for (int step = 0; step < 20; step++) {
            const double g[LARGEST] = {step == 0 ? huge : 1e-3, step == 1 ? -huge : -1e-3, 1};
            const double before = th_get(bias, TH_INDEX(2));
            set_gradient(bias, g);
            ck_assert_int_eq(th_optimizer_step(o), TH_OK);
            for (int64_t i = 0; i < 5; i++)
                ck_assert_msg(isfinite(th_get(bias, TH_INDEX(i))), "rule %d, step %d: bias[%d] is %g", _i, step, (int)i,
                              th_get(bias, TH_INDEX(i)));
            ck_assert(th_get(bias, TH_INDEX(2)) < before);
        }
        th_module_free(m);
    }
    no_error();
}
END_TEST

/* Moments that float32 cannot hold are limited when the parameters are cast to it. */
START_TEST(a_huge_gradient_before_a_cast)
{
    const recipe *rule = &rules[_i];
    th_module *m = three_new(ctx);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    th_optimizer *o = optimizer_of(m, rule);
    th_tensor *bias = th_module_find_parameter(m, "bias");
    const double huge[LARGEST] = {1e30, -1e100}, usual[LARGEST] = {1, 1, 1, 1, 1};
    ck_assert_int_eq(th_optimizer_set_learning_rate(o, 1e-9), TH_OK);
    set_gradient(bias, huge);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_int_eq(th_fill(bias, 1), TH_OK);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT32), TH_OK);
    for (int step = 0; step < 3; step++) {
        set_gradient(bias, usual);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        for (int64_t i = 0; i < 5; i++)
            ck_assert_msg(isfinite(th_get(bias, TH_INDEX(i))), "rule %d: bias[%d] is %g", _i, (int)i,
                          th_get(bias, TH_INDEX(i)));
    }
    if (!rule->sgd)
        ck_assert_double_eq_tol(th_get(bias, TH_INDEX(0)), 1, 1e-5);
    no_error();
}
END_TEST

/* A clipping factor below float32's normal numbers keeps its precision. A norm above float64's range is its largest
 * number. */
START_TEST(clipping_the_largest_gradients)
{
    th_module *m = three_new(ctx);
    th_tensor *weight = th_module_find_parameter(m, "weight");
    double largest[LARGEST], norm;
    for (int wide = 0; wide < 2; wide++) {
        for (int64_t i = 0; i < 35; i++)
            largest[i] = wide ? 1.7e308 : 3.4e38;
        set_gradient(weight, largest);
        const double max_norm = 1e-3;
        ck_assert_int_eq(th_clip_gradients(m, max_norm, &norm), TH_OK);
        ck_assert(isfinite(norm));
        if (!wide)
            ck_assert_double_eq_tol(th_get(th_gradient(weight), TH_INDEX(3)), max_norm / sqrt(35), 1e-9);
        else
            ck_assert(th_get(th_gradient(weight), TH_INDEX(3)) > 0);
        ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    }
    no_error();
}
END_TEST

START_TEST(a_parameter_without_gradient_does_not_change)
{
    th_module *m = three_new(ctx);
    th_optimizer *o = th_adam_w_new(m, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.5});
    th_tensor *weight = th_module_find_parameter(m, "weight"), *bias = th_module_find_parameter(m, "bias");
    const double w = th_get(weight, TH_INDEX(1)), b = th_get(bias, TH_INDEX(1)), g[LARGEST] = {1, 1};
    set_gradient(bias, g);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert(th_get(weight, TH_INDEX(1)) == w);
    ck_assert(th_get(bias, TH_INDEX(1)) != b);
    ck_assert_ptr_null(th_gradient(bias)); /* emptied */
    /* Freezing empties the gradient. The parameter does not change. */
    set_gradient(weight, g);
    ck_assert_int_eq(th_module_freeze(m, true), TH_OK);
    const uint32_t crc = th_module_crc32c(m);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    no_error();
}
END_TEST

START_TEST(a_step_without_a_backward_is_an_error)
{
    th_module *m = three_new(ctx), *rest = three_new(ctx);
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1});
    th_optimizer *idle = th_sgd_new(rest, &(th_sgd_options){.learning_rate = 0.1});
    th_tensor *bias = th_module_find_parameter(m, "bias");
    const double g[LARGEST] = {1};
    const uint32_t crc = th_module_crc32c(m);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE); /* before the first backward */
    expect_error(TH_ERROR_STATE, "no parameter of adam has a gradient: call th_backward");
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    ck_assert_int_eq(th_step(ctx), 0);
    set_gradient(bias, g);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE); /* a second step */
    expect_error(TH_ERROR_STATE, "th_backward");
    ck_assert_int_eq(th_step(ctx), 1);
    /* one backward that reached none of its parameters */
    ck_assert_int_eq(th_optimizer_step(idle), TH_OK);
    ck_assert_int_eq(th_optimizer_step(idle), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "no parameter of sgd");
    /* a backward with .wrt, which gives no parameter a gradient */
    th_tensor *gradient, *loss = th_sum(bias, TH_ALL_AXES, NULL);
    ck_assert_int_eq(th_backward(loss, &(th_backward_options){.wrt = &bias, .n_wrt = 1, .gradients = &gradient}),
                     TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "th_backward");
    /* without trainable parameters no backward is needed */
    ck_assert_int_eq(th_module_freeze(m, true), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    no_error();
}
END_TEST

START_TEST(backward_over_a_stepped_parameter_is_an_error)
{
    th_module *m = th_dense_new(ctx, 3, 3, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1});
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true);
    const double g[LARGEST] = {1, 1, 1};
    th_tensor *loss = th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL);
    th_tensor *bias = th_module_find_parameter(m, "bias");
    th_tensor *cotangent = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), g);
    cotangent = th_cast(cotangent, TH_FLOAT32);
    ck_assert_int_eq(th_backward(bias, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    ck_assert_int_eq(th_backward(th_module_find_parameter(m, "weight"),
                                 &(th_backward_options){.cotangent = th_expand(cotangent, TH_SHAPE(3, 3))}),
                     TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "changed");
}
END_TEST

START_TEST(a_freed_module_is_forgotten)
{
    th_module *m = th_module_new(ctx, sizeof(th_module), "m", NULL);
    th_module *first = th_module_add(m, "first", three_new(ctx));
    th_module_add(m, "second", three_new(ctx));
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1});
    const double g[LARGEST] = {1};
    set_gradient(th_module_find_parameter(m, "first.bias"), g);
    set_gradient(th_module_find_parameter(m, "second.bias"), g);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    th_module_free(first);
    const double before = th_get(th_module_find_parameter(m, "second.bias"), TH_INDEX(0));
    set_gradient(th_module_find_parameter(m, "second.bias"), g);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_double_eq_tol(th_get(th_module_find_parameter(m, "second.bias"), TH_INDEX(0)), before - 0.1, 1e-4);
    th_module_free(m);
    th_module *next = three_new(ctx); /* may reuse the memory */
    const uint32_t crc = th_module_crc32c(next);
    set_gradient(th_module_find_parameter(next, "bias"), g);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(next), crc);
    no_error();
}
END_TEST

START_TEST(steps_allocate_nothing)
{
    th_module *m = th_module_list_new(ctx);
    for (int i = 0; i < 5; i++)
        th_module_list_add(m, th_dense_new(ctx, 100, 100, NULL));
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 1e-3, .max_norm = 0.1});
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(8, 100));
    size_t before = 0;
    for (int step = 0; step < 10; step++) {
        ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        th_tape_clear(ctx);
        if (step == 2)
            before = th_memory(ctx).allocations;
    }
    ck_assert_uint_eq(th_memory(ctx).allocations, before);
    no_error();
}
END_TEST

START_TEST(a_failed_allocation_of_moments_changes_nothing)
{
    test_memory memory = {0};
    th_context *small = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_module *m = th_dense_new(small, 64, 64, NULL);
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1});
    th_tensor *x = th_ones(small, TH_FLOAT32, TH_SHAPE(1, 64));
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    const uint32_t crc = th_module_crc32c(m);
    const size_t live = th_memory(small).live;
    run_out(&memory);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_MEMORY);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    ck_assert_int_eq(th_step(small), 0);
    ck_assert_uint_eq(th_memory(small).live, live);
    memory.fail_at = 0;
    th_error_clear(small);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK); /* the gradients are kept */
    ck_assert_uint_ne(th_module_crc32c(m), crc);
    th_context_free(small);
}
END_TEST

/* Bits do not depend on the number of threads or on the layout of parameters. */
START_TEST(the_same_bits_at_any_thread_count)
{
    uint32_t crc[4];
    double norm[4];
    for (int i = 0; i < 4; i++) {
        th_context *c = th_context_new(&(th_context_options){.seed = 11, .threads = i + 1});
        if (i == 3) /* another layout */
            th_embedding_new(c, 300, 7);
        th_set_seed(c, 11);
        th_module *m = th_module_list_new(c);
        th_module_list_add(m, th_dense_new(c, 300, 250, NULL));
        th_module_list_add(m, th_dense_new(c, 250, 300, NULL));
        th_optimizer *o =
            th_adam_w_new(m, &(th_adam_options){.learning_rate = 1e-3, .max_norm = 0.01, .weight_decay = 0.1});
        th_tensor *x = th_randn(c, TH_FLOAT32, TH_SHAPE(16, 300));
        for (int step = 0; step < 5; step++) {
            ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
            ck_assert_int_eq(th_optimizer_step(o), TH_OK);
            th_tape_clear(c);
        }
        crc[i] = th_module_crc32c(m);
        norm[i] = th_optimizer_gradient_norm(o);
        th_context_free(c);
    }
    for (int i = 1; i < 4; i++) {
        ck_assert_uint_eq(crc[i], crc[0]);
        ck_assert(norm[i] == norm[0]);
    }
}
END_TEST

START_TEST(shapes_only)
{
    th_context *dry = th_context_new(&(th_context_options){.threads = 1, .shapes_only = true});
    th_module *m = th_dense_new(dry, 512, 512, NULL);
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1});
    th_tensor *x = th_ones(dry, TH_FLOAT32, TH_SHAPE(1, 512));
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_uint_ge(th_memory(dry).live, 4 * 512 * 513 * 4); /* parameters, gradients, two moments */
    th_context_free(dry);
}
END_TEST

int main(void)
{
    TCase *steps = new_suite("optimizer", setup, close_context);
    tcase_add_loop_test(steps, many_steps_agree_with_float64, 0, RULES);
    tcase_add_test(steps, a_moment_without_memory_forgets_a_large_gradient);
    tcase_add_test(steps, moments_follow_a_conversion);
    tcase_add_test(steps, groups);
    tcase_add_test(steps, learning_rates);
    tcase_add_test(steps, options_outside_their_range);
    tcase_add_loop_test(steps, a_gradient_that_is_not_finite_is_rejected, 0, 3);
    tcase_add_test(steps, a_rejected_step_draws_the_same_numbers_again);
    tcase_add_test(steps, a_repeated_step_without_the_rejected_gradient);
    tcase_add_test(steps, clipping);
    tcase_add_test(steps, clipping_to_a_tiny_norm_keeps_parameters_finite);
    tcase_add_test(steps, overflowing_squares_are_not_rejected);
    tcase_add_loop_test(steps, a_huge_gradient_leaves_finite_parameters, 0, RULES);
    tcase_add_loop_test(steps, a_huge_gradient_before_a_cast, 0, RULES);
    tcase_add_test(steps, clipping_the_largest_gradients);
    tcase_add_test(steps, a_parameter_without_gradient_does_not_change);
    tcase_add_test(steps, a_step_without_a_backward_is_an_error);
    tcase_add_test(steps, backward_over_a_stepped_parameter_is_an_error);
    tcase_add_test(steps, a_freed_module_is_forgotten);
    tcase_add_test(steps, steps_allocate_nothing);
    tcase_add_test(steps, a_failed_allocation_of_moments_changes_nothing);
    tcase_add_test(steps, the_same_bits_at_any_thread_count);
    tcase_add_test(steps, shapes_only);
    return run_suites();
}
