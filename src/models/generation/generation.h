/* The state of one th_generate. generate.c creates it, generate_model.c runs the model, and generate_tokens.c and
 * generate_beams.c choose tokens. A row is a sequence that the model runs. Without beams, a prompt has one row for each
 * of its sequences. With beams it has `beams` rows, and its sequences are the best of them. */
#ifndef TH_MODELS_GENERATION_GENERATION_H
#define TH_MODELS_GENERATION_GENERATION_H

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/generation/sampling.h"
#include "tapehead/cache.h"
#include "tapehead/generate.h"

typedef struct th_generation {
    th_context *ctx;
    th_module *model;
    int threads; /* the context's number at the start, because the caller may change it during generation */
    th_generate_options options; /* beams, sequences and length_penalty have their defaults filled in */
    th_sampling sampling;
    bool decoder_only;
    int64_t vocabulary, length; /* of the model */
    int64_t prompts, longest;   /* the number of prompts; the tokens of the longest prompt */
    int64_t batch, rows;     /* choices at each step: prompts * sequences, or prompts with beams. Rows: batch * beams */
    bool by_length;          /* the model's rotary positions depend on the length of the sequence */
    int64_t switch_length;   /* rotary positions change when a sequence becomes longer; 0: never */
    th_dtype index_type;     /* of the results */
    int64_t stride;          /* longest + max_new_tokens */
    int64_t *tokens;         /* (rows, stride): prompt and generated tokens */
    int64_t *prompt_length;  /* (rows) tokens of the prompt */
    int64_t *count;          /* (rows) tokens */
    int64_t *begin;          /* (rows) the first token that is in the cache, at position 0 */
    bool *ended;             /* (batch) the sequence has ended */
    int64_t *chosen;         /* (rows) chosen tokens; -1: no token could be chosen */
    double *score;           /* (rows) scores of beam search */
    double *log_probability; /* (rows, max_new_tokens) if options.log_probabilities */
    void *workspace;         /* [threads] working memory of each worker; NULL in a shapes-only context */
    th_cache *cache;
    th_tensor *memory, *memory_lengths; /* (rows, S, E), (rows); of an encoder-decoder model, owned */
    /* valid until th_generation_end_run */
    const void *logits; /* (rows, vocabulary); NULL in a shapes-only context */
    th_dtype dtype;
    th_mode mode; /* before the forward */
    th_step_mark mark;
} th_generation;

/* Checks options and operands against the model (generate_check.c). Sets the fields that follow from them, up to
 * `stride`. */
th_status th_generation_check(th_generation *g);

/* -- the model (generate_model.c) -- */
/* Runs the encoder. */
th_status th_generation_encode(th_generation *g);
/* Runs the model. whole: on all tokens of every row, starting at `begin`; otherwise on the last token, because the
 * cache contains the others. The logits of each row's last token are valid until th_generation_end_run, which must be
 * called even after an error. */
th_status th_generation_run(th_generation *g, bool whole);
/* Releases the values of a forward pass. */
void th_generation_end_run(th_generation *g);

/* In a shapes-only context: runs as much as is needed to find the memory that generation would take. */
th_status th_generation_measure_memory(th_generation *g);

/* -- choosing (generate_tokens.c, generate_beams.c) -- */
th_status th_generate_tokens(th_generation *g);
th_status th_generate_beams(th_generation *g);

/* -- functions for choosing (generation.c) -- */
/* Returns the row of a result: sequence number `result` % sequences of prompt `result` / sequences. */
int64_t th_generation_row_of(const th_generation *g, int64_t result);
/* Returns whether the next forward must run all tokens again, because the model rotates the keys of a sequence
 * differently from now on. */
bool th_generation_rotation_changes(const th_generation *g);
/* Sets the error for a sequence with logits that are NaN or +inf, or all -inf. */
th_status th_generation_refuse_logits(const th_generation *g, int64_t sequence);
/* Passes a token to the caller. Returns false if the sequence ends. */
bool th_generation_emit(const th_generation *g, int64_t sequence, int64_t token);
/* Whether a token ends a sequence. */
bool th_generation_is_end_token(const th_generation *g, int64_t token);
/* Returns the logits of a row and the tokens before it. */
th_logits_row th_generation_row(const th_generation *g, int64_t row);
/* Returns the working memory of a worker. */
th_sampling_space th_generation_worker_space(const th_generation *g, int worker);

#endif
