/* Objects attached to a context, and their handles. The high bits of a handle are the context's number, the low bits
 * the object's. */
#include "tensor/attachment.h"

#include "tensor/context_struct.h"
#include "tensor/contexts.h"
#include "tensor/handle_bits.h"
#include "tensor/memory.h"

bool th_attach_object(th_context *ctx, void *object, void (*release)(th_context *ctx, void *object))
{
    th_attachment *attachment = th_allocate(ctx, sizeof *attachment);
    if (attachment == NULL)
        return false;
    *attachment = (th_attachment){.release = release, .object = object, .next = ctx->attachments};
    ctx->attachments = attachment;
    return true;
}

void th_detach_object(th_context *ctx, void *object)
{
    for (th_attachment **link = &ctx->attachments; *link; link = &(*link)->next) {
        th_attachment *attachment = *link;
        if (attachment->object == object) {
            *link = attachment->next;
            th_release(ctx, attachment, sizeof *attachment);
            return;
        }
    }
}

static const uint64_t object_mask = ((uint64_t)1 << (TH_HANDLE_TENSOR_BITS + 1)) - 1;

static bool number_is_used(const th_context *ctx, uint64_t number)
{
    const th_attachment *attachment = ctx->attachments;
    while (attachment && attachment->number != number)
        attachment = attachment->next;
    return attachment != NULL;
}

/* Returns the next number; not 0, which attachments without a handle have. */
static uint64_t next_number(th_context *ctx)
{
    do
        ctx->last_object_number = (ctx->last_object_number + 1) & object_mask;
    while (ctx->last_object_number == 0 || number_is_used(ctx, ctx->last_object_number));
    return ctx->last_object_number;
}

void *th_object_handle(th_context *ctx, const void *object)
{
    th_attachment *attachment = ctx->attachments;
    while (attachment->object != object)
        attachment = attachment->next;
    if (attachment->number == 0)
        attachment->number = next_number(ctx);
    return (void *)(uintptr_t)((uint64_t)ctx->number << (TH_HANDLE_TENSOR_BITS + 1) | attachment->number);
}

th_context *th_object_context(const void *handle)
{
    return th_contexts_find((uint32_t)((uint64_t)(uintptr_t)handle >> (TH_HANDLE_TENSOR_BITS + 1)));
}

void *th_object_of(const void *handle, void (*release)(th_context *ctx, void *object))
{
    const uint64_t number = (uint64_t)(uintptr_t)handle & object_mask;
    const th_context *ctx = th_object_context(handle);
    const th_attachment *attachment = ctx && number ? ctx->attachments : NULL;
    while (attachment && (attachment->number != number || attachment->release != release))
        attachment = attachment->next;
    return attachment ? attachment->object : NULL;
}
