/* Frames (frame.h): initializes them, and runs the forward or backward of a frame's operation with scratch memory and
 * contiguous copies. apply.c makes calls, backward.c and recompute.c run recorded ones. */
#include <stddef.h>

#include "autograd/frame.h"
#include "autograd/profile.h"
#include "kernels/sizes.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/mode.h"

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
    frame->attributes = attributes;
    frame->scratch = &frame->scratch_memory;
    frame->view_offset = 0;
    frame->declared = 0;
    frame->drawn = false;
    if (n_inputs == 0) /* callers may read it without checking n_inputs */
        frame->input[0] = (th_array){.given = false};
    if (n_inputs > TH_MAX_INPUTS) {
        const size_t n = (size_t)n_inputs;
        char *memory = th_bump_allocate(ctx, &tape->records, n * (2 * sizeof(th_array) + sizeof(bool)));
        if (memory == NULL)
            return th_fail_memory(ctx, op->name, n * 2 * sizeof(th_array));
        frame->call.input = (th_array *)(void *)memory;
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

th_status th_frame_init_from_node(th_frame *frame, th_context *ctx, const th_node *node)
{
    const th_status status = th_frame_init(frame, ctx, ctx->tape, node->op, node->n_inputs, node->attributes);
    if (status != TH_OK)
        return status;
    frame->node = node;
    frame->call.random = node->random;
    frame->call.training = node->training;
    for (int i = 0; i < node->n_inputs; i++) {
        const th_tensor_impl *t = th_node_input(node, i)->tensor;
        if (t) {
            frame->call.input[i] = th_tensor_array(t);
            frame->call.input[i].data = NULL;
        }
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const th_tensor_impl *t = th_node_output(node, i)->tensor;
        if (t) {
            frame->call.output[i] = th_tensor_array(t);
            frame->call.output[i].data = NULL;
        }
    }
    return TH_OK;
}

th_status th_frame_read_operands(th_frame *frame)
{
    const th_node *node = frame->node;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_operand_record *operand = &node->operand[i];
        if (operand->tensor == NULL || !operand->read)
            continue;
        if (th_check_saved_version(frame->call.ctx, node, operand) != TH_OK)
            return frame->call.ctx->error;
        th_array *array = i < node->n_inputs ? &frame->call.input[i] : &frame->call.output[i - node->n_inputs];
        array->data = th_tensor_data(operand->tensor);
    }
    return TH_OK;
}

int64_t th_node_multiply_adds(th_context *ctx, const th_node *node)
{
    th_frame frame;
    if (node->op->multiply_adds == NULL || th_frame_init_from_node(&frame, ctx, node) != TH_OK)
        return 0;
    return node->op->multiply_adds(&frame.call);
}

th_block *th_allocate_temporary(th_context *ctx, const th_array *like, th_array *temporary, const char *operation)
{
    *temporary = *like;
    th_compute_contiguous_strides(like->ndim, like->size, temporary->stride);
    int64_t numel;
    size_t bytes;
    if (!th_checked_numel(like->ndim, like->size, &numel) ||
        !th_checked_bytes(numel, th_dtype_size(like->dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "the size in bytes overflows");
        return NULL;
    }
    th_block *block = th_block_new(ctx, &ctx->step_memory, bytes, operation);
    temporary->data = block ? th_block_data(block) : NULL;
    return block;
}

/* -- scratch memory -- */

/* Adds a reservation of a checked operation to the map. Returns at least twice its bytes, so that the checker sees if
 * the kernel writes to the rest. */
static size_t record_reservation(th_scratch_map *map, size_t offset, size_t exact, size_t bytes)
{
    if (map->count < TH_MAX_RESERVATIONS) {
        map->reservation[map->count].offset = offset;
        map->reservation[map->count++].bytes = exact;
    }
    return bytes > SIZE_MAX / 4 ? bytes : 2 * bytes + TH_ALIGNMENT;
}

size_t th_plan_scratch(const th_call *call, int64_t count, size_t element)
{
    th_scratch *scratch = ((const th_frame *)call)->scratch;
    const size_t offset = scratch->end;
    size_t bytes = 0;
    if (count < 0 || element > PTRDIFF_MAX || !th_checked_bytes(count, element, &bytes) || bytes > SIZE_MAX - offset)
        scratch->end = SIZE_MAX; /* the allocation will fail */
    else
        scratch->end = offset + bytes;
    if (call->ctx->scratch_map && scratch->end != SIZE_MAX)
        scratch->end = offset + record_reservation(call->ctx->scratch_map, offset, (size_t)count * element, bytes);
    if (scratch->end > scratch->bytes)
        scratch->bytes = scratch->end;
    return offset;
}

void th_plan_reuse(const th_call *call, size_t offset)
{
    ((const th_frame *)call)->scratch->end = offset;
}

void *th_call_scratch(const th_call *call, size_t offset)
{
    return call->scratch ? (char *)call->scratch + offset : NULL;
}

/* -- running -- */

/* An operand that was replaced by a contiguous copy while the operation runs. */
typedef struct contiguous_copy {
    th_block *block; /* the copy's memory */
    th_array *operand, original;
} contiguous_copy;

typedef struct copy_list {
    contiguous_copy own[TH_MAX_INPUTS + 2 * TH_MAX_OUTPUTS], *all;
    int count;
} copy_list;

/* Prepares for a copy of every operand. */
static th_status prepare_copies(const th_frame *frame, copy_list *copies)
{
    th_context *ctx = frame->call.ctx;
    copies->all = copies->own;
    copies->count = 0;
    if (frame->call.n_inputs <= TH_MAX_INPUTS)
        return TH_OK;
    const size_t bytes = (size_t)(frame->call.n_inputs + 2 * TH_MAX_OUTPUTS) * sizeof *copies->all;
    copies->all = th_bump_allocate(ctx, &ctx->tape->records, bytes);
    return copies->all ? TH_OK : th_fail_memory(ctx, frame->call.op->name, bytes);
}

/* Returns whether the call reads the array. A shapes-only context has no data, so that `saved` decides. */
static bool is_read(const th_frame *frame, const th_array *array, bool saved)
{
    return array->given && (frame->call.ctx->options.shapes_only ? saved : array->data != NULL);
}

static th_status make_contiguous(const th_frame *frame, th_array *array, bool saved, copy_list *copies)
{
    th_context *ctx = frame->call.ctx;
    if (!is_read(frame, array, saved) || th_array_contiguous(array))
        return TH_OK;
    th_array temporary;
    th_block *block = th_allocate_temporary(ctx, array, &temporary, frame->call.op->name);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    copies->all[copies->count++] = (contiguous_copy){block, array, *array};
    if (!ctx->options.shapes_only)
        th_copy_array(ctx, &temporary, array, false);
    *array = temporary;
    return TH_OK;
}

/* Plans, allocates scratch memory, and runs forward or backward. A recorded call uses the precision of matrix products
 * with which it was recorded. */
static th_status run_kernel(th_frame *frame, bool backward)
{
    th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    th_block *scratch = NULL;
    _Alignas(max_align_t) unsigned char plan[TH_MAX_PLAN];
    const th_precision precision = ctx->machine.precision;
    if (frame->node)
        ctx->machine.precision = frame->node->precision;
    ctx->running_op = call->op;
    frame->scratch_memory = (th_scratch){0, 0};
    if (call->op->plan) {
        call->op->plan(call, backward, plan);
        call->plan = plan;
    }
    if (frame->scratch_memory.bytes) {
        scratch = th_block_new(ctx, &ctx->step_memory, frame->scratch_memory.bytes, call->op->name);
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
    ctx->running_op = NULL;
    ctx->machine.precision = precision;
    return ctx->error;
}

th_status th_frame_run(th_frame *frame, bool backward)
{
    th_call *call = &frame->call;
    th_context *ctx = call->ctx;
    copy_list copies;
    copies.count = 0;
    th_status status = TH_OK;
    if (ctx->stop && th_poll_stop(ctx, call->op->name))
        return ctx->error;
    const int64_t start = th_profile_start(ctx);
    if (call->op->flags & TH_OP_CONTIGUOUS) {
        const th_node *node = backward ? frame->node : NULL;
        status = prepare_copies(frame, &copies);
        for (int i = 0; i < call->n_inputs && status == TH_OK; i++)
            status = make_contiguous(frame, &call->input[i],
                                     node == NULL || (th_node_input(node, i)->read && !call->precomputed), &copies);
        for (int i = 0; i < call->n_outputs && status == TH_OK && node; i++) {
            status =
                make_contiguous(frame, &call->output[i], th_node_output(node, i)->read && !call->precomputed, &copies);
            if (status == TH_OK)
                status = make_contiguous(frame, &call->output_gradient[i], true, &copies);
        }
    }
    if (status == TH_OK)
        status = run_kernel(frame, backward);
    for (int i = 0; i < copies.count; i++) { /* tracing reads the operands later, when the copies are freed */
        *copies.all[i].operand = copies.all[i].original;
        th_block_free(&ctx->step_memory, copies.all[i].block);
    }
    if (start && status == TH_OK)
        th_profile_call(frame, backward, start);
    return status;
}
