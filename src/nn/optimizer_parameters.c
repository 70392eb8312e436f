/* Follows the parameters of optimizers when modules are freed or cast. */
#include "nn/optimizer_parameters.h"

#include <string.h>

#include "nn/optimizer_state.h"

static th_optimizer_parameter *parameter_of(const th_optimizer *o, const th_tensor_impl *parameter)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].tensor == parameter)
            return &o->parameters[i];
    return NULL;
}

void th_optimizers_forget_parameter(th_context *ctx, const th_tensor_impl *parameter)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = th_optimizer_next(&at); o; o = th_optimizer_next(&at)) {
        th_optimizer_parameter *removed = parameter_of(o, parameter);
        if (removed == NULL)
            continue;
        th_moments_clear(o, removed);
        o->count--;
        memmove(removed, removed + 1, (size_t)(&o->parameters[o->count] - removed) * sizeof *removed);
        o->sorted = false;
        th_moments_drop_unused(o);
    }
}

void th_optimizers_forget_module(th_context *ctx, const th_module *module)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = th_optimizer_next(&at); o; o = th_optimizer_next(&at))
        if (o->module == module)
            o->module = NULL;
}

th_status th_optimizers_reserve(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = th_optimizer_next(&at); o; o = th_optimizer_next(&at))
        for (int64_t i = 0; i < o->count; i++) {
            const th_optimizer_parameter *moving = &o->parameters[i];
            if (moving->moments && moving->entry->successor &&
                th_moments_reserve(o, moving->entry->successor->block) != TH_OK)
                return ctx->error;
        }
    return TH_OK;
}

void th_optimizers_unreserve(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = th_optimizer_next(&at); o; o = th_optimizer_next(&at))
        th_moments_discard_reserved(o);
}

void th_optimizers_move(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = th_optimizer_next(&at); o; o = th_optimizer_next(&at)) {
        th_moments_adopt_reserved(o);
        for (int64_t i = 0; i < o->count; i++) {
            th_optimizer_parameter *p = &o->parameters[i];
            if (p->entry->successor == NULL)
                continue;
            if (p->moments)
                th_moments_move(o, p);
            p->entry = p->entry->successor;
            o->sorted = false;
        }
        th_moments_drop_unused(o);
    }
}
