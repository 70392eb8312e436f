/* The pre_tokenizer, post_processor and decoder of tokenizer.json: what each does to the tokens of a text, and what is
 * rejected. */
#include <stdlib.h>

#include "tapehead/models.h"

#include "tokenizer_file.h"

START_TEST(a_text_is_split)
{
    expect_tokens(load_pieces(BYTES), "ab a1", "275");
    expect_tokens(
        load_pieces("{\"type\": \"Split\", \"pattern\": {\"String\": \"b\"}, \"behavior\": \"Isolated\"}, " BYTES),
        "ab", "01");
    expect_tokens(
        load_pieces("{\"type\": \"Split\", \"pattern\": {\"String\": \"-\"}, \"behavior\": \"Removed\"}, " BYTES),
        "a-b--ab", "012");
    expect_tokens(
        load_pieces("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"-\"}, \"behavior\": \"Removed\", \"invert\": "
                    "true}, " BYTES),
        "a-b--ab", "444");
    expect_tokens(
        load_pieces("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"-\"}, \"behavior\": \"Isolated\", \"invert\": "
                    "true}, " BYTES),
        "ab-ab", "242");
    /* the characters of a string have no special meaning */
    static const char special[] = "^$.[|()?*+{-&";
    char part[200], text[] = "a?b";
    for (const char *c = special; *c; c++) {
        snprintf(part, sizeof part,
                 "{\"type\": \"Split\", \"pattern\": {\"String\": \"%c\"}, \"behavior\": \"Removed\"}, %s", *c, BYTES);
        text[1] = *c;
        expect_tokens(load_pieces(part), text, "01");
        expect_tokens(load_pieces(part), "ab", "2");
    }
    expect_tokens(
        load_pieces("{\"type\": \"Split\", \"pattern\": {\"String\": \"\\\\-]}\"}, \"behavior\": \"Removed\"}, " BYTES),
        "a\\-]}b", "01");
    expect_tokens(load_members("", "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}, " MODEL),
                  "ab a", "327");
}
END_TEST

START_TEST(digits_are_split)
{
    static const char model[] =
        "\"model\": {\"vocab\": {\"1\": 0, \"2\": 1, \"12\": 2, \"a\": 3, \"a1\": 4}, \"merges\": [\"1 2\", \"a 1\"]}";
    expect_tokens(load_members("", model), "a12", "32");
    expect_tokens(load_members("\"pre_tokenizer\": {\"type\": \"Digits\"}", model), "a12a1", "3230");
    expect_tokens(load_members("\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": false}", model), "a12",
                  "32");
    expect_tokens(load_members("\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": true}", model), "a12",
                  "301");
}
END_TEST

/* A space comes before a text that does not begin with one, and after each added token. */
START_TEST(a_space_is_added)
{
    static const char added[] = "\"added_tokens\": [{\"id\": 8, \"content\": \"<s>\", \"single_word\": false, "
                                "\"lstrip\": false, \"rstrip\": false, "
                                "\"normalized\": false, \"special\": true}], \"pre_tokenizer\": {\"type\": "
                                "\"ByteLevel\", \"add_prefix_space\": true%s}";
    char members[400];
    snprintf(members, sizeof members, added, "");
    th_tokenizer *t = load_members(members, MODEL);
    expect_tokens(t, "a", "7");
    expect_tokens(t, " a", "7");
    expect_tokens(t, "", "");
    expect_tokens(t, "a<s>a<s><s> a<s>",
                  "787887"
                  "8");
    tokens.count = 0;
    expect_status(th_tokenizer_encode(t, "a?", 2, &tokens), TH_ERROR_VALUE, "'?' (bytes 3f)");
    snprintf(members, sizeof members, added, ", \"use_regex\": false, \"trim_offsets\": false");
    expect_tokens(load_members(members, MODEL), "a1 a", "757");
}
END_TEST

/* Loads a file with this member. It is rejected with this sentence. */
static void expect_refused_part(const char *name, const char *value, const char *sentence)
{
    char member[1000];
    snprintf(member, sizeof member, "\"%s\": %s", name, value);
    expect_refused(load_members(member, MODEL), path, sentence);
}

/* The tokens of one piece are merged, and those of two are not. Spaces vanish. tokenizers gives the same ids. */
START_TEST(white_space_splits_words)
{
    static const char model[] = "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"!\": 2, \"_\": 3, "
                                "\"ab\": 4, \"b!\": 5, \"a_\": 6}, \"merges\": [\"a b\", \"b !\", \"a _\"]}";
    expect_tokens(load_members("\"pre_tokenizer\": {\"type\": \"Whitespace\"}", model), "ab b! a_ \n a b", "412601");
    expect_tokens(load_members("\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}", model), "ab b! a_ \n a b",
                  "45601");
}
END_TEST

/* As in BERT, + is a sign of punctuation too. tokenizers gives the same ids. */
START_TEST(punctuation_is_split)
{
    static const char model[] = "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"!\": 2, \"_\": 3, "
                                "\"ab\": 4, \"b!\": 5, \"!!\": 6, \"_a\": 7, \"+\": 8, \" \": 9}, \"merges\": "
                                "[\"a b\", \"b !\", \"! !\", \"_ a\"]}";
    static const struct {
        const char *behavior, *ids;
    } cases[] = {{"", "4221830"},
                 {", \"behavior\": \"Isolated\"", "4221830"},
                 {", \"behavior\": \"Removed\"", "410"},
                 {", \"behavior\": \"Contiguous\"", "461830"},
                 {", \"behavior\": \"MergedWithPrevious\"", "4221830"},
                 {", \"behavior\": \"MergedWithNext\"", "422187"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char members[1000];
        snprintf(members, sizeof members, "\"pre_tokenizer\": {\"type\": \"Punctuation\"%s}", cases[i].behavior);
        expect_tokens(load_members(members, model), "ab!!b+_a", cases[i].ids);
    }
}
END_TEST

START_TEST(the_pre_tokenizer_is_checked)
{
    static const struct {
        const char *value, *sentence;
    } cases[] = {
        {"3", "its pre_tokenizer is not an object"},
        {"{}", "\"type\" is missing; it should be a string"},
        {"{\"type\": \"Sequence\"}", "its pre_tokenizer is a Sequence without a list \"pretokenizers\""},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [3]}", "its pre_tokenizer is not an object"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Sequence\", \"pretokenizers\": []}]}",
         "its pre_tokenizer 'Sequence' is not supported; ByteLevel, Metaspace, Split, Digits, Whitespace, "
         "WhitespaceSplit, BertPreTokenizer, Punctuation and a Sequence of them are"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [" BYTES ", {\"type\": \"Digits\"}]}",
         "a pre_tokenizer follows ByteLevel, which must be last"},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [" BYTES ", " BYTES "]}",
         "a pre_tokenizer follows ByteLevel, which must be last"},
        {"{\"type\": \"ByteLevel\"}", "\"add_prefix_space\" is missing; it should be true or false"},
        {"{\"type\": \"Digits\", \"individual_digits\": 1}",
         "\"individual_digits\" has another type; it should be true or false"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}}", "\"behavior\" is missing; it should be a string"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Isolated\", \"invert\": 0}",
         "\"invert\" has another type; it should be true or false"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"MergedWithBoth\"}",
         "the behavior of a Split or a Punctuation must be Isolated, Removed, Contiguous, MergedWithPrevious or "
         "MergedWithNext"},
        {"{\"type\": \"Punctuation\", \"behavior\": \"isolated\"}",
         "the behavior of a Split or a Punctuation must be Isolated, Removed, Contiguous, MergedWithPrevious or "
         "MergedWithNext"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\", \"Regex\": \"a\"}, \"behavior\": \"Removed\"}",
         "the pattern of a Split is neither a Regex nor a String"},
        {"{\"type\": \"Split\", \"pattern\": \"a\", \"behavior\": \"Removed\"}",
         "the pattern of a Split is neither a Regex nor a String"},
        {"{\"type\": \"Split\", \"pattern\": {\"Regex\": 3}, \"behavior\": \"Removed\"}",
         "\"Regex\" has another type; it should be a string"},
        {"{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\n*\"}, \"behavior\": \"Removed\"}",
         "the pattern '\\n*' cannot be used: it can match the empty string"},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": \"Removed\"}",
         "the pattern '' cannot be used: it can match the empty string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused_part("pre_tokenizer", cases[i].value, cases[i].sentence);
}
END_TEST

START_TEST(splitting_has_limits)
{
    char parts[2000] = "";
    for (int i = 1; i <= 17; i++) {
        snprintf(parts + strlen(parts), sizeof parts - strlen(parts), "%s{\"type\": \"Digits\"}", i > 1 ? ", " : "");
        th_tokenizer *t = load_pieces(parts);
        if (i < 17)
            no_error();
        else
            expect_refused(t, path, "it splits more than 16 times");
    }
    char *text = malloc(40000);
    for (int bytes = 4095; bytes < 32000; bytes += bytes < 4097 ? 1 : 5000) {
        char *at =
            text +
            sprintf(
                text,
                "{\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Removed\", \"pattern\": {\"String\": \"");
        memset(at, 'a', (size_t)bytes);
        strcpy(at + bytes, "\"}}, " MODEL "}");
        th_tokenizer *t = load(text);
        if (bytes <= 4096)
            no_error();
        else
            expect_failure(t == NULL, TH_ERROR_FILE, "bytes, more than 4096");
    }
    free(text);
}
END_TEST

START_TEST(a_document_has_tokens_around_it)
{
    static const char format[] =
        "\"pre_tokenizer\": " BYTES
        ", \"post_processor\": {\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, "
        "{\"type\": \"TemplateProcessing\", \"single\": [%s], \"special_tokens\": {\"s\": {\"ids\": [0, 4]}, \"e\": "
        "{\"ids\": "
        "[5]}, \"none\": {\"ids\": []}}}]}";
    static const char *const cases[][2] = {
        {"{\"Sequence\": {\"id\": \"A\"}}", "2"},
        {"{\"SpecialToken\": {\"id\": \"s\"}}, {\"Sequence\": {\"id\": \"A\"}}", "042"},
        {"{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"e\"}}, {\"SpecialToken\": {\"id\": \"s\"}}",
         "2504"},
        {"{\"SpecialToken\": {\"id\": \"none\"}}, {\"SpecialToken\": {\"id\": \"e\"}}, {\"Sequence\": {\"id\": "
         "\"A\"}}, "
         "{\"SpecialToken\": {\"id\": \"e\"}}",
         "525"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char members[1000];
        snprintf(members, sizeof members, format, cases[i][0]);
        th_tokenizer *t = load_members(members, MODEL);
        expect_tokens(t, "ab", cases[i][1]);
        tokens.count = 0;
        ck_assert_int_eq(th_tokenizer_encode(t, "ab", 2, &tokens), TH_OK);
        ck_assert_uint_eq(tokens.count, 1);
    }
}
END_TEST

START_TEST(two_tokens_are_around_a_document)
{
    static const char *const types[] = {"BertProcessing", "RobertaProcessing"};
    for (int i = 0; i < 2; i++) {
        char members[400];
        snprintf(members, sizeof members,
                 "\"pre_tokenizer\": " BYTES ", \"post_processor\": {\"type\": \"%s\", \"sep\": [\"1\", 5], \"cls\": "
                 "[\"-\", 4]}",
                 types[i]);
        expect_tokens(load_members(members, MODEL), "ab", "425");
    }
}
END_TEST

START_TEST(the_post_processor_is_checked)
{
#define TEMPLATE(single, specials)                                                                                     \
    "{\"type\": \"TemplateProcessing\", \"single\": " single ", \"special_tokens\": " specials "}"
#define TEXT "{\"Sequence\": {\"id\": \"A\"}}"
#define WRONG "its post_processor "
    static const struct {
        const char *value, *sentence;
    } cases[] = {
        {"3", WRONG "is not an object"},
        {"{}", "\"type\" is missing; it should be a string"},
        {"{\"type\": \"Sequence\"}", WRONG "is a Sequence without a list \"processors\""},
        {"{\"type\": \"Sequence\", \"processors\": [{\"type\": \"Sequence\", \"processors\": []}]}",
         WRONG "is of a type that is not supported; ByteLevel, TemplateProcessing, BertProcessing, "
               "RobertaProcessing and a Sequence of them are"},
        {"{\"type\": \"Sequence\", \"processors\": [" TEMPLATE("[" TEXT "]", "{}") ", " TEMPLATE("[" TEXT "]",
                                                                                                 "{}") "]}",
         WRONG "has two templates"},
        {TEMPLATE("3", "{}"), WRONG "has a TemplateProcessing without \"single\" or \"special_tokens\""},
        {TEMPLATE("[]", "[]"), WRONG "has a TemplateProcessing without \"single\" or \"special_tokens\""},
        {TEMPLATE("[]", "{}"), WRONG "has a \"single\" template without the text"},
        {TEMPLATE("[3]", "{}"), "\"id\" is missing; it should be a string"},
        {TEMPLATE("[" TEXT ", " TEXT "]", "{}"),
         WRONG "has a \"single\" template in which the text A does not appear exactly once"},
        {TEMPLATE("[{\"SpecialToken\": {\"id\": \"x\"}}]", "{}"),
         WRONG "names a special token without ids (or with more than 64)"},
        {TEMPLATE("[{\"SpecialToken\": {\"id\": \"x\"}}]", "{\"x\": {\"ids\": [0, 8]}}"),
         WRONG "has an id that is not in the vocabulary"},
        {TEMPLATE("[{\"SpecialToken\": {\"id\": \"x\"}}]", "{\"x\": {\"ids\": [-1]}}"),
         WRONG "has an id that is not in the vocabulary"},
        {TEMPLATE("[{\"SpecialToken\": {\"id\": \"x\"}}]", "{\"x\": {\"ids\": [0.0]}}"),
         WRONG "has an id that is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused_part("post_processor", cases[i].value, cases[i].sentence);
}
END_TEST

/* 64 tokens may be on each side of a text. */
START_TEST(a_template_has_a_limit)
{
    for (int count = 63; count <= 65; count++) {
        char member[1000], *at = member;
        at += sprintf(
            at, "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [" TEXT ", {\"SpecialToken\": "
                "{\"id\": \"x\"}}, {\"SpecialToken\": {\"id\": \"y\"}}], \"special_tokens\": {\"y\": {\"ids\": "
                "[1]}, \"x\": {\"ids\": [0");
        for (int i = 1; i < count - 1; i++)
            at += sprintf(at, ",0");
        sprintf(at, "]}}}");
        th_tokenizer *t = load_members(member, MODEL);
        if (count > 64) {
            expect_refused(t, path, WRONG "names a special token without ids (or with more than 64)");
            continue;
        }
        no_error();
        tokens.count = 0;
        ck_assert_int_eq(th_tokenizer_encode_document(t, "", 0, &tokens), TH_OK);
        ck_assert_uint_eq(tokens.count, (size_t)count);
        ck_assert_int_eq(tokens.token[count - 1], 1);
    }
}
END_TEST

START_TEST(the_decoder_is_checked)
{
    static const char *const good[] = {
        "null", "{\"type\": \"Fuse\"}", "{\"type\": \"ByteLevel\"}", "{\"type\": \"Sequence\", \"decoders\": []}",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Fuse\"}]}"};
    static const struct {
        const char *value, *sentence;
    } wrong[] = {
        {"{\"type\": \"Sequence\"}", "its decoder is a Sequence without a list \"decoders\""},
        {"{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Sequence\", \"decoders\": []}]}",
         "its decoder 'Sequence' is not supported; ByteLevel, Metaspace, WordPiece, Replace, Strip, ByteFallback, Fuse "
         "and a "
         "Sequence of them are"},
        {"{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}",
         "its decoder changes tokens, but the pre_tokenizer is ByteLevel"},
        {"{\"type\": \"ByteFallback\"}", "its decoder has a ByteFallback behind a Fuse, or for tokens of bytes"},
        {"3", "its decoder is not an object"},
    };
    char members[500];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(members, sizeof members, "\"pre_tokenizer\": " BYTES ", \"decoder\": %s", good[i]);
        expect_tokens(load_members(members, MODEL), "ab", "2");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(members, sizeof members, "\"pre_tokenizer\": " BYTES ", \"decoder\": %s", wrong[i].value);
        expect_refused(load_members(members, MODEL), path, wrong[i].sentence);
    }
    expect_refused(load_members("\"decoder\": {\"type\": \"ByteLevel\"}", MODEL), path,
                   "its decoder is ByteLevel, but the pre_tokenizer is not");
    expect_refused(load_members("\"decoder\": {}", MODEL), path, "\"type\" is missing; it should be a string");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizer parts", setup, teardown);
    tcase_add_test(tests, a_text_is_split);
    tcase_add_test(tests, digits_are_split);
    tcase_add_test(tests, a_space_is_added);
    tcase_add_test(tests, white_space_splits_words);
    tcase_add_test(tests, punctuation_is_split);
    tcase_add_test(tests, the_pre_tokenizer_is_checked);
    tcase_add_test(tests, splitting_has_limits);
    tcase_add_test(tests, a_document_has_tokens_around_it);
    tcase_add_test(tests, two_tokens_are_around_a_document);
    tcase_add_test(tests, the_post_processor_is_checked);
    tcase_add_test(tests, a_template_has_a_limit);
    tcase_add_test(tests, the_decoder_is_checked);
    return run_suites();
}
