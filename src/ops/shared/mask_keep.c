/* th_mask_keep: any mask as one bool tensor. */
#include <string.h>

#include "kernels/sizes.h"
#include "ops/shared/mask.h"
#include "tensor/tensor.h"

/* Returns the shape that is computed: size 1 along axes on which no rule depends. The result is expanded later. */
static th_shape compact_shape(const th_mask_view *view)
{
    th_shape compact = {.ndim = view->ndim};
    for (int i = 0; i < view->ndim; i++) {
        const bool by_position = view->band.causal || view->band.window;
        const bool banded = (by_position && (i == view->ndim - 2 || view->positions.stride[i])) ||
                            (view->documents.given && (i == view->ndim - 2 || view->documents.stride[i]));
        const bool varies = i == view->ndim - 1 || banded || view->valid_lengths.stride[i] || view->keep.stride[i] ||
                            view->additive.stride[i];
        compact.size[i] = varies || view->size[i] == 0 ? view->size[i] : 1;
    }
    return compact;
}

/* Fills `visible` row by row. Returns whether all pairs are visible. */
static bool fill_visible(const th_context *ctx, const th_mask_view *view, const th_shape *compact, bool *visible)
{
    const th_kernels *kernels = th_context_kernels(ctx, view->additive.dtype);
    const int key_axis = compact->ndim - 1;
    const int64_t keys = compact->size[key_axis];
    int64_t rows = 1, index[TH_MAX_DIMS];
    for (int i = 0; i < key_axis; i++)
        rows *= compact->size[i];
    for (int64_t r = 0; r < rows; r++) {
        th_index_at(key_axis, compact->size, r, index);
        const th_visible_row row = th_mask_row(view, index);
        kernels->visible_keys(0, keys, &row, visible + r * keys);
    }
    return memchr(visible, 0, (size_t)(rows * keys)) == NULL;
}

/* Returns whether causal order and window leave all keys visible to all queries. */
static bool band_masks_nothing(const th_mask_view *view)
{
    const th_key_range edges = th_band_edges(&view->band);
    const int64_t first = view->band.position, last = first + view->size[view->ndim - 2] - 1;
    return edges.first + last <= 0 && edges.past + first >= view->size[view->ndim - 1];
}

th_tensor *th_mask_keep(th_context *ctx, const th_mask *mask, th_shape scores)
{
    const char *const operation = "mask_keep";
    th_mask_rules rules;
    th_array tensors[TH_MASK_INPUTS];
    if (!th_mask_open(ctx, operation, mask, &scores, &rules, tensors))
        return NULL;
    const bool by_position = rules.causal != TH_CAUSAL_NONE || rules.has_window,
               by_values = tensors[TH_MASK_VALID_LENGTHS].given || tensors[TH_MASK_KEEP].given ||
                           tensors[TH_MASK_ADDITIVE].given || (by_position && tensors[TH_MASK_POSITIONS].given);
    th_mask_view view;
    th_mask_view_init(&view, &rules, tensors, scores.ndim, scores.size);
    /* This needs no data, so a context with shapes_only gives the same answer. */
    if (!by_values && (!by_position || band_masks_nothing(&view)))
        return NULL;
    const th_shape compact = compact_shape(&view);
    th_tensor_impl *result = th_tensor_new(ctx, TH_BOOL, compact.ndim, compact.size, false, operation);
    if (!result)
        return NULL;
    /* NULL with shapes_only: then the mask counts as one that masks something. */
    bool *visible = th_tensor_data(result);
    const bool all_visible = th_tensor_numel(result) == 0 || (visible && fill_visible(ctx, &view, &compact, visible));
    if (all_visible) {
        th_handle_release(result, TH_LIFE_RELEASED);
        return NULL;
    }
    return th_expand(th_handle_of(result), scores);
}
