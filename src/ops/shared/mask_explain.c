/* th_mask_explain: a sentence that says which rules mask a pair of a query and a key. */
#include <inttypes.h>
#include <stdarg.h>

#include "ops/shared/mask.h"
#include "tensor/format.h"
#include "tensor/tensor.h"

/* The pair, and the answer so far, from which text that does not fit is cut off. */
typedef struct question {
    th_context *ctx;
    const th_shape *scores, *index;
    int64_t query, key, queries, keys;
    char *text;
    size_t size;
} question;

/* Appends a reason to the answer. */
static void add_reason(const question *q, const char *format, ...) TH_FORMAT(2, 3);
static void add_reason(const question *q, const char *format, ...)
{
    if (q->text[0])
        th_append(q->text, q->size, "; ");
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(q->text, q->size, format, arguments);
    va_end(arguments);
}

/* Returns whether a band masks the pair. position: the query's position among the keys. */
static bool band_masks(const question *q, th_band band, int64_t position)
{
    const th_key_range keys = th_keys_visible(th_band_edges(&band), position, q->keys);
    return q->key < keys.first || q->key >= keys.past;
}

/* Checks causal order and the two limits of the window separately, so that the answer names each that masks the
 * pair. */
static void explain_band(const question *q, const th_mask_rules *rules, const th_array *tensors)
{
    th_mask_view view;
    th_mask_view_init(&view, rules, tensors, q->scores->ndim, q->scores->size);
    const th_band band = view.band;
    const int64_t position = th_mask_position(&view, q->index->size);
    char name[96];
    th_format(name, sizeof name, "query %" PRId64, q->query);
    if (position != q->query)
        th_append(name, sizeof name, ", which is at position %" PRId64, position);
    if (band_masks(q, (th_band){.causal = band.causal}, position))
        add_reason(q, "key %" PRId64 " is after %s (causal, %s)", q->key, name,
                   view.positions.given                      ? "by positions"
                   : rules->causal == TH_CAUSAL_BOTTOM_RIGHT ? "bottom right"
                                                             : "top left");
    if (band_masks(q, (th_band){.window = band.window, .left = band.left, .right = -1}, position))
        add_reason(q, "key %" PRId64 " is more than %" PRId64 " before %s (window)", q->key, band.left, name);
    if (band_masks(q, (th_band){.window = band.window, .left = -1, .right = band.right}, position))
        add_reason(q, "key %" PRId64 " is more than %" PRId64 " after %s (window)", q->key, band.right, name);
}

/* Appends the element of a mask tensor that belongs to the pair: "keep[0, 1, 3]". */
static void add_element(const question *q, const char *name, const th_array *array)
{
    add_reason(q, "%s", name);
    for (int i = 0; i < array->ndim; i++)
        th_append(q->text, q->size, "%s%" PRId64, i ? ", " : "[",
                  array->size[i] == 1 ? 0 : q->index->size[q->index->ndim - array->ndim + i]);
    th_append(q->text, q->size, "%s", array->ndim > 0 ? "]" : "");
}

/* Checks one of the mask's tensors, without the other rules. */
static void explain_tensor(const question *q, const th_array *tensors, int input)
{
    const th_mask_rules no_rules = {0};
    th_array one[TH_MASK_INPUTS] = {0};
    one[input] = tensors[input];
    th_mask_view view;
    th_mask_view_init(&view, &no_rules, one, q->scores->ndim, q->scores->size);
    const th_visible_row row = th_mask_row(&view, q->index->size);
    bool visible;
    th_context_kernels(q->ctx, view.additive.dtype)->visible_keys(q->key, 1, &row, &visible);
    if (visible)
        return;
    if (input == TH_MASK_VALID_LENGTHS) {
        char name[64];
        th_mask_integer_name(th_mask_names[input], &tensors[input],
                             q->scores->ndim == 2 ? (const int64_t[]){q->query, 0}
                                                  : (const int64_t[]){q->index->size[0], q->query},
                             name, sizeof name);
        add_reason(q, "key %" PRId64 " is past %s = %" PRId64, q->key, name, row.keys.past);
        return;
    }
    add_element(q, th_mask_names[input], &tensors[input]);
    th_append(q->text, q->size, "%s", input == TH_MASK_KEEP ? " is false" : " is -inf");
}

/* Checks whether the pair is within a document. */
static void explain_documents(const question *q, const th_array *tensors)
{
    const th_mask_rules rules = {.documents = 1};
    th_array one[TH_MASK_INPUTS] = {[TH_MASK_VALID_LENGTHS] = tensors[TH_MASK_VALID_LENGTHS]};
    th_mask_view view;
    th_mask_view_init(&view, &rules, one, q->scores->ndim, q->scores->size);
    const th_key_range keys = th_mask_row(&view, q->index->size).keys;
    if (q->key < keys.first || q->key >= keys.past)
        add_reason(q, "key %" PRId64 " is outside the query's document, which has keys %" PRId64 " to %" PRId64, q->key,
                   keys.first, keys.past - 1);
}

static th_status check_question(const question *q, const char *operation, const char *text, size_t size)
{
    const th_shape *index = q->index, *scores = q->scores;
    if (!text || size == 0)
        return th_fail(q->ctx, TH_ERROR_ARGUMENT, operation, "the buffer for the sentence is NULL or empty");
    if (q->ctx->options.shapes_only)
        return th_fail(q->ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    if (index->ndim != scores->ndim)
        return th_fail(q->ctx, TH_ERROR_INDEX, operation, "the index has %d numbers, but the scores have %d dimensions",
                       index->ndim, scores->ndim);
    for (int i = 0; i < index->ndim; i++)
        if (index->size[i] < 0 || index->size[i] >= scores->size[i])
            return th_fail(q->ctx, TH_ERROR_INDEX, operation,
                           "index %" PRId64 " of dimension %d is outside [0, %" PRId64 ")", index->size[i], i,
                           scores->size[i]);
    return TH_OK;
}

th_status th_mask_explain(th_context *ctx, const th_mask *mask, th_shape scores, th_shape index, char *text,
                          size_t size)
{
    const char *const operation = "mask_explain";
    if (!ctx)
        return TH_ERROR_ARGUMENT;
    th_mask_rules rules;
    th_array tensors[TH_MASK_INPUTS];
    if (!th_mask_open(ctx, operation, mask, &scores, &rules, tensors))
        return th_error_code(ctx);
    question q = {.ctx = ctx, .scores = &scores, .index = &index, .text = text, .size = size};
    if (check_question(&q, operation, text, size) != TH_OK)
        return th_error_code(ctx);
    q.query = index.size[index.ndim - 2];
    q.key = index.size[index.ndim - 1];
    q.queries = scores.size[scores.ndim - 2];
    q.keys = scores.size[scores.ndim - 1];
    text[0] = '\0';
    explain_band(&q, &rules, tensors);
    for (int i = 0; i <= TH_MASK_ADDITIVE; i++)
        if (tensors[i].given && !(i == TH_MASK_VALID_LENGTHS && rules.documents))
            explain_tensor(&q, tensors, i);
    if (rules.documents)
        explain_documents(&q, tensors);
    if (!text[0])
        th_append(text, size, "query %" PRId64 " sees key %" PRId64 ": no rule masks it", q.query, q.key);
    return TH_OK;
}
