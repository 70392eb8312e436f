/* Beam search over one sequence: it chooses which of a model's continuations to follow, and which are finished. It
 * uses scores and tokens only, no model and no tensor. The rules are those of transformers' generate. A candidate
 * that ends counts only if it is among the best `beams`. Finished beams are compared by log-probability / length ^
 * penalty (Wu et al. 2016, without its constant). The search ends when `beams` are finished and the best active
 * beam, at its present score, cannot become better than the worst of them. */
#ifndef TH_MODELS_GENERATION_BEAM_SEARCH_H
#define TH_MODELS_GENERATION_BEAM_SEARCH_H

#include "models/generation/sampling.h"

typedef struct th_finished_beam {
    double score;
    int64_t length; /* tokens, including the end token */
    int64_t slot;   /* row of finished_tokens */
} th_finished_beam;

typedef struct th_beam_search {
    /* inputs */
    int64_t beams, vocabulary, max_new_tokens;
    double length_penalty;
    bool early_stopping;       /* the search ends as soon as `beams` beams are finished */
    const int64_t *end_tokens; /* (n_end_tokens) */
    int64_t n_end_tokens;
    /* state */
    int64_t length;             /* tokens of every active beam */
    double *score;              /* (beams) of the active ones, descending: sums of log-probabilities */
    int64_t *tokens;            /* (beams, max_new_tokens) */
    int64_t *next;              /* (beams, max_new_tokens), of the next step */
    th_finished_beam *finished; /* (beams), n_finished of them, descending */
    int64_t n_finished;
    int64_t *finished_tokens; /* (beams, max_new_tokens) */
    bool ended;
} th_beam_search;

/* Returns how many candidates a step needs, so that enough beams continue even if some candidates end. */
int64_t th_beam_candidates(const th_beam_search *s);
/* Returns the bytes of the state, a multiple of 8. */
size_t th_beam_bytes(int64_t beams, int64_t max_new_tokens);
/* Sets the state, in memory of th_beam_bytes, to the beginning of a search: one beam is active. */
void th_beam_begin(th_beam_search *s, void *memory);
/* Does one step. candidates: the best th_beam_candidates of all beams in descending order (fewer if there are no
 * more, but at least `beams`). Each has its beam's score added, and its index is beam * vocabulary + token.
 * Afterwards source[i] (beams) is the previous beam that beam i continues; beam i's new token is its last. */
void th_beam_step(th_beam_search *s, int64_t count, const th_ranked *candidates, int64_t *source);
/* Returns the tokens of the sequence with this rank, 0 for the best: finished ones first, then active ones. Sets *length
 * to their number, and *score. */
const int64_t *th_beam_result(const th_beam_search *s, int64_t rank, int64_t *length, double *score);

#endif
