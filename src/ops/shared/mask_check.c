/* What a mask has to be: the checks of shape rules, of forwards, and of who asks about a mask itself (mask.h). */
#include <inttypes.h>
#include <stdio.h>

#include "ops/shared/mask.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static bool lens_fit(const th_array *lens, int ndim, const int64_t *scores)
{
    const int64_t queries = scores[ndim - 2];
    if (ndim == 2)
        return lens->ndim == 0 || (lens->ndim == 1 && lens->size[0] == queries);
    return (lens->ndim == 1 || (lens->ndim == 2 && lens->size[1] == queries)) && lens->size[0] == scores[0];
}

static th_status check(th_context *ctx, const char *operation, const th_mask_rules *rules, const th_array *tensors,
                       th_dtype dtype, int ndim, const int64_t *scores)
{
    if (ndim < 2)
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "scores are %s, but a mask needs at least (T, S)",
                       TH_SIZES_TEXT(ndim, scores));
    if (rules->causal < TH_CAUSAL_NONE || rules->causal > TH_CAUSAL_BOTTOM_RIGHT)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "causal is %d, which is no th_causal", (int)rules->causal);
    const th_array *lens = &tensors[TH_MASK_VALID_LENS];
    if (lens->given) {
        if (!th_is_index(lens->dtype))
            return th_fail(ctx, TH_ERROR_TYPE, operation, "valid_lens is %s, but lengths are int32 or int64",
                           th_dtype_name(lens->dtype));
        if (!lens_fit(lens, ndim, scores))
            return th_fail(ctx, TH_ERROR_SHAPE, operation, "valid_lens is %s, but scores %s take lengths of shape %s",
                           TH_TEXT(lens), TH_SIZES_TEXT(ndim, scores), ndim == 2 ? "() or (T)" : "(B) or (B, T)");
    }
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
    return check(call->ctx, call->op->name, rules, &call->input[first], dtype, ndim, scores);
}

void th_mask_lens_name(const th_array *lens, const int64_t *index, char *text, size_t size)
{
    if (lens->ndim == 0)
        snprintf(text, size, "valid_lens");
    else if (lens->ndim == 1)
        snprintf(text, size, "valid_lens[%" PRId64 "]", index[0]);
    else
        snprintf(text, size, "valid_lens[%" PRId64 ", %" PRId64 "]", index[0], index[1]);
}

th_status th_mask_check_lens(th_context *ctx, const char *operation, const th_array *valid_lens, int64_t keys)
{
    if (!valid_lens->given || !valid_lens->data)
        return TH_OK;
    const int64_t rows = valid_lens->ndim > 0 ? valid_lens->size[0] : 1,
                  columns = valid_lens->ndim > 1 ? valid_lens->size[1] : 1;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) {
            const int64_t length =
                th_mask_length(valid_lens, (valid_lens->ndim > 0 ? row * valid_lens->stride[0] : 0) +
                                               (valid_lens->ndim > 1 ? column * valid_lens->stride[1] : 0));
            if (length >= 0 && length <= keys)
                continue;
            char name[64];
            th_mask_lens_name(valid_lens, (const int64_t[]){row, column}, name, sizeof name);
            return th_fail(ctx, TH_ERROR_INDEX, operation, "%s = %" PRId64 " is outside [0, %" PRId64 "]", name, length,
                           keys);
        }
    return TH_OK;
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
        const th_body *tensor = th_usable(handles[i], ctx, operation, th_mask_names[i]);
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
    return check(ctx, operation, rules, tensors, additive->dtype, scores->ndim, scores->size) == TH_OK &&
           th_mask_check_lens(ctx, operation, &tensors[TH_MASK_VALID_LENS], scores->size[scores->ndim - 1]) == TH_OK;
}
