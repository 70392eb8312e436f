/* th_apply_n, through which every operation runs: checks the operands, runs the shape rule, creates the results, runs
 * forward (call.c), and records the call (record.c) if a gradient is wanted. */
#include <string.h>

#include "autograd/precomputed.h"
#include "kernels/machine/locks.h"
#include "tensor/checked.h"

/* -- operands -- */

static const char *const input_names[] = {"input 0", "input 1", "input 2", "input 3",      "input 4",
                                          "input 5", "input 6", "input 7", "a later input"};

static bool check_input_count(th_context *ctx, const th_op *op, int n, th_tensor *const *inputs)
{
    if (ctx->running_op)
        th_fail(ctx, TH_ERROR_STATE, op->name,
                "is called inside %s; an operation's own functions must not run operations", ctx->running_op->name);
    else if (n < 0 || (n > 0 && inputs == NULL))
        th_fail(ctx, TH_ERROR_ARGUMENT, op->name, "%d inputs at %s", n, inputs ? "an address" : "NULL");
    else if (op->n_inputs != TH_ANY_INPUTS && op->n_inputs != n)
        th_fail(ctx, TH_ERROR_ARGUMENT, op->name, "takes %d inputs, not %d", op->n_inputs, n);
    return ctx->error == TH_OK;
}

static const char *input_name(int input)
{
    return input_names[input < TH_MAX_INPUTS ? input : TH_MAX_INPUTS];
}

/* Returns the context of a call without inputs: the one that this thread used last. NULL if the call is wrong, after
 * setting an error in that context. Another thread may free the context meanwhile, so that this function writes to it
 * under the lock only. */
static th_context *last_context_of_call(const th_op *op, int n, th_tensor *const *inputs)
{
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    th_context *ctx = th_last_context();
    const bool valid =
        ctx && ctx->error == TH_OK && th_check_descriptor(ctx, op) == TH_OK && check_input_count(ctx, op, n, inputs);
    th_lock_release(&held);
    for (int i = 0; valid && i < n; i++)
        if (inputs[i] || !th_op_mask_has(op, op->optional, i)) {
            (void)th_usable_tensor(inputs[i], NULL, op->name, input_name(i));
            return NULL;
        }
    return valid ? ctx : NULL;
}

/* Returns the context of a call: its first operand's, or, if all are optional, the one that this thread used last. */
static th_context *context_of_call(const th_op *op, int n, th_tensor *const *inputs)
{
    for (int i = 0; inputs && i < n; i++) {
        th_context *ctx = th_handle_context(inputs[i]);
        if (ctx)
            return ctx;
    }
    if (op == NULL || inputs == NULL || n <= 0 || th_op_mask_has(op, op->optional, 0))
        return last_context_of_call(op, n, inputs);
    (void)th_usable_tensor(inputs[0], NULL, op->name, input_name(0));
    return NULL;
}

/* Stores the inputs' implementations in operand[]. Returns false with an error pending. */
static bool resolve_inputs(th_context *ctx, const th_op *op, int n, th_tensor *const *inputs, th_tensor_impl **operand)
{
    for (int i = 0; i < n; i++) {
        operand[i] = NULL;
        if (inputs[i] == NULL && th_op_mask_has(op, op->optional, i))
            continue;
        operand[i] = th_usable_tensor(inputs[i], ctx, op->name, input_name(i));
        if (operand[i] == NULL)
            return false;
        if (ctx->watch)
            ctx->watch->before_read(operand[i], ctx->watch->user);
    }
    return ctx->error == TH_OK;
}

/* Returns whether the operation can read every input's type. Otherwise sets an error. */
static bool check_input_types(const th_frame *frame, int n)
{
    const th_op *op = frame->call.op;
    for (int i = 0; i < n; i++) {
        const th_array *input = &frame->call.input[i];
        if (input->given && th_is_storage_type(input->dtype) && !th_op_mask_has(op, op->storage, i)) {
            th_fail(frame->call.ctx, TH_ERROR_TYPE, op->name,
                    "%s is %s, which this operation does not read: th_cast "
                    "converts it to float32",
                    input_name(i), th_dtype_name(input->dtype));
            return false;
        }
    }
    return true;
}

/* -- whether the call is recorded -- */

static bool is_differentiable(const th_op *op)
{
    return op->backward || op->identity_gradients || ((op->flags & TH_OP_VIEW) && !op->not_differentiable);
}

/* For an operation that has identity gradients and no backward. Fails if another input requires a gradient. */
static bool only_identities_required(th_context *ctx, const th_op *op, int n, th_tensor_impl *const *inputs)
{
    for (int i = 0; i < n; i++)
        if (inputs[i] && inputs[i]->requires_gradient && !th_op_mask_has(op, op->identity_gradients, i)) {
            th_fail(ctx, TH_ERROR_ARGUMENT, op->name,
                    "input %d requires a gradient, but the operation has no backward for it", i);
            return false;
        }
    return true;
}

static bool wants_recording(th_context *ctx, const th_op *op, int n, th_tensor_impl *const *inputs)
{
    if (ctx->no_grad_depth > 0 || !is_differentiable(op))
        return false;
    for (int i = 0; i < n; i++)
        if (inputs[i] && inputs[i]->requires_gradient)
            return op->backward || op->identity_gradients == 0 || only_identities_required(ctx, op, n, inputs);
    return false;
}

/* Returns the TH_INPUT and TH_OUTPUT bits of the operands that backward reads for these inputs. */
static uint32_t saved_bits(const th_op *op, int n, th_tensor_impl *const *inputs)
{
    uint32_t bits = op->saves;
    for (int i = 0; i < n; i++)
        if (inputs[i] && inputs[i]->requires_gradient)
            bits |= op->saves_for[op->n_inputs == TH_ANY_INPUTS ? 0 : i];
    return bits;
}

/* -- results -- */

/* Gives an elementwise result the strides of its input, if both have the same sizes, and the input has no gaps and no
 * repeated elements. */
static void adopt_layout(th_array *output, const th_array *input)
{
    if (output->ndim != input->ndim || th_array_contiguous(input))
        return;
    int64_t numel = 1, extent = 1;
    for (int d = 0; d < output->ndim; d++) {
        if (output->size[d] != input->size[d] || input->size[d] == 0 || (input->size[d] > 1 && input->stride[d] <= 0))
            return;
        numel *= input->size[d];
        extent += (input->size[d] - 1) * input->stride[d];
    }
    if (numel != extent || !th_strides_are_distinct(input->ndim, input->size, input->stride))
        return; /* gaps, or elements at the same address */
    memcpy(output->stride, input->stride, sizeof output->stride);
}

static void set_geometry(th_tensor_impl *t, const th_array *array)
{
    t->dtype = array->dtype;
    t->ndim = array->ndim;
    memcpy(t->size, array->size, sizeof t->size);
    memcpy(t->stride, array->stride, sizeof t->stride);
    memcpy(t->axes, array->axes, sizeof t->axes);
}

/* Creates a result with its own memory. */
static th_tensor_impl *output_new(th_context *ctx, const th_op *op, const th_array *array)
{
    int64_t numel;
    size_t bytes;
    if (th_dtype_is_missing(ctx, op->name, array->dtype))
        return NULL;
    if (!th_checked_numel(array->ndim, array->size, &numel) ||
        !th_checked_bytes(numel, th_dtype_size(array->dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, op->name, "the size of the result in bytes overflows");
        return NULL;
    }
    th_tensor_impl *t = th_handle_new(ctx, false, op->name);
    if (t == NULL)
        return NULL;
    set_geometry(t, array);
    if (th_storage_new(t, bytes, op->name) != TH_OK)
        return NULL;
    return t;
}

/* Creates a result that uses input 0's memory. */
static th_tensor_impl *view_new(th_context *ctx, const th_op *op, const th_frame *frame, th_tensor_impl *base)
{
    th_tensor_impl *t = th_handle_new(ctx, false, op->name);
    if (t == NULL)
        return NULL;
    set_geometry(t, &frame->output[0]);
    t->storage = base->storage;
    t->offset = base->offset + frame->view_offset;
    th_storage_hold(t->storage);
    return t;
}

/* Releases the results of a failed call. */
static void release_outputs(int n, th_tensor_impl *const *outputs)
{
    for (int i = 0; i < n; i++)
        if (outputs[i])
            th_handle_release(outputs[i], TH_LIFE_RELEASED);
}

static th_status make_outputs(th_frame *frame, bool recording, uint32_t saved, th_tensor_impl *const *inputs,
                              th_tensor **const *extra, th_tensor_impl **outputs)
{
    th_context *ctx = frame->call.ctx;
    const th_op *op = frame->call.op;
    if (op->flags & TH_OP_VIEW) {
        outputs[0] = view_new(ctx, op, frame, inputs[0]);
        return outputs[0] ? TH_OK : ctx->error;
    }
    if ((op->flags & TH_OP_ANY_LAYOUT) && frame->call.input[0].given)
        adopt_layout(&frame->output[0], &frame->call.input[0]);
    for (int i = 0; i < frame->call.n_outputs; i++) {
        const bool requested = i == 0 || (extra && extra[i - 1]) || (recording && (saved & TH_OUTPUT(i)));
        if (!requested)
            continue;
        if (!(frame->declared & (1u << i)))
            return th_call_fail(&frame->call, TH_ERROR_STATE,
                                "output %d is requested or saved, but the shape rule does not declare it", i);
        outputs[i] = output_new(ctx, op, &frame->output[i]);
        if (outputs[i] == NULL)
            return ctx->error;
        frame->output[i].given = true;
        frame->output[i].data = th_tensor_data(outputs[i]);
    }
    return TH_OK;
}

/* -- the call -- */

/* Creates the outputs, runs forward, and records the node. */
static th_status run_and_record(th_frame *frame, th_tape *tape, int n, th_tensor_impl *const *inputs,
                                th_tensor **const *extra, th_tensor_impl **outputs)
{
    th_context *ctx = frame->call.ctx;
    const th_op *op = frame->call.op;
    const bool recording = wants_recording(ctx, op, n, inputs);
    if (ctx->error)
        return ctx->error;
    const uint32_t saved = recording ? saved_bits(op, n, inputs) : 0;
    if (make_outputs(frame, recording, saved, inputs, extra, outputs) != TH_OK)
        return ctx->error;
    if (recording && op->precomputed && th_precomputed_prepare(frame, n, inputs) != TH_OK)
        return ctx->error;
    if (op->forward && !(op->flags & TH_OP_VIEW) && th_frame_run(frame, false) != TH_OK)
        return ctx->error;
    if (recording && th_record_call(frame, tape, n, inputs, outputs, saved) != TH_OK)
        return ctx->error;
    if (frame->call.precomputed)
        th_precomputed_mark(frame, n, inputs, tape->nodes.count - 1);
    if (ctx->tracing && op->forward)
        th_trace_call(frame, recording ? th_node_at(tape, tape->nodes.count - 1) : NULL, false);
    return TH_OK;
}

/* Checks the operands, copies the attributes, initializes the frame, and runs the shape rule. */
static th_status begin_call(th_frame *frame, th_context *ctx, const th_op *op, const void *attributes, int n,
                            th_tensor *const *inputs)
{
    th_use_context(ctx);
    if (ctx->error != TH_OK || th_check_descriptor(ctx, op) != TH_OK || !check_input_count(ctx, op, n, inputs))
        return ctx->error;
    th_tape *tape = th_tape_of(ctx, op->name);
    if (tape == NULL)
        return ctx->error;
    frame->operand = frame->own_operand;
    if (n > TH_MAX_INPUTS)
        frame->operand = th_bump_allocate(ctx, &tape->records, (size_t)n * sizeof(th_tensor_impl *));
    if (frame->operand == NULL)
        return th_fail_memory(ctx, op->name, (size_t)n * sizeof(th_tensor_impl *));
    if (!resolve_inputs(ctx, op, n, inputs, frame->operand) || th_check_attributes(ctx, op, attributes) != TH_OK)
        return ctx->error;
    void *copy = NULL;
    if (op->attributes_size) {
        copy = th_bump_allocate(ctx, &tape->records, op->attributes_size);
        if (copy == NULL)
            return th_fail_memory(ctx, op->name, op->attributes_size);
        memcpy(copy, attributes, op->attributes_size);
    }
    if (th_frame_init(frame, ctx, tape, op, n, copy) != TH_OK)
        return ctx->error;
    for (int i = 0; i < n; i++)
        if (frame->operand[i])
            frame->call.input[i] = th_tensor_array(frame->operand[i]);
    return check_input_types(frame, n) ? th_frame_run_shape_rule(frame) : ctx->error;
}

th_status th_apply_check(const th_op *op, const void *attributes, int n, th_tensor *const *inputs)
{
    th_context *ctx = context_of_call(op, n, inputs);
    if (ctx == NULL)
        return th_pending_status(NULL);
    const uint32_t calls = ctx->calls[TH_STREAM_DROPOUT];
    th_frame frame;
    const th_status status = begin_call(&frame, ctx, op, attributes, n, inputs);
    ctx->calls[TH_STREAM_DROPOUT] = calls; /* a check draws nothing */
    return status;
}

th_tensor *th_apply_n(const th_op *op, const void *attributes, int n, th_tensor *const *inputs,
                      th_tensor **const *extra)
{
    th_context *ctx = context_of_call(op, n, inputs);
    if (ctx == NULL)
        return NULL;
    const uint32_t calls = ctx->calls[TH_STREAM_DROPOUT];
    th_frame frame;
    th_tensor_impl *outputs[TH_MAX_OUTPUTS] = {NULL};
    if (begin_call(&frame, ctx, op, attributes, n, inputs) != TH_OK ||
        run_and_record(&frame, ctx->tape, n, frame.operand, extra, outputs) != TH_OK) {
        release_outputs(TH_MAX_OUTPUTS, outputs);
        ctx->calls[TH_STREAM_DROPOUT] = calls; /* a failed call draws nothing */
        return NULL;
    }
    for (int i = 1; i < frame.call.n_outputs; i++) {
        if (extra && extra[i - 1])
            *extra[i - 1] = th_handle_of(outputs[i]);
        else if (outputs[i] && !ctx->keep_values)
            th_handle_release(outputs[i], TH_LIFE_RELEASED); /* only the node uses it */
    }
    return th_handle_of(outputs[0]);
}
