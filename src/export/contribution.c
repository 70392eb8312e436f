/* Runs the backward of single nodes (contribution.h), from the last node to the first as backward.c does. The gradient
 * of a view shares its root's buffer, which also contains what other nodes contributed. So view_sum accumulates the sum
 * over a view's own readers. */
#include "export/contribution.h"

#include <string.h>

#include "autograd/coverage.h"
#include "autograd/frame.h"
#include "autograd/gradient.h"
#include "tensor/elementwise.h"

typedef struct sweep {
    th_listing *listing;
    th_contributions *contributions;
    th_region **written; /* [tensors] for the owner of a gradient buffer: the regions with contributions so far */
    th_array *view_sum;  /* [tensors] of a view: the sum of the contributions of its readers */
    int64_t position;    /* the number of nodes visited */
} sweep;

/* -- where a contribution goes -- */

/* Adds the region of a tensor's gradient to the list of written regions. Returns whether an earlier contribution
 * overlaps it; then the list does not change. */
static bool mark_written(sweep *s, int64_t tensor)
{
    th_context *ctx = s->listing->ctx;
    const th_listed *t = &s->listing->tensor[tensor];
    const th_region region = th_region_of(t->tensor);
    bool overlaps = false;
    for (const th_region *r = s->written[t->gradient_owner]; r && !overlaps; r = r->next)
        overlaps = th_region_relation(r, &region) != TH_DISJOINT;
    if (overlaps)
        return true;
    th_region *entry = th_bump_allocate(ctx, &ctx->tape->records, sizeof *entry);
    if (entry == NULL) {
        th_fail_memory(ctx, "export", sizeof *entry);
        return false;
    }
    *entry = region;
    entry->next = s->written[t->gradient_owner];
    s->written[t->gradient_owner] = entry;
    return false;
}

/* Adds a contribution to the sum of a view. */
static th_status add_to_view(sweep *s, int64_t tensor, const th_array *gradient)
{
    th_array *view_sum = &s->view_sum[tensor];
    if (s->listing->tensor[tensor].view_of < 0)
        return TH_OK;
    if (view_sum->given) {
        th_copy_array(s->listing->ctx, view_sum, gradient, true);
        return TH_OK;
    }
    if (th_listing_array(s->listing, gradient, gradient->dtype, view_sum) != TH_OK)
        return s->listing->ctx->error;
    th_copy_array(s->listing->ctx, view_sum, gradient, false);
    return TH_OK;
}

static void record_contribution(sweep *s, int64_t node, int i, bool identity)
{
    th_contribution *c = &s->contributions->list[s->listing->first_operand[node] + i];
    const int64_t tensor = th_listing_input(s->listing, node, i);
    const bool overlaps = mark_written(s, tensor);
    c->how = overlaps ? TH_HOW_ADDED : identity ? TH_HOW_PASSED_ON : TH_HOW_WRITTEN;
    if (!s->listing->ctx->error)
        add_to_view(s, tensor, &c->gradient);
}

/* -- the gradients of the outputs -- */

/* Sets *array to the gradient that arrives at an output. Returns false if none does. */
static bool get_arriving_gradient(sweep *s, int64_t tensor, th_array *array)
{
    const th_listed *t = tensor >= 0 ? &s->listing->tensor[tensor] : NULL;
    if (t == NULL || t->gradient_owner < 0 || !th_listing_gradient(t->tensor, array))
        return false;
    if (s->written[t->gradient_owner] == NULL) /* no later node contributed, so backward started here */
        s->contributions->start[tensor] = 1;
    else if (t->view_of >= 0 && t->gradient_owner != tensor) {
        *array = s->view_sum[tensor];
        return array->given;
    }
    return true;
}

/* -- views -- */

/* Writes the gradient of a view to the elements of its base that it views, and zeros to the others. An element that the
 * view contains more than once gets the sum. */
static void contribute_view(sweep *s, int64_t node, th_frame *frame)
{
    th_context *ctx = s->listing->ctx;
    const int64_t base = th_listing_input(s->listing, node, 0), view = th_listing_output(s->listing, node, 0);
    const th_array *gradient = &frame->call.output_gradient[0];
    th_contribution *c = &s->contributions->list[s->listing->first_operand[node]];
    if (s->listing->tensor[base].gradient_owner < 0)
        return;
    th_array *input = &frame->call.input[0]; /* with the strides of its gradient, which allow the view */
    memcpy(input->stride, s->listing->tensor[base].tensor->gradient_view.stride, sizeof input->stride);
    if (th_listing_array_strided(s->listing, input, gradient->dtype, &c->gradient) != TH_OK ||
        th_frame_run_shape_rule(frame) != TH_OK)
        return;
    th_fill_array(ctx, &c->gradient, 0);
    th_array target = frame->output[0];
    target.data = (char *)c->gradient.data + frame->view_offset * (int64_t)th_dtype_size(gradient->dtype);
    if (th_array_numel(&target) > 0)
        th_add_at_offsets(&target, gradient);
    const bool shares_buffer =
        s->listing->tensor[view].gradient_owner != view; /* a view that repeats elements has its own buffer */
    const bool overlaps = mark_written(s, shares_buffer ? view : base);
    c->how = shares_buffer ? TH_HOW_VIEW : overlaps ? TH_HOW_ADDED : TH_HOW_WRITTEN;
    if (!ctx->error)
        add_to_view(s, base, &c->gradient);
}

/* -- operations -- */

static bool is_identity(const th_node *node, int i)
{
    return th_op_mask_has(node->op, node->op->identity_gradients, i);
}

static bool is_wanted(const sweep *s, int64_t node, int i)
{
    const int64_t tensor = th_listing_input(s->listing, node, i);
    return tensor >= 0 && th_node_input(th_listing_node(s->listing, node), i)->requires_gradient &&
           s->listing->tensor[tensor].gradient_owner >= 0;
}

/* Returns the axes of the output over which the gradient of this input is summed. */
static uint32_t summed_axes(const th_array *output, const th_array *input)
{
    uint32_t axes = 0;
    const int extra = output->ndim - input->ndim;
    for (int d = 0; d < output->ndim; d++)
        if (d < extra || (input->size[d - extra] == 1 && output->size[d] != 1))
            axes |= 1u << d;
    return axes;
}

/* Allocates the contribution to input i. */
static th_status allocate_contribution(sweep *s, int64_t node, int i, const th_array *input)
{
    return th_listing_array(s->listing, input, input->dtype,
                            &s->contributions->list[s->listing->first_operand[node] + i].gradient);
}

/* Allocates what the operation writes: the contributions, or temporaries of the output's shape for inputs that
 * broadcast. Returns whether there is anything to compute. */
static bool allocate_gradients(sweep *s, int64_t node_index, th_frame *frame)
{
    const th_node *node = th_listing_node(s->listing, node_index);
    bool runs = false;
    for (int i = 0; i < node->n_inputs; i++) {
        if (!is_wanted(s, node_index, i))
            continue;
        const th_array *input = &frame->call.input[i], *output = &frame->call.output[0];
        if (allocate_contribution(s, node_index, i, input) != TH_OK)
            return false;
        if (is_identity(node, i))
            continue;
        frame->call.input_gradient[i] = s->contributions->list[s->listing->first_operand[node_index] + i].gradient;
        if ((node->op->flags & TH_OP_BROADCASTS) && !th_same_sizes(input, output) &&
            th_listing_array(s->listing, output, input->dtype, &frame->call.input_gradient[i]) != TH_OK)
            return false;
        runs = true;
    }
    return runs;
}

/* Sums what the operation wrote, or the output's gradient if that is the input's, over the axes of the broadcast. */
static void sum_broadcast(sweep *s, int64_t node_index, int i, const th_array *gradient)
{
    th_contribution *c = &s->contributions->list[s->listing->first_operand[node_index] + i];
    if (gradient->data == c->gradient.data)
        return;
    c->summed = summed_axes(gradient, &c->gradient);
    th_sum_to_array(s->listing->ctx, &c->gradient, gradient, false);
}

static void contribute_operation(sweep *s, int64_t node_index, th_frame *frame)
{
    th_context *ctx = s->listing->ctx;
    const th_node *node = frame->node;
    if (th_frame_read_operands(frame) != TH_OK)
        return;
    if (allocate_gradients(s, node_index, frame) && !ctx->error)
        th_frame_run(frame, true);
    for (int identity = 0; identity <= 1; identity++) /* backward passes on the identities last */
        for (int i = 0; i < node->n_inputs && !ctx->error; i++) {
            if (!is_wanted(s, node_index, i) || is_identity(node, i) != identity)
                continue;
            sum_broadcast(s, node_index, i,
                          identity ? &frame->call.output_gradient[0] : &frame->call.input_gradient[i]);
            record_contribution(s, node_index, i, identity);
        }
}

/* -- the sweep -- */

static th_status visit_node(sweep *s, int64_t node_index)
{
    th_context *ctx = s->listing->ctx;
    const th_node *node = th_listing_node(s->listing, node_index);
    th_frame frame;
    if (th_frame_init_from_node(&frame, ctx, node) != TH_OK)
        return ctx->error;
    bool reached = false;
    for (int i = 0; i < node->n_outputs; i++)
        reached |=
            get_arriving_gradient(s, th_listing_output(s->listing, node_index, i), &frame.call.output_gradient[i]);
    s->contributions->order[node_index] = reached ? s->position++ : -1;
    if (reached && (node->op->flags & TH_OP_VIEW) && !node->op->identity_gradients)
        contribute_view(s, node_index, &frame);
    else if (reached)
        contribute_operation(s, node_index, &frame);
    return ctx->error;
}

th_status th_contributions_begin(th_contributions *contributions, th_listing *listing)
{
    th_context *ctx = listing->ctx;
    size_t bytes[2];
    *contributions = (th_contributions){.list = NULL};
    contributions->list =
        th_listing_zeros(ctx, listing->operands, sizeof *contributions->list, &contributions->bytes[0], "export");
    contributions->order =
        th_listing_zeros(ctx, listing->nodes, sizeof *contributions->order, &contributions->bytes[1], "export");
    contributions->start =
        th_listing_zeros(ctx, listing->tensors, sizeof *contributions->start, &contributions->bytes[2], "export");
    sweep s = {.listing = listing, .contributions = contributions};
    s.written = th_listing_zeros(ctx, listing->tensors, sizeof *s.written, &bytes[0], "export");
    s.view_sum = th_listing_zeros(ctx, listing->tensors, sizeof *s.view_sum, &bytes[1], "export");
    for (int64_t n = listing->nodes - 1; n >= 0 && !ctx->error; n--)
        visit_node(&s, n);
    th_release(ctx, s.written, bytes[0]);
    th_release(ctx, s.view_sum, bytes[1]);
    return ctx->error;
}

void th_contributions_end(th_contributions *contributions, const th_listing *listing)
{
    th_release(listing->ctx, contributions->list, contributions->bytes[0]);
    th_release(listing->ctx, contributions->order, contributions->bytes[1]);
    th_release(listing->ctx, contributions->start, contributions->bytes[2]);
}
