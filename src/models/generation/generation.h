/* One th_generate while it runs: what generate.c sets up, generate_model.c runs, and generate_tokens.c and
 * generate_beams.c choose tokens for. A row is a sequence that the model runs: as many for each one
 * asked for as there are beams. */
#ifndef TH_MODELS_GENERATION_GENERATION_H
#define TH_MODELS_GENERATION_GENERATION_H

#include "autograd/tape.h"
#include "models/generation/sampling.h"
#include "nn/module.h"
#include "tapehead/cache.h"
#include "tapehead/generate.h"
#include "tensor/tensor.h"

typedef struct th_generation {
    th_context *ctx;
    th_module *model;
    int threads;                 /* at the start: the caller may change them on the way */
    th_generate_options options; /* beams, length_penalty and repetition_penalty completed */
    th_sampling sampling;
    bool decoder_only;
    int64_t vocabulary, length;   /* of the model */
    int64_t batch, longest, rows; /* sequences, tokens of the longest prompt, batch * beams */
    th_dtype index_type;          /* of the results */
    int64_t stride;               /* longest + max_new_tokens */
    int64_t *tokens;              /* (rows, stride): prompt and what was generated */
    int64_t *prompt;              /* (rows) tokens of the prompt */
    int64_t *count;               /* (rows) tokens */
    int64_t *begin;               /* (rows) the first token that the cache has, at position 0 */
    bool *over;                   /* (batch) */
    int64_t *next;                /* (rows) chosen tokens; -1: there was nothing to choose from */
    double *score;                /* (batch) of beam search */
    void *space;                  /* [threads] what a worker chooses in; NULL in a shapes-only context */
    th_cache *cache;
    th_tensor *memory, *memory_lengths; /* (rows, S, E), (rows); of an encoder-decoder model, owned */
    /* while a forward's values are there */
    const void *logits; /* (rows, vocabulary); NULL in a shapes-only context */
    th_dtype dtype;
    bool training;
    th_step_mark mark;
} th_generation;

/* Options and operands against the model (generate_check.c); fills in what follows from them, up to `stride`. */
th_status th_generation_check(th_generation *g);

/* -- the model (generate_model.c) -- */
/* Runs the encoder. */
th_status th_generation_encode(th_generation *g);
/* Runs what of every row's tokens the cache does not have: all from `begin` on when `anew`, else the last. The logits
 * of each row's last token are there until th_generation_done, which comes after it in any case. */
th_status th_generation_run(th_generation *g, bool anew);
void th_generation_done(th_generation *g);

/* In a shapes-only context: what would be run, as far as it takes memory. */
th_status th_generation_forecast(th_generation *g);

/* -- choosing (generate_tokens.c, generate_beams.c) -- */
th_status th_generate_tokens(th_generation *g);
th_status th_generate_beams(th_generation *g);

/* -- what that asks for (generation.c) -- */
/* The error of a sequence of whose logits nothing can be chosen. */
th_status th_generation_no_choice(const th_generation *g, int64_t sequence);
/* Hands a token to the caller; false: the sequence is over. */
bool th_generation_emit(const th_generation *g, int64_t sequence, int64_t token);
bool th_generation_ends(const th_generation *g, int64_t token);
/* The logits of a row with what has led to them. */
th_logits_row th_generation_row(const th_generation *g, int64_t row);
/* What worker chooses in. */
th_sampling_space th_generation_space(const th_generation *g, int worker);

#endif
