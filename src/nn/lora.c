/* The adapter of one projection: its parameters, and what it adds to the projection. */
#include "nn/lora.h"

#include <math.h>

#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

static const th_module_option lora_options[] = {
    TH_MODULE_REAL(th_lora, scale), TH_MODULE_REAL(th_lora, setting.dropout), {.name = NULL}};
static const th_module_type lora_type = {.name = "lora",
                                         .bytes = sizeof(th_lora),
                                         .no_forward = "is a part of the layer that it adapts: run the layer",
                                         .options = lora_options};

void th_lora_release_saved_weight(th_lora *l)
{
    th_release_numbers(l->base.ctx, l->saved_weight, l->saved_bytes);
    l->saved_weight = NULL;
    l->saved_bytes = 0;
}

static void release_lora(th_module *m)
{
    th_lora_release_saved_weight((th_lora *)m);
}

th_lora *th_lora_new(th_context *ctx, const th_lora_setting *setting, th_dtype dtype, int64_t rows, int64_t input,
                     th_tensor *shared)
{
    th_lora *l = th_module_new_of_type(ctx, &lora_type);
    if (l == NULL)
        return NULL;
    l->base.destroy = release_lora;
    l->setting = *setting;
    l->scale = setting->alpha / (setting->rank_stabilized ? sqrt((double)setting->rank) : (double)setting->rank);
    l->a = shared ? th_module_tie_parameter(&l->base, "A", shared)
                  : th_module_add_adapter_parameter(&l->base, "A", TH_SHAPE(setting->rank, input), dtype);
    l->b = th_module_add_adapter_parameter(&l->base, "B", TH_SHAPE(rows, setting->rank), dtype);
    return (th_lora *)th_module_finish(&l->base);
}

th_status th_lora_initialize(const th_lora *l)
{
    const double bound = 1 / sqrt((double)th_size(l->a, 1));
    return th_fill_uniform(l->a, -bound, bound);
}

th_tensor *th_lora_reduce(th_lora *l, th_tensor *x)
{
    th_context *ctx = l->base.ctx;
    if (!th_module_begin(&l->base))
        return NULL;
    th_scope_begin_recomputed(ctx, NULL); /* the dropped x is not saved, but computed again */
    th_tensor *h = th_scope_end(ctx, th_dense(th_dropout(x, l->setting.dropout), l->a, NULL));
    return th_module_end(&l->base, l->scale == 1 ? h : th_scale(h, l->scale));
}

th_tensor *th_lora_expand(th_lora *l, th_tensor *reduced, th_tensor *residual)
{
    if (!th_module_begin(&l->base))
        return NULL;
    return th_module_end(&l->base, th_dense(reduced, l->b, &(th_dense_options){.residual = residual}));
}

th_tensor *th_lora_residual(th_lora *l, th_tensor *x, th_tensor *residual)
{
    if (!th_lora_is_active(l))
        return residual;
    th_scope_begin(l->base.ctx, NULL);
    return th_scope_end(l->base.ctx, th_lora_expand(l, th_lora_reduce(l, x), residual));
}
