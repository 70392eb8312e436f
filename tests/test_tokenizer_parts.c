/* The parts of tokenizer.json: what each may contain, what it does to the tokens of a text, and how the message of a
 * rejected part begins and ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static char path[96];
static th_token_list tokens;

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
    make_folder();
    strcpy(path, in_folder("tokenizer.json"));
}

static void teardown(void)
{
    th_token_list_free(&tokens);
    remove_folder();
    close_context();
}

/* Byte-level letters, a space (\xc4\xa0), and a text that no byte-level model can make. */
#define VOCAB                                                                                                          \
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\xc4\xa0\": 3, \"-\": 4, \"1\": 5, \"x y\": 6, \"\xc4\xa0"           \
    "a\": 7}"
#define MODEL "\"model\": {" VOCAB ", \"merges\": [\"a b\", \"\xc4\xa0 a\"]}"
#define BYTES "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"

static th_tokenizer *load(const char *text)
{
    write_bytes(path, text, strlen(text));
    return th_tokenizer_load(ctx, path);
}

/* Loads a file of these members. */
static th_tokenizer *load_members(const char *members, const char *model)
{
    char text[8192];
    const int bytes = snprintf(text, sizeof text, "{%s%s%s}", members, *members ? ", " : "", model);
    ck_assert_int_lt(bytes, (int)sizeof text);
    return load(text);
}

static th_tokenizer *load_pieces(const char *parts)
{
    char text[4096];
    snprintf(text, sizeof text, "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s]}", parts);
    return load_members(text, MODEL);
}

/* Checks the tokens, written as digits. */
static void expect_tokens(th_tokenizer *t, const char *text, const char *digits)
{
    no_error();
    tokens.count = 0;
    ck_assert_msg(th_tokenizer_encode_document(t, text, strlen(text), &tokens) == TH_OK, "%s", th_error_message(ctx));
    char got[200] = "";
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%d", (int)tokens.token[i]);
    ck_assert_msg(strcmp(got, digits) == 0, "'%s' gives %s, not %s", text, got, digits);
}

/* The message names the operation and the file, and then says this. */
static void expect_refused(const th_tokenizer *t, const char *file, const char *sentence)
{
    char wanted[600];
    snprintf(wanted, sizeof wanted, "tokenizer_load: %s: %s; at test_", file, sentence);
    ck_assert_msg(strncmp(th_error_message(ctx), wanted, strlen(wanted)) == 0, "'%s' is not '%s'",
                  th_error_message(ctx), wanted);
    assert_error(t, TH_ERROR_FILE, "");
}

/* -- members that may be missing -- */

START_TEST(most_members_may_be_missing)
{
    th_tokenizer *t = load("{"
                           "\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [[\"a\", \"b\"]]}}");
    expect_tokens(t, "abba", "210");
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    t = th_tokenizer_load(ctx, folder);
    expect_tokens(t, "abba", "210");
    t = load_members(
        "\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": null, \"post_processor\": null, "
        "\"decoder\": null, \"normalizer\": null, \"truncation\": null, \"padding\": null",
        "\"model\": {\"type\": \"BPE\", \"dropout\": 0.0, \"unk_token\": null, \"continuing_subword_prefix\": "
        "\"\", \"fuse_unk\": null, \"vocab\": {}, \"merges\": []}");
    expect_tokens(t, "", "");
    ck_assert_int_eq(th_tokenizer_size(t), 0);
    expect_status(th_tokenizer_decode(t, &(const int32_t){0}, 1, &(th_text){0}), TH_ERROR_INDEX, "token 0 is 0");
}
END_TEST

START_TEST(the_model_is_checked)
{
    static const struct {
        const char *model, *sentence;
    } cases[] = {
        {"\"model\": 3", "it has no model"},
        {"\"model\": {\"type\": 3}", "its model is not BPE"},
        {"\"model\": {\"type\": \"WordPiece\"}", "its model is not BPE"},
        {"\"model\": {\"dropout\": \"no\"}", "its model uses BPE dropout, which is not supported"},
        {"\"model\": {\"dropout\": -0.5}", "its model uses BPE dropout, which is not supported"},
        {"\"model\": {\"unk_token\": false}", "its unk_token is not a string"},
        {"\"model\": {\"continuing_subword_prefix\": 0}",
         "its \"continuing_subword_prefix\" is not supported and must be null"},
        {"\"model\": {\"end_of_word_suffix\": \"x\"}", "its \"end_of_word_suffix\" is not supported and must be null"},
        {"\"model\": {\"fuse_unk\": 1}", "\"fuse_unk\" has another type; it should be true or false"},
        {"\"model\": {\"byte_fallback\": 1}", "\"byte_fallback\" has another type; it should be true or false"},
        {"\"model\": {\"merges\": []}", "its vocabulary is not an object"},
        {"\"model\": {\"vocab\": {\"a\": 1}}",
         "the id of token 'a' is a duplicate, or outside 0 .. 0 (there are 1 tokens)"},
        {"\"model\": {\"vocab\": {\"a\": 0}}", "its merges are not a list"},
        {"\"model\": {" VOCAB ", \"merges\": {}}", "its merges are not a list"},
        {"\"model\": {" VOCAB ", \"merges\": [\"a b\", [\"a\", \"b\"]]}",
         "its merges mix \"left right\" and [\"left\", \"right\"]"},
        {"\"model\": {" VOCAB ", \"merges\": [[3, \"b\"]]}",
         "a merge is neither \"left right\" nor [\"left\", \"right\"]"},
        {"\"model\": {" VOCAB ", \"merges\": [[\"a\", null]]}",
         "a merge is neither \"left right\" nor [\"left\", \"right\"]"},
        {"\"model\": {" VOCAB ", \"merges\": [[\"a\", \"b\", \"a\"]]}",
         "a merge is neither \"left right\" nor [\"left\", \"right\"]"},
        {"\"model\": {" VOCAB ", \"merges\": [[]]}", "a merge is neither \"left right\" nor [\"left\", \"right\"]"},
        {"\"model\": {" VOCAB ", \"merges\": [\"a b\", \"b a\"]}",
         "merge 1, of 'b' and 'a', uses or makes a token that is not in the vocabulary"},
        {"\"model\": {" VOCAB ", \"merges\": [\"a b\", \"ab\"]}",
         "merge 1, 'ab', is not two tokens with one space between them"},
        {"\"model\": {" VOCAB ", \"merges\": [], \"byte_fallback\": true}", "its byte_fallback is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(load_members("", cases[i].model), path, cases[i].sentence);
}
END_TEST

/* Unknown characters become unk_token: each, or all in a row one. A text that is no token is none. */
START_TEST(unknown_text_has_a_token)
{
    static const char format[] =
        "\"model\": {\"unk_token\": \"%s\", \"fuse_unk\": %s, \"vocab\": {\"a\": 0, \"?\": 1}, \"merges\": []}";
    char model[200];
    snprintf(model, sizeof model, format, "?", "false");
    expect_tokens(load_members("", model), "a\xc3\xa9xa\xff", "01101");
    snprintf(model, sizeof model, format, "?", "true");
    expect_tokens(load_members("", model), "a\xc3\xa9xax", "0101");
    snprintf(model, sizeof model, format, "!", "true");
    th_tokenizer *t = load_members("", model);
    tokens.count = 0;
    expect_status(
        th_tokenizer_encode(t, "ax\n", 3, &tokens), TH_ERROR_VALUE,
        "tokenizer_encode: 'x' (bytes 78) at byte 1 is not in the vocabulary, which has no token for unknown");
    expect_status(th_tokenizer_encode(t, "aa\n", 3, &tokens), TH_ERROR_VALUE, "'' (bytes 0a) at byte 2");
    expect_status(th_tokenizer_encode(t, "a\xf0\x9f\x98\x80", 5, &tokens), TH_ERROR_VALUE,
                  "(bytes f0 9f 98 80) at byte 1");
    ck_assert_uint_eq(tokens.count, 0);
}
END_TEST

/* With ignore_merges a word that is a token is that token, with merges or without. */
START_TEST(merges_can_be_ignored)
{
    static const char format[] = "\"model\": {\"ignore_merges\": %s, \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, "
                                 "\"aba\": 3}, \"merges\": [\"a b\"]}";
    char model[200];
    snprintf(model, sizeof model, format, "true");
    expect_tokens(load_members("", model), "aba", "3");
    expect_tokens(load_members("", model), "abab", "22");
    snprintf(model, sizeof model, format, "false");
    expect_tokens(load_members("", model), "aba", "20");
}
END_TEST

/* -- pre_tokenizer -- */

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
         "its pre_tokenizer 'Sequence' is not supported; ByteLevel, Split, Digits and a Sequence of them are"},
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
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"MergedWithNext\"}",
         "a Split has a behavior that is neither Isolated nor Removed"},
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char member[1000];
        snprintf(member, sizeof member, "\"pre_tokenizer\": %s", cases[i].value);
        expect_refused(load_members(member, MODEL), path, cases[i].sentence);
    }
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
            assert_error(t, TH_ERROR_FILE, "bytes, more than 4096");
    }
    free(text);
}
END_TEST

/* -- post_processor and decoder -- */

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
         WRONG "is of a type that is not supported; ByteLevel, TemplateProcessing and a Sequence of them are"},
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char member[1000];
        snprintf(member, sizeof member, "\"post_processor\": %s", cases[i].value);
        expect_refused(load_members(member, MODEL), path, cases[i].sentence);
    }
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
    static const char *const wrong[] = {
        "{\"type\": \"Sequence\"}", "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Strip\"}]}",
        "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"Sequence\", \"decoders\": []}]}",
        "{\"type\": \"Strip\", \"decoders\": []}"};
    static const char sentence[] =
        "its decoder is not supported; ByteLevel (with such a pre_tokenizer), Fuse and a Sequence of them are";
    char members[500];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(members, sizeof members, "\"pre_tokenizer\": " BYTES ", \"decoder\": %s", good[i]);
        expect_tokens(load_members(members, MODEL), "ab", "2");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(members, sizeof members, "\"pre_tokenizer\": " BYTES ", \"decoder\": %s", wrong[i]);
        expect_refused(load_members(members, MODEL), path, sentence);
    }
    expect_refused(load_members("\"decoder\": {\"type\": \"ByteLevel\"}", MODEL), path, sentence);
    expect_refused(load_members("\"decoder\": {}", MODEL), path, "\"type\" is missing; it should be a string");
}
END_TEST

/* -- added tokens -- */

static void write_added(char *text, size_t size, const char *content, int id, const char *options)
{
    snprintf(text, size,
             "{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"normalized\": false, \"special\": false, %s}",
             id, content, options);
}

START_TEST(added_tokens_are_checked)
{
    static const char plain[] = "\"lstrip\": false, \"rstrip\": false";
    char first[300], second[300], members[1000];
    expect_refused(load_members("\"added_tokens\": {}", MODEL), path,
                   "its added_tokens are not a list, or there are too many");
    write_added(first, sizeof first, "<x>", 9, plain);
    snprintf(members, sizeof members, "\"added_tokens\": [%s]", first);
    expect_refused(load_members(members, MODEL), path, "the added token '<x>' has id 9 where it should have 8");
    /* the same token twice keeps its id; an empty one is ignored, as in the reference */
    write_added(first, sizeof first, "<x>", 8, plain);
    write_added(second, sizeof second, "", 77, plain);
    snprintf(members, sizeof members, "\"added_tokens\": [%s, %s, %s]", first, second, first);
    th_tokenizer *t = load_members(members, MODEL);
    expect_tokens(t, "a<x>b", "081");
    ck_assert_int_eq(th_tokenizer_size(t), 9);
    ck_assert(!th_tokenizer_is_special(t, 8));
    write_added(second, sizeof second, "<x>", 9, plain);
    snprintf(members, sizeof members, "\"added_tokens\": [%s, %s]", first, second);
    expect_refused(load_members(members, MODEL), path, "the added token '<x>' has id 9 where it should have 8");
    char longest[514];
    memset(longest, 'x', 513);
    longest[513] = 0;
    char long_token[800];
    write_added(long_token, sizeof long_token, longest, 8, plain);
    snprintf(members, sizeof members, "\"added_tokens\": [%s]", long_token);
    char sentence[200] = "the added token '";
    memset(sentence + 17, 'x', 60);
    strcpy(sentence + 77, "...' has 513 bytes, which is more than the 512 that an added token may have");
    expect_refused(load_members(members, MODEL), path, sentence);
}
END_TEST

/* Spaces of one to three bytes around an added token belong to it, but not other bytes, and not the token before. */
START_TEST(added_tokens_take_spaces)
{
    static const char model[] = "\"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"a\": 1}, \"merges\": []";
    static const char *const options[] = {"\"lstrip\": true, \"rstrip\": false", "\"lstrip\": false, \"rstrip\": true"};
    static const struct {
        const char *text, *left, *right;
    } cases[] = {
        {"a \t\r\n<x> \xc2\x85"
         "a",
         "12001",
         "100002"
         "1"},
        {"a\xc2\xa0\xe2\x80\x89\xe3\x80\x80<x>\xe2\x80\xaf\xe1\x9a\x80"
         "a",
         "12001", "100021"},
        {"\x80\x80<x>\x80", "0020", "0020"},
        {"\xe2\x80\x8b<x>\xe2\x80\x8b", "020", "020"},
        {"a <x> <x>", "122", "1022"},
        {"\xa0<x>\xc2", "020", "020"},
        {" <x>", "2", "02"},
    };
    for (int side = 0; side < 2; side++) {
        char token[300], members[600], text[200];
        write_added(token, sizeof token, "<x>", 2, options[side]);
        snprintf(members, sizeof members, "\"added_tokens\": [%s]", token);
        snprintf(text, sizeof text, "\"model\": {%s}", model);
        th_tokenizer *t = load_members(members, text);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            expect_tokens(t, cases[i].text, side ? cases[i].right : cases[i].left);
    }
}
END_TEST

/* A token of the file that the model cannot make is found by its text, and stays what it is when it is added. */
START_TEST(a_literal_token_is_found)
{
    th_tokenizer *t = load_pieces(BYTES);
    no_error();
    ck_assert_str_eq(th_tokenizer_bytes(t, 6, NULL), "x y");
    ck_assert_int_eq(th_tokenizer_find(t, "x y"), 6);
    ck_assert_int_eq(th_tokenizer_find(t, "x "), -1);
    ck_assert_int_eq(th_tokenizer_find(t, "x z"), -1);
    ck_assert_int_eq(th_tokenizer_add(t, "x y"), 6);
    ck_assert_int_eq(th_tokenizer_size(t), 8);
    ck_assert(th_tokenizer_is_special(t, 6) && !th_tokenizer_is_special(t, 5) && !th_tokenizer_is_special(t, 8));
    expect_tokens(t, "ax yb", "061");
}
END_TEST

/* -- files -- */

/* vocab.json and merges.txt are written only if they are the whole tokenizer. */
START_TEST(two_files_are_the_whole_tokenizer)
{
    static const char text[] = "the cat sat on the mat";
    th_tokenizer *t = th_tokenizer_train(ctx, text, strlen(text), &(th_bpe_options){.vocabulary = 260});
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    ck_assert_int_eq(access(in_folder("vocab.json"), F_OK), 0);
    ck_assert_int_eq(access(in_folder("merges.txt"), F_OK), 0);
    unlink(in_folder("vocab.json"));
    unlink(in_folder("merges.txt"));
    ck_assert_int_eq(th_tokenizer_add(t, "<|end|>"), 260);
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    ck_assert_int_ne(access(in_folder("vocab.json"), F_OK), 0);
    ck_assert_int_ne(access(in_folder("merges.txt"), F_OK), 0);
}
END_TEST

START_TEST(two_files_are_checked)
{
    char vocab[96], merges[96];
    strcpy(vocab, in_folder("vocab.json"));
    strcpy(merges, in_folder("merges.txt"));
    write_bytes(vocab, "{\"a\": 0}", 8);
    expect_refused(th_tokenizer_load(ctx, folder), folder,
                   "it has neither tokenizer.json nor vocab.json and merges.txt");
    write_bytes(merges, "", 0);
    th_tokenizer *t = th_tokenizer_load(ctx, folder);
    expect_tokens(t, "a", "0");
    write_bytes(merges, "#version: 0.2\r\n", 15);
    expect_tokens(th_tokenizer_load(ctx, folder), "aa", "00");
    write_bytes(merges, "a\n", 2);
    expect_refused(th_tokenizer_load(ctx, folder), merges,
                   "merge 0, 'a', is not two tokens with one space between them");
    write_bytes(merges, "\n", 1);
    expect_refused(th_tokenizer_load(ctx, folder), merges,
                   "merge 0, '', is not two tokens with one space between them");
    write_bytes(vocab, "{\"a\": 0,}", 9);
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "vocab.json: byte 9: ");
    write_bytes(vocab, "[]", 2);
    expect_refused(th_tokenizer_load(ctx, folder), vocab, "its vocabulary is not an object");
    unlink(vocab);
    ck_assert_int_eq(symlink("vocab.json", vocab), 0); /* a link to itself cannot be followed */
    ck_assert_ptr_null(th_tokenizer_load(ctx, folder));
    expect_error(TH_ERROR_FILE, "vocab.json: ");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizer parts", setup, teardown);
    tcase_add_test(tests, most_members_may_be_missing);
    tcase_add_test(tests, the_model_is_checked);
    tcase_add_test(tests, unknown_text_has_a_token);
    tcase_add_test(tests, merges_can_be_ignored);
    tcase_add_test(tests, a_text_is_split);
    tcase_add_test(tests, digits_are_split);
    tcase_add_test(tests, a_space_is_added);
    tcase_add_test(tests, the_pre_tokenizer_is_checked);
    tcase_add_test(tests, splitting_has_limits);
    tcase_add_test(tests, a_document_has_tokens_around_it);
    tcase_add_test(tests, the_post_processor_is_checked);
    tcase_add_test(tests, a_template_has_a_limit);
    tcase_add_test(tests, the_decoder_is_checked);
    tcase_add_test(tests, added_tokens_are_checked);
    tcase_add_test(tests, added_tokens_take_spaces);
    tcase_add_test(tests, a_literal_token_is_found);
    tcase_add_test(tests, two_files_are_the_whole_tokenizer);
    tcase_add_test(tests, two_files_are_checked);
    return run_suites();
}
