/* Releasing gradient buffers. */
#include "tensor/gradient_buffer.h"

void th_gradient_buffer_release_tensor(th_gradient_buffer *buffer)
{
    if (buffer->tensor == NULL)
        return;
    th_handle_release(buffer->tensor, TH_LIFE_UNUSED);
    th_handle_free_owned(buffer->tensor);
    buffer->tensor = NULL;
}

void th_gradient_buffer_release(th_gradient_buffer *buffer)
{
    th_gradient_buffer_release_tensor(buffer);
    if (buffer->memory)
        th_storage_drop(buffer->root->ctx, buffer->memory);
    *buffer = th_gradient_buffer_new(buffer->root, buffer->kind, buffer->node);
}
