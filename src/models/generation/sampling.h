/* Choosing a token from a row of logits: greedily, or drawn from the distribution that is left when improbable tokens
 * have been taken out. Plain arrays and float64: no tensors, no random numbers of its own, no errors but one answer.
 *
 * Logits are processed in the order of transformers' logits processors: repetition penalty (Keskar et al. 2019),
 * temperature, top-k (Fan et al. 2018), top-p (Holtzman et al. 2020). */
#ifndef TH_MODELS_GENERATION_SAMPLING_H
#define TH_MODELS_GENERATION_SAMPLING_H

#include "kernels/kernels.h"
#include "tapehead/base.h"

typedef struct th_sampling {
    const th_kernels *kernels; /* of float64 */
    double temperature;        /* 0: the largest logit */
    int64_t top_k;             /* 0: all */
    double top_p;              /* 0: all */
    double repetition_penalty; /* 0: none */
} th_sampling;

/* One row of logits, and the tokens that have led to it. */
typedef struct th_logits_row {
    const void *logits; /* (vocabulary) */
    th_dtype dtype;
    int64_t vocabulary;
    const int64_t *history; /* (length) */
    int64_t length;
} th_logits_row;

/* A number and its place among others. */
typedef struct th_ranked {
    double score;
    int64_t index;
} th_ranked;

/* The `most` largest of n scores, or all n, in descending order, the first of equals first: how many they are. None of
 * them is NaN. */
int64_t th_best_of(int64_t n, const double *score, int64_t max, th_ranked *best);

/* The fewest of n scores, none negative, that have `mass` together, the largest first: they come to the front, in any
 * order. How many they are; all where even those have less. */
int64_t th_front_of(int64_t n, th_ranked *scores, double mass);

/* Tokens with their probabilities, up to a common factor. */
typedef struct th_choices {
    int64_t count;
    int64_t *token;
    double *weight;
} th_choices;

/* Memory that one row at a time works in. */
typedef struct th_sampling_space {
    double *score;      /* (vocabulary) */
    th_ranked *best;    /* (vocabulary) */
    th_choices choices; /* (vocabulary) */
} th_sampling_space;
size_t th_sampling_bytes(int64_t vocabulary); /* a multiple of 64; vocabulary is below 2^40 */
th_sampling_space th_sampling_space_at(void *memory, int64_t vocabulary);

/* What can be drawn from a row, into space->choices; with a temperature. False when there is nothing to choose from: a
 * logit that is NaN or infinite, or none above -inf. */
bool th_sampling_choices(const th_sampling *s, const th_logits_row *row, th_sampling_space *space);
/* The token: the largest, or the one that u in [0, 1) draws. -1 when there is nothing to choose from. */
int64_t th_sampling_token(const th_sampling *s, const th_logits_row *row, double u, th_sampling_space *space);
/* log softmax of a row with the repetition penalty on it, as beam search has it, into space->score. False as above. */
bool th_log_probabilities(const th_sampling *s, const th_logits_row *row, th_sampling_space *space);

#endif
