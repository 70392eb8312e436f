/* Groups of an optimizer's parameters whose pattern matches nothing, and parameters that are added after the optimizer
 * was made: both are errors that name parameters. */
#include <string.h>

#include "tapehead/core.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* Creates a module with some parameters of one element. */
static th_module *module_with(const char *const *names, int count)
{
    th_module *m = th_module_new(ctx, sizeof(th_module), "example", NULL);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(th_fill(th_module_add_parameter(m, names[i], TH_SHAPE(1)), 1), TH_OK);
    return m;
}

static th_optimizer *grouped(th_module *m, const char *pattern)
{
    const th_parameter_group groups[] = {{.no_weight_decay = true, .pattern = "*"}, {.pattern = pattern}};
    return th_adam_w_new(m, &(th_adam_options){.learning_rate = 0.1, .groups = groups, .n_groups = 2});
}

/* The first group has all parameters, but a pattern that matches one of them is right. */
START_TEST(a_pattern_that_matches_nothing_is_refused)
{
    static const char *const names[] = {"bias", "weight", "in_weight", "out_weight", "scale"};
    static const char *const cases[][2] = {
        {"wieght", "adam_w: the pattern \"wieght\" of group 1 matches no parameter; the nearest names are weight, "},
        {"*_wight",
         "\"*_wight\" of group 1 matches no parameter; the nearest names are in_weight, out_weight and weight"},
        {"bia?s", "the nearest names are bias, "},
        {"layers.*.weight", "matches no parameter; the nearest names are "},
        {"", "the pattern \"\" of group 1 matches no parameter; the nearest names are bias, scale and weight"},
        {"Scale", "the nearest names are scale, "},
    };
    th_module *m = module_with(names, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_error(grouped(m, cases[i][0]), TH_ERROR_ARGUMENT, cases[i][1]);
    static const char *const right[] = {"bias", "*weight", "?ias", "[a-c]*"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        ck_assert_ptr_nonnull(grouped(m, right[i]));
    assert_error(grouped(module_with(names, 1), "wieght"), TH_ERROR_ARGUMENT, "; the nearest name is bias");
    no_error();
}
END_TEST

static bool takes_none(const char *name, th_tensor *parameter, void *user)
{
    return name == NULL || parameter == NULL || user != NULL;
}

/* A function decides for itself; stored and frozen parameters have names too. */
START_TEST(other_groups_may_be_empty)
{
    static const char *const names[] = {"a", "b"};
    th_module *m = module_with(names, 2);
    ck_assert_ptr_nonnull(th_set_requires_gradient(th_module_find_parameter(m, "b"), false));
    const th_parameter_group groups[] = {{.takes = takes_none}, {.pattern = "b"}};
    ck_assert_ptr_nonnull(th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1, .groups = groups, .n_groups = 2}));
    no_error();
}
END_TEST

static th_status run_step(th_module *m, th_optimizer *o)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (th_requires_gradient(p.tensor))
            ck_assert_int_eq(th_backward(th_scale(p.tensor, 2), NULL), TH_OK);
    th_tape_clear(ctx);
    return th_optimizer_step(o);
}

START_TEST(a_step_names_a_parameter_without_an_optimizer)
{
    static const char *const names[] = {"a", "b"};
    th_module *m = module_with(names, 2), *head = module_with(names, 1);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.25});
    ck_assert_int_eq(run_step(m, o), TH_OK);
    ck_assert_ptr_nonnull(th_module_add(m, "head", head));
    for (int i = 0; i < 2; i++) /* each step says so, and changes nothing */
        expect_status(run_step(m, o), TH_ERROR_STATE,
                      "optimizer_step: sgd was made before the parameter head.a was added, and would not train it");
    ck_assert_double_eq(th_item(th_module_find_parameter(m, "a")), 0.5);
    th_tensor *added = th_module_find_parameter(head, "a");
    ck_assert_ptr_nonnull(th_set_requires_gradient(added, false));
    ck_assert_int_eq(run_step(m, o), TH_OK); /* a frozen one needs no optimizer */
    ck_assert_ptr_nonnull(th_set_requires_gradient(added, true));
    expect_status(run_step(m, o), TH_ERROR_STATE, "the parameter head.a was added");
    ck_assert_ptr_nonnull(th_sgd_new(head, &(th_sgd_options){.learning_rate = 0.25}));
    ck_assert_int_eq(run_step(m, o), TH_OK); /* another optimizer has it */
    ck_assert_ptr_nonnull(th_module_add_parameter(m, "c", TH_SHAPE(1)));
    expect_status(run_step(m, o), TH_ERROR_STATE, "the parameter c was added");
    ck_assert_ptr_nonnull(th_module_tie_parameter(m, "d", th_module_find_parameter(m, "c")));
    expect_status(run_step(m, o), TH_ERROR_STATE, "the parameter c was added");
    ck_assert_int_eq(run_step(m, th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.25})), TH_OK);
    no_error();
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("optimizer groups", setup, close_context);
    tcase_add_test(tests, a_pattern_that_matches_nothing_is_refused);
    tcase_add_test(tests, other_groups_may_be_empty);
    tcase_add_test(tests, a_step_names_a_parameter_without_an_optimizer);
    return run_suites();
}
