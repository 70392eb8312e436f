/* How the engine runs the function of a th_checker (engine_calls.h). An engine is the first member of its checker, and a
 * variable the first member of its leaf. */
#include "checker/engine_calls.h"

#include <math.h>
#include <string.h>

#include "checker/engine/report.h"
#include "tensor/convert.h"

static const char *const operation = "check_gradient";

static th_checker *checker_of(th_engine *engine)
{
    return (th_checker *)engine;
}

static th_variable *variable(const th_engine *engine, int64_t i)
{
    return &th_checker_leaf((const th_checker *)engine, i)->variable;
}

static void move(th_engine *engine, th_variable *x, int64_t first, int64_t end, const double *start,
                 const double *direction, double h)
{
    for (int64_t e = first; e < end; e++)
        th_checker_set_element(engine, x, e, start[e] + h * direction[e]);
}

static bool compute_output(th_engine *engine, double *values)
{
    return th_checker_compute_output(checker_of(engine), values);
}

/* Enough runs to see the size of the noise. */
enum { NOISY_RUNS = 4 };

/* Runs the function a few times, and multiplies the elements of every result that another operation reads by 1 plus or
 * minus the rounding unit. Keeps the largest changes. */
static bool measure_noise(th_engine *engine)
{
    th_checker *checker = checker_of(engine);
    double *values = th_checker_allocate(checker->ctx, operation, engine->rows);
    engine->noise = th_checker_allocate(checker->ctx, operation, engine->rows);
    bool good = values && engine->noise;
    for (int run = 0; run < NOISY_RUNS && good; run++) {
        checker->perturbs = true;
        good = th_checker_compute_output(checker, values);
        checker->perturbs = false;
        for (int64_t j = 0; j < engine->rows && good; j++) {
            const double change = fabs(values[j] - engine->base[j]);
            engine->noise[j] = isfinite(change) ? fmax(engine->noise[j], change) : engine->noise[j];
        }
    }
    th_checker_release(checker->ctx, values, engine->rows);
    return good;
}

/* Runs the function with recording. */
static bool begin_gradients(th_engine *engine, th_shape *output_shape)
{
    th_checker *checker = checker_of(engine);
    checker->recorded = th_checker_run(checker, true);
    const th_tensor_impl *output = checker->recorded;
    if (output == NULL || checker->incomplete)
        return false;
    if (th_tensor_numel(output) != engine->rows || !output->requires_gradient) {
        th_fail(checker->ctx, TH_ERROR_SHAPE, operation,
                "the output's shape, or whether it requires a gradient, differs between runs");
        return false;
    }
    output_shape->ndim = output->ndim;
    memcpy(output_shape->size, output->size, sizeof output->size);
    return true;
}

static bool compute_gradients(th_engine *engine, const double *cotangent, int times, double *gradient)
{
    th_checker *checker = checker_of(engine);
    return th_checker_compute_gradients(checker, checker->recorded, cotangent, times, gradient);
}

static bool end_gradients(th_engine *engine)
{
    return th_checker_end_run(checker_of(engine));
}

static double *allocate(th_engine *engine, int64_t count)
{
    return th_checker_allocate(checker_of(engine)->ctx, operation, count);
}

static void release(th_engine *engine, double *memory, int64_t count)
{
    th_checker_release(checker_of(engine)->ctx, memory, count);
}

const th_engine_calls th_checker_calls = {.variable = variable,
                                          .element = th_checker_element,
                                          .set_element = th_checker_set_element,
                                          .move = move,
                                          .compute_output = compute_output,
                                          .measure_noise = measure_noise,
                                          .begin_gradients = begin_gradients,
                                          .compute_gradients = compute_gradients,
                                          .end_gradients = end_gradients,
                                          .allocate = allocate,
                                          .release = release};

th_status th_report_error(th_gradient_report *report, const th_context *ctx)
{
    *report = (th_gradient_report){.mode = report->mode, .input = -1};
    th_report_append(report, "could not be checked: %s\n", ctx->message);
    return ctx->error;
}
