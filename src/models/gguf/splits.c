/* The ways to split text that both sides name. */
#include <string.h>

#include "models/core/context.h"
#include "models/gguf/tokenizer.h"

/* The expressions are llama.cpp's. Of the letters beyond ASCII, its classes of upper and lower case letters each have
 * all. Its sets of characters, without a \\p, have no white space beyond ASCII. */
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define THREE_DIGITS WORDS "|\\p{N}{1,3}" REST
#define ONE_DIGIT WORDS "|\\p{N}" REST
#define UPPER "(?:(?=\\p{L})[^a-z])"
#define LOWER "(?:(?=\\p{L})[^A-Z])"
#define CASED(end) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define CASED_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
#define HAN "(?:(?!\\s)[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff])+"
#define MARKS "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES
#define DEEPSEEK_LETTERS                                                                                               \
    "\\u00b5\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u01ba\\u01bc-\\u01bf\\u01c4-\\u0293\\u0295-\\u02af\\u0370-"        \
    "\\u0373\\u0376\\u0377\\u037b-\\u037d\\u037f\\u0386\\u0388-\\u038a\\u038c\\u038e-\\u03a1\\u03a3-\\u03f5"           \
    "\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556\\u10a0-\\u10c5\\u13a0-\\u13f5\\u13f8-\\u13fd\\u1c90-\\u1cba"        \
    "\\u1cbd-\\u1cbf\\u1d00-\\u1d2b\\u1d6b-\\u1d77\\u1d79-\\u1d9a\\u1e00-\\u1f15\\u1f18-\\u1f1d\\u1f20-\\u1f45"        \
    "\\u1f48-\\u1f4d\\u1f50-\\u1f57\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4\\u1fb6-\\u1fbc\\u1fbe"          \
    "\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb\\u1fe0-\\u1fec\\u1ff2-\\u1ff4\\u1ff6-\\u1ffc"        \
    "\\u2102\\u2107\\u210a-\\u2113\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128\\u212a-\\u212d\\u212f-\\u2134"           \
    "\\u2139\\u213c-\\u213f\\u2145-\\u2149\\u214e\\u2183\\u2184\\u2c00-\\u2c7b\\u2c7e-\\u2ce4\\u2ceb-\\u2cee"          \
    "\\u2cf2\\u2cf3\\ua640-\\ua66d\\ua680-\\ua69b\\ua722-\\ua76f\\ua771-\\ua787\\ua78b-\\ua78e\\uab70-\\uabbf"         \
    "\\ufb00-\\ufb06\\ufb13-\\ufb17\\uff21-\\uff3a\\uff41-\\uff5a\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"           \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

/* A tokenizer is written with the first split that fits. */
static const th_gguf_split splits[] = {
    {.name = {"gpt-2", "olmo", "mpt", "phi-2", "gigachat", "a.x-4.0", "mellum", "jais", "trillion", "granite-docling",
              "exaone4", "roberta-bpe"}},
    {.name = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     .pattern = {THREE_DIGITS},
     .ignore_merges = true,
     .begins = true},
    {.name = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .pattern = {THREE_DIGITS}},
    {.name = {"glm4", "glm5"}, .pattern = {THREE_DIGITS}, .ignore_merges = true},
    {.name = {"qwen2"}, .pattern = {ONE_DIGIT}, .nfc = true},
    {.name = {"stablelm2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open", "grok-2"},
     .pattern = {ONE_DIGIT}},
    {.name = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     .digits = true},
    {.name = {"default"}, .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.name = {"falcon"}, .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.name = {"tekken"}, .pattern = {CASED("") "|\\p{N}" CASED_REST}, .ignore_merges = true, .begins = true},
    {.name = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
     .pattern = {CASED(CONTRACTION "?") "|\\p{N}{1,3}" CASED_REST}},
    {.name = {"deepseek-llm"},
     .pattern = {"[\\r\\n]", "\\s?[A-Za-z" DEEPSEEK_LETTERS "]+",
                 "\\s?[!-/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3001-\\u3002]+",
                 "\\s+(?![\\x00-\\x{10ffff}])", HAN, "\\p{N}+"}},
    {.name = {"deepseek-coder"}, .pattern = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN, "\\p{N}"}},
    {.name = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
     .pattern = {"\\p{N}{1,3}", "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+",
                 "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" MARKS}},
    {.name = {"qwen35"},
     .pattern = {CONTRACTION
                 "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES}},
    {.name = {"seed-coder"}, .pattern = {WORDS "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES}},
    {.name = {"minicpm5"}, .pattern = {"\\p{N}{1,3}", WORDS "|\\p{N}+" REST}, .ignore_merges = true},
};
enum { SPLITS = sizeof splits / sizeof *splits };

static bool has_name(const th_gguf_split *s, const char *name, size_t bytes)
{
    for (int i = 0; i < TH_GGUF_NAMES && s->name[i]; i++)
        if (strlen(s->name[i]) == bytes && memcmp(s->name[i], name, bytes) == 0)
            return true;
    return false;
}

const th_gguf_split *th_gguf_split_find(const char *name, size_t bytes)
{
    for (int i = 0; i < SPLITS; i++)
        if (has_name(&splits[i], name, bytes))
            return &splits[i];
    return NULL;
}

void th_gguf_list_splits(char *text, size_t bytes)
{
    text[0] = '\0';
    for (int i = 0; i < SPLITS; i++)
        th_append_item(text, bytes, i, SPLITS, splits[i].name[0]);
}

json_t *th_gguf_split_json(const th_gguf_split *s)
{
    json_t *parts = json_array(), *bytes = th_byte_level_json(s->pattern[0] == NULL);
    bool made = true;
    if (s->digits)
        made = json_array_append_new(parts, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1)) == 0;
    for (int i = 0; made && i < TH_GGUF_PATTERNS && s->pattern[i]; i++)
        made = json_array_append_new(parts, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                                      s->pattern[i], "behavior", "Isolated", "invert", 0)) == 0;
    json_t *value = !made                    ? NULL
                    : json_array_size(parts) ? json_pack("{s:s, s:[]}", "type", "Sequence", "pretokenizers")
                                             : json_incref(bytes);
    json_t *list = json_object_get(value, "pretokenizers");
    if (list && (json_array_extend(list, parts) || json_array_append(list, bytes))) {
        json_decref(value);
        value = NULL;
    }
    json_decref(parts);
    json_decref(bytes);
    return value;
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

/* Reads part i before the ByteLevel. Returns false if no split has such a part. */
static bool read_part(const json_t *part, size_t i, th_gguf_split *s)
{
    if (has_text(part, "type", "Digits")) {
        s->digits = i == 0 && flag_or_default(part, "individual_digits", false);
        return s->digits;
    }
    if (s->digits || i == TH_GGUF_PATTERNS)
        return false;
    s->pattern[i] = json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
    return has_text(part, "type", "Split") && s->pattern[i] && has_text(part, "behavior", "Isolated") &&
           !flag_or_default(part, "invert", false);
}

/* Reads a pre_tokenizer. Sets *usual to use_regex of its ByteLevel. Returns false if it has other parts. */
static bool read_parts(const json_t *value, th_gguf_split *s, bool *usual)
{
    const json_t *list = json_object_get(value, "pretokenizers"), *last = value;
    size_t count = 1;
    if (has_text(value, "type", "Sequence")) {
        count = json_array_size(list);
        last = count > 0 ? json_array_get(list, count - 1) : NULL;
    }
    for (size_t i = 0; i + 1 < count; i++)
        if (!read_part(json_array_get(list, i), i, s))
            return false;
    *usual = flag_or_default(last, "use_regex", true);
    return has_text(last, "type", "ByteLevel") && !flag_or_default(last, "add_prefix_space", true);
}

/* Whether two splits have the same parts. */
static bool is_same(const th_gguf_split *a, const th_gguf_split *b)
{
    bool same = a->digits == b->digits;
    for (int i = 0; same && i < TH_GGUF_PATTERNS && (a->pattern[i] || b->pattern[i]); i++)
        same = a->pattern[i] && b->pattern[i] && strcmp(a->pattern[i], b->pattern[i]) == 0;
    return same;
}

const th_gguf_split *th_gguf_split_of(const th_tokenizer *t)
{
    th_gguf_split parts = {.ignore_merges = t->ignore_merges, .nfc = has_text(t->normalizer_json, "type", "NFC")};
    bool usual;
    if (!t->byte_level || !read_parts(t->pre_tokenizer, &parts, &usual))
        return NULL;
    if (usual != (parts.pattern[0] == NULL)) {
        /* without merges, words do not matter */
        const bool bytes = !usual && !parts.digits && t->merges.count == 0 && !parts.nfc;
        return bytes ? &splits[0] : NULL;
    }
    for (int i = 0; i < SPLITS; i++) {
        const th_gguf_split *s = &splits[i];
        if (is_same(s, &parts) && s->nfc == parts.nfc && s->ignore_merges == parts.ignore_merges)
            return s;
    }
    return NULL;
}
