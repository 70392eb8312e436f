/* The ways to split text in GGUF files: what every name means, and the name of a tokenizer's split. */
#include <jansson.h>
#include <string.h>

#include "models/gguf/tokenizer.h"

#include "suite.h"

#define BEGIN "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
#define END "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name, *pattern; /* NULL: GPT-2's */
    bool digits, nfc, ignores_merges, begins;
    const char *written; /* the first name of the same split */
} splits[] = {
    {"gpt-2", NULL, false, false, false, false, "gpt-2"},
    {"llama-bpe", BEGIN "{1,3}" END, false, false, true, true, "llama-bpe"},
    {"dbrx", BEGIN "{1,3}" END, false, false, false, false, "dbrx"},
    {"qwen2", BEGIN END, false, true, false, false, "qwen2"},
    {"stablelm2", BEGIN END, false, false, false, false, "stablelm2"},
    {"smollm", NULL, true, false, false, false, "smollm"},
    {"olmo", NULL, false, false, false, false, "gpt-2"},
    {"llama3", BEGIN "{1,3}" END, false, false, true, true, "llama-bpe"},
    {"llama-v3", BEGIN "{1,3}" END, false, false, true, true, "llama-bpe"},
    {"smaug-bpe", BEGIN "{1,3}" END, false, false, false, false, "dbrx"},
    {"deepseek-r1-qwen", BEGIN END, false, false, false, false, "stablelm2"},
    {"mpt", NULL, false, false, false, false, "gpt-2"},
    {"refact", NULL, true, false, false, false, "smollm"},
    {"command-r", NULL, true, false, false, false, "smollm"},
};
enum { SPLITS = sizeof splits / sizeof *splits };

/* Returns the pre_tokenizer that the split means. */
static json_t *wanted_json(int i)
{
    const bool usual = splits[i].pattern == NULL;
    json_t *bytes = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                              "use_regex", usual);
    if (splits[i].pattern)
        return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                         "pattern", "Regex", splits[i].pattern, "behavior", "Isolated", "invert", 0, bytes);
    if (splits[i].digits)
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, bytes);
    return bytes;
}

START_TEST(every_name)
{
    char list[TH_GGUF_SPLIT_LIST];
    for (int i = 0; i < SPLITS; i++) {
        const th_gguf_split *s = th_gguf_split_find(splits[i].name, strlen(splits[i].name));
        ck_assert_ptr_nonnull(s);
        if (!splits[i].nfc) /* qwen2 has the only split with a normalizer */
            ck_assert_str_eq(s->name[0], splits[i].written);
        ck_assert_msg(s->digits == splits[i].digits && s->nfc == splits[i].nfc && s->begins == splits[i].begins &&
                          s->ignore_merges == splits[i].ignores_merges,
                      "%s", splits[i].name);
        json_t *found = th_gguf_split_json(s), *wanted = wanted_json(i);
        char *text = json_dumps(found, JSON_SORT_KEYS);
        ck_assert_msg(json_equal(found, wanted), "%s: %s", splits[i].name, text);
        free(text);
        json_decref(found);
        json_decref(wanted);
        ck_assert_ptr_null(th_gguf_split_find(splits[i].name, 2));
        ck_assert_ptr_null(th_gguf_split_find(splits[i].name, strlen(splits[i].name) + 1));
    }
    ck_assert_ptr_null(th_gguf_split_find("", 0));
    th_gguf_list_splits(list, sizeof list);
    ck_assert_str_eq(list, "gpt-2, llama-bpe, dbrx, glm4, qwen2, stablelm2, smollm, default, falcon, tekken, gpt-4o, "
                           "deepseek-llm, deepseek-coder, deepseek-v3, qwen35, seed-coder and minicpm5");
}
END_TEST

/* Returns the name of the split of a tokenizer with these parts; "none" without one. */
static const char *name_of(json_t *pre_tokenizer, const char *normalizer, bool ignores_merges, size_t merges)
{
    th_tokenizer t = {.byte_level = true, .ignore_merges = ignores_merges};
    t.pre_tokenizer = pre_tokenizer;
    t.normalizer_json = normalizer ? json_pack("{s:s}", "type", normalizer) : json_null();
    t.merges.count = merges;
    const th_gguf_split *s = th_gguf_split_of(&t);
    t.byte_level = false;
    ck_assert_ptr_null(th_gguf_split_of(&t));
    json_decref(t.normalizer_json);
    return s ? s->name[0] : "none";
}

START_TEST(names_that_are_written)
{
    for (int i = 0; i < SPLITS; i++) {
        json_t *value = wanted_json(i);
        const char *normalizer = splits[i].nfc ? "NFC" : NULL;
        ck_assert_str_eq(name_of(value, normalizer, splits[i].ignores_merges, 9), splits[i].written);
        /* with another normalizer, or the other rule for merges */
        const char *other = splits[i].pattern && strstr(splits[i].pattern, "{1,3}")
                                ? splits[i].ignores_merges ? "dbrx" : "llama-bpe"
                                : "none";
        ck_assert_str_eq(name_of(value, normalizer, !splits[i].ignores_merges, 9), other);
        const bool one_digit = splits[i].pattern && strcmp(other, "none") == 0;
        ck_assert_str_eq(name_of(value, splits[i].nfc ? NULL : "NFC", splits[i].ignores_merges, 9), !one_digit ? "none"
                                                                                                    : splits[i].nfc
                                                                                                        ? "stablelm2"
                                                                                                        : "qwen2");
        json_decref(value);
    }
}
END_TEST

/* Without merges, words do not matter. */
START_TEST(other_splits)
{
#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SEQUENCE(items) "{\"type\": \"Sequence\", \"pretokenizers\": [" items "]}"
#define DIGITS "{\"type\": \"Digits\", \"individual_digits\": true}, "
#define USUAL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define SPLIT(pattern, behavior, invert)                                                                               \
    "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": \"" behavior "\", \"invert\": " invert "}, "
    static const struct {
        const char *json, *with, *without; /* the name with and without merges */
    } cases[] = {
        {USUAL, "gpt-2", "gpt-2"},
        {BYTES, "none", "gpt-2"},
        {SEQUENCE(USUAL), "gpt-2", "gpt-2"},
        {SEQUENCE(BYTES), "none", "gpt-2"},
        {SEQUENCE(""), "none", "none"},
        {SEQUENCE(DIGITS DIGITS USUAL), "none", "none"},
        {SEQUENCE(DIGITS USUAL), "smollm", "smollm"},
        {SEQUENCE(DIGITS BYTES), "none", "none"},
        {SEQUENCE("{\"type\": \"Digits\"}, " USUAL), "none", "none"},
        {SEQUENCE("{\"type\": \"Digits\", \"individual_digits\": false}, " USUAL), "none", "none"},
        {"{\"type\": \"ByteLevel\"}", "none", "none"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", "none", "none"},
        {"{\"type\": \"Whitespace\", \"add_prefix_space\": false}", "none", "none"},
        {SEQUENCE(SPLIT("{\"Regex\": \"x\"}", "Isolated", "false") BYTES), "none", "none"},
        {SEQUENCE(SPLIT("{\"String\": \"x\"}", "Isolated", "false") BYTES), "none", "none"},
        {SEQUENCE("{\"type\": \"Punctuation\"}, " BYTES), "none", "none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *value = json_loads(cases[i].json, 0, NULL);
        ck_assert_ptr_nonnull(value);
        ck_assert_str_eq(name_of(value, NULL, false, 5), cases[i].with);
        ck_assert_str_eq(name_of(value, NULL, false, 0), cases[i].without);
        json_decref(value);
    }
    static const struct {
        const char *behavior, *type;
        bool invert, usual;
    } changes[] = {{"Isolated", "Split", false, false},
                   {"Removed", "Split", false, false},
                   {"Isolated", "Split", true, false},
                   {"Isolated", "Other", false, false},
                   {"Isolated", "Split", false, true}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        json_t *value = json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}", "type", "Sequence",
                                  "pretokenizers", "type", changes[i].type, "pattern", "Regex", splits[2].pattern,
                                  "behavior", changes[i].behavior, "invert", changes[i].invert, "type", "ByteLevel",
                                  "add_prefix_space", 0, "use_regex", changes[i].usual);
        ck_assert_str_eq(name_of(value, NULL, false, 5), i == 0 ? "dbrx" : "none");
        json_decref(value);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf_splits", NULL, NULL);
    tcase_add_test(tests, every_name);
    tcase_add_test(tests, names_that_are_written);
    tcase_add_test(tests, other_splits);
    return run_suites();
}
