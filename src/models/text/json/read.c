/* Reads tokenizers from files: chooses the files, and reads the outer members of tokenizer.json. All file input is
 * untrusted. Anything that would give other tokens than the reference is rejected with a message that says where. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/gguf/folder.h"
#include "models/text/json/readers.h"
#include "tapehead/gguf.h"

static const char operation[] = "tokenizer_load";

/* -- members -- */

static bool refuse(const th_json_source *source, const char *sentence)
{
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, sentence);
    return false;
}

/* Rejects members that the reference does not know either: they may be meant to change something. */
static bool check_members(const th_json_source *source, const json_t *file)
{
    static const char *const known[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                        "pre_tokenizer", "post_processor", "decoder", "model"};
    const char *key;
    json_t *value;
    char quoted[TH_QUOTED];
    json_object_foreach ((json_t *)(uintptr_t)file, key, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(key, known[i]) != 0)
            i++;
        if (i < sizeof known / sizeof *known)
            continue;
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: it has an unknown member \"%s\"", source->name,
                th_quote(key, quoted));
        return false;
    }
    return true;
}

/* Checks that a member, which the tokenizer keeps for saving, is small enough. */
static bool check_size(const th_json_source *source, const json_t *file, const char *key)
{
    const size_t longest = strcmp(key, "normalizer") == 0 ? 1 << 20 : 64 << 10; /* a map of characters has 310 KiB */
    const size_t bytes = json_dumpb(json_object_get(file, key), NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
    if (bytes <= longest)
        return true;
    th_fail(source->ctx, TH_ERROR_FILE, source->operation,
            "%.300s: its \"%s\" has %zu bytes, more than the %zu allowed", source->name, key, bytes, longest);
    return false;
}

/* -- added tokens -- */

/* Returns the id of the model's token with this content; -1: none. vocab: an object, or Unigram's list. */
static int64_t find_model_token(const th_tokenizer *t, const json_t *vocab, const char *content, size_t bytes)
{
    const json_t *id = json_object_get(vocab, content);
    return t->unigram.used ? th_vocabulary_find(&t->vocabulary, content, bytes) : id ? json_integer_value(id) : -1;
}

static bool read_added_token(th_tokenizer *t, const th_json_source *source, const json_t *value, const json_t *vocab)
{
    const char *content;
    int64_t id;
    th_added_token token = {0};
    if (!th_json_string(source, value, "content", &content) ||
        !th_json_integer(source, value, "id", 0, TH_MAX_TOKENS - 1, &id) ||
        !th_json_boolean(source, value, "single_word", &token.single_word) ||
        !th_json_boolean(source, value, "lstrip", &token.lstrip) ||
        !th_json_boolean(source, value, "rstrip", &token.rstrip) ||
        !th_json_boolean(source, value, "normalized", &token.normalized) ||
        !th_json_boolean(source, value, "special", &token.special))
        return false;
    token.content = content;
    token.bytes = strlen(content);
    token.id = (int32_t)id;
    char quoted[TH_QUOTED];
    th_quote(content, quoted);
    if (token.bytes == 0) /* the reference ignores it */
        return true;
    if (token.bytes > TH_MAX_ADDED_TOKEN_BYTES) {
        th_fail(t->ctx, TH_ERROR_FILE, operation,
                "%.300s: the added token '%s' has %zu bytes, which is more than the %d that an added token may have",
                source->name, quoted, token.bytes, TH_MAX_ADDED_TOKEN_BYTES);
        return false;
    }
    /* The reference ignores the file's id. It uses the id of an existing token with this content, or else the next
     * free id. */
    int64_t expected = (int64_t)t->vocabulary.size;
    const int64_t known = find_model_token(t, vocab, content, token.bytes);
    const th_added_token *earlier = th_added_tokens_find(&t->added, content, token.bytes);
    if (earlier)
        expected = earlier->id;
    expected = known >= 0 ? known : expected;
    if (id != expected) {
        th_fail(t->ctx, TH_ERROR_FILE, operation, "%.300s: the added token '%s' has id %lld where it should have %lld",
                source->name, quoted, (long long)id, (long long)expected);
        return false;
    }
    return th_tokenizer_add_added(t, operation, token);
}

static bool read_added_tokens(th_tokenizer *t, const th_json_source *source, const json_t *list, const json_t *vocab)
{
    size_t i;
    const json_t *element;
    if (list == NULL)
        return true;
    if (!json_is_array(list) || json_array_size(list) > TH_MAX_ADDED_TOKENS)
        return refuse(source, "its added_tokens are not a list, or there are too many");
    json_array_foreach (list, i, element) {
        if (!read_added_token(t, source, element, vocab))
            return false;
    }
    return true;
}

/* -- tokenizer.json -- */

static json_t *null_if_missing(json_t *value)
{
    return value ? value : json_null();
}

/* Keeps truncation, padding, normalizer and decoder, and reads the first three. */
static bool read_settings(th_tokenizer *t, const th_json_source *source, const json_t *file)
{
    t->truncation_json = json_incref(null_if_missing(json_object_get(file, "truncation")));
    t->padding_json = json_incref(null_if_missing(json_object_get(file, "padding")));
    t->normalizer_json = json_incref(null_if_missing(json_object_get(file, "normalizer")));
    t->decoder_json = json_incref(null_if_missing(json_object_get(file, "decoder")));
    return th_read_truncation(source, t->truncation_json, &t->truncation, &t->truncates) &&
           th_read_padding(source, t->padding_json, &t->padding, &t->pads) &&
           th_normalizer_read(&t->normalizer, source, t->normalizer_json) == TH_OK;
}

static bool read_members(th_tokenizer *t, const th_json_source *source, const json_t *file,
                         const th_token_scores *scores)
{
    const json_t *version = json_object_get(file, "version"), *model = json_object_get(file, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(model))
        return refuse(source, "it has no model");
    if (!check_members(source, file))
        return false;
    if (version && (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
        return refuse(source, "its version is not \"1.0\"");
    static const char *const kept[] = {"truncation",    "padding",        "normalizer",
                                       "pre_tokenizer", "post_processor", "decoder"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (!check_size(source, file, kept[i]))
            return false;
    return read_settings(t, source, file) &&
           th_tokenizer_set_pre_tokenizer(t, source, null_if_missing(json_object_get(file, "pre_tokenizer"))) ==
               TH_OK &&
           th_decoder_read(&t->decoder, source, t->decoder_json, t->byte_level) == TH_OK &&
           th_read_model(t, source, model, scores) &&
           read_added_tokens(t, source, json_object_get(file, "added_tokens"), vocab) &&
           th_tokenizer_set_texts(t, operation) &&
           th_tokenizer_set_post_processor(t, source, null_if_missing(json_object_get(file, "post_processor"))) ==
               TH_OK;
}

th_tokenizer *th_tokenizer_of_json(const th_json_source *source, const json_t *file, const th_token_scores *scores)
{
    th_tokenizer *t = th_tokenizer_make(source->ctx, source->operation);
    return t ? th_tokenizer_if_made(t, source->operation, read_members(t, source, file, scores)) : NULL;
}

static th_tokenizer *load_json(th_context *ctx, const char *path)
{
    const th_json_source source = {ctx, operation, path};
    size_t memory;
    json_t *file = th_json_read_file(&source, &th_model_limits, &memory);
    th_tokenizer *t = file ? th_tokenizer_of_json(&source, file, NULL) : NULL;
    th_json_release(ctx, file, memory);
    return t;
}

/* -- vocab.json and merges.txt -- */

static th_tokenizer *load_pair(th_context *ctx, const char *vocab_path, const char *merges_path)
{
    static const char end_of_text[] = "<|endoftext|>";
    const th_json_source source = {ctx, operation, vocab_path}, merges = {ctx, operation, merges_path};
    size_t memory;
    json_t *vocab = th_json_read_file(&source, &th_model_limits, &memory);
    th_tokenizer *t = vocab ? th_tokenizer_make(ctx, operation) : NULL;
    if (t) {
        bool made = th_tokenizer_set_own_parts(t, operation, th_byte_level_json(true), th_byte_level_json(true)) &&
                    th_read_vocabulary(t, &source, vocab) && th_read_merges_file(t, &merges, vocab);
        if (made && json_object_get(vocab, end_of_text))
            made = th_tokenizer_add(t, end_of_text) >= 0;
        t = th_tokenizer_if_made(t, operation, made);
    }
    th_json_release(ctx, vocab, memory);
    return t;
}

/* Whether the folder has a file of that name; sets path. Sets an error if this cannot be known: another file must not
 * take its place. */
static bool in_folder(th_context *ctx, const char *folder, const char *name, char path[TH_MAX_PATH])
{
    struct stat status;
    const int exists = th_path_join(path, folder, name) ? th_path_exists(path, &status) : 0;
    if (exists < 0 && !th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(errno));
    return exists > 0;
}

/* Whether the path leads to a file or a folder, and the names of files fit behind it. Sets an error if not. */
static bool check_path(th_context *ctx, const char *path, struct stat *status)
{
    if (path == NULL || strlen(path) + 32 > TH_MAX_PATH)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, path ? "the path is too long" : "a path must be given");
    else if (stat(path, status) != 0)
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(errno));
    return !th_failed(ctx);
}

/* Loads a vocab.txt with the tokenizer_config.json beside it. */
static th_tokenizer *load_word_piece(th_context *ctx, const char *folder, const char *vocab_path)
{
    char config[TH_MAX_PATH];
    const bool given = in_folder(ctx, folder, "tokenizer_config.json", config);
    return th_failed(ctx) ? NULL : th_word_piece_load(ctx, operation, vocab_path, given ? config : NULL);
}

static th_tokenizer *load_folder(th_context *ctx, const char *path)
{
    char file[TH_MAX_PATH], vocab[TH_MAX_PATH], merges[TH_MAX_PATH];
    if (in_folder(ctx, path, "tokenizer.json", file))
        return load_json(ctx, file);
    if (!th_failed(ctx) && in_folder(ctx, path, "vocab.txt", vocab))
        return load_word_piece(ctx, path, vocab);
    const bool pair = in_folder(ctx, path, "vocab.json", vocab) && in_folder(ctx, path, "merges.txt", merges);
    const bool added = pair && in_folder(ctx, path, "added_tokens.json", file);
    if (!pair && !th_failed(ctx))
        th_fail(ctx, TH_ERROR_FILE, operation,
                "%.300s: it has neither tokenizer.json nor vocab.txt nor vocab.json and merges.txt", path);
    else if (added)
        th_fail(ctx, TH_ERROR_FILE, operation,
                "%.300s: without a tokenizer.json its added_tokens.json is not supported", path);
    return th_failed(ctx) ? NULL : load_pair(ctx, vocab, merges);
}

th_tokenizer *th_tokenizer_load(th_context *ctx, const char *path)
{
    char config[TH_MAX_PATH];
    struct stat status;
    if (!th_usable_context(ctx, operation) || !check_path(ctx, path, &status))
        return NULL;
    if (!S_ISDIR(status.st_mode))
        return th_gguf_is_file(path) ? th_tokenizer_from_gguf(ctx, path) : load_json(ctx, path);
    th_tokenizer *t = load_folder(ctx, path);
    if (t == NULL || (!in_folder(ctx, path, "config.json", config) && !th_failed(ctx)))
        return t;
    if (!th_failed(ctx) && th_tokenizer_check_size(t, operation, config))
        return t;
    th_tokenizer_free(t);
    return NULL;
}
