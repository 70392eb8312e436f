/* The rules of a th_mask as plain data, and the keys that one query sees (mask.h). */
#include "ops/shared/mask.h"

#include <string.h>

#include "kernels/sizes.h"
#include "tensor/convert.h"
#include "tensor/shape.h"

const char *const th_mask_names[TH_MASK_INPUTS] = {"valid_lengths", "keep", "additive", "positions"};

th_mask_rules th_mask_rules_of(const th_mask *mask)
{
    th_mask_rules rules = {0};
    if (mask) {
        rules.causal = (int32_t)mask->causal;
        rules.has_window = mask->window.given;
        rules.left = mask->window.given ? mask->window.left : 0;
        rules.right = mask->window.given ? mask->window.right : 0;
        rules.documents = mask->documents == NULL ? 0 : mask->valid_lengths ? 2 : 1;
    }
    return rules;
}

void th_mask_tensors(const th_mask *mask, th_tensor **tensors)
{
    tensors[TH_MASK_VALID_LENGTHS] = mask == NULL ? NULL : mask->documents ? mask->documents : mask->valid_lengths;
    tensors[TH_MASK_KEEP] = mask ? mask->keep : NULL;
    tensors[TH_MASK_ADDITIVE] = mask ? mask->additive : NULL;
    tensors[TH_MASK_POSITIONS] = mask ? mask->positions : NULL;
}

/* Returns the keys that causal order and the window leave visible, relative to a query's position. */
static th_band band_of(const th_mask_rules *rules, bool positions, int64_t queries, int64_t keys)
{
    const bool at_end = !positions && rules->causal == TH_CAUSAL_BOTTOM_RIGHT;
    return (th_band){.causal = rules->causal != TH_CAUSAL_NONE,
                     .window = rules->has_window,
                     .left = rules->left,
                     .right = rules->right,
                     .position = at_end ? keys - queries : 0};
}

/* Broadcasts lengths to the scores: (B) or (B, T); for scores of two dimensions () or (T). */
static th_array broadcast_lengths(const th_array *lengths, int ndim, const int64_t *size)
{
    th_array result = {.given = true, .data = lengths->data, .dtype = lengths->dtype, .ndim = ndim};
    memcpy(result.size, size, (size_t)ndim * sizeof *size);
    if (lengths->ndim > 0)
        result.stride[0] = lengths->stride[0];
    if (lengths->ndim > 1)
        result.stride[ndim - 2] = lengths->stride[1];
    return result;
}

/* Broadcasts positions (T) or (B, T) to the scores. */
static th_array broadcast_positions(const th_array *positions, int ndim, const int64_t *size)
{
    th_array result = {.given = true, .data = positions->data, .dtype = positions->dtype, .ndim = ndim};
    memcpy(result.size, size, (size_t)ndim * sizeof *size);
    if (positions->ndim > 1)
        result.stride[0] = positions->stride[0];
    result.stride[ndim - 2] = positions->stride[positions->ndim - 1];
    return result;
}

int64_t th_mask_integer(const th_array *array, int64_t offset)
{
    const int64_t bytes = offset * (int64_t)th_dtype_size(array->dtype);
    return th_integer_read(array->dtype, (const char *)array->data + bytes);
}

void th_mask_view_init(th_mask_view *view, const th_mask_rules *rules, const th_array *tensors, int ndim,
                       const int64_t *scores)
{
    const bool positions = tensors[TH_MASK_POSITIONS].given;
    *view = (th_mask_view){.band = band_of(rules, positions, scores[ndim - 2], scores[ndim - 1]), .ndim = ndim};
    memcpy(view->size, scores, (size_t)ndim * sizeof *scores);
    if (tensors[TH_MASK_VALID_LENGTHS].given && rules->documents)
        view->documents = broadcast_positions(&tensors[TH_MASK_VALID_LENGTHS], ndim, scores);
    else if (tensors[TH_MASK_VALID_LENGTHS].given)
        view->valid_lengths = broadcast_lengths(&tensors[TH_MASK_VALID_LENGTHS], ndim, scores);
    if (tensors[TH_MASK_KEEP].given)
        view->keep = th_broadcast_array(&tensors[TH_MASK_KEEP], ndim, scores);
    if (tensors[TH_MASK_ADDITIVE].given)
        view->additive = th_broadcast_array(&tensors[TH_MASK_ADDITIVE], ndim, scores);
    if (positions)
        view->positions = broadcast_positions(&tensors[TH_MASK_POSITIONS], ndim, scores);
}

int64_t th_mask_position(const th_mask_view *view, const int64_t *index)
{
    const th_array *positions = &view->positions;
    return positions->given
               ? th_smaller(th_mask_integer(positions, th_offset_of(view->ndim - 1, index, positions->stride)),
                            TH_FAR_KEY)
               : index[view->ndim - 2] + view->band.position;
}

th_key_range th_mask_document(const th_array *numbers, int64_t offset, int64_t stride, int64_t token, int64_t count)
{
    const int64_t number = th_mask_integer(numbers, offset + token * stride);
    th_key_range tokens = {token, token + 1};
    while (tokens.first > 0 && th_mask_integer(numbers, offset + (tokens.first - 1) * stride) == number)
        tokens.first--;
    while (tokens.past < count && th_mask_integer(numbers, offset + tokens.past * stride) == number)
        tokens.past++;
    return tokens;
}

/* Limits a query's keys to its document. */
static th_key_range limit_to_document(const th_mask_view *view, const int64_t *index, th_key_range keys)
{
    const th_array *numbers = &view->documents;
    const int query_axis = view->ndim - 2;
    const th_key_range document =
        th_mask_document(numbers, th_offset_of(query_axis, index, numbers->stride), numbers->stride[query_axis],
                         index[query_axis], view->size[query_axis]);
    keys = (th_key_range){th_larger(keys.first, document.first), th_smaller(keys.past, document.past)};
    return keys.first < keys.past ? keys : (th_key_range){0, 0};
}

th_visible_row th_mask_row(const th_mask_view *view, const int64_t *index)
{
    const int key_axis = view->ndim - 1;
    const th_array *lengths = &view->valid_lengths, *keep = &view->keep, *additive = &view->additive;
    int64_t length = view->size[key_axis];
    if (lengths->given)
        length = th_mask_integer(lengths, th_offset_of(key_axis, index, lengths->stride));
    th_visible_row row = {.keys = th_keys_visible(th_band_edges(&view->band), th_mask_position(view, index), length)};
    if (view->documents.given)
        row.keys = limit_to_document(view, index, row.keys);
    if (keep->given) {
        row.keep = (const bool *)keep->data + th_offset_of(key_axis, index, keep->stride);
        row.keep_stride = keep->stride[key_axis];
    }
    if (additive->given) {
        const int64_t offset = th_offset_of(key_axis, index, additive->stride);
        row.additive = (const char *)additive->data + offset * (int64_t)th_dtype_size(additive->dtype);
        row.additive_stride = additive->stride[key_axis];
    }
    return row;
}
