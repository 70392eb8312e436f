/* How to write your own operation and check its gradient; then four wrong gradients and their reports.
 *
 * The operation is the Gaussian kernel between two sets of points, y_ij = exp(-gamma |x_i - c_j|²): shape rule, value,
 * gradient and samples. The library needs nothing else to record it, differentiate it and check it. The program exits
 * with 0 if the right gradient passes and every wrong one is rejected. N points, M centers, E coordinates. */
#include <math.h>
#include <stdlib.h>
#include <tapehead/tapehead.h>

#include "options.h"

/* -- the operation -- */

typedef struct gaussian_attributes {
    double gamma;
} gaussian_attributes;

static th_status gaussian_shape(th_call *c) /* x (N, E), centers (M, E) -> (N, M) */
{
    const th_array *x = &c->input[0], *centers = &c->input[1];
    if (th_call_floating(c, 0) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2 || centers->ndim != 2 || x->size[1] != centers->size[1])
        return th_call_fail(c, TH_ERROR_SHAPE, "points are (N, E) and centers (M, E), not %s and %s", TH_TEXT(x),
                            TH_TEXT(centers));
    th_call_output(c, 0, x->dtype, 2, (const int64_t[]){x->size[0], centers->size[0]}, NULL);
    return TH_OK;
}

/* Element i in row-major order. TH_OP_CONTIGUOUS below guarantees contiguous operands. */
static double load(const th_array *a, int64_t i)
{
    return a->dtype == TH_FLOAT64 ? ((const double *)a->data)[i] : (double)((const float *)a->data)[i];
}

static void store(const th_array *a, int64_t i, double value)
{
    if (a->dtype == TH_FLOAT64)
        ((double *)a->data)[i] = value;
    else
        ((float *)a->data)[i] = (float)value;
}

static void gaussian_forward(const th_call *c)
{
    const double gamma = ((const gaussian_attributes *)c->attributes)->gamma;
    const th_array *x = &c->input[0], *centers = &c->input[1], *y = &c->output[0];
    const int64_t N = x->size[0], M = centers->size[0], E = x->size[1];
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < M; j++) {
            double square = 0;
            for (int64_t e = 0; e < E; e++)
                square += pow(load(x, i * E + e) - load(centers, j * E + e), 2);
            store(y, i * M + j, exp(-gamma * square));
        }
}

/* y_ij = exp(-gamma sum_e (x_ie - c_je)²), so dy_ij/dx_ie = -2 gamma y_ij (x_ie - c_je) = -dy_ij/dc_je.
 * All y_ij of a row depend on x_i, and all of a column depend on c_j:
 *     dL/dx_ie = -2 gamma sum_j dL/dy_ij y_ij (x_ie - c_je)
 *     dL/dc_je =  2 gamma sum_i dL/dy_ij y_ij (x_ie - c_je) */
static void gaussian_backward(const th_call *c)
{
    const double gamma = ((const gaussian_attributes *)c->attributes)->gamma;
    const th_array *x = &c->input[0], *centers = &c->input[1], *y = &c->output[0], *dy = &c->output_gradient[0];
    const int64_t N = x->size[0], M = centers->size[0], E = x->size[1];
    for (int64_t i = 0; i < N && c->input_gradient[0].given; i++)
        for (int64_t e = 0; e < E; e++) {
            double sum = 0;
            for (int64_t j = 0; j < M; j++)
                sum += load(dy, i * M + j) * load(y, i * M + j) * (load(x, i * E + e) - load(centers, j * E + e));
            store(&c->input_gradient[0], i * E + e, -2 * gamma * sum);
        }
    for (int64_t j = 0; j < M && c->input_gradient[1].given; j++)
        for (int64_t e = 0; e < E; e++) {
            double sum = 0;
            for (int64_t i = 0; i < N; i++)
                sum += load(dy, i * M + j) * load(y, i * M + j) * (load(x, i * E + e) - load(centers, j * E + e));
            store(&c->input_gradient[1], j * E + e, 2 * gamma * sum);
        }
}

/* The samples of the check. N, M and E differ, so that exchanged indices are detected. */
static const th_sample gaussian_samples[] = {
    {.name = "points and centers",
     .attributes = &(gaussian_attributes){0.7},
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(3, 4)}, {.shape = TH_SIZES(2, 4)}}},
    {.name = "one coordinate",
     .attributes = &(gaussian_attributes){2},
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(4, 1)}, {.shape = TH_SIZES(3, 1)}}},
    {.name = "fixed centers",
     .attributes = &(gaussian_attributes){1},
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(3, 2)}, {.shape = TH_SIZES(2, 2), .constant = true}}},
    {.name = NULL},
};

static const th_op op_gaussian = {
    .name = "gaussian",
    .value = "y_ij = exp(-gamma |x_i - c_j|²)",
    .gradient = "dx_i = -2 gamma sum_j dy_ij y_ij (x_i - c_j); dc_j = 2 gamma sum_i dy_ij y_ij (x_i - c_j)",
    .n_inputs = 2,
    .attributes_size = sizeof(gaussian_attributes),
    .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD,
    .saves = TH_INPUT(0) | TH_INPUT(1) | TH_OUTPUT(0),
    .shape = gaussian_shape,
    .forward = gaussian_forward,
    .backward = gaussian_backward,
    .samples = gaussian_samples,
};

static th_tensor *gaussian(th_tensor *x, th_tensor *centers, double gamma)
{
    return th_apply(&op_gaussian, &(gaussian_attributes){gamma}, x, centers);
}

/* -- a function that uses it: the log of a density made of a Gaussian at every center; (N, E) -> (N) -- */

static th_tensor *log_density(void *user, th_tensor *x)
{
    th_tensor *centers = user; /* a parameter: the check finds it on the tape */
    return th_log(th_sum(gaussian(x, centers, 0.5), TH_AXES(1), NULL));
}

/* -- common mistakes -- */

static void scale_gradient(const th_array *gradient, double factor)
{
    for (int64_t i = 0; gradient->given && i < th_array_numel(gradient); i++)
        store(gradient, i, factor * load(gradient, i));
}

static void backward_with_a_wrong_sign(const th_call *c) /* of the centers: "the difference is symmetric" */
{
    gaussian_backward(c);
    scale_gradient(&c->input_gradient[1], -1);
}

static void backward_without_the_two(const th_call *c) /* (u²)' = u */
{
    gaussian_backward(c);
    scale_gradient(&c->input_gradient[0], 0.5);
    scale_gradient(&c->input_gradient[1], 0.5);
}

static void backward_without_the_sum(const th_call *c) /* = instead of +=: only the last center counts */
{
    const double gamma = ((const gaussian_attributes *)c->attributes)->gamma;
    const th_array *x = &c->input[0], *centers = &c->input[1], *y = &c->output[0], *dy = &c->output_gradient[0];
    const int64_t N = x->size[0], M = centers->size[0], E = x->size[1];
    gaussian_backward(c);
    for (int64_t i = 0; i < N && c->input_gradient[0].given; i++)
        for (int64_t e = 0; e < E; e++)
            for (int64_t j = 0; j < M; j++)
                store(&c->input_gradient[0], i * E + e,
                      -2 * gamma * load(dy, i * M + j) * load(y, i * M + j) *
                          (load(x, i * E + e) - load(centers, j * E + e)));
}

static const struct mistake {
    const char *what;
    void (*backward)(const th_call *c);
    uint32_t flags;
} mistakes[] = {
    {"the centers' gradient has the wrong sign", backward_with_a_wrong_sign, TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD},
    {"the factor 2 is forgotten", backward_without_the_two, TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD},
    {"the sum over the centers is forgotten", backward_without_the_sum, TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD},
    {"it overwrites, and does not say TH_OP_CANNOT_ADD", gaussian_backward, TH_OP_CONTIGUOUS},
};

/* -- the program -- */

/* Prints the outcome. Returns whether it is the expected one. */
static bool print_outcome(const char *label, bool right, th_status status, const th_gradient_report *report,
                          th_context *ctx)
{
    if (status != TH_OK && status != TH_ERROR_VALUE)
        printf("%s: could not be checked: %s\n", label, th_error_message(ctx));
    else if (report->ok)
        printf("%s: right, %lld comparisons\n\n", label, (long long)report->checked);
    else
        printf("%s:\n%s\n", label, report->text);
    return right ? status == TH_OK && report->ok : status == TH_ERROR_VALUE && !report->ok;
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, "gradcheck_your_op",
                  "gradcheck_your_op: checks the gradient of an operation, then of four wrong versions",
                  (const program_option[]){{0}});
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    th_gradient_report report = {0};
    th_status status = th_check_op(ctx, &op_gaussian, NULL, &report);
    bool as_expected = print_outcome("gaussian on its samples", true, status, &report, ctx);

    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(5, 3)); /* the check converts x and the centers to float64 */
    th_tensor *centers = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true);
    status = th_check_gradient_of(log_density, centers, x, &(th_gradient_options){.name = "log_density"}, &report);
    as_expected &= print_outcome("log_density, with its centers", true, status, &report, ctx);

    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        th_op broken = op_gaussian;
        broken.backward = mistakes[i].backward;
        broken.flags = mistakes[i].flags;
        status = th_check_op(ctx, &broken, NULL, &report);
        as_expected &= print_outcome(mistakes[i].what, false, status, &report, ctx);
    }
    printf(as_expected ? "the right gradient passed, every wrong one was rejected\n" : "NOT as expected: see above\n");
    th_context_free(ctx);
    finish_output("gradcheck_your_op");
    print_next(argv[0], "attention_backward",
               (const char *const[]){NULL}); /* derives every number of a gradient by hand */
    return as_expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
