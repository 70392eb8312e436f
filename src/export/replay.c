/* The float64 replay and its central differences (replay.h). A view is a view of the copy, so a change of an element
 * reaches all readers of its memory, as in the gradient of a view. */
#include "export/replay.h"

#include <math.h>
#include <string.h>

#include "autograd/frame.h"
#include "kernels/dtype.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/strided_iterator.h"

/* The cost of a node besides its numbers, in units of work. */
enum { NODE_WORK = 600 };

/* -- running nodes -- */

static th_array replay_array(const th_array *like, const th_array *value)
{
    th_array array = *value;
    memcpy(array.axes, like->axes, sizeof array.axes);
    return array;
}

/* Fills a frame with the arrays of the replay. */
static th_status fill_frame(const th_replay *replay, int64_t index, th_frame *frame)
{
    const th_node *node = th_listing_node(replay->listing, index);
    if (th_frame_init_from_node(frame, replay->listing->ctx, node) != TH_OK)
        return replay->listing->ctx->error;
    for (int i = 0; i < node->n_inputs; i++) {
        const int64_t id = th_listing_input(replay->listing, index, i);
        if (id >= 0)
            frame->call.input[i] = replay_array(&frame->call.input[i], &replay->value[id]);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const int64_t id = th_listing_output(replay->listing, index, i);
        if (id >= 0)
            frame->call.output[i] = replay_array(&frame->call.output[i], &replay->value[id]);
    }
    return TH_OK;
}

/* Returns whether a node makes a plain view, whose elements are also elements of its base. A view that contains
 * elements more than once has its own gradient, so that in the replay it is a copy. */
static bool is_plain_view(const th_replay *replay, int64_t index)
{
    const int64_t output = th_listing_output(replay->listing, index, 0);
    return (th_listing_node(replay->listing, index)->op->flags & TH_OP_VIEW) &&
           replay->listing->tensor[output].gradient_owner != output;
}

/* Writes the view of a node's base to *array. */
static th_status make_view(const th_replay *replay, int64_t index, th_array *array)
{
    const th_array *base = &replay->value[th_listing_input(replay->listing, index, 0)];
    th_frame frame;
    if (th_frame_init_from_node(&frame, replay->listing->ctx, th_listing_node(replay->listing, index)) != TH_OK)
        return replay->listing->ctx->error;
    frame.call.input[0] = replay_array(&frame.call.input[0], base);
    if (th_frame_run_shape_rule(&frame) != TH_OK)
        return replay->listing->ctx->error;
    *array = frame.output[0];
    array->given = true;
    array->data = (char *)base->data + frame.view_offset * (int64_t)th_dtype_size(base->dtype);
    return TH_OK;
}

static th_status run_node(const th_replay *replay, int64_t index)
{
    const th_node *node = th_listing_node(replay->listing, index);
    th_frame frame;
    th_array view;
    if (is_plain_view(replay, index) || !(node->op->forward || node->op->flags & TH_OP_VIEW))
        return TH_OK;
    if (!(node->op->flags & TH_OP_VIEW))
        return fill_frame(replay, index, &frame) == TH_OK ? th_frame_run(&frame, false) : replay->listing->ctx->error;
    if (make_view(replay, index, &view) == TH_OK)
        th_copy_array(replay->listing->ctx, &replay->value[th_listing_output(replay->listing, index, 0)], &view, false);
    return replay->listing->ctx->error;
}

/* -- the copies -- */

static th_status copy_leaf(th_replay *replay, int64_t id)
{
    const th_array leaf = th_tensor_array(replay->listing->tensor[id].tensor);
    if (!th_is_floating(leaf.dtype)) {
        replay->value[id] = leaf;
        return TH_OK;
    }
    if (th_listing_array_strided(replay->listing, &leaf, TH_FLOAT64, &replay->value[id]) == TH_OK)
        th_convert_array(replay->listing->ctx, &replay->value[id], &leaf);
    return replay->listing->ctx->error;
}

static th_status make_outputs(th_replay *replay, int64_t index)
{
    const th_node *node = th_listing_node(replay->listing, index);
    if (is_plain_view(replay, index))
        return make_view(replay, index, &replay->value[th_listing_output(replay->listing, index, 0)]);
    for (int i = 0; i < node->n_outputs; i++) {
        const int64_t id = th_listing_output(replay->listing, index, i);
        if (id < 0)
            continue;
        const th_array output = th_tensor_array(replay->listing->tensor[id].tensor);
        const th_dtype dtype = th_is_floating(output.dtype) ? TH_FLOAT64 : output.dtype;
        const bool view = node->op->flags & TH_OP_VIEW;
        if ((view ? th_listing_array : th_listing_array_strided)(replay->listing, &output, dtype, &replay->value[id]) !=
            TH_OK)
            return replay->listing->ctx->error;
    }
    return run_node(replay, index);
}

/* -- the loss -- */

/* Returns the sum of a b. A term with a zero gradient counts as 0. */
static double inner_product(const th_array *a, const th_array *b)
{
    th_iterator iterator;
    double sum = 0;
    if (!th_iterator_build_row_major(&iterator, a, 1, &b))
        return 0;
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < iterator.numel; i++, th_iterator_advance(&iterator, 1, &position)) {
        const double weight = th_number_read(a->dtype, position.address[0]);
        sum += weight != 0 ? weight * th_number_read(b->dtype, position.address[1]) : 0;
    }
    return sum;
}

/* Returns the value from which backward started: the sum of cotangent times value. recorded: of the recorded values;
 * otherwise the values of the replay. */
static double compute_loss(const th_replay *replay, bool recorded)
{
    double sum = 0;
    for (int64_t i = 0; i < replay->listing->tensors; i++) {
        th_array cotangent;
        if (!replay->contributions->start[i] || !th_listing_gradient(replay->listing->tensor[i].tensor, &cotangent))
            continue;
        const th_array value = recorded ? th_tensor_array(replay->listing->tensor[i].tensor) : replay->value[i];
        sum += inner_product(&cotangent, &value);
    }
    return sum;
}

/* -- differences -- */

/* Marks the tensors and nodes that depend on a tensor, or on a view of its memory. Returns the work to run them. */
static int64_t mark_dependents(th_replay *replay, int64_t tensor)
{
    const th_listing *listing = replay->listing;
    memset(replay->node_depends, 0, (size_t)listing->nodes * sizeof *replay->node_depends);
    memset(replay->affected, 0, (size_t)listing->tensors * sizeof *replay->affected);
    replay->affected[tensor] = 1;
    int64_t work = 0;
    for (int64_t n = listing->tensor[tensor].producer + 1; n < listing->nodes; n++) {
        const th_node *node = th_listing_node(listing, n);
        bool depends = false;
        for (int i = 0; i < node->n_inputs; i++)
            depends |= th_listing_input(listing, n, i) >= 0 && replay->affected[th_listing_input(listing, n, i)];
        if (!depends)
            continue;
        const bool computes = !is_plain_view(replay, n) && replay->contributions->order[n] >= 0;
        replay->node_depends[n] = computes;
        work += NODE_WORK;
        for (int i = 0; i < node->n_outputs; i++) {
            const int64_t id = th_listing_output(listing, n, i);
            if (id < 0)
                continue;
            replay->affected[id] = 1;
            work += 2 * th_tensor_numel(listing->tensor[id].tensor);
        }
        work += computes ? th_node_multiply_adds(listing->ctx, node) : 0;
    }
    return work;
}

static double loss_at(th_replay *replay, double *element, double value)
{
    *element = value;
    for (int64_t n = 0; n < replay->listing->nodes && !replay->listing->ctx->error; n++)
        if (replay->node_depends[n])
            run_node(replay, n);
    return compute_loss(replay, false);
}

th_status th_replay_difference(th_replay *replay, int64_t tensor, th_array *difference, bool *computed)
{
    const th_listed *t = &replay->listing->tensor[tensor];
    const th_array *value = &replay->value[tensor];
    const int64_t count = th_tensor_numel(t->tensor);
    th_array gradient;
    int64_t work;
    *computed = false;
    if (!replay->valid || t->gradient_owner != tensor || !th_listing_gradient(t->tensor, &gradient) ||
        !th_checked_multiply(mark_dependents(replay, tensor), 2 * count + 1, &work) || work > replay->work_left)
        return replay->listing->ctx->error;
    replay->work_left -= work;
    if (th_listing_array(replay->listing, value, TH_FLOAT64, difference) != TH_OK)
        return replay->listing->ctx->error;
    double *result = difference->data;
    th_iterator iterator;
    th_iterator_position position;
    *computed = true;
    if (!th_iterator_build_row_major(&iterator, value, 0, NULL))
        return TH_OK;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t i = 0; i < count && !replay->listing->ctx->error; i++, th_iterator_advance(&iterator, 1, &position)) {
        double *element = (double *)(void *)position.address[0];
        const double x = *element, h = 1e-5 * (fabs(x) > 1 ? sqrt(fabs(x)) : 1);
        const double above = loss_at(replay, element, x + h), below = loss_at(replay, element, x - h);
        result[i] = (above - below) / ((x + h) - (x - h));
        *element = x;
    }
    loss_at(replay, (double *)value->data, *(double *)value->data);
    return replay->listing->ctx->error;
}

/* -- begin and end -- */

/* Returns whether two losses agree up to the rounding of float32. */
static bool losses_agree(double a, double b)
{
    return fabs(a - b) <= 1e-3 * (1 + fabs(a) + fabs(b));
}

/* Returns the units of work of one replay. */
static int64_t replay_work(const th_listing *listing)
{
    int64_t work = 0;
    for (int64_t i = 0; i < listing->tensors; i++)
        work += 2 * th_tensor_numel(listing->tensor[i].tensor);
    for (int64_t n = 0; n < listing->nodes; n++)
        work += NODE_WORK + th_node_multiply_adds(listing->ctx, th_listing_node(listing, n));
    return work;
}

th_status th_replay_begin(th_replay *replay, th_listing *listing, const th_contributions *contributions, int64_t work)
{
    th_context *ctx = listing->ctx;
    *replay = (th_replay){.listing = listing, .contributions = contributions, .work_left = work};
    replay->value = th_listing_zeros(ctx, listing->tensors, sizeof *replay->value, &replay->bytes[0], "export");
    replay->node_depends =
        th_listing_zeros(ctx, listing->nodes, sizeof *replay->node_depends, &replay->bytes[1], "export");
    replay->affected = th_listing_zeros(ctx, listing->tensors, sizeof *replay->affected, &replay->bytes[2], "export");
    if (ctx->error || replay_work(listing) > work)
        return ctx->error;
    for (int64_t i = 0; i < listing->tensors && !ctx->error; i++)
        if (listing->tensor[i].producer < 0)
            copy_leaf(replay, i);
    for (int64_t n = 0; n < listing->nodes && !ctx->error; n++)
        make_outputs(replay, n);
    replay->valid = !ctx->error && losses_agree(compute_loss(replay, true), compute_loss(replay, false));
    return ctx->error;
}

void th_replay_end(th_replay *replay)
{
    th_context *ctx = replay->listing->ctx;
    th_release(ctx, replay->value, replay->bytes[0]);
    th_release(ctx, replay->node_depends, replay->bytes[1]);
    th_release(ctx, replay->affected, replay->bytes[2]);
}
