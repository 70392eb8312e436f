/* Computes sentence embeddings: tokens of all texts in one padded batch, hidden states, pooling. */
#include "tapehead/sentence_embedding.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/text/tokenizer.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char operation[] = "sentence_embeddings";

/* The tokens of all texts, one after another. */
typedef struct batch {
    th_token_list tokens;
    int64_t *begin; /* [n + 1] */
    int64_t n, longest;
} batch;

/* Removes tokens before the last n_after ones, so that the text has at most `length`. */
static void truncate_text(th_token_list *tokens, size_t begin, size_t length, size_t n_after)
{
    if (tokens->count - begin <= length)
        return;
    const size_t after = n_after < length ? n_after : length;
    memmove(tokens->token + begin + length - after, tokens->token + tokens->count - after,
            after * sizeof *tokens->token);
    tokens->count = begin + length;
}

static th_status tokenize(batch *b, th_tokenizer *t, const char *const *texts, int64_t length)
{
    for (int64_t i = 0; i < b->n; i++) {
        const size_t begin = b->tokens.count;
        if (texts[i] == NULL)
            return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "texts[%lld] is NULL", (long long)i);
        if (th_tokenizer_encode_document(t, texts[i], strlen(texts[i]), &b->tokens) != TH_OK)
            return th_error_code(t->ctx);
        truncate_text(&b->tokens, begin, (size_t)length, t->template.n_after);
        b->begin[i + 1] = (int64_t)b->tokens.count;
        if (b->tokens.count == begin)
            return th_fail(t->ctx, TH_ERROR_VALUE, operation, "texts[%lld] has no tokens", (long long)i);
        if (b->begin[i + 1] - b->begin[i] > b->longest)
            b->longest = b->begin[i + 1] - b->begin[i];
    }
    return TH_OK;
}

/* Sets *tokens (n, longest), padded with token 0, and *lengths (n). */
static th_status make_tensors(th_context *ctx, const batch *b, th_tensor **tokens, th_tensor **lengths)
{
    *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(b->n, b->longest));
    *lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(b->n));
    int32_t *token = *tokens ? th_data(*tokens) : NULL, *length = *lengths ? th_data(*lengths) : NULL;
    for (int64_t i = 0; token && length && i < b->n; i++) { /* no data in a shapes-only context */
        length[i] = (int32_t)(b->begin[i + 1] - b->begin[i]);
        memcpy(token + i * b->longest, b->tokens.token + b->begin[i], (size_t)length[i] * sizeof *token);
    }
    return th_error_code(ctx);
}

static th_tensor *embed(th_module *model, const batch *b, const th_sentence_options *options)
{
    th_tensor *tokens, *lengths;
    if (make_tensors(model->ctx, b, &tokens, &lengths) != TH_OK)
        return NULL;
    th_tensor *hidden =
        th_language_model_hidden_states(model, tokens, &(th_language_model_logits_options){.lengths = lengths});
    th_tensor *pooled = th_pooling(hidden, lengths, options->pooling);
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
    batch b = {.n = n, .begin = calloc((size_t)n + 1, sizeof *b.begin)};
    const int64_t length = given.length > 0 && given.length < o->length ? given.length : o->length;
    th_tensor *result = NULL;
    th_scope_begin(ctx, operation);
    if (b.begin == NULL)
        (void)th_fail_memory(ctx, operation, (size_t)n * sizeof *b.begin);
    else if (tokenize(&b, tokenizer, texts, length) == TH_OK)
        result = embed(model, &b, &given);
    free(b.begin);
    th_token_list_free(&b.tokens);
    return th_scope_end(ctx, result);
}
