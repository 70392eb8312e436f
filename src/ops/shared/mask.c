/* What a th_mask means (mask.h), and the two functions that tell a user: th_mask_keep and th_mask_explain. */
#include "ops/shared/mask.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static const char *const tensor_names[TH_MASK_INPUTS] = {"valid_lens", "keep", "additive"};

th_mask_rules th_mask_rules_of(const th_mask *mask)
{
    th_mask_rules rules = {0};
    if (mask) {
        rules.causal = (int32_t)mask->causal;
        rules.has_window = mask->window.given;
        rules.left = mask->window.given ? mask->window.left : 0;
        rules.right = mask->window.given ? mask->window.right : 0;
    }
    return rules;
}

void th_mask_tensors(const th_mask *mask, th_tensor **tensors)
{
    tensors[TH_MASK_VALID_LENS] = mask ? mask->valid_lens : NULL;
    tensors[TH_MASK_KEEP] = mask ? mask->keep : NULL;
    tensors[TH_MASK_ADDITIVE] = mask ? mask->additive : NULL;
}

/* -- checks -- */

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
        if (lens->dtype != TH_INT32 && lens->dtype != TH_INT64)
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
                           tensor_names[i], TH_TEXT(&tensors[i]), TH_SIZES_TEXT(ndim, scores));
    return TH_OK;
}

th_status th_mask_check(th_call *call, const th_mask_rules *rules, int first, th_dtype dtype, int ndim,
                        const int64_t *scores)
{
    return check(call->ctx, call->op->name, rules, &call->input[first], dtype, ndim, scores);
}

static int64_t index_at(const th_array *array, int64_t offset)
{
    return array->dtype == TH_INT32 ? ((const int32_t *)array->data)[offset] : ((const int64_t *)array->data)[offset];
}

/* "valid_lens", "valid_lens[1]" or "valid_lens[1, 2]" */
static void lens_name(const th_array *lens, const int64_t *index, char *text, size_t size)
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
                index_at(valid_lens, (valid_lens->ndim > 0 ? row * valid_lens->stride[0] : 0) +
                                         (valid_lens->ndim > 1 ? column * valid_lens->stride[1] : 0));
            if (length >= 0 && length <= keys)
                continue;
            char name[64];
            lens_name(valid_lens, (const int64_t[]){row, column}, name, sizeof name);
            return th_fail(ctx, TH_ERROR_INDEX, operation, "%s = %" PRId64 " is outside [0, %" PRId64 "]", name, length,
                           keys);
        }
    return TH_OK;
}

/* -- asking -- */

static th_array broadcast_to(const th_array *array, int ndim, const int64_t *size)
{
    th_array result = {.given = array->given, .data = array->data, .dtype = array->dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        const int axis = i - (ndim - array->ndim);
        result.size[i] = size[i];
        result.stride[i] = axis >= 0 && array->size[axis] != 1 ? array->stride[axis] : 0;
    }
    return result;
}

void th_mask_view_init(th_mask_view *view, const th_mask_rules *rules, const th_array *tensors, int ndim,
                       const int64_t *scores)
{
    *view = (th_mask_view){.rules = *rules, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        view->size[i] = scores[i];
    const int64_t queries = scores[ndim - 2], keys = scores[ndim - 1];
    view->position = rules->causal == TH_CAUSAL_BOTTOM_RIGHT ? keys - queries : 0;
    /* A reach beyond every key is none: this keeps the sums of th_mask_row_at small. */
    int64_t reach = INT64_MAX;
    if (th_checked_add(queries, keys, &reach)) {
        if (view->rules.left > reach)
            view->rules.left = -1;
        if (view->rules.right > reach)
            view->rules.right = -1;
    }
    const th_array *lens = &tensors[TH_MASK_VALID_LENS];
    if (lens->given) {
        view->valid_lens = (th_array){.given = true, .data = lens->data, .dtype = lens->dtype, .ndim = ndim};
        for (int i = 0; i < ndim; i++)
            view->valid_lens.size[i] = scores[i];
        if (lens->ndim > 0)
            view->valid_lens.stride[0] = lens->stride[0];
        if (lens->ndim > 1)
            view->valid_lens.stride[ndim - 2] = lens->stride[1];
    }
    if (tensors[TH_MASK_KEEP].given)
        view->keep = broadcast_to(&tensors[TH_MASK_KEEP], ndim, scores);
    if (tensors[TH_MASK_ADDITIVE].given)
        view->additive = broadcast_to(&tensors[TH_MASK_ADDITIVE], ndim, scores);
}

th_mask_row th_mask_row_at(const th_mask_view *view, int64_t n, int64_t t)
{
    const int query_axis = view->ndim - 2;
    const int64_t keys = view->size[view->ndim - 1];
    int64_t lens = t * view->valid_lens.stride[query_axis], keep = t * view->keep.stride[query_axis],
            additive = t * view->additive.stride[query_axis];
    for (int i = query_axis - 1; i >= 0; i--) {
        const int64_t index = i > 0 ? n % view->size[i] : n;
        n = i > 0 ? n / view->size[i] : 0;
        lens += index * view->valid_lens.stride[i];
        keep += index * view->keep.stride[i];
        additive += index * view->additive.stride[i];
    }
    th_mask_row row = {.first = 0, .end = keys};
    const int64_t at = t + view->position;
    if (view->rules.has_window) {
        if (view->rules.left >= 0 && at - view->rules.left > row.first)
            row.first = at - view->rules.left;
        if (view->rules.right >= 0 && at + view->rules.right + 1 < row.end)
            row.end = at + view->rules.right + 1;
    }
    if (view->rules.causal != TH_CAUSAL_NONE && at + 1 < row.end)
        row.end = at + 1;
    if (view->valid_lens.given) {
        const int64_t length = index_at(&view->valid_lens, lens);
        if (length < row.end)
            row.end = length;
    }
    if (row.end < 0)
        row.end = 0;
    if (row.first > row.end)
        row.first = row.end;
    if (view->keep.given) {
        row.keep = (const bool *)view->keep.data + keep;
        row.keep_stride = view->keep.stride[view->ndim - 1];
    }
    if (view->additive.given) {
        row.additive = (const char *)view->additive.data + additive * (int64_t)th_dtype_size(view->additive.dtype);
        row.additive_stride = view->additive.stride[view->ndim - 1];
    }
    return row;
}

/* -- th_mask_keep, th_mask_explain -- */

/* What the two functions start with: the mask's tensors as arrays, everything checked, lengths included. */
static bool open_mask(th_context *ctx, const char *operation, const th_mask *mask, const th_shape *scores,
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
        const th_body *tensor = th_usable(handles[i], ctx, operation, tensor_names[i]);
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

/* Into visible[s]: whether the row's query sees key s. Returns whether all are. */
static bool row_visible(const th_context *ctx, const th_mask_view *view, const th_mask_row *row, int64_t keys,
                        bool *visible)
{
    th_context_kernels(ctx, view->additive.dtype)
        ->visible_keys(keys, row->first, row->end, row->keep, row->keep_stride, row->additive, row->additive_stride,
                       visible);
    return memchr(visible, false, (size_t)keys) == NULL;
}

th_tensor *(th_mask_keep)(th_context *ctx, const th_mask *mask, th_shape scores)
{
    const char *const operation = "mask_keep";
    th_mask_rules rules;
    th_array tensors[TH_MASK_INPUTS];
    if (!open_mask(ctx, operation, mask, &scores, &rules, tensors))
        return NULL;
    const bool lens = tensors[TH_MASK_VALID_LENS].given, keep = tensors[TH_MASK_KEEP].given,
               additive = tensors[TH_MASK_ADDITIVE].given;
    if (rules.causal == TH_CAUSAL_NONE && !rules.has_window && !lens && !keep && !additive)
        return NULL;

    /* Only the axes that some rule depends on are computed and stored; the result is expanded along the others. */
    th_mask_view view;
    th_mask_view_init(&view, &rules, tensors, scores.ndim, scores.size);
    const int query_axis = scores.ndim - 2, key_axis = scores.ndim - 1;
    th_shape compact = scores;
    for (int i = 0; i < query_axis; i++)
        if (!(view.valid_lens.stride[i] || view.keep.stride[i] || view.additive.stride[i]) && compact.size[i] > 1)
            compact.size[i] = 1;
    if (rules.causal == TH_CAUSAL_NONE && !rules.has_window && !view.valid_lens.stride[query_axis] &&
        !view.keep.stride[query_axis] && !view.additive.stride[query_axis] && compact.size[query_axis] > 1)
        compact.size[query_axis] = 1;
    th_body *result = th_tensor_new(ctx, TH_BOOL, compact.ndim, compact.size, false, operation);
    if (!result)
        return NULL;

    bool *visible = th_tensor_data(result);
    bool all = true;
    const int64_t numel = th_tensor_numel(result);
    if (visible && numel > 0) {
        const int64_t keys = scores.size[key_axis], queries = compact.size[query_axis], rows = numel / keys;
        for (int64_t r = 0; r < rows; r++) {
            int64_t rest = r / queries, n = 0,
                    step = 1; /* n: the row's item among all of N, index 0 along the axes left out */
            for (int i = query_axis - 1; i >= 0; i--) {
                n += rest % compact.size[i] * step;
                rest /= compact.size[i];
                step *= scores.size[i];
            }
            const th_mask_row row = th_mask_row_at(&view, n, r % queries);
            all &= row_visible(ctx, &view, &row, keys, visible + r * keys);
        }
    } else if (!visible && numel > 0) {
        all = false; /* shapes only: there is no data to tell */
    }
    if (all) {
        th_handle_give_up(result, TH_LIFE_GIVEN_UP);
        return NULL;
    }
    return (th_expand)(th_handle_of(result), scores);
}

/* Appends to what is in text already; what does not fit is cut off. */
static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = 0;
    while (used < size && text[used])
        used++;
    if (used + 1 >= size)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* "keep[0, 1, 3]": the element of a mask tensor that a pair of the scores falls on. */
static void append_element(char *text, size_t size, const char *name, const th_array *array, const th_shape *index)
{
    append(text, size, "%s", name);
    for (int i = 0; i < array->ndim; i++)
        append(text, size, "%s%" PRId64, i ? ", " : "[",
               array->size[i] == 1 ? 0 : index->size[index->ndim - array->ndim + i]);
    append(text, size, "%s", array->ndim > 0 ? "]" : "");
}

th_status(th_mask_explain)(th_context *ctx, const th_mask *mask, th_shape scores, th_shape index, char *text,
                           size_t size)
{
    const char *const operation = "mask_explain";
    if (!ctx)
        return TH_ERROR_ARGUMENT;
    th_mask_rules rules;
    th_array tensors[TH_MASK_INPUTS];
    if (!open_mask(ctx, operation, mask, &scores, &rules, tensors))
        return th_error_code(ctx);
    if (!text || size == 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "there is no room for the sentence");
    if (ctx->options.shapes_only)
        return th_fail(ctx, TH_ERROR_STATE, operation, "a context that runs shapes only has no data to explain");
    if (index.ndim != scores.ndim)
        return th_fail(ctx, TH_ERROR_INDEX, operation, "the index has %d numbers, but the scores have %d dimensions",
                       index.ndim, scores.ndim);
    for (int i = 0; i < index.ndim; i++)
        if (index.size[i] < 0 || index.size[i] >= scores.size[i])
            return th_fail(ctx, TH_ERROR_INDEX, operation,
                           "index %" PRId64 " of dimension %d is outside [0, %" PRId64 ")", index.size[i], i,
                           scores.size[i]);

    const int query_axis = scores.ndim - 2, key_axis = scores.ndim - 1;
    const int64_t t = index.size[query_axis], s = index.size[key_axis];
    int64_t n = 0;
    for (int i = 0; i < query_axis; i++)
        n = n * scores.size[i] + index.size[i];
    text[0] = '\0';
    /* Each rule is asked on its own, so that every one that hides the pair is named. */
    const th_array none[TH_MASK_INPUTS] = {0};
    th_mask_view view;
    const th_mask_rules causal = {.causal = rules.causal};
    th_mask_view_init(&view, &causal, none, scores.ndim, scores.size);
    const int64_t at = t + view.position;
    const bool bottom_right = rules.causal == TH_CAUSAL_BOTTOM_RIGHT;
    char query[96] = "";
    append(query, sizeof query, "query %" PRId64, t);
    if (bottom_right && at != t)
        append(query, sizeof query, ", which stands at %" PRId64, at);
    const char *separator = "";
    if (s >= th_mask_row_at(&view, n, t).end) {
        append(text, size, "key %" PRId64 " is after %s (causal, %s)", s, query,
               bottom_right ? "bottom right" : "top left");
        separator = "; ";
    }
    if (rules.has_window) {
        th_mask_view_init(&view, &rules, none, scores.ndim, scores.size);
        const int64_t left = view.rules.left, right = view.rules.right;
        if (left >= 0 && s < at - left) {
            append(text, size, "%skey %" PRId64 " is more than %" PRId64 " before %s (window)", separator, s, left,
                   query);
            separator = "; ";
        }
        if (right >= 0 && s > at + right) {
            append(text, size, "%skey %" PRId64 " is more than %" PRId64 " after %s (window)", separator, s, right,
                   query);
            separator = "; ";
        }
    }
    const th_mask_rules no_rules = {0};
    for (int i = 0; i < TH_MASK_INPUTS; i++) {
        if (!tensors[i].given)
            continue;
        th_array one[TH_MASK_INPUTS] = {0};
        one[i] = tensors[i];
        th_mask_view_init(&view, &no_rules, one, scores.ndim, scores.size);
        th_mask_row row = th_mask_row_at(&view, n, t);
        if (i == TH_MASK_VALID_LENS) {
            if (s < row.end)
                continue;
            char name[64];
            lens_name(&tensors[i], scores.ndim == 2 ? (const int64_t[]){t, 0} : (const int64_t[]){index.size[0], t},
                      name, sizeof name);
            append(text, size, "%skey %" PRId64 " is past %s = %" PRId64, separator, s, name, row.end);
        } else {
            bool seen[1];
            if (row.keep)
                row.keep += s * row.keep_stride;
            if (row.additive)
                row.additive =
                    (const char *)row.additive + s * row.additive_stride * (int64_t)th_dtype_size(view.additive.dtype);
            row.first = 0;
            row.end = 1;
            if (row_visible(ctx, &view, &row, 1, seen))
                continue;
            append(text, size, "%s", separator);
            append_element(text, size, tensor_names[i], &tensors[i], &index);
            append(text, size, "%s", i == TH_MASK_KEEP ? " is false" : " is -inf");
        }
        separator = "; ";
    }
    if (!text[0])
        append(text, size, "query %" PRId64 " sees key %" PRId64 ": no rule hides it", t, s);
    return TH_OK;
}
