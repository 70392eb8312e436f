/* Tokenizers in files. Files of the reference library (fixtures) give its tokens, and training learns what it
 * learns. We can read what we write. Files that are damaged or would mean something else are rejected with a
 * message. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

#define FIXTURE FIXTURES "/bpe/"

static char path[96];
static const char *const name[] = {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
                                   "added_tokens.json"};

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
    make_folder();
    strcpy(path, in_folder("tokenizer.json"));
}

/* Only the files of a tokenizer may be left: no temporary file. */
static void teardown(void)
{
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        unlink(in_folder(name[i]));
    ck_assert_msg(rmdir(folder) == 0, "%s: %s", folder, strerror(errno));
    close_context();
}

static void write_file(const char *file, const char *text, size_t bytes)
{
    write_bytes(in_folder(file), text, bytes);
}

/* -- the fixtures -- */

/* Checks the tokens of every text in the fixture. */
static void assert_tokens(th_tokenizer *t, const char *fixture)
{
    char file_path[256];
    size_t bytes, lines;
    snprintf(file_path, sizeof file_path, FIXTURE "%s.tokens", fixture);
    char *expected = read_bytes(file_path, &lines), *texts = read_bytes(FIXTURE "texts", &bytes), *at = expected;
    th_token_list tokens = {0};
    int count = 0;
    for (const char *text = texts; text <= texts + bytes; count++) {
        const char *end = memmem(text, (size_t)(texts + bytes - text), "\xff\xfe\xff", 3);
        const size_t length = (size_t)((end ? end : texts + bytes) - text);
        tokens.count = 0;
        ck_assert_msg(th_tokenizer_encode_document(t, text, length, &tokens) == TH_OK, "%s", th_error_message(ctx));
        for (size_t i = 0; i < tokens.count; i++)
            ck_assert_msg(*at != '\n' && strtol(at, &at, 10) == tokens.token[i], "%s, text %d, token %zu", fixture,
                          count, i);
        ck_assert_msg(*at == '\n', "%s, text %d has fewer tokens than it should", fixture, count);
        at++;
        text += length + 3;
    }
    ck_assert_int_gt(count, 50);
    ck_assert_int_eq(*at, 0);
    th_token_list_free(&tokens);
    free(texts);
    free(expected);
}

static th_tokenizer *load_fixture(const char *fixture)
{
    char file_path[256];
    snprintf(file_path, sizeof file_path, FIXTURE "%s.json", fixture);
    th_tokenizer *t = th_tokenizer_load(ctx, file_path);
    no_error();
    return t;
}

static const char *const fixtures[] = {"gpt2",    "llama3",    "o200k", "characters", "llama2", "gemma",
                                       "mistral", "metaspace", "qwen2", "bert",       "unigram"};

/* Tokenizers as read, and after they were written and read again. */
START_TEST(test_fixtures)
{
    const char *fixture = fixtures[_i];
    th_tokenizer *t = load_fixture(fixture);
    assert_tokens(t, fixture);
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    th_tokenizer_free(t);
    t = th_tokenizer_load(ctx, folder);
    no_error();
    assert_tokens(t, fixture);
    char file_path[256];
    snprintf(file_path, sizeof file_path, FIXTURE "%s.json", fixture);
    json_t *theirs = json_load_file(file_path, 0, NULL), *ours = json_load_file(path, 0, NULL);
    json_object_del(json_object_get(theirs, "model"), "merges");
    json_object_del(json_object_get(ours, "model"), "merges");
    ck_assert(json_equal(theirs, ours));
    json_decref(theirs);
    json_decref(ours);
}
END_TEST

/* The same vocabulary, merges and added tokens as the reference learns from the same text. */
START_TEST(test_training)
{
    static const char *const end_of_text[] = {"<|endoftext|>"}, *const two[] = {"<s>", "</s>"};
    size_t bytes;
    char *corpus = read_bytes(FIXTURE "corpus", &bytes);
    json_t *file = json_load_file(FIXTURE "o200k.json", 0, NULL);
    const json_t *split = json_array_get(json_object_get(json_object_get(file, "pre_tokenizer"), "pretokenizers"), 0);
    const char *pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    const th_bpe_options options[] = {{.vocabulary = 400, .specials = end_of_text, .n_specials = 1},
                                      {.vocabulary = 330, .specials = two, .n_specials = 2, .pattern = pattern}};
    for (int i = 0; i < 2; i++) {
        th_tokenizer *t = th_tokenizer_train(ctx, corpus, bytes, &options[i]);
        no_error();
        ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
        json_t *theirs = json_load_file(i ? FIXTURE "o200k.json" : FIXTURE "gpt2.json", 0, NULL);
        json_t *ours = json_load_file(path, 0, NULL);
        ck_assert(json_equal(json_object_get(theirs, "model"), json_object_get(ours, "model")));
        ck_assert(json_equal(json_object_get(theirs, "added_tokens"), json_object_get(ours, "added_tokens")));
        json_decref(theirs);
        json_decref(ours);
    }
    json_decref(file);
    free(corpus);
}
END_TEST

/* GPT-2's two files describe the same tokenizer as tokenizer.json. */
START_TEST(test_two_files)
{
    ck_assert_int_eq(th_tokenizer_save(load_fixture("gpt2"), folder), TH_OK);
    ck_assert_int_eq(unlink(path), 0);
    th_tokenizer *t = th_tokenizer_load(ctx, folder);
    no_error();
    assert_tokens(t, "gpt2");
    ck_assert(th_tokenizer_is_special(t, th_tokenizer_find(t, "<|endoftext|>")));
    write_file("added_tokens.json", "{}", 2);
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "added_tokens.json is not supported");
    unlink(in_folder("added_tokens.json"));
    unlink(in_folder("merges.txt"));
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE,
                 "neither tokenizer.json nor vocab.txt nor vocab.json and merges.txt");
    const char *const broken[] = {"#version: 0.2\n! \"\n!\n", "! \" #\n", "! \xc3\xa9\xc3\xa9\n", "! x\r\n", "! !\n\n"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        write_file("merges.txt", broken[i], strlen(broken[i]));
        assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "merges.txt: merge ");
    }
    write_file("merges.txt", "a\0b", 3);
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "contains a NUL");
}
END_TEST

START_TEST(test_bytes_and_characters)
{
    static const char words[] = "grüße, 世界! \"\\/\t\n\x01\x7f";
    th_token_list tokens = {0};
    for (int i = 0; i < 2; i++) {
        th_tokenizer *t = i ? th_tokenizer_bytes_new(ctx) : th_tokenizer_characters_new(ctx, words, strlen(words));
        const int64_t end = th_tokenizer_add(t, "<|end of it|>");
        ck_assert_int_eq(th_tokenizer_encode(t, words, strlen(words), &tokens), TH_OK);
        const size_t count = tokens.count;
        ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
        ck_assert_int_ne(access(in_folder("merges.txt"), F_OK), 0);
        t = th_tokenizer_load(ctx, path);
        no_error();
        ck_assert_int_eq(th_tokenizer_encode(t, words, strlen(words), &tokens), TH_OK);
        ck_assert_uint_eq(tokens.count, 2 * count);
        ck_assert_int_eq(memcmp(tokens.token, tokens.token + count, count * sizeof *tokens.token), 0);
        ck_assert_int_eq(th_tokenizer_find(t, "<|end of it|>"), end);
        ck_assert(th_tokenizer_is_special(t, end));
        tokens.count = 0;
    }
    th_token_list_free(&tokens);
}
END_TEST

START_TEST(test_document)
{
    th_tokenizer *t = load_fixture("llama3");
    th_token_list tokens = {0};
    ck_assert_int_eq(th_tokenizer_encode_document(t, "a", 1, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, 4);
    ck_assert_int_eq(tokens.token[0], 0);
    ck_assert_int_eq(tokens.token[1], 3);
    ck_assert_int_eq(tokens.token[2], th_tokenizer_find(t, "a"));
    ck_assert_int_eq(tokens.token[3], 5);
    ck_assert_int_eq(th_tokenizer_encode(t, "a", 1, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, 5);
    th_token_list_free(&tokens);
}
END_TEST

/* -- rejected files -- */

static const char small[] =
    "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [{\"id\": 4, \"content\": "
    "\"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": "
    "true}], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
    "\"Split\", \"pattern\": {\"Regex\": \"\\\\s+|[^\\\\s]+\"}, \"behavior\": \"Isolated\", \"invert\": false}, "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}]}, "
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", "
    "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": "
    "{\"<s>\": {\"id\": \"<s>\", \"ids\": [4], \"tokens\": [\"<s>\"]}}}, \"decoder\": {\"type\": \"ByteLevel\"}, "
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
    "\"end_of_word_suffix\": \"\", \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false, "
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"aba\": 3}, \"merges\": [\"a b\", \"ab a\"]}}";

/* Writes `small` with the first `what` in it replaced as tokenizer.json. */
static void write_edited(const char *what, const char *by)
{
    const char *at = strstr(small, what);
    ck_assert_msg(at != NULL, "'%s' is not in the file", what);
    char text[4096];
    const int bytes = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - small), small, by, at + strlen(what));
    ck_assert_int_lt(bytes, (int)sizeof text);
    write_file("tokenizer.json", text, (size_t)bytes);
}

START_TEST(test_small)
{
    write_edited("null", "null");
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    no_error();
    th_token_list tokens = {0};
    ck_assert_int_eq(th_tokenizer_encode(t, "ab<s>ababa", 10, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, 4); /* ab <s> ab aba */
    ck_assert_int_eq(tokens.token[1], 4);
    ck_assert_int_eq(tokens.token[2], 2);
    ck_assert_int_eq(tokens.token[3], 3);
    expect_status(th_tokenizer_encode(t, "abc", 3, &tokens), TH_ERROR_VALUE, "'c' (bytes 63) at byte 2");
    th_token_list_free(&tokens);
}
END_TEST

/* An added token that is a space and includes the spaces around it hides others like it, as in the reference. */
START_TEST(test_token_that_is_a_space)
{
    write_edited("\"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false",
                 "\"\\n\", \"single_word\": false, \"lstrip\": true, \"rstrip\": true");
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    no_error();
    static const int32_t expected[] = {2, 4, 2, 4};
    th_token_list tokens = {0};
    ck_assert_int_eq(th_tokenizer_encode(t, "ab\n\n \nab\n\n", 10, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, 4);
    ck_assert_mem_eq(tokens.token, expected, sizeof expected);
    th_token_list_free(&tokens);
}
END_TEST

START_TEST(test_rejected)
{
    const struct {
        const char *what, *by, *words;
    } edit[] = {
        {"\"1.0\"", "\"2.0\"", "its version is not"},
        {"\"1.0\"", "1.0", "its version is not"},
        {"\"truncation\": null", "\"truncation\": {\"max_length\": 3}", "\"stride\" is missing"},
        {"\"truncation\": null", "\"truncation\": 3", "its truncation is not an object"},
        {"\"truncation\": null", "\"truncation\": {\"max_length\": 3, \"stride\": 0, \"strategy\": \"None\"}",
         "its truncation is none of"},
        {"\"truncation\": null", "\"truncation\": {\"max_length\": 3, \"stride\": 0, \"direction\": \"Up\"}",
         "neither Left nor Right"},
        {"\"padding\": null", "\"padding\": []", "its padding is not an object"},
        {"\"padding\": null", "\"padding\": {}", "neither BatchLongest nor Fixed"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"Other\"}", "its normalizer 'Other' is not supported"},
        {"\"id\": 4", "\"id\": 5", "'<s>' has id 5 where it should have 4"},
        {"\"id\": 4", "\"id\": 4.0", "\"id\""},
        {"\"id\": 4", "\"id\": -1", "\"id\""},
        {"\"id\": 4, \"content\": \"<s>\"", "\"id\": 4, \"content\": \"ab\"", "'ab' has id 4 where it should have 2"},
        {"\"single_word\": false, ", "", "\"single_word\""},
        {"\"lstrip\": false, ", "", "\"lstrip\""},
        {"\"Split\"", "\"UnicodeScripts\"", "pre_tokenizer 'UnicodeScripts' is not supported"},
        {"\"Split\"", "\"Metaspace\"", "\"replacement\" is missing"},
        {"\"Isolated\"", "\"Merged\"", "must be Isolated, Removed, Contiguous"},
        {"{\"Regex\": ", "{\"Rogox\": ", "\"String\" is missing"},
        {"\\\\s+|[^\\\\s]+", "\\\\s*", "it can match the empty string"},
        {"\\\\s+|[^\\\\s]+", "\\\\b.", "\\b is not supported"},
        {"\\\\s+|[^\\\\s]+", "[\\\\S]", "\\S within [] is not supported"},
        {"\\\\s+|[^\\\\s]+", "(?i:ff)", "\"ff\" within (?i:) is not supported"},
        {"\\\\s+|[^\\\\s]+", "(?i)a", "a group begins with (?"},
        {"\\\\s+|[^\\\\s]+", "a{2}+", "{}+ is ambiguous"},
        {"\\\\s+|[^\\\\s]+", "\\\\p{Greek}", "\\p{Greek} is not supported"},
        {"\\\\s+|[^\\\\s]+", "[a&&b]", "sets within sets"},
        {"\\\\s+|[^\\\\s]+", "^a", "^ is not supported"},
        {"\\\\s+|[^\\\\s]+", "a)", "a ) has no matching ("},
        {"\\\\s+|[^\\\\s]+", "(a", "a ( is not closed"},
        {"\\\\s+|[^\\\\s]+", "[a", "a [ is not closed"},
        {"\\\\s+|[^\\\\s]+", "a(?=b)+", "lookaround group is repeated"},
        {"\\\\s+|[^\\\\s]+", "a*?+", "a repetition is repeated"},
        {"\\\\s+|[^\\\\s]+", "+", "there is nothing before + to repeat"},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true", "follows another part"},
        {"\"use_regex\": false", "\"use_regex\": 0", "\"use_regex\""},
        {"\"TemplateProcessing\"", "\"OtherProcessing\"", "post_processor is of a type that is not supported"},
        {"\"ids\": [4]", "\"ids\": [9]", "an id that is not in the vocabulary"},
        {"{\"Sequence\": {\"id\": \"A\"", "{\"Sequence\": {\"id\": \"B\"", "does not appear exactly once"},
        {"\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"CTC\"}",
         "decoder 'CTC' is not supported"},
        {"\"BPE\"", "\"WordLevel\"", "its model is none of BPE, WordPiece and Unigram"},
        {"\"dropout\": null", "\"dropout\": 0.1", "BPE dropout"},
        {"\"unk_token\": null", "\"unk_token\": 3", "unk_token is not a string"},
        {"\"continuing_subword_prefix\": null", "\"continuing_subword_prefix\": \"##\"", "continuing_subword_prefix"},
        {"\"end_of_word_suffix\": \"\"", "\"end_of_word_suffix\": \"</w>\"", "end_of_word_suffix"},
        {"\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback is not supported"},
        {"\"ignore_merges\": false", "\"ignore_merges\": \"no\"", "\"ignore_merges\""},
        {"\"aba\": 3", "\"aba\": 2", "the id of token 'aba' is a duplicate"},
        {"\"aba\": 3", "\"aba\": 4", "outside 0 .. 3"},
        {"\"aba\": 3", "\"aba\": -3", "outside 0 .. 3"},
        {"\"aba\": 3", "\"aba\": 3.5", "outside 0 .. 3"},
        {"\"aba\": 3", "\"a\": 3", "occurs twice"},
        {"\"vocab\": {", "\"vocab\": 3, \"x\": {", "vocabulary is not an object"},
        {"\"ab a\"", "\"ab c\"", "merge 1, of 'ab' and 'c', uses or makes a token that is not in the vocabulary"},
        {"\"ab a\"", "\"ab b\"", "uses or makes a token"},
        {"\"ab a\"", "\"aba\"", "not two tokens with one space"},
        {"\"ab a\"", "\"a b a\"", "not two tokens with one space"},
        {"\"ab a\"", "[\"ab\", \"a\"]", "mix"},
        {"\"ab a\"", "7", "mix"},
        {"\"a b\", \"ab a\"", "[\"ab\"]", "neither"},
        {"\"a b\", \"ab a\"", "[\"a\", \"b\", \"a\"]", "neither"},
        {"\"merges\": [", "\"marges\": [", "its merges are not a list"},
        {"\"model\": {", "\"modal\": {", "it has no model"},
        {"\"version\"", "\"model_version\"", "it has an unknown member \"model_version\""},
        {"\"trim_offsets\": true", "\"trim_offsets\": 1", "\"trim_offsets\" has another type"},
    };
    for (size_t i = 0; i < sizeof edit / sizeof edit[0]; i++) {
        write_edited(edit[i].what, edit[i].by);
        assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, edit[i].words);
    }
}
END_TEST

/* Cut anywhere, a file is rejected. With any byte changed, it is rejected or gives a working tokenizer. */
START_TEST(test_damaged)
{
    const size_t bytes = strlen(small);
    char copy[sizeof small];
    for (size_t cut = 0; cut < bytes; cut++) {
        write_file("tokenizer.json", small, cut);
        assert_error(th_tokenizer_load(ctx, path), TH_ERROR_FILE, "tokenizer.json");
    }
    th_token_list tokens = {0};
    int opened = 0;
    for (size_t i = 0; i < bytes; i++) {
        memcpy(copy, small, sizeof copy);
        copy[i] = (char)(copy[i] ^ (1 << i % 8));
        write_file("tokenizer.json", copy, bytes);
        th_tokenizer *t = th_tokenizer_load(ctx, path);
        if (t == NULL) {
            expect_error(TH_ERROR_FILE, "tokenizer.json");
            continue;
        }
        opened++;
        const th_status status = th_tokenizer_encode_document(t, "ab<s>abaab b", 12, &tokens);
        ck_assert(status == TH_OK || status == TH_ERROR_VALUE);
        th_error_clear(ctx);
        tokens.count = 0;
        th_tokenizer_free(t);
    }
    ck_assert_int_gt(opened, 10);
    th_token_list_free(&tokens);
}
END_TEST

START_TEST(test_places)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    expect_status(th_tokenizer_save(t, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_status(th_tokenizer_save(t, longest), TH_ERROR_ARGUMENT, "too long");
    expect_status(th_tokenizer_save(t, in_folder("none")), TH_ERROR_FILE, "none/tokenizer.json: ");
    assert_error(th_tokenizer_load(ctx, NULL), TH_ERROR_ARGUMENT, "a path must be given");
    assert_error(th_tokenizer_load(ctx, longest), TH_ERROR_ARGUMENT, "too long");
    assert_error(th_tokenizer_load(ctx, in_folder("none")), TH_ERROR_FILE, "none: ");
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "neither tokenizer.json");
    assert_error(th_tokenizer_load(ctx, "/dev/zero"), TH_ERROR_FILE, "not a regular file");
    /* Opening a pipe for reading would wait forever. */
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    write_file("vocab.json", "{\"a\": 0}", 8);
    ck_assert_int_eq(unlink(in_folder("tokenizer.json")), 0);
    ck_assert_int_eq(mkfifo(in_folder("merges.txt"), 0600), 0);
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "merges.txt: it is not a regular file");
    th_tokenizer_free(t);
    expect_status(th_tokenizer_save(t, folder), TH_ERROR_STATE, "has been freed");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizer files", setup, teardown);
    tcase_add_loop_test(tests, test_fixtures, 0, (int)(sizeof fixtures / sizeof *fixtures));
    tcase_add_test(tests, test_training);
    tcase_add_test(tests, test_two_files);
    tcase_add_test(tests, test_bytes_and_characters);
    tcase_add_test(tests, test_document);
    tcase_add_test(tests, test_small);
    tcase_add_test(tests, test_token_that_is_a_space);
    tcase_add_test(tests, test_rejected);
    tcase_add_test(tests, test_damaged);
    tcase_add_test(tests, test_places);
    return run_suites();
}
