/* Decides which gradients a forward computes for its backward (precomputed.h). */
#include "autograd/precomputed.h"

#include "autograd/gradient.h"

static bool is_precomputed(const th_op *op, int i)
{
    return th_op_mask_has(op, op->precomputed, i);
}

/* Returns whether forward should compute the gradient of input i. */
static bool is_wanted(const th_op *op, int i, const th_tensor_impl *input)
{
    return is_precomputed(op, i) && input && input->requires_gradient;
}

/* Returns whether only backward can compute the gradient of input i. Then no gradient can be precomputed, because a
 * backward with precomputed gradients gets no saved values. */
static bool needs_backward(const th_op *op, int i, const th_tensor_impl *input)
{
    return input && input->requires_gradient && !is_precomputed(op, i) &&
           !th_op_mask_has(op, op->identity_gradients, i);
}

static bool all_can_be_precomputed(const th_op *op, int n_inputs, th_tensor_impl *const *inputs)
{
    for (int i = 0; i < n_inputs; i++) {
        if (needs_backward(op, i, inputs[i]))
            return false;
        if (!is_wanted(op, i, inputs[i]))
            continue;
        if (!th_gradient_can_be_precomputed(inputs[i]))
            return false;
        for (int j = 0; j < i; j++)
            if (is_precomputed(op, j) && inputs[j] == inputs[i])
                return false;
    }
    return true;
}

th_status th_precomputed_prepare(th_frame *frame, int n_inputs, th_tensor_impl *const *inputs)
{
    th_context *ctx = frame->call.ctx;
    const th_op *op = frame->call.op;
    if (th_array_numel(&frame->output[0]) != 1)
        return th_call_fail(&frame->call, TH_ERROR_SHAPE,
                            "precomputed gradients need an output 0 of one element, but it is %s",
                            TH_TEXT(&frame->output[0]));
    if (ctx->keep_values || !all_can_be_precomputed(op, n_inputs, inputs))
        return TH_OK;
    for (int i = 0; i < n_inputs; i++) {
        if (!is_wanted(op, i, inputs[i]))
            continue;
        if (th_gradient_prepare_precomputed(inputs[i], &frame->call.input_gradient[i]) != TH_OK)
            return ctx->error;
    }
    frame->call.precomputed = true;
    return TH_OK;
}

void th_precomputed_mark(const th_frame *frame, int n_inputs, th_tensor_impl *const *inputs, int64_t node)
{
    for (int i = 0; i < n_inputs; i++)
        if (frame->call.input_gradient[i].given)
            th_gradient_mark_precomputed(inputs[i], node);
}

bool th_precomputed_is_valid(const th_pass *pass, const th_node *node)
{
    const th_op *op = node->op;
    if (pass->requested)
        return false;
    const int64_t index = th_gradient_buffer_node(th_node_output(node, 0)->tensor);
    for (int i = 0; i < node->n_inputs; i++)
        if (is_precomputed(op, i) && th_pass_wants(pass, node, i) &&
            !th_gradient_is_precomputed(th_node_input(node, i)->tensor, index))
            return false;
    return true;
}

void th_precomputed_discard(const th_node *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (is_precomputed(node->op, i) && th_node_input(node, i)->tensor)
            th_gradient_unmark_precomputed(th_node_input(node, i)->tensor);
}
