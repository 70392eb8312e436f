/* The model of the copy task, and what the model reads and writes.
 *
 * B batch, n length of a sequence, T = 2n tokens, V vocabulary with the separator, E width, H heads. */
#ifndef COPY_TASK_MODEL_H
#define COPY_TASK_MODEL_H

#include <tapehead/tapehead.h>

enum { COPY_MAX_LENGTH = 120 }; /* of a sequence */

typedef struct copy_settings {
    int64_t length, vocab, width, heads; /* vocab: the number of symbols, and the token of the separator */
    double dropout;                      /* on the attention weights */
    bool no_attention;
} copy_settings;

/* Embedding + position embeddings, attention with a residual, dense to the vocabulary. */
typedef struct {
    th_module base;
    copy_settings settings;
    th_module *embedding, *attention, *output;
    th_tensor *positions; /* (T, E), the position embeddings */
} copy_model;

/* The copy task's mask: a position sees itself and those before it. */
extern const th_mask copy_causal;

/* Creates a model with random parameters; NULL on error. */
th_module *copy_model_new(th_context *ctx, const copy_settings *settings);

/* Returns token embeddings plus position embeddings: (B, t) -> (B, t, E) */
th_tensor *embed(const copy_model *m, th_tensor *tokens);

/* Concatenates x, the separator and the first `written` symbols of y: (B, n), (1, 1), (B, n) -> (B, n + 1 + written) */
th_tensor *join_tokens(th_tensor *x, th_tensor *separator, th_tensor *y, int64_t written);

/* Runs forward on random sequences x (B, n), and returns the loss. Also returns the logits (B, n, V) from the separator
 * on, unless `logits` is NULL. */
th_tensor *copy_loss(th_module *model, th_tensor *x, th_tensor *separator, th_tensor **logits);

/* Generates the continuation of x from the model's own output: (B, n) -> (B, n) */
th_tensor *decode(th_module *model, th_tensor *x, th_tensor *separator);

/* Returns the share of symbols, or of whole sequences, in which y (B, n) equals x. */
double accuracy(th_tensor *x, th_tensor *y, bool whole);

/* The letters of the symbols. */
extern const char copy_letters[];

/* Writes the letters of tokens (1, count), at most 2 COPY_MAX_LENGTH, and '|' for the separator. Returns text, which is
 * "" after an error. */
const char *spell(th_tensor *tokens, int64_t separator, char text[2 * COPY_MAX_LENGTH + 1]);

#endif
