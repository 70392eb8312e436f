/* Checks an operation at every call: its descriptor, and the outputs that its shape rule declares. Built-in operations
 * and a user's own are treated alike. The result is not cached, because another descriptor may get the same address
 * later, and the checks cost less than a lookup. */
#include "autograd/frame.h"
#include "tensor/checked.h"
#include "tensor/shape.h"

/* The largest number of elements of a view. Its gradient may have its own memory, whose bytes must not overflow. */
static const int64_t MAX_ELEMENTS = INT64_MAX / 16;

enum {
    INPUT_BITS = (1u << TH_MAX_INPUTS) - 1,
    ALL_FLAGS = TH_OP_BROADCASTS | TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD | TH_OP_RECOMPUTE | TH_OP_VIEW | TH_OP_IN_PLACE |
                TH_OP_ANY_LAYOUT | TH_OP_OVER_INPUT
};

#define REFUSE(...) th_fail(ctx, TH_ERROR_ARGUMENT, op->name, __VA_ARGS__)

/* -- the descriptor -- */

static th_status check_view_descriptor(th_context *ctx, const th_op *op)
{
    if (op->n_inputs != 1 || op->n_outputs > 1)
        return REFUSE("a view (TH_OP_VIEW) has one input and one output, not %d and %d", op->n_inputs, op->n_outputs);
    if (op->forward || op->backward)
        return REFUSE("a view runs no kernel: %s must be NULL", op->forward ? "forward" : "backward");
    if (op->optional || op->precomputed || op->saves || op->saves_for[0])
        return REFUSE("a view must not have optional inputs, precomputed gradients or saved values");
    if (op->flags & ~(uint32_t)(TH_OP_VIEW | TH_OP_BROADCASTS))
        return REFUSE("flags 0x%x describe a kernel, but a view runs no kernel",
                      op->flags & ~(uint32_t)(TH_OP_VIEW | TH_OP_BROADCASTS));
    return TH_OK;
}

static th_status check_flags(th_context *ctx, const th_op *op)
{
    if (op->flags & ~(uint32_t)ALL_FLAGS)
        return REFUSE("flags contain 0x%x, which is not a TH_OP_* flag", op->flags & ~(uint32_t)ALL_FLAGS);
    if ((op->flags & TH_OP_CONTIGUOUS) && (op->flags & TH_OP_ANY_LAYOUT))
        return REFUSE(
            "TH_OP_CONTIGUOUS needs contiguous memory, but TH_OP_ANY_LAYOUT allows an output that is not contiguous");
    if ((op->flags & TH_OP_OVER_INPUT) && (op->flags & TH_OP_BROADCASTS))
        return REFUSE("TH_OP_OVER_INPUT excludes TH_OP_BROADCASTS, whose gradients have the output's shape");
    return TH_OK;
}

static th_status check_precomputed(th_context *ctx, const th_op *op)
{
    if (op->backward == NULL)
        return REFUSE("precomputed gradients need a backward too, because forward does not always get memory for them");
    if (op->differentiable_outputs > 1)
        return REFUSE("with precomputed gradients only output 0 may be differentiable");
    if (op->precomputed & op->identity_gradients)
        return REFUSE("an input's gradient must not be both precomputed and an identity gradient");
    if (op->flags & TH_OP_BROADCASTS)
        return REFUSE("precomputed gradients are written in place, but gradients of TH_OP_BROADCASTS are summed first");
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
    const bool any_inputs = op->n_inputs == TH_ANY_INPUTS;
    const uint32_t inputs = any_inputs ? INPUT_BITS : (1u << op->n_inputs) - 1;
    const uint32_t outputs = (1u << (op->n_outputs ? op->n_outputs : 1)) - 1;
    uint32_t saves = op->saves, saved_beyond = 0;
    const int entries = any_inputs ? 1 : op->n_inputs;
    for (int i = 0; i < entries; i++)
        saves |= op->saves_for[i];
    for (int i = entries; i < TH_MAX_INPUTS; i++)
        saved_beyond |= op->saves_for[i];
    saves |= saved_beyond;
    if (saves & ~(inputs | outputs << TH_MAX_INPUTS))
        return REFUSE("saves or saves_for names an input or output that does not exist (bits 0x%x)",
                      saves & ~(inputs | outputs << TH_MAX_INPUTS));
    if (saved_beyond)
        return REFUSE("saves_for must have at most %d entries", entries);
    if ((op->optional | op->precomputed | op->identity_gradients | op->storage) & ~inputs)
        return REFUSE("%s names an input that does not exist (bits 0x%x)",
                      op->optional & ~inputs      ? "optional"
                      : op->precomputed & ~inputs ? "precomputed"
                      : op->storage & ~inputs     ? "storage"
                                                  : "identity_gradients",
                      (op->optional | op->precomputed | op->identity_gradients | op->storage) & ~inputs);
    if (op->differentiable_outputs & ~outputs)
        return REFUSE("differentiable_outputs names an output that does not exist (bits 0x%x)",
                      op->differentiable_outputs & ~outputs);
    if (op->not_differentiable && (op->backward || op->identity_gradients))
        return REFUSE("the operation has both a gradient and a reason for not having one");
    if (op->flags & TH_OP_VIEW)
        return check_view_descriptor(ctx, op);
    if (op->forward == NULL)
        return REFUSE("the operation has no forward");
    if (op->plan_size > TH_MAX_PLAN)
        return REFUSE("plan_size must be at most %d; it is %zu", TH_MAX_PLAN, op->plan_size);
    if (op->plan_size && op->plan == NULL)
        return REFUSE("plan_size is %zu, but there is no plan", op->plan_size);
    if (op->precomputed && check_precomputed(ctx, op) != TH_OK)
        return ctx->error;
    return check_flags(ctx, op);
}

th_status th_check_attributes(th_context *ctx, const th_op *op, const void *attributes)
{
    if (op->attributes_size && attributes == NULL)
        return REFUSE("attributes is NULL; it must point to %zu bytes", op->attributes_size);
    if (op->attributes_size == 0 && attributes)
        return REFUSE("attributes are given, but attributes_size is 0");
    return TH_OK;
}

/* -- what a shape rule declares -- */

/* The memory that an array spans. */
typedef struct extent {
    bool negative; /* a size is negative */
    bool fits;     /* numel, low and high did not overflow */
    bool dense;    /* the array is contiguous */
    int64_t numel;
    int64_t low, high; /* the lowest and the highest element, relative to the first */
} extent;

/* Computes the extent with overflow checks. */
static extent checked_extent(const th_array *array)
{
    extent e = {.fits = true, .dense = true, .numel = 1};
    bool empty = false;
    for (int d = array->ndim - 1; d >= 0; d--) {
        const int64_t size = array->size[d], stride = array->stride[d];
        int64_t last = 0;
        if (size == 1)
            continue;
        empty |= size == 0;
        e.negative |= size < 0;
        e.dense &= stride == e.numel;
        e.fits &= th_checked_multiply(size - (size > 0), stride, &last);
        e.fits &= th_checked_add(e.low, last < 0 ? last : 0, &e.low);
        e.fits &= th_checked_add(e.high, last < 0 ? 0 : last, &e.high);
        e.fits &= th_checked_multiply(e.numel, size, &e.numel);
    }
    if (empty)
        e = (extent){.negative = e.negative, .fits = true, .dense = true};
    return e;
}

/* Computes the extent without overflow checks. `bits` shows whether all numbers were so small that nothing overflowed.
 * Otherwise checked_extent computes it again. */
static inline __attribute__((always_inline)) extent extent_of(const th_array *array)
{
    extent e = {.fits = true, .dense = true, .numel = 1};
    uint64_t bits = 0;
    for (int d = array->ndim - 1; d >= 0; d--) {
        const uint64_t size = (uint64_t)array->size[d], stride = (uint64_t)array->stride[d];
        if (size == 1)
            continue;
        const int64_t last = (int64_t)((size - 1) * stride), sign = -(int64_t)(last < 0);
        e.low = (int64_t)((uint64_t)e.low + (uint64_t)(last & sign));
        e.high = (int64_t)((uint64_t)e.high + (uint64_t)(last & ~sign));
        e.dense &= (int64_t)stride == e.numel;
        e.numel = (int64_t)((uint64_t)e.numel * size);
        bits |= (size - 1) | (last < 0 ? 0 - stride : stride) | (uint64_t)e.numel; /* size 0 sets all bits */
    }
    return bits < (uint64_t)1 << 28 ? e : checked_extent(array);
}

/* Checks an output with its own memory: strides that the shape rule wrote must not leave this memory. */
static th_status check_own_memory(th_call *call, int i, const extent *e)
{
    if (e->dense || e->numel == 0)
        return TH_OK;
    if (!e->fits || e->low < 0 || e->high >= e->numel)
        return th_call_fail(call, TH_ERROR_SHAPE, "the shape rule places output %d, %s, outside its own memory", i,
                            TH_TEXT(&call->output[i]));
    return TH_OK;
}

static th_status check_view_bounds(th_frame *frame, const extent *e, const extent *base)
{
    th_call *call = &frame->call;
    th_array *view = &call->output[0];
    int64_t low, high;
    if (base->numel == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "a view %s of %s, which has no elements", TH_TEXT(view),
                            TH_TEXT(&call->input[0]));
    if (!e->fits || !th_checked_add(e->low, frame->view_offset, &low) ||
        !th_checked_add(e->high, frame->view_offset, &high) || low < base->low || high > base->high)
        return th_call_fail(
            call, TH_ERROR_SHAPE,
            "a view %s at offset %lld reaches outside the memory of its input %s, elements %lld to %lld", TH_TEXT(view),
            (long long)frame->view_offset, TH_TEXT(&call->input[0]), (long long)base->low, (long long)base->high);
    const int64_t span = base->high - base->low;
    for (int d = 0; d < view->ndim; d++)
        if (view->size[d] == 1 && (view->stride[d] < -span || view->stride[d] > span))
            view->stride[d] = 1; /* unused, but a very large one would overflow later */
    return TH_OK;
}

/* Checks that a view is in the memory that its input spans, which was checked when the input was created. */
static th_status check_view(th_frame *frame, const extent *e)
{
    th_call *call = &frame->call;
    th_array *view = &call->output[0];
    if (view->dtype != call->input[0].dtype)
        return th_call_fail(call, TH_ERROR_TYPE, "a view must have its input's element type, %s, not %s",
                            th_dtype_name(call->input[0].dtype), th_dtype_name(view->dtype));
    if (e->numel > MAX_ELEMENTS ||
        ((!e->fits || e->numel == 0) && !th_checked_numel(view->ndim, view->size, &(int64_t){0})))
        return th_call_fail(call, TH_ERROR_SHAPE, "the size of %s in bytes overflows", TH_TEXT(view));
    if (e->numel == 0) {
        th_compute_contiguous_strides(view->ndim, view->size, view->stride);
        frame->view_offset = 0;
        return TH_OK;
    }
    const extent base = extent_of(&call->input[0]);
    return check_view_bounds(frame, e, &base);
}

static th_status check_output(th_frame *frame, int i)
{
    th_call *call = &frame->call;
    const th_array *output = &call->output[i];
    const bool legal_ndim = output->ndim >= 0 && output->ndim <= TH_MAX_DIMS;
    if (!legal_ndim || th_dtype_size(output->dtype) == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "the shape rule declares output %d with %s", i,
                            legal_ndim ? "an unknown element type" : "a number of dimensions outside 0 to 8");
    const extent e = extent_of(output);
    if (e.negative)
        return th_call_fail(call, TH_ERROR_SHAPE, "the shape rule declares output %d with a negative size", i);
    return call->op->flags & TH_OP_VIEW ? check_view(frame, &e) : check_own_memory(call, i, &e);
}

/* Checks the inputs whose gradient is computed in the output's shape: they must broadcast to the output. The ready-made
 * shape rule guarantees it. */
static th_status check_broadcast(th_call *call)
{
    const th_op *op = call->op;
    if (op->shape == th_shape_elementwise)
        return TH_OK;
    const th_array *output = &call->output[0];
    for (int i = 0; i < call->n_inputs; i++) {
        const th_array *input = &call->input[i];
        const bool identity = th_op_mask_has(op, op->identity_gradients, i);
        if (!input->given || !(identity || (op->flags & TH_OP_BROADCASTS)))
            continue;
        if (!th_broadcasts_to(input->ndim, input->size, output->ndim, output->size))
            return th_call_fail(call, TH_ERROR_SHAPE,
                                "input %d, %s, does not broadcast to the output that the shape rule declares, %s", i,
                                TH_TEXT(input), TH_TEXT(output));
        if (identity && input->dtype != output->dtype)
            return th_call_fail(call, TH_ERROR_TYPE,
                                "input %d receives the output's gradient unchanged, but their types differ", i);
    }
    return TH_OK;
}

th_status th_frame_run_shape_rule(th_frame *frame)
{
    th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    const th_op *op = call->op;
    ctx->running_op = op;
    const th_status status = op->shape(call);
    ctx->running_op = NULL;
    if (status != TH_OK && !ctx->error)
        th_fail(ctx, status, op->name, "the shape rule rejected the inputs");
    if (ctx->error)
        return ctx->error;
    if (!(frame->declared & 1))
        return th_call_fail(call, TH_ERROR_STATE, "the shape rule does not declare output 0");
    for (int i = 0; i < call->n_outputs; i++)
        if ((frame->declared & 1u << i) && check_output(frame, i) != TH_OK)
            return ctx->error;
    return (op->flags & TH_OP_BROADCASTS) || op->identity_gradients ? check_broadcast(call) : TH_OK;
}
