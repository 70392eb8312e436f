/* The kinds of tokenizers in GGUF files: the parts of tokenizer.json that each of them has. */
#include <stdlib.h>
#include <string.h>

#include "models/gguf/tokenizer.h"
#include "models/text/json/base64.h"

const char *const th_gguf_tokenizer_kinds[] = {[TH_GGUF_BYTE_LEVEL] = "gpt2",
                                               [TH_GGUF_SCORES] = "llama",
                                               [TH_GGUF_SPACES] = "gemma4",
                                               [TH_GGUF_PIECES] = "bert",
                                               [TH_GGUF_UNIGRAM] = "t5"};

json_t *th_gguf_character_normalizer(bool prefix)
{
    json_t *spaces =
        json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", TH_GGUF_SPACE);
    return prefix ? json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type", "Prepend",
                              "prepend", TH_GGUF_SPACE, spaces)
                  : spaces;
}

/* Returns a Precompiled; NULL if out of memory. */
static json_t *map_json(const void *compiled, size_t bytes)
{
    char *text = th_base64_encode(compiled, bytes);
    json_t *value = text ? json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", text) : NULL;
    free(text);
    return value;
}

json_t *th_gguf_unigram_normalizer(const void *compiled, size_t bytes)
{
    json_t *steps = json_pack("[{s:s, s:s}, {s:s, s:{s:s}, s:s}, {s:s, s:{s:s}, s:s}]", "type", "Prepend", "prepend",
                              " ", "type", "Replace", "pattern", "Regex", " +(?=[^ ])", "content", TH_GGUF_SPACE,
                              "type", "Replace", "pattern", "String", " ", "content", "");
    if (compiled && steps && json_array_insert_new(steps, 0, map_json(compiled, bytes)) != 0) {
        json_decref(steps);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
}

json_t *th_gguf_line_split(void)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", "[^\\n]+|[\\n]+", "behavior",
                     "Isolated", "invert", 0);
}

/* Whether a part of tokenizer.json is missing or equals the expected one, which this releases. */
static bool equals(const json_t *part, json_t *expected)
{
    const bool equal = part && expected && json_equal((json_t *)(uintptr_t)part, expected);
    json_decref(expected);
    return equal;
}

static bool is_missing(const json_t *part)
{
    return part == NULL || json_is_null(part);
}

/* Whether the pre-tokenizer keeps a text together in which every space is U+2581: it is missing, or Gemma's. */
static bool keeps_text(const json_t *pre_tokenizer)
{
    return is_missing(pre_tokenizer) ||
           equals(pre_tokenizer, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "String", " ",
                                           "behavior", "MergedWithPrevious", "invert", 0));
}

/* Whether a Metaspace replaces all spaces and does not divide the text. Sets *prefix to whether it adds one. */
static bool is_metaspace(const json_t *part, bool *prefix)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *space = json_string_value(json_object_get(part, "replacement"));
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    *prefix = scheme && strcmp(scheme, "never") != 0;
    return type && strcmp(type, "Metaspace") == 0 && space && strcmp(space, TH_GGUF_SPACE) == 0 && scheme &&
           json_is_false(json_object_get(part, "split"));
}

/* Whether a WordPiece cuts text as BERT does. GGUF says whether letters become lower case and lose accents. */
static bool is_bert(const th_tokenizer *t)
{
    const json_t *normalizer = t->normalizer_json;
    const json_t *lower = json_object_get(normalizer, "lowercase"),
                 *accents = json_object_get(normalizer, "strip_accents");
    return equals(normalizer,
                  th_bert_normalizer_json(json_is_true(lower), true, json_copy((json_t *)(uintptr_t)accents))) &&
           equals(t->pre_tokenizer, json_pack("{s:s}", "type", "BertPreTokenizer")) &&
           strcmp(t->pieces.prefix, "##") == 0;
}

bool th_gguf_tokenizer_find_kind(const th_tokenizer *t, th_gguf_tokenizer_kind *kind, bool *prefix)
{
    *prefix = false;
    *kind = TH_GGUF_BYTE_LEVEL;
    if (t->byte_level)
        return true;
    if (t->pieces.used) {
        *kind = TH_GGUF_PIECES;
        return is_bert(t);
    }
    if (t->ignore_merges || !t->byte_fallback || t->unigram.used)
        return false;
    const bool spaces = equals(t->normalizer_json, th_gguf_character_normalizer(false));
    *kind = TH_GGUF_SPACES;
    if (spaces && equals(t->pre_tokenizer, th_gguf_line_split()))
        return true;
    *kind = TH_GGUF_SCORES;
    if (is_missing(t->normalizer_json))
        return is_metaspace(t->pre_tokenizer, prefix);
    *prefix = !spaces;
    return keeps_text(t->pre_tokenizer) && (spaces || equals(t->normalizer_json, th_gguf_character_normalizer(true)));
}
