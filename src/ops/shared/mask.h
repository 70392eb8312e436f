/* What a th_mask means: its rules as plain data, their checks, and the answer for one row of scores.
 *
 * The operations with a mask (masked_softmax, attention) keep its rules in th_mask_rules, part of their attributes, and
 * its tensors as four optional inputs in a row: valid_lengths, keep, additive, positions. Nothing here computes a softmax.
 * Letters: N the dimensions before the last two, the first of which is the batch B; T queries, S keys. */
#ifndef TH_OPS_SHARED_MASK_H
#define TH_OPS_SHARED_MASK_H

#include "kernels/rows/visible.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

/* The rules without a tensor: plain bytes for attributes. */
typedef struct th_mask_rules {
    int32_t causal; /* th_causal */
    int32_t has_window;
    int64_t left, right; /* of the window; negative: no limit */
} th_mask_rules;

enum { TH_MASK_VALID_LENS, TH_MASK_KEEP, TH_MASK_ADDITIVE, TH_MASK_POSITIONS, TH_MASK_INPUTS }; /* the inputs' order */

/* NULL is a mask without rules. */
th_mask_rules th_mask_rules_of(const th_mask *mask);
/* The tensors, in their order; NULL where not given. */
void th_mask_tensors(const th_mask *mask, th_tensor **tensors);

/* Of a shape rule: checks the rules and the inputs first .. first + 3 against scores (N, T, S) of type `dtype`. */
th_status th_mask_check(th_call *call, const th_mask_rules *rules, int first, th_dtype dtype, int ndim,
                        const int64_t *scores);

/* What the rules leave of the keys by position, for so many queries and keys. */
th_band th_mask_band(const th_mask_rules *rules, bool positions, int64_t queries, int64_t keys);

/* A mask over scores (N, T, S), ready to be asked. */
typedef struct th_mask_view {
    th_band band;
    int ndim;
    int64_t size[TH_MAX_DIMS]; /* of the scores */
    /* with the scores' dimensions; stride 0 where they broadcast. Not given: no such rule */
    th_array valid_lengths, keep, additive, positions;
} th_mask_view;

/* tensors: the arrays (given or not), checked by th_mask_check. */
void th_mask_view_init(th_mask_view *view, const th_mask_rules *rules, const th_array *tensors, int ndim,
                       const int64_t *scores);

/* What the query at this index over (N, T) sees. */
th_visible_row th_mask_row(const th_mask_view *view, const int64_t *index);

/* Of a forward: every length in [0, S] and no position negative, else TH_ERROR_INDEX naming the first that is not
 * ("valid_lengths[1] = 9 is outside [0, 6]"). tensors: as for th_mask_view_init. */
th_status th_mask_check_values(th_context *ctx, const char *operation, const th_array *tensors, int64_t keys);

/* -- for th_mask_keep and th_mask_explain -- */

extern const char *const th_mask_names[TH_MASK_INPUTS];

/* The mask's rules and its tensors as arrays, everything checked, values included. */
bool th_mask_open(th_context *ctx, const char *operation, const th_mask *mask, const th_shape *scores,
                  th_mask_rules *rules, th_array *tensors);
/* The length or position at an offset. */
int64_t th_mask_integer(const th_array *array, int64_t offset);
/* Where the query at this index over (N, T) stands among the keys. */
int64_t th_mask_position(const th_mask_view *view, const int64_t *index);
/* "valid_lengths", "valid_lengths[1]" or "valid_lengths[1, 2]" */
void th_mask_integer_name(const char *name, const th_array *array, const int64_t *index, char *text, size_t size);

#endif
