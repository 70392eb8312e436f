/* The operands, attributes and plan of scaled_dot_product_attention, and its composition from other operations. mask.h
 * interprets masks. Sizes: N leading dimensions, T queries, S keys, D and Dv widths. */
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

/* Writes the shape of the scores (N, T, S) to size. q, k: sizes. */
void th_attention_scores_shape(int ndim, const int64_t *q, const int64_t *k, int64_t *size);
/* Returns the number of query heads for each head of k and v: 1 unless they are grouped. q, k: sizes. */
int64_t th_attention_group(int ndim, const int64_t *q, const int64_t *k);
/* Returns attributes->scale, or 1 / sqrt(width) if it is 0. */
double th_attention_scale(const th_attention_attributes *attributes, int64_t width);

typedef struct th_attention_plan {
    th_attention attention;
    size_t workspace;
} th_attention_plan;
/* The .plan of the operation: writes a th_attention_plan. */
void th_attention_plan_call(const th_call *call, bool backward, void *plan);

/* A kernel: th_attention_forward or th_attention_backward. */
typedef void (*th_attention_kernel)(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                                    void *workspace);
/* Runs a kernel on a planned problem: once, or for each document of the mask (attention_documents.c). */
void th_attention_run(const th_call *call, const th_attention *a, th_attention_kernel kernel, void *workspace);
/* Returns the largest problem of a single run, for its workspace. */
th_attention th_attention_largest(const th_call *call, const th_attention *a);

/* Composes attention from other operations. weights: NULL, or receives A, the weights before dropout. */
th_tensor *th_attention_compose(const th_attention_attributes *attributes, th_tensor *const *inputs,
                                th_tensor **weights);

#endif
