/* The elements that dropout kept. The script has them as a constant, because it does not check Philox's random
 * numbers. */
#include <inttypes.h>

#include "export/python/script.h"
#include "kernels/random/philox.h"
#include "ops/shared/attention.h"
#include "ops/shared/drop.h"

static bool is_attention(const th_node *node)
{
    return th_node_is(node, "scaled_dot_product_attention");
}

static double drop_probability(const th_node *node)
{
    return is_attention(node) ? ((const th_attention_attributes *)node->attributes)->dropout
                              : ((const th_drop_attributes *)node->attributes)->p;
}

bool th_script_has_dropout(const th_node *node)
{
    return th_node_is(node, "dropout") || th_node_is(node, "dropout_residual") ||
           (is_attention(node) && node->training && drop_probability(node) > 0);
}

void th_script_put_kept(const th_script *script, int64_t node)
{
    const th_node *recorded = th_listing_node(&script->listing, node);
    if (th_script_has_dropout(recorded))
        fprintf(script->file, ", kept=given(\"kept%" PRId64 "\")", node);
    else if (is_attention(recorded))
        fputs(", kept=None", script->file);
}

/* Returns the shape of what is dropped: x, or the weights of attention. */
static th_array dropped_shape(const th_node *node)
{
    th_array shape = th_tensor_array(th_node_input(node, 0)->tensor);
    if (is_attention(node))
        shape.size[shape.ndim - 1] = th_node_input(node, TH_ATTENTION_K)->tensor->size[shape.ndim - 2];
    return shape;
}

th_status th_script_make_kept(th_script *script, const th_node *node, th_array *kept)
{
    const th_array shape = dropped_shape(node);
    if (th_listing_array(&script->listing, &shape, TH_BOOL, kept) != TH_OK)
        return script->listing.ctx->error;
    const th_dropout_mask mask = th_dropout_mask_make(
        (th_philox){{node->random.key[0], node->random.key[1]}, node->random.call, node->random.step},
        drop_probability(node));
    const int64_t columns = shape.ndim > 0 ? shape.size[shape.ndim - 1] : 1, numel = th_array_numel(&shape);
    bool *keeps = kept->data;
    for (int64_t i = 0; i < numel; i++) {
        uint32_t words[4];
        th_philox_block(&mask.random, (uint32_t)(i % columns / 4), (uint32_t)(i / columns), words);
        keeps[i] = words[i % columns % 4] >= mask.threshold;
    }
    return TH_OK;
}
