/* Training steps of a GPT-2 on random tokens, in the public API, for the programs of this folder. */
#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

#include <tapehead/tapehead.h>

typedef struct {
    int64_t layers, width, heads, vocabulary, batch, length;
    bool mlp;       /* false: layers have attention only */
    double dropout; /* of the embedding, the branches and the attention weights */
} training_sizes;

enum { BATCHES = 4 };

/* B batch, T length. */
typedef struct {
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens[BATCHES], *targets[BATCHES]; /* (B, T) */
} training;

/* Sets the sizes of a configuration (configurations.def). Returns false if the name is unknown. */
bool training_find(const char *name, training_sizes *sizes);

/* Makes a context with these options, a model, its optimizer and batches. Ends the program if that fails. The caller
 * frees the context, which owns the rest. */
training training_new(const char *program, const training_sizes *sizes, const th_context_options *options);

/* Runs one step: forward, backward, AdamW. Returns its loss, which is valid until the next step. Ends the program if it
 * fails. */
th_tensor *training_step(const char *program, const training *t, int64_t step);

#endif
