/* Tests what every update rule (src/training/rules) promises to the step. The suite fails if it has no
 * sample of a rule that the build has found. */
#include <math.h>
#include <string.h>

#include "suite.h"
#include "tapehead/tapehead.h"
#include "tensor/context.h"
#include "training/saved_state.h"

#include "context.h"

enum { N = 37, SGD_SAMPLES = 4, ADAM_SAMPLES = 5, MUON_SAMPLES = 2 };

static const th_update_rule *const rules[] = {
#define UPDATE_RULE(name) &th_update_rule_##name,
#include "update_rules.def"
#undef UPDATE_RULE
};
static const char *const names[] = {
#define UPDATE_RULE(name) #name,
#include "update_rules.def"
#undef UPDATE_RULE
};
enum { RULES = sizeof rules / sizeof *rules };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5});
    ck_assert_ptr_nonnull(ctx);
}

static const th_adam_options *adam_sample(int i)
{
    static const th_adam_options sample[ADAM_SAMPLES] = {
        {.learning_rate = 0.1},
        {.learning_rate = 0.1, .weight_decay = 0.5, .amsgrad = true},
        {.learning_rate = 0.1, .weight_decay = 0.5, .eps = 1e-3, .eps_inside = true},
        {.learning_rate = 0.1, .no_eps = true},
        {.learning_rate = 0.1, TH_BETAS(0, 0)},
    };
    return &sample[i];
}

/* Returns sample i of the rule's options, as an optimizer; NULL if there are fewer samples. */
static th_optimizer *sample_new(const th_update_rule *rule, int i)
{
    static const th_sgd_options sgd[SGD_SAMPLES] = {
        {.learning_rate = 0.1, .weight_decay = 0.5},
        {.learning_rate = 0.1, .momentum = 0.9},
        {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.5},
        {.learning_rate = 0.1, .momentum = 0.5, .dampening = 0.25},
    };
    static const th_muon_options muon[MUON_SAMPLES] = {
        {.learning_rate = 0.1, .adam_learning_rate = 0.1},
        {.learning_rate = 0.1, .adjustment = TH_MUON_MATCH_RMS_ADAMW, .adam_weight_decay = 0.5},
    };
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    if (strcmp(rule->name, "sgd") == 0)
        return i < SGD_SAMPLES ? th_sgd_new(m, &sgd[i]) : NULL;
    if (strcmp(rule->name, "adam") == 0)
        return i < ADAM_SAMPLES ? th_adam_new(m, adam_sample(i)) : NULL;
    if (strcmp(rule->name, "adam_w") == 0)
        return i < ADAM_SAMPLES ? th_adam_w_new(m, adam_sample(i)) : NULL;
    if (strcmp(rule->name, "muon") == 0)
        return i < MUON_SAMPLES ? th_muon_new(m, &muon[i]) : NULL;
    ck_abort_msg("add a sample of the options of %s", rule->name);
}

/* N elements of one of the two types. */
typedef union numbers {
    float narrow[N];
    double wide[N];
} numbers;

/* Memory that a rule updates. */
typedef struct memory {
    th_dtype dtype;
    size_t element;
    numbers parameter, gradient, moment[TH_MAX_MOMENTS];
} memory;

static memory memory_of(th_dtype dtype)
{
    memory m;
    memset(&m, 0, sizeof m);
    m.dtype = dtype;
    m.element = th_dtype_size(dtype);
    return m;
}

static void set(const memory *m, numbers *to, int i, double value)
{
    if (m->dtype == TH_FLOAT32)
        to->narrow[i] = (float)value;
    else
        to->wide[i] = value;
}

static double get(const memory *m, const numbers *from, int i)
{
    return m->dtype == TH_FLOAT32 ? (double)from->narrow[i] : from->wide[i];
}

/* Updates elements first to end - 1. */
static void update(const th_optimizer *o, memory *m, int64_t steps, int first, int end)
{
    const size_t at = (size_t)first * m->element;
    const th_update u = {.dtype = m->dtype,
                         .kernels = th_context_kernels(ctx, m->dtype),
                         .options = o->options,
                         .learning_rate = o->learning_rate,
                         .weight_decay = o->groups[0].weight_decay,
                         .gradient_scale = 0.5,
                         .steps = steps};
    void *moment[TH_MAX_MOMENTS] = {NULL};
    for (int i = 0; i < o->n_moments; i++)
        moment[i] = (char *)&m->moment[i] + at;
    o->rule->update(&u, end - first, (char *)&m->parameter + at, (char *)&m->gradient + at, moment);
}

static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64};

START_TEST(rules_are_described)
{
    const th_update_rule *rule = rules[_i];
    ck_assert_str_eq(rule->name, names[_i]);
    const th_optimizer *o;
    for (int i = 0; (o = sample_new(rule, i)); i++) {
        ck_assert_msg(strncmp(rule->full_name(o->options), rule->name, strlen(rule->name)) == 0, "%s",
                      rule->full_name(o->options));
        ck_assert_int_le(o->n_moments, TH_MAX_MOMENTS);
        for (int k = 0; k < o->n_moments; k++)
            for (int other = 0; other < k; other++)
                ck_assert_str_ne(rule->moment_names[k], rule->moment_names[other]);
        th_saved_option option[TH_MAX_SAVED_OPTIONS];
        const int n = th_optimizer_saved_options(o, option);
        ck_assert_int_le(n, TH_MAX_SAVED_OPTIONS);
        for (int k = 0; k < n; k++)
            for (int other = 0; other < k; other++)
                ck_assert_str_ne(option[k].name, option[other].name);
    }
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
}
END_TEST

START_TEST(parts_get_the_bits_of_one_update)
{
    const th_optimizer *o;
    for (int i = 0; (o = sample_new(rules[_i], i)); i++)
        for (int d = 0; d < 2; d++)
            for (int cut = 1; cut < N; cut += 5) {
                memory whole = memory_of(dtypes[d]);
                for (int k = 0; k < N; k++) {
                    set(&whole, &whole.parameter, k, sin(k + 1));
                    set(&whole, &whole.gradient, k, cos(3 * k));
                }
                memory parts = whole;
                for (int64_t steps = 0; steps < 3; steps++) {
                    update(o, &whole, steps, 0, N);
                    update(o, &parts, steps, 0, cut);
                    update(o, &parts, steps, cut, N);
                }
                ck_assert_mem_eq(&whole, &parts, sizeof whole);
                for (int k = 0; k < N; k++)
                    ck_assert(get(&whole, &whole.parameter, k) != sin(k + 1));
            }
}
END_TEST

START_TEST(zeros_remain_zeros)
{
    const th_optimizer *o;
    for (int i = 0; (o = sample_new(rules[_i], i)); i++)
        for (int d = 0; d < 2; d++) {
            memory m = memory_of(dtypes[d]);
            bool zeros = true;
            update(o, &m, 0, 0, N);
            for (int k = 0; k < N; k++)
                zeros = zeros && get(&m, &m.parameter, k) == 0;
            ck_assert_int_eq(zeros, rules[_i]->keeps_zeros(o->options));
        }
}
END_TEST

START_TEST(moments_stay_below_their_limit)
{
    const th_optimizer *o;
    for (int i = 0; (o = sample_new(rules[_i], i)); i++)
        for (int d = 0; d < 2; d++) {
            memory m = memory_of(dtypes[d]);
            for (int k = 0; k < N; k++)
                set(&m, &m.gradient, k, m.dtype == TH_FLOAT32 ? -3e38 : 1.7e308);
            for (int64_t steps = 0; steps < 9; steps++)
                update(o, &m, steps, 0, N);
            for (int moment = 0; moment < o->n_moments; moment++) {
                const double limit = rules[_i]->largest_moment(moment, m.dtype);
                ck_assert(fabs(get(&m, &m.moment[moment], 0)) <= limit);
                ck_assert(fabs(get(&m, &m.moment[moment], 0)) > limit / 1e4);
            }
        }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("update rules", setup, close_context);
    tcase_add_loop_test(tests, rules_are_described, 0, RULES);
    tcase_add_loop_test(tests, parts_get_the_bits_of_one_update, 0, RULES);
    tcase_add_loop_test(tests, zeros_remain_zeros, 0, RULES);
    tcase_add_loop_test(tests, moments_stay_below_their_limit, 0, RULES);
    return run_suites();
}
