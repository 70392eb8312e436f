/* Batches of texts, pairs and words: tokens, types, padding, truncation. The ids are those of Hugging Face's tokenizers 0.23. */
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static th_tokenizer *bert;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
    bert = th_tokenizer_load(ctx, FIXTURES "/sentence_embeddings");
    ck_assert_msg(bert != NULL, "%s", th_error_text(ctx));
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

static void check_row(th_tensor *rows, int64_t row, const char *wanted)
{
    char shown[200] = "";
    const int64_t length = th_size(rows, 1);
    const int32_t *number = (const int32_t *)th_data_const(rows) + row * length;
    for (int64_t t = 0; t < length; t++)
        snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%d", t ? " " : "", (int)number[t]);
    ck_assert_str_eq(shown, wanted);
}

static const char short_text[] = "tape order", long_text[] = "loss and gradients of the tape";

START_TEST(texts)
{
    const char *const both[] = {short_text, long_text};
    th_text_batch batch;
    ck_assert_int_eq(th_text_batch_make(bert, both, 2, 100, &batch), TH_OK);
    check_row(batch.tokens, 0, "2 48 59 3 0 0 0 0");
    check_row(batch.tokens, 1, "2 57 52 55 56 47 48 3");
    check_row(th_reshape(batch.lengths, TH_SHAPE(1, 2)), 0, "4 8");
    ck_assert(batch.types == NULL && batch.words == NULL);
    ck_assert_int_eq(th_text_batch_make(bert, both, 2, 4, &batch), TH_OK);
    check_row(batch.tokens, 1, "2 57 52 3");
}
END_TEST

START_TEST(pairs)
{
    static const struct {
        int64_t length;
        const char *tokens, *types;
    } cases[] = {{100, "2 48 59 3 57 52 55 56 47 48 3", "0 0 0 0 1 1 1 1 1 1 1"},
                 {9, "2 48 59 3 57 52 55 56 3", "0 0 0 0 1 1 1 1 1"},
                 {7, "2 48 59 3 57 52 3", "0 0 0 0 1 1 1"},
                 {6, "2 48 3 57 52 3", "0 0 0 1 1 1"},
                 {5, "2 48 3 57 3", "0 0 0 1 1"},
                 {4, "2 3 57 3", "0 0 1 1"}};
    th_text_batch batch;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(
            th_text_batch_make_pairs(bert, (const char *const[]){short_text, long_text}, 1, cases[i].length, &batch),
            TH_OK);
        check_row(batch.tokens, 0, cases[i].tokens);
        check_row(batch.types, 0, cases[i].types);
    }
    const char *const two[] = {long_text, short_text, short_text, short_text};
    ck_assert_int_eq(th_text_batch_make_pairs(bert, two, 2, 7, &batch), TH_OK);
    check_row(batch.tokens, 0, "2 57 52 3 48 59 3");
    check_row(batch.tokens, 1, "2 48 59 3 48 59 3");
    check_row(batch.types, 1, "0 0 0 0 1 1 1");
}
END_TEST

/* Rows have the tokens of pairs, and each token of the context has the place of its word or sign. */
START_TEST(windows)
{
    static const char question[] = "the tape?", context[] = "loss (and gradients), of\tthe tape";
    const char *const both[] = {question, context};
    th_text_windows w;
    th_text_batch batch;
    ck_assert_int_eq(th_text_batch_make_pairs(bert, both, 1, 100, &batch), TH_OK);
    ck_assert_int_eq(th_text_windows_make(bert, both, 1, 100, 0, &w), TH_OK);
    const int64_t length = th_size(batch.tokens, 1);
    ck_assert_int_eq(th_size(w.batch.tokens, 1), length);
    ck_assert_int_eq(memcmp(th_data_const(w.batch.tokens), th_data_const(batch.tokens), 4 * (size_t)length), 0);
    ck_assert_int_eq(memcmp(th_data_const(w.batch.types), th_data_const(batch.types), 4 * (size_t)length), 0);
    check_row(w.begin, 0, "-1 -1 -1 -1 -1 0 5 6 10 19 20 22 25 29 -1");
    check_row(w.end, 0, "-1 -1 -1 -1 -1 4 6 9 19 20 21 24 28 33 -1");

    const char *const two[] = {"the", "loss", question, context};
    ck_assert_int_eq(th_text_windows_make(bert, two, 2, 10, 1, &w), TH_OK); /* 7 tokens, 3 of them of the question */
    check_row(th_reshape(w.pair, TH_SHAPE(1, 4)), 0, "0 1 1 1");
    check_row(w.begin, 0, "-1 -1 -1 0 -1 -1 -1 -1 -1 -1");
    check_row(w.begin, 1, "-1 -1 -1 -1 -1 0 5 6 10 -1");
    check_row(w.begin, 2, "-1 -1 -1 -1 -1 10 19 20 22 -1");
    check_row(w.begin, 3, "-1 -1 -1 -1 -1 22 25 29 -1 -1");
    ck_assert_int_eq(th_text_windows_make(bert, two, 2, 5, 9, &w), TH_OK); /* one token of each */
    ck_assert_int_eq(th_size(w.pair, 0), 1 + 9);

    static const char accents[] = "\303\211va's \344\270\255\346\226\207 ";
    ck_assert_int_eq(th_text_windows_make(bert, (const char *const[]){question, accents}, 1, 100, 0, &w), TH_OK);
    const int32_t *end = th_data_const(w.end);
    int32_t last = 0;
    for (int64_t t = 0; t < th_size(w.end, 1); t++)
        last = end[t] > last ? end[t] : last;
    ck_assert_int_eq(last, (int32_t)strlen(accents) - 1);
    ck_assert_int_eq(th_text_windows_make(bert, (const char *const[]){"", " "}, 1, 100, 0, &w), TH_OK);
    ck_assert_int_eq(th_size(w.end, 1), 3);

    char *longest = calloc(1000, 1); /* a word of many signs, divided in steps */
    for (size_t i = 0; i < 900; i++)
        longest[i] = i % 2 ? '(' : 'a';
    ck_assert_int_eq(th_text_windows_make(bert, (const char *const[]){question, longest}, 1, 1000, 0, &w), TH_OK);
    const int32_t *begin = th_data_const(w.begin);
    for (int32_t i = 0; i < 900; i++)
        ck_assert_int_eq(begin[5 + i], i);
    free(longest);

    expect_status(th_text_windows_make(bert, both, 0, 100, 0, &w), TH_ERROR_ARGUMENT, "at least one pair");
    expect_status(th_text_windows_make(bert, both, 1, 4, 0, &w), TH_ERROR_ARGUMENT, "has no room for both texts");
    expect_status(th_text_windows_make(bert, (const char *const[]){question, NULL}, 1, 100, 0, &w), TH_ERROR_ARGUMENT,
                  "is NULL");
}
END_TEST

#define ADDED(id, content)                                                                                             \
    "{\"id\": " id ", \"content\": \"" content "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "    \
    "\"normalized\": false, \"special\": true}"

/* A tokenizer.json whose tokens are words, with this post_processor. */
static th_tokenizer *with_post_processor(const char *post_processor)
{
    FILE *file = fopen(in_folder("tokenizer.json"), "w");
    fprintf(file,
            "{\"version\": \"1.0\", \"added_tokens\": [" ADDED("0", "<s>") ", " ADDED(
                "1", "</s>") "], "
                             "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
                             "\"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": true}, "
                             "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"post_processor\": %s, "
                             "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}, "
                             "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"<s>\", "
                             "\"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 100, "
                             "\"vocab\": {\"<s>\": 0, \"</s>\": 1, \"a\": 2, \"b\": 3}}}",
            post_processor);
    ck_assert_int_eq(fclose(file), 0);
    th_tokenizer *t = th_tokenizer_load(ctx, in_folder("tokenizer.json"));
    ck_assert_msg(t != NULL, "%s", th_error_text(ctx));
    return t;
}

START_TEST(kinds_of_templates)
{
    static const char *const without[] = {
        "null",
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": "
        "[{\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
        "\"special_tokens\": {}}",
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": "
        "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"special_tokens\": {}}",
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": "
        "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"x\", \"type_id\": 0}}, "
        "{\"Sequence\": "
        "{\"id\": \"B\", \"type_id\": 0}}], \"special_tokens\": {\"x\": {\"id\": \"x\", \"ids\": [9], \"tokens\": "
        "[\"x\"]}}}"};
    const char *const pair[] = {"a a", "b"};
    th_text_batch batch;
    th_tokenizer *roberta =
        with_post_processor("{\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 1], \"cls\": [\"<s>\", "
                            "0], \"trim_offsets\": true, \"add_prefix_space\": false}");
    ck_assert_int_eq(th_text_batch_make_pairs(roberta, pair, 1, 100, &batch), TH_OK);
    check_row(batch.tokens, 0, "0 2 2 1 1 3 1");
    check_row(batch.types, 0, "0 0 0 0 0 0 0");
    th_tokenizer *processed =
        with_post_processor("{\"type\": \"BertProcessing\", \"sep\": [\"</s>\", 1], \"cls\": [\"<s>\", 0]}");
    ck_assert_int_eq(th_text_batch_make_pairs(processed, pair, 1, 100, &batch), TH_OK);
    check_row(batch.tokens, 0, "0 2 2 1 3 1");
    check_row(batch.types, 0, "0 0 0 0 1 1");
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        expect_status(th_text_batch_make_pairs(with_post_processor(without[i]), pair, 1, 100, &batch), TH_ERROR_STATE,
                      "no template for pairs");
}
END_TEST

START_TEST(words)
{
    const char *const list[] = {"the", "gradients!", "tape"};
    const int64_t begin[] = {0, 2, 3};
    th_text_batch batch;
    ck_assert_int_eq(th_text_batch_make_words(bert, list, begin, 2, 100, &batch), TH_OK);
    const int64_t length = th_size(batch.words, 1);
    const int32_t *word = th_data_const(batch.words);
    ck_assert_int_eq(word[0], -1);
    ck_assert_int_eq(word[1], 0);
    ck_assert_int_eq(word[2], 1);
    for (int64_t t = 3; t < length; t++)
        ck_assert_int_eq(word[t], -1);
    ck_assert_int_eq(word[length + 1], 0);
    check_row(batch.tokens, 1, length == 5 ? "2 48 3 0 0" : "2 48 3 0 0 0");
}
END_TEST

START_TEST(wrong_arguments)
{
    const char *const none[] = {NULL, "a"}, *const empty[] = {""};
    th_text_batch batch;
    expect_status(th_text_batch_make(bert, none, 2, 9, &batch), TH_ERROR_ARGUMENT, "texts[0] is NULL");
    expect_status(th_text_batch_make_pairs(bert, none, 1, 9, &batch), TH_ERROR_ARGUMENT, "texts[0] is NULL");
    expect_status(th_text_batch_make_words(bert, none, NULL, 1, 9, &batch), TH_ERROR_ARGUMENT, "word_begin is NULL");
    expect_status(th_text_batch_make(bert, none, 0, 9, &batch), TH_ERROR_ARGUMENT, "at least one text");
    expect_status(th_text_batch_make(bert, empty, 1, 0, &batch), TH_ERROR_ARGUMENT, "a positive length");
    expect_status(th_text_batch_make(th_tokenizer_bytes_new(ctx), empty, 1, 9, &batch), TH_ERROR_VALUE,
                  "has no tokens");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("text batch", setup, teardown);
    tcase_add_test(tests, texts);
    tcase_add_test(tests, pairs);
    tcase_add_test(tests, windows);
    tcase_add_test(tests, kinds_of_templates);
    tcase_add_test(tests, words);
    tcase_add_test(tests, wrong_arguments);
    return run_suites();
}
