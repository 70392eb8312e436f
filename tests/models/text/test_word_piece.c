/* WordPiece: BERT's normalizer and pre-tokenizer, the model, decoding, vocab.txt, damaged files. The reference library
 * made the expected tokens and texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static th_token_list tokens;

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
    make_folder();
}

static void teardown(void)
{
    th_token_list_free(&tokens);
    remove_folder();
    close_context();
}

#define NORMALIZER(clean, chinese, accents, lower)                                                                     \
    "{\"type\": \"BertNormalizer\", \"clean_text\": " clean ", \"handle_chinese_chars\": " chinese                     \
    ", \"strip_accents\": " accents ", \"lowercase\": " lower "}"
#define DEFAULT_NORMALIZER NORMALIZER("true", "true", "null", "true")
#define MODEL(longest)                                                                                                 \
    "{\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "                      \
    "\"max_input_chars_per_word\": " longest ", \"vocab\": {\"[PAD]\": 0, \"[UNK]\": 1, \"[CLS]\": 2, \"[SEP]\": 3, "  \
    "\"a\": 4, \"##b\": 5, \"ab\": 6, \"##c\": 7, \"\\u4e2d\": 8, \".\": 9, \"e\": 10, \"\\u00e9\": 11, \"A\": 12, "   \
    "\"##\\u00e9\": 13, \"##bc\": 14, \"##\": 15, \"'\": 16, \"s\": 17}}"
#define DECODER(cleanup) "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": " cleanup "}"

/* Loads a tokenizer.json with these parts; NULL with the error pending. */
static th_tokenizer *load(const char *normalizer, const char *model, const char *decoder)
{
    char text[2048];
    const int bytes = snprintf(
        text, sizeof text,
        "{\"normalizer\": %s, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"model\": %s, \"decoder\": %s, "
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], \"cls\": [\"[CLS]\", 2]}}",
        normalizer, model, decoder);
    ck_assert_int_lt(bytes, (int)sizeof text);
    write_bytes(in_folder("tokenizer.json"), text, (size_t)bytes);
    return th_tokenizer_load(ctx, folder);
}

static void expect_ids(th_tokenizer *t, const char *text, const char *expected)
{
    char line[200] = "";
    no_error();
    tokens.count = 0;
    ck_assert_int_eq(th_tokenizer_encode(t, text, strlen(text), &tokens), TH_OK);
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%d", i ? " " : "", (int)tokens.token[i]);
    ck_assert_msg(strcmp(line, expected) == 0, "'%s' has the tokens %s, not %s", text, line, expected);
}

START_TEST(test_words)
{
    th_tokenizer *t = load(DEFAULT_NORMALIZER, MODEL("100"), "null");
    expect_ids(t, "abc a ab.", "6 7 4 6 9");
    expect_ids(t, "abbc", "6 14");
    expect_ids(t, "a##b", "4 1 1 1"); /* signs are words, and # has no token */
    expect_ids(t, "abx", "1");        /* one part without a token makes the word unknown */
    expect_ids(t, "", "");
    expect_ids(t, " \t\n", "");
    ck_assert_int_eq(th_tokenizer_encode_document(t, "a", 1, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, 3);
    ck_assert_int_eq(tokens.token[0], 2);
    ck_assert_int_eq(tokens.token[2], 3);
    tokens.count = 0;
    ck_assert_int_eq(th_tokenizer_encode(t, "ab\xff", 3, &tokens), TH_OK); /* a byte that is not UTF-8 is a word */
    ck_assert_uint_eq(tokens.count, 2);
    ck_assert_int_eq(tokens.token[1], 1);
}
END_TEST

START_TEST(test_normalizer)
{
    static const struct {
        const char *normalizer, *text, *expected;
    } cases[] = {
        {DEFAULT_NORMALIZER, "AB\xc3\x89", "1"},    /* ABÉ -> abe */
        {DEFAULT_NORMALIZER, "\xc3\x89 A", "10 4"}, /* É -> e */
        {DEFAULT_NORMALIZER,
         "a\xe4\xb8\xad"
         "b",
         "4 8 1"}, /* a Chinese character stands alone */
        {DEFAULT_NORMALIZER,
         "a\xe2\x80\x8b"
         "b\x01",
         "6"}, /* format and control characters disappear */
        {DEFAULT_NORMALIZER,
         "a\xc2\xa0"
         "a",
         "4 4"}, /* a space of another kind */
        {NORMALIZER("true", "true", "false", "true"), "\xc3\x89", "11"},
        {NORMALIZER("true", "true", "false", "false"), "A a\xc3\xa9", "12 4 13"},
        {NORMALIZER("true", "true", "true", "false"), "A \xc3\xa9", "12 10"},
        {NORMALIZER("true", "true", "null", "false"), "A \xc3\xa9", "12 11"},
        {NORMALIZER("true", "false", "null", "true"), "a\xe4\xb8\xad", "1"},
        {NORMALIZER("false", "true", "null", "true"), "a\x01", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_ids(load(cases[i].normalizer, MODEL("100"), "null"), cases[i].text, cases[i].expected);
}
END_TEST

START_TEST(test_longest_word)
{
    th_tokenizer *t = load(DEFAULT_NORMALIZER, MODEL("3"), "null");
    expect_ids(t, "abc", "6 7");
    expect_ids(t, "abcc", "1");
    expect_ids(load(NORMALIZER("true", "true", "false", "true"), MODEL("2"), "null"), "a\xc3\xa9", "4 13");
}
END_TEST

/* tokenizer.json of 2020, such as bert-base-uncased's, does not name the model's type. */
START_TEST(test_no_type)
{
    static const char typed[] = MODEL("100");
    char untyped[sizeof typed] = "{";
    const char *rest = strstr(typed, "\"unk_token\"");
    memcpy(untyped + 1, rest, strlen(rest) + 1);
    th_tokenizer *t = load(DEFAULT_NORMALIZER, untyped, "null");
    expect_ids(t, "abc a ab.", "6 7 4 6 9");
    assert_error(load("null", "{\"unk_token\": \"u\", \"vocab\": {\"u\": 0}}", "null"), TH_ERROR_FILE,
                 "its merges are not a list");
}
END_TEST

static void expect_text(th_tokenizer *t, const int32_t *ids, size_t count, const char *expected)
{
    th_text text = {0};
    no_error();
    ck_assert_int_eq(th_tokenizer_decode(t, ids, count, &text), TH_OK);
    ck_assert_str_eq(text.bytes, expected);
    th_text_free(&text);
}

START_TEST(test_decoding)
{
    static const int32_t ids[] = {6, 7, 4, 9, 16, 17};
    expect_text(load(DEFAULT_NORMALIZER, MODEL("100"), DECODER("true")), ids, 6, "abc a. ' s");
    expect_text(load(DEFAULT_NORMALIZER, MODEL("100"), DECODER("false")), ids, 6, "abc a . ' s");
    expect_text(load(DEFAULT_NORMALIZER, MODEL("100"), DECODER("true")), ids + 1, 2, "##c a");
}
END_TEST

static void write_text(const char *name, const char *text)
{
    write_bytes(in_folder(name), text, strlen(text));
}

START_TEST(test_vocab_txt)
{
    write_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\r\na\n##b\nA\n\xc3\xa9\n");
    th_tokenizer *t = th_tokenizer_load(ctx, folder);
    expect_ids(t, "AB[SEP]a", "4 5 3 4");
    ck_assert(th_tokenizer_is_special(t, 3));
    ck_assert_int_eq(th_tokenizer_encode_document(t, "a", 1, &tokens), TH_OK);
    ck_assert_int_eq(tokens.token[tokens.count - 1], 3);
    write_text("tokenizer_config.json", "{\"do_lower_case\": false, \"strip_accents\": null, \"never_split\": null}");
    expect_ids(th_tokenizer_load(ctx, folder), "A a\xcc\x81 \xc3\xa9", "6 1 7");
    write_text("tokenizer_config.json", "{\"do_lower_case\": false, \"strip_accents\": true}");
    expect_ids(th_tokenizer_load(ctx, folder), "A a\xcc\x81", "6 4");
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK); /* as tokenizer.json, which then comes first */
    expect_ids(th_tokenizer_load(ctx, folder), "AB[SEP]a", "4 5 3 4");
}
END_TEST

START_TEST(test_rejected)
{
    static const struct {
        const char *model, *decoder, *message;
    } cases[] = {
        {"{\"type\": \"WordPiece\", \"vocab\": {}}", "null", "unk_token"},
        {"{\"type\": \"WordLevel\", \"vocab\": {}}", "null", "its model is none of BPE, WordPiece and Unigram"},
        {MODEL("5000"), "null", "max_input_chars_per_word"},
        {MODEL("-1"), "null", "max_input_chars_per_word"},
        {"{\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": \"0123456789abcdef\", "
         "\"max_input_chars_per_word\": 9, \"vocab\": {}}",
         "null", "more than 15 bytes"},
        {MODEL("9"), "{\"type\": \"WordPiece\", \"prefix\": 3, \"cleanup\": true}", "prefix"},
        {MODEL("9"), "{\"type\": \"WordPiece\", \"prefix\": \"##\"}", "cleanup"},
        {"{\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": \"##\", "
         "\"max_input_chars_per_word\": 9, \"vocab\": {\"a\": 0}}",
         "null", "whose id is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_error(load(DEFAULT_NORMALIZER, cases[i].model, cases[i].decoder), TH_ERROR_FILE, cases[i].message);
    assert_error(load("{\"type\": \"BertNormalizer\"}", MODEL("9"), "null"), TH_ERROR_FILE, "clean_text");
    remove(in_folder("tokenizer.json"));
    write_text("vocab.txt", "a\nb\na\n");
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "the token 'a' is in two lines");
    write_text("vocab.txt", "a\n\xff\n");
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "line 2 is not UTF-8");
    write_text("vocab.txt", "a\n");
    expect_status(th_tokenizer_encode(th_tokenizer_load(ctx, folder), "abc", 3, &tokens), TH_ERROR_VALUE,
                  "is not in the vocabulary");
    write_text("tokenizer_config.json", "{\"never_split\": [\"a\"]}");
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "its never_split is not supported");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("WordPiece", setup, teardown);
    tcase_add_test(tests, test_words);
    tcase_add_test(tests, test_normalizer);
    tcase_add_test(tests, test_longest_word);
    tcase_add_test(tests, test_no_type);
    tcase_add_test(tests, test_decoding);
    tcase_add_test(tests, test_vocab_txt);
    tcase_add_test(tests, test_rejected);
    return run_suites();
}
