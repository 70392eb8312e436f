/* Begins and ends a profile. Makes an event of each reported call, with its time, module, line and work.
 * profile_table.c keeps the events, and profile_print.c prints them. */
#include "autograd/profile.h"

#include <inttypes.h>
#include <string.h>

enum { DEFAULT_EVENTS = 1 << 18 };

/* -- beginning and ending -- */

static void release_profile(th_context *ctx, void *object)
{
    th_profile *p = object;
    th_profile_table_destroy(ctx, &p->table);
    th_release(ctx, p, sizeof *p);
    ctx->profile = NULL;
    ctx->profiling = false;
}

static th_profile *get_or_make_profile(th_context *ctx)
{
    if (ctx->profile)
        return ctx->profile;
    th_profile *p = th_allocate(ctx, sizeof *p);
    if (p == NULL || !th_attach_object(ctx, p, release_profile)) {
        th_release(ctx, p, sizeof *p);
        th_fail_memory(ctx, "profile_begin", sizeof *p);
        return NULL;
    }
    th_profile_table_init(&p->table);
    ctx->profile = p;
    return p;
}

th_status th_profile_begin(th_context *ctx, const th_profile_options *options)
{
    if (!th_usable_context(ctx, "profile_begin"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    const int64_t max_events = options ? options->max_events : 0;
    if (ctx->profiling)
        return th_fail(ctx, TH_ERROR_STATE, "profile_begin", "a profile is already running (th_profile_end ends it)");
    if (max_events < -1)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "profile_begin", "max_events = %" PRId64 " is negative", max_events);
    th_profile *p = get_or_make_profile(ctx);
    if (p == NULL)
        return ctx->error;
    th_profile_table_reset(&p->table, max_events > 0 ? max_events : max_events < 0 ? 0 : (int64_t)DEFAULT_EVENTS);
    p->overhead = 0;
    p->begin = p->end = th_nanoseconds_now();
    ctx->profiling = true;
    return TH_OK;
}

th_status th_profile_end(th_context *ctx)
{
    if (ctx == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, "profile_end", "the context is NULL");
    if (!ctx->profiling)
        return ctx->error ? ctx->error : th_fail(ctx, TH_ERROR_STATE, "profile_end", "no profile is running");
    th_profile *p = ctx->profile;
    p->end = th_nanoseconds_now();
    ctx->profiling = false;
    if (p->table.incomplete && !ctx->error)
        return th_fail(ctx, TH_ERROR_MEMORY, "profile_end", "out of memory: the profile's table is incomplete");
    return ctx->error;
}

void th_profile_free(th_context *ctx)
{
    if (ctx == NULL || ctx->profile == NULL)
        return;
    th_profile *p = ctx->profile;
    th_detach_object(ctx, p);
    release_profile(ctx, p);
}

/* -- the contents of an event -- */

static void add_shape(th_profile_event *event, th_profile_shape *shape, const th_array *array, bool output)
{
    th_profile_shape *added = &shape[event->n_shapes++];
    memset(added, 0, sizeof *added);
    added->given = array->given;
    added->output = output;
    if (!array->given)
        return;
    added->dtype = (uint8_t)array->dtype;
    added->ndim = (uint8_t)array->ndim;
    for (int d = 0; d < array->ndim; d++)
        added->size[d] = array->size[d];
    memcpy(added->axes, array->axes, strlen(array->axes));
}

enum { MAX_SHAPES = TH_MAX_INPUTS + TH_MAX_OUTPUTS };

/* Adds at most TH_MAX_INPUTS inputs and all outputs to shape[MAX_SHAPES]. */
static void add_shapes(th_profile_event *event, th_profile_shape *shape, const th_call *call)
{
    for (int i = 0; i < call->n_inputs && i < TH_MAX_INPUTS; i++)
        add_shape(event, shape, &call->input[i], false);
    for (int i = 0; i < call->n_outputs; i++)
        add_shape(event, shape, &call->output[i], true);
}

/* Sets the module path and the source line. They belong to the recorded call if there is a node, otherwise to the call
 * that is running. */
static void set_location(const th_context *ctx, const th_node *node, th_profile_event *event)
{
    const char *path = node ? node->path : ctx->scope_path;
    event->path = path ? path : "";
    if (node) {
        event->file = node->file;
        event->line = node->line;
    } else {
        th_caller_location(&event->file, &event->line);
    }
}

/* Returns the bytes of the array's elements, or 0 without data. Elements that a stride of 0 repeats count once. */
static int64_t array_bytes(const th_array *array)
{
    if (!array->given || array->data == NULL)
        return 0;
    int64_t bytes = (int64_t)th_dtype_size(array->dtype);
    for (int d = 0; d < array->ndim; d++)
        bytes *= array->stride[d] == 0 && array->size[d] > 1 ? 1 : array->size[d];
    return bytes;
}

static int64_t call_bytes(const th_call *call, bool backward)
{
    int64_t bytes = 0;
    if (backward && call->precomputed) /* forward wrote the gradients, and its event has their bytes */
        return 0;
    for (int i = 0; i < call->n_inputs; i++) {
        bytes += array_bytes(&call->input[i]);
        bytes += array_bytes(&call->input_gradient[i]) * (backward && call->add[i] ? 2 : 1);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        bytes += array_bytes(&call->output[i]);
        if (backward)
            bytes += array_bytes(&call->output_gradient[i]);
    }
    return bytes;
}

static int64_t call_multiply_adds(const th_call *call, bool backward)
{
    if (call->op->multiply_adds == NULL)
        return 0;
    const bool counted_in_forward = backward && call->precomputed;
    int64_t products = backward ? 0 : 1;
    for (int i = 0; !counted_in_forward && i < 2 && i < call->n_inputs; i++)
        products += call->input_gradient[i].given;
    int64_t multiply_adds;
    if (products == 0)
        return 0;
    return th_checked_multiply(products, call->op->multiply_adds(call), &multiply_adds) ? multiply_adds : INT64_MAX;
}

/* -- events -- */

/* Adds an event from start to end to the table. The time since `end` is overhead of the profile. */
static void record_event(th_context *ctx, th_profile_event *event, const th_profile_shape *shape, int64_t bytes,
                         int64_t start, int64_t end)
{
    event->start = start - ctx->profile->begin;
    event->duration = ctx->options.shapes_only ? 0 : end - start; /* without data, the time is meaningless */
    th_profile_table_add(ctx, &ctx->profile->table, event, shape, bytes);
    ctx->profile->overhead += th_nanoseconds_now() - end;
}

void th_profile_call(const th_frame *frame, bool backward, int64_t start)
{
    const th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    const int64_t end = th_nanoseconds_now(); /* before the work of this function */
    th_profile_event event = {
        .operation = call->op->name,
        .phase = backward      ? TH_PROFILE_BACKWARD
                 : frame->node ? TH_PROFILE_RECOMPUTE
                               : TH_PROFILE_FORWARD,
        .multiply_adds = call_multiply_adds(call, backward),
    };
    th_profile_shape shape[MAX_SHAPES];
    add_shapes(&event, shape, call);
    set_location(ctx, frame->node, &event);
    record_event(ctx, &event, shape, call_bytes(call, backward), start, end);
}

void th_profile_gradient_sum(const th_frame *frame, const th_array *from, const th_array *to, bool add, int64_t start)
{
    th_context *ctx = frame->call.ctx;
    const int64_t end = th_nanoseconds_now();
    th_profile_event event = {.operation = "gradient sum", .phase = TH_PROFILE_BACKWARD};
    th_profile_shape shape[2];
    add_shape(&event, shape, from, false);
    add_shape(&event, shape, to, true);
    set_location(ctx, frame->node, &event);
    record_event(ctx, &event, shape, array_bytes(from) + array_bytes(to) * (add ? 2 : 1), start, end);
}

void th_profile_step(th_context *ctx, const char *operation, int64_t start, int64_t exchange_time)
{
    const int64_t end = th_nanoseconds_now();
    th_profile_event event = {.operation = operation, .phase = TH_PROFILE_STEP};
    set_location(ctx, NULL, &event);
    record_event(ctx, &event, NULL, 0, start + exchange_time, end);
}

void th_profile_exchange(th_context *ctx, const char *operation, int64_t bytes, int64_t start)
{
    const int64_t end = th_nanoseconds_now();
    th_profile_event event = {.operation = operation, .phase = TH_PROFILE_EXCHANGE};
    set_location(ctx, NULL, &event);
    record_event(ctx, &event, NULL, bytes, start, end);
}
