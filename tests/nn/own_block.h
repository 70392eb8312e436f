/* A user-defined layer: a pre-norm transformer block, x + attention(norm1(x)), then
 * x + linear2(gelu(linear1(norm2(x)))), with dropout on both branches. (B, T, E) -> (B, T, E) */
#ifndef TESTS_OWN_BLOCK_H
#define TESTS_OWN_BLOCK_H

#include "tapehead/tapehead.h"

typedef struct {
    th_module base;
    th_module *norm1, *self_attn, *norm2, *linear1, *linear2, *dropout;
} block;

static inline th_tensor *block_forward(th_module *m, th_tensor *x)
{
    const block *b = (const block *)m;
    th_tensor *h = th_module_forward(b->norm1, x);
    h = th_attend(b->self_attn, h, h, h, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
    x = th_add(x, th_module_forward(b->dropout, h));
    h = th_gelu(th_module_forward(b->linear1, th_module_forward(b->norm2, x)));
    return th_add(x, th_module_forward(b->dropout, th_module_forward(b->linear2, h)));
}

static inline th_module *block_new(th_context *c, int64_t width, int64_t heads, double p)
{
    block *b = th_module_new(c, sizeof *b, "block", block_forward);
    if (b == NULL)
        return NULL;
    b->norm1 = th_module_add(&b->base, "norm1", th_layer_norm_new(c, width, NULL));
    b->self_attn =
        th_module_add(&b->base, "self_attn",
                      th_multi_head_attention_new(c, width, heads, &(th_multi_head_attention_options){.dropout = p}));
    b->norm2 = th_module_add(&b->base, "norm2", th_layer_norm_new(c, width, NULL));
    b->linear1 = th_module_add(&b->base, "linear1", th_dense_new(c, width, 4 * width, NULL));
    b->linear2 = th_module_add(&b->base, "linear2", th_dense_new(c, 4 * width, width, NULL));
    b->dropout = th_module_add(&b->base, "dropout", th_dropout_new(c, p));
    return &b->base;
}

#endif
