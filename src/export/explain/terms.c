/* The terms of one node's contribution to one element x of a gradient: dy[i] times the derivative of y[i] with respect
 * to x. The derivatives of products are elements of their operands. For other operations the rule runs once for each
 * element of dy, with a gradient that is 1 there and 0 elsewhere: backward is linear. */
#include <math.h>
#include <string.h>

#include "autograd/frame.h"
#include "export/explain/explain.h"
#include "kernels/sizes.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

enum { MOST_RUNS = 1024 };

/* -- the largest terms -- */

/* Returns whether term a is shown before term b: NaN first, then by magnitude. */
static bool is_larger(const th_term *a, const th_term *b)
{
    if (isnan(a->value) || isnan(b->value))
        return isnan(a->value) && !isnan(b->value);
    return fabs(a->value) > fabs(b->value);
}

static void add_other(th_terms *terms, const th_term *term)
{
    terms->others++;
    terms->others_sum += term->value;
}

static void add_term(th_terms *terms, const th_term *term)
{
    int position = terms->count;
    while (position > 0 && is_larger(term, &terms->term[position - 1]))
        position--;
    if (position == TH_MAX_TERMS) {
        add_other(terms, term);
        return;
    }
    if (terms->count == TH_MAX_TERMS)
        add_other(terms, &terms->term[--terms->count]);
    memmove(&terms->term[position + 1], &terms->term[position], (size_t)(terms->count - position) * sizeof *term);
    terms->term[position] = *term;
    terms->count++;
}

/* -- the gradients of a node's outputs -- */

static bool find_output_gradient(const th_node *node, int output, th_array *dy)
{
    const th_tensor_impl *t = th_node_output(node, output)->tensor;
    return t && t->gradient && th_listing_gradient(t, dy);
}

static int64_t gradient_elements(const th_node *node)
{
    int64_t elements = 0;
    th_array dy;
    for (int i = 0; i < node->n_outputs; i++)
        if (find_output_gradient(node, i, &dy))
            elements += th_array_numel(&dy);
    return elements;
}

/* -- products -- */

static void split_product(const th_node *node, int input, const th_element *element, th_terms *terms)
{
    th_array dy;
    if (!find_output_gradient(node, 0, &dy))
        return;
    const int64_t numel = th_array_numel(&dy);
    for (int64_t i = 0; i < numel; i++) {
        th_term term = {.output = 0, .has_source = true};
        th_index_at(dy.ndim, dy.size, i, term.output_element.index);
        if (!th_find_factor(node, input, element, &term.output_element, &term.source))
            continue;
        term.dy = th_element_value(&dy, &term.output_element);
        term.factor = 1;
        if (term.source.input >= 0) {
            const th_array operand = th_tensor_array(th_node_input(node, term.source.input)->tensor);
            term.factor = th_element_value(&operand, &term.source.element);
        }
        term.value = term.dy * term.factor;
        add_term(terms, &term);
    }
}

/* -- other operations -- */

typedef struct probe {
    th_listing *listing;
    const th_node *node;
    int input;
    th_array unit[TH_MAX_OUTPUTS]; /* the gradient of each output: zeros, except one element */
    th_array result, reduced;      /* what the rule writes; the same summed to the input's shape */
} probe;

static th_status probe_begin(probe *p)
{
    const th_array x = th_tensor_array(th_node_input(p->node, p->input)->tensor),
                   y = th_tensor_array(th_node_output(p->node, 0)->tensor);
    th_array dy;
    for (int i = 0; i < p->node->n_outputs; i++) {
        if (!find_output_gradient(p->node, i, &dy))
            continue;
        if (th_listing_array(p->listing, &dy, dy.dtype, &p->unit[i]) != TH_OK)
            return p->listing->ctx->error;
        th_fill_array(p->listing->ctx, &p->unit[i], 0);
    }
    if (th_listing_array(p->listing, &x, x.dtype, &p->reduced) != TH_OK)
        return p->listing->ctx->error;
    p->result = p->reduced;
    const bool broadcast = (p->node->op->flags & TH_OP_BROADCASTS) && !th_same_sizes(&x, &y);
    return broadcast ? th_listing_array(p->listing, &y, x.dtype, &p->result) : TH_OK;
}

/* Runs the node's rule on p->unit. The result is in p->reduced. */
static th_status probe_run(probe *p)
{
    th_context *ctx = p->listing->ctx;
    const th_node *node = p->node;
    th_frame frame;
    if (th_frame_init_from_node(&frame, ctx, node) != TH_OK || th_frame_read_operands(&frame) != TH_OK)
        return ctx->error;
    for (int i = 0; i < node->n_outputs; i++)
        frame.call.output_gradient[i] = p->unit[i];
    frame.call.input_gradient[p->input] = p->result;
    if (th_frame_run(&frame, true) == TH_OK && p->result.data != p->reduced.data)
        th_sum_to_array(ctx, &p->reduced, &p->result, false);
    return ctx->error;
}

static th_status split_by_probes(probe *p, const th_element *element, th_terms *terms)
{
    if (probe_begin(p) != TH_OK)
        return p->listing->ctx->error;
    for (int o = 0; o < p->node->n_outputs; o++) {
        th_array dy;
        if (!find_output_gradient(p->node, o, &dy))
            continue;
        const size_t bytes = th_dtype_size(dy.dtype);
        const int64_t numel = th_array_numel(&dy);
        for (int64_t i = 0; i < numel; i++) {
            char *unit_element = (char *)p->unit[o].data + (size_t)i * bytes;
            th_number_write(dy.dtype, unit_element, 1);
            if (probe_run(p) != TH_OK)
                return p->listing->ctx->error;
            th_number_write(dy.dtype, unit_element, 0);
            th_term term = {.output = o, .factor = th_element_value(&p->reduced, element)};
            th_index_at(dy.ndim, dy.size, i, term.output_element.index);
            term.dy = th_element_value(&dy, &term.output_element);
            term.value = term.dy * term.factor;
            if (term.factor != 0)
                add_term(terms, &term);
        }
    }
    return TH_OK;
}

th_status th_split_terms(th_listing *listing, int64_t node, int input, const th_element *element, th_terms *terms)
{
    const th_node *recorded = th_listing_node(listing, node);
    *terms = (th_terms){.split = true};
    if (th_factor_is_known(recorded, input)) {
        split_product(recorded, input, element, terms);
        return TH_OK;
    }
    terms->split = recorded->op->backward && gradient_elements(recorded) <= MOST_RUNS &&
                   !th_op_mask_has(recorded->op, recorded->op->identity_gradients, input);
    probe p = {.listing = listing, .node = recorded, .input = input};
    return terms->split ? split_by_probes(&p, element, terms) : TH_OK;
}
