/* Reads tokenizers from GGUF files: builds the tokenizer.json that the values describe. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/gguf/folder.h"
#include "models/gguf/tokenizer.h"
#include "models/text/characters.h"
#include "tapehead/gguf.h"

typedef struct reading {
    const th_gguf *file;
    th_gguf_tokenizer_kind kind;
    const th_gguf_split *split;                            /* TH_GGUF_BYTE_LEVEL */
    const th_gguf_value *tokens, *types, *merges, *scores; /* types may be NULL */
    int64_t count;                                         /* of the tokens without unused ones at the end */
} reading;

static bool fail_memory(const th_gguf *file)
{
    if (!th_failed(file->ctx))
        (void)th_fail_memory(file->ctx, file->operation, 0);
    return false;
}

/* -- the values -- */

static int32_t token_type(const reading *r, int64_t id)
{
    int32_t type = TH_GGUF_NORMAL;
    if (r->types)
        memcpy(&type, r->types->bytes + (size_t)id * sizeof type, sizeof type);
    return type;
}

static bool find_kind(reading *r)
{
    const char *text = "";
    size_t bytes = 0;
    char name[TH_QUOTED], quoted[TH_QUOTED];
    if (!th_gguf_text(r->file, "tokenizer.ggml.model", &text, &bytes))
        return false;
    for (int i = 0; i < TH_GGUF_TOKENIZER_KINDS; i++) {
        r->kind = (th_gguf_tokenizer_kind)i;
        if (th_gguf_has_text(r->file, "tokenizer.ggml.model", th_gguf_tokenizer_kinds[i]))
            return true;
    }
    if (bytes == 0)
        return th_gguf_refuse(r->file, "it has no tokenizer: tokenizer.ggml.model is missing");
    snprintf(name, sizeof name, "%.*s", (int)(bytes < 60 ? bytes : 60), text);
    return th_gguf_refuse(
        r->file, "its tokenizer is of the kind \"%s\", which is not supported; gpt2, llama, gemma4, bert and t5 are",
        th_quote(name, quoted));
}

/* Finds the split. A file without a name is split by default, as in llama.cpp. */
static bool find_split(reading *r)
{
    const char *text = "default";
    size_t bytes = strlen(text);
    char list[TH_GGUF_SPLIT_LIST], name[TH_QUOTED], quoted[TH_QUOTED];
    if (r->kind != TH_GGUF_BYTE_LEVEL)
        return true;
    if (!th_gguf_text(r->file, "tokenizer.ggml.pre", &text, &bytes))
        return false;
    r->split = th_gguf_split_find(text, bytes);
    if (r->split)
        return true;
    snprintf(name, sizeof name, "%.*s", (int)(bytes < 60 ? bytes : 60), text);
    th_gguf_list_splits(list, sizeof list);
    return th_gguf_refuse(r->file, "tokenizer.ggml.pre \"%s\" is not supported; %s are", th_quote(name, quoted), list);
}

/* Checks that an array has an item for each token. */
static bool check_count(const reading *r, const th_gguf_value *items, const char *what)
{
    return items->count == r->tokens->count ||
           th_gguf_refuse(r->file, "it has %llu tokens, but %s of %llu", (unsigned long long)r->tokens->count, what,
                          (unsigned long long)items->count);
}

static bool has_scores(const reading *r)
{
    return r->kind == TH_GGUF_SCORES || r->kind == TH_GGUF_UNIGRAM;
}

static bool find_arrays(reading *r)
{
    r->tokens = th_gguf_array(r->file, "tokenizer.ggml.tokens", TH_GGUF_STRING);
    r->types = th_gguf_array(r->file, "tokenizer.ggml.token_type", TH_GGUF_INT32);
    if (has_scores(r))
        r->scores = th_gguf_array(r->file, "tokenizer.ggml.scores", TH_GGUF_FLOAT32);
    else if (r->kind != TH_GGUF_PIECES)
        r->merges = th_gguf_array(r->file, "tokenizer.ggml.merges", TH_GGUF_STRING);
    if (r->tokens == NULL || (r->merges == NULL && r->scores == NULL && r->kind != TH_GGUF_PIECES))
        return th_gguf_refuse(r->file, "it has no tokenizer.ggml.%s",
                              r->tokens == NULL ? "tokens"
                              : has_scores(r)   ? "scores"
                                                : "merges");
    if (r->tokens->count > TH_MAX_TOKENS || (r->merges && r->merges->count > TH_MAX_MERGES))
        return th_gguf_refuse(r->file, "the tokenizer has too many tokens or merges");
    if ((r->types && !check_count(r, r->types, "types")) || (r->scores && !check_count(r, r->scores, "scores")))
        return false;
    r->count = (int64_t)r->tokens->count;
    while (r->count > 0 && token_type(r, r->count - 1) == TH_GGUF_UNUSED)
        r->count--;
    return true;
}

/* -- the parts of tokenizer.json -- */

/* Returns the text as JSON; NULL with the error pending. what: "token" or "merge". */
static json_t *text_json(const reading *r, const char *what, int64_t index, const char *text, size_t bytes)
{
    if (th_valid_bytes(text, bytes) < bytes || memchr(text, 0, bytes)) {
        th_gguf_refuse(r->file, "%s %lld is not UTF-8, or has a NUL character", what, (long long)index);
        return NULL;
    }
    json_t *value = json_stringn(text, bytes);
    if (value == NULL)
        fail_memory(r->file);
    return value;
}

/* Whether the white space behind an added token belongs to it. As in llama.cpp, only Phi-3 has such tokens. */
static bool takes_space(const reading *r, const char *content)
{
    const char *name = "";
    size_t bytes = 0;
    char text[TH_QUOTED] = "";
    if (!th_gguf_text(r->file, "general.name", &name, &bytes) || strcmp(content, "<unk>") == 0 ||
        strcmp(content, "<s>") == 0 || strcmp(content, "<|endoftext|>") == 0)
        return false;
    for (size_t i = 0; i < bytes && i + 1 < sizeof text; i++)
        text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    return strstr(text, "phi-3") || strstr(text, "phi3");
}

/* Adds a token that is found before the text is split. */
static bool append_added_token(const reading *r, int64_t id, const char *content, bool special, json_t *added)
{
    return json_array_append_new(added,
                                 json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id, "content", content,
                                           "single_word", 0, "lstrip", 0, "rstrip", (int)takes_space(r, content),
                                           "normalized", 0, "special", (int)special)) == 0;
}

/* Returns a token of WordPiece as tokenizer.json has it: ## begins tokens inside words. Special tokens and those in
 * brackets are the same in both. */
static json_t *piece_json(const reading *r, int64_t id, const char *text, size_t bytes)
{
    static const char space[] = TH_GGUF_SPACE;
    const size_t length = sizeof space - 1;
    if (bytes > length && memcmp(text, space, length) == 0)
        return text_json(r, "token", id, text + length, bytes - length);
    json_t *whole = text_json(r, "token", id, text, bytes);
    const int32_t type = token_type(r, id);
    if (whole == NULL || type == TH_GGUF_CONTROL || type == TH_GGUF_UNKNOWN ||
        (bytes > 1 && text[0] == '[' && text[bytes - 1] == ']'))
        return whole;
    json_t *piece = json_sprintf("##%s", json_string_value(whole));
    json_decref(whole);
    if (piece == NULL)
        fail_memory(r->file);
    return piece;
}

static bool add_token(const reading *r, int64_t id, const char *text, size_t bytes, json_t *vocab, json_t *added)
{
    const int32_t type = token_type(r, id);
    json_t *content =
        r->kind == TH_GGUF_PIECES ? piece_json(r, id, text, bytes) : text_json(r, "token", id, text, bytes);
    if (content == NULL)
        return false;
    const char *name = json_string_value(content);
    bool made = json_object_get(vocab, name) == NULL ||
                th_gguf_refuse(r->file, "token %lld has the text of another token", (long long)id);
    made = made && json_object_set_new(vocab, name, json_integer((json_int_t)id)) == 0;
    if (made && (type == TH_GGUF_UNKNOWN || type == TH_GGUF_CONTROL || type == TH_GGUF_USER_DEFINED))
        made = append_added_token(r, id, name, type != TH_GGUF_USER_DEFINED, added);
    json_decref(content);
    return made || fail_memory(r->file);
}

static bool add_tokens(const reading *r, json_t *vocab, json_t *added)
{
    const char *at = r->tokens->bytes;
    for (int64_t i = 0; i < r->count; i++) {
        size_t bytes;
        const char *text = th_gguf_next_string(&at, &bytes);
        if (!add_token(r, i, text, bytes, vocab, added))
            return false;
    }
    return true;
}

static bool add_merges(const reading *r, json_t *merges)
{
    const char *at = r->merges ? r->merges->bytes : NULL;
    for (uint64_t i = 0; r->merges && i < r->merges->count; i++) {
        size_t bytes;
        const char *text = th_gguf_next_string(&at, &bytes);
        json_t *merge = text_json(r, "merge", (int64_t)i, text, bytes);
        if (merge == NULL)
            return false;
        if (json_array_append_new(merges, merge) != 0)
            return fail_memory(r->file);
    }
    return true;
}

/* Returns the id of a token around texts; -1 if no token is added there, or with the error pending. usual: whether it
 * is added without the flag, if it exists. */
static int64_t read_added_id(const reading *r, const char *flag, const char *key, bool usual)
{
    bool added = usual && th_gguf_find(r->file, key);
    int64_t id = -1;
    if (!th_gguf_flag(r->file, flag, &added) || !added)
        return -1;
    if (th_gguf_integer(r->file, key, 0, r->count - 1, &id) && id < 0)
        th_gguf_refuse(r->file, "%s is true, but there is no %s", flag, key);
    return id;
}

/* Adds a token to the template and to its special tokens. */
static bool add_special_token(json_t *single, json_t *specials, const char *name, int64_t id)
{
    return json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name, "type_id", 0)) == 0 &&
           json_object_set_new(specials, name,
                               json_pack("{s:s, s:[i], s:[s]}", "id", name, "ids", (int)id, "tokens", name)) == 0;
}

/* Sets the tokens around texts; -1: none. BERT's are always added, as in llama.cpp: its converter writes add_sep_token as
 * false. */
static void find_template(const reading *r, int64_t *begin, int64_t *end)
{
    const bool begins = r->kind == TH_GGUF_BYTE_LEVEL ? r->split->begins : r->kind != TH_GGUF_UNIGRAM;
    *begin = *end = -1;
    if (r->kind == TH_GGUF_PIECES) {
        const char *first = th_gguf_find(r->file, TH_GGUF_BEGIN_TOKEN) ? TH_GGUF_BEGIN_TOKEN : TH_GGUF_CLS_TOKEN;
        if (th_gguf_integer(r->file, first, 0, r->count - 1, begin))
            th_gguf_integer(r->file, TH_GGUF_SEPARATOR_TOKEN, 0, r->count - 1, end);
    } else {
        *begin = read_added_id(r, "tokenizer.ggml.add_bos_token", TH_GGUF_BEGIN_TOKEN, begins);
        *end = read_added_id(r, "tokenizer.ggml.add_eos_token", TH_GGUF_END_TOKEN, r->kind == TH_GGUF_UNIGRAM);
    }
}

/* Returns the post_processor; NULL with the error pending. */
static json_t *template_json(const reading *r)
{
    int64_t begin, end;
    find_template(r, &begin, &end);
    if (th_failed(r->file->ctx))
        return NULL;
    if (begin < 0 && end < 0)
        return json_null();
    json_t *single = json_array(), *specials = json_object();
    bool made = single && specials && (begin < 0 || add_special_token(single, specials, "begin", begin));
    made = made && json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0)) == 0;
    made = made && (end < 0 || add_special_token(single, specials, "end", end));
    json_t *value = made ? json_pack("{s:s, s:O, s:[], s:O}", "type", "TemplateProcessing", "single", single, "pair",
                                     "special_tokens", specials)
                         : NULL;
    json_decref(single);
    json_decref(specials);
    if (value == NULL)
        fail_memory(r->file);
    return value;
}

/* -- characters: the kinds TH_GGUF_SCORES and TH_GGUF_SPACES -- */

/* Sets *prefix to whether a space is added before a text, and before the text behind a special token. */
static bool find_prefix(const reading *r, bool *prefix)
{
    *prefix = r->kind == TH_GGUF_SCORES;
    return r->kind != TH_GGUF_SCORES || th_gguf_flag(r->file, "tokenizer.ggml.add_space_prefix", prefix);
}

/* Returns the text of the unknown token, or null. Sets *made to false after an error. */
static json_t *unknown_json(const reading *r, bool *made)
{
    int64_t id = r->kind == TH_GGUF_SCORES && r->count > 0 ? 0 : -1;
    *made = th_gguf_integer(r->file, TH_GGUF_UNKNOWN_TOKEN, 0, r->count - 1, &id);
    const char *at = r->tokens->bytes, *text = "";
    size_t bytes = 0;
    for (int64_t i = 0; i <= id; i++)
        text = th_gguf_next_string(&at, &bytes);
    if (!*made || id < 0)
        return r->kind == TH_GGUF_PIECES ? json_string("[UNK]") : json_null();
    json_t *value = text_json(r, "token", id, text, bytes);
    *made = value != NULL;
    return value;
}

/* fallback: tokens such as <0xE2> are bytes. prefix: the space before a text disappears. */
static json_t *character_decoder(bool fallback, bool prefix)
{
    json_t *value = json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}]}", "type", "Sequence", "decoders", "type",
                              "Replace", "pattern", "String", TH_GGUF_SPACE, "content", " ", "type", "Fuse");
    json_t *parts = json_object_get(value, "decoders");
    if (fallback && json_array_insert_new(parts, 1, json_pack("{s:s}", "type", "ByteFallback")) != 0) {
        json_decref(value);
        return NULL;
    }
    if (prefix && json_array_append_new(parts, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                                         "start", 1, "stop", 0)) != 0) {
        json_decref(value);
        return NULL;
    }
    return value;
}

/* -- WordPiece -- */

/* Returns BERT's normalizer, in lower case if the file does not say otherwise. Returns NULL with the error pending. */
static json_t *bert_normalizer(const reading *r)
{
    bool lower = true, accents = true;
    if (!th_gguf_flag(r->file, TH_GGUF_LOWER_CASE, &lower) || !th_gguf_flag(r->file, TH_GGUF_STRIP_ACCENTS, &accents))
        return NULL;
    return th_bert_normalizer_json(lower, true,
                                   th_gguf_find(r->file, TH_GGUF_STRIP_ACCENTS) ? json_boolean(accents) : json_null());
}

/* -- Unigram -- */

/* Returns the normalizer; NULL with the error pending. */
static json_t *unigram_normalizer(const reading *r)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap",
                      merged[] = "tokenizer.ggml.remove_extra_whitespaces";
    const th_gguf_value *map = th_gguf_find(r->file, key);
    bool merges = false;
    if (map && map->kind == TH_GGUF_ARRAY && map->item == TH_GGUF_UINT8)
        map = th_gguf_array(r->file, key, TH_GGUF_UINT8);
    else
        map = th_gguf_array(r->file, key, TH_GGUF_INT8);
    if (th_gguf_flag(r->file, merged, &merges) && !merges)
        th_gguf_refuse(r->file, "%s is not true; only this is supported", merged);
    const size_t bytes = map ? (size_t)map->count : 0; /* they are in memory */
    return th_failed(r->file->ctx) ? NULL : th_gguf_unigram_normalizer(map ? map->bytes : NULL, bytes);
}

/* Returns the model without its vocabulary; NULL with the error pending. */
static json_t *unigram_json(const reading *r)
{
    int64_t unknown = 2;
    if (!th_gguf_integer(r->file, TH_GGUF_UNKNOWN_TOKEN, 0, r->count - 1, &unknown))
        return NULL;
    return json_pack("{s:s, s:I, s:b}", "type", "Unigram", "unk_id", (json_int_t)unknown, "byte_fallback", 0);
}

/* -- tokenizer.json -- */

/* The members that depend on the kind. */
typedef struct members {
    json_t *normalizer, *pre_tokenizer, *decoder, *model; /* the model without its vocabulary */
} members;

/* Returns the model of BPE without its vocabulary and merges. */
static json_t *bpe_json(json_t *unknown, bool characters, bool ignore_merges)
{
    return json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b}", "type", "BPE", "dropout", "unk_token", unknown,
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", (int)characters, "byte_fallback",
                     (int)characters, "ignore_merges", (int)ignore_merges);
}

/* Returns false with the error pending. */
static bool make_members(const reading *r, members *m)
{
    bool prefix, made = true;
    if (!find_prefix(r, &prefix))
        return false;
    if (r->kind == TH_GGUF_BYTE_LEVEL) {
        const th_gguf_split *s = r->split;
        *m = (members){s->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), th_gguf_split_json(s),
                       th_byte_level_json(true), bpe_json(json_null(), false, s->ignore_merges)};
    } else if (r->kind == TH_GGUF_PIECES) {
        *m = (members){bert_normalizer(r), json_pack("{s:s}", "type", "BertPreTokenizer"), th_word_piece_decoder_json(),
                       th_word_piece_json(unknown_json(r, &made))};
        made = made && m->normalizer;
    } else if (r->kind == TH_GGUF_UNIGRAM) {
        *m = (members){unigram_normalizer(r), json_null(), character_decoder(false, true), unigram_json(r)};
        made = !th_failed(r->file->ctx);
    } else {
        *m = (members){.normalizer = th_gguf_character_normalizer(prefix),
                       .pre_tokenizer = r->kind == TH_GGUF_SPACES ? th_gguf_line_split() : json_null(),
                       .decoder = character_decoder(true, prefix),
                       .model = bpe_json(unknown_json(r, &made), true, false)};
    }
    return made;
}

/* Returns the whole tokenizer.json; NULL with the error pending. */
static json_t *tokenizer_json(const reading *r)
{
    json_t *vocab = json_object(), *added = json_array(), *merges = json_array(), *value = NULL, *template = NULL;
    members m = {0};
    bool made = (vocab && added && merges) || fail_memory(r->file);
    made = made && add_tokens(r, vocab, added) && add_merges(r, merges) && (template = template_json(r)) != NULL &&
           make_members(r, &m);
    made = made && m.model && json_object_set(m.model, "vocab", vocab) == 0;
    if (made && r->kind != TH_GGUF_PIECES && r->kind != TH_GGUF_UNIGRAM)
        made = json_object_set(m.model, "merges", merges) == 0;
    if (made)
        value = json_pack("{s:s, s:n, s:n, s:O, s:O, s:O, s:O, s:O, s:O}", "version", "1.0", "truncation", "padding",
                          "added_tokens", added, "normalizer", m.normalizer, "pre_tokenizer", m.pre_tokenizer,
                          "post_processor", template, "decoder", m.decoder, "model", m.model);
    json_t *const parts[] = {vocab, added, merges, template, m.normalizer, m.pre_tokenizer, m.decoder, m.model};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        json_decref(parts[i]);
    if (value == NULL)
        fail_memory(r->file);
    return value;
}

/* -- scores -- */

/* Changes the scores as llama.cpp does: tokens that text cannot contain are not in the lattice, and added ones have the
 * score 0. Returns the score of an unknown character. */
static float change_scores(const reading *r, float *score)
{
    float least = FLT_MAX;
    for (int64_t i = 0; i < r->count; i++) {
        const int32_t type = token_type(r, i);
        if (type == TH_GGUF_NORMAL && score[i] < least)
            least = score[i];
        if (type != TH_GGUF_NORMAL && type != TH_GGUF_UNUSED)
            score[i] = type == TH_GGUF_USER_DEFINED ? 0 : -INFINITY;
    }
    return least - (float)TH_UNKNOWN_PENALTY;
}

/* Returns the scores in *score, which the caller releases; NULL without scores. Returns false with the error
 * pending. */
static bool read_scores(const reading *r, float **score)
{
    *score = NULL;
    if (r->scores == NULL)
        return true;
    *score = malloc(((size_t)r->count + 1) * sizeof **score);
    if (*score == NULL)
        return fail_memory(r->file);
    memcpy(*score, r->scores->bytes, (size_t)r->count * sizeof **score);
    for (int64_t i = 0; i < r->count; i++)
        if (!isfinite((*score)[i]))
            return th_gguf_refuse(r->file, "the score of token %lld is infinite or NaN; it must be finite",
                                  (long long)i);
    return true;
}

/* -- the public functions -- */

static th_tokenizer *read_tokenizer(const th_gguf *file)
{
    reading r = {.file = file};
    if (!find_kind(&r) || !find_split(&r) || !find_arrays(&r) || !th_gguf_check_vocabulary(file))
        return NULL;
    /* jansson's values take some hundred bytes for each token and merge, which the context counts */
    const size_t values = (size_t)r.tokens->count + (size_t)(r.merges ? r.merges->count : 0);
    const size_t memory = 256 * values + 2 * file->capacity;
    if (th_count_memory(file->ctx, memory, file->operation) != TH_OK)
        return NULL;
    const th_json_source source = {file->ctx, file->operation, file->path};
    float *score;
    json_t *value = read_scores(&r, &score) ? tokenizer_json(&r) : NULL;
    const float unknown_score = value && r.kind == TH_GGUF_UNIGRAM ? change_scores(&r, score) : 0;
    const th_token_scores scores = {score, unknown_score};
    th_tokenizer *t = value ? th_tokenizer_of_json(&source, value, score ? &scores : NULL) : NULL;
    if (t)
        th_normalizer_match_longest(&t->normalizer);
    json_decref(value);
    free(score);
    th_uncount_memory(file->ctx, memory);
    return t;
}

th_tokenizer *th_tokenizer_from_gguf(th_context *ctx, const char *path)
{
    static const char operation[] = "tokenizer_from_gguf";
    th_gguf file;
    if (!th_usable_context(ctx, operation) || !th_gguf_open(&file, ctx, operation, path))
        return NULL;
    th_tokenizer *t = read_tokenizer(&file);
    th_gguf_close(&file);
    return t;
}

th_status th_gguf_chat_template(th_context *ctx, const char *path, th_text *text)
{
    static const char operation[] = "gguf_chat_template";
    th_gguf file;
    const char *found = NULL;
    size_t bytes = 0;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (text == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the text is NULL");
    if (!th_gguf_open(&file, ctx, operation, path))
        return th_error_code(ctx);
    if (th_gguf_text(&file, "tokenizer.chat_template", &found, &bytes)) {
        if (th_text_append(text, found, bytes))
            text->bytes[text->count] = '\0';
        else
            (void)th_fail_memory(ctx, operation, bytes);
    }
    th_gguf_close(&file);
    return th_error_code(ctx);
}

static th_status read_token(th_context *ctx, const char *path, const char *key, const char *operation, int64_t *token)
{
    th_gguf file;
    int64_t found = -1;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (token == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "token is NULL");
    if (!th_gguf_open(&file, ctx, operation, path))
        return th_error_code(ctx);
    if (th_gguf_check_vocabulary(&file) && th_gguf_integer(&file, key, 0, INT32_MAX, &found))
        *token = found;
    th_gguf_close(&file);
    return th_error_code(ctx);
}

th_status th_gguf_begin_token(th_context *ctx, const char *path, int64_t *token)
{
    return read_token(ctx, path, TH_GGUF_BEGIN_TOKEN, "gguf_begin_token", token);
}

th_status th_gguf_end_token(th_context *ctx, const char *path, int64_t *token)
{
    return read_token(ctx, path, TH_GGUF_END_TOKEN, "gguf_end_token", token);
}

/* -- in place of a folder: folder.h -- */

/* Returns the text of the token that the key names; NULL without one, or with the error pending. */
static json_t *token_json(const th_gguf *file, const char *key)
{
    const reading r = {.file = file, .tokens = th_gguf_array(file, "tokenizer.ggml.tokens", TH_GGUF_STRING)};
    int64_t id = -1;
    if (r.tokens == NULL || !th_gguf_integer(file, key, 0, (int64_t)r.tokens->count - 1, &id) || id < 0)
        return NULL;
    const char *at = r.tokens->bytes, *text = NULL;
    size_t bytes = 0;
    for (int64_t i = 0; i <= id; i++)
        text = th_gguf_next_string(&at, &bytes);
    return text_json(&r, "token", id, text, bytes);
}

static void read_template(const th_gguf *file, const char *key, th_text *text)
{
    const char *found = NULL;
    size_t bytes = 0;
    if (th_gguf_text(file, key, &found, &bytes) && bytes > 0 && !th_text_append(text, found, bytes))
        (void)th_fail_memory(file->ctx, "chat_template", bytes);
}

th_status th_gguf_read_chat(th_context *ctx, const char *path, th_text *jinja, th_text *tool_jinja, json_t **begin,
                            json_t **end)
{
    th_gguf file;
    *begin = *end = NULL;
    if (!th_gguf_open(&file, ctx, "chat_template", path))
        return th_error_code(ctx);
    read_template(&file, "tokenizer.chat_template", jinja);
    read_template(&file, "tokenizer.chat_template.tool_use", tool_jinja);
    *begin = token_json(&file, TH_GGUF_BEGIN_TOKEN);
    *end = token_json(&file, TH_GGUF_END_TOKEN);
    th_gguf_close(&file);
    return th_error_code(ctx);
}
