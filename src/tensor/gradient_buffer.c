/* The place of a gradient: how it ends. See place.h. */
#include "tensor/gradient_buffer.h"

void th_gradient_buffer_release_tensor(th_gradient_buffer *place)
{
    if (place->tensor == NULL)
        return;
    th_handle_give_up(place->tensor, TH_LIFE_UNUSED);
    th_handle_free_owned(place->tensor);
    place->tensor = NULL;
}

void th_gradient_buffer_release(th_gradient_buffer *place)
{
    th_gradient_buffer_release_tensor(place);
    if (place->memory)
        th_storage_drop(place->root->ctx, place->memory);
    *place = th_gradient_buffer_new(place->root, place->kind, place->node);
}
