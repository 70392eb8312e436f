/* Chooses a token from a row of logits: the largest, or one drawn from the distribution after improbable tokens are
 * removed. It works on plain arrays in float64, without tensors. The caller passes the random number. The only error
 * is that no token can be chosen.
 *
 * Logits are processed in the order of transformers' logits processors: repetition penalty (Keskar et al. 2019),
 * repeated n-grams, temperature, top-k (Fan et al. 2018), top-p (Holtzman et al. 2020), min-p (Nguyen et al. 2024). */
#ifndef TH_MODELS_GENERATION_SAMPLING_H
#define TH_MODELS_GENERATION_SAMPLING_H

#include "models/core/kernels.h"
#include "tapehead/base.h"

typedef struct th_sampling {
    const th_kernels *kernels;    /* of float64 */
    double temperature;           /* 0: the largest logit */
    int64_t top_k;                /* 0: all */
    double top_p;                 /* 0: all */
    double repetition_penalty;    /* 0: none */
    int64_t no_repeat_ngram_size; /* 0: n-grams may repeat */
    double min_p;                 /* 0: all */
} th_sampling;

/* One row of logits, and the tokens before it. */
typedef struct th_logits_row {
    const void *logits; /* (vocabulary) */
    th_dtype dtype;
    int64_t vocabulary;
    const int64_t *history; /* (length) */
    int64_t length;
} th_logits_row;

/* A number and its index. */
typedef struct th_ranked {
    double score;
    int64_t index;
} th_ranked;

/* Writes the `max` largest of n scores, or all n, in descending order, the first of equal ones first. Returns their
 * number. No score is NaN. */
int64_t th_select_best(int64_t n, const double *score, int64_t max, th_ranked *best);

/* Moves the fewest, largest of n nonnegative scores that add up to at least `mass` to the front, in any order.
 * Returns their number; n if all scores add up to less. */
int64_t th_move_mass_to_front(int64_t n, th_ranked *scores, double mass);

/* Tokens with their probabilities, up to a common factor. */
typedef struct th_choices {
    int64_t count;
    int64_t *token;
    double *weight;
} th_choices;

/* Memory for one row at a time. */
typedef struct th_sampling_space {
    double *score;      /* (vocabulary) */
    th_ranked *best;    /* (vocabulary) */
    th_choices choices; /* (vocabulary) */
} th_sampling_space;
/* Returns the bytes of a space, a multiple of 64; vocabulary is below 2^40. */
size_t th_sampling_bytes(int64_t vocabulary);
/* Places a space in memory of th_sampling_bytes. */
th_sampling_space th_sampling_space_at(void *memory, int64_t vocabulary);

/* Writes the tokens that can be drawn from a row to space->choices, for a temperature above 0. Returns false if no
 * token can be chosen: a logit is NaN or +inf, or all are -inf or would repeat an n-gram. */
bool th_sampling_choices(const th_sampling *s, const th_logits_row *row, th_sampling_space *space);
/* Returns the token with the largest logit, or the one that u in [0, 1) draws. Returns -1 if no token can be chosen. */
int64_t th_sampling_token(const th_sampling *s, const th_logits_row *row, double u, th_sampling_space *space);
/* Returns the log softmax of a row's logits at a token: the model's own, before any processing. The row has a token
 * that can be chosen. */
double th_log_probability(const th_sampling *s, const th_logits_row *row, int64_t token, th_sampling_space *space);
/* Writes the log softmax of a row after the repetition penalty, which beam search uses, to space->score; -inf for
 * tokens that would repeat an n-gram. Returns false if no token can be chosen. */
bool th_log_probabilities(const th_sampling *s, const th_logits_row *row, th_sampling_space *space);

#endif
