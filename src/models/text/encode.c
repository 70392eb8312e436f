/* Converts text to tokens. Added tokens are found first. The text between them is split into words. Each word is looked
 * up in a cache, or merged or cut, in memory that later words reuse. */
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/tokenizer.h"

void th_token_list_free(th_token_list *list)
{
    if (list == NULL)
        return;
    free(list->token);
    *list = (th_token_list){0};
}

typedef struct encoding {
    th_tokenizer *tokenizer;
    const char *operation;
    const char *text; /* the whole text, to compute the position of a character without a token */
    size_t bytes;
    th_token_list *tokens;
} encoding;

static th_status fail_memory(const encoding *e, size_t tokens)
{
    return th_fail_memory(e->tokenizer->ctx, e->operation, tokens * sizeof(int32_t));
}

static th_status append_tokens(const encoding *e, const int32_t *token, size_t count)
{
    th_token_list *list = e->tokens;
    if (!TH_GROW(list->token, list->capacity, list->count + count))
        return fail_memory(e, list->count + count);
    for (size_t i = 0; i < count; i++)
        list->token[list->count + i] = token[i];
    list->count += count;
    return TH_OK;
}

/* -- words -- */

/* Sets the error for a character without a token. */
static th_status refuse_character(const encoding *e, const char *word, size_t bytes, size_t at, size_t length)
{
    char hexadecimal[16] = "";
    for (size_t i = 0; i < length; i++)
        snprintf(hexadecimal + 3 * i, sizeof hexadecimal - 3 * i, " %02x", (unsigned char)word[at + i]);
    const bool inside = word >= e->text && word < e->text + e->bytes;
    const bool visible = (unsigned char)word[at] >= ' ' && th_character_length(word + at, bytes - at) > 0;
    return th_fail(e->tokenizer->ctx, TH_ERROR_VALUE, e->operation,
                   "'%.*s' (bytes%s) at byte %zu%s is not in the vocabulary, which has no token for unknown text",
                   visible ? (int)length : 0, word + at, hexadecimal, inside ? (size_t)(word - e->text) + at : at,
                   inside ? "" : " of a normalized word");
}

/* Writes the tokens of a character's bytes, such as <0xE2>. Returns false if one of them has no token. */
static bool write_fallback(th_tokenizer *t, const char *character, size_t length, size_t *count)
{
    for (size_t i = 0; i < length; i++)
        if (t->fallback_token[(unsigned char)character[i]] < 0)
            return false;
    for (size_t i = 0; i < length; i++)
        t->word_memory.token[(*count)++] = t->fallback_token[(unsigned char)character[i]];
    return true;
}

/* Writes the tokens of a word's bytes into t->word_memory.token. Returns whether each byte has one. */
static bool write_bytes(th_tokenizer *t, const char *word, size_t bytes)
{
    int32_t all = 0;
    for (size_t i = 0; i < bytes; i++)
        all |= t->word_memory.token[i] = t->byte_token[(unsigned char)word[i]];
    return all >= 0;
}

/* Writes the tokens of a word's single bytes or characters, before any merge, into t->word_memory.token, which is large
 * enough. As in the reference, an unknown token waits for the next character that is in the vocabulary, so tokens of
 * bytes come before it. */
static th_status write_single_tokens(const encoding *e, const char *word, size_t bytes, size_t *count)
{
    th_tokenizer *t = e->tokenizer;
    bool unknown_waits = false;
    *count = bytes;
    if (t->byte_level && write_bytes(t, word, bytes))
        return TH_OK;
    *count = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        const int character = th_character_length(word + at, bytes - at);
        length = t->byte_level || character == 0 ? 1 : (size_t)character;
        const int32_t token = t->byte_level ? t->byte_token[(unsigned char)word[at]]
                                            : th_vocabulary_find(&t->vocabulary, word + at, length);
        if (token < 0 && write_fallback(t, word + at, length, count))
            continue;
        if (token < 0 && t->unknown < 0)
            return refuse_character(e, word, bytes, at, length);
        if (unknown_waits && (token >= 0 || !t->fuse_unknown))
            t->word_memory.token[(*count)++] = t->unknown;
        if (token >= 0)
            t->word_memory.token[(*count)++] = token;
        unknown_waits = token < 0;
    }
    if (unknown_waits)
        t->word_memory.token[(*count)++] = t->unknown;
    return TH_OK;
}

/* Cuts a word by WordPiece. A word without pieces is the unknown token. */
static th_status cut_word(const encoding *e, const char *word, size_t bytes, size_t *count)
{
    th_tokenizer *t = e->tokenizer;
    switch (th_word_pieces_cut(&t->pieces, &t->vocabulary, &t->word_memory, word, bytes, count)) {
    case TH_PIECES_FOUND:
        return TH_OK;
    case TH_PIECES_NO_MEMORY:
        return fail_memory(e, bytes);
    case TH_PIECES_UNKNOWN:
        break;
    }
    if (t->unknown < 0)
        return refuse_character(e, word, bytes, 0, bytes < 4 ? bytes : (size_t)th_character_length(word, bytes));
    if (!TH_GROW(t->word_memory.token, t->word_memory.capacity, 1))
        return fail_memory(e, 1);
    t->word_memory.token[0] = t->unknown;
    *count = 1;
    return TH_OK;
}

/* Cuts a word into the tokens with the greatest sum of scores. */
static th_status cut_word_by_scores(const encoding *e, const char *word, size_t bytes, size_t *count)
{
    th_tokenizer *t = e->tokenizer;
    const th_pieces found =
        th_unigram_cut(&t->unigram, &t->vocabulary, &t->word_memory, word, bytes, t->unknown, t->fallback_token, count);
    const int character = found == TH_PIECES_UNKNOWN ? th_character_length(word + *count, bytes - *count) : 0;
    return found == TH_PIECES_FOUND     ? TH_OK
           : found == TH_PIECES_UNKNOWN ? refuse_character(e, word, bytes, *count, character ? (size_t)character : 1)
                                        : fail_memory(e, bytes);
}

static th_status merge_word(const encoding *e, const char *word, size_t bytes, size_t *count)
{
    th_word_memory *memory = &e->tokenizer->word_memory;
    if (!TH_GROW(memory->token, memory->capacity, bytes))
        return fail_memory(e, bytes);
    if (write_single_tokens(e, word, bytes, count))
        return th_error_code(e->tokenizer->ctx);
    return th_merges_apply(&e->tokenizer->merges, memory, *count, count) ? TH_OK : fail_memory(e, bytes);
}

/* Returns the mark of a word in the cache: not 0, the mark of an empty slot. */
static uint32_t cache_mark_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

/* Puts the last tokens of the list into the cache. */
static void cache_word(const encoding *e, uint64_t hash, const char *word, size_t bytes, size_t count)
{
    const size_t at = hash & (TH_CACHED_WORDS - 1);
    th_cached_word *slot = &e->tokenizer->cache[at];
    e->tokenizer->cache_mark[at] = cache_mark_of(hash);
    slot->bytes = (uint8_t)bytes;
    slot->count = (uint8_t)count;
    for (size_t i = 0; i < bytes; i++)
        slot->word[i] = word[i];
    const int32_t *token = e->tokens->token + e->tokens->count - count;
    for (size_t i = 0; i < count; i++)
        slot->token[i] = token[i];
}

static th_status encode_word(const encoding *e, const char *word, size_t bytes)
{
    th_tokenizer *t = e->tokenizer;
    const uint64_t hash = th_hash_bytes(t->vocabulary.key, word, bytes);
    const size_t at = hash & (TH_CACHED_WORDS - 1);
    const th_cached_word *cached = t->cache_mark[at] == cache_mark_of(hash) ? &t->cache[at] : NULL;
    if (cached && cached->bytes == bytes && th_same_bytes(cached->word, word, bytes))
        return append_tokens(e, cached->token, cached->count);
    size_t count = 1;
    const int32_t whole = t->ignore_merges ? th_vocabulary_find_hashed(&t->vocabulary, hash, word, bytes) : -1;
    if (whole >= 0) {
        if (append_tokens(e, &whole, 1))
            return th_error_code(t->ctx);
    } else if ((t->pieces.used    ? cut_word
                : t->unigram.used ? cut_word_by_scores
                                  : merge_word)(e, word, bytes, &count) ||
               append_tokens(e, t->word_memory.token, count)) {
        return th_error_code(t->ctx);
    }
    if (bytes <= TH_CACHED_BYTES && count <= TH_CACHED_TOKENS)
        cache_word(e, hash, word, bytes, count);
    return TH_OK;
}

/* Encodes a piece, which the split does not cut any more. */
static th_status encode_piece(void *user, const char *piece, size_t bytes)
{
    const encoding *e = user;
    const th_tokenizer *t = e->tokenizer;
    if (t->seams.bit == NULL)
        return encode_word(e, piece, bytes);
    for (size_t at = 0, end; at < bytes; at = end) {
        end = th_seams_next(&t->seams, &t->vocabulary, piece, bytes, at);
        if (encode_word(e, piece + at, end - at))
            return th_error_code(t->ctx);
    }
    return TH_OK;
}

/* -- texts -- */

static th_status encode_plain(const encoding *e, th_piece piece)
{
    th_tokenizer *t = e->tokenizer;
    const th_word_sink sink = {encode_piece, (void *)(uintptr_t)e};
    if (t->prefix_space && piece.bytes > 0 && *piece.text != ' ') {
        if (!TH_GROW(t->spaced_text, t->spaced_capacity, piece.bytes + 1))
            return th_fail_memory(t->ctx, e->operation, piece.bytes + 1);
        t->spaced_text[0] = ' ';
        memcpy(t->spaced_text + 1, piece.text, piece.bytes);
        piece = (th_piece){
            .text = t->spaced_text, .bytes = piece.bytes + 1, .first = piece.first > 0 ? piece.first + 1 : 0};
    }
    return th_split_text(&t->split, t->ctx, e->operation, piece, sink);
}

/* Finds added tokens, and passes the pieces between them to `next`. */
static th_status encode_between(const encoding *e, bool normalized, th_piece piece,
                                th_status (*next)(const encoding *e, th_piece piece))
{
    th_added_search search = {
        .tokens = &e->tokenizer->added.found[normalized], .text = piece.text, .bytes = piece.bytes};
    size_t at = 0;
    const th_added_token *token;
    while ((token = th_added_search_next(&search, at))) {
        if ((search.begin > at && next(e, th_piece_of(piece, at, search.begin))) || append_tokens(e, &token->id, 1))
            return th_error_code(e->tokenizer->ctx);
        at = search.end;
    }
    return at < piece.bytes ? next(e, th_piece_of(piece, at, piece.bytes)) : TH_OK;
}

/* Normalizes a piece, and then finds the tokens that are `normalized`. */
static th_status encode_normalized(const encoding *e, th_piece piece)
{
    return th_normalizer_apply(&e->tokenizer->normalizer, e->tokenizer->ctx, e->operation, &piece)
               ? th_error_code(e->tokenizer->ctx)
               : encode_between(e, true, piece, encode_plain);
}

static th_status encode_text(const encoding *e)
{
    const int first = th_character_length(e->text, e->bytes);
    const th_piece text = {.text = e->text, .bytes = e->bytes, .first = first > 0 ? (size_t)first : 1};
    return encode_between(e, false, text, encode_normalized);
}

/* Encodes a text. After an error nothing is appended. */
static th_status encode_all_or_nothing(th_tokenizer *t, const char *operation, const char *text, size_t bytes,
                                       bool document, th_token_list *tokens)
{
    if (!th_tokenizer_usable(t, operation))
        return t ? th_error_code(t->ctx) : TH_ERROR_ARGUMENT;
    if ((text == NULL && bytes > 0) || tokens == NULL || bytes > PTRDIFF_MAX / sizeof(int32_t))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "needs a text and a list");
    const encoding e = {t, operation, text, bytes, tokens};
    const size_t before = tokens->count;
    if ((document && append_tokens(&e, t->template.before, t->template.n_before)) || (bytes > 0 && encode_text(&e)) ||
        (document && append_tokens(&e, t->template.after, t->template.n_after))) {
        tokens->count = before;
        return th_error_code(t->ctx);
    }
    return TH_OK;
}

th_status th_tokenizer_encode(th_tokenizer *tokenizer, const char *text, size_t bytes, th_token_list *tokens)
{
    return encode_all_or_nothing(tokenizer, "tokenizer_encode", text, bytes, false, tokens);
}

th_status th_tokenizer_encode_document(th_tokenizer *tokenizer, const char *text, size_t bytes, th_token_list *tokens)
{
    return encode_all_or_nothing(tokenizer, "tokenizer_encode_document", text, bytes, true, tokens);
}
