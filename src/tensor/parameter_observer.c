/* Calls the observers of parameters: see parameter_observer.h. */
#include "tensor/parameter_observer.h"

#include "tensor/attachment.h"
#include "tensor/context_struct.h"

void th_observe_parameters(th_context *ctx, const void *object, const th_parameter_observer *observer)
{
    th_attachment *attachment = ctx->attachments;
    while (attachment->object != object)
        attachment = attachment->next;
    attachment->observer = observer;
}

th_status th_observers_notify_reserve(th_context *ctx, const char *operation)
{
    for (const th_attachment *attachment = ctx->attachments; attachment; attachment = attachment->next)
        if (attachment->observer && attachment->observer->reserve &&
            attachment->observer->reserve(ctx, attachment->object, operation) != TH_OK)
            return ctx->error;
    return TH_OK;
}

void th_observers_notify_unreserve(th_context *ctx)
{
    for (const th_attachment *attachment = ctx->attachments; attachment; attachment = attachment->next)
        if (attachment->observer && attachment->observer->unreserve)
            attachment->observer->unreserve(ctx, attachment->object);
}

void th_observers_notify_move(th_context *ctx)
{
    for (const th_attachment *attachment = ctx->attachments; attachment; attachment = attachment->next)
        if (attachment->observer && attachment->observer->move)
            attachment->observer->move(ctx, attachment->object);
}

void th_observers_notify_read(th_context *ctx)
{
    for (const th_attachment *attachment = ctx->attachments; attachment; attachment = attachment->next)
        if (attachment->observer && attachment->observer->read)
            attachment->observer->read(ctx, attachment->object);
}

void th_observers_notify_forget_parameter(th_context *ctx, const th_tensor_impl *parameter)
{
    for (const th_attachment *attachment = ctx->attachments; attachment; attachment = attachment->next)
        if (attachment->observer && attachment->observer->forget_parameter)
            attachment->observer->forget_parameter(ctx, attachment->object, parameter);
}

void th_observers_notify_forget_module(th_context *ctx, const void *module)
{
    for (const th_attachment *attachment = ctx->attachments; attachment; attachment = attachment->next)
        if (attachment->observer && attachment->observer->forget_module)
            attachment->observer->forget_module(ctx, attachment->object, module);
}
