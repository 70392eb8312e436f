/* th_check_function: checks the arguments, chooses the points, and sets the verdict (function.h). */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checker/function/function.h"
#include "tensor/format.h"
#include "tensor/splitmix.h"

static const char *name_of(const th_function *function)
{
    return function->name ? function->name : "the function";
}

/* -- arguments -- */

static bool reject(th_function_report *report, const char *format, ...) TH_FORMAT(2, 3);
static bool reject(th_function_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_append(report->text, sizeof report->text, "could not be checked: ");
    th_append_arguments(report->text, sizeof report->text, format, arguments);
    th_append(report->text, sizeof report->text, "\n");
    va_end(arguments);
    return false;
}

static bool accept_port(const th_port *port, const char *kind, int i, th_function_report *report)
{
    if (port->name == NULL)
        return reject(report, "%s %d has no name", kind, i);
    if (!th_is_checked_type(port->dtype) && port->dtype != TH_INT32 && port->dtype != TH_INT64 &&
        port->dtype != TH_BOOL)
        return reject(report,
                      "%s %s has the type %s; it must be float64, float32, float16, bfloat16, int32, int64 or bool",
                      kind, port->name, th_dtype_name(port->dtype));
    if (port->ndim < 0 || port->ndim > TH_MAX_DIMS)
        return reject(report, "%s %s has %d dimensions; it must have 0 to %d", kind, port->name, port->ndim,
                      (int)TH_MAX_DIMS);
    int64_t numel = 1;
    for (int d = 0; d < port->ndim; d++) {
        if (port->size[d] < 0)
            return reject(report, "size %d of %s %s is %lld; it must not be negative", d, kind, port->name,
                          (long long)port->size[d]);
        if (port->size[d] > 0 && numel > (INT64_C(1) << 40) / (port->size[d] + 1))
            return reject(report, "%s %s has more than 2^40 elements", kind, port->name);
        numel *= port->size[d];
    }
    if (!(port->high >= port->low) || !isfinite(port->high - port->low))
        return reject(report, "%s %s has the range [%g, %g); low must be less than high", kind, port->name, port->low,
                      port->high);
    return true;
}

static bool accept_ports(const th_port *ports, int count, const char *kind, th_function_report *report)
{
    if (count < 0 || count > TH_MAX_PORTS)
        return reject(report, "n_%ss is %d; it must be at most %d", kind, count, (int)TH_MAX_PORTS);
    if (count > 0 && ports == NULL)
        return reject(report, "%ss is NULL", kind);
    for (int i = 0; i < count; i++)
        if (!accept_port(&ports[i], kind, i, report))
            return false;
    return true;
}

static bool accept(const th_function *f, const th_function_options *o, th_function_report *report)
{
    if (f == NULL || f->forward == NULL)
        return reject(report, "%s is NULL", f ? "forward" : "the function");
    if (f->backward == NULL && f->jvp == NULL)
        return reject(report, "the function has neither backward nor jvp");
    if (!(o->step >= 0) || !(o->relative_tolerance >= 0) || !(o->absolute_tolerance >= 0) || !(o->time_limit >= 0) ||
        o->directions < 0 || o->samples < 0 || (int)o->mode < 0 || o->mode > TH_GRADIENT_FAST)
        return reject(report, "an option is negative or not a number");
    if (o->time_limit > 0 && !o->isolate)
        return reject(report, "the option time_limit needs isolate");
    return accept_ports(f->inputs, f->n_inputs, "input", report) &&
           accept_ports(f->outputs, f->n_outputs, "output", report);
}

/* -- the engine -- */

/* Above TH_MANY elements the search finds wrong ones, and few samples are compared. A Jacobian with up to TH_FEW numbers is
 * compared at several points. */
enum { TH_MANY = 100000, TH_FEW = 4096 };

static th_number_kind kind_of(th_dtype dtype)
{
    return dtype == TH_BFLOAT16  ? TH_KIND_BFLOAT16
           : dtype == TH_FLOAT16 ? TH_KIND_FLOAT16
           : dtype == TH_FLOAT32 ? TH_KIND_FLOAT32
                                 : TH_KIND_FLOAT64;
}

static const double epsilon_of[TH_KINDS] = {DBL_EPSILON, FLT_EPSILON, 0x1p-10, 0x1p-7};
/* The default tolerance of gradients whose difference quotients come from a reference in float64. */
static const double reference_tolerance[TH_KINDS] = {1e-5, 1e-3, 3e-2, 1e-1};

/* Returns the least exact type among the inputs and outputs. */
static th_number_kind coarsest_kind(const th_function *f)
{
    th_number_kind kind = TH_KIND_FLOAT64;
    for (int i = 0; i < f->n_inputs + f->n_outputs; i++) {
        const th_dtype dtype = i < f->n_inputs ? f->inputs[i].dtype : f->outputs[i - f->n_inputs].dtype;
        if (th_is_checked_type(dtype) && kind_of(dtype) > kind)
            kind = kind_of(dtype);
    }
    return kind;
}

static int64_t numel_of(const th_port *port)
{
    int64_t numel = 1;
    for (int d = 0; d < port->ndim; d++)
        numel *= port->size[d];
    return numel;
}

static void set_variables(th_run *run)
{
    const th_function *f = run->function;
    for (int i = 0; i < f->n_inputs; i++) {
        th_variable *x = &run->variable[i];
        const th_port *port = &f->inputs[i];
        th_append(x->name, sizeof x->name, "%s", port->name);
        x->input_number = i;
        x->ndim = port->ndim;
        memcpy(x->size, port->size, sizeof x->size);
        x->numel = numel_of(port);
        x->checked = th_is_checked_type(port->dtype) && !port->constant;
        x->first_column = run->engine.columns;
        run->engine.columns += x->checked ? x->numel : 0;
    }
    for (int k = 0; k < f->n_outputs; k++)
        run->engine.rows += th_is_checked_type(f->outputs[k].dtype) ? numel_of(&f->outputs[k]) : 0;
}

/* Sets the kind of numbers in which the function, or its reference, computes. */
static void set_kind(th_run *run, th_number_kind kind)
{
    th_engine *engine = &run->engine;
    engine->gradient_kind = kind;
    engine->kind = run->function->reference ? TH_KIND_FLOAT64 : kind;
    if (run->function->reference && run->options.relative_tolerance == 0)
        engine->options.relative_tolerance = reference_tolerance[kind];
    engine->epsilon = engine->unit = epsilon_of[engine->kind];
    run->gradient_epsilon = kind == TH_KIND_FLOAT64 ? 0 : epsilon_of[kind];
}

static void set_engine(th_run *run, th_gradient_report *report)
{
    const th_function_options *o = &run->options;
    th_engine *engine = &run->engine;
    engine->calls = &th_run_calls;
    engine->options = (th_gradient_options){.mode = o->mode,
                                            .name = name_of(run->function),
                                            .step = o->step,
                                            .relative_tolerance = o->relative_tolerance,
                                            .absolute_tolerance = o->absolute_tolerance,
                                            .seed = o->seed,
                                            .directions = o->directions,
                                            .samples = o->samples};
    set_kind(run, coarsest_kind(run->function));
    engine->random = th_splitmix64_start(o->seed);
    engine->variables = run->function->n_inputs;
    engine->searches = true;
    engine->report = report;
    run->seed = engine->random;
    set_variables(run);
    if (engine->columns > TH_MANY && o->samples == 0)
        engine->options.samples = 4;
    if (engine->columns > TH_MANY && o->directions == 0)
        engine->options.directions = 1;
}

/* -- points -- */

/* Returns a random number of a port's range times the scale. Numbers of 16-bit types are multiples of an eighth, so that
 * a step of a power of 2 is exact. */
static double random_value(const th_port *port, double scale, uint64_t *random)
{
    const double uniform = (double)(th_splitmix64(random) >> 11) * 0x1p-53;
    const bool given = port->low != 0 || port->high != 0;
    if (!th_is_checked_type(port->dtype))
        return given ? floor(port->low + uniform * (port->high - port->low)) : floor(2 * uniform);
    if (given)
        return port->low + uniform * (port->high - port->low);
    const double value = 4 * uniform - 2;
    return scale * (kind_of(port->dtype) >= TH_KIND_FLOAT16 ? rint(8 * value) / 8 : value);
}

static bool has_random_values(const th_run *run)
{
    for (int i = 0; i < run->function->n_inputs; i++) {
        const th_port *port = &run->function->inputs[i];
        if (th_is_checked_type(port->dtype) && !port->values && port->low == 0 && port->high == 0)
            return true;
    }
    return false;
}

static void copy_values(const th_port *port, const th_buffer *b)
{
    const size_t size = th_dtype_size(port->dtype);
    for (int64_t e = 0; e < b->numel; e++)
        memcpy(th_buffer_element(b, e), (const char *)port->values + (size_t)e * size, size);
}

static void set_point(th_run *run, double scale)
{
    for (int i = 0; i < run->function->n_inputs; i++) {
        const th_port *port = &run->function->inputs[i];
        const th_buffer *b = &run->in[i].buffer;
        th_memory_fill(&run->in[i], TH_BUFFER_FINITE);
        if (run->function->reference)
            th_memory_fill(&run->exact_in[i], TH_BUFFER_FINITE);
        if (port->values)
            copy_values(port, b);
        for (int64_t e = 0; e < b->numel && !port->values; e++)
            th_buffer_write(b, e, random_value(port, scale, &run->engine.random));
    }
    th_run_set_exact(run);
}

/* -- the check -- */

/* Keeps only the largest noise of all points, for the report. */
static void forget_noise(th_run *run)
{
    th_engine *engine = &run->engine;
    if (engine->noise && engine->output_scale > 0)
        run->noise = fmax(run->noise, th_largest_magnitude(engine->noise, engine->rows) / engine->output_scale);
    free(engine->noise);
    free(engine->gradient_noise);
    engine->noise = engine->gradient_noise = NULL;
}

/* Checks the gradient at the current point. A function of float64 numbers that computes in float32 is checked again as
 * one of float32. */
static bool check_point(th_run *run)
{
    th_gradient_report *report = run->engine.report;
    forget_noise(run);
    if (!th_run_measure(run) || !th_engine_compare(&run->engine, report->mode == TH_GRADIENT_FULL))
        return false;
    if (report->verdict == TH_GRADIENT_COULD_NOT_RUN || run->engine.gradient_kind != TH_KIND_FLOAT64)
        return true; /* right, or already with the precision of its type */
    if (!th_run_measure_noise(&run->engine) || !th_run_has_float32_noise(run))
        return run->mistake[0] == '\0';
    set_kind(run, TH_KIND_FLOAT32);
    *report = (th_gradient_report){.mode = report->mode, .input = -1};
    return check_point(run) && (run->engine.noise || th_run_measure_noise(&run->engine));
}

/* Checks new values of inputs of moderate size, which are larger or smaller, under another seed. There, only a wrong
 * gradient counts: a function need not be smooth everywhere. */
static bool check_other_points(th_run *run)
{
    static const struct other_point {
        double scale;
        const char *text;
    } points[] = {{4, "the inputs are random numbers in [-8, 8)"},
                  {0.0625, "the inputs are random numbers in [-1/8, 1/8)"}};
    th_gradient_report *report = run->engine.report;
    const double missed_error = run->engine.missed_error, missed_probability = run->engine.missed_probability;
    if (!has_random_values(run) || run->engine.columns + run->engine.rows > TH_MANY)
        return true;
    th_gradient_report *other = (th_gradient_report *)malloc(sizeof *other);
    bool good = other != NULL || th_run_out_of_memory(run);
    for (size_t p = 0; p < sizeof points / sizeof *points && good && report->verdict != TH_GRADIENT_WRONG; p++) {
        memset(other, 0, sizeof *other);
        other->input = -1;
        other->mode = run->engine.rows * run->engine.columns > TH_FEW ? TH_GRADIENT_FAST : report->mode;
        run->engine.report = other;
        run->engine.extra = points[p].text;
        run->seed = th_splitmix64(&run->engine.random);
        set_point(run, points[p].scale);
        good = check_point(run);
        other->checked += report->checked;
        if (other->verdict == TH_GRADIENT_WRONG)
            *report = *other;
        report->checked = other->checked;
    }
    run->engine.report = report;
    run->engine.missed_error = missed_error;
    run->engine.missed_probability = missed_probability;
    free(other);
    return good;
}

static bool check_all(th_run *run)
{
    th_gradient_report *report = run->engine.report;
    report->mode = th_engine_mode(&run->engine);
    set_point(run, 1);
    if (run->engine.rows == 0 || run->engine.columns == 0) {
        report->verdict = TH_GRADIENT_NOTHING_COMPARED;
        return th_run_forward(run, TH_BUFFER_NAN) && th_run_forward(run, TH_BUFFER_FINITE) &&
               (run->function->backward == NULL || th_run_backward(run, TH_BUFFER_NAN));
    }
    if (!check_point(run) || report->verdict == TH_GRADIENT_WRONG)
        return run->mistake[0] == '\0';
    if (!run->options.gradients_only && !th_run_check_conditions(run))
        return false;
    return run->options.only_this_point || check_other_points(run);
}

static void write_report(const th_run *run, const th_gradient_report *from, th_function_report *report)
{
    report->mode = from->mode;
    report->checked = from->checked;
    report->input = from->input;
    report->index = from->index;
    report->analytic = from->analytic;
    report->numeric = from->numeric;
    report->error = from->error;
    report->uncertainty = from->uncertainty;
    report->not_deterministic = run->not_deterministic;
    report->forward_calls = run->forward_calls;
    report->backward_calls = run->backward_calls;
    report->missed_error = run->engine.missed_error;
    report->missed_probability = run->engine.missed_probability;
    report->noise = run->noise;
    if (run->mistake[0]) {
        report->verdict = run->failed ? TH_GRADIENT_COULD_NOT_RUN : TH_GRADIENT_WRONG;
        th_append(report->text, sizeof report->text, "%s: %s\n", name_of(run->function), run->mistake);
    } else if (from->verdict == TH_GRADIENT_NOTHING_COMPARED) {
        report->verdict = from->verdict;
        th_append(report->text, sizeof report->text, "gradient of %s: nothing was compared: there are no %s\n",
                  name_of(run->function), run->engine.columns ? "outputs" : "elements of inputs to differentiate");
    } else {
        report->verdict = from->verdict == TH_GRADIENT_COULD_NOT_RUN ? TH_GRADIENT_RIGHT : from->verdict;
        th_append(report->text, sizeof report->text, "%s", from->text);
        if (report->verdict != TH_GRADIENT_RIGHT && run->engine.gradient_kind > coarsest_kind(run->function))
            th_append(report->text, sizeof report->text,
                      "  the function computes in float32, although its buffers are float64\n");
    }
    report->ok = report->verdict == TH_GRADIENT_RIGHT;
}

th_status th_check_function_here(const th_function *function, const th_function_options *options,
                                 th_function_report *report)
{
    th_run *run = (th_run *)calloc(1, sizeof *run);
    th_gradient_report *engine_report = (th_gradient_report *)calloc(1, sizeof *engine_report);
    bool no_memory = run == NULL || engine_report == NULL;
    if (!no_memory) {
        engine_report->input = -1;
        run->function = function;
        run->options = *options;
        set_engine(run, engine_report);
        run->engine.base = th_run_allocate(run, run->engine.rows);
        if (run->engine.base && th_run_init(run))
            (void)check_all(run);
        no_memory = run->no_memory;
        forget_noise(run);
        write_report(run, engine_report, report);
        free(run->engine.base);
        th_run_free(run);
    } else {
        (void)reject(report, "there is no memory");
    }
    free(engine_report);
    free(run);
    return no_memory ? TH_ERROR_MEMORY : report->ok ? TH_OK : TH_ERROR_VALUE;
}

th_status th_check_function(const th_function *function, const th_function_options *options, th_function_report *report)
{
    th_function_report *unused = report ? NULL : (th_function_report *)malloc(sizeof *unused);
    th_function_options defaults;
    memset(&defaults, 0, sizeof defaults);
    if (report == NULL && unused == NULL)
        return TH_ERROR_MEMORY;
    report = report ? report : unused;
    options = options ? options : &defaults;
    memset(report, 0, sizeof *report);
    report->input = -1;
    th_status status = TH_ERROR_ARGUMENT;
    if (accept(function, options, report))
        status = options->isolate ? th_check_function_isolated(function, options, report)
                                  : th_check_function_here(function, options, report);
    free(unused);
    return status;
}
