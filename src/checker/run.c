/* Runs the function under test. Every run starts with the same settings and random numbers. After a run, the checker
 * releases everything that the function made. */
#include <math.h>
#include <string.h>

#include "autograd/gradient.h"
#include "checker/checker.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"

static const char *const operation = "check_gradient";

/* -- settings -- */

th_settings th_checker_read_settings(const th_context *ctx)
{
    th_settings s = {.default_dtype = ctx->default_dtype,
                     .training = ctx->training,
                     .fusion = ctx->fusion,
                     .keep_values = ctx->keep_values,
                     .tracing = ctx->tracing,
                     .precision = ctx->machine.precision,
                     .no_grad_depth = ctx->no_grad_depth,
                     .no_grad_at_clear = ctx->no_grad_at_clear,
                     .around = ctx->outer_depths,
                     .step_failed = ctx->step_failed,
                     .in_step = ctx->in_step,
                     .threads = ctx->threads,
                     .seed = ctx->seed,
                     .step = ctx->step,
                     .calls_at_clear = ctx->calls_at_clear};
    memcpy(s.calls, ctx->calls, sizeof s.calls);
    return s;
}

void th_checker_apply_settings(th_context *ctx, const th_settings *s)
{
    ctx->default_dtype = s->default_dtype;
    ctx->training = s->training;
    ctx->fusion = s->fusion;
    ctx->keep_values = s->keep_values;
    ctx->tracing = s->tracing;
    ctx->machine.precision = s->precision;
    ctx->no_grad_depth = s->no_grad_depth;
    ctx->no_grad_at_clear = s->no_grad_at_clear;
    ctx->threads = s->threads;
    ctx->seed = s->seed;
    ctx->step = s->step;
    memcpy(ctx->calls, s->calls, sizeof ctx->calls);
    ctx->calls_at_clear = s->calls_at_clear;
}

/* -- memory -- */

double *th_checker_allocate(th_context *ctx, const char *name, int64_t count)
{
    size_t bytes;
    if (!th_checked_bytes(count, sizeof(double), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, name, "%lld numbers do not fit into memory", (long long)count);
        return NULL;
    }
    double *memory = th_allocate(ctx, bytes ? bytes : 1);
    if (memory == NULL)
        th_fail_memory(ctx, name, bytes);
    else
        memset(memory, 0, bytes);
    return memory;
}

void th_checker_release(th_context *ctx, double *memory, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof(double);
    if (memory)
        th_release(ctx, memory, bytes ? bytes : 1);
}

bool th_checker_accepts_context(th_context *ctx, const char *name)
{
    if (ctx->error)
        return false;
    if (ctx->watch)
        th_fail(ctx, TH_ERROR_STATE, name, "called by a function whose own gradient is being checked");
    else if (ctx->options.shapes_only)
        th_fail(ctx, TH_ERROR_STATE, name, "a shapes-only context has no values");
    return !ctx->error;
}

/* -- around the check -- */

static const th_attachment *newest_attachment(const th_context *ctx, int64_t *count)
{
    *count = 0;
    for (const th_attachment *a = ctx->attachments; a; a = a->next)
        ++*count;
    return ctx->attachments;
}

bool th_checker_begin(th_checker *checker, th_tensor *const *inputs)
{
    th_context *ctx = checker->ctx;
    checker->settings = th_checker_read_settings(ctx);
    ctx->outer_depths =
        (th_depths){ctx->scope_depth, ctx->no_grad_depth}; /* th_tape_clear leaves the caller's scopes open */
    ctx->in_step = false;                                  /* and the caller's step */
    if (!th_leaves_begin(checker, inputs) || th_tape_of(ctx, operation) == NULL)
        return false;
    checker->attachments = newest_attachment(ctx, &checker->attachment_count); /* includes the tape */
    return true;
}

void th_checker_restart(th_checker *checker)
{
    checker->runs = 0;
    checker->incomplete = checker->recording_off = false;
    checker->attachments = newest_attachment(checker->ctx, &checker->attachment_count);
}

void th_checker_end(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    th_leaves_end(checker);
    th_checker_apply_settings(ctx, &checker->settings);
    ctx->outer_depths = checker->settings.around;
    ctx->in_step = checker->settings.in_step;
    ctx->step_failed = checker->settings.step_failed || ctx->error;
}

/* -- a run -- */

static th_tensor_impl *check_output(th_checker *checker, const th_tensor *handle)
{
    th_context *ctx = checker->ctx;
    if (ctx->error)
        return NULL;
    if (handle == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the function returned NULL");
        return NULL;
    }
    th_tensor_impl *output = th_usable_tensor(handle, ctx, operation, "what the function returned");
    if (output == NULL)
        return NULL;
    th_leaves_note_read(checker, output); /* a parameter that no operation has read, perhaps */
    if (ctx->error)
        return NULL;
    if (output->dtype != checker->dtype) {
        th_fail(ctx, TH_ERROR_TYPE, operation, "the function's output is %s; it should be %s",
                th_dtype_name(output->dtype), th_dtype_name(checker->dtype));
        return NULL;
    }
    return output;
}

th_tensor_impl *th_checker_run(th_checker *checker, bool record)
{
    th_context *ctx = checker->ctx;
    const th_watch watch = th_leaves_watch(checker);
    record |= checker->always_records;
    th_checker_apply_settings(ctx, &checker->settings);
    ctx->default_dtype = checker->dtype;
    ctx->no_grad_depth = record ? 0 : 1;
    th_leaves_begin_run(checker);
    checker->runs++;
    checker->recording = record;
    ctx->watch = &watch;
    const th_tensor *result = checker->function(checker->user, checker->inputs);
    checker->recording = false;
    th_scopes_close(ctx); /* scopes that the function left open */
    th_tensor_impl *output = check_output(checker, result);
    ctx->watch = NULL;
    return output;
}

/* Rejects a function that frees modules or optimizers of the caller, or makes new ones in every run. It may make one in
 * the first run and keep it: then the second run finds its parameters. */
static void check_attachments(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    int64_t count = 0, old_count = 0;
    const th_attachment *newest = newest_attachment(ctx, &count), *a = newest;
    while (a && a != checker->attachments)
        a = a->next;
    for (; a; a = a->next)
        old_count++;
    if (old_count != checker->attachment_count)
        th_fail(ctx, TH_ERROR_STATE, operation,
                "the function frees a module or an optimizer that it did not make: it cannot run a second time");
    else if (checker->runs == 2 && count > old_count)
        th_fail(ctx, TH_ERROR_STATE, operation,
                "the function makes a module or an optimizer in every run and does not free it: make it outside the "
                "function, or free it before the function returns");
    checker->attachments = newest;
    checker->attachment_count = count;
}

bool th_checker_end_run(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    th_tape_clear(ctx);
    th_leaves_end_run(checker);
    if (checker->runs <= 2 && !ctx->error)
        check_attachments(checker);
    th_checker_apply_settings(ctx, &checker->settings);
    return !ctx->error && !checker->incomplete;
}

/* -- outputs and gradients -- */

void th_checker_to_doubles(const th_tensor_impl *t, const th_array *array, double *values)
{
    th_array numbers = *array;
    numbers.data = values;
    numbers.dtype = TH_FLOAT64;
    th_compute_contiguous_strides(array->ndim, array->size, numbers.stride);
    th_convert_array(t->ctx, &numbers, array);
}

bool th_checker_compute_output(th_checker *checker, double *values)
{
    const th_tensor_impl *output = th_checker_run(checker, false);
    if (output && th_tensor_numel(output) != checker->engine.rows)
        th_fail(checker->ctx, TH_ERROR_SHAPE, operation, "the output's shape changes from run to run");
    else if (output && !checker->incomplete) {
        const th_array array = th_tensor_array(output);
        th_checker_to_doubles(output, &array, values);
    }
    return th_checker_end_run(checker);
}

bool th_checker_compute_gradients(th_checker *checker, th_tensor_impl *output, const double *cotangent, int times,
                                  double *gradient)
{
    th_context *ctx = checker->ctx;
    th_tensor_impl *seed = th_tensor_new(ctx, checker->dtype, output->ndim, output->size, false, operation);
    if (seed == NULL)
        return false;
    for (int64_t i = 0; i < checker->engine.rows; i++)
        if (checker->dtype == TH_FLOAT64)
            ((double *)th_tensor_data(seed))[i] = cotangent[i];
        else
            ((float *)th_tensor_data(seed))[i] = (float)cotangent[i];
    for (int64_t i = 0; i < checker->leaves.count; i++)
        th_gradient_empty(th_checker_leaf(checker, i)->tensor);
    for (int i = 0; i < times; i++)
        if (th_backward(output->handle, &(th_backward_options){.cotangent = seed->handle, .keep_tape = true}) != TH_OK)
            return false;
    th_handle_release(seed, TH_LIFE_RELEASED);
    for (int64_t i = 0; i < checker->leaves.count; i++) {
        const th_leaf *leaf = th_checker_leaf(checker, i);
        if (!leaf->variable.checked)
            continue;
        double *values = gradient + leaf->variable.first_column;
        if (th_gradient_buffer_is_complete(leaf->tensor->gradient)) {
            th_array array;
            th_gradient_array(leaf->tensor, &array);
            th_checker_to_doubles(leaf->tensor, &array, values);
        } else {
            memset(values, 0, (size_t)leaf->variable.numel * sizeof *values);
        }
    }
    return true;
}
