/* The examples of a tuner, as tokens, and the micro-batches that they become. */
#ifndef TH_MODELS_TUNING_EXAMPLES_H
#define TH_MODELS_TUNING_EXAMPLES_H

#include "tapehead/tokenizer.h"

/* An example: `count` tokens, then a mark for each of them, in one allocation. */
typedef struct th_tune_example {
    int32_t *token;
    int64_t count;
} th_tune_example;

typedef struct th_tune_examples {
    th_tune_example *example; /* [count] */
    int64_t count, capacity;
    uint64_t seed; /* of the order */
} th_tune_examples;

/* The next token of a pass over the examples. */
typedef struct th_tune_place {
    int64_t pass;
    int64_t index;    /* of an example, in the order of this pass */
    int64_t examples; /* of this pass; examples that were added later belong to the next one */
    int64_t offset;   /* of a token in the example */
} th_tune_place;

/* A micro-batch of one row. */
typedef struct th_tune_batch {
    int32_t *token, *target, *start; /* [length] the start of the document of each token */
    int64_t length;                  /* the most tokens */
    int64_t tokens, targets, documents;
} th_tune_batch;

/* Adds an example with at least one target. marks: as th_chat_encode writes them. TH_ERROR_VALUE without a target,
 * TH_ERROR_MEMORY. */
th_status th_tune_examples_add(th_context *ctx, th_tune_examples *examples, const th_token_list *tokens,
                               const th_text *marks);
/* Releases all examples. */
void th_tune_examples_free(th_context *ctx, th_tune_examples *examples);

/* Fills the batch with the next examples, at least one, in at most batch->length tokens. Moves *place behind them. */
void th_tune_batch_fill(th_tune_batch *batch, const th_tune_examples *examples, th_tune_place *place);

#endif
