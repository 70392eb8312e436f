/* Computes sentence embeddings: a batch of texts, hidden states, pooling. */
#include "tapehead/sentence_embedding.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/text/tokenizer.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tapehead/text_batch.h"

static const char operation[] = "sentence_embeddings";

/* Returns the texts with the prompt before each, in one block that the caller frees. NULL without memory. */
static char **with_prompt(const char *prompt, const char *const *texts, int64_t n)
{
    const size_t before = strlen(prompt), pointers = (size_t)n * sizeof(char *);
    size_t bytes = pointers;
    for (int64_t i = 0; i < n; i++)
        bytes += texts[i] ? before + strlen(texts[i]) + 1 : 0;
    char **list = malloc(bytes), *at = list ? (char *)list + pointers : NULL;
    for (int64_t i = 0; list && i < n; i++) {
        list[i] = texts[i] ? at : NULL;
        if (texts[i]) {
            memcpy(at, prompt, before);
            strcpy(at + before, texts[i]);
            at += strlen(at) + 1;
        }
    }
    return list;
}

static th_status make_batch(th_tokenizer *tokenizer, const char *prompt, const char *const *texts, int64_t n,
                            int64_t length, th_text_batch *batch)
{
    if (prompt[0] == 0)
        return th_text_batch_make(tokenizer, texts, n, length, batch);
    char **prompted = with_prompt(prompt, texts, n);
    if (prompted == NULL)
        return th_fail_memory(tokenizer->ctx, operation, 0);
    const th_status status = th_text_batch_make(tokenizer, (const char *const *)prompted, n, length, batch);
    free(prompted);
    return status;
}

/* Returns the first numbers of each row of x. NULL if there are fewer. */
static th_tensor *first_dimensions(th_tensor *x, int64_t dimensions)
{
    if (x == NULL || dimensions == 0)
        return x;
    if (dimensions > 0 && dimensions <= th_size(x, 1))
        return th_slice(x, 1, 0, dimensions, 1);
    th_fail(th_context_of(x), TH_ERROR_ARGUMENT, operation, "dimensions = %lld must be in [1, %lld], or 0 for all",
            (long long)dimensions, (long long)th_size(x, 1));
    return NULL;
}

static th_tensor *embed(th_module *model, const th_text_batch *batch, const th_sentence_options *options)
{
    th_tensor *hidden = th_language_model_hidden_states(model, batch->tokens,
                                                        &(th_language_model_logits_options){.lengths = batch->lengths});
    th_tensor *x = th_pooling(hidden, batch->lengths, options->pooling);
    if (options->dense)
        x = th_module_forward(options->dense, x);
    if (options->dense_tanh)
        x = th_tanh(x);
    x = first_dimensions(x, options->dimensions);
    return options->normalize ? th_unit_length(x) : x;
}

th_tensor *th_sentence_embeddings(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                                  const th_sentence_options *options)
{
    const th_sentence_options given = options ? *options : (th_sentence_options){.prompt = ""};
    if (!th_module_usable(model, operation) || !th_tokenizer_usable(tokenizer, operation))
        return NULL;
    th_context *ctx = model->ctx;
    const th_language_model_options *o = th_require_language_model(model, operation);
    if (o == NULL)
        return NULL;
    if (tokenizer->ctx != ctx || texts == NULL || n < 1 || given.length < 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                "needs a tokenizer of the model's context, at least one text, and a length that is not negative");
        return NULL;
    }
    const int64_t length = given.length > 0 && given.length < o->length ? given.length : o->length;
    th_text_batch batch;
    th_tensor *result = NULL;
    th_scope_begin(ctx, operation);
    if (make_batch(tokenizer, given.prompt, texts, n, length, &batch) == TH_OK)
        result = embed(model, &batch, &given);
    return th_scope_end(ctx, result);
}
