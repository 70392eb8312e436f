/* Conditions, tolerances and memory of th_check_op, with rules that are wrong under one condition only. */
#include <math.h>

#include "tensor/context.h"
#include "user_ops.h"

static void expect_rejected(const th_op *op, const th_gradient_options *options, th_gradient_report *report,
                            const char *words)
{
    ck_assert_msg(th_check_op(ctx, op, options, report) == TH_ERROR_VALUE, "passed, and should be wrong: %s %s", words,
                  th_error_message(ctx));
    ck_assert_int_eq(report->verdict, TH_GRADIENT_WRONG);
    ck_assert_msg(strstr(report->text, words) != NULL, "no \"%s\" in\n%s", words, report->text);
}

/* -- subsets of inputs and outputs: y = the sum of (i + 1) x_i, z = the sum of all x_i -- */

static uint32_t wrong_inputs, wrong_outputs; /* the rule is wrong if exactly these have a gradient */
static double wrong_factor;                  /* its gradients are this many times too large */

static th_status sums_shape(th_call *c)
{
    if (th_call_floating(c, 0) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    for (int k = 0; k < 2; k++)
        th_call_output(c, k, c->input[0].dtype, c->input[0].ndim, c->input[0].size, NULL);
    return TH_OK;
}

static void sums_forward(const th_call *c)
{
    for (int64_t e = 0; e < th_array_numel(&c->output[0]); e++) {
        double weighted = 0, plain_sum = 0;
        for (int i = 0; i < c->n_inputs; i++) {
            weighted += (i + 1) * load(&c->input[i], e);
            plain_sum += load(&c->input[i], e);
        }
        store(&c->output[0], e, weighted);
        if (c->output[1].given)
            store(&c->output[1], e, plain_sum);
    }
}

static void sums_backward(const th_call *c)
{
    uint32_t inputs = 0, outputs = 0;
    for (int i = 0; i < c->n_inputs; i++)
        inputs |= (uint32_t)c->input_gradient[i].given << i;
    for (int k = 0; k < 2; k++)
        outputs |= (uint32_t)c->output_gradient[k].given << k;
    const double factor = inputs == wrong_inputs && outputs == wrong_outputs ? wrong_factor : 1;
    for (int i = 0; i < c->n_inputs; i++)
        for (int64_t e = 0; c->input_gradient[i].given && e < th_array_numel(&c->input_gradient[i]); e++) {
            const double dy = outputs & 1 ? load(&c->output_gradient[0], e) : 0,
                         dz = outputs & 2 ? load(&c->output_gradient[1], e) : 0;
            give(c, i, e, factor * ((i + 1) * dy + dz));
        }
}

#define MATRIX                                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(2, 3)                                                                                        \
    }

/* Checks the rule on `n` inputs. */
static th_op sums_of(int n, th_sample samples[2])
{
    samples[0] = (th_sample){
        .name = "sums", .n_inputs = n, .input = {MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX}};
    samples[1] = (th_sample){.name = NULL};
    return (th_op){.name = "sums",
                   .n_inputs = TH_ANY_INPUTS,
                   .n_outputs = 2,
                   .differentiable_outputs = 3,
                   .shape = sums_shape,
                   .forward = sums_forward,
                   .backward = sums_backward,
                   .samples = samples};
}

#define BIT(i) (1u << (i))
static const struct {
    int n;
    uint32_t inputs, outputs;
    const char *words;
} subsets[] = {
    {2, BIT(0), 3, "if only x0 requires a gradient and outputs 0 and 1 have a gradient at the same time: the gradient"},
    {2, BIT(1), 1, "if only x1 requires a gradient: the gradient of x1["},
    {3, BIT(0) | BIT(2), 2, "if x1 requires no gradient: the gradient of x0["},
    {4, BIT(1), 2, "if only x1 requires a gradient: the gradient of x1["},
    {4, BIT(0) | BIT(3), 1, "if only x0 and x3 require a gradient: the gradient of x0["},
    {5, BIT(4), 3, "if only x4 requires a gradient and outputs"},
    {6, BIT(1) | BIT(4), 3, "if only x1 and x4 require a gradient and outputs"},
    {6, 0x3f & ~BIT(3), 3, "if x3 requires no gradient and outputs"},
    {8, BIT(0) | BIT(7), 3, "if only x0 and x7 require a gradient and outputs"},
    {9, BIT(7) | BIT(8), 3, "if only x7 and x8 require a gradient and outputs"},
    {9, BIT(8), 3, "if only x8 requires a gradient and outputs"},
};

START_TEST(every_subset_is_tried)
{
    th_sample samples[2];
    const th_op op = sums_of(subsets[_i].n, samples);
    char words[160];
    th_gradient_report report;
    snprintf(words, sizeof words, "sums (sample \"sums\") is wrong %s", subsets[_i].words);
    wrong_factor = 3;
    wrong_inputs = subsets[_i].inputs;
    wrong_outputs = subsets[_i].outputs;
    expect_rejected(&op, NULL, &report, words);
    wrong_factor = 1;
    ck_assert_op(ctx, &op);
}
END_TEST

START_TEST(a_report_has_the_numbers_of_the_worst_element)
{
    th_sample samples[2];
    const th_op op = sums_of(2, samples);
    th_gradient_report report;
    wrong_factor = -3;
    wrong_inputs = BIT(1);
    wrong_outputs = 1;
    expect_rejected(&op, NULL, &report, "if only x1 requires a gradient: the gradient of x1[");
    ck_assert_int_eq(report.input, 1);
    ck_assert_int_eq(report.index.ndim, 2);
    ck_assert_double_eq_tol(report.analytic, -3 * report.numeric, 1e-12);
    ck_assert_double_eq_tol(report.error, 4.0 / 3, 1e-12); /* the difference, relative to the larger of both */
    ck_assert_int_eq(report.checked, 6 * 12 + 2 * 12);     /* the Jacobian of output 1, and two sums for each column */
    char text[100];
    snprintf(text, sizeof text, "x1[%d,%d] is %.9g; it should be %.9g", (int)report.index.size[0],
             (int)report.index.size[1], report.analytic, report.numeric);
    ck_assert_msg(strstr(report.text, text) != NULL, "no \"%s\" in %s", text, report.text);
    wrong_factor = NAN;
    expect_rejected(&op, NULL, &report, "is nan; it should be");
    ck_assert(isinf(report.error));
}
END_TEST

/* -- tolerances -- */

static const struct {
    bool float32;
    th_precision precision;
    double right, wrong; /* relative errors */
} tolerances[] = {
    {false, TH_PRECISION_FLOAT32, 1e-10, 1e-8},
    {false, TH_PRECISION_BFLOAT16, 1e-10, 1e-8}, /* float64 has no reduced precision */
    {true, TH_PRECISION_FLOAT32, 3e-4, 3e-3},
    {true, TH_PRECISION_BFLOAT16X3, 3e-4, 3e-3},
    {true, TH_PRECISION_BFLOAT16, 0.03, 1},
};

START_TEST(conditions_have_close_tolerances)
{
    th_sample samples[2];
    const th_op op = sums_of(2, samples);
    const th_gradient_options options = {.float32 = tolerances[_i].float32};
    th_gradient_report report;
    ck_assert_int_eq(th_set_precision(ctx, tolerances[_i].precision), TH_OK);
    wrong_inputs = BIT(0);
    wrong_outputs = 1;
    wrong_factor = 1 + tolerances[_i].right;
    ck_assert_op_with(ctx, &op, &options);
    wrong_factor = 1 + tolerances[_i].wrong;
    expect_rejected(&op, &options, &report, "if only x0 requires a gradient");
}
END_TEST

/* -- conditions of the graph: y = x² -- */

typedef enum condition {
    NEVER,
    RECOMPUTED,
    ON_RESULTS,
    ADDED_TO_RESULTS,
    ADDED_TO_LEAVES,
    HALF_OF_IT_ZERO,
} condition;

static condition wrong_condition;
static const th_op *conditional_op;
static const void *leaf; /* the data of the leaf: the first run reads it */
static int forwards;     /* since the last backward */
static bool backward_ran;

/* Returns whether the check runs the operation in its graph, not for difference quotients. */
static bool is_in_graph(const th_call *c)
{
    return c->op == conditional_op;
}

static void conditional_forward(const th_call *c)
{
    if (is_in_graph(c)) {
        forwards = backward_ran ? 1 : forwards + 1;
        backward_ran = false;
        leaf = leaf ? leaf : c->input[0].data;
    }
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, load(&c->input[0], i) * load(&c->input[0], i));
}

static bool is_wrong_now(const th_call *c)
{
    switch (wrong_condition) {
    case RECOMPUTED:
        return forwards > 2; /* the check calls every kernel twice */
    case ON_RESULTS:
        return c->input[0].data != leaf;
    case ADDED_TO_RESULTS:
        return c->add[0] && c->input[0].data != leaf;
    case ADDED_TO_LEAVES:
        return c->add[0] && c->input[0].data == leaf;
    case HALF_OF_IT_ZERO:
        return load(&c->output_gradient[0], 0) == 0;
    default:
        return false;
    }
}

static void conditional_backward(const th_call *c)
{
    const double factor = is_in_graph(c) && is_wrong_now(c) ? 3 : 1;
    backward_ran = true;
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        give(c, 0, i, factor * 2 * load(&c->input[0], i) * load(&c->output_gradient[0], i));
}

static const struct {
    condition condition;
    uint32_t flags;
    const char *words;
} conditions[] = {
    {RECOMPUTED, TH_OP_RECOMPUTE, " is wrong if its results are recomputed (TH_OP_RECOMPUTE): the gradient of x["},
    {RECOMPUTED, 0, " is wrong if its values are recomputed (th_scope_begin_recomputed): the gradient of x["},
    {ON_RESULTS, 0, " is wrong if its inputs are results of other operations: the gradient of x["},
    {ADDED_TO_RESULTS, 0, " and others read its inputs too, so that gradients are added up (call->add): the gradient"},
    {ADDED_TO_LEAVES, 0, " is wrong if a second backward adds to the gradients of the first: the gradient of x["},
    {HALF_OF_IT_ZERO, 0, " is wrong if every second element of the output gradients is 0: the rule is not linear"},
};

START_TEST(every_condition_is_tried)
{
    static const th_sample samples[] = {{.name = "matrix", .n_inputs = 1, .input = {MATRIX}}, {.name = NULL}};
    const th_op op = {.name = "conditional",
                      .n_inputs = 1,
                      .flags = conditions[_i].flags,
                      .saves = TH_INPUT(0) | TH_OUTPUT(0),
                      .shape = same_shape,
                      .forward = conditional_forward,
                      .backward = conditional_backward,
                      .samples = samples};
    th_gradient_report report;
    conditional_op = &op;
    leaf = NULL;
    forwards = 0;
    backward_ran = false;
    wrong_condition = conditions[_i].condition;
    expect_rejected(&op, NULL, &report, conditions[_i].words);
    wrong_condition = NEVER;
    leaf = NULL;
    ck_assert_op(ctx, &op);
}
END_TEST

/* -- operands that were not saved -- */

/* y = x. Backward reads an element of x, which was not saved, in the small sample only. */
static void copying_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, load(&c->input[0], i));
}

static void peeking_backward(const th_call *c)
{
    const int64_t n = th_array_numel(&c->input_gradient[0]);
    for (int64_t i = 0; i < n; i++)
        give(c, 0, i, load(&c->output_gradient[0], i) + (n == 52 && i == 20 ? load(&c->input[0], i) : 0));
}

/* The memory around the kernel still holds bytes of the larger sample. */
START_TEST(an_operand_that_was_not_saved_differs_in_every_sample)
{
    const th_sample samples[] = {{.name = "large", .n_inputs = 1, .input = {{.shape = TH_SIZES(64)}}},
                                 {.name = "small", .n_inputs = 1, .input = {{.shape = TH_SIZES(52)}}},
                                 {.name = NULL}};
    const th_op op = {.name = "peeking",
                      .n_inputs = 1,
                      .shape = same_shape,
                      .forward = copying_forward,
                      .backward = peeking_backward,
                      .samples = samples};
    th_gradient_report report;
    expect_rejected(&op, NULL, &report, "(sample \"small\") is wrong: backward read x, which was not saved");
}
END_TEST

/* -- arguments and samples -- */

START_TEST(invalid_arguments_of_a_check_are_rejected)
{
    th_gradient_report report = {.ok = true};
    expect_status(th_check_op(ctx, NULL, NULL, &report), TH_ERROR_ARGUMENT, "check_op: the operation is NULL");
    ck_assert(!report.ok);
    ck_assert_int_eq(th_check_op(NULL, &square, NULL, &report), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_check_op(NULL, NULL, NULL, NULL), TH_ERROR_ARGUMENT);
    th_op op = square;
    for (int given = 0; given < 2; given++) {
        static const th_sample none[] = {{.name = NULL}};
        op.samples = given ? none : NULL;
        ck_assert_int_eq(th_check_op(ctx, &op, NULL, &report), TH_ERROR_VALUE);
        ck_assert_int_eq(report.verdict, TH_GRADIENT_NOTHING_COMPARED);
        ck_assert_ptr_nonnull(strstr(report.text, "square: nothing was compared: it has no samples"));
    }
    th_sample samples[] = {{.name = "minus one", .n_inputs = -1}, {.name = NULL}};
    op.samples = samples;
    ck_assert_int_eq(th_check_op(ctx, &op, NULL, &report), TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "outside 0 to TH_MAX_SAMPLE_INPUTS"));
}
END_TEST

/* The gradient is 0.3 % too large, which the tolerance of the sample permits. */
static void rough_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        give(c, 0, i, 1.003 * 2 * load(&c->input[0], i) * load(&c->output_gradient[0], i));
}

START_TEST(a_sample_has_its_own_tolerance)
{
    th_sample samples[] = {{.name = "rough", .n_inputs = 1, .input = {MATRIX}, .tolerance = 0.01}, {.name = NULL}};
    th_op op = square;
    op.samples = samples;
    op.backward = rough_backward;
    ck_assert_op(ctx, &op);
    th_gradient_report report;
    expect_rejected(&op, &(th_gradient_options){.relative_tolerance = 1e-3}, &report, "1.003 times");
    samples[0].tolerance = 1e-3;
    expect_rejected(&op, NULL, &report, "1.003 times");
    op.backward = square.backward;
    ck_assert_op(ctx, &op);
}
END_TEST

/* -- values of samples -- */

START_TEST(values_of_samples_keep_away_from_kinks)
{
    for (int given = 0; given < 2; given++) {
        const double clearance = given ? 0.2 : 0.05; /* the default */
        const th_sample sample = {
            .name = "kinks",
            .n_inputs = 1,
            .input = {{.shape = TH_SIZES(1000), .kinks = {-0.5, 0.25}, .n_kinks = 2, .clearance = given ? 0.2 : 0}}};
        th_tensor *x;
        ck_assert_int_eq(th_sample_inputs(ctx, &sample, TH_FLOAT64, 1, &x), TH_OK);
        double nearest = 2, least = 2, largest = -2;
        for (int64_t i = 0; i < 1000; i++) {
            const double value = ((const double *)th_data(x))[i];
            nearest = fmin(nearest, fmin(fabs(value + 0.5), fabs(value - 0.25)));
            least = fmin(least, value);
            largest = fmax(largest, value);
        }
        ck_assert_double_ge(nearest, clearance);
        ck_assert_double_le(nearest, clearance + 0.02);
        ck_assert(least >= -1 && least < -0.95 && largest < 1 && largest > 0.95);
        th_tensor_free(x);
    }
}
END_TEST

START_TEST(distinct_values_are_in_random_order)
{
    const th_sample sample = {.name = "distinct",
                              .n_inputs = 1,
                              .input = {{.kind = TH_SAMPLE_DISTINCT, .shape = TH_SIZES(64), .low = 0.0, .high = 64.0}}};
    double order[2][64];
    for (int seed = 0; seed < 2; seed++) {
        th_tensor *x;
        bool seen[64] = {false};
        int in_place = 0;
        ck_assert_int_eq(th_sample_inputs(ctx, &sample, TH_FLOAT64, (uint64_t)seed, &x), TH_OK);
        memcpy(order[seed], th_data(x), sizeof order[seed]);
        for (int i = 0; i < 64; i++) {
            const int whole = (int)order[seed][i];
            ck_assert_double_eq(order[seed][i], whole + 0.5); /* a fixed distance apart */
            ck_assert(whole >= 0 && whole < 64 && !seen[whole]);
            seen[whole] = true;
            in_place += whole == i;
        }
        ck_assert_int_lt(in_place, 16);
        th_tensor_free(x);
    }
    int equal = 0;
    for (int i = 0; i < 64; i++)
        equal += order[0][i] == order[1][i];
    ck_assert_int_lt(equal, 16);
}
END_TEST

enum { SEEDS = 60, NUMBERS = 32 };

/* No number occurs twice: no sequence contains a part of another one. */
START_TEST(consecutive_seeds_have_different_numbers)
{
    const th_sample sample = {.name = "numbers", .n_inputs = 1, .input = {{.shape = TH_SIZES(NUMBERS)}}};
    double number[SEEDS * NUMBERS];
    for (int seed = 0; seed < SEEDS; seed++) {
        th_tensor *x;
        ck_assert_int_eq(th_sample_inputs(ctx, &sample, TH_FLOAT64, (uint64_t)seed, &x), TH_OK);
        memcpy(number + seed * NUMBERS, th_data_const(x), NUMBERS * sizeof *number);
        th_tensor_free(x);
    }
    for (int i = 0; i < SEEDS * NUMBERS; i++)
        for (int j = 0; j < i; j++)
            ck_assert_msg(number[i] != number[j], "number %d of seed %d is number %d of seed %d", j % NUMBERS,
                          j / NUMBERS, i % NUMBERS, i / NUMBERS);
}
END_TEST

/* y = x². The gradient is wrong only where x is between -0.66 and -0.53. */
static void sometimes_wrong_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++) {
        const double x = load(&c->input[0], i), factor = x > -0.66 && x < -0.53 ? 3 : 1;
        give(c, 0, i, factor * 2 * x * load(&c->output_gradient[0], i));
    }
}

/* A seed has four numbers, one of which is in the interval with the probability 0.24: 14.5 of 60 seeds on average. */
START_TEST(many_consecutive_seeds_find_a_rare_mistake)
{
    static const th_sample samples[] = {{.name = "vector", .n_inputs = 1, .input = {{.shape = TH_SIZES(4)}}},
                                        {.name = NULL}};
    th_op op = square;
    op.samples = samples;
    op.backward = sometimes_wrong_backward;
    int found = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        th_gradient_report report;
        found += th_check_op(ctx, &op, &(th_gradient_options){.seed = seed}, &report) == TH_ERROR_VALUE;
        ck_assert_int_eq(th_error_code(ctx), TH_OK);
    }
    ck_assert_int_ge(found, 8);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("check of an operation", setup, close_context);
    tcase_add_loop_test(tcase, every_subset_is_tried, 0, (int)(sizeof subsets / sizeof *subsets));
    tcase_add_test(tcase, a_report_has_the_numbers_of_the_worst_element);
    tcase_add_loop_test(tcase, conditions_have_close_tolerances, 0, (int)(sizeof tolerances / sizeof *tolerances));
    tcase_add_loop_test(tcase, every_condition_is_tried, 0, (int)(sizeof conditions / sizeof *conditions));
    tcase_add_test(tcase, an_operand_that_was_not_saved_differs_in_every_sample);
    tcase_add_test(tcase, invalid_arguments_of_a_check_are_rejected);
    tcase_add_test(tcase, a_sample_has_its_own_tolerance);
    tcase_add_test(tcase, values_of_samples_keep_away_from_kinks);
    tcase_add_test(tcase, distinct_values_are_in_random_order);
    tcase_add_test(tcase, consecutive_seeds_have_different_numbers);
    tcase_add_test(tcase, many_consecutive_seeds_find_a_rare_mistake);
    return run_suites();
}
