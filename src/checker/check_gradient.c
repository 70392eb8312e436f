/* th_check_gradient: checks the arguments, examines the function in its first runs, compares in full or fast mode, and
 * sets the verdict. */
#include <math.h>
#include <string.h>

#include "checker/engine/report.h"
#include "checker/engine_calls.h"

static const char *const operation = "check_gradient";

/* A check starts again when a run reads a new parameter, at most this many times. */
enum { TH_ATTEMPTS = 8 };

/* -- options -- */

static bool check_number(th_context *ctx, const char *field, double value)
{
    if (value >= 0 && isfinite(value))
        return true;
    th_fail(ctx, TH_ERROR_ARGUMENT, operation,
            "the option %s is %g; it must be a positive number, or 0 for the default", field, value);
    return false;
}

static bool check_options(th_context *ctx, const th_gradient_options *o)
{
    if ((int)o->mode < TH_GRADIENT_AUTO || (int)o->mode > TH_GRADIENT_FAST) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                "the option mode is %d; it must be %d (auto), %d (full) or %d (fast)", (int)o->mode,
                (int)TH_GRADIENT_AUTO, (int)TH_GRADIENT_FULL, (int)TH_GRADIENT_FAST);
        return false;
    }
    return check_number(ctx, "step", o->step) && check_number(ctx, "relative_tolerance", o->relative_tolerance) &&
           check_number(ctx, "absolute_tolerance", o->absolute_tolerance) &&
           check_number(ctx, "directions", o->directions) && check_number(ctx, "samples", o->samples);
}

static bool check_arguments(th_context *ctx, th_gradient_function *function, int n_inputs, th_tensor *const *inputs,
                            const th_gradient_options *options)
{
    if (!th_checker_accepts_context(ctx, operation))
        return false;
    if (function == NULL)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the function is NULL");
    else if (n_inputs < 0 || n_inputs > TH_MAX_CHECKED_INPUTS)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "n_inputs is %d; it must be 0 to %d", n_inputs,
                (int)TH_MAX_CHECKED_INPUTS);
    else if (n_inputs > 0 && inputs == NULL)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "n_inputs is %d, and inputs is NULL", n_inputs);
    else
        return check_options(ctx, options);
    return false;
}

/* -- the first runs -- */

/* Assigns a column to every checked element, in the order of the leaves. */
static void number_columns(th_checker *checker)
{
    checker->engine.columns = 0;
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        leaf->variable.first_column = checker->engine.columns;
        checker->engine.columns += leaf->variable.checked ? leaf->variable.numel : 0;
    }
}

static void fail_without_path(th_checker *checker)
{
    if (checker->recording_off)
        th_fail(checker->ctx, TH_ERROR_STATE, operation,
                "no gradient passes from the output to an input or parameter: recording was off inside the function%s "
                "(th_no_grad_begin, th_module_evaluate)",
                checker->recording_off_at);
    else
        th_fail(checker->ctx, TH_ERROR_STATE, operation,
                "no gradient passes from the output to an input or parameter (because of th_detach, or an operation "
                "without a gradient)");
}

/* Runs the function with recording. Finds the parameters and the sizes. The output must require a gradient. */
static bool record_first_run(th_checker *checker)
{
    const th_tensor_impl *output = th_checker_run(checker, true);
    if (output) {
        checker->engine.rows = th_tensor_numel(output);
        number_columns(checker);
        checker->engine.base = th_checker_allocate(checker->ctx, operation, checker->engine.rows);
        if (checker->engine.base) {
            const th_array array = th_tensor_array(output);
            th_checker_to_doubles(output, &array, checker->engine.base);
            if (!output->requires_gradient && checker->engine.columns > 0)
                fail_without_path(checker);
        }
    }
    return th_checker_end_run(checker);
}

/* Checks that a run without recording gives the same output, bit for bit. If only recording makes a difference, the
 * output without recording becomes the base, because the difference quotients use such runs. */
static bool check_repeatable(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    const size_t bytes = (size_t)checker->engine.rows * sizeof(double);
    double *repeated = th_checker_allocate(checker->ctx, operation, checker->engine.rows);
    if (repeated == NULL)
        return false;
    bool same = false, good = th_checker_compute_output(checker, repeated);
    for (int run = 0; run < 2 && good && !same; run++) {
        same = memcmp(repeated, checker->engine.base, bytes) == 0;
        memcpy(checker->engine.base, repeated, bytes);
        if (!same && run == 0)
            good = th_checker_compute_output(checker, repeated);
    }
    if (good && !same)
        th_fail(
            ctx, TH_ERROR_STATE, operation,
            "two runs on the same inputs give different outputs: the function draws fresh random numbers or keeps a "
            "state (every run repeats the random numbers of th_randn and other operations, but not those of rand())");
    th_checker_release(checker->ctx, repeated, checker->engine.rows);
    th_engine_set_base(&checker->engine);
    return good && same;
}

/* Runs the function the first times. If it fails only without recording, because it calls backward itself, for example,
 * then all runs record. */
static bool examine_function(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    if (!record_first_run(checker))
        return false;
    if (check_repeatable(checker))
        return true;
    if (ctx->error == TH_OK || checker->always_records || checker->incomplete || checker->runs != 2)
        return false;
    th_error_clear(ctx);
    th_checker_release(checker->ctx, checker->engine.base, checker->engine.rows);
    checker->engine.base = NULL;
    checker->always_records = true;
    th_checker_restart(checker);
    return record_first_run(checker) && check_repeatable(checker);
}

/* -- the check -- */

static void report_nothing_compared(th_checker *checker)
{
    th_gradient_report *report = checker->engine.report;
    const char *name = checker->engine.options.name ? checker->engine.options.name : "the function";
    report->verdict = TH_GRADIENT_NOTHING_COMPARED;
    th_report_append(report, "gradient of %s: nothing was compared: ", name);
    bool any_checked = false;
    for (int64_t i = 0; i < checker->leaves.count; i++)
        any_checked |= th_checker_leaf(checker, i)->variable.checked;
    if (!any_checked)
        th_report_append(report, "no input is of a floating type and no parameter requires a gradient\n");
    else if (checker->engine.columns == 0)
        th_report_append(report, "the inputs and parameters have no elements\n");
    else
        th_report_append(report, "the output has no elements\n");
}

/* Prepares the sentence for the report that recording was off when the function read a parameter. */
static void note_recording(th_checker *checker, char *sentence, size_t size)
{
    snprintf(sentence, size, "recording was off inside the function%s: no gradient passes there",
             checker->recording_off_at);
    checker->engine.extra = checker->recording_off ? sentence : NULL;
}

static bool compare_gradients(th_checker *checker)
{
    th_gradient_report *report = checker->engine.report;
    const int64_t rows = checker->engine.rows, columns = checker->engine.columns;
    report->mode = th_engine_mode(&checker->engine);
    if (rows == 0 || columns == 0) {
        report_nothing_compared(checker);
        return true;
    }
    if (report->mode == TH_GRADIENT_FULL && columns > INT64_MAX / 32 / (rows + 8)) {
        th_fail(checker->ctx, TH_ERROR_SHAPE, operation,
                "a Jacobian of %lld by %lld numbers is too large: use the fast mode", (long long)rows,
                (long long)columns);
        return false;
    }
    char sentence[160];
    note_recording(checker, sentence, sizeof sentence);
    checker->engine.variables = checker->leaves.count;
    if (!th_engine_compare(&checker->engine, report->mode == TH_GRADIENT_FULL))
        return false;
    if (report->verdict == TH_GRADIENT_COULD_NOT_RUN)
        report->verdict = TH_GRADIENT_RIGHT;
    return true;
}

static void check_with_new_parameters(th_checker *checker)
{
    for (int attempt = 0; attempt < TH_ATTEMPTS; attempt++) {
        *checker->engine.report = (th_gradient_report){.input = -1};
        const bool is_finished = examine_function(checker) && compare_gradients(checker);
        th_checker_release(checker->ctx, checker->engine.base, checker->engine.rows);
        th_checker_release(checker->ctx, checker->engine.noise, checker->engine.rows);
        checker->engine.base = checker->engine.noise = NULL;
        if (is_finished || checker->ctx->error)
            return;
        th_checker_restart(checker); /* the leaves now include the new parameter */
    }
    th_fail(checker->ctx, TH_ERROR_STATE, operation,
            "the function reads other parameters in every run (the last one is %s)", checker->late_parameter_name);
}

/* Products in bfloat16 have its rounding unit. bfloat16x3 has the unit of float32: the parts that it omits are at most
 * the rounding of a float32 sum. */
static th_engine new_engine(const th_context *ctx, const th_gradient_options *options, th_gradient_report *report)
{
    const bool bfloat16 = options->float32 && ctx->machine.precision == TH_PRECISION_BFLOAT16;
    const th_number_kind kind = options->float32 ? TH_KIND_FLOAT32 : TH_KIND_FLOAT64;
    const double epsilon = options->float32 ? FLT_EPSILON : DBL_EPSILON;
    return (th_engine){.calls = &th_checker_calls,
                       .options = *options,
                       .kind = kind,
                       .gradient_kind = kind,
                       .epsilon = epsilon,
                       .unit = bfloat16 ? TH_BFLOAT16_EPSILON : epsilon,
                       .products_hide = bfloat16,
                       .random = options->seed + 0x5851F42D4C957F2Du,
                       .report = report};
}

static th_status check_function(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                                th_tensor *const *inputs, const th_gradient_options *options, bool at_kinks,
                                th_gradient_report *report)
{
    th_gradient_report unused;
    const th_gradient_options defaults = {0};
    report = report ? report : &unused;
    options = options ? options : &defaults;
    *report = (th_gradient_report){.input = -1};
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (check_arguments(ctx, function, n_inputs, inputs, options)) {
        const th_precision precision = th_checker_leave_int8(ctx);
        th_checker checker = {.engine = new_engine(ctx, options, report),
                              .ctx = ctx,
                              .function = function,
                              .user = user,
                              .n_inputs = n_inputs,
                              .dtype = options->float32 ? TH_FLOAT32 : TH_FLOAT64};
        checker.engine.at_kinks = at_kinks;
        if (th_checker_begin(&checker, inputs))
            check_with_new_parameters(&checker);
        th_checker_end(&checker);
        ctx->machine.precision = precision;
    }
    if (ctx->error)
        return th_report_error(report, ctx);
    report->ok = report->verdict == TH_GRADIENT_RIGHT;
    return report->ok ? TH_OK : TH_ERROR_VALUE;
}

th_status th_check_gradient(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                            th_tensor *const *inputs, const th_gradient_options *options, th_gradient_report *report)
{
    return check_function(ctx, function, user, n_inputs, inputs, options, false, report);
}

th_status th_check_gradient_at_kinks(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                                     th_tensor *const *inputs, const th_gradient_options *options,
                                     th_gradient_report *report)
{
    return check_function(ctx, function, user, n_inputs, inputs, options, true, report);
}

/* -- a function of one tensor -- */

typedef struct function_of_one {
    th_gradient_function_of_one *function;
    void *user;
} function_of_one;

static th_tensor *call_function_of_one(void *user, th_tensor *const *inputs)
{
    const function_of_one *call = user;
    return call->function(call->user, inputs[0]);
}

th_status th_check_gradient_of(th_gradient_function_of_one *function, void *user, th_tensor *x,
                               const th_gradient_options *options, th_gradient_report *report)
{
    th_context *ctx = th_handle_context(x);
    if (ctx == NULL || function == NULL) {
        if (report)
            *report = (th_gradient_report){.input = -1};
        if (th_usable_tensor(x, NULL, operation, "the input"))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the function is NULL");
        return th_pending_status(x);
    }
    function_of_one call = {function, user};
    return th_check_gradient(ctx, call_function_of_one, &call, 1, &x, options, report);
}
