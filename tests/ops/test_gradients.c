/* Every operation of the registry: its gradients on its samples, fused and composed versions, and whether the checker
 * rejects gradients broken on purpose. */
#include <math.h>
#include <string.h>

#include "tapehead/check.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

START_TEST(every_operation_has_the_right_gradient)
{
    const th_op *op = th_op_at(_i);
    if (op->not_differentiable) {
        ck_assert_msg(strlen(op->not_differentiable) > 10, "%s: does not say why it has no gradient", op->name);
        return;
    }
    ck_assert_op(ctx, op);
}
END_TEST

START_TEST(every_operation_has_formulas)
{
    const th_op *op = th_op_at(_i);
    ck_assert_ptr_nonnull(op->name);
    ck_assert_msg(op->value && op->value[0], "%s has no formula", op->name);
    ck_assert_msg(op->not_differentiable || (op->gradient && op->gradient[0]), "%s has no formula of its gradient",
                  op->name);
    ck_assert_ptr_eq(th_op_find(op->name), op);
}
END_TEST

/* -- fused operations against the composition that they equal -- */

static void compare(const char *name, const char *what, th_tensor *a, th_tensor *b)
{
    ck_assert_msg(a && b, "%s: no %s: %s", name, what, th_error_message(ctx));
    ck_assert_int_eq(th_numel(a), th_numel(b));
    double a_values[4096], b_values[4096], scale = 0, difference = 0;
    ck_assert_int_le(th_numel(a), 4096);
    ck_assert_int_eq(th_copy_out(th_contiguous(a), a_values, (size_t)th_numel(a) * sizeof(double)), TH_OK);
    ck_assert_int_eq(th_copy_out(th_contiguous(b), b_values, (size_t)th_numel(b) * sizeof(double)), TH_OK);
    for (int64_t i = 0; i < th_numel(a); i++) {
        scale = fmax(scale, fabs(b_values[i]));
        difference = fmax(difference, fabs(a_values[i] - b_values[i]));
        ck_assert_msg(isnan(a_values[i]) == isnan(b_values[i]), "%s: %s has a NaN in one only", name, what);
    }
    ck_assert_msg(difference <= 1e-12 * fmax(scale, 1), "%s: %s differs from the composition by %g", name, what,
                  difference);
}

/* Computes the value and the gradients of one of the two, with the same random numbers. Keeps the results. */
static void run_one(const th_op *op, const th_sample *sample, bool fused, th_tensor *const *inputs, th_tensor **value,
                    th_tensor **gradients)
{
    th_set_seed(ctx, 11);
    th_tensor *output = fused ? th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL)
                              : op->composed(sample->attributes, inputs, sample->n_inputs);
    ck_assert_msg(output != NULL, "%s, sample %s: %s", op->name, sample->name, th_error_message(ctx));
    *value = th_keep(output);
    th_tensor *cotangent =
        th_sin(th_reshape(th_arange(ctx, TH_FLOAT64, 0, (double)th_numel(output), 1), th_shape_of(output)));
    ck_assert_msg(th_backward(output, &(th_backward_options){.cotangent = cotangent}) == TH_OK, "%s",
                  th_error_message(ctx));
    for (int i = 0; i < sample->n_inputs; i++) {
        gradients[i] = inputs[i] && th_gradient(inputs[i]) ? th_keep(th_gradient(inputs[i])) : NULL;
        th_empty_gradient(inputs[i]);
    }
    th_tape_clear(ctx);
}

START_TEST(every_fused_operation_equals_its_composition)
{
    const th_op *op = th_op_at(_i);
    if (op->composed == NULL)
        return;
    for (const th_sample *sample = op->samples; sample->name; sample++) {
        th_tensor *inputs[TH_MAX_INPUTS], *value[2], *gradients[2][TH_MAX_INPUTS];
        ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT64, 5, inputs), TH_OK);
        for (int i = 0; i < sample->n_inputs; i++)
            if (inputs[i] && th_dtype_of(inputs[i]) == TH_FLOAT64)
                ck_assert_ptr_nonnull(th_set_requires_gradient(inputs[i], !sample->input[i].constant));
        for (int fused = 0; fused < 2; fused++)
            run_one(op, sample, fused, inputs, &value[fused], gradients[fused]);
        char what[128];
        snprintf(what, sizeof what, "the value on sample \"%s\"", sample->name);
        compare(op->name, what, value[1], value[0]);
        for (int i = 0; i < sample->n_inputs; i++) {
            ck_assert_int_eq(gradients[0][i] == NULL, gradients[1][i] == NULL);
            snprintf(what, sizeof what, "the gradient of input %d on sample \"%s\"", i, sample->name);
            if (gradients[0][i])
                compare(op->name, what, gradients[1][i], gradients[0][i]);
        }
        th_tape_clear(ctx);
    }
}
END_TEST

/* -- the checker against gradients broken on purpose -- */

typedef enum mutation { DOUBLED, ZEROED, NEGATED, SLIGHTLY_OFF, TRANSPOSED, OVERWRITTEN, MUTATIONS } mutation;
static const char *const mutation_name[MUTATIONS] = {"doubled",    "zeroed",     "negated",
                                                     "1.01 times", "transposed", "overwritten"};

/* The operation that is broken, and its mutation. Globals, because mutant_backward has no other access to them. */
static const th_op *original;
static mutation current;
static int mutated_input;

static int64_t position(const th_array *a, int64_t element)
{
    int64_t at = 0;
    for (int d = a->ndim - 1; d >= 0; d--) {
        at += element % a->size[d] * a->stride[d];
        element /= a->size[d];
    }
    return at;
}

static void scale_array(const th_array *a, double factor)
{
    for (int64_t i = 0; i < th_array_numel(a); i++)
        ((double *)a->data)[position(a, i)] *= factor;
}

static void transpose_array(const th_array *a)
{
    const int64_t n = a->size[a->ndim - 1];
    for (int64_t block = 0; block < th_array_numel(a); block += n * n)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++) {
                double *upper = (double *)a->data + position(a, block + i * n + j),
                       *lower = (double *)a->data + position(a, block + j * n + i);
                const double swap = *upper;
                *upper = *lower;
                *lower = swap;
            }
}

static bool is_square(const th_array *a)
{
    return a->ndim >= 2 && a->size[a->ndim - 1] == a->size[a->ndim - 2] && a->size[a->ndim - 1] > 1;
}

/* Copies the output gradient to each input: the backward of an identity gradient, as a function that a mutation can
 * break. */
static void pass_backward(const th_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        const th_array *dx = &call->input_gradient[i], *dy = &call->output_gradient[0];
        for (int64_t e = 0; dx->given && e < th_array_numel(dx); e++) {
            double *target = (double *)dx->data + position(dx, e);
            *target = (call->add[i] ? *target : 0) + ((const double *)dy->data)[position(dy, e)];
        }
    }
}

/* Plans a mutant. If it overwrites, it clears call->add before the plan of the operation reads it. */
static void mutant_plan(const th_call *call, bool backward, void *plan)
{
    if (backward && current == OVERWRITTEN)
        call->add[mutated_input] = false;
    if (original->plan)
        original->plan(call, backward, plan);
}

static void mutant_backward(const th_call *call)
{
    (original->backward ? original->backward : pass_backward)(call);
    const th_array *dx = &call->input_gradient[mutated_input];
    if (!dx->given)
        return;
    switch (current) {
    case DOUBLED:
        scale_array(dx, 2);
        break;
    case ZEROED:
        scale_array(dx, 0);
        break;
    case NEGATED:
        scale_array(dx, -1);
        break;
    case SLIGHTLY_OFF:
        scale_array(dx, 1.01);
        break;
    case TRANSPOSED:
        if (is_square(dx))
            transpose_array(dx);
        break;
    default:
        break;
    }
}

/* Returns whether a sample suits a mutation of this input: it has a gradient and elements, and equal last axes for
 * TRANSPOSED. */
static bool sample_suits(const th_sample *sample, int input, mutation m)
{
    const th_sample_input *x = &sample->input[input];
    const th_shape *shape = &x->shape;
    if (input >= sample->n_inputs || x->constant || (x->kind != TH_SAMPLE_REAL && x->kind != TH_SAMPLE_DISTINCT))
        return false;
    for (int d = 0; d < shape->ndim; d++)
        if (shape->size[d] == 0)
            return false;
    return m != TRANSPOSED || (shape->ndim >= 2 && shape->size[shape->ndim - 1] == shape->size[shape->ndim - 2] &&
                               shape->size[shape->ndim - 1] > 1);
}

/* Returns whether a sample has an input with two equal axes to exchange. */
static bool has_square(const th_op *op)
{
    for (const th_sample *sample = op->samples; sample->name; sample++)
        for (int i = 0; i < sample->n_inputs; i++)
            if (sample_suits(sample, i, TRANSPOSED))
                return true;
    return false;
}

/* Returns whether the checker rejects this mutant on one of the samples, or no sample is suitable. */
static bool rejected(const th_op *op, mutation m, int input, bool *tried)
{
    th_op mutant = *op;
    original = op;
    current = m;
    mutated_input = input;
    mutant.plan = mutant_plan;
    mutant.backward = mutant_backward;
    mutant.identity_gradients = 0;
    /* an operation that cannot add always overwrites: the sixth mutation only removes the flag */
    if (m == OVERWRITTEN)
        mutant.flags &= ~(uint32_t)TH_OP_CANNOT_ADD;
    else
        mutant.flags |= TH_OP_CANNOT_ADD;
    *tried = false;
    for (const th_sample *sample = op->samples; sample->name; sample++) {
        if (!sample_suits(sample, input, m))
            continue;
        *tried = true;
        const th_sample only[2] = {*sample, {.name = NULL}};
        mutant.samples = only;
        th_gradient_report report;
        const th_status status = th_check_op(ctx, &mutant, NULL, &report);
        ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
        if (status == TH_ERROR_VALUE) {
            ck_assert_msg(strstr(report.text, "is wrong") != NULL, "%s", report.text);
            return true;
        }
    }
    return false;
}

START_TEST(every_broken_gradient_is_rejected)
{
    const th_op *op = th_op_at(_i);
    const bool plain_view =
        (op->flags & TH_OP_VIEW) != 0; /* its backward is part of the driver, which test_mutated_driver breaks */
    if (op->not_differentiable || plain_view)
        return;
    const int inputs = op->n_inputs == TH_ANY_INPUTS ? 2 : op->n_inputs;
    bool broken[MUTATIONS] = {false};
    for (int input = 0; input < inputs; input++) {
        for (int m = 0; m < MUTATIONS; m++) {
            bool tried;
            const bool caught = rejected(op, (mutation)m, input, &tried);
            broken[m] |= tried;
            ck_assert_msg(caught || !tried, "%s: the gradient of input %d %s, and the checker says it is right",
                          op->name, input, mutation_name[m]);
        }
    }
    for (int m = 0; m < MUTATIONS; m++)
        ck_assert_msg(broken[m] || (m == TRANSPOSED && !has_square(op)), "%s: no sample to be %s", op->name,
                      mutation_name[m]);
}
END_TEST

/* -- the verdicts -- */

static void expect_verdict(mutation m, const char *verdict)
{
    const th_op *op = th_op_find("matmul");
    static const th_sample square[2] = {
        {.name = "square", .n_inputs = 2, .input = {{.shape = TH_SIZES(3, 3)}, {.shape = TH_SIZES(3, 3)}}},
        {.name = NULL}};
    th_op mutant = *op;
    original = op;
    current = m;
    mutated_input = 0;
    mutant.name = "my_matmul";
    mutant.plan = mutant_plan;
    mutant.backward = mutant_backward;
    mutant.samples = square;
    mutant.flags |= m == OVERWRITTEN ? 0u : TH_OP_CANNOT_ADD;
    th_gradient_report report;
    ck_assert_int_eq(th_check_op(ctx, &mutant, NULL, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
    ck_assert_msg(strstr(report.text, verdict) != NULL, "no \"%s\" in\n%s", verdict, report.text);
    ck_assert_ptr_nonnull(strstr(report.text, "my_matmul"));
    ck_assert_ptr_nonnull(strstr(report.text, "x0["));
    ck_assert_int_eq(report.input, 0);
}

START_TEST(the_report_names_the_kind_of_mistake)
{
    expect_verdict(NEGATED, "opposite sign");
    expect_verdict(DOUBLED, "2 times what it should be");
    expect_verdict(SLIGHTLY_OFF, "1.01 times");
    expect_verdict(ZEROED, "every element is 0");
    expect_verdict(TRANSPOSED, "transposed");
    expect_verdict(OVERWRITTEN, "overwrites");
}
END_TEST

/* A bias whose gradient is not summed over rows. */
static th_status forgetful_shape(th_call *call)
{
    th_call_output(call, 0, call->input[0].dtype, 2, call->input[0].size, NULL);
    return TH_OK;
}

static void forgetful_forward(const th_call *call)
{
    const th_array *x = &call->input[0], *b = &call->input[1], *y = &call->output[0];
    for (int64_t i = 0; i < th_array_numel(y); i++)
        ((double *)y->data)[i] = ((const double *)x->data)[i] + ((const double *)b->data)[i % y->size[1]];
}

static void forgetful_backward(const th_call *call)
{
    const th_array *dy = &call->output_gradient[0];
    for (int i = 0; i < 2; i++)
        for (int64_t e = 0; call->input_gradient[i].given && e < th_array_numel(&call->input_gradient[i]); e++)
            ((double *)call->input_gradient[i].data)[e] = ((const double *)dy->data)[e];
}

START_TEST(the_report_names_a_missing_sum)
{
    const th_sample samples[2] = {
        {.name = "bias", .n_inputs = 2, .input = {{.shape = TH_SIZES(4, 3)}, {.shape = TH_SIZES(3)}}}, {.name = NULL}};
    const th_op forgetful = {.name = "forgetful",
                             .value = "y = x + b",
                             .gradient = "db = dy, without a sum",
                             .n_inputs = 2,
                             .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
                             .shape = forgetful_shape,
                             .forward = forgetful_forward,
                             .backward = forgetful_backward,
                             .samples = samples};
    th_gradient_report report;
    ck_assert_int_eq(th_check_op(ctx, &forgetful, NULL, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.input, 1);
    ck_assert_msg(strstr(report.text, "sum over a broadcast axis is missing") != NULL, "%s", report.text);
}
END_TEST

/* -- functions -- */

static th_tensor *through_softmax(void *user, th_tensor *x)
{
    (void)user;
    return th_softmax(th_scale(x, 3), -1);
}

static th_tensor *with_a_hidden_path(void *user, th_tensor *x)
{
    (void)user;
    return th_add(th_mul(x, x), th_detach(x)); /* the second term's gradient is lost */
}

static th_tensor *with_dropout(void *weight, th_tensor *x)
{
    return th_dropout(th_matmul(x, weight), 0.4);
}

static th_tensor *not_a_number(void *user, th_tensor *x)
{
    (void)user;
    return th_log(th_add_scalar(x, -100));
}

START_TEST(functions_are_checked_in_both_modes)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 5));
    for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
        const th_gradient_options options = {.mode = (th_gradient_mode)mode};
        th_gradient_report report;
        ck_assert_gradient_with(through_softmax, NULL, x, &options);
        ck_assert_int_eq(th_check_gradient_of(with_a_hidden_path, NULL, x, &options, &report), TH_ERROR_VALUE);
        ck_assert_int_eq(report.mode, mode);
        ck_assert_int_eq(th_check_gradient_of(not_a_number, NULL, x, &options, &report), TH_ERROR_VALUE);
        ck_assert_ptr_nonnull(strstr(report.text, "not a number"));
    }
}
END_TEST

START_TEST(parameters_are_checked_and_restored_bit_for_bit)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, 4));
    th_tensor *weight = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 6)), true);
    ck_assert_int_eq(th_backward(th_sum(weight, TH_ALL_AXES, NULL), NULL), TH_OK);
    float before[24], after[24];
    ck_assert_int_eq(th_copy_out(weight, before, sizeof before), TH_OK);
    ck_assert_gradient(with_dropout, weight, x);
    const th_memory_usage usage = th_memory(ctx);
    ck_assert_gradient(with_dropout, weight, x);
    th_gradient_report report;
    const th_gradient_options fast = {.mode = TH_GRADIENT_FAST};
    ck_assert_int_eq(th_check_gradient_of(with_dropout, weight, x, &fast, &report), TH_OK);
    ck_assert_int_eq(th_copy_out(weight, after, sizeof after), TH_OK);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_int_eq(th_dtype_of(weight), TH_FLOAT32);
    ck_assert_double_eq(th_get(th_gradient(weight), TH_INDEX(2, 3)), 1);
    ck_assert_uint_eq(th_memory(ctx).live, usage.live);
}
END_TEST

START_TEST(the_report_names_the_reason_without_a_check)
{
    th_gradient_report report;
    th_op bare = {.name = "bare", .value = "?", .n_inputs = 1, .shape = th_shape_elementwise};
    ck_assert_int_eq(th_check_op(ctx, &bare, NULL, &report), TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "neither a backward nor a reason"));
    bare.backward = forgetful_backward;
    ck_assert_int_eq(th_check_op(ctx, &bare, NULL, &report), TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "no samples"));
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("gradients", setup, close_context);
    const int count = th_op_count();
    tcase_add_loop_test(tcase, every_operation_has_the_right_gradient, 0, count);
    tcase_add_loop_test(tcase, every_operation_has_formulas, 0, count);
    tcase_add_loop_test(tcase, every_fused_operation_equals_its_composition, 0, count);
    tcase_add_loop_test(tcase, every_broken_gradient_is_rejected, 0, count);
    tcase_add_test(tcase, the_report_names_the_kind_of_mistake);
    tcase_add_test(tcase, the_report_names_a_missing_sum);
    tcase_add_test(tcase, functions_are_checked_in_both_modes);
    tcase_add_test(tcase, parameters_are_checked_and_restored_bit_for_bit);
    tcase_add_test(tcase, the_report_names_the_reason_without_a_check);
    return run_suites();
}
