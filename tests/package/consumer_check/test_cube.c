/* A user's test suite with Check, which forks: checks the gradient of a user's operation, and that a wrong gradient is
 * detected. The runner has a team of threads before it forks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/check.h>
#include <tapehead/tapehead.h>

/* -- the operation: y = x^3 -- */

static th_status cube_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    if (th_call_floating(c, 0))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, x->dtype, x->ndim, x->size, x->axes);
    return TH_OK;
}

static double load(const th_array *array, int64_t i)
{
    return array->dtype == TH_FLOAT64 ? ((const double *)array->data)[i] : (double)((const float *)array->data)[i];
}

static void store(const th_array *array, int64_t i, double value)
{
    if (array->dtype == TH_FLOAT64)
        ((double *)array->data)[i] = value;
    else
        ((float *)array->data)[i] = (float)value;
}

static void cube_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, pow(load(&c->input[0], i), 3));
}

/* dx = 3 x^2 dy */
static void cube_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        store(&c->input_gradient[0], i, 3 * pow(load(&c->input[0], i), 2) * load(&c->output_gradient[0], i));
}

/* A wrong gradient: the sign is opposite. */
static void wrong_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        store(&c->input_gradient[0], i, -3 * pow(load(&c->input[0], i), 2) * load(&c->output_gradient[0], i));
}

static const th_sample samples[] = {
    {.name = "matrix", .n_inputs = 1, .input = {{.shape = {2, {3, 4}}}}},
    {.name = "number", .n_inputs = 1, .input = {{.shape = {0, {0}}}}},
    {.name = NULL},
};

#define CUBE(its_backward)                                                                                             \
    {                                                                                                                  \
        .name = "cube", .value = "y = x^3", .gradient = "dx = 3 x^2 dy", .n_inputs = 1,                                \
        .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD, .saves = TH_INPUT(0), .shape = cube_shape,                       \
        .forward = cube_forward, .backward = its_backward, .samples = samples                                          \
    }
static const th_op cube_op = CUBE(cube_backward), wrong_op = CUBE(wrong_backward);

static th_tensor *cube(void *user, th_tensor *x)
{
    (void)user;
    return th_apply(&cube_op, NULL, x);
}

/* A layer, and the operation on its output. */
static th_tensor *cube_of_layer(void *layer, th_tensor *x)
{
    return cube(NULL, th_module_forward(layer, x));
}

/* -- the suite -- */

static th_context *ctx;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
}

static void teardown(void)
{
    th_context_free(ctx);
}

START_TEST(cube_is_right_on_its_samples)
{
    ck_assert_op(ctx, &cube_op);
}
END_TEST

START_TEST(cube_is_right_as_a_function)
{
    ck_assert_gradient(cube, NULL, th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 5)));
    ck_assert_gradient(cube_of_layer, th_dense_new(ctx, 5, 3, NULL), th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5)));
}
END_TEST

START_TEST(a_wrong_gradient_is_noticed)
{
    th_gradient_report report;
    ck_assert_int_eq(th_check_op(ctx, &wrong_op, NULL, &report), TH_ERROR_VALUE);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_WRONG);
    ck_assert_ptr_nonnull(strstr(report.text, "opposite sign"));
}
END_TEST

START_TEST(products_work_in_a_forked_process)
{
    th_tensor *a = th_ones(ctx, TH_FLOAT32, TH_SHAPE(200, 300)), *b = th_ones(ctx, TH_FLOAT32, TH_SHAPE(300, 200));
    th_tensor *c = th_matmul(a, b);
    ck_assert_double_eq(th_get(c, TH_INDEX(199, 199)), 300);
    ck_assert_int_eq(th_team_size(ctx), 1);
}
END_TEST

int main(void)
{
    setup();
    th_tensor *a = th_ones(ctx, TH_FLOAT32, TH_SHAPE(512, 512));
    const bool ready = th_team_size(ctx) == 2 && th_matmul(a, a) != NULL;
    teardown();

    TCase *cases = tcase_create("cube");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, cube_is_right_on_its_samples);
    tcase_add_test(cases, cube_is_right_as_a_function);
    tcase_add_test(cases, a_wrong_gradient_is_noticed);
    tcase_add_test(cases, products_work_in_a_forked_process);
    Suite *suite = suite_create("a user's operation");
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return ready && failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
