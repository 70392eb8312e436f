/* Running a function for the gradient checker: inputs copied, parameters swapped to float64, randomness replayed,
 * everything put back. */
#include <math.h>
#include <string.h>

#include "autograd/checker.h"
#include "autograd/gradient.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"

static bool is_listed(const th_checker *checker, const th_body *t)
{
    for (int i = 0; i < checker->leaves; i++)
        if (checker->leaf[i].tensor == t)
            return true;
    return false;
}

/* A block of the owned arena holding t's values in the checking type. */
static th_status swap_values(th_checker *checker, th_body *t)
{
    th_context *ctx = checker->ctx;
    size_t bytes;
    if (!th_checked_bytes(th_tensor_numel(t), th_dtype_size(checker->dtype), &bytes))
        return th_fail(ctx, TH_ERROR_SHAPE, "check_gradient", "a parameter's number of bytes overflows");
    th_block *block = th_take_block(ctx, &ctx->owned_arena, bytes, "check_gradient");
    if (block == NULL)
        return TH_ERROR_MEMORY;
    const th_array source = th_tensor_array(t);
    t->dtype = checker->dtype;
    t->own_storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = true, .producer = -1};
    t->storage = &t->own_storage;
    t->offset = 0;
    th_contiguous_strides(t->ndim, t->size, t->stride);
    memcpy(t->gradient_stride, t->stride, sizeof t->stride);
    t->gradient_offset = 0;
    t->parameter = false;
    t->gradient = NULL;
    t->gradient_full = false;
    t->covered = NULL;
    t->gradient_tensor = NULL;
    const th_array target = th_tensor_array(t);
    th_convert_array(ctx, &target, &source);
    return TH_OK;
}

/* Called before an operation reads an owned tensor: one not seen before is a parameter (or a constant) of the function.
 */
static void adopt(th_body *t, void *user)
{
    th_checker *checker = user;
    if (is_listed(checker, t))
        return;
    if (checker->leaves == TH_MAX_LEAVES) {
        th_fail(checker->ctx, TH_ERROR_ARGUMENT, "check_gradient", "the function uses more than %d parameters",
                (int)TH_MAX_LEAVES);
        return;
    }
    th_leaf *leaf = &checker->leaf[checker->leaves];
    leaf->original = *t;
    if (swap_values(checker, t) != TH_OK) {
        *t = leaf->original;
        return;
    }
    leaf->tensor = t;
    leaf->swapped = true;
    leaf->checked = t->requires_gradient;
    leaf->position = checker->n_inputs + checker->parameters;
    const char *path = checker->ctx->path;
    if (t->label)
        snprintf(leaf->name, sizeof leaf->name, "%s%s%s", path, path[0] ? "." : "", t->label);
    else
        snprintf(leaf->name, sizeof leaf->name, "parameter %d", checker->parameters);
    checker->parameters++;
    checker->leaves++;
}

static void drop_gradient(th_body *t)
{
    if (t->gradient)
        th_storage_drop(t->ctx, t->gradient);
    t->gradient = NULL;
}

/* Puts everything back as it was. */
static void restore(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    th_tape_clear(ctx);
    ctx->on_owned_input = NULL;
    for (int i = 0; i < checker->leaves; i++) {
        th_leaf *leaf = &checker->leaf[i];
        if (leaf->swapped) {
            drop_gradient(leaf->tensor);
            th_arena_give(&ctx->owned_arena, leaf->tensor->own_storage.block);
            *leaf->tensor = leaf->original;
        }
    }
    for (int i = 0; i < checker->n_inputs; i++)
        th_tensor_free(checker->inputs[i]);
    memcpy(ctx->calls, checker->calls, sizeof ctx->calls);
    ctx->calls_at_clear = checker->calls_at_clear;
    th_release(ctx, checker->leaf, sizeof(th_leaf) * TH_MAX_LEAVES);
}

static const char *input_name(const th_checker *checker, int i, char *text, size_t size)
{
    if (checker->options.input_names)
        return checker->options.input_names[i];
    if (checker->n_inputs == 1)
        return "x";
    snprintf(text, size, "x%d", i);
    return text;
}

/* Copies input i: floating ones in the checking type, wanting a gradient. */
static th_status copy_input(th_checker *checker, int i, th_tensor *handle)
{
    th_context *ctx = checker->ctx;
    if (handle == NULL)
        return TH_OK;
    const th_body *input = th_usable(handle, ctx, "check_gradient", "an input");
    if (input == NULL)
        return ctx->error ? ctx->error : TH_ERROR_ARGUMENT;
    const bool floating = th_is_floating(input->dtype);
    th_body *copy =
        th_tensor_new(ctx, floating ? checker->dtype : input->dtype, input->ndim, input->size, true, "check_gradient");
    if (copy == NULL)
        return ctx->error;
    checker->inputs[i] = th_handle_of(copy);
    memcpy(copy->axes, input->axes, sizeof copy->axes);
    const th_array target = th_tensor_array(copy), source = th_tensor_array(input);
    th_convert_array(ctx, &target, &source);
    if (!floating)
        return TH_OK;
    if ((th_set_requires_gradient)(th_handle_of(copy), true) == NULL)
        return ctx->error;
    th_leaf *leaf = &checker->leaf[checker->leaves++];
    char text[16];
    *leaf = (th_leaf){.tensor = copy, .checked = true, .position = i};
    snprintf(leaf->name, sizeof leaf->name, "%s", input_name(checker, i, text, sizeof text));
    return TH_OK;
}

th_body *th_checker_run(th_checker *checker, bool record)
{
    th_context *ctx = checker->ctx;
    th_tape_clear(ctx);
    memcpy(ctx->calls, checker->calls, sizeof ctx->calls);
    if (!record)
        th_no_grad_begin(ctx);
    th_tensor *result = checker->function(checker->user, checker->inputs);
    if (!record)
        th_no_grad_end(ctx);
    if (ctx->error)
        return NULL;
    if (result == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "check_gradient", "the function returned NULL");
        return NULL;
    }
    th_body *output = th_usable(result, ctx, "check_gradient", "what the function returned");
    if (output == NULL)
        return NULL;
    if (output->dtype != checker->dtype) {
        th_fail(ctx, TH_ERROR_TYPE, "check_gradient", "the function's output is %s, it should be %s",
                th_dtype_name(output->dtype), th_dtype_name(checker->dtype));
        return NULL;
    }
    return output;
}

static void read_doubles(const th_body *t, const th_array *array, double *values)
{
    int64_t index[TH_MAX_DIMS] = {0}, numel = th_tensor_numel(t);
    for (int64_t i = 0; i < numel; i++) {
        int64_t at = 0;
        for (int d = 0; d < array->ndim; d++)
            at += index[d] * array->stride[d];
        values[i] =
            array->dtype == TH_FLOAT64 ? ((const double *)array->data)[at] : (double)((const float *)array->data)[at];
        for (int d = array->ndim - 1; d >= 0 && ++index[d] == array->size[d]; d--)
            index[d] = 0;
    }
}

th_status th_checker_values(th_checker *checker, double *values)
{
    const th_body *output = th_checker_run(checker, false);
    if (output == NULL)
        return checker->ctx->error;
    if (th_tensor_numel(output) != checker->rows)
        return th_fail(checker->ctx, TH_ERROR_SHAPE, "check_gradient", "the output's shape changes from run to run");
    const th_array array = th_tensor_array(output);
    read_doubles(output, &array, values);
    return TH_OK;
}

double th_checker_element(const th_leaf *leaf, int64_t element)
{
    const void *data = th_tensor_data(leaf->tensor);
    return leaf->tensor->dtype == TH_FLOAT64 ? ((const double *)data)[element] : (double)((const float *)data)[element];
}

void th_checker_set_element(th_leaf *leaf, int64_t element, double value)
{
    void *data = th_tensor_data(leaf->tensor);
    if (leaf->tensor->dtype == TH_FLOAT64)
        ((double *)data)[element] = value;
    else
        ((float *)data)[element] = (float)value;
}

th_status th_checker_gradient(th_checker *checker, th_body *output, const double *cotangent, int times,
                              double *gradient)
{
    th_context *ctx = checker->ctx;
    th_body *seed = th_tensor_new(ctx, checker->dtype, output->ndim, output->size, false, "check_gradient");
    if (seed == NULL)
        return ctx->error;
    for (int64_t i = 0; i < checker->rows; i++)
        if (checker->dtype == TH_FLOAT64)
            ((double *)th_tensor_data(seed))[i] = cotangent[i];
        else
            ((float *)th_tensor_data(seed))[i] = (float)cotangent[i];
    for (int i = 0; i < checker->leaves; i++)
        th_empty_gradient(th_handle_of(checker->leaf[i].tensor));
    for (int i = 0; i < times; i++)
        if ((th_backward_with)(th_handle_of(output),
                               &(th_backward_options){.cotangent = th_handle_of(seed), .keep_tape = true}) != TH_OK)
            return ctx->error;
    th_handle_give_up(seed, TH_LIFE_GIVEN_UP);
    for (int i = 0; i < checker->leaves; i++) {
        const th_leaf *leaf = &checker->leaf[i];
        if (!leaf->checked)
            continue;
        double *values = gradient + leaf->first;
        if (leaf->tensor->gradient_full) {
            const th_array array = th_gradient_array(leaf->tensor);
            read_doubles(leaf->tensor, &array, values);
        } else {
            memset(values, 0, (size_t)leaf->numel * sizeof *values);
        }
    }
    return TH_OK;
}

double th_checker_random(th_checker *checker)
{
    checker->random += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = checker->random;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    const double magnitude = 0.25 + 0.75 * (double)(z >> 12) * 0x1p-52;
    return z & 1 ? magnitude : -magnitude;
}

double th_checker_step(const th_checker *checker)
{
    return checker->options.step > 0 ? checker->options.step : checker->options.float32 ? 1e-2 : 1e-5;
}

bool th_checker_close(const th_checker *checker, double analytic, double numeric, double scale)
{
    const th_gradient_options *o = &checker->options;
    const double relative = o->relative_tolerance > 0 ? o->relative_tolerance : o->float32 ? 2e-2 : 1e-5;
    const double absolute = (o->absolute_tolerance > 0 ? o->absolute_tolerance
                             : o->float32              ? 2e-3
                                                       : 1e-8) *
                            checker->output_scale;
    return fabs(analytic - numeric) <= absolute + relative * scale; /* NaN fails */
}

/* The first run: finds the parameters, the sizes, whether there is anything to check. */
static th_status survey(th_checker *checker)
{
    th_context *ctx = checker->ctx;
    const th_body *output = th_checker_run(checker, true);
    if (output == NULL)
        return ctx->error;
    checker->rows = th_tensor_numel(output);
    for (int i = 0; i < checker->leaves; i++) {
        th_leaf *leaf = &checker->leaf[i];
        leaf->numel = th_tensor_numel(leaf->tensor);
        leaf->first = checker->columns;
        checker->columns += leaf->checked ? leaf->numel : 0;
    }
    const th_array array = th_tensor_array(output);
    double *values = th_allocate(ctx, (size_t)checker->rows * sizeof *values);
    if (checker->rows && values == NULL)
        return th_fail_memory(ctx, "check_gradient", (size_t)checker->rows * sizeof *values);
    read_doubles(output, &array, values);
    checker->output_scale = 1;
    for (int64_t i = 0; i < checker->rows; i++)
        checker->output_scale =
            fabs(values[i]) > checker->output_scale && isfinite(values[i]) ? fabs(values[i]) : checker->output_scale;
    th_release(ctx, values, (size_t)checker->rows * sizeof *values);
    if (!output->requires_gradient && checker->columns > 0)
        return th_fail(ctx, TH_ERROR_STATE, "check_gradient",
                       "the output has no path back to an input or parameter (th_detach, th_no_grad, or an operation "
                       "without a gradient)");
    return TH_OK;
}

static th_status check(th_checker *checker)
{
    if (survey(checker) != TH_OK)
        return checker->ctx->error;
    th_gradient_mode mode = checker->options.mode;
    if (mode == TH_GRADIENT_AUTO)
        mode = checker->rows <= 2000 && checker->columns <= 8000 && 2 * checker->columns + checker->rows <= 20000 &&
                       checker->rows * checker->columns <= (1 << 22)
                   ? TH_GRADIENT_FULL
                   : TH_GRADIENT_FAST;
    checker->report->mode = mode;
    if (checker->rows == 0 || checker->columns == 0)
        return TH_OK;
    return mode == TH_GRADIENT_FULL ? th_checker_full(checker) : th_checker_fast(checker);
}

th_status th_check_gradient(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                            th_tensor *const *inputs, const th_gradient_options *options, th_gradient_report *report)
{
    th_gradient_report unused;
    report = report ? report : &unused;
    *report = (th_gradient_report){.ok = true, .input = -1};
    if (ctx == NULL || ctx->error) {
        report->ok = false;
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    }
    th_checker checker = {.ctx = ctx, .function = function, .user = user, .n_inputs = n_inputs, .report = report};
    if (function == NULL || n_inputs < 0 || n_inputs > (int)(sizeof checker.inputs / sizeof checker.inputs[0]))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "check_gradient", "a function and 0 to %d inputs are needed",
                       (int)(sizeof checker.inputs / sizeof checker.inputs[0]));
    if (ctx->options.shapes_only)
        return th_fail(ctx, TH_ERROR_STATE, "check_gradient", "there are no values in a shapes-only context");
    checker.options = options ? *options : (th_gradient_options){0};
    checker.dtype = checker.options.float32 ? TH_FLOAT32 : TH_FLOAT64;
    checker.random = checker.options.seed + 0x5851F42D4C957F2Du;
    memcpy(checker.calls, ctx->calls, sizeof ctx->calls);
    checker.calls_at_clear = ctx->calls_at_clear;
    checker.leaf = th_allocate(ctx, sizeof(th_leaf) * TH_MAX_LEAVES);
    if (checker.leaf == NULL)
        return th_fail_memory(ctx, "check_gradient", sizeof(th_leaf) * TH_MAX_LEAVES);
    const th_dtype default_dtype = ctx->default_dtype;
    ctx->default_dtype = checker.dtype;
    for (int i = 0; i < n_inputs && !ctx->error; i++)
        copy_input(&checker, i, inputs[i]);
    ctx->on_owned_input = adopt;
    ctx->on_owned_input_user = &checker;
    if (!ctx->error)
        check(&checker);
    ctx->default_dtype = default_dtype;
    restore(&checker);
    report->ok = report->ok && !ctx->error;
    return ctx->error ? ctx->error : report->ok ? TH_OK : TH_ERROR_VALUE;
}

/* -- a function of one tensor -- */

typedef struct one {
    th_gradient_function_of_one *function;
    void *user;
} one;

static th_tensor *call_one(void *user, th_tensor *const *inputs)
{
    const one *call = user;
    return call->function(call->user, inputs[0]);
}

th_status th_check_gradient_of(th_gradient_function_of_one *function, void *user, th_tensor *x,
                               const th_gradient_options *options, th_gradient_report *report)
{
    th_context *ctx = x ? th_handle_context(x) : th_last_context();
    if (x == NULL || function == NULL) {
        if (report)
            *report = (th_gradient_report){.input = -1};
        return ctx ? th_fail(ctx, TH_ERROR_ARGUMENT, "check_gradient", "%s is NULL", x ? "the function" : "the input")
                   : TH_ERROR_ARGUMENT;
    }
    one call = {function, user};
    return th_check_gradient(ctx, call_one, &call, 1, &x, options, report);
}
