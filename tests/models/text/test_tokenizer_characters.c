/* Tokenizers whose tokens consist of characters: normalizers, Metaspace, byte fallback, decoders, added tokens that are
 * single words or normalized. The reference library made the expected tokens and texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static char path[96];

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
    make_folder();
    strcpy(path, in_folder("tokenizer.json"));
}

static void teardown(void)
{
    remove_folder();
    close_context();
}

#define VOCAB                                                                                                          \
    "\"vocab\": {\"<unk>\": 0, \"a\": 1, \"b\": 2, \"\\u2581\": 3, \"\\u2581a\": 4, \"ab\": 5, \"<0xC3>\": 6, "        \
    "\"<0xA9>\": 7, \"\\u00e9\": 8, \"fi\": 9, \"f\": 10, \"i\": 11, \"<0x01>\": 12, \"<0xA8>\": 13, \"<0x20>\": "     \
    "14}, "                                                                                                            \
    "\"merges\": [\"\\u2581 a\", \"a b\", \"f i\"]"
#define MODEL "\"model\": {\"byte_fallback\": true, \"unk_token\": \"<unk>\", \"fuse_unk\": true, " VOCAB "}"
#define METASPACE(scheme, split)                                                                                       \
    "{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", \"prepend_scheme\": \"" scheme "\", \"split\": " split "}"
#define LLAMA_DECODER                                                                                                  \
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "          \
    "\"\\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", "    \
    "\"content\": \" \", \"start\": 1, \"stop\": 0}]}"
#define ADDED(flags) "\"added_tokens\": [{\"id\": 15, \"content\": \"Fo\", \"special\": false, " flags "}]"
#define FLAGS(single, normalized)                                                                                      \
    "\"single_word\": " single ", \"lstrip\": false, \"rstrip\": false, \"normalized\": " normalized

static th_tokenizer *load(const char *members)
{
    char text[4096];
    const int bytes = snprintf(text, sizeof text, "{%s%s" MODEL "}", members, *members ? ", " : "");
    ck_assert_int_lt(bytes, (int)sizeof text);
    write_bytes(path, text, (size_t)bytes);
    return th_tokenizer_load(ctx, path);
}

static void expect_ids(th_tokenizer *t, const char *text, const char *expected)
{
    th_token_list tokens = {0};
    char line[400] = "";
    no_error();
    ck_assert_int_eq(th_tokenizer_encode(t, text, strlen(text), &tokens), TH_OK);
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%d", i ? " " : "", (int)tokens.token[i]);
    ck_assert_msg(strcmp(line, expected) == 0, "'%s' has the tokens %s, not %s", text, line, expected);
    th_token_list_free(&tokens);
}

typedef struct one_member {
    const char *value, *text, *tokens;
} one_member;

/* Checks the tokens of each text, with a tokenizer that has this value of a member. */
static void expect_ids_of(const char *name, const one_member *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char member[600];
        snprintf(member, sizeof member, "\"%s\": %s", name, cases[i].value);
        expect_ids(load(member), cases[i].text, cases[i].tokens);
    }
}

/* At once, and token by token in a stream. */
static void expect_text(th_tokenizer *t, const int32_t *tokens, size_t count, const char *expected)
{
    th_text text = {0};
    th_text_stream stream = {.count = 0};
    char *written = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&written, &bytes);
    no_error();
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(th_tokenizer_decode(t, tokens, count, &text), TH_OK);
    ck_assert_str_eq(text.bytes, expected);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(th_tokenizer_write(t, &tokens[i], 1, &stream, file), TH_OK);
    ck_assert_int_eq(th_tokenizer_write_end(t, &stream, file), TH_OK);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(written, expected);
    free(written);
    th_text_free(&text);
}
#define EXPECT_TEXT(t, expected, ...)                                                                                  \
    expect_text(t, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), expected)

START_TEST(metaspace_replaces_spaces)
{
    static const one_member cases[] = {
        {METASPACE("always", "true"), "ab a", "4 2 4"},
        {METASPACE("always", "false"), " ab", "4 2"},
        {METASPACE("never", "true"), "ab a", "5 4"},
        {METASPACE("first", "false"), "ab  a", "4 2 3 4"},
        {METASPACE("first", "true"),
         "\xe2\x96\x81"
         "ab",
         "4 2"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", \"str_rep\": \"x\"}", "a", "4"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"String\": \"b\"}, "
         "\"behavior\": \"MergedWithNext\"}, " METASPACE("first", "true") "]}",
         "aba", "4 2 1"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"String\": \"b\"}, "
         "\"behavior\": \"MergedWithPrevious\"}, " METASPACE("always", "true") "]}",
         "abba", "4 2 3 2 4"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Contiguous\"}", "aab", "1 1 2"},
    };
    expect_ids_of("pre_tokenizer", cases, sizeof cases / sizeof *cases);
}
END_TEST

/* After the removal of white space the reference does not find the first piece at the beginning of the text. */
START_TEST(first_means_the_beginning_of_the_text)
{
    th_tokenizer *t = load("\"normalizer\": {\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}, "
                           "\"pre_tokenizer\": " METASPACE("first", "true"));
    expect_ids(t, "ab ", "4 2");
    expect_ids(t, "  ab", "5");
    t = load(ADDED(FLAGS("false", "false")) ", \"pre_tokenizer\": " METASPACE("first", "true"));
    expect_ids(t, "Foab", "15 5");
    expect_ids(t, "abFo a", "4 2 15 4");
}
END_TEST

START_TEST(bytes_stand_for_characters_without_a_token)
{
    th_tokenizer *t = load(LLAMA_DECODER);
    expect_ids(t, "a\xc3\xa8", "1 6 13");
    expect_ids(t,
               "\xe2\x82\xac\xe2\x82\xac"
               "a",
               "0 1"); /* bytes without a token: one unknown token */
    expect_ids(t,
               "\xe2\x82\xac\x01\xe2\x82\xac\x01"
               "a",
               "12 12 0 1");            /* it follows the bytes */
    expect_ids(t, "\x01\xa8", "12 13"); /* a byte that is not UTF-8 */
    EXPECT_TEXT(t,
                "ab \xc3\xa8"
                "a",
                5, 3, 6, 13, 1);
    EXPECT_TEXT(t, "a a", 4, 4);
    EXPECT_TEXT(t, " a", 3, 4);
    EXPECT_TEXT(t, "a", 14, 1);
}
END_TEST

START_TEST(a_stream_can_continue_a_text)
{
    th_tokenizer *t = load(LLAMA_DECODER);
    char *written = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&written, &bytes);
    th_text_stream stream = {.begun = true, .stripped = -1};
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(th_tokenizer_write(t, (const int32_t[]){4, 5}, 2, &stream, file), TH_OK);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(written, " aab");
    free(written);
}
END_TEST

START_TEST(metaspace_decodes)
{
    th_tokenizer *t = load("\"decoder\": " METASPACE("always", "true"));
    EXPECT_TEXT(t, "a a", 4, 4);
    EXPECT_TEXT(t, " a", 3, 4);
    EXPECT_TEXT(load("\"decoder\": " METASPACE("never", "true")), " a a", 4, 4);
    size_t count;
    ck_assert_str_eq(th_tokenizer_bytes(t, 4, &count), " a");
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(th_tokenizer_find(t, "\xe2\x96\x81"
                                          "a"),
                     4);
}
END_TEST

START_TEST(texts_are_normalized)
{
    static const one_member cases[] = {
        {"{\"type\": \"NFC\"}",
         "e\xcc\x81"
         "a",
         "8 1"},
        {"{\"type\": \"NFC\"}", "\xef\xac\x81", "0"},
        {"{\"type\": \"NFKC\"}", "\xef\xac\x81", "9"},
        {"{\"type\": \"NFKD\"}", "\xef\xac\x81", "9"},
        {"{\"type\": \"NFD\"}", "\xc3\xa9", "0"},
        {"{\"type\": \"Lowercase\"}", "ABFI\xc3\x89", "5 9 8"},
        {"{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": \"StripAccents\"}]}",
         "\xc3\xa1"
         "b",
         "5"},
        {"{\"type\": \"Prepend\", \"prepend\": \"\\u2581\"}", "ab", "4 2"},
        {"{\"type\": \"Prepend\", \"prepend\": \"\\u2581\"}", "", ""},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"xy\"}, \"content\": \"ab\"}", "xxyxyx", "0 5 5 0"},
        {"{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"[xy]+\"}, \"content\": \"\"}", "axxybyx", "5"},
        /* control characters disappear, and U+200B, U+2581 and U+FFFD become spaces */
        {"{\"type\": \"Nmt\"}",
         "\x01\x0b"
         "a\t\xe2\x80\x8b\xe2\x96\x81\xef\xbf\xbd\x7f\xc2\x8f"
         "\xc2\x90",
         "1 14 14 14 14 0"},
        {"{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": false}", "\xe3\x80\x80 a ", "1 14"},
        {"{\"type\": \"Strip\", \"strip_left\": false, \"strip_right\": true}", " a \xc2\xa0", "14 1"},
    };
    expect_ids_of("normalizer", cases, sizeof cases / sizeof *cases);
}
END_TEST

START_TEST(added_tokens_are_words_or_normalized)
{
    th_tokenizer *t = load(ADDED(FLAGS("true", "false")));
    expect_ids(t, "Fo", "15");
    expect_ids(t, "aFo Fo.", "1 14 0 15 0");
    expect_ids(t,
               "\xc3\xa9"
               "Fo",
               "8 0");
    t = load(ADDED(FLAGS("false", "true")) ", \"normalizer\": {\"type\": \"Lowercase\"}, \"decoder\": " METASPACE(
        "always", "true"));
    expect_ids(t, "aFOfo", "1 15 15");
    EXPECT_TEXT(t, "fofo", 15, 15);
    ck_assert_int_eq(th_tokenizer_find(t, "Fo"), 15);
    ck_assert_ptr_null(
        load("\"normalizer\": {\"type\": \"Lowercase\"}, \"added_tokens\": [{\"id\": 15, \"content\": \"Fo\", "
             "\"special\": false, " FLAGS("false", "true") "}, {\"id\": 16, \"content\": \"fo\", "
                                                           "\"special\": false, " FLAGS("false", "true") "}]"));
    expect_error(TH_ERROR_FILE, "the added token 'fo' is found by the same text 'fo' as token 15");
}
END_TEST

START_TEST(settings_are_reported_and_saved)
{
    th_tokenizer *t = load("");
    ck_assert_ptr_null(th_tokenizer_truncation(t));
    ck_assert_ptr_null(th_tokenizer_padding(NULL));
    t = load(
        "\"truncation\": {\"direction\": \"Left\", \"max_length\": 2, \"strategy\": \"OnlyFirst\", \"stride\": 1}, "
        "\"padding\": {\"strategy\": {\"Fixed\": 7}, \"direction\": \"Left\", \"pad_to_multiple_of\": 8, "
        "\"pad_id\": 3, \"pad_type_id\": 1, \"pad_token\": \"b\"}, \"normalizer\": {\"type\": \"NFC\"}, "
        "\"pre_tokenizer\": " METASPACE("first", "false") ", " LLAMA_DECODER);
    expect_ids(t, "a a a", "4 4 4"); /* not truncated */
    for (int again = 0; again < 2; again++) {
        const th_truncation *truncation = th_tokenizer_truncation(t);
        const th_padding *padding = th_tokenizer_padding(t);
        ck_assert(truncation && padding);
        ck_assert_int_eq(truncation->max_length, 2);
        ck_assert_int_eq(truncation->stride, 1);
        ck_assert(truncation->left && truncation->strategy == TH_TRUNCATE_FIRST);
        ck_assert_int_eq(padding->fixed, 7);
        ck_assert_int_eq(padding->multiple_of, 8);
        ck_assert(padding->token == 3 && padding->type == 1 && padding->left);
        ck_assert_str_eq(padding->content, "b");
        ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
        t = th_tokenizer_load(ctx, path);
        no_error();
        expect_ids(t, "e\xcc\x81 a", "3 8 4");
        EXPECT_TEXT(t, "a a", 4, 4);
    }
}
END_TEST

START_TEST(what_is_not_supported_is_named)
{
    static const struct {
        const char *members, *sentence;
    } cases[] = {
        {"\"normalizer\": {\"type\": \"Other\"}", "its normalizer 'Other' is not supported; NFC, NFD, NFKC"},
        {"\"normalizer\": {\"type\": \"Sequence\"}", "its normalizer is a Sequence without a list \"normalizers\""},
        {"\"normalizer\": 3", "its normalizer is not an object"},
        {"\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"x\"}",
         "a Replace in its normalizer replaces the empty string"},
        {"\"normalizer\": {\"type\": \"Replace\", \"pattern\": \"x\", \"content\": \"x\"}",
         "the pattern of a Replace in its normalizer is neither a Regex nor a String"},
        {"\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a*\"}, \"content\": \"x\"}",
         "the pattern 'a*' cannot be used: it can match the empty string"},
        {"\"normalizer\": {\"type\": \"Strip\", \"strip_left\": true}", "\"strip_right\" is missing"},
        {"\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"ab\"}",
         "its \"replacement\" 'ab' is not one character"},
        {"\"pre_tokenizer\": " METASPACE("last", "true"),
         "the prepend_scheme 'last' of a Metaspace is none of always, first and never"},
        {"\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"add_prefix_space\": false}",
         "the add_prefix_space of a Metaspace contradicts its prepend_scheme"},
        {"\"decoder\": {\"type\": \"CTC\"}", "its decoder 'CTC' is not supported; ByteLevel, Metaspace"},
        {"\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"Strip\", "
         "\"content\": "
         "\" \", \"start\": 0, \"stop\": 1}]}",
         "whose \"stop\" is not 0"},
        {"\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, " METASPACE("first",
                                                                                                         "true") "]}",
         "has a Replace, Strip, Metaspace or WordPiece behind a ByteFallback or Fuse"},
        {"\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
         "its byte_fallback is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_ptr_null(load(cases[i].members));
        expect_error(TH_ERROR_FILE, cases[i].sentence);
    }
}
END_TEST

/* A file cannot make a text grow without limit. */
START_TEST(replacements_have_a_limit)
{
    char members[4096] = "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [";
    for (int i = 0; i < 8; i++)
        snprintf(members + strlen(members), sizeof members - strlen(members),
                 "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaaaaaaaa\"}",
                 i ? ", " : "");
    snprintf(members + strlen(members), sizeof members - strlen(members), "]}");
    th_tokenizer *t = load(members);
    th_token_list tokens = {0};
    no_error();
    ck_assert_int_eq(th_tokenizer_encode(t, "a", 1, &tokens), TH_ERROR_VALUE);
    expect_error(TH_ERROR_VALUE, "replacements would make the text longer than 65600 bytes");
    ck_assert_uint_eq(tokens.count, 0);
    th_token_list_free(&tokens);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizers of characters", setup, teardown);
    tcase_add_test(tests, metaspace_replaces_spaces);
    tcase_add_test(tests, first_means_the_beginning_of_the_text);
    tcase_add_test(tests, bytes_stand_for_characters_without_a_token);
    tcase_add_test(tests, a_stream_can_continue_a_text);
    tcase_add_test(tests, metaspace_decodes);
    tcase_add_test(tests, texts_are_normalized);
    tcase_add_test(tests, added_tokens_are_words_or_normalized);
    tcase_add_test(tests, settings_are_reported_and_saved);
    tcase_add_test(tests, what_is_not_supported_is_named);
    tcase_add_test(tests, replacements_have_a_limit);
    return run_suites();
}
