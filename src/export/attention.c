/* Finds the arrays inside attention (attention.h). */
#include "export/attention.h"

#include <math.h>
#include <string.h>

#include "export/composition.h"
#include "kernels/sizes.h"
#include "ops/shared/attention.h"
#include "ops/shared/axes.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

/* -- the softmax of a composed attention -- */

static bool is_product(const th_node *node)
{
    return th_node_is(node, "matmul") || th_node_is(node, "masked_matmul");
}

/* Returns whether a tensor comes from a matrix product, through operations on its elements. */
static bool comes_from_product(const th_listing *listing, int64_t tensor)
{
    for (int steps = 0; tensor >= 0 && steps < 8; steps++) {
        const int64_t producer = listing->tensor[tensor].producer;
        if (producer < 0)
            return false;
        const th_node *node = th_listing_node(listing, producer);
        if (is_product(node))
            return true;
        const bool second = th_node_is(node, "where"); /* where(condition, scores, -inf) */
        tensor = th_listing_input(listing, producer, second ? 1 : 0);
    }
    return false;
}

/* Returns the node that uses a tensor as its input 0; -1 without one. */
static int64_t find_user(const th_listing *listing, int64_t tensor)
{
    for (int64_t n = listing->tensor[tensor].producer + 1; n < listing->nodes; n++)
        if (th_listing_node(listing, n)->n_inputs > 0 && th_listing_input(listing, n, 0) == tensor)
            return n;
    return -1;
}

/* Returns whether a tensor goes into a matrix product, through dropout and views. */
static bool goes_to_product(const th_listing *listing, int64_t tensor)
{
    for (int64_t user = find_user(listing, tensor); user >= 0; user = find_user(listing, tensor)) {
        const th_node *node = th_listing_node(listing, user);
        if (is_product(node))
            return true;
        if (!th_node_is(node, "dropout") && !(node->op->flags & TH_OP_VIEW))
            return false;
        tensor = th_listing_output(listing, user, 0);
    }
    return false;
}

static bool is_attention_softmax(const th_listing *listing, int64_t node)
{
    const th_node *softmax = th_listing_node(listing, node);
    const int64_t x = th_listing_input(listing, node, 0);
    if (th_node_is(softmax, "masked_softmax"))
        return true;
    if (!th_node_is(softmax, "softmax") || th_node_input(softmax, 0)->tensor->ndim < 2)
        return false;
    const int axis = ((const th_axis *)softmax->attributes)->axis, last = th_node_input(softmax, 0)->tensor->ndim - 1;
    return (axis == last || axis == -1) && comes_from_product(listing, x) &&
           goes_to_product(listing, th_listing_output(listing, node, 0));
}

/* -- copies -- */

static th_status copy_array(th_listing *to, const th_array *from, th_array *array)
{
    if (th_listing_array(to, from, from->dtype, array) == TH_OK)
        th_copy_array(to->ctx, array, from, false);
    return to->ctx->error;
}

/* Fills `visible` (N, T, S) from the rules and tensors of a mask. Returns whether all pairs are visible. */
static bool fill_mask(const th_context *ctx, const th_mask_view *view, const th_array *visible)
{
    const th_kernels *kernels = th_context_kernels(ctx, view->additive.given ? view->additive.dtype : TH_FLOAT32);
    const int key_axis = visible->ndim - 1;
    const int64_t keys = visible->size[key_axis], count = th_array_numel(visible);
    bool *row = visible->data;
    for (int64_t r = 0; keys > 0 && r < count / keys; r++, row += keys) {
        int64_t index[TH_MAX_DIMS];
        th_index_at(key_axis, visible->size, r, index);
        const th_visible_row rule = th_mask_row(view, index);
        kernels->visible_keys(0, keys, &rule, row);
    }
    return count == 0 || memchr(visible->data, 0, (size_t)count) == NULL;
}

/* Adds the additive mask to the scores of visible pairs. */
static void add_mask(th_attention_inside *inside, const th_array *additive)
{
    if (!additive->given)
        return;
    const int64_t count = th_array_numel(&inside->scores);
    const bool *visible = inside->mask.given ? inside->mask.data : NULL;
    for (int64_t i = 0; i < count; i++) {
        int64_t index[TH_MAX_DIMS], offset = 0;
        th_index_at(inside->scores.ndim, inside->scores.size, i, index);
        for (int d = 0; d < additive->ndim; d++)
            offset += index[d] * additive->stride[d];
        const size_t element = th_dtype_size(inside->scores.dtype);
        char *score = (char *)inside->scores.data + (size_t)i * element;
        const double added = th_number_read(additive->dtype, (const char *)additive->data + offset * (int64_t)element);
        if (visible == NULL || visible[i])
            th_number_write(inside->scores.dtype, score, th_number_read(inside->scores.dtype, score) + added);
    }
}

/* Copies the mask of a masked_softmax, whose tensors are inputs 1 to 4, and adds the additive one to the scores. */
static th_status copy_mask(th_attention_inside *inside, th_listing *to, const th_node *softmax)
{
    th_array tensors[TH_MASK_INPUTS];
    for (int i = 0; i < TH_MASK_INPUTS; i++) {
        const th_tensor_impl *t = th_node_input(softmax, 1 + i)->tensor;
        tensors[i] = t ? th_tensor_array(t) : (th_array){.given = false, .dtype = TH_FLOAT32};
    }
    th_mask_view view;
    th_mask_view_init(&view, softmax->attributes, tensors, inside->scores.ndim, inside->scores.size);
    if (th_listing_array(to, &inside->scores, TH_BOOL, &inside->mask) != TH_OK)
        return to->ctx->error;
    inside->mask.given = !fill_mask(to->ctx, &view, &inside->mask);
    add_mask(inside, &view.additive);
    return TH_OK;
}

/* Returns the factor of the scale just before the softmax; 1 without one. */
static double scale_before(const th_listing *listing, int64_t scores)
{
    const int64_t producer = listing->tensor[scores].producer;
    const th_node *node = producer < 0 ? NULL : th_listing_node(listing, producer);
    return node && th_node_is(node, "scale") ? *(const double *)node->attributes : 1;
}

/* Copies the weights after dropout, if the softmax is followed by dropout. */
static th_status copy_dropped(th_attention_inside *inside, th_listing *to, const th_listing *from, int64_t weights)
{
    const int64_t user = find_user(from, weights);
    if (user < 0 || !th_node_is(th_listing_node(from, user), "dropout"))
        return TH_OK;
    const th_array dropped = th_tensor_array(th_node_output(th_listing_node(from, user), 0)->tensor);
    return copy_array(to, &dropped, &inside->dropped);
}

/* Copies the arrays around a softmax, of one listing or of a composition, to the listing `to`. */
static th_status copy_softmax(th_attention_inside *inside, th_listing *to, const th_listing *from,
                              const th_contributions *contributions, int64_t node)
{
    const th_node *softmax = th_listing_node(from, node);
    const int64_t scores = th_listing_input(from, node, 0), weights = th_listing_output(from, node, 0);
    const th_array s = th_tensor_array(from->tensor[scores].tensor), a = th_tensor_array(from->tensor[weights].tensor);
    const th_contribution *ds = th_contribution_of(contributions, from, node, 0);
    th_array da;
    inside->given = true;
    inside->scale = scale_before(from, scores);
    inside->heads = s.ndim > 2 ? s.size[s.ndim - 3] : 1;
    if (copy_array(to, &s, &inside->scores) != TH_OK || copy_array(to, &a, &inside->weights) != TH_OK ||
        copy_dropped(inside, to, from, weights) != TH_OK)
        return to->ctx->error;
    if (th_node_is(softmax, "masked_softmax") && copy_mask(inside, to, softmax) != TH_OK)
        return to->ctx->error;
    if (ds->how == TH_HOW_NONE || !th_listing_gradient(from->tensor[weights].tensor, &da))
        return TH_OK;
    return copy_array(to, &da, &inside->dweights) == TH_OK ? copy_array(to, &ds->gradient, &inside->dscores)
                                                           : to->ctx->error;
}

/* -- the fused operation -- */

/* Adds A dlse to dS, where dlse is the gradient of the log-sum-exp. The composition does not have this output. */
static void add_log_sum_exp_gradient(const th_attention_inside *inside, const th_array *gradient)
{
    const int64_t keys = inside->scores.size[inside->scores.ndim - 1], count = th_array_numel(&inside->scores);
    const th_dtype dtype = inside->scores.dtype;
    const size_t element = th_dtype_size(dtype);
    for (int64_t i = 0; inside->dscores.given && i < count; i++) {
        int64_t index[TH_MAX_DIMS], offset = 0;
        th_index_at(gradient->ndim, gradient->size, i / keys, index);
        for (int d = 0; d < gradient->ndim; d++)
            offset += index[d] * gradient->stride[d];
        char *ds = (char *)inside->dscores.data + (size_t)i * element;
        const double dlse = th_number_read(dtype, (const char *)gradient->data + offset * (int64_t)element);
        const double a = th_number_read(dtype, (const char *)inside->weights.data + (size_t)i * element);
        th_number_write(dtype, ds, th_number_read(dtype, ds) + a * dlse);
    }
}

static th_status look_into_fused(th_attention_inside *inside, th_listing *listing,
                                 const th_contributions *contributions, int64_t node)
{
    const th_node *fused = th_listing_node(listing, node);
    const th_tensor_impl *log_sum_exp = th_node_output(fused, TH_ATTENTION_LOG_SUM_EXP)->tensor;
    th_array gradient, sums_gradient;
    const bool reached = contributions->order[node] >= 0 &&
                         th_listing_gradient(th_node_output(fused, TH_ATTENTION_O)->tensor, &gradient);
    th_composition c;
    th_status status = th_composition_run(&c, listing, node, reached ? &gradient : NULL);
    for (int64_t n = 0; status == TH_OK && n < c.listing.nodes && !inside->given; n++)
        if (th_node_is(th_listing_node(&c.listing, n), "masked_softmax"))
            status = copy_softmax(inside, listing, &c.listing, &c.contributions, n);
    th_composition_end(&c);
    inside->scale = ((const th_attention_attributes *)fused->attributes)->scale;
    if (status == TH_OK && log_sum_exp && th_listing_gradient(log_sum_exp, &sums_gradient))
        add_log_sum_exp_gradient(inside, &sums_gradient);
    return status;
}

th_status th_attention_look_inside(th_attention_inside *inside, th_listing *listing,
                                   const th_contributions *contributions, int64_t node)
{
    *inside = (th_attention_inside){.given = false};
    if (th_node_is(th_listing_node(listing, node), "scaled_dot_product_attention"))
        return look_into_fused(inside, listing, contributions, node);
    if (is_attention_softmax(listing, node))
        return copy_softmax(inside, listing, listing, contributions, node);
    return TH_OK;
}
