/* Converts text to tokens. Added tokens are found first. The text between them is split into words. Each word is looked
 * up in a cache or merged, in memory that later words reuse. */
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
    th_tokenizer *t;
    const char *operation;
    const char *text; /* the whole text, to compute the position of a character without a token */
    size_t bytes;
    uint64_t *budget; /* steps left for patterns */
    th_token_list *tokens;
} encoding;

static th_status out_of_memory(const encoding *e, size_t tokens)
{
    return th_fail_memory(e->t->ctx, e->operation, tokens * sizeof(int32_t));
}

static th_status append(const encoding *e, const int32_t *token, size_t count)
{
    th_token_list *list = e->tokens;
    if (!TH_GROW(list->token, list->capacity, list->count + count))
        return out_of_memory(e, list->count + count);
    for (size_t i = 0; i < count; i++)
        list->token[list->count + i] = token[i];
    list->count += count;
    return TH_OK;
}

/* -- words -- */

/* Writes the tokens of a word's single bytes or characters, before any merge, into t->word.token, which is large
 * enough. */
static th_status write_single_tokens(const encoding *e, const char *word, size_t bytes, size_t *count)
{
    th_tokenizer *t = e->t;
    bool unknown_before = false;
    *count = 0;
    for (size_t at = 0; at < bytes;) {
        const int character = th_character_length(word + at, bytes - at);
        const size_t length = t->byte_level || character == 0 ? 1 : (size_t)character;
        int32_t token = t->byte_level ? t->byte_token[(unsigned char)word[at]]
                                      : th_vocabulary_find(&t->vocabulary, word + at, length);
        if (token < 0 && t->unknown < 0) {
            char hexadecimal[16] = "";
            for (size_t i = 0; i < length; i++)
                snprintf(hexadecimal + 3 * i, sizeof hexadecimal - 3 * i, " %02x", (unsigned char)word[at + i]);
            const bool inside = word >= e->text && word < e->text + e->bytes;
            return th_fail(t->ctx, TH_ERROR_VALUE, e->operation,
                           "'%.*s' (bytes%s) at byte %zu is not in the vocabulary, which has no token for unknown text",
                           character && (unsigned char)word[at] >= ' ' ? (int)length : 0, word + at, hexadecimal,
                           inside ? (size_t)(word - e->text) + at : at);
        }
        at += length;
        const bool unknown = token < 0;
        if (!unknown || !unknown_before || !t->fuse_unknown)
            t->word.token[(*count)++] = unknown ? t->unknown : token;
        unknown_before = unknown;
    }
    return TH_OK;
}

static th_status merge_word(const encoding *e, const char *word, size_t bytes, size_t *count)
{
    th_word_memory *memory = &e->t->word;
    if (!TH_GROW(memory->token, memory->capacity, bytes))
        return out_of_memory(e, bytes);
    if (write_single_tokens(e, word, bytes, count))
        return th_error_code(e->t->ctx);
    return th_merges_apply(&e->t->merges, memory, *count, count) ? TH_OK : out_of_memory(e, bytes);
}

static th_cached_word *slot_of(const th_tokenizer *t, const char *word, size_t bytes)
{
    return &t->cache[th_hash_bytes(t->cache_key, word, bytes) & (TH_CACHED_WORDS - 1)];
}

static th_status take_word(void *user, const char *word, size_t bytes)
{
    const encoding *e = user;
    th_tokenizer *t = e->t;
    th_cached_word *slot = bytes <= TH_CACHED_BYTES ? slot_of(t, word, bytes) : NULL;
    if (slot && slot->bytes == bytes && memcmp(slot->word, word, bytes) == 0)
        return append(e, slot->token, slot->count);
    size_t count = 1;
    const int32_t whole = t->ignore_merges ? th_vocabulary_find(&t->vocabulary, word, bytes) : -1;
    if (whole >= 0) {
        if (append(e, &whole, 1))
            return th_error_code(t->ctx);
    } else if (merge_word(e, word, bytes, &count) || append(e, t->word.token, count)) {
        return th_error_code(t->ctx);
    }
    if (slot && count <= TH_CACHED_TOKENS) {
        slot->bytes = (uint8_t)bytes;
        slot->count = (uint8_t)count;
        memcpy(slot->word, word, bytes);
        memcpy(slot->token, e->tokens->token + e->tokens->count - count, count * sizeof(int32_t));
    }
    return TH_OK;
}

/* -- texts -- */

static th_status encode_plain(const encoding *e, const char *text, size_t bytes)
{
    th_tokenizer *t = e->t;
    const th_word_sink sink = {take_word, (void *)(uintptr_t)e};
    if (!t->prefix_space || bytes == 0 || *text == ' ')
        return th_split_text(&t->split, t->ctx, e->operation, text, bytes, e->budget, sink);
    if (!TH_GROW(t->padded, t->padded_capacity, bytes + 1))
        return th_fail_memory(t->ctx, e->operation, bytes + 1);
    t->padded[0] = ' ';
    memcpy(t->padded + 1, text, bytes);
    return th_split_text(&t->split, t->ctx, e->operation, t->padded, bytes + 1, e->budget, sink);
}

/* Finds added tokens, first those that are not `normalized`, then in the text between them the others. */
static th_status encode_between(const encoding *e, bool normalized, const char *text, size_t bytes)
{
    th_added_search search = {.tokens = &e->t->added, .normalized = normalized, .text = text, .bytes = bytes};
    size_t at = 0;
    const th_added_token *token;
    while ((token = th_added_search_next(&search, at))) {
        if (search.begin > at) {
            const size_t between = search.begin - at;
            if (normalized ? encode_plain(e, text + at, between) : encode_between(e, true, text + at, between))
                return th_error_code(e->t->ctx);
        }
        if (append(e, &token->id, 1))
            return th_error_code(e->t->ctx);
        at = search.end;
    }
    if (at >= bytes)
        return TH_OK;
    return normalized ? encode_plain(e, text + at, bytes - at) : encode_between(e, true, text + at, bytes - at);
}

/* Encodes a text. After an error nothing is appended. */
static th_status encode(th_tokenizer *t, const char *operation, const char *text, size_t bytes, bool document,
                        th_token_list *tokens)
{
    if (!th_tokenizer_usable(t, operation))
        return t ? th_error_code(t->ctx) : TH_ERROR_ARGUMENT;
    if ((text == NULL && bytes > 0) || tokens == NULL || bytes > PTRDIFF_MAX / sizeof(int32_t))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "needs a text and a list");
    uint64_t budget = th_pattern_budget(bytes);
    const encoding e = {t, operation, text, bytes, &budget, tokens};
    const size_t before = tokens->count;
    if ((document && append(&e, t->template.before, t->template.n_before)) ||
        (bytes > 0 && encode_between(&e, false, text, bytes)) ||
        (document && append(&e, t->template.after, t->template.n_after))) {
        tokens->count = before;
        return th_error_code(t->ctx);
    }
    return TH_OK;
}

th_status th_tokenizer_encode(th_tokenizer *tokenizer, const char *text, size_t bytes, th_token_list *tokens)
{
    return encode(tokenizer, "tokenizer_encode", text, bytes, false, tokens);
}

th_status th_tokenizer_encode_document(th_tokenizer *tokenizer, const char *text, size_t bytes, th_token_list *tokens)
{
    return encode(tokenizer, "tokenizer_encode_document", text, bytes, true, tokens);
}
