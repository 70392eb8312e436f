/* What the parts of scaled_dot_product_attention share: its operands and attributes, the plan of a call, and the
 * composition that it equals. What a mask means is in mask.h. Letters: N leading dimensions, T queries, S keys, D and
 * Dv widths. */
#ifndef TH_OPS_SHARED_ATTENTION_H
#define TH_OPS_SHARED_ATTENTION_H

#include "kernels/attention/attention.h"
#include "ops/shared/mask.h"

enum {
    TH_ATTENTION_Q,
    TH_ATTENTION_K,
    TH_ATTENTION_V,
    TH_ATTENTION_MASK,
    TH_ATTENTION_ADDITIVE = TH_ATTENTION_MASK + TH_MASK_ADDITIVE,
    TH_ATTENTION_ALIBI = TH_ATTENTION_MASK + TH_MASK_INPUTS,
    TH_ATTENTION_INPUTS
};
enum { TH_ATTENTION_O, TH_ATTENTION_LOG_SUM_EXP, TH_ATTENTION_OUTPUTS };

typedef struct th_attention_attributes {
    th_mask_rules rules;
    double scale; /* 0: 1 / sqrt(D) */
    double soft_cap;
    double dropout;
} th_attention_attributes;

/* (N, T, S) */
void th_attention_scores_shape(int ndim, const int64_t *q, const int64_t *k, int64_t *size);
/* Query heads for each head of k and v: 1 unless they are grouped. q, k: sizes. */
int64_t th_attention_group(int ndim, const int64_t *q, const int64_t *k);
double th_attention_scale(const th_attention_attributes *attributes, int64_t width);

/* The .plan of the operation, and what it plans. */
typedef struct th_attention_plan {
    th_attention attention;
    size_t workspace;
} th_attention_plan;
void th_attention_plan_call(const th_call *call, bool backward, void *plan);

/* The same from single operations; *weights, if asked for, before dropout. */
th_tensor *th_attention_compose(const th_attention_attributes *attributes, th_tensor *const *inputs,
                                th_tensor **weights);

#endif
