/* What an operation must keep to before the engine relies on it: its descriptor, and what its shape rule declares.
 * Built-in operations and a user's own pass through here alike, at every call: a descriptor may lie in memory that is
 * used again, so that none can be known by its address, and these comparisons cost less than a table of known ones. */
#include "autograd/tape.h"
#include "tensor/checked.h"
#include "tensor/shape.h"

enum {
    INPUT_BITS = (1u << TH_MAX_INPUTS) - 1,
    FLAGS = TH_OP_BROADCASTS | TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD | TH_OP_CHEAP | TH_OP_VIEW | TH_OP_IN_PLACE |
            TH_OP_ANY_LAYOUT | TH_OP_OVER_INPUT
};

#define REFUSE(...) th_fail(ctx, TH_ERROR_ARGUMENT, op->name, __VA_ARGS__)

/* -- the descriptor -- */

static th_status check_view_descriptor(th_context *ctx, const th_op *op)
{
    if (op->n_inputs != 1 || op->n_outputs > 1)
        return REFUSE("a view (TH_OP_VIEW) has one input and one output, not %d and %d", op->n_inputs, op->n_outputs);
    if (op->forward || op->backward)
        return REFUSE("no kernel of a view runs: %s must be NULL", op->forward ? "forward" : "backward");
    if (op->optional || op->early || op->saves || op->saves_for[0])
        return REFUSE("a view has no optional input, no early gradient and saves nothing");
    if (op->flags & ~(uint32_t)(TH_OP_VIEW | TH_OP_BROADCASTS))
        return REFUSE("flags 0x%x say how a kernel runs, and no kernel of a view does",
                      op->flags & ~(uint32_t)(TH_OP_VIEW | TH_OP_BROADCASTS));
    return TH_OK;
}

static th_status check_flags(th_context *ctx, const th_op *op)
{
    if (op->flags & ~(uint32_t)FLAGS)
        return REFUSE("flags hold 0x%x, which is none of TH_OP_*", op->flags & ~(uint32_t)FLAGS);
    if ((op->flags & TH_OP_CONTIGUOUS) && (op->flags & TH_OP_ANY_LAYOUT))
        return REFUSE("TH_OP_CONTIGUOUS wants plain memory, with TH_OP_ANY_LAYOUT the output would not be plain");
    if ((op->flags & TH_OP_OVER_INPUT) && (op->flags & TH_OP_BROADCASTS))
        return REFUSE("TH_OP_OVER_INPUT cannot be had with TH_OP_BROADCASTS, whose gradients have the output's shape");
    return TH_OK;
}

static th_status check_early(th_context *ctx, const th_op *op)
{
    if (op->backward == NULL)
        return REFUSE("early gradients need a backward, for when forward cannot be offered their memory");
    if (op->differentiable_outputs > 1)
        return REFUSE("with early gradients output 0 is the one differentiable output");
    if (op->early & op->passes)
        return REFUSE("an input's gradient is either early or passed on");
    return TH_OK;
}

th_status th_check_descriptor(th_context *ctx, const th_op *op)
{
    if (op == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "apply", "the operation is NULL");
    if (op->name == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "apply", "the operation has no name");
    if (op->n_inputs < TH_ANY_INPUTS || op->n_inputs > TH_MAX_INPUTS)
        return REFUSE("n_inputs is %d; an operation has 0 to %d inputs, or TH_ANY_INPUTS", op->n_inputs, TH_MAX_INPUTS);
    if (op->n_outputs < 0 || op->n_outputs > TH_MAX_OUTPUTS)
        return REFUSE("n_outputs is %d; an operation has 1 to %d outputs (0 counts as 1)", op->n_outputs,
                      TH_MAX_OUTPUTS);
    if (op->shape == NULL)
        return REFUSE("the operation has no shape rule");
    const bool any = op->n_inputs == TH_ANY_INPUTS;
    const uint32_t inputs = any ? INPUT_BITS : (1u << op->n_inputs) - 1;
    const uint32_t outputs = (1u << (op->n_outputs ? op->n_outputs : 1)) - 1;
    uint32_t saves = op->saves, beyond = 0;
    const int entries = any ? 1 : op->n_inputs;
    for (int i = 0; i < TH_MAX_INPUTS; i++) {
        saves |= op->saves_for[i];
        beyond |= i < entries ? 0 : op->saves_for[i];
    }
    if (saves & ~(inputs | outputs << TH_MAX_INPUTS))
        return REFUSE("saves or saves_for names an input or output that is not there (bits 0x%x)",
                      saves & ~(inputs | outputs << TH_MAX_INPUTS));
    if (beyond)
        return REFUSE("saves_for has more entries than the %d that count", entries);
    if ((op->optional | op->early | op->passes) & ~inputs)
        return REFUSE("%s names an input that is not there (bits 0x%x)",
                      op->optional & ~inputs ? "optional"
                      : op->early & ~inputs  ? "early"
                                             : "passes",
                      (op->optional | op->early | op->passes) & ~inputs);
    if (op->differentiable_outputs & ~outputs)
        return REFUSE("differentiable_outputs names an output that is not there (bits 0x%x)",
                      op->differentiable_outputs & ~outputs);
    if (op->not_differentiable && (op->backward || op->passes))
        return REFUSE("there is both a gradient and a reason for having none");
    if (op->flags & TH_OP_VIEW)
        return check_view_descriptor(ctx, op);
    if (op->forward == NULL)
        return REFUSE("the operation has no forward");
    if (op->early && check_early(ctx, op) != TH_OK)
        return ctx->error;
    return check_flags(ctx, op);
}

th_status th_check_attributes(th_context *ctx, const th_op *op, const void *attributes)
{
    if (op->attributes_size && attributes == NULL)
        return REFUSE("attributes of %zu bytes must be given", op->attributes_size);
    if (op->attributes_size == 0 && attributes)
        return REFUSE("attributes are given, but attributes_size is 0");
    return TH_OK;
}

/* -- what a shape rule declares -- */

/* The lowest and the highest element that the array reaches, counted from its first; false when that overflows. */
static bool find_reach(const th_array *array, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int d = 0; d < array->ndim; d++) {
        int64_t extent;
        if (array->size[d] <= 1)
            continue;
        if (!th_checked_multiply(array->size[d] - 1, array->stride[d], &extent) ||
            !th_checked_add(extent < 0 ? *low : *high, extent, extent < 0 ? low : high))
            return false;
    }
    return true;
}

static th_status check_output(th_call *call, int i)
{
    const th_array *output = &call->output[i];
    const bool shaped = output->ndim >= 0 && output->ndim <= TH_MAX_DIMS && th_dtype_size(output->dtype) > 0;
    bool negative = false;
    for (int d = 0; shaped && d < output->ndim; d++)
        negative |= output->size[d] < 0;
    if (!shaped || negative)
        return th_call_fail(call, TH_ERROR_SHAPE, "the shape rule declares output %d with %s", i,
                            negative                           ? "a negative size"
                            : th_dtype_size(output->dtype) > 0 ? "a number of dimensions outside 0 to 8"
                                                               : "no element type");
    return TH_OK;
}

/* The shape rule may have written strides itself: an output with memory of its own must lie in that memory. */
static th_status check_layout(th_call *call, int i)
{
    const th_array *output = &call->output[i];
    int64_t numel, low, high;
    if (th_array_contiguous(output) || !th_checked_numel(output->ndim, output->size, &numel)) /* said later */
        return TH_OK;
    if (!find_reach(output, &low, &high) || low < 0 || high >= numel)
        return th_call_fail(call, TH_ERROR_SHAPE, "the shape rule lays output %d, %s, outside its own memory", i,
                            TH_TEXT(output));
    return TH_OK;
}

/* A view lies in the memory that its input spans, which is checked already. */
static th_status check_view(th_frame *frame)
{
    th_call *call = &frame->call;
    const th_array *base = &call->input[0];
    th_array *view = &call->output[0];
    int64_t numel, low, high, base_low, base_high;
    size_t bytes;
    if (view->dtype != base->dtype)
        return th_call_fail(call, TH_ERROR_TYPE, "a view has its input's element type, %s, not %s",
                            th_dtype_name(base->dtype), th_dtype_name(view->dtype));
    if (!th_checked_numel(view->ndim, view->size, &numel) ||
        !th_checked_bytes(numel, th_dtype_size(view->dtype), &bytes)) /* of its gradient */
        return th_call_fail(call, TH_ERROR_SHAPE, "the number of bytes of %s overflows", TH_TEXT(view));
    if (numel == 0) {
        th_contiguous_strides(view->ndim, view->size, view->stride);
        frame->view_offset = 0;
        return TH_OK;
    }
    if (th_array_numel(base) == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "a view %s of %s, which has no elements", TH_TEXT(view),
                            TH_TEXT(base));
    (void)find_reach(base, &base_low, &base_high); /* fits: it was checked when it was made */
    if (!find_reach(view, &low, &high) || !th_checked_add(low, frame->view_offset, &low) ||
        !th_checked_add(high, frame->view_offset, &high) || low < base_low || high > base_high)
        return th_call_fail(
            call, TH_ERROR_SHAPE, "a view %s from offset %lld leaves the memory of its input %s, elements %lld to %lld",
            TH_TEXT(view), (long long)frame->view_offset, TH_TEXT(base), (long long)base_low, (long long)base_high);
    for (int d = 0; d < view->ndim; d++)
        if (view->size[d] == 1) /* any number may stand here: none that overflows later */
            view->stride[d] =
                view->stride[d] < base_low - base_high || view->stride[d] > base_high - base_low ? 1 : view->stride[d];
    return TH_OK;
}

/* Inputs whose gradient is the output's, summed or as it is. */
static th_status check_broadcast(th_call *call)
{
    const th_op *op = call->op;
    const th_array *output = &call->output[0];
    for (int i = 0; i < call->n_inputs; i++) {
        const th_array *input = &call->input[i];
        const bool passes = th_op_names(op, op->passes, i);
        if (!input->given || !(passes || (op->flags & TH_OP_BROADCASTS)))
            continue;
        if (!th_broadcasts_to(input->ndim, input->size, output->ndim, output->size))
            return th_call_fail(call, TH_ERROR_SHAPE,
                                "input %d, %s, does not broadcast to the output that the shape rule declares, %s", i,
                                TH_TEXT(input), TH_TEXT(output));
        if (passes && input->dtype != output->dtype)
            return th_call_fail(call, TH_ERROR_TYPE, "the output's gradient passes to input %d, but the types differ",
                                i);
    }
    return TH_OK;
}

th_status th_frame_shape(th_frame *frame)
{
    th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    const th_op *op = call->op;
    ctx->running = op;
    const th_status status = op->shape(call);
    ctx->running = NULL;
    if (status != TH_OK && !ctx->error)
        th_fail(ctx, status, op->name, "the shape rule refused its inputs");
    if (ctx->error)
        return ctx->error;
    if (!(frame->declared & 1))
        return th_call_fail(call, TH_ERROR_STATE, "the shape rule declares no output 0");
    for (int i = 0; i < call->n_outputs; i++)
        if ((frame->declared & 1u << i) && check_output(call, i) != TH_OK)
            return ctx->error;
    if (op->flags & TH_OP_VIEW) {
        if (check_view(frame) != TH_OK)
            return ctx->error;
    } else {
        for (int i = 0; i < call->n_outputs; i++)
            if ((frame->declared & 1u << i) && check_layout(call, i) != TH_OK)
                return ctx->error;
    }
    return (op->flags & TH_OP_BROADCASTS) || op->passes ? check_broadcast(call) : TH_OK;
}
