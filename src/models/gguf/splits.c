/* The ways to split text that both sides name. */
#include <string.h>

#include "models/core/context.h"
#include "models/gguf/tokenizer.h"

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define THREE_DIGITS WORDS "|\\p{N}{1,3}" REST
#define ONE_DIGIT WORDS "|\\p{N}" REST

/* A tokenizer is written with the first name that fits. */
static const th_gguf_split splits[] = {
    {.name = "gpt-2"},
    {.name = "llama-bpe", .pattern = THREE_DIGITS, .ignore_merges = true, .begins = true},
    {.name = "dbrx", .pattern = THREE_DIGITS},
    {.name = "qwen2", .pattern = ONE_DIGIT, .nfc = true},
    {.name = "stablelm2", .pattern = ONE_DIGIT},
    {.name = "smollm", .digits = true},
    {.name = "olmo"},
    {.name = "llama3", .pattern = THREE_DIGITS, .ignore_merges = true, .begins = true},
    {.name = "llama-v3", .pattern = THREE_DIGITS, .ignore_merges = true, .begins = true},
    {.name = "smaug-bpe", .pattern = THREE_DIGITS},
    {.name = "deepseek-r1-qwen", .pattern = ONE_DIGIT},
};
enum { SPLITS = sizeof splits / sizeof *splits };

const th_gguf_split *th_gguf_split_find(const char *name, size_t bytes)
{
    for (int i = 0; i < SPLITS; i++)
        if (strlen(splits[i].name) == bytes && memcmp(splits[i].name, name, bytes) == 0)
            return &splits[i];
    return NULL;
}

void th_gguf_list_splits(char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < SPLITS; i++)
        th_append_item(text, bytes, i, SPLITS, splits[i].name);
}

json_t *th_gguf_split_json(const th_gguf_split *s)
{
    json_t *bytes = th_byte_level_json(s->pattern == NULL);
    if (s->pattern)
        return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                         "pattern", "Regex", s->pattern, "behavior", "Isolated", "invert", 0, bytes);
    if (s->digits)
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, bytes);
    return bytes;
}

/* -- the split of a tokenizer -- */

static bool has_text(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, text) == 0;
}

static bool flag_or_default(const json_t *object, const char *key, bool default_value)
{
    const json_t *value = json_object_get(object, key);
    return value ? json_is_true(value) : default_value;
}

/* Returns the parts of a pre_tokenizer: `first` before the ByteLevel, or NULL. Returns false if it is neither. */
static bool parts_of(const json_t *value, const json_t **first, const json_t **byte_level)
{
    const json_t *list = json_object_get(value, "pretokenizers");
    *first = NULL;
    *byte_level = value;
    if (has_text(value, "type", "Sequence")) {
        const size_t count = json_array_size(list);
        if (count < 1 || count > 2)
            return false;
        *first = count == 2 ? json_array_get(list, 0) : NULL;
        *byte_level = json_array_get(list, count - 1);
    }
    return has_text(*byte_level, "type", "ByteLevel") && !flag_or_default(*byte_level, "add_prefix_space", true);
}

/* Returns the regular expression that splits; NULL: GPT-2's. Returns false if another kind of split. */
static bool pattern_of(const json_t *first, const json_t *byte_level, const char **pattern, bool *digits)
{
    const bool usual = flag_or_default(byte_level, "use_regex", true);
    *pattern = NULL;
    *digits = false;
    if (first == NULL)
        return usual;
    if (has_text(first, "type", "Digits")) {
        *digits = true;
        return usual && flag_or_default(first, "individual_digits", false);
    }
    *pattern = json_string_value(json_object_get(json_object_get(first, "pattern"), "Regex"));
    return !usual && has_text(first, "type", "Split") && *pattern && has_text(first, "behavior", "Isolated") &&
           !flag_or_default(first, "invert", false);
}

const th_gguf_split *th_gguf_split_of(const th_tokenizer *t)
{
    const json_t *first, *byte_level;
    const char *pattern;
    bool digits;
    const bool nfc = has_text(t->normalizer_json, "type", "NFC");
    if (!t->byte_level || !parts_of(t->pre_tokenizer, &first, &byte_level))
        return NULL;
    if (!pattern_of(first, byte_level, &pattern, &digits)) {
        /* without merges, words do not matter */
        const bool bytes = first == NULL && t->merges.count == 0 && !nfc;
        return bytes ? &splits[0] : NULL;
    }
    for (int i = 0; i < SPLITS; i++) {
        const th_gguf_split *s = &splits[i];
        const bool same = s->pattern && pattern ? strcmp(s->pattern, pattern) == 0 : s->pattern == pattern;
        if (same && s->digits == digits && s->nfc == nfc && s->ignore_merges == t->ignore_merges)
            return s;
    }
    return NULL;
}
