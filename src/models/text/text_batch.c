/* Batches of texts: see tapehead/text_batch.h. */
#include "tapehead/text_batch.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/grow.h"
#include "models/text/tokenizer.h"
#include "tapehead/tensor.h"

/* The tokens of all texts, one after another. */
typedef struct token_rows {
    const char *operation;
    th_tokenizer *tokenizer;
    th_token_list tokens;
    int32_t *word, *type; /* [tokens.count] as in th_text_batch; NULL without words, or without pairs */
    size_t words, types;  /* their capacities */
    int64_t *begin;       /* [n + 1] */
    int64_t n, longest;
} token_rows;

static th_status fail_memory(const token_rows *r)
{
    return th_fail_memory(r->tokenizer->ctx, r->operation, r->tokens.count * sizeof *r->tokens.token);
}

/* Removes tokens of row i before the last n_after ones, so that it has at most `length`. Notes where the row ends. */
static th_status end_row(token_rows *r, int64_t i, size_t length)
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
    r->longest = th_larger(r->longest, r->begin[i + 1] - r->begin[i]);
    return TH_OK;
}

/* -- words -- */

/* Gives the tokens that have none a word, `number`, and those after the first one -1. */
static bool number_tokens(token_rows *r, size_t begin, int32_t number)
{
    if (!TH_GROW(r->word, r->words, r->tokens.count))
        return false;
    for (size_t i = begin; i < r->tokens.count; i++)
        r->word[i] = i == begin ? number : -1;
    return true;
}

static th_status add_word(token_rows *r, const char *word, int32_t number, char **spaced)
{
    const size_t bytes = strlen(word) + 1, begin = r->tokens.count;
    char *grown = realloc(*spaced, bytes + 1);
    if (grown == NULL)
        return fail_memory(r);
    *spaced = grown;
    grown[0] = ' ';
    memcpy(grown + 1, word, bytes);
    if (th_tokenizer_encode(r->tokenizer, grown, bytes, &r->tokens))
        return th_error_code(r->tokenizer->ctx);
    return number_tokens(r, begin, number) ? TH_OK : fail_memory(r);
}

static th_status add_tokens(token_rows *r, const int32_t *tokens, size_t count)
{
    const size_t begin = r->tokens.count;
    if (!TH_GROW(r->tokens.token, r->tokens.capacity, begin + count))
        return fail_memory(r);
    if (count)
        memcpy(r->tokens.token + begin, tokens, count * sizeof *tokens);
    r->tokens.count = begin + count;
    return number_tokens(r, begin, -1) ? TH_OK : fail_memory(r);
}

static th_status add_row_of_words(token_rows *r, const char *const *words, int64_t count)
{
    const th_template *template = &r->tokenizer->template;
    char *spaced = NULL;
    th_status status = add_tokens(r, template->before, template->n_before);
    for (int64_t i = 0; status == TH_OK && i < count; i++)
        status = words[i]
                     ? add_word(r, words[i], (int32_t)i, &spaced)
                     : th_fail(r->tokenizer->ctx, TH_ERROR_ARGUMENT, r->operation, "words[%lld] is NULL", (long long)i);
    if (status == TH_OK)
        status = add_tokens(r, template->after, template->n_after);
    free(spaced);
    return status;
}

/* -- pairs -- */

static th_status add_typed(token_rows *r, const int32_t *tokens, const int32_t *types, int32_t type, size_t count)
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

static th_status add_pair(token_rows *r, const char *const text[2], int64_t i, size_t length)
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

static th_status add_text(token_rows *r, const char *text, int64_t i)
{
    if (text == NULL)
        return th_fail(r->tokenizer->ctx, TH_ERROR_ARGUMENT, r->operation, "texts[%lld] is NULL", (long long)i);
    return th_tokenizer_encode_document(r->tokenizer, text, strlen(text), &r->tokens);
}

static th_tensor *make_rows(const token_rows *r, const int32_t *values, int32_t padding)
{
    th_tensor *rows = th_zeros(r->tokenizer->ctx, TH_INT32, TH_SHAPE(r->n, r->longest));
    int32_t *data = rows ? th_data(rows) : NULL;
    for (int64_t i = 0; data && i < r->n; i++) { /* no data in a shapes-only context */
        const int64_t count = r->begin[i + 1] - r->begin[i];
        memcpy(data + i * r->longest, values + r->begin[i], (size_t)count * sizeof *data);
        for (int64_t t = count; t < r->longest; t++)
            data[i * r->longest + t] = padding;
    }
    return rows;
}

static th_status make_tensors(const token_rows *r, th_text_batch *batch)
{
    th_context *ctx = r->tokenizer->ctx;
    batch->tokens = make_rows(r, r->tokens.token, 0);
    batch->lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(r->n));
    batch->types = r->type ? make_rows(r, r->type, 0) : NULL;
    batch->words = r->word ? make_rows(r, r->word, -1) : NULL;
    int32_t *length = batch->lengths ? th_data(batch->lengths) : NULL;
    for (int64_t i = 0; length && i < r->n; i++)
        length[i] = (int32_t)(r->begin[i + 1] - r->begin[i]);
    return th_error_code(ctx);
}

/* word_begin: NULL for texts and pairs. */
static th_status make_batch(const char *operation, th_tokenizer *tokenizer, const char *const *texts,
                            const int64_t *word_begin, bool pairs, int64_t n, int64_t length, th_text_batch *batch)
{
    if (!th_tokenizer_usable(tokenizer, operation))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    if (texts == NULL || batch == NULL || n < 1 || length < 1)
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation,
                       "needs at least one text, a positive length, and where the batch goes");
    if (pairs && !tokenizer->template.pair.given)
        return th_fail(tokenizer->ctx, TH_ERROR_STATE, operation,
                       "the tokenizer has no template for pairs: \"pair\" of its post_processor");
    token_rows rows = {
        .operation = operation, .tokenizer = tokenizer, .n = n, .begin = calloc((size_t)n + 1, sizeof *rows.begin)};
    th_status status = rows.begin ? TH_OK : fail_memory(&rows);
    *batch = (th_text_batch){.tokens = NULL};
    for (int64_t i = 0; status == TH_OK && i < n; i++) {
        status = word_begin ? add_row_of_words(&rows, texts + word_begin[i], word_begin[i + 1] - word_begin[i])
                 : pairs    ? add_pair(&rows, texts + 2 * i, i, (size_t)length)
                            : add_text(&rows, texts[i], i);
        if (status == TH_OK)
            status = end_row(&rows, i, (size_t)length);
    }
    if (status == TH_OK)
        status = make_tensors(&rows, batch);
    free(rows.begin);
    free(rows.word);
    free(rows.type);
    th_token_list_free(&rows.tokens);
    return status;
}

th_status th_text_batch_make(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                             th_text_batch *batch)
{
    return make_batch("text_batch_make", tokenizer, texts, NULL, false, n, length, batch);
}

th_status th_text_batch_make_pairs(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                                   th_text_batch *batch)
{
    return make_batch("text_batch_make_pairs", tokenizer, texts, NULL, true, n, length, batch);
}

th_status th_text_batch_make_words(th_tokenizer *tokenizer, const char *const *words, const int64_t *word_begin,
                                   int64_t n, int64_t length, th_text_batch *batch)
{
    static const char operation[] = "text_batch_make_words";
    if (word_begin == NULL && th_tokenizer_usable(tokenizer, operation))
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation, "word_begin is NULL");
    return make_batch(operation, tokenizer, words, word_begin, false, n, length, batch);
}
