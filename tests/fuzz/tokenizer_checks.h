/* Properties of every tokenizer and text. The targets that read tokenizers from files, or train them, share these
 * checks. */
#ifndef TESTS_FUZZ_TOKENIZER_CHECKS_H
#define TESTS_FUZZ_TOKENIZER_CHECKS_H

#include <sys/stat.h>

#include "models/text/characters.h"
#include "models/text/tokenizer.h"

#include "fuzz.h"

enum { TOKENIZER_MEMORY = 64 << 20 };

/* Whether the text of a tokenizer's tokens is always the text that was encoded: every byte has a token, and nothing is
 * removed or added. */
static inline bool keeps_text(const th_tokenizer *t)
{
    bool keeps = t->byte_level && !t->prefix_space && t->normalizer.steps == 0;
    for (int byte = 0; byte < 256; byte++)
        keeps = keeps && t->byte_token[byte] >= 0;
    for (int i = 0; i < t->split.stages; i++)
        keeps = keeps && t->split.stage[i].pattern && t->split.stage[i].behavior != TH_SPLIT_REMOVED;
    for (size_t i = 0; i < t->added.all.count; i++) {
        const th_added_token *added = &t->added.all.token[i];
        size_t bytes;
        const char *text = th_tokenizer_bytes(t, added->id, &bytes);
        keeps = keeps && !added->lstrip && !added->rstrip && bytes == added->bytes &&
                memcmp(text, added->content, bytes) == 0;
    }
    return keeps;
}

/* Encodes a text. Returns false after an error, which must be of the text. */
static inline bool encode(th_tokenizer *t, fuzz_part text, th_token_list *tokens)
{
    const size_t before = tokens->count;
    const th_status status = th_tokenizer_encode(t, text.bytes, text.count, tokens);
    for (size_t i = before; i < tokens->count; i++)
        FUZZ_CHECK(tokens->token[i] >= 0 && tokens->token[i] < th_tokenizer_size(t), "token %zu is %d", i,
                   (int)tokens->token[i]);
    FUZZ_CHECK(status == TH_OK || tokens->count == before, "tokens were appended before the error");
    return !fuzz_failed_with(t->ctx, status != TH_OK, TH_ERROR_VALUE);
}

static inline void check_equal_tokens(const th_token_list *a, const th_token_list *b, const char *what)
{
    FUZZ_CHECK(a->count == b->count && (a->count == 0 || memcmp(a->token, b->token, a->count * sizeof *a->token) == 0),
               "other tokens: %s", what);
}

/* Whether the beginning or the end of a text is changed, or an added token there. */
static inline bool changes_beginnings(const th_tokenizer *t)
{
    bool changes = t->prefix_space;
    for (int i = 0; i < t->normalizer.steps; i++)
        changes = changes || t->normalizer.step[i].kind == TH_NORMALIZE_PREPEND ||
                  t->normalizer.step[i].kind == TH_NORMALIZE_STRIP ||
                  t->normalizer.step[i].kind == TH_NORMALIZE_REPLACE;
    for (int i = 0; i < t->split.stages; i++)
        changes = changes || (t->split.stage[i].pattern == NULL && t->split.stage[i].prepend != TH_PREPEND_NEVER);
    return changes;
}

/* The text, a byte that is not UTF-8, and the text again: the whole has the tokens of the three parts. */
static inline void check_pieces(th_tokenizer *t, fuzz_part text, const th_token_list *tokens)
{
    char *longer = malloc(2 * text.count + 1);
    FUZZ_CHECK(longer != NULL, "out of memory");
    memcpy(longer, text.bytes, text.count);
    longer[text.count] = (char)0xff;
    memcpy(longer + text.count + 1, text.bytes, text.count);
    th_token_list whole = {0}, parts = {0};
    if (!changes_beginnings(t) && encode(t, (fuzz_part){longer, 2 * text.count + 1}, &whole)) {
        FUZZ_CHECK(encode(t, text, &parts) && encode(t, (fuzz_part){"\xff", 1}, &parts), "the parts are refused");
        for (size_t i = 0; i < tokens->count; i++)
            FUZZ_CHECK(parts.token[i] == tokens->token[i], "the tokens of the same text differ");
        FUZZ_CHECK(encode(t, text, &parts), "the second part is refused");
        check_equal_tokens(&whole, &parts, "pieces and the whole");
    }
    th_token_list_free(&whole);
    th_token_list_free(&parts);
    free(longer);
}

/* The stream writes the decoded text, with U+FFFD for bytes that are not UTF-8. */
static inline void check_stream(const th_tokenizer *t, const th_token_list *tokens, const th_text *text)
{
    char *written = NULL;
    size_t count = 0;
    th_text_stream stream = {0};
    FILE *file = open_memstream(&written, &count);
    FUZZ_CHECK(file != NULL, "out of memory");
    for (size_t i = 0; i < tokens->count; i++)
        FUZZ_CHECK(th_tokenizer_write(t, tokens->token + i, 1, &stream, file) == TH_OK, "a token is not written");
    FUZZ_CHECK(th_tokenizer_write_end(t, &stream, file) == TH_OK && fclose(file) == 0, "the end is not written");
    FUZZ_CHECK(th_valid_bytes(written, count) == count, "the stream is not UTF-8");
    FUZZ_CHECK(th_valid_bytes(text->bytes ? text->bytes : "", text->count) != text->count ||
                   (count == text->count && (count == 0 || memcmp(written, text->bytes, count) == 0)),
               "the stream differs from the text");
    free(written);
}

/* Encodes and decodes. Returns false if the text is refused. */
static inline bool check_text(th_tokenizer *t, fuzz_part text, th_token_list *tokens)
{
    if (!encode(t, text, tokens))
        return false;
    th_text decoded = {0};
    FUZZ_CHECK(th_tokenizer_decode(t, tokens->token, tokens->count, &decoded) == TH_OK, "%s", th_error_message(t->ctx));
    FUZZ_CHECK(!keeps_text(t) || (decoded.count == text.count &&
                                  (text.count == 0 || memcmp(decoded.bytes, text.bytes, text.count) == 0)),
               "another text comes back: %zu bytes of %zu", decoded.count, text.count);
    check_stream(t, tokens, &decoded);
    check_pieces(t, text, tokens);
    th_text_free(&decoded);
    return true;
}

/* A document has the tokens of the text, between the tokens of the template. */
static inline void check_document(th_tokenizer *t, fuzz_part text, const th_token_list *tokens)
{
    th_token_list document = {0};
    const size_t before = t->template.n_before;
    FUZZ_CHECK(th_tokenizer_encode_document(t, text.bytes, text.count, &document) == TH_OK, "%s",
               th_error_message(t->ctx));
    FUZZ_CHECK(document.count == before + tokens->count + t->template.n_after &&
                   (tokens->count == 0 ||
                    memcmp(document.token + before, tokens->token, tokens->count * sizeof *tokens->token) == 0),
               "the document has other tokens");
    th_token_list_free(&document);
}

/* Checks that the same tokenizer.json is written again. */
static inline void check_written_again(const th_tokenizer *t)
{
    size_t count;
    char *before = fuzz_read(fuzz_path("saved/tokenizer.json"), &count);
    FUZZ_CHECK(th_tokenizer_save(t, fuzz_path("saved")) == TH_OK, "%s", th_error_message(t->ctx));
    fuzz_check_file(fuzz_path("saved/tokenizer.json"), before, count);
    free(before);
}

/* Loads the tokenizer from a folder into another context. The tokens, and the text's tokens, must be the same. */
static inline void check_loaded(const char *folder, const th_tokenizer *t, fuzz_part text, const th_token_list *tokens,
                                bool encoded)
{
    th_token_list again = {0};
    th_context *ctx = fuzz_context(TOKENIZER_MEMORY);
    th_tokenizer *loaded = th_tokenizer_load(ctx, fuzz_path(folder));
    FUZZ_CHECK(loaded && th_tokenizer_size(loaded) == th_tokenizer_size(t), "%s", th_error_message(ctx));
    FUZZ_CHECK(encode(loaded, text, &again) == encoded, "only one of the two tokenizers refuses the text");
    check_equal_tokens(&again, tokens, "after saving");
    for (int64_t i = 0; i < th_tokenizer_size(t); i++) {
        size_t a, b;
        const char *x = th_tokenizer_bytes(t, i, &a), *y = th_tokenizer_bytes(loaded, i, &b);
        FUZZ_CHECK(a == b && memcmp(x, y, a) == 0 &&
                       th_tokenizer_is_special(t, i) == th_tokenizer_is_special(loaded, i),
                   "token %lld is another one after saving", (long long)i);
    }
    if (strcmp(folder, "saved") == 0)
        check_written_again(loaded);
    th_token_list_free(&again);
    fuzz_context_free(ctx);
}

/* Saves and loads the tokenizer, from tokenizer.json and, if they exist, from vocab.json and merges.txt alone. */
static inline void check_saved(const th_tokenizer *t, fuzz_part text, const th_token_list *tokens, bool encoded)
{
    (void)mkdir(fuzz_path("saved"), 0700);
    (void)mkdir(fuzz_path("two"), 0700);
    fuzz_remove("saved/vocab.json");
    FUZZ_CHECK(th_tokenizer_save(t, fuzz_path("saved")) == TH_OK, "%s", th_error_message(t->ctx));
    const bool two = rename(fuzz_path("saved/vocab.json"), fuzz_path("two/vocab.json")) == 0;
    if (two)
        FUZZ_CHECK(rename(fuzz_path("saved/merges.txt"), fuzz_path("two/merges.txt")) == 0, "merges.txt is missing");
    check_loaded("saved", t, text, tokens, encoded);
    if (two && t->added.all.count == 0 &&
        th_tokenizer_find(t, "<|endoftext|>") < 0) /* these files name no special token */
        check_loaded("two", t, text, tokens, encoded);
}

/* Adds a special token, and finds it in a text. */
static inline void check_added(th_tokenizer *t, fuzz_part text)
{
    static const char content[] = "<|fuzz|>";
    const int64_t id = th_tokenizer_add(t, content);
    th_token_list tokens = {0};
    char *longer = malloc(sizeof content + text.count);
    FUZZ_CHECK(longer != NULL, "out of memory");
    memcpy(longer, content, sizeof content - 1);
    memcpy(longer + sizeof content - 1, text.bytes, text.count);
    if (!fuzz_failed_with(t->ctx, id < 0, TH_ERROR_ARGUMENT)) {
        FUZZ_CHECK(th_tokenizer_is_special(t, id) && th_tokenizer_find(t, content) == id, "the added token is lost");
        if (encode(t, (fuzz_part){content, sizeof content - 1}, &tokens))
            FUZZ_CHECK(tokens.count >= 1, "the added token is not found in a text");
        (void)encode(t, (fuzz_part){longer, sizeof content - 1 + text.count}, &tokens);
    }
    th_token_list_free(&tokens);
    free(longer);
}

/* Checks all of these. */
static inline void check_tokenizer(th_tokenizer *t, fuzz_part text)
{
    th_token_list tokens = {0};
    const bool encoded = check_text(t, text, &tokens);
    if (encoded)
        check_document(t, text, &tokens);
    check_saved(t, text, &tokens, encoded);
    check_added(t, text);
    th_token_list_free(&tokens);
}

#endif
