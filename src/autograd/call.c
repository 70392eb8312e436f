/* What shape rules call, and running a call that they have described. */
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "autograd/profile.h"
#include "autograd/tape.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

void th_call_output(th_call *call, int i, th_dtype dtype, int ndim, const int64_t *size, const char *axes)
{
    if (i < 0 || i >= call->n_outputs || ndim < 0 || ndim > TH_MAX_DIMS || (ndim > 0 && size == NULL)) {
        th_call_fail(
            call, TH_ERROR_SHAPE,
            "the shape rule declares output %d with %d dimensions and %s sizes; there are %d outputs of at most "
            "%d dimensions",
            i, ndim, size ? "its" : "no", call->n_outputs, TH_MAX_DIMS);
        return;
    }
    th_array *output = &call->output[i];
    output->dtype = dtype;
    output->ndim = ndim;
    if (ndim > 0) /* a scalar's sizes may be NULL */
        memcpy(output->size, size, (size_t)ndim * sizeof *size);
    th_contiguous_strides(ndim, output->size, output->stride);
    output->axes[0] = 0;
    if (axes) {
        strncpy(output->axes, axes, TH_MAX_DIMS);
        output->axes[TH_MAX_DIMS] = 0;
    }
    ((th_frame *)call)->declared |= 1u << i;
}

void th_call_output_order(th_call *call, int i, const int *order)
{
    const bool declared = i >= 0 && i < call->n_outputs && (((th_frame *)call)->declared & 1u << i);
    th_array *output = declared ? &call->output[i] : NULL;
    uint32_t seen = 0;
    for (int d = 0; declared && order && d < output->ndim; d++)
        seen |= order[d] >= 0 && order[d] < output->ndim ? 1u << order[d] : 0;
    if (!declared || seen != (1u << output->ndim) - 1) {
        th_call_fail(call, TH_ERROR_SHAPE, "the shape rule orders the axes of output %d, %s", i,
                     declared ? "but not each of them once" : "which it has not declared");
        return;
    }
    uint64_t stride = 1; /* sizes are checked when the rule is done: until then the product may wrap around */
    for (int d = output->ndim - 1; d >= 0; d--) {
        output->stride[order[d]] = (int64_t)stride;
        stride *= output->size[order[d]] > 1 ? (uint64_t)output->size[order[d]] : 1;
    }
}

void th_call_view(th_call *call, int ndim, const int64_t *size, const int64_t *stride, int64_t offset, const char *axes)
{
    if (!(call->op->flags & TH_OP_VIEW) || (ndim > 0 && stride == NULL)) {
        th_call_fail(call, TH_ERROR_ARGUMENT, "the shape rule declares a view without %s",
                     call->op->flags & TH_OP_VIEW ? "strides" : "TH_OP_VIEW among the flags");
        return;
    }
    th_call_output(call, 0, call->input[0].dtype, ndim, size, axes);
    if (ndim > 0 && ndim <= TH_MAX_DIMS)
        memcpy(call->output[0].stride, stride, (size_t)ndim * sizeof *stride);
    ((th_frame *)call)->view_offset = offset;
}

void *th_call_attributes(th_call *call)
{
    return (void *)(uintptr_t)call->attributes;
}

void th_call_draw(th_call *call)
{
    th_frame *frame = (th_frame *)call;
    if (!frame->drawn)
        call->random = th_random_next(call->ctx, TH_STREAM_DROPOUT);
    frame->drawn = true;
}

th_status th_call_fail(th_call *call, th_status code, const char *format, ...)
{
    code = code == TH_OK ? TH_ERROR_ARGUMENT : code; /* it is an error that was called for */
    va_list arguments;
    va_start(arguments, format);
    th_fail_arguments(call->ctx, code, call->op->name, format, arguments);
    va_end(arguments);
    return code;
}

th_status th_call_axis(th_call *call, int *axis, int ndim)
{
    if (*axis < -ndim || *axis >= ndim)
        return th_call_fail(call, TH_ERROR_SHAPE, "axis %d is outside [%d, %d) of %s", *axis, -ndim, ndim,
                            TH_TEXT(&call->input[0]));
    if (*axis < 0)
        *axis += ndim;
    return TH_OK;
}

th_status th_call_floating(th_call *call, int i)
{
    if (call->input[i].given && !th_is_floating(call->input[i].dtype))
        return th_call_fail(call, TH_ERROR_TYPE, "input %d must be float32 or float64, it is %s", i,
                            th_dtype_name(call->input[i].dtype));
    return TH_OK;
}

th_status th_call_index_type(th_call *call, int i)
{
    if (call->input[i].given && !th_is_index(call->input[i].dtype))
        return th_call_fail(call, TH_ERROR_TYPE, "input %d must be int32 or int64, it is %s", i,
                            th_dtype_name(call->input[i].dtype));
    return TH_OK;
}

th_status th_call_bool(th_call *call, int i)
{
    if (call->input[i].given && call->input[i].dtype != TH_BOOL)
        return th_call_fail(call, TH_ERROR_TYPE, "input %d must be bool, it is %s", i,
                            th_dtype_name(call->input[i].dtype));
    return TH_OK;
}

th_status th_call_same_type(th_call *call)
{
    int first = -1;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->input[i].given || !th_is_floating(call->input[i].dtype))
            continue;
        if (first < 0)
            first = i;
        if (call->input[i].dtype != call->input[first].dtype)
            return th_call_fail(call, TH_ERROR_TYPE,
                                "types are mixed: input %d is %s, input %d is %s (th_cast converts)", first,
                                th_dtype_name(call->input[first].dtype), i, th_dtype_name(call->input[i].dtype));
    }
    return TH_OK;
}

th_status th_call_broadcast(th_call *call, const th_array *a, const th_array *b, int *ndim, int64_t *size)
{
    if (!th_broadcast_sizes(a->ndim, a->size, b->ndim, b->size, ndim, size))
        return th_call_fail(call, TH_ERROR_SHAPE, "shapes do not broadcast: %s and %s", TH_TEXT(a), TH_TEXT(b));
    return TH_OK;
}

/* The letters of whichever input has as many dimensions as the result, and names them. */
static const char *broadcast_axes(const th_call *call, int ndim)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->input[i].given && call->input[i].ndim == ndim && call->input[i].axes[0])
            return call->input[i].axes;
    return NULL;
}

th_status th_shape_broadcast(th_call *call, th_dtype dtype)
{
    th_array shape = call->input[0];
    for (int i = 1; i < call->n_inputs; i++)
        if (th_call_broadcast(call, &shape, &call->input[i], &shape.ndim, shape.size) != TH_OK)
            return TH_ERROR_SHAPE;
    th_call_output(call, 0, dtype, shape.ndim, shape.size, broadcast_axes(call, shape.ndim));
    return TH_OK;
}

th_status th_shape_elementwise(th_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (th_call_floating(call, i) != TH_OK)
            return TH_ERROR_TYPE;
    if (th_call_same_type(call) != TH_OK)
        return TH_ERROR_TYPE;
    return th_shape_broadcast(call, call->input[0].dtype);
}

/* -- frames -- */

th_status th_frame_init(th_frame *frame, th_context *ctx, th_tape *tape, const th_op *op, int n_inputs,
                        void *attributes)
{
    const int n_outputs = op->n_outputs > 0 ? op->n_outputs : 1;
    frame->call = (th_call){.ctx = ctx,
                            .op = op,
                            .attributes = attributes,
                            .n_inputs = n_inputs,
                            .n_outputs = n_outputs,
                            .input = frame->input,
                            .output = frame->output,
                            .output_gradient = frame->output_gradient,
                            .input_gradient = frame->input_gradient,
                            .add = frame->add,
                            .training = ctx->training};
    frame->node = NULL;
    frame->view_offset = 0;
    frame->declared = 0;
    frame->drawn = false;
    if (n_inputs == 0) /* it may be looked at all the same */
        frame->input[0] = (th_array){.given = false};
    if (n_inputs > TH_MAX_INPUTS) {
        const size_t n = (size_t)n_inputs;
        char *room = th_bump_take(ctx, &tape->bytes, n * (2 * sizeof(th_array) + sizeof(bool)));
        if (room == NULL)
            return th_fail_memory(ctx, op->name, n * 2 * sizeof(th_array));
        frame->call.input = (th_array *)(void *)room;
        frame->call.input_gradient = frame->call.input + n;
        frame->call.add = (bool *)(frame->call.input_gradient + n);
    }
    for (int i = 0; i < n_inputs; i++) {
        frame->call.input[i].given = frame->call.input_gradient[i].given = frame->call.add[i] = false;
        frame->call.input[i].data = frame->call.input_gradient[i].data = NULL;
        frame->call.input[i].ndim = 0;
        frame->call.input[i].axes[0] = 0;
    }
    for (int i = 0; i < n_outputs; i++) {
        frame->output[i].given = frame->output_gradient[i].given = false;
        frame->output[i].data = frame->output_gradient[i].data = NULL;
        frame->output[i].ndim = 0;
    }
    return TH_OK;
}

th_status th_frame_of_node(th_frame *frame, th_context *ctx, const th_node *node)
{
    const th_status status = th_frame_init(frame, ctx, ctx->tape, node->op, node->n_inputs, node->attributes);
    if (status != TH_OK)
        return status;
    frame->node = node;
    frame->call.random = node->random;
    frame->call.training = node->training;
    for (int i = 0; i < node->n_inputs; i++) {
        const th_body *t = th_node_input(node, i)->tensor;
        if (t) {
            frame->call.input[i] = th_tensor_array(t);
            frame->call.input[i].data = NULL;
        }
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const th_body *t = th_node_output(node, i)->tensor;
        if (t) {
            frame->call.output[i] = th_tensor_array(t);
            frame->call.output[i].data = NULL;
        }
    }
    return TH_OK;
}

th_block *th_contiguous_temporary(th_context *ctx, const th_array *like, th_array *temporary, const char *operation)
{
    *temporary = *like;
    th_contiguous_strides(like->ndim, like->size, temporary->stride);
    int64_t numel;
    size_t bytes;
    if (!th_checked_numel(like->ndim, like->size, &numel) ||
        !th_checked_bytes(numel, th_dtype_size(like->dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "the number of bytes overflows");
        return NULL;
    }
    th_block *block = th_take_block(ctx, &ctx->step_memory, bytes, operation);
    temporary->data = block ? th_block_data(block) : NULL;
    return block;
}

size_t th_plan_scratch(const th_call *call, int64_t count, size_t element)
{
    th_frame *frame = (th_frame *)(uintptr_t)call;
    const size_t place = frame->scratch_end;
    size_t bytes;
    if (count < 0 || !th_checked_bytes(count, element, &bytes) || bytes > SIZE_MAX - place)
        frame->scratch_end = SIZE_MAX; /* which no allocator grants */
    else
        frame->scratch_end = place + bytes;
    if (frame->scratch_end > frame->scratch_bytes)
        frame->scratch_bytes = frame->scratch_end;
    return place;
}

void th_plan_reuse(const th_call *call, size_t place)
{
    ((th_frame *)(uintptr_t)call)->scratch_end = place;
}

void *th_call_scratch(const th_call *call, size_t place)
{
    return call->scratch ? (char *)call->scratch + place : NULL;
}

/* An operand that an operation which wants contiguous memory has seen as a copy. */
typedef struct copied {
    th_block *block; /* of the copy */
    th_array *operand, original;
} copied;

typedef struct copies {
    copied fixed[TH_MAX_INPUTS + 2 * TH_MAX_OUTPUTS], *all;
    int count;
} copies;

/* Room for a copy of every operand. */
static th_status make_room(const th_frame *frame, copies *made)
{
    th_context *ctx = frame->call.ctx;
    made->all = made->fixed;
    made->count = 0;
    if (frame->call.n_inputs <= TH_MAX_INPUTS)
        return TH_OK;
    const size_t bytes = (size_t)(frame->call.n_inputs + 2 * TH_MAX_OUTPUTS) * sizeof *made->all;
    made->all = th_bump_take(ctx, &ctx->tape->bytes, bytes);
    return made->all ? TH_OK : th_fail_memory(ctx, frame->call.op->name, bytes);
}

/* Whether the call reads the array; without data, geometry alone does not tell. */
static bool is_read(const th_frame *frame, const th_array *array, bool saved)
{
    return array->given && (frame->call.ctx->options.shapes_only ? saved : array->data != NULL);
}

static th_status make_contiguous(const th_frame *frame, th_array *array, bool saved, copies *made)
{
    th_context *ctx = frame->call.ctx;
    if (!is_read(frame, array, saved) || th_array_contiguous(array))
        return TH_OK;
    th_array temporary;
    th_block *block = th_contiguous_temporary(ctx, array, &temporary, frame->call.op->name);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    made->all[made->count++] = (copied){block, array, *array};
    if (!ctx->options.shapes_only)
        th_copy_array(ctx, &temporary, array, false);
    *array = temporary;
    return TH_OK;
}

/* Within a recorded call products are rounded as they were when it was recorded. */
static th_status run_kernel(th_frame *frame, bool backward)
{
    th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    th_block *scratch = NULL;
    _Alignas(max_align_t) unsigned char plan[TH_MAX_PLAN];
    const bool bfloat16 = ctx->machine.bfloat16_products;
    if (frame->node)
        ctx->machine.bfloat16_products = frame->node->bfloat16;
    ctx->running = call->op;
    frame->scratch_bytes = frame->scratch_end = 0;
    if (call->op->plan) {
        call->op->plan(call, backward, plan);
        call->plan = plan;
    }
    if (frame->scratch_bytes) {
        scratch = th_take_block(ctx, &ctx->step_memory, frame->scratch_bytes, call->op->name);
        call->scratch = scratch ? th_block_data(scratch) : NULL;
    }
    if (!ctx->error && !ctx->options.shapes_only) {
        if (backward)
            call->op->backward(call);
        else
            call->op->forward(call);
    }
    if (scratch)
        th_block_free(&ctx->step_memory, scratch);
    call->scratch = NULL;
    call->plan = NULL;
    ctx->running = NULL;
    ctx->machine.bfloat16_products = bfloat16;
    return ctx->error;
}

th_status th_frame_run(th_frame *frame, bool backward)
{
    th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    copies made;
    made.count = 0;
    th_status status = TH_OK;
    const int64_t start = th_profile_start(ctx);
    if (call->op->flags & TH_OP_CONTIGUOUS) {
        const th_node *node = backward ? frame->node : NULL;
        status = make_room(frame, &made);
        for (int i = 0; i < call->n_inputs && status == TH_OK; i++)
            status = make_contiguous(frame, &call->input[i],
                                     node == NULL || (th_node_input(node, i)->saved && !call->early), &made);
        for (int i = 0; i < call->n_outputs && status == TH_OK && node; i++) {
            status = make_contiguous(frame, &call->output[i], th_node_output(node, i)->saved && !call->early, &made);
            if (status == TH_OK)
                status = make_contiguous(frame, &call->output_gradient[i], true, &made);
        }
    }
    if (status == TH_OK)
        status = run_kernel(frame, backward);
    for (int i = 0; i < made.count; i++) { /* who looks at the call from here on (tracing) sees what is still there */
        *made.all[i].operand = made.all[i].original;
        th_block_free(&ctx->step_memory, made.all[i].block);
    }
    if (start && status == TH_OK)
        th_profile_call(frame, backward, start);
    return status;
}
