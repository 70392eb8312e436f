/* The state of optimizers: where moments and steps are after casts, after parameters are freed, and in checkpoints; and
 * which options are errors. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"
#include "tensor/tensor.h"
#include "training/saved_state.h"
#include "training/saved_tensors.h"

#include "context.h"

enum { MEMBERS = 3, LARGEST = 35 };
static const int64_t sizes[MEMBERS] = {35, 5, 18};
static const char *const names[MEMBERS] = {"a", "b", "c"};

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* Creates a module with members a, b and c, each with one parameter p. In memory, c is first. */
static th_module *members_new(th_context *c)
{
    th_module *m = th_module_new(c, sizeof(th_module), "members", NULL), *member[MEMBERS];
    for (int i = MEMBERS - 1; i >= 0; i--) {
        member[i] = th_module_new(c, sizeof(th_module), "member", NULL);
        ck_assert_int_eq(th_fill(th_module_add_parameter(member[i], "p", TH_SHAPE(sizes[i])), 0.5), TH_OK);
    }
    for (int i = 0; i < MEMBERS; i++)
        th_module_add(m, names[i], member[i]);
    return m;
}

static th_tensor *parameter_of(th_module *m, int i)
{
    const th_module *member = th_module_find(m, names[i]);
    return member ? th_module_find_parameter(member, "p") : NULL;
}

/* Sets the gradients of all members to numbers that depend on the step, and runs a step. */
static th_status run_step(th_module *m, th_optimizer *o, int step)
{
    for (int i = 0; i < MEMBERS; i++) {
        th_tensor *p = parameter_of(m, i);
        if (p == NULL)
            continue;
        th_tensor *g = th_arange(th_context_of(p), th_dtype_of(p), 1 + i + step, 1 + i + step + (double)sizes[i], 1);
        ck_assert_int_eq(th_backward(p, &(th_backward_options){.cotangent = th_scale(g, 0.125)}), TH_OK);
        th_tape_clear(th_context_of(p));
        th_tensor_free(g);
    }
    return th_optimizer_step(o);
}

static const th_parameter_group idle = {.pattern = "?.p", .no_weight_decay = true};

/* Returns SGD with momentum (which = 0), Adam, or AMSGrad. */
static th_optimizer *optimizer_new(th_module *m, int which)
{
    return which == 0 ? th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1, .momentum = 0.9})
                      : th_adam_new(m, &(th_adam_options){.learning_rate = 0.1, .amsgrad = which == 2});
}

/* -- casts -- */

static double moment_of(const th_optimizer *o, int p, int i, int64_t element)
{
    const th_array a = th_saved_tensor(o, p, i);
    ck_assert_ptr_nonnull(a.data);
    return a.dtype == TH_FLOAT64 ? ((const double *)a.data)[element] : (double)((const float *)a.data)[element];
}

/* Every member is cast in its own call, so the memory of moments for the new type grows. No moment changes, and the
 * next steps agree with those after one cast of all. _i: the optimizer. */
START_TEST(members_are_cast_one_by_one)
{
    th_module *parts = members_new(ctx), *whole = members_new(ctx);
    th_optimizer *o = optimizer_new(parts, _i), *expected = optimizer_new(whole, _i);
    static double before[MEMBERS][3][LARGEST];
    for (int step = 0; step < 3; step++) {
        ck_assert_int_eq(run_step(parts, o, step), TH_OK);
        ck_assert_int_eq(run_step(whole, expected, step), TH_OK);
    }
    for (int p = 0; p < MEMBERS; p++)
        for (int i = 0; i < o->n_moments; i++)
            for (int64_t k = 0; k < sizes[p]; k++) {
                before[p][i][k] = moment_of(o, p, i, k);
                ck_assert(before[p][i][k] != 0);
            }
    for (int cast = 0; cast < MEMBERS; cast++) {
        ck_assert_int_eq(th_module_cast(th_module_find(parts, names[cast]), TH_FLOAT64), TH_OK);
        for (int p = 0; p < MEMBERS; p++)
            for (int i = 0; i < o->n_moments; i++)
                for (int64_t k = 0; k < sizes[p]; k++)
                    ck_assert_msg(moment_of(o, p, i, k) == before[p][i][k], "cast %d, moment %d of %s[%d]", cast, i,
                                  names[p], (int)k);
    }
    ck_assert_ptr_null(o->reserved);
    ck_assert(o->moments && o->moments->next == NULL); /* those of float32 were freed */
    ck_assert_int_eq(th_module_cast(whole, TH_FLOAT64), TH_OK);
    for (int step = 3; step < 5; step++) {
        ck_assert_int_eq(run_step(parts, o, step), TH_OK);
        ck_assert_int_eq(run_step(whole, expected, step), TH_OK);
        for (int p = 0; p < MEMBERS; p++)
            for (int64_t k = 0; k < sizes[p]; k++)
                ck_assert(th_get(parameter_of(parts, p), TH_INDEX(k)) == th_get(parameter_of(whole, p), TH_INDEX(k)));
    }
}
END_TEST

static void expect_order_of_memory(const th_optimizer *o)
{
    ck_assert(o->sorted);
    for (int64_t i = 1; i < o->count; i++) {
        const th_parameter_entry *last = o->layout[i - 1]->entry, *entry = o->layout[i]->entry;
        ck_assert(entry->block != last->block || entry->offset > last->offset);
    }
}

/* A step runs over the parameters in the order of memory, also after a cast or after one was freed. */
START_TEST(steps_run_in_the_order_of_memory)
{
    th_module *m = members_new(ctx);
    th_optimizer *o = optimizer_new(m, 1);
    ck_assert_int_eq(run_step(m, o, 0), TH_OK);
    expect_order_of_memory(o);
    ck_assert_ptr_eq(o->layout[0]->tensor, th_tensor_impl_of(parameter_of(m, 2)));
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(run_step(m, o, 1), TH_OK);
    expect_order_of_memory(o);
    ck_assert_ptr_eq(o->layout[0]->tensor, th_tensor_impl_of(parameter_of(m, 0)));
    th_module_free(th_module_find(m, "b"));
    ck_assert_int_eq(run_step(m, o, 2), TH_OK);
    expect_order_of_memory(o);
    ck_assert_int_eq(o->count, 2);
}
END_TEST

/* -- freed parameters -- */

/* The others train as if the freed one had never been there. _i: the freed member. */
START_TEST(a_freed_parameter_does_not_disturb_the_others)
{
    th_module *m = members_new(ctx), *rest = members_new(ctx);
    th_module_free(th_module_find(rest, names[_i]));
    th_optimizer *o = optimizer_new(m, 1), *expected = optimizer_new(rest, 1);
    for (int step = 0; step < 6; step++) {
        if (step == 3) {
            const size_t offset = o->parameters[_i].entry->offset, bytes = o->parameters[_i].entry->bytes;
            th_module_free(th_module_find(m, names[_i]));
            for (int i = 0; i < 2; i++)
                for (size_t k = 0; k < bytes; k++)
                    ck_assert_int_eq(((const char *)o->moments->moment[i])[offset + k], 0);
        }
        ck_assert_int_eq(run_step(m, o, step), TH_OK);
        ck_assert_int_eq(run_step(rest, expected, step), TH_OK);
        for (int p = 0; p < MEMBERS; p++)
            for (int64_t k = 0; p != _i && k < sizes[p]; k++)
                ck_assert_msg(th_get(parameter_of(m, p), TH_INDEX(k)) == th_get(parameter_of(rest, p), TH_INDEX(k)),
                              "step %d: %s[%d]", step, names[p], (int)k);
    }
}
END_TEST

/* Moments are freed with the last parameter of their block. */
START_TEST(unused_moments_are_freed)
{
    th_module *m = members_new(ctx);
    th_optimizer *o = optimizer_new(m, 2);
    ck_assert_int_eq(th_module_cast(th_module_find(m, "b"), TH_FLOAT64), TH_OK);
    ck_assert_int_eq(run_step(m, o, 0), TH_OK);
    ck_assert(o->moments && o->moments->next && o->moments->next->next == NULL);
    th_module_free(th_module_find(m, "a")); /* c is in the same block */
    ck_assert(o->moments && o->moments->next);
    th_module_free(th_module_find(m, "c"));
    ck_assert(o->moments && o->moments->next == NULL);
    ck_assert_ptr_eq(o->moments, o->parameters[0].moments);
    th_module_free(th_module_find(m, "b"));
    ck_assert_ptr_null(o->moments);
    ck_assert_int_eq(o->count, 0);
    int64_t hint = 0;
    ck_assert_int_eq(th_optimizer_index(o, NULL, &hint), -1); /* it has no parameters */
}
END_TEST

/* A parameter that is tied to another module remains after its module was freed, but has no name. */
START_TEST(a_parameter_without_its_module_has_no_name)
{
    th_module *m = members_new(ctx), *user = th_module_new(ctx, sizeof(th_module), "user", NULL);
    th_tensor *p = th_module_tie_parameter(user, "weight", parameter_of(m, 1));
    th_module *other = members_new(ctx);
    th_optimizer *o = optimizer_new(m, 1), *with_name = optimizer_new(other, 1);
    th_module_free(m);
    ck_assert_ptr_null(o->module);
    ck_assert_ptr_eq(with_name->module, other);
    ck_assert_int_eq(o->count, 1);
    th_tensor *g = th_full(ctx, TH_FLOAT32, TH_SHAPE(sizes[1]), NAN);
    ck_assert_int_eq(th_backward(p, &(th_backward_options){.cotangent = g}), TH_OK);
    expect_status(th_optimizer_step(o), TH_ERROR_VALUE, "optimizer_step: the gradient of a parameter is nan at [0]");
    th_tape_clear(ctx);
}
END_TEST

/* -- memory -- */

/* Each allocation of the first step fails in turn. Then no moments remain, and the next attempt succeeds. */
START_TEST(moments_without_memory)
{
    for (int64_t at = 1;; at++) {
        test_memory memory = {0};
        th_context *small = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        th_module *m = members_new(small);
        th_optimizer *o = optimizer_new(m, 2);
        ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE); /* without a backward */
        th_error_clear(small);
        th_tensor *p = parameter_of(m, 0);
        ck_assert_int_eq(th_backward(p, &(th_backward_options){.cotangent = th_ones(small, TH_FLOAT32, TH_SHAPE(35))}),
                         TH_OK);
        memory.fail_at = memory.calls + at;
        const size_t live = th_memory(small).live;
        const th_status status = th_optimizer_step(o);
        memory.fail_at = 0;
        if (status == TH_OK) {
            th_context_free(small);
            ck_assert_int_ge(at, 4); /* the moments of a block are 4 allocations */
            break;
        }
        ck_assert_int_eq(status, TH_ERROR_MEMORY);
        ck_assert_msg(strstr(th_error_message(small), "adam: ") == th_error_message(small), "%s",
                      th_error_message(small));
        ck_assert_uint_eq(th_memory(small).live, live);
        ck_assert(o->moments == NULL && o->reserved == NULL);
        th_error_clear(small);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        th_context_free(small);
        ck_assert_uint_eq(memory.bytes, 0);
    }
}
END_TEST

/* -- what checkpoints save -- */

START_TEST(names_of_rules_and_moments)
{
    static const char *const adam[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    static const char *const rules[] = {"adam", "adam amsgrad", "adam_w", "adam_w amsgrad"};
    th_module *m = members_new(ctx);
    for (int i = 0; i < 4; i++) {
        const th_adam_options given = {
            .learning_rate = 1, .amsgrad = i % 2, .eps_inside = i % 2, .max_norm = 3, .shards = i};
        th_saved_option option[TH_MAX_SAVED_OPTIONS];
        const th_optimizer *o = i < 2 ? th_adam_new(m, &given) : th_adam_w_new(m, &given);
        ck_assert_str_eq(th_optimizer_rule_name(o), rules[i]);
        ck_assert_int_eq(o->n_moments, 2 + i % 2);
        for (int k = 0; k < o->n_moments; k++)
            ck_assert_str_eq(o->rule->moment_names[k], adam[k]);
        ck_assert_int_eq(th_optimizer_saved_options(o, option), 6);
        static const char *const name[] = {"max_norm", "beta1", "beta2", "eps", "eps_inside", "shards"};
        const double value[] = {3, 0.9, 0.999, 1e-8, i % 2, i > 0 ? i : 1};
        for (int k = 0; k < 6; k++) {
            ck_assert_msg(strcmp(option[k].name, name[k]) == 0 && option[k].value == value[k], "%s", option[k].name);
            ck_assert(option[k].newer == (k == 5));
        }
        ck_assert_double_eq(option[5].default_value, 1);
    }
    const th_sgd_options sgd[] = {{.learning_rate = 1, .max_norm = 2},
                                  {.learning_rate = 1, .momentum = 0.5, .dampening = 0.25},
                                  {.learning_rate = 1, .momentum = 0.5, .nesterov = true}};
    static const char *const sgd_rules[] = {"sgd", "sgd momentum", "sgd nesterov"};
    for (int i = 0; i < 3; i++) {
        th_saved_option option[TH_MAX_SAVED_OPTIONS];
        const th_optimizer *o = th_sgd_new(m, &sgd[i]);
        ck_assert_str_eq(th_optimizer_rule_name(o), sgd_rules[i]);
        ck_assert_str_eq(o->rule->moment_names[0], "momentum_buffer");
        ck_assert_int_eq(o->n_moments, i > 0);
        ck_assert_int_eq(th_optimizer_saved_options(o, option), 4);
        ck_assert(strcmp(option[0].name, "max_norm") == 0 && option[0].value == sgd[i].max_norm);
        ck_assert(strcmp(option[1].name, "momentum") == 0 && option[1].value == sgd[i].momentum);
        ck_assert(strcmp(option[2].name, "dampening") == 0 && option[2].value == sgd[i].dampening);
        ck_assert(strcmp(option[3].name, "shards") == 0 && option[3].value == 1);
    }
}
END_TEST

START_TEST(parameters_are_found_from_any_hint)
{
    th_module *m = members_new(ctx);
    const th_optimizer *o = optimizer_new(m, 1);
    for (int p = 0; p < MEMBERS; p++)
        for (int64_t from = 0; from <= MEMBERS; from++) {
            int64_t hint = from;
            ck_assert_int_eq(th_optimizer_index(o, th_tensor_impl_of(parameter_of(m, p)), &hint), p);
            ck_assert_int_eq(hint, p + 1);
            ck_assert_int_eq(th_optimizer_index(o, NULL, &hint), -1);
            ck_assert_int_eq(hint, p + 1);
        }
    ck_assert_ptr_null(th_saved_tensor(o, 0, 0).data); /* before the first step */
}
END_TEST

/* 0 steps clear the moments of that parameter, and of no other. _i: the parameter. */
START_TEST(moments_of_no_steps_are_zero)
{
    th_module *m = members_new(ctx);
    th_optimizer *o = optimizer_new(m, 2);
    th_optimizer_set_steps(o, _i, 0); /* before the first step there is nothing to clear */
    ck_assert_int_eq(run_step(m, o, 0), TH_OK);
    th_optimizer_set_steps(o, _i, 7);
    ck_assert_int_eq(o->parameters[_i].steps, 7);
    for (int pass = 0; pass < 2; pass++) {
        for (int p = 0; p < MEMBERS; p++)
            for (int i = 0; i < 3; i++)
                for (int64_t k = 0; k < sizes[p]; k++)
                    ck_assert_msg((moment_of(o, p, i, k) == 0) == (pass == 1 && p == _i), "moment %d of %s[%d]", i,
                                  names[p], (int)k);
        th_optimizer_set_steps(o, _i, 0);
    }
    ck_assert_int_eq(o->parameters[_i].steps, 0);
}
END_TEST

/* Each moment has its largest value; larger ones become that value, with their sign. */
START_TEST(moments_are_limited)
{
    static const struct {
        bool sgd;
        int moment;
        th_dtype dtype;
        double limit;
    } cases[] = {{true, 0, TH_FLOAT32, (double)FLT_MAX}, {true, 0, TH_FLOAT64, DBL_MAX},
                 {false, 0, TH_FLOAT32, 0x1p63},         {false, 0, TH_FLOAT64, 0x1p511},
                 {false, 1, TH_FLOAT32, 0x1p126},        {false, 1, TH_FLOAT64, 0x1p1022},
                 {false, 2, TH_FLOAT32, 0x1p126},        {false, 2, TH_FLOAT64, 0x1p1022}};
    th_module *m = members_new(ctx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double limit = cases[i].limit, given[] = {1, INFINITY, -INFINITY, limit, -limit, 0, limit / 2};
        const double expected[] = {1, limit, -limit, limit, -limit, 0, limit / 2};
        th_tensor *t = th_cast(th_from_data(ctx, TH_FLOAT64, TH_SHAPE(7), given), cases[i].dtype);
        const th_array array = th_tensor_array(th_tensor_impl_of(t));
        th_moments_limit(optimizer_new(m, cases[i].sgd ? 0 : 2), cases[i].moment, &array);
        for (int64_t k = 0; k < 7; k++)
            ck_assert_msg(th_get(t, TH_INDEX(k)) == expected[k], "case %zu, element %d: %g", i, (int)k,
                          th_get(t, TH_INDEX(k)));
    }
}
END_TEST

/* -- misuse -- */

static void refuse_sgd(th_module *m, th_sgd_options given, const char *words)
{
    assert_error(th_sgd_new(m, &given), TH_ERROR_ARGUMENT, words);
}

static void refuse_adam(th_module *m, th_adam_options given, const char *words)
{
    assert_error(th_adam_new(m, &given), TH_ERROR_ARGUMENT, words);
}

START_TEST(every_option_has_a_range)
{
    static const double wrong[] = {-1, INFINITY, NAN};
    th_module *m = members_new(ctx);
    for (int i = 0; i < 3; i++) {
        const double w = wrong[i];
        const th_parameter_group rate = {.learning_rate_factor = w}, decay = {.weight_decay = w};
        refuse_sgd(m, (th_sgd_options){.learning_rate = w}, "sgd: learning_rate = ");
        refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .weight_decay = w}, "sgd: weight_decay = ");
        refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .momentum = w}, "sgd: momentum = ");
        refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .momentum = 0.5, .dampening = w}, "sgd: dampening = ");
        refuse_adam(m, (th_adam_options){.learning_rate = 1, .beta1 = w}, "adam: beta1 = ");
        refuse_adam(m, (th_adam_options){.learning_rate = 1, .beta2 = w}, "adam: beta2 = ");
        refuse_adam(m, (th_adam_options){.learning_rate = 1, .eps = w}, "adam: eps = ");
        refuse_adam(m, (th_adam_options){.learning_rate = 1, .groups = &rate, .n_groups = 1},
                    "adam: a group's learning_rate_factor = ");
        refuse_adam(m, (th_adam_options){.learning_rate = 1, .groups = &decay, .n_groups = 1},
                    "adam: a group's weight_decay = ");
        if (w != INFINITY) /* an infinite max_norm only measures */
            refuse_adam(m, (th_adam_options){.learning_rate = 1, .max_norm = w}, "adam: max_norm = ");
    }
    refuse_adam(m, (th_adam_options){.learning_rate = 1, .beta1 = 1}, "adam: beta1 = 1 is outside");
    refuse_adam(m, (th_adam_options){.learning_rate = 1, .beta2 = 1}, "adam: beta2 = 1 is outside");
    refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .momentum = 1}, "sgd: momentum = 1 is outside");
    refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .momentum = 0.5, .dampening = 1.5}, "dampening = 1.5");
    refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .groups = &idle, .n_groups = -1}, "n_groups = -1");
    refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .groups = &idle, .n_groups = 1 << 20}, "n_groups = 1.04858e+06");
    refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .n_groups = 1}, "n_groups = 1 is outside");
    refuse_sgd(m, (th_sgd_options){.learning_rate = 1, .momentum = 0.5, .dampening = 0.1, .nesterov = true},
               "sgd: nesterov needs momentum and no dampening");
    refuse_sgd(m, (th_sgd_options){0}, "sgd: a learning rate must be given");
    assert_error(th_sgd_new(m, NULL), TH_ERROR_ARGUMENT, "sgd: a learning rate must be given");
    /* the ends of the ranges */
    ck_assert_ptr_nonnull(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .momentum = 0.5, .dampening = 1}));
    ck_assert_ptr_nonnull(th_adam_new(m, &(th_adam_options){.learning_rate = 1, .max_norm = INFINITY}));
    ck_assert_ptr_nonnull(
        th_adam_new(m, &(th_adam_options){.learning_rate = 1, .groups = &idle, .n_groups = 1, .no_eps = true}));
}
END_TEST

START_TEST(no_optimizer_and_a_freed_one)
{
    th_module *m = members_new(ctx);
    th_optimizer *o = optimizer_new(m, 1);
    for (int freed = 0; freed < 2; freed++) {
        th_optimizer *const given = freed ? o : NULL;
        const th_status code = freed ? TH_ERROR_STATE : TH_ERROR_ARGUMENT;
        const char *words = freed ? "the optimizer (adam) has been freed" : "the optimizer is NULL";
        if (freed)
            th_optimizer_free(o);
        expect_status(th_optimizer_step(given), code, words);
        expect_status(th_optimizer_set_learning_rate(given, 1), code, words);
        ck_assert_double_eq(th_optimizer_learning_rate(given), 0);
        ck_assert_double_eq(th_optimizer_gradient_norm(given), 0);
        if (freed)
            expect_error(code, words);
    }
    th_optimizer_free(o);
    expect_error(TH_ERROR_STATE, "optimizer_free: the optimizer (adam) has been freed");
    o = optimizer_new(m, 1);
    expect_status(th_optimizer_set_learning_rate(o, INFINITY), TH_ERROR_ARGUMENT, "adam: the learning rate must be");
    th_module_free(m);
    double norm = 0;
    expect_status(th_clip_gradients(NULL, 1, &norm), TH_ERROR_ARGUMENT, "the module is NULL");
    ck_assert(isnan(norm));
    expect_status(th_clip_gradients(m, 1, NULL), TH_ERROR_STATE, "members has been freed");
    assert_error(optimizer_new(m, 0), TH_ERROR_STATE, "members has been freed");
    m = members_new(ctx);
    ck_assert_int_eq(th_clip_gradients(m, 1, NULL), TH_OK); /* nobody asks for the norm */
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("optimizer_state", setup, close_context);
    tcase_add_loop_test(tests, members_are_cast_one_by_one, 0, 3);
    tcase_add_test(tests, steps_run_in_the_order_of_memory);
    tcase_add_loop_test(tests, a_freed_parameter_does_not_disturb_the_others, 0, MEMBERS);
    tcase_add_test(tests, unused_moments_are_freed);
    tcase_add_test(tests, a_parameter_without_its_module_has_no_name);
    tcase_add_test(tests, moments_without_memory);
    tcase_add_test(tests, names_of_rules_and_moments);
    tcase_add_test(tests, parameters_are_found_from_any_hint);
    tcase_add_loop_test(tests, moments_of_no_steps_are_zero, 0, MEMBERS);
    tcase_add_test(tests, moments_are_limited);
    tcase_add_test(tests, every_option_has_a_range);
    tcase_add_test(tests, no_optimizer_and_a_freed_one);
    return run_suites();
}
