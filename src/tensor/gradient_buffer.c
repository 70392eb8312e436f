/* The place of a gradient: how it ends. See place.h. */
#include "tensor/gradient_buffer.h"

void th_place_end_tensor(th_place *place)
{
    if (place->tensor == NULL)
        return;
    th_handle_give_up(place->tensor, TH_LIFE_UNUSED);
    th_handle_free_owned(place->tensor);
    place->tensor = NULL;
}

void th_place_end(th_place *place)
{
    th_place_end_tensor(place);
    if (place->memory)
        th_storage_drop(place->root->ctx, place->memory);
    *place = th_place_new(place->root, place->kind, place->node);
}
