/* Beam search over one sequence: which of the continuations that a model offers are followed, and which are finished.
 * It sees scores and tokens only, no model and no tensor. The rules are those of transformers' generate: candidates
 * that end count when they are among the best `beams`, finished ones are compared by log-probability / length ^ penalty
 * (Wu et al. 2016, without its constant), and the search is over when the best that still runs cannot become better
 * than the worst of as many finished ones, taking it as it stands. */
#ifndef TH_MODELS_GENERATION_BEAM_SEARCH_H
#define TH_MODELS_GENERATION_BEAM_SEARCH_H

#include "models/generation/sampling.h"

typedef struct th_finished_beam {
    double score;
    int64_t length; /* tokens, the end token included */
    int64_t slot;   /* row of finished_tokens */
} th_finished_beam;

typedef struct th_beam_search {
    /* given */
    int64_t beams, vocabulary, max_new_tokens;
    double length_penalty;
    bool early_stopping;       /* over as soon as as many are finished as there are beams */
    const int64_t *end_tokens; /* (n_end_tokens) */
    int64_t n_end_tokens;
    /* state */
    int64_t length;             /* tokens of every running beam */
    double *score;              /* (beams) of the running ones, descending: sums of log-probabilities */
    int64_t *tokens;            /* (beams, max_new_tokens) */
    int64_t *next;              /* (beams, max_new_tokens), of the step that is made */
    th_finished_beam *finished; /* (beams), n_finished of them, descending */
    int64_t n_finished;
    int64_t *finished_tokens; /* (beams, max_new_tokens) */
    bool over;
} th_beam_search;

/* How many candidates a step looks at, so that as many beams go on as there are, although others may end. */
int64_t th_beam_candidates(const th_beam_search *s);
/* Memory of the state (a multiple of 8), and the state at the beginning in it; one beam runs. */
size_t th_beam_bytes(int64_t beams, int64_t max_new_tokens);
void th_beam_begin(th_beam_search *s, void *memory);
/* One step. candidates: the best th_beam_candidates of all beams (fewer if there are no more, but at least `beams`), in
 * descending order, each with its beam's score added and its index, beam * vocabulary + token. source[i] (beams) then
 * says which beam was the one that beam i goes on from; its new token is its last. */
void th_beam_step(th_beam_search *s, int64_t count, const th_ranked *candidates, int64_t *source);
/* The best sequence: its tokens, *length of them, and its score. */
const int64_t *th_beam_result(const th_beam_search *s, int64_t *length, double *score);

#endif
