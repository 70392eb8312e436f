/* Batches of texts: see tapehead/text_batch.h and text_rows.h. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/grow.h"
#include "models/text/text_rows.h"
#include "models/text/tokenizer.h"
#include "tapehead/tensor.h"

/* How make_rows is called. */
typedef struct rows_call {
    const char *prompt;        /* precedes each text */
    const char *const *texts;  /* of pairs: 2 n; words of all rows */
    const int64_t *word_begin; /* [n + 1], or NULL for texts and pairs */
    bool pairs;
    size_t length;
} rows_call;

static th_status fail_memory(const th_text_rows *r)
{
    return th_fail_memory(r->tokenizer->ctx, r->operation, r->tokens.count * sizeof *r->tokens.token);
}

/* Removes tokens of row i before the last n_after ones, so that it has at most `length`. Notes where the row ends. */
static th_status end_row(th_text_rows *r, int64_t i, size_t length)
{
    const size_t begin = (size_t)r->begin[i], count = r->tokens.count - begin;
    if (count == 0)
        return th_fail(r->tokenizer->ctx, TH_ERROR_VALUE, r->operation, "texts[%lld] has no tokens", (long long)i);
    if (count > length) {
        const size_t n_after = r->tokenizer->template.n_after, after = n_after < length ? n_after : length;
        const size_t to = begin + length - after, from = r->tokens.count - after;
        memmove(r->tokens.token + to, r->tokens.token + from, after * sizeof *r->tokens.token);
        if (r->word)
            memmove(r->word + to, r->word + from, after * sizeof *r->word);
        if (r->type)
            memmove(r->type + to, r->type + from, after * sizeof *r->type);
        r->tokens.count = begin + length;
    }
    r->begin[i + 1] = (int64_t)r->tokens.count;
    return TH_OK;
}

/* Returns two texts as one, which the next call replaces. NULL without memory. */
static const char *join(th_text_rows *r, const char *a, const char *b)
{
    const size_t before = strlen(a), bytes = before + strlen(b) + 1;
    if (!TH_GROW(r->joined, r->joined_bytes, bytes))
        return NULL;
    memcpy(r->joined, a, before);
    strcpy(r->joined + before, b);
    return r->joined;
}

/* -- words -- */

/* Gives the tokens that have none a word, `number`, and those after the first one -1. */
static bool number_tokens(th_text_rows *r, size_t begin, int32_t number)
{
    if (!TH_GROW(r->word, r->words, r->tokens.count))
        return false;
    for (size_t i = begin; i < r->tokens.count; i++)
        r->word[i] = i == begin ? number : -1;
    return true;
}

static th_status add_word(th_text_rows *r, const char *word, int32_t number)
{
    const size_t begin = r->tokens.count;
    const char *spaced = join(r, " ", word);
    if (spaced == NULL)
        return fail_memory(r);
    if (th_tokenizer_encode(r->tokenizer, spaced, strlen(spaced), &r->tokens))
        return th_error_code(r->tokenizer->ctx);
    return number_tokens(r, begin, number) ? TH_OK : fail_memory(r);
}

static th_status add_tokens(th_text_rows *r, const int32_t *tokens, size_t count)
{
    const size_t begin = r->tokens.count;
    if (!TH_GROW(r->tokens.token, r->tokens.capacity, begin + count))
        return fail_memory(r);
    if (count)
        memcpy(r->tokens.token + begin, tokens, count * sizeof *tokens);
    r->tokens.count = begin + count;
    return number_tokens(r, begin, -1) ? TH_OK : fail_memory(r);
}

static th_status add_row_of_words(th_text_rows *r, const char *const *words, int64_t count)
{
    const th_template *template = &r->tokenizer->template;
    th_status status = add_tokens(r, template->before, template->n_before);
    for (int64_t i = 0; status == TH_OK && i < count; i++)
        status = words[i]
                     ? add_word(r, words[i], (int32_t)i)
                     : th_fail(r->tokenizer->ctx, TH_ERROR_ARGUMENT, r->operation, "words[%lld] is NULL", (long long)i);
    if (status == TH_OK)
        status = add_tokens(r, template->after, template->n_after);
    return status;
}

/* -- pairs -- */

static th_status add_typed(th_text_rows *r, const int32_t *tokens, const int32_t *types, int32_t type, size_t count)
{
    const size_t begin = r->tokens.count;
    if (!TH_GROW(r->tokens.token, r->tokens.capacity, begin + count) || !TH_GROW(r->type, r->types, begin + count))
        return fail_memory(r);
    for (size_t i = 0; i < count; i++) {
        r->tokens.token[begin + i] = tokens[i];
        r->type[begin + i] = types ? types[i] : type;
    }
    r->tokens.count = begin + count;
    return TH_OK;
}

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sets how many tokens of each text remain, so that both have at most `most`: as Hugging Face's tokenizers do. */
static void truncate_longest(size_t count[2], size_t most)
{
    if (count[0] + count[1] <= most)
        return;
    const int shorter = count[0] > count[1];
    size_t low = count[shorter], high = low > most || most - low < low ? low : most - low;
    if (low + high > most) {
        low = most / 2;
        high = low + most % 2;
    }
    count[shorter] = smaller_of(count[shorter], low);
    count[!shorter] = smaller_of(count[!shorter], high);
}

static th_status add_pair(th_text_rows *r, const char *const text[2], int64_t i, size_t length)
{
    const th_pair_template *p = &r->tokenizer->template.pair;
    const size_t added = p->count[0] + p->count[1] + p->count[2];
    th_token_list tokens[2] = {{.count = 0}, {.count = 0}};
    th_status status = TH_OK;
    for (int k = 0; status == TH_OK && k < 2; k++)
        status = text[k] ? th_tokenizer_encode(r->tokenizer, text[k], strlen(text[k]), &tokens[k])
                         : th_fail(r->tokenizer->ctx, TH_ERROR_ARGUMENT, r->operation, "texts[%lld] is NULL",
                                   (long long)(2 * i + k));
    size_t count[2] = {tokens[0].count, tokens[1].count};
    truncate_longest(count, length > added ? length - added : 0);
    for (int k = 0; status == TH_OK && k < TH_PAIR_PLACES; k++) {
        status = add_typed(r, p->token[k], p->type[k], 0, p->count[k]);
        if (status == TH_OK && k < 2)
            status = add_typed(r, tokens[k].token, NULL, p->text_type[k], count[k]);
    }
    th_token_list_free(&tokens[0]);
    th_token_list_free(&tokens[1]);
    return status;
}

/* -- all -- */

static th_status add_text(th_text_rows *r, const char *prompt, const char *text, int64_t i)
{
    if (text == NULL)
        return th_fail(r->tokenizer->ctx, TH_ERROR_ARGUMENT, r->operation, "texts[%lld] is NULL", (long long)i);
    const char *whole = prompt[0] ? join(r, prompt, text) : text;
    return whole ? th_tokenizer_encode_document(r->tokenizer, whole, strlen(whole), &r->tokens) : fail_memory(r);
}

static th_status add_row(th_text_rows *r, const rows_call *call, int64_t i)
{
    const int64_t *word_begin = call->word_begin;
    if (word_begin)
        return add_row_of_words(r, call->texts + word_begin[i], word_begin[i + 1] - word_begin[i]);
    return call->pairs ? add_pair(r, call->texts + 2 * i, i, call->length)
                       : add_text(r, call->prompt, call->texts[i], i);
}

static th_status make_rows(th_text_rows *r, const rows_call *call)
{
    r->begin = (uint64_t)r->n < SIZE_MAX / sizeof *r->begin ? calloc((size_t)r->n + 1, sizeof *r->begin) : NULL;
    th_status status = r->begin ? TH_OK : fail_memory(r);
    for (int64_t i = 0; status == TH_OK && i < r->n; i++) {
        status = add_row(r, call, i);
        if (status == TH_OK)
            status = end_row(r, i, call->length);
    }
    return status;
}

th_status th_text_rows_make(th_text_rows *r, const char *prompt, const char *const *texts, int64_t length)
{
    return make_rows(r, &(rows_call){.prompt = prompt, .texts = texts, .length = (size_t)length});
}

void th_text_rows_free(th_text_rows *r)
{
    free(r->begin);
    free(r->word);
    free(r->type);
    free(r->joined);
    th_token_list_free(&r->tokens);
}

static int64_t row_at(const int64_t *row, int64_t i)
{
    return row ? row[i] : i;
}

/* Returns values of the rows as a tensor (count, longest). */
static th_tensor *pad_rows(const th_text_rows *r, const int64_t *row, int64_t count, int64_t longest,
                           const int32_t *values, int32_t padding)
{
    th_tensor *padded = th_zeros(r->tokenizer->ctx, TH_INT32, TH_SHAPE(count, longest));
    int32_t *data = padded ? th_data(padded) : NULL;
    for (int64_t i = 0; data && i < count; i++, data += longest) { /* no data in a shapes-only context */
        const int64_t from = row_at(row, i), n = th_text_row_tokens(r, from);
        memcpy(data, values + r->begin[from], (size_t)n * sizeof *data);
        for (int64_t t = n; t < longest; t++)
            data[t] = padding;
    }
    return padded;
}

static int64_t longest_row(const th_text_rows *r, const int64_t *row, int64_t count)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i++)
        longest = th_larger(longest, th_text_row_tokens(r, row_at(row, i)));
    return longest;
}

th_tensor *th_text_rows_pad(const th_text_rows *r, const int64_t *row, int64_t count, const int32_t *values,
                            int32_t padding)
{
    return pad_rows(r, row, count, longest_row(r, row, count), values, padding);
}

th_status th_text_rows_batch(const th_text_rows *r, const int64_t *row, int64_t count, th_text_batch *batch)
{
    th_context *ctx = r->tokenizer->ctx;
    const int64_t longest = longest_row(r, row, count);
    batch->tokens = pad_rows(r, row, count, longest, r->tokens.token, 0);
    batch->lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(count));
    batch->types = r->type ? pad_rows(r, row, count, longest, r->type, 0) : NULL;
    batch->words = r->word ? pad_rows(r, row, count, longest, r->word, -1) : NULL;
    int32_t *length = batch->lengths ? th_data(batch->lengths) : NULL;
    for (int64_t i = 0; length && i < count; i++)
        length[i] = (int32_t)th_text_row_tokens(r, row_at(row, i));
    return th_error_code(ctx);
}

static th_status make_batch(const char *operation, th_tokenizer *tokenizer, const rows_call *call, int64_t n,
                            int64_t length, th_text_batch *batch)
{
    if (!th_tokenizer_usable(tokenizer, operation))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    if (call->texts == NULL || batch == NULL || n < 1 || length < 1)
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation,
                       "needs at least one text, a positive length, and where the batch goes");
    if (call->pairs && !tokenizer->template.pair.given)
        return th_fail(tokenizer->ctx, TH_ERROR_STATE, operation,
                       "the tokenizer has no template for pairs: \"pair\" of its post_processor");
    th_text_rows rows = {.operation = operation, .tokenizer = tokenizer, .n = n};
    *batch = (th_text_batch){.tokens = NULL};
    th_status status = make_rows(&rows, call);
    if (status == TH_OK)
        status = th_text_rows_batch(&rows, NULL, n, batch);
    th_text_rows_free(&rows);
    return status;
}

th_status th_text_batch_make(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                             th_text_batch *batch)
{
    const rows_call call = {.prompt = "", .texts = texts, .length = (size_t)length};
    return make_batch("text_batch_make", tokenizer, &call, n, length, batch);
}

th_status th_text_batch_make_pairs(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                                   th_text_batch *batch)
{
    const rows_call call = {.texts = texts, .pairs = true, .length = (size_t)length};
    return make_batch("text_batch_make_pairs", tokenizer, &call, n, length, batch);
}

th_status th_text_batch_make_words(th_tokenizer *tokenizer, const char *const *words, const int64_t *word_begin,
                                   int64_t n, int64_t length, th_text_batch *batch)
{
    static const char operation[] = "text_batch_make_words";
    const rows_call call = {.texts = words, .word_begin = word_begin, .length = (size_t)length};
    if (word_begin == NULL && th_tokenizer_usable(tokenizer, operation))
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation, "word_begin is NULL");
    return make_batch(operation, tokenizer, &call, n, length, batch);
}
