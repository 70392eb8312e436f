/* Checks of masks: for shape rules, for forwards, and for th_mask_keep and th_mask_explain (mask.h). */
#include <inttypes.h>
#include <stdio.h>

#include "ops/shared/mask.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static bool lengths_fit(const th_array *lengths, int ndim, const int64_t *scores)
{
    const int64_t queries = scores[ndim - 2];
    if (ndim == 2)
        return lengths->ndim == 0 || (lengths->ndim == 1 && lengths->size[0] == queries);
    return (lengths->ndim == 1 || (lengths->ndim == 2 && lengths->size[1] == queries)) && lengths->size[0] == scores[0];
}

/* Returns whether the shape is (T) or (B, T). */
static bool positions_fit(const th_array *positions, int ndim, const int64_t *scores)
{
    const int64_t queries = scores[ndim - 2];
    if (positions->ndim == 1)
        return positions->size[0] == queries;
    return ndim > 2 && positions->ndim == 2 && positions->size[0] == scores[0] && positions->size[1] == queries;
}

static th_status check_positions(th_context *ctx, const char *operation, const th_array *positions, int ndim,
                                 const int64_t *scores)
{
    if (!positions->given)
        return TH_OK;
    if (!th_is_index(positions->dtype))
        return th_fail(ctx, TH_ERROR_TYPE, operation, "positions is %s, but positions are int32 or int64",
                       th_dtype_name(positions->dtype));
    if (!positions_fit(positions, ndim, scores))
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "positions is %s, but scores %s take positions of shape %s",
                       TH_TEXT(positions), TH_SIZES_TEXT(ndim, scores), ndim == 2 ? "(T)" : "(T) or (B, T)");
    return TH_OK;
}

static th_status check_documents(th_context *ctx, const char *operation, const th_mask_rules *rules,
                                 const th_array *tensors, int ndim, const int64_t *scores)
{
    const th_array *documents = &tensors[TH_MASK_VALID_LENGTHS];
    for (int i = 0; i < TH_MASK_INPUTS; i++)
        if (rules->documents > 1 || (i != TH_MASK_VALID_LENGTHS && i != TH_MASK_ADDITIVE && tensors[i].given))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "the mask has documents and %s; documents combine with causal order, window, ALiBi and "
                           "additive only",
                           th_mask_names[i]);
    if (!th_is_index(documents->dtype))
        return th_fail(ctx, TH_ERROR_TYPE, operation, "documents is %s, but numbers of documents are int32 or int64",
                       th_dtype_name(documents->dtype));
    if (scores[ndim - 1] != scores[ndim - 2] || !positions_fit(documents, ndim, scores))
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "documents is %s, but scores %s need %s", TH_TEXT(documents),
                       TH_SIZES_TEXT(ndim, scores),
                       scores[ndim - 1] != scores[ndim - 2] ? "as many keys as queries for documents"
                       : ndim == 2                          ? "documents of shape (T)"
                                                            : "documents of shape (T) or (B, T)");
    return TH_OK;
}

static th_status check_mask(th_context *ctx, const char *operation, const th_mask_rules *rules, const th_array *tensors,
                            th_dtype dtype, int ndim, const int64_t *scores)
{
    if (ndim < 2)
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "scores are %s, but a mask needs at least (T, S)",
                       TH_SIZES_TEXT(ndim, scores));
    if (rules->causal < TH_CAUSAL_NONE || rules->causal > TH_CAUSAL_BOTTOM_RIGHT)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "causal is %d, which is not a th_causal", (int)rules->causal);
    const th_array *lengths = &tensors[TH_MASK_VALID_LENGTHS];
    if (rules->documents && check_documents(ctx, operation, rules, tensors, ndim, scores) != TH_OK)
        return ctx->error;
    if (lengths->given && !rules->documents) {
        if (!th_is_index(lengths->dtype))
            return th_fail(ctx, TH_ERROR_TYPE, operation, "valid_lengths is %s, but lengths are int32 or int64",
                           th_dtype_name(lengths->dtype));
        if (!lengths_fit(lengths, ndim, scores))
            return th_fail(ctx, TH_ERROR_SHAPE, operation,
                           "valid_lengths is %s, but scores %s take lengths of shape %s", TH_TEXT(lengths),
                           TH_SIZES_TEXT(ndim, scores), ndim == 2 ? "() or (T)" : "(B) or (B, T)");
    }
    if (check_positions(ctx, operation, &tensors[TH_MASK_POSITIONS], ndim, scores) != TH_OK)
        return ctx->error;
    const th_array *keep = &tensors[TH_MASK_KEEP], *additive = &tensors[TH_MASK_ADDITIVE];
    if (keep->given && keep->dtype != TH_BOOL)
        return th_fail(ctx, TH_ERROR_TYPE, operation, "keep is %s, but it must be bool", th_dtype_name(keep->dtype));
    if (additive->given && additive->dtype != dtype)
        return th_fail(ctx, TH_ERROR_TYPE, operation, "additive is %s, but the scores are %s",
                       th_dtype_name(additive->dtype), th_dtype_name(dtype));
    for (int i = TH_MASK_KEEP; i <= TH_MASK_ADDITIVE; i++)
        if (tensors[i].given && !th_broadcasts_to(tensors[i].ndim, tensors[i].size, ndim, scores))
            return th_fail(ctx, TH_ERROR_SHAPE, operation, "%s is %s, which does not broadcast to scores %s",
                           th_mask_names[i], TH_TEXT(&tensors[i]), TH_SIZES_TEXT(ndim, scores));
    return TH_OK;
}

th_status th_mask_check(th_call *call, const th_mask_rules *rules, int first, th_dtype dtype, int ndim,
                        const int64_t *scores)
{
    return check_mask(call->ctx, call->op->name, rules, &call->input[first], dtype, ndim, scores);
}

void th_mask_integer_name(const char *name, const th_array *array, const int64_t *index, char *text, size_t size)
{
    if (array->ndim == 0)
        snprintf(text, size, "%s", name);
    else if (array->ndim == 1)
        snprintf(text, size, "%s[%" PRId64 "]", name, index[0]);
    else
        snprintf(text, size, "%s[%" PRId64 ", %" PRId64 "]", name, index[0], index[1]);
}

/* Checks that every element of the tensor of an input, which has at most two dimensions, is in [0, max]. */
static th_status check_integers(th_context *ctx, const char *operation, const th_array *tensors, int input, int64_t max)
{
    const th_array *array = &tensors[input];
    if (!array->given || !array->data)
        return TH_OK;
    const int64_t rows = array->ndim > 0 ? array->size[0] : 1, columns = array->ndim > 1 ? array->size[1] : 1;
    const int64_t row_stride = array->ndim > 0 ? array->stride[0] : 0, stride = array->ndim > 1 ? array->stride[1] : 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) {
            const int64_t value = th_mask_integer(array, row * row_stride + column * stride);
            if (value >= 0 && value <= max)
                continue;
            char name[64];
            th_mask_integer_name(th_mask_names[input], array, (const int64_t[]){row, column}, name, sizeof name);
            if (value < 0 && max == INT64_MAX)
                return th_fail(ctx, TH_ERROR_INDEX, operation, "%s = %" PRId64 " is negative", name, value);
            return th_fail(ctx, TH_ERROR_INDEX, operation, "%s = %" PRId64 " is outside [0, %" PRId64 "]", name, value,
                           max);
        }
    return TH_OK;
}

th_status th_mask_check_values(th_context *ctx, const char *operation, const th_mask_rules *rules,
                               const th_array *tensors, int64_t keys)
{
    if (rules->documents)
        return TH_OK; /* any numbers */
    const th_status lengths = check_integers(ctx, operation, tensors, TH_MASK_VALID_LENGTHS, keys);
    return lengths != TH_OK ? lengths : check_integers(ctx, operation, tensors, TH_MASK_POSITIONS, INT64_MAX);
}

bool th_mask_open(th_context *ctx, const char *operation, const th_mask *mask, const th_shape *scores,
                  th_mask_rules *rules, th_array *tensors)
{
    if (!ctx || th_failed(ctx))
        return false;
    if (th_check_creation(ctx, operation, TH_BOOL, scores) != TH_OK)
        return false;
    *rules = th_mask_rules_of(mask);
    th_tensor *handles[TH_MASK_INPUTS];
    th_mask_tensors(mask, handles);
    for (int i = 0; i < TH_MASK_INPUTS; i++) {
        tensors[i] = (th_array){0};
        if (!handles[i])
            continue;
        const th_tensor_impl *tensor = th_usable_tensor(handles[i], ctx, operation, th_mask_names[i]);
        if (tensor == NULL)
            return false;
        tensors[i] = th_tensor_array(tensor);
    }
    const th_array *additive = &tensors[TH_MASK_ADDITIVE];
    if (additive->given && !th_is_floating(additive->dtype)) {
        th_fail(ctx, TH_ERROR_TYPE, operation, "additive is %s, but it must be float32 or float64",
                th_dtype_name(additive->dtype));
        return false;
    }
    return check_mask(ctx, operation, rules, tensors, additive->dtype, scores->ndim, scores->size) == TH_OK &&
           th_mask_check_values(ctx, operation, rules, tensors, scores->size[scores->ndim - 1]) == TH_OK;
}
