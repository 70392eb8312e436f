/* Copies the adapters of a model to another model with the same layers, usually in another context. */
#include <string.h>

#include "nn/lora.h"
#include "tapehead/lora.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

static const char operation[] = "lora_copy";

/* The same projection in both models. */
typedef struct projection_pair {
    th_projection to, from;
} projection_pair;

static projection_pair begin_pairs(const th_module *to, const th_module *from)
{
    return (projection_pair){th_projections_begin(to), th_projections_begin(from)};
}

/* Moves to the next pair. Returns false at the end, or with an error pending if the models have different layers. */
static bool next_pair(th_context *ctx, projection_pair *pair)
{
    const bool more = th_projection_next(&pair->to);
    if (th_projection_next(&pair->from) == more &&
        (!more || (strcmp(pair->to.name, pair->from.name) == 0 && pair->to.rows == pair->from.rows &&
                   pair->to.input == pair->from.input)))
        return more;
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the models have different layers: %s",
            more ? pair->to.name : "one has more than the other");
    return false;
}

/* Checks that the models have the same layers and, if `to` has adapters, the same adapters. */
static th_status check_models(th_module *to, const th_module *from, bool adapted)
{
    th_context *ctx = to->ctx;
    for (projection_pair pair = begin_pairs(to, from); next_pair(ctx, &pair);) {
        const th_lora *new = *pair.from.lora, *old = *pair.to.lora;
        if (old && !th_lora_is_active(old))
            return th_fail(ctx, TH_ERROR_STATE, operation, "the adapter of %s is merged: th_lora_unmerge first",
                           pair.to.name);
        if (adapted && (!new != !old || (new && (new->setting.rank != old->setting.rank || new->scale != old->scale ||
                                                 th_dtype_of(new->a) != th_dtype_of(old->a)))))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "the models have different adapters for %s: th_lora_detach removes the old ones",
                           pair.to.name);
    }
    return ctx->error;
}

/* Attaches adapters with the settings of those of `from`, which share A as those do. */
static th_status attach_all(th_module *to, const th_module *from)
{
    th_tensor *shared = NULL;
    const th_tensor *shared_from = NULL;
    for (projection_pair pair = begin_pairs(to, from); next_pair(to->ctx, &pair);) {
        const th_lora *new = *pair.from.lora;
        if (new == NULL)
            continue;
        const th_lora *l = th_lora_attach_to(&pair.to, &new->setting, new->a == shared_from ? shared : NULL);
        if (l == NULL)
            return to->ctx->error;
        if (th_dtype_of(l->a) != th_dtype_of(new->a))
            return th_fail(to->ctx, TH_ERROR_TYPE, operation, "the adapter of %s is %s, and the model needs %s",
                           pair.from.name, th_dtype_name(th_dtype_of(new->a)), th_dtype_name(th_dtype_of(l->a)));
        shared = l->a;
        shared_from = new->a;
    }
    return to->ctx->error;
}

static th_status copy_values(th_tensor *to, const th_tensor *from)
{
    const size_t bytes = (size_t)th_numel(from) * th_dtype_size(th_dtype_of(from));
    return th_copy_in(to, th_data_const(from), bytes);
}

static th_status copy_all(th_module *to, const th_module *from)
{
    for (projection_pair pair = begin_pairs(to, from); next_pair(to->ctx, &pair);)
        if (*pair.from.lora && (copy_values((*pair.to.lora)->a, (*pair.from.lora)->a) != TH_OK ||
                                copy_values((*pair.to.lora)->b, (*pair.from.lora)->b) != TH_OK))
            return to->ctx->error;
    return to->ctx->error;
}

th_status th_lora_copy(th_module *to, const th_module *from)
{
    if (!th_module_usable(to, operation))
        return to ? to->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = to->ctx;
    if (!th_module_usable(from, operation))
        return from ? from->ctx->error : ctx->error;
    if (th_refuse_in_check(ctx, operation) != TH_OK)
        return ctx->error;
    if (ctx->options.shapes_only || from->ctx->options.shapes_only)
        return th_fail(ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    if (th_lora_count(from) == 0)
        return th_fail(ctx, TH_ERROR_STATE, operation, "the model has no adapter to copy");
    const bool adapted = th_lora_count(to) > 0;
    if (check_models(to, from, adapted) != TH_OK)
        return ctx->error;
    if (!adapted && attach_all(to, from) != TH_OK) {
        th_lora_remove_all(to);
        return ctx->error;
    }
    if (!adapted)
        th_lora_freeze_base(to);
    return copy_all(to, from);
}
