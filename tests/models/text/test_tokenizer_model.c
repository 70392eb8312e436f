/* The model and the added tokens of tokenizer.json, and the two files of GPT-2: what each does to the tokens of a text,
 * and what is rejected. */
#include <stdlib.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "tokenizer_file.h"

static void write_added(char *text, size_t size, const char *content, int id, const char *options)
{
    snprintf(text, size,
             "{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"normalized\": false, \"special\": false, %s}",
             id, content, options);
}

START_TEST(most_members_may_be_missing)
{
    th_tokenizer *t = load("{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [[\"a\", \"b\"]]}}");
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
        {"\"model\": {\"type\": 3}", "its model is none of BPE, WordPiece and Unigram"},
        {"\"model\": {\"type\": \"WordLevel\"}", "its model is none of BPE, WordPiece and Unigram"},
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
                   "it has neither tokenizer.json nor vocab.txt nor vocab.json and merges.txt");
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
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "vocab.json: byte 8: ");
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
    TCase *tests = new_suite("tokenizer model", setup, teardown);
    tcase_add_test(tests, most_members_may_be_missing);
    tcase_add_test(tests, the_model_is_checked);
    tcase_add_test(tests, unknown_text_has_a_token);
    tcase_add_test(tests, merges_can_be_ignored);
    tcase_add_test(tests, added_tokens_are_checked);
    tcase_add_test(tests, added_tokens_take_spaces);
    tcase_add_test(tests, a_literal_token_is_found);
    tcase_add_test(tests, two_files_are_the_whole_tokenizer);
    tcase_add_test(tests, two_files_are_checked);
    return run_suites();
}
