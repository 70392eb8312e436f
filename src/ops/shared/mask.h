/* Masks: the rules of a th_mask as plain data, their checks, and the visible keys of one query.
 *
 * An operation with a mask (masked_softmax, attention) has the rules in its attributes, as a th_mask_rules. It has the
 * mask's tensors as four consecutive optional inputs: valid_lengths or documents, keep, additive, positions. Letters: N
 * the dimensions before the last two, starting with the batch B; T queries, S keys. */
#ifndef TH_OPS_SHARED_MASK_H
#define TH_OPS_SHARED_MASK_H

#include "kernels/rows/visible.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

/* The rules that need no tensor, as plain bytes for attributes. */
typedef struct th_mask_rules {
    int32_t causal; /* th_causal */
    int32_t has_window;
    int64_t left, right; /* the window; negative: unlimited */
    int64_t documents;   /* 1: input TH_MASK_VALID_LENGTHS has the numbers of documents; 2: the mask has both */
} th_mask_rules;

enum {
    TH_MASK_VALID_LENGTHS,
    TH_MASK_KEEP,
    TH_MASK_ADDITIVE,
    TH_MASK_POSITIONS,
    TH_MASK_INPUTS
}; /* the order of the inputs */

/* Returns the rules of a mask; NULL is a mask without rules. */
th_mask_rules th_mask_rules_of(const th_mask *mask);
/* Writes the mask's tensors to tensors[TH_MASK_INPUTS]; NULL for those not given. */
void th_mask_tensors(const th_mask *mask, th_tensor **tensors);

/* For shape rules: checks the rules and the inputs first .. first + 3 against scores (N, T, S) of type `dtype`. */
th_status th_mask_check(th_call *call, const th_mask_rules *rules, int first, th_dtype dtype, int ndim,
                        const int64_t *scores);

/* A mask broadcast to scores (N, T, S). */
typedef struct th_mask_view {
    th_band band;
    int ndim;
    int64_t size[TH_MAX_DIMS]; /* of the scores */
    /* With the scores' dimensions; stride 0 where they broadcast. */
    th_array valid_lengths, keep, additive, positions, documents;
} th_mask_view;

/* Builds the view. tensors[TH_MASK_INPUTS]: arrays, given or not, checked by th_mask_check. */
void th_mask_view_init(th_mask_view *view, const th_mask_rules *rules, const th_array *tensors, int ndim,
                       const int64_t *scores);

/* Returns the tokens of the document that has token `token`. `numbers` has the document's number of each of `count`
 * tokens: the first at `offset`, the next one `stride` elements further. */
th_key_range th_mask_document(const th_array *numbers, int64_t offset, int64_t stride, int64_t token, int64_t count);

/* Returns the keys that the query at this index over (N, T) sees. */
th_visible_row th_mask_row(const th_mask_view *view, const int64_t *index);

/* For forwards: checks that every length is in [0, S] and that no position is negative. Otherwise TH_ERROR_INDEX; the
 * message names the first bad value ("valid_lengths[1] = 9 is outside [0, 6]"). */
th_status th_mask_check_values(th_context *ctx, const char *operation, const th_mask_rules *rules,
                               const th_array *tensors, int64_t keys);

/* th_masked_matmul of a square mask (.., T, T) that also masks pairs of two documents: NULL, (T) or (B, T) as in
 * th_mask. Each document has the bits of a separate product. */
th_tensor *th_documents_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_tensor *documents, th_mask_side side);

/* -- for th_mask_keep and th_mask_explain -- */

extern const char *const th_mask_names[TH_MASK_INPUTS];

/* Writes the mask's rules and its tensors as arrays, after all checks, including those of values. Returns false on
 * error. */
bool th_mask_open(th_context *ctx, const char *operation, const th_mask *mask, const th_shape *scores,
                  th_mask_rules *rules, th_array *tensors);
/* Returns the length or position at an offset. */
int64_t th_mask_integer(const th_array *array, int64_t offset);
/* Returns the position among the keys of the query at this index over (N, T). */
int64_t th_mask_position(const th_mask_view *view, const int64_t *index);
/* Writes "valid_lengths", "valid_lengths[1]" or "valid_lengths[1, 2]" to text. */
void th_mask_integer_name(const char *name, const th_array *array, const int64_t *index, char *text, size_t size);

#endif
