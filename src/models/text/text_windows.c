/* Windows of texts with the places of their tokens: see tapehead/text_batch.h.
 *
 * A tokenizer gives no places. So a text is encoded in pieces, whose places are known. Pieces are words, and parts of words
 * where a division leaves all tokens as they are: "(Paris)," is ( Paris ) , for most tokenizers. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/text_rows.h"
#include "models/text/tokenizer.h"
#include "tapehead/tensor.h"

static const char operation[] = "text_windows_make";

/* The tokens of one text. */
typedef struct placed_tokens {
    th_tokenizer *tokenizer;
    const char *text;
    th_token_list tokens;
    int32_t *begin, *end; /* [tokens.count]: the bytes of each token's piece */
    size_t begins, ends;  /* their capacities */
    char *spaced;         /* a piece with a space before it */
    size_t spaced_bytes;
} placed_tokens;

static th_status fail_window_memory(const placed_tokens *p)
{
    return th_fail_memory(p->tokenizer->ctx, operation, p->tokens.count * sizeof *p->tokens.token);
}

static void free_placed(placed_tokens *p)
{
    th_token_list_free(&p->tokens);
    free(p->begin);
    free(p->end);
    free(p->spaced);
}

/* -- pieces -- */

/* Appends the tokens of text[begin, end) to a list. A space precedes it if white space precedes it in the text. */
static th_status encode_piece(placed_tokens *p, size_t begin, size_t end, th_token_list *tokens)
{
    const size_t before = th_character_before(p->text, 0, begin);
    const bool spaced = th_white_space_length(p->text + before, begin - before) > 0;
    const size_t bytes = end - begin + spaced;
    if (!TH_GROW(p->spaced, p->spaced_bytes, bytes))
        return fail_window_memory(p);
    p->spaced[0] = ' ';
    memcpy(p->spaced + spaced, p->text + begin, end - begin);
    return th_tokenizer_encode(p->tokenizer, p->spaced, bytes, tokens);
}

/* Appends the tokens of a piece with their places. */
static th_status add_piece(placed_tokens *p, const th_token_list *piece, size_t begin, size_t end)
{
    const size_t before = p->tokens.count, count = before + piece->count;
    if (!TH_GROW(p->tokens.token, p->tokens.capacity, count) || !TH_GROW(p->begin, p->begins, count) ||
        !TH_GROW(p->end, p->ends, count))
        return fail_window_memory(p);
    for (size_t i = 0; i < piece->count; i++) {
        p->tokens.token[before + i] = piece->token[i];
        p->begin[before + i] = (int32_t)begin;
        p->end[before + i] = (int32_t)end;
    }
    p->tokens.count = count;
    return TH_OK;
}

static bool is_ascii_punctuation(unsigned char c)
{
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
}

/* Whether a word may be divided before text[at]: beside punctuation of ASCII, and before characters of three bytes and more,
 * such as Chinese ones. */
static bool may_divide(const char *text, size_t at)
{
    const unsigned char before = (unsigned char)text[at - 1], after = (unsigned char)text[at];
    return (after & 0xc0) != 0x80 &&
           (is_ascii_punctuation(before) || is_ascii_punctuation(after) || after >= 0xe0 || before >= 0x80);
}

/* Sets *same to whether text[begin, middle) and text[middle, end) have the tokens `whole`. left and right become theirs. */
static th_status divide_piece(placed_tokens *p, size_t begin, size_t middle, size_t end, const th_token_list *whole,
                              th_token_list *left, th_token_list *right, bool *same)
{
    left->count = right->count = 0;
    if (encode_piece(p, begin, middle, left) || encode_piece(p, middle, end, right))
        return th_error_code(p->tokenizer->ctx);
    *same = left->count > 0 && left->count + right->count == whole->count &&
            memcmp(left->token, whole->token, left->count * sizeof *left->token) == 0 &&
            (right->count == 0 ||
             memcmp(right->token, whole->token + left->count, right->count * sizeof *right->token) == 0);
    return TH_OK;
}

/* Adds the pieces of text[begin, end), a word or the beginning of a long one. Sets *rest to the beginning of the last piece,
 * which is added only if the word ends there, or if nothing divides it. */
static th_status add_pieces(placed_tokens *p, size_t begin, size_t end, bool word_ends, size_t *rest)
{
    th_token_list whole = {.count = 0}, left = {.count = 0}, right = {.count = 0};
    th_status status = encode_piece(p, begin, end, &whole);
    *rest = begin;
    for (size_t at = begin + 1; status == TH_OK && at < end; at++) {
        bool same = false;
        if (may_divide(p->text, at))
            status = divide_piece(p, *rest, at, end, &whole, &left, &right, &same);
        if (status != TH_OK || !same)
            continue;
        status = add_piece(p, &left, *rest, at);
        *rest = at;
        const th_token_list remaining = right;
        right = whole;
        whole = remaining;
    }
    if (status == TH_OK && (word_ends || *rest == begin)) {
        status = add_piece(p, &whole, *rest, end);
        *rest = end;
    }
    th_token_list_free(&whole);
    th_token_list_free(&left);
    th_token_list_free(&right);
    return status;
}

/* Returns the end of the word at `at`. */
static size_t word_end(const char *text, size_t at, size_t bytes)
{
    while (at < bytes && th_white_space_length(text + at, bytes - at) == 0)
        for (at++; at < bytes && ((unsigned char)text[at] & 0xc0) == 0x80;)
            at++;
    return at;
}

/* Encodes a text. Words are divided in steps of at most `STEP` bytes, because a division is tried with all that follows. */
static th_status encode_placed(placed_tokens *p, const char *text)
{
    enum { STEP = 64 };
    const size_t bytes = strlen(text);
    p->text = text;
    if (bytes > INT32_MAX)
        return th_fail(p->tokenizer->ctx, TH_ERROR_VALUE, operation, "a text has %zu bytes; at most %d can be placed",
                       bytes, INT32_MAX);
    for (size_t at = 0; at < bytes;) {
        const size_t space = th_white_space_length(text + at, bytes - at);
        if (space > 0) {
            at += space;
            continue;
        }
        const size_t end = word_end(text, at, bytes);
        for (size_t step_end; at < end;) {
            step_end = end - at > STEP ? at + STEP : end;
            while (step_end < end && ((unsigned char)text[step_end] & 0xc0) == 0x80)
                step_end++;
            if (add_pieces(p, at, step_end, step_end == end, &at))
                return th_error_code(p->tokenizer->ctx);
        }
    }
    return TH_OK;
}

/* -- rows -- */

/* All windows. rows.word is the beginning of each token's place. */
typedef struct window_rows {
    th_text_rows rows;
    size_t begins;
    int32_t *end, *pair; /* [rows.tokens.count], and [rows.n] */
    size_t ends, pairs;
} window_rows;

/* Appends tokens of one type. begin and end: their places, or NULL. */
static bool append_window(window_rows *w, const int32_t *tokens, size_t count, const int32_t *types, int32_t type,
                          const int32_t *begin, const int32_t *end)
{
    th_text_rows *r = &w->rows;
    const size_t before = r->tokens.count, after = before + count;
    if (!TH_GROW(r->tokens.token, r->tokens.capacity, after) || !TH_GROW(r->type, r->types, after) ||
        !TH_GROW(r->word, r->words, after) || !TH_GROW(w->end, w->ends, after))
        return false;
    for (size_t i = 0; i < count; i++) {
        r->tokens.token[before + i] = tokens[i];
        r->type[before + i] = types ? types[i] : type;
        r->word[before + i] = begin ? begin[i] : -1;
        w->end[before + i] = end ? end[i] : -1;
    }
    r->tokens.count = after;
    return true;
}

static bool append_added(window_rows *w, int place)
{
    const th_pair_template *t = &w->rows.tokenizer->template.pair;
    return append_window(w, t->token[place], t->count[place], t->type[place], 0, NULL, NULL);
}

/* Appends the row of a question and the tokens [from, to) of its context. */
static bool append_row(window_rows *w, int32_t pair, const th_token_list *question, const placed_tokens *context,
                       size_t from, size_t to)
{
    th_text_rows *r = &w->rows;
    const int32_t *types = r->tokenizer->template.pair.text_type;
    const size_t n = (size_t)r->n;
    if (!TH_GROW(r->begin, w->begins, n + 2) || !TH_GROW(w->pair, w->pairs, n + 1))
        return false;
    if (n == 0)
        r->begin[0] = 0;
    const bool complete = append_added(w, TH_PAIR_BEFORE) &&
                          append_window(w, question->token, question->count, NULL, types[0], NULL, NULL) &&
                          append_added(w, TH_PAIR_BETWEEN) &&
                          append_window(w, context->tokens.token + from, to - from, NULL, types[1],
                                        context->begin + from, context->end + from) &&
                          append_added(w, TH_PAIR_AFTER);
    if (!complete)
        return false;
    w->pair[n] = pair;
    r->begin[n + 1] = (int64_t)r->tokens.count;
    r->n++;
    return true;
}

/* Appends the rows of one pair: windows of as many tokens as have room, each with `overlap` tokens of the one before. */
static th_status append_windows(window_rows *w, int32_t pair, th_token_list *question, const placed_tokens *context,
                                size_t room, size_t overlap)
{
    if (question->count > room / 2)
        question->count = room / 2;
    const size_t most = room - question->count, step = most > 2 * overlap ? most - overlap : (most + 1) / 2;
    const size_t count = context->tokens.count;
    for (size_t from = 0;; from += step) {
        const size_t to = count - from > most ? from + most : count;
        if (!append_row(w, pair, question, context, from, to))
            return fail_window_memory(context);
        if (to == count)
            return TH_OK;
    }
}

static th_status append_pair(window_rows *w, const char *const text[2], int32_t pair, size_t room, size_t overlap)
{
    th_tokenizer *tokenizer = w->rows.tokenizer;
    th_token_list question = {.count = 0};
    placed_tokens context = {.tokenizer = tokenizer};
    if (text[0] == NULL || text[1] == NULL)
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation, "a text of pair %d is NULL", (int)pair);
    th_status status = th_tokenizer_encode(tokenizer, text[0], strlen(text[0]), &question);
    if (status == TH_OK)
        status = encode_placed(&context, text[1]);
    if (status == TH_OK)
        status = append_windows(w, pair, &question, &context, room, overlap);
    th_token_list_free(&question);
    free_placed(&context);
    return status;
}

static th_status make_tensors(window_rows *w, th_text_windows *windows)
{
    th_text_rows *r = &w->rows;
    th_context *ctx = r->tokenizer->ctx;
    windows->pair = th_zeros(ctx, TH_INT32, TH_SHAPE(r->n));
    int32_t *pair = windows->pair ? th_data(windows->pair) : NULL;
    if (pair)
        memcpy(pair, w->pair, (size_t)r->n * sizeof *pair);
    int32_t *begin = r->word;
    r->word = NULL;
    th_status status = th_text_rows_batch(r, NULL, r->n, &windows->batch);
    r->word = begin;
    windows->begin = th_text_rows_pad(r, NULL, r->n, begin, -1);
    windows->end = th_text_rows_pad(r, NULL, r->n, w->end, -1);
    return status ? status : th_error_code(ctx);
}

th_status th_text_windows_make(th_tokenizer *tokenizer, const char *const *texts, int64_t n, int64_t length,
                               int64_t overlap, th_text_windows *windows)
{
    if (!th_tokenizer_usable(tokenizer, operation))
        return tokenizer ? th_error_code(tokenizer->ctx) : TH_ERROR_ARGUMENT;
    if (texts == NULL || windows == NULL || n < 1 || n > INT32_MAX || overlap < 0)
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation,
                       "needs at least one pair of texts, an overlap of at least 0, and where the windows go");
    const th_pair_template *t = &tokenizer->template.pair;
    if (!t->given)
        return th_fail(tokenizer->ctx, TH_ERROR_STATE, operation,
                       "the tokenizer has no template for pairs: \"pair\" of its post_processor");
    const size_t added = t->count[0] + t->count[1] + t->count[2];
    if (length < 2 || (size_t)length < added + 2)
        return th_fail(tokenizer->ctx, TH_ERROR_ARGUMENT, operation,
                       "a length of %lld tokens has no room for both texts: the tokenizer adds %zu", (long long)length,
                       added);
    window_rows w = {.rows = {.operation = operation, .tokenizer = tokenizer}};
    *windows = (th_text_windows){.pair = NULL};
    th_status status = TH_OK;
    for (int64_t i = 0; status == TH_OK && i < n; i++)
        status = append_pair(&w, texts + 2 * i, (int32_t)i, (size_t)length - added, (size_t)overlap);
    if (status == TH_OK)
        status = make_tensors(&w, windows);
    th_text_rows_free(&w.rows);
    free(w.end);
    free(w.pair);
    return status;
}
