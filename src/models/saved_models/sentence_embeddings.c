/* Computes sentence embeddings: a batch of texts, hidden states, pooling. */
#include "tapehead/sentence_embedding.h"

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/text/tokenizer.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tapehead/text_batch.h"

static const char operation[] = "sentence_embeddings";

static th_tensor *embed(th_module *model, const th_text_batch *batch, const th_sentence_options *options)
{
    th_tensor *hidden = th_language_model_hidden_states(
        model, batch->tokens, &(th_language_model_logits_options){.lengths = batch->lengths});
    th_tensor *pooled = th_pooling(hidden, batch->lengths, options->pooling);
    return options->normalize ? th_unit_length(pooled) : pooled;
}

th_tensor *th_sentence_embeddings(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                                  const th_sentence_options *options)
{
    const th_sentence_options given = options ? *options : (th_sentence_options){0};
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
    if (th_text_batch_make(tokenizer, texts, n, length, &batch) == TH_OK)
        result = embed(model, &batch, &given);
    return th_scope_end(ctx, result);
}
