/* Gradients that a forward computes on its way, because its backward would have to recompute the same values: the
 * classifier, which keeps no logits. They lie where backward wants them, in memory that counts as empty until
 * then. Whoever needs the memory before takes it, and backward computes them as usual. */
#include "autograd/frame.h"
#include "autograd/gradient.h"

static bool is_precomputed(const th_op *op, int i)
{
    return th_op_names(op, op->precomputed, i);
}

/* What a recording wants an early gradient of. */
static bool is_wanted(const th_op *op, int i, const th_tensor_impl *input)
{
    return is_precomputed(op, i) && input && input->requires_gradient;
}

/* What a backward that found its early gradients would have to compute besides, from values that it is not given then. */
static bool is_left(const th_op *op, int i, const th_tensor_impl *input)
{
    return input && input->requires_gradient && !is_precomputed(op, i) && !th_op_names(op, op->identity_gradients, i);
}

static bool all_can_be_offered(const th_op *op, int n, th_tensor_impl *const *inputs)
{
    for (int i = 0; i < n; i++) {
        if (is_left(op, i, inputs[i]))
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

th_status th_precomputed_offer(th_frame *frame, int n, th_tensor_impl *const *inputs)
{
    th_context *ctx = frame->call.ctx;
    const th_op *op = frame->call.op;
    if (th_array_numel(&frame->output[0]) != 1)
        return th_call_fail(&frame->call, TH_ERROR_SHAPE,
                            "precomputed gradients need an output 0 of one element, but it is %s",
                            TH_TEXT(&frame->output[0]));
    if (ctx->keep_values || !all_can_be_offered(op, n, inputs))
        return TH_OK;
    for (int i = 0; i < n; i++) {
        if (!is_wanted(op, i, inputs[i]))
            continue;
        if (th_gradient_offer(inputs[i], &frame->call.input_gradient[i]) != TH_OK)
            return ctx->error;
    }
    frame->call.precomputed = true;
    return TH_OK;
}

void th_precomputed_claim(const th_frame *frame, int n, th_tensor_impl *const *inputs, int64_t node)
{
    for (int i = 0; i < n; i++)
        if (frame->call.input_gradient[i].given)
            th_gradient_claim(inputs[i], node);
}

bool th_precomputed_valid(const th_pass *pass, const th_node *node)
{
    const th_op *op = node->op;
    if (pass->chosen)
        return false;
    const int64_t index = th_gradient_buffer_node(th_node_output(node, 0)->tensor);
    for (int i = 0; i < node->n_inputs; i++)
        if (is_precomputed(op, i) && th_pass_wants(pass, node, i) &&
            !th_gradient_claimed(th_node_input(node, i)->tensor, index))
            return false;
    return true;
}

void th_precomputed_discard(const th_node *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (is_precomputed(node->op, i) && th_node_input(node, i)->tensor)
            th_gradient_unclaim(th_node_input(node, i)->tensor);
}
