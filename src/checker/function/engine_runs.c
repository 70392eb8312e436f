/* How the engine runs a plain function (function.h). An engine is the first member of its run. */
#include <stdlib.h>
#include <string.h>

#include "checker/function/function.h"

static th_variable *variable(const th_engine *engine, int64_t i)
{
    const th_run *run = (const th_run *)engine;
    return (th_variable *)&run->variable[i];
}

/* The buffer that the engine moves: with a reference, that of float64. */
static const th_buffer *point_of(const th_engine *engine, const th_variable *x)
{
    const th_run *run = (const th_run *)engine;
    const th_function_memory *in = run->function->reference ? run->exact_in : run->in;
    return &in[x->input_number].buffer;
}

static double element(const th_engine *engine, const th_variable *x, int64_t e)
{
    return th_buffer_read(point_of(engine, x), e);
}

static void set_element(th_engine *engine, th_variable *x, int64_t e, double value)
{
    th_buffer_write(point_of(engine, x), e, value);
}

static void move(th_engine *engine, th_variable *x, int64_t first, int64_t end, const double *start,
                 const double *direction, double h)
{
    th_buffer_move(point_of(engine, x), first, end, start, direction, h);
}

static bool compute_output(th_engine *engine, double *values)
{
    th_run *run = (th_run *)engine;
    if (!(run->function->reference ? th_run_reference(run) : th_run_forward(run, TH_BUFFER_NAN)))
        return false;
    th_run_outputs(run, values);
    return true;
}

static bool begin_gradients(th_engine *engine, th_shape *output_shape)
{
    th_run *run = (th_run *)engine;
    const th_port *port = run->function->outputs;
    output_shape->ndim = 1;
    output_shape->size[0] = engine->rows;
    if (run->function->n_outputs == 1) {
        output_shape->ndim = port->ndim;
        memcpy(output_shape->size, port->size, sizeof port->size);
    }
    return th_run_forward(run, TH_BUFFER_NAN);
}

static bool compute_gradients(th_engine *engine, const double *cotangent, int times, double *gradient)
{
    th_run *run = (th_run *)engine;
    double *once = times > 1 ? th_run_allocate(run, engine->columns) : gradient;
    bool good = once != NULL;
    if (times > 1)
        memset(gradient, 0, (size_t)engine->columns * sizeof *gradient);
    th_run_set_cotangent(run, cotangent);
    for (int t = 0; t < times && good; t++) {
        good = th_run_backward(run, TH_BUFFER_NAN);
        if (good)
            th_run_gradients(run, once);
        for (int64_t c = 0; c < engine->columns && good && times > 1; c++)
            gradient[c] += once[c];
    }
    if (times > 1)
        free(once);
    return good;
}

static bool end_gradients(th_engine *engine)
{
    return ((th_run *)engine)->mistake[0] == '\0';
}

static double *allocate(th_engine *engine, int64_t count)
{
    return th_run_allocate((th_run *)engine, count);
}

static void release(th_engine *engine, double *memory, int64_t count)
{
    (void)engine;
    (void)count;
    free(memory);
}

const th_engine_calls th_run_calls = {.variable = variable,
                                      .element = element,
                                      .set_element = set_element,
                                      .move = move,
                                      .compute_output = compute_output,
                                      .measure_noise = th_run_measure_noise,
                                      .begin_gradients = begin_gradients,
                                      .compute_gradients = compute_gradients,
                                      .end_gradients = end_gradients,
                                      .allocate = allocate,
                                      .release = release};
