/* Computes sentence embeddings: tokens of texts, hidden states of a batch, pooling. */
#include "tapehead/sentence_embedding.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/text/text_rows.h"
#include "models/text/tokenizer.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

/* What a call was given. */
typedef struct sentence_call {
    const char *operation;
    th_module *model;
    th_tokenizer *tokenizer;
    th_sentence_options options;
    int64_t length; /* the largest number of tokens of a text */
} sentence_call;

/* Begins a call. texts may be NULL if n is 0, and n may be so if `none` is true. */
static th_status begin_call(sentence_call *c, const char *const *texts, int64_t n, bool none,
                            const th_sentence_options *options)
{
    c->options = options ? *options : (th_sentence_options){.prompt = ""};
    if (!th_module_usable(c->model, c->operation))
        return c->model ? th_error_code(c->model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = c->model->ctx;
    const th_language_model_options *o = NULL;
    if (!th_tokenizer_usable(c->tokenizer, c->operation) ||
        (o = th_require_language_model(c->model, c->operation)) == NULL)
        return th_error_code(ctx);
    if (c->tokenizer->ctx != ctx || (texts == NULL && n != 0) || n < (none ? 0 : 1) || c->options.length < 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, c->operation,
                       "needs a tokenizer of the model's context, %s, and a length that is not negative",
                       none ? "texts" : "at least one text");
    const int64_t length = c->options.length;
    c->length = length > 0 && length < o->length ? length : o->length;
    return TH_OK;
}

/* Returns the first numbers of each row of x. NULL if there are fewer. */
static th_tensor *first_dimensions(const sentence_call *c, th_tensor *x)
{
    const int64_t dimensions = c->options.dimensions;
    if (x == NULL || dimensions == 0)
        return x;
    if (dimensions > 0 && dimensions <= th_size(x, 1))
        return th_slice(x, 1, 0, dimensions, 1);
    th_fail(c->model->ctx, TH_ERROR_ARGUMENT, c->operation, "dimensions = %lld must be in [1, %lld], or 0 for all",
            (long long)dimensions, (long long)th_size(x, 1));
    return NULL;
}

/* Returns the embeddings of a batch of these rows, as th_text_rows_batch. */
static th_tensor *embed(const sentence_call *c, const th_text_rows *rows, const int64_t *row, int64_t count)
{
    const th_sentence_options *options = &c->options;
    th_text_batch batch;
    if (th_text_rows_batch(rows, row, count, &batch) != TH_OK)
        return NULL;
    th_tensor *hidden = th_language_model_hidden_states(c->model, batch.tokens,
                                                        &(th_language_model_logits_options){.lengths = batch.lengths});
    th_tensor *x = th_pooling(hidden, batch.lengths, options->pooling);
    if (options->dense)
        x = th_module_forward(options->dense, x);
    if (options->dense_tanh)
        x = th_tanh(x);
    x = first_dimensions(c, x);
    return options->normalize ? th_unit_length(x) : x;
}

th_tensor *th_sentence_embeddings(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                                  const th_sentence_options *options)
{
    sentence_call c = {.operation = "sentence_embeddings", .model = model, .tokenizer = tokenizer};
    if (begin_call(&c, texts, n, false, options) != TH_OK)
        return NULL;
    th_text_rows rows = {.operation = c.operation, .tokenizer = tokenizer, .n = n};
    th_tensor *result = NULL;
    th_scope_begin(model->ctx, c.operation);
    if (th_text_rows_make(&rows, c.options.prompt, texts, c.length) == TH_OK)
        result = embed(&c, &rows, NULL, n);
    th_text_rows_free(&rows);
    return th_scope_end(model->ctx, result);
}

/* -- encode -- */

enum { BATCH_TOKENS = 1024 /* in a batch, with padding; or one text */ };

int64_t th_sentence_dimension(const th_module *model, const th_sentence_options *options)
{
    const th_language_model_options *o = th_language_model_options_of(model);
    if (options && options->dimensions > 0)
        return options->dimensions;
    if (o && options && options->dense)
        return th_size(th_module_find_parameter(options->dense, "weight"), 0);
    return o ? o->width : 0;
}

typedef struct sized_row {
    int64_t row, tokens;
} sized_row;

/* The longest text comes first, so that the first batches need most memory. */
static int compare_rows(const void *a, const void *b)
{
    const sized_row *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens < y->tokens) - (x->tokens > y->tokens)
                                  : (x->row > y->row) - (x->row < y->row);
}

/* Returns the rows by their number of tokens, which the caller frees. NULL without memory. */
static int64_t *sort_rows(const th_text_rows *rows)
{
    const size_t n = (size_t)rows->n;
    sized_row *sized = malloc(n * sizeof *sized);
    int64_t *sorted = sized ? malloc(n * sizeof *sorted) : NULL;
    if (sorted) {
        for (int64_t i = 0; i < rows->n; i++)
            sized[i] = (sized_row){i, th_text_row_tokens(rows, i)};
        qsort(sized, n, sizeof *sized, compare_rows);
        for (int64_t i = 0; i < rows->n; i++)
            sorted[i] = sized[i].row;
    }
    free(sized);
    return sorted;
}

/* Writes the embeddings of these rows to their places, and releases all values of the step. */
static th_status encode_batch(const sentence_call *c, const th_text_rows *rows, const int64_t *row, int64_t count,
                              float *embeddings)
{
    th_context *ctx = c->model->ctx;
    const th_step_mark mark = th_step_get_mark(ctx);
    th_scope_begin(ctx, c->operation); /* the tape owns the tensors of the batch */
    th_tensor *x = th_contiguous(th_cast(embed(c, rows, row, count), TH_FLOAT32));
    const float *data = x ? th_data_const(x) : NULL;
    const int64_t width = x ? th_size(x, 1) : 0;
    for (int64_t i = 0; data && i < count; i++) /* no data in a shapes-only context */
        memcpy(embeddings + row[i] * width, data + i * width, (size_t)width * sizeof *data);
    (void)th_scope_end(ctx, NULL);
    th_step_rewind(ctx, mark);
    return th_error_code(ctx);
}

static th_status encode_rows(const sentence_call *c, const th_text_rows *rows, float *embeddings)
{
    int64_t *sorted = sort_rows(rows), done = 0;
    if (sorted == NULL)
        return th_fail_memory(c->model->ctx, c->operation, (size_t)rows->n * sizeof *sorted);
    th_status status = TH_OK;
    while (status == TH_OK && done < rows->n) {
        const int64_t most = th_larger(BATCH_TOKENS / th_text_row_tokens(rows, sorted[done]), 1);
        const int64_t count = th_smaller(rows->n - done, most);
        status = encode_batch(c, rows, sorted + done, count, embeddings);
        done += count;
    }
    free(sorted);
    return status;
}

th_status th_sentence_encode(th_module *model, th_tokenizer *tokenizer, const char *const *texts, int64_t n,
                             const th_sentence_options *options, float *embeddings)
{
    sentence_call c = {.operation = "sentence_encode", .model = model, .tokenizer = tokenizer};
    th_status status = begin_call(&c, texts, n, true, options);
    if (status != TH_OK || n == 0)
        return status;
    th_context *ctx = model->ctx;
    if (embeddings == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, c.operation, "embeddings is NULL");
    th_text_rows rows = {.operation = c.operation, .tokenizer = tokenizer, .n = n};
    const th_mode mode = th_mode_evaluate(ctx);
    status = th_text_rows_make(&rows, c.options.prompt, texts, c.length);
    if (status == TH_OK)
        status = encode_rows(&c, &rows, embeddings);
    th_text_rows_free(&rows);
    th_mode_restore(ctx, mode);
    return status;
}
