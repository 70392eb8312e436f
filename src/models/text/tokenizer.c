/* Creates, queries and frees tokenizers. Other files implement the parts. */
#include "models/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/byte_alphabet.h"
#include "models/text/characters.h"

/* -- creating and freeing -- */

static void release(th_context *ctx, void *object)
{
    th_tokenizer *t = object;
    th_normalizer_release(&t->normalizer);
    th_split_release(&t->split);
    th_vocabulary_release(&t->vocabulary);
    th_merges_release(&t->merges);
    th_seams_release(&t->seams);
    th_unigram_release(&t->unigram);
    th_added_tokens_release(&t->added);
    free(t->template.before);
    free(t->template.after);
    th_pair_template_release(&t->template.pair);
    th_decoder_release(&t->decoder);
    json_decref(t->truncation_json);
    json_decref(t->padding_json);
    json_decref(t->normalizer_json);
    json_decref(t->pre_tokenizer);
    json_decref(t->post_processor);
    json_decref(t->decoder_json);
    free(t->cache);
    free(t->cache_mark);
    th_word_memory_release(&t->word_memory);
    free(t->spaced_text);
    th_uncount_memory(ctx, t->counted_bytes);
    *t = (th_tokenizer){.ctx = ctx, .freed = true};
    th_quarantine(ctx, t, sizeof *t);
}

th_tokenizer *th_tokenizer_make(th_context *ctx, const char *operation)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    th_tokenizer *t = th_allocate(ctx, sizeof *t);
    if (t == NULL || !th_attach_object(ctx, t, release)) {
        th_release(ctx, t, sizeof *t);
        th_fail_memory(ctx, operation, sizeof *t);
        return NULL;
    }
    *t = (th_tokenizer){.ctx = ctx, .unknown = -1};
    for (int i = 0; i < 256; i++)
        t->byte_token[i] = t->fallback_token[i] = -1;
    t->cache = calloc(TH_CACHED_WORDS, sizeof *t->cache);
    t->cache_mark = calloc(TH_CACHED_WORDS, sizeof *t->cache_mark);
    return th_tokenizer_if_made(t, operation, t->cache && t->cache_mark);
}

/* Makes the context count the memory that the tokenizer now has. */
static th_status count_memory(th_tokenizer *t, const char *operation)
{
    const th_vocabulary *v = &t->vocabulary;
    const th_merges *m = &t->merges;
    size_t bytes = TH_CACHED_WORDS * (sizeof *t->cache + sizeof *t->cache_mark);
    bytes += v->capacity * sizeof *v->entry + v->pool_capacity + v->slots * sizeof *v->slot;
    bytes += m->capacity * sizeof *m->merge + m->slots * (sizeof *m->slot + sizeof *m->filter);
    bytes += t->seams.bit ? TH_SEAM_BITS / 8 : 0;
    bytes += th_added_tokens_memory(&t->added) + th_unigram_memory(&t->unigram);
    for (int i = 0; i < t->split.stages; i++)
        bytes += th_pattern_memory(t->split.stage[i].pattern);
    bytes = (bytes + 63) / 64 * 64; /* the context counts multiples of 64 bytes */
    if (bytes <= t->counted_bytes)
        return TH_OK;
    const th_status status = th_count_memory(t->ctx, bytes - t->counted_bytes, operation);
    if (status == TH_OK)
        t->counted_bytes = bytes;
    return status;
}

th_tokenizer *th_tokenizer_if_made(th_tokenizer *t, const char *operation, bool made)
{
    if (made && !th_failed(t->ctx) && count_memory(t, operation) == TH_OK)
        return t;
    th_fail(t->ctx, TH_ERROR_MEMORY, operation, "out of memory");
    th_tokenizer_free(t);
    return NULL;
}

void th_tokenizer_free(th_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    if (tokenizer->freed) {
        th_fail(tokenizer->ctx, TH_ERROR_STATE, "tokenizer_free", "the tokenizer has been freed already");
        return;
    }
    th_detach_object(tokenizer->ctx, tokenizer);
    release(tokenizer->ctx, tokenizer);
}

bool th_tokenizer_usable(const th_tokenizer *t, const char *operation)
{
    if (t == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the tokenizer is NULL");
        return false;
    }
    th_use_context(t->ctx);
    if (t->freed)
        th_fail(t->ctx, TH_ERROR_STATE, operation, "the tokenizer has been freed");
    return !th_failed(t->ctx);
}

/* -- tokens -- */

bool th_tokenizer_add_model_token(th_tokenizer *t, const char *written, size_t bytes)
{
    th_vocabulary *v = &t->vocabulary;
    char *decoded = NULL;
    size_t count = bytes;
    bool literal = false;
    if (t->byte_level) {
        decoded = malloc(bytes + 1);
        if (decoded == NULL)
            return false;
        literal = !th_bytes_read(written, bytes, decoded, &count);
    }
    const bool added = th_vocabulary_add(v, decoded && !literal ? decoded : written, literal ? bytes : count);
    free(decoded);
    if (!added)
        return false;
    v->entry[v->size - 1].model = true;
    v->entry[v->size - 1].literal = literal;
    /* Words consist of characters that represent bytes, so the model cannot find a literal token. */
    return literal || th_vocabulary_index(v, (int32_t)v->size - 1);
}

void th_tokenizer_find_alphabet(th_tokenizer *t)
{
    th_vocabulary *v = &t->vocabulary;
    for (int byte = 0; t->byte_level && byte < 256; byte++)
        t->byte_token[byte] = th_vocabulary_find(v, &(const char){(char)byte}, 1);
    for (int byte = 0; t->byte_fallback && !t->byte_level && byte < 256; byte++) {
        char name[8];
        t->fallback_token[byte] =
            th_vocabulary_find(v, name, (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte));
    }
    for (size_t i = 0; i < v->size; i++) {
        th_token_entry *e = &v->entry[i];
        const int first = th_character_length(v->pool + e->offset, e->bytes);
        e->can_be_made = e->indexed && (t->ignore_merges || e->bytes == (t->byte_level ? 1u : (unsigned)first));
    }
    for (int byte = 0; byte < 256; byte++)
        if (t->fallback_token[byte] >= 0)
            v->entry[t->fallback_token[byte]].can_be_made = true;
}

bool th_tokenizer_add_merge(th_tokenizer *t, th_merge merge)
{
    t->vocabulary.entry[merge.result].can_be_made = true;
    return th_merges_add(&t->merges, merge);
}

/* Sets `found` to the text in which a token is found: its content, perhaps normalized. */
static th_status find_search_text(th_tokenizer *t, const char *operation, const th_added_token *token, th_piece *found)
{
    *found = (th_piece){.text = token->content, .bytes = token->bytes};
    return token->normalized ? th_normalizer_apply(&t->normalizer, t->ctx, operation, found) : TH_OK;
}

/* Decodes a token of the model, or an added one that is found by `found`. */
static th_status set_token_text(th_tokenizer *t, const char *operation, int32_t id, const th_piece *found)
{
    th_vocabulary *v = &t->vocabulary;
    const char *written = found ? found->text : th_vocabulary_bytes(v, id);
    const size_t bytes = found ? found->bytes : v->entry[id].bytes;
    th_text text = {0};
    th_status status = th_decoder_token(&t->decoder, t->ctx, operation, written, bytes, false, &text);
    if (status == TH_OK && !th_vocabulary_set_text(v, id, text.bytes, text.count))
        status = th_fail_memory(t->ctx, operation, bytes);
    th_text_free(&text);
    return status;
}

bool th_tokenizer_set_texts(th_tokenizer *t, const char *operation)
{
    th_status status = TH_OK;
    for (size_t i = 0; status == TH_OK && i < t->vocabulary.size && th_decoder_changes_tokens(&t->decoder); i++)
        status = set_token_text(t, operation, (int32_t)i, NULL);
    for (size_t i = 0; status == TH_OK && i < t->added.all.count; i++) {
        const th_added_token *token = &t->added.all.token[i];
        th_piece found;
        status = find_search_text(t, operation, token, &found);
        const bool changed = found.bytes != token->bytes || memcmp(found.text, token->content, found.bytes) != 0;
        if (status == TH_OK && (changed || !t->byte_level))
            status = set_token_text(t, operation, token->id, &found);
    }
    return status == TH_OK;
}

/* Sets an error if another token is found by the same text: the reference then finds either of them. */
static bool is_found_alone(th_tokenizer *t, const char *operation, th_added_token token, const th_piece *found)
{
    const th_added_token *other =
        found->bytes > 0 ? th_added_tokens_conflict(&t->added, token, found->text, found->bytes) : NULL;
    char quoted[2][TH_QUOTED];
    if (other == NULL)
        return true;
    th_fail(t->ctx, TH_ERROR_FILE, operation, "the added token '%s' is found by the same text '%s' as token %ld",
            th_quote(token.content, quoted[0]), th_quote(other->content, quoted[1]), (long)other->id);
    return false;
}

bool th_tokenizer_add_added(th_tokenizer *t, const char *operation, th_added_token token)
{
    th_vocabulary *v = &t->vocabulary;
    th_piece found;
    if (find_search_text(t, operation, &token, &found) || !is_found_alone(t, operation, token, &found))
        return false;
    if (token.id == (int64_t)v->size && !th_vocabulary_add(v, token.content, token.bytes))
        return false;
    th_token_entry *e = &v->entry[token.id];
    /* A token that the model cannot make means its content literally, even if that consists of characters that
     * represent bytes. */
    if (!e->can_be_made) {
        if (!th_vocabulary_replace(v, token.id, token.content, token.bytes))
            return false;
        e->literal = t->byte_level;
    }
    e->special = token.special;
    return th_added_tokens_add(&t->added, token, found.text, found.bytes);
}

/* -- queries -- */

static bool is_alive(const th_tokenizer *t)
{
    return t != NULL && !t->freed;
}

int64_t th_tokenizer_size(const th_tokenizer *tokenizer)
{
    return is_alive(tokenizer) ? (int64_t)tokenizer->vocabulary.size : 0;
}

const char *th_tokenizer_bytes(const th_tokenizer *tokenizer, int64_t token, size_t *bytes)
{
    const bool exists = is_alive(tokenizer) && th_vocabulary_has(&tokenizer->vocabulary, token);
    if (bytes)
        *bytes = exists ? tokenizer->vocabulary.entry[token].text_bytes : 0;
    return exists ? th_vocabulary_text(&tokenizer->vocabulary, (int32_t)token) : NULL;
}

bool th_tokenizer_is_special(const th_tokenizer *tokenizer, int64_t token)
{
    return is_alive(tokenizer) && th_vocabulary_has(&tokenizer->vocabulary, token) &&
           tokenizer->vocabulary.entry[token].special;
}

/* Finds a token among the added tokens; -1: none. */
static int32_t find_added(const th_tokenizer *t, const char *content, size_t bytes)
{
    const th_added_token *token = th_added_tokens_find(&t->added, content, bytes);
    return token ? token->id : -1;
}

/* Finds a token among those that files write literally; -1: none. */
static int32_t find_literal(const th_tokenizer *t, const char *content, size_t bytes)
{
    for (size_t i = 0; i < t->vocabulary.size; i++) {
        const th_token_entry *e = &t->vocabulary.entry[i];
        if (e->literal && e->bytes == bytes && memcmp(t->vocabulary.pool + e->offset, content, bytes) == 0)
            return (int32_t)i;
    }
    return -1;
}

/* Finds the token with this form in files. A token with these bytes but another form does not count. */
static bool find_by_file_form(const th_tokenizer *t, const char *content, size_t bytes, int32_t *id)
{
    char *decoded = malloc(bytes + 1);
    size_t count = bytes;
    if (decoded == NULL)
        return false;
    *id = find_added(t, content, bytes);
    if (*id < 0)
        *id = find_literal(t, content, bytes);
    if (*id < 0 && (!t->byte_level || th_bytes_read(content, bytes, decoded, &count)))
        *id = th_vocabulary_find(&t->vocabulary, t->byte_level ? decoded : content, count);
    free(decoded);
    return true;
}

int64_t th_tokenizer_find(const th_tokenizer *tokenizer, const char *content)
{
    if (!is_alive(tokenizer) || content == NULL)
        return -1;
    const size_t bytes = strlen(content);
    int32_t id = find_added(tokenizer, content, bytes);
    if (id < 0)
        id = th_vocabulary_find(&tokenizer->vocabulary, content, bytes);
    return id < 0 ? find_literal(tokenizer, content, bytes) : id;
}

int64_t th_tokenizer_add(th_tokenizer *tokenizer, const char *content)
{
    static const char operation[] = "tokenizer_add";
    th_tokenizer *t = tokenizer;
    if (!th_tokenizer_usable(t, operation))
        return -1;
    const size_t bytes = content ? strlen(content) : 0;
    if (bytes == 0 || bytes > TH_MAX_ADDED_TOKEN_BYTES || th_valid_bytes(content, bytes) != bytes) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, operation,
                "a special token must be UTF-8 of 1 to %d bytes; this one has %zu bytes", TH_MAX_ADDED_TOKEN_BYTES,
                bytes);
        return -1;
    }
    int32_t id;
    if (!find_by_file_form(t, content, bytes, &id)) {
        th_fail_memory(t->ctx, operation, bytes);
        return -1;
    }
    if (id < 0)
        id = (int32_t)t->vocabulary.size;
    if (id >= TH_MAX_TOKENS || t->added.all.count >= TH_MAX_ADDED_TOKENS) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "a tokenizer has at most %d tokens, %d of them added",
                TH_MAX_TOKENS, TH_MAX_ADDED_TOKENS);
        return -1;
    }
    const th_token_entry *e = (size_t)id < t->vocabulary.size ? &t->vocabulary.entry[id] : NULL;
    if (e && e->can_be_made && (e->bytes != bytes || memcmp(t->vocabulary.pool + e->offset, content, bytes) != 0)) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, operation,
                "'%.100s' cannot be a special token: files use this text for token %ld, which has other bytes", content,
                (long)id);
        return -1;
    }
    const th_added_token token = {.content = content, .bytes = bytes, .id = id, .special = true};
    const th_piece found = {.text = content, .bytes = bytes};
    if (!th_tokenizer_add_added(t, operation, token) ||
        (th_decoder_changes_tokens(&t->decoder) && set_token_text(t, operation, id, &found))) {
        if (!th_failed(t->ctx))
            th_fail_memory(t->ctx, operation, bytes);
        return -1;
    }
    return count_memory(t, operation) == TH_OK ? id : -1;
}

const th_truncation *th_tokenizer_truncation(const th_tokenizer *tokenizer)
{
    return is_alive(tokenizer) && tokenizer->truncates ? &tokenizer->truncation : NULL;
}

const th_padding *th_tokenizer_padding(const th_tokenizer *tokenizer)
{
    return is_alive(tokenizer) && tokenizer->pads ? &tokenizer->padding : NULL;
}
