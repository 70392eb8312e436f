/* What a th_mask means: its rules as plain data, their checks, and the answer for one row of scores.
 *
 * The operations with a mask (masked_softmax, attention) keep its rules in th_mask_rules, part of their attributes, and
 * its tensors as three optional inputs in a row: valid_lens, keep, additive. Nothing here computes a softmax. Letters:
 * N the dimensions before the last two, the first of which is the batch B; T queries, S keys. */
#ifndef TH_OPS_SHARED_MASK_H
#define TH_OPS_SHARED_MASK_H

#include "tapehead/op.h"
#include "tapehead/ops.h"

/* The rules without a tensor: plain bytes for attributes. */
typedef struct th_mask_rules {
    int32_t causal; /* th_causal */
    int32_t has_window;
    int64_t left, right; /* of the window; negative: no limit */
} th_mask_rules;

enum { TH_MASK_VALID_LENS, TH_MASK_KEEP, TH_MASK_ADDITIVE, TH_MASK_INPUTS }; /* the order of the three inputs */

/* NULL is a mask without rules. */
th_mask_rules th_mask_rules_of(const th_mask *mask);
/* The three tensors, in their order; NULL where not given. */
void th_mask_tensors(const th_mask *mask, th_tensor **tensors);

/* Of a shape rule: checks the rules and the inputs first .. first + 2 against scores (N, T, S) of type `dtype`. */
th_status th_mask_check(th_call *call, const th_mask_rules *rules, int first, th_dtype dtype, int ndim,
                        const int64_t *scores);

/* A mask over scores (N, T, S), ready to be asked. */
typedef struct th_mask_view {
    th_mask_rules rules;
    int ndim;
    int64_t size[TH_MAX_DIMS]; /* of the scores */
    th_array valid_lens, keep,
        additive;     /* with the scores' dimensions; stride 0 where they broadcast. Not given: no such rule */
    int64_t position; /* of query 0 among the keys: its causal alignment */
} th_mask_view;

/* tensors: the three arrays (given or not), checked by th_mask_check. */
void th_mask_view_init(th_mask_view *view, const th_mask_rules *rules, const th_array *tensors, int ndim,
                       const int64_t *scores);

/* One row of scores: query t of item n. */
typedef struct th_mask_row {
    int64_t first, end; /* causal, window and valid_lens leave keys first .. end-1 (first <= end) */
    const bool *keep;   /* of key 0, keys keep_stride apart; NULL: no such rule */
    int64_t keep_stride;
    const void *additive; /* the same */
    int64_t additive_stride;
} th_mask_row;

/* n: row-major index over the dimensions N; t in [0, T). A key s of the row is hidden unless first <= s < end, keep is
 * true and additive is not -inf. */
th_mask_row th_mask_row_at(const th_mask_view *view, int64_t n, int64_t t);

/* Of a forward: every length in [0, S], else TH_ERROR_INDEX naming the first that is not ("valid_lens[1] = 9 is outside
 * [0, 6]"). */
th_status th_mask_check_lens(th_context *ctx, const char *operation, const th_array *valid_lens, int64_t keys);

#endif
