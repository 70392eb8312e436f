/* Training of WordPiece: vocabularies that were worked out by hand, options, saving. scripts/interop/word_piece.py compares
 * with the reference library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/text/tokenizer.h"
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

/* Trains on a text; compares the tokens behind BERT's special ones with `expected`, which has spaces between them. */
static th_tokenizer *expect_tokens(const char *text, th_word_piece_options options, const char *expected)
{
    char line[400] = "";
    th_tokenizer *t = th_tokenizer_train_word_piece(ctx, text, strlen(text), &options);
    no_error();
    for (int32_t i = 5; i < th_tokenizer_size(t); i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i > 5 ? " " : "",
                 th_vocabulary_bytes(&t->vocabulary, i));
    ck_assert_str_eq(line, expected);
    return t;
}

static void expect_ids(th_tokenizer *t, const char *text, const char *expected)
{
    char line[200] = "";
    tokens.count = 0;
    ck_assert_int_eq(th_tokenizer_encode_document(t, text, strlen(text), &tokens), TH_OK);
    for (size_t i = 0; i < tokens.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%d", i ? " " : "", (int)tokens.token[i]);
    ck_assert_str_eq(line, expected);
}

/* hug 10 times, pug 5, pun 12, bun 4, hugs 5 */
static const char hugs[] =
    "hug pug pun bun hugs hug Pug pun bun hugs hug pug PUN bun hugs\nhug pug pun bun hugs hug pug "
    "pun hugs hug pun hug pun hug pun\r\nhug pun hug pun hug pun pun pun";
#define HUG_CHARACTERS "b g h n p s u ##u ##g ##n ##s"
/* The pairs in the order of merging: ##u ##g 20 times, ##u ##n 16, h ##ug 15, p ##un 12; p ##ug and hug ##s 5, of which
 * the first has the smaller ids; b ##un 4 */
#define HUG_TOKENS HUG_CHARACTERS " ##ug ##un hug pun pug hugs bun"

/* Checks a tokenizer of HUG_TOKENS: words, special tokens, the tokens around a text, unknown characters. */
static void expect_hugs(th_tokenizer *t)
{
    expect_ids(t, "hugs bug", "2 21 5 16 3");
    expect_ids(t, "P\xc3\x9aG[MASK]mug", "2 20 4 1 3"); /* PÚG: lower case and no accent */
    static const int32_t ids[] = {18, 15, 5, 16};
    th_text text = {0};
    ck_assert_int_eq(th_tokenizer_decode(t, ids, 4, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "hugs bug");
    th_text_free(&text);
    for (int i = 0; i < 5; i++)
        ck_assert(th_tokenizer_is_special(t, i));
    ck_assert(!th_tokenizer_is_special(t, 5));
    ck_assert_int_eq(th_tokenizer_find(t, "[MASK]"), 4);
}

START_TEST(test_merges)
{
    th_tokenizer *t = expect_tokens(hugs, (th_word_piece_options){.vocabulary = 100}, HUG_TOKENS);
    expect_hugs(t);
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    size_t count;
    char *config = read_bytes(in_folder("tokenizer_config.json"), &count);
    ck_assert_ptr_nonnull(strstr(config, "\"mask_token\": \"[MASK]\""));
    ck_assert_ptr_nonnull(strstr(config, "\"cls_token\": \"[CLS]\""));
    free(config);
    t = th_tokenizer_load(ctx, folder);
    ck_assert_int_eq(th_tokenizer_size(t), 23);
    expect_hugs(t);
    expect_tokens(hugs, (th_word_piece_options){.vocabulary = 21}, HUG_CHARACTERS " ##ug ##un hug pun pug");
    expect_tokens(hugs, (th_word_piece_options){.vocabulary = 16}, HUG_CHARACTERS);
    expect_tokens(hugs, (th_word_piece_options){.vocabulary = 100, .min_frequency = 5},
                  HUG_CHARACTERS " ##ug ##un hug pun pug hugs");
    expect_tokens("ab ab cd", (th_word_piece_options){.vocabulary = 100}, "a b c d ##b ##d ab");
    expect_tokens("ab ab cd", (th_word_piece_options){.vocabulary = 100, .min_frequency = 1}, "a b c d ##b ##d ab cd");
    expect_tokens("", (th_word_piece_options){.vocabulary = 5}, "");
    ck_assert_ptr_nonnull(th_tokenizer_train_word_piece(ctx, NULL, 0, &(th_word_piece_options){.vocabulary = 5}));
}
END_TEST

START_TEST(test_alphabet)
{
    /* g 20 times, p 17, u 36, and h, n, b, s fewer: "hug" is ##u ##g in training */
    expect_tokens(hugs, (th_word_piece_options){.vocabulary = 100, .limit_alphabet = 3}, "g p u ##u ##g ##ug pu pug");
    expect_tokens("d c b a", (th_word_piece_options){.vocabulary = 100, .limit_alphabet = 2}, "a b");
    expect_tokens("ab", (th_word_piece_options){.vocabulary = 100, .alphabet = "z\xc3\xa9z"}, "a b z \xc3\xa9 ##b");
    expect_tokens("ab ab", (th_word_piece_options){.vocabulary = 100, .limit_alphabet = 1, .alphabet = "z"}, "z");
}
END_TEST

START_TEST(test_text_options)
{
    static const char accents[] = "\xc3\x89 \xc3\xa9"; /* É é */
    expect_tokens(accents, (th_word_piece_options){.vocabulary = 9}, "e");
    expect_tokens(accents, (th_word_piece_options){.vocabulary = 9, .cased = true}, "\xc3\x89 \xc3\xa9");
    expect_tokens(accents, (th_word_piece_options){.vocabulary = 9, .accents = TH_ACCENTS_KEEP}, "\xc3\xa9");
    expect_tokens(accents, (th_word_piece_options){.vocabulary = 9, .cased = true, .accents = TH_ACCENTS_REMOVE},
                  "E e");
    static const char chinese[] = "\xe4\xb8\xad\xe5\x9b\xbd \xe4\xb8\xad\xe5\x9b\xbd"; /* 中国 中国 */
    expect_tokens(chinese, (th_word_piece_options){.vocabulary = 9}, "\xe4\xb8\xad \xe5\x9b\xbd");
    expect_tokens(chinese, (th_word_piece_options){.vocabulary = 9, .join_chinese = true},
                  "\xe4\xb8\xad \xe5\x9b\xbd ##\xe5\x9b\xbd \xe4\xb8\xad\xe5\x9b\xbd");
    expect_tokens("a.b,b", (th_word_piece_options){.vocabulary = 20}, ", . a b"); /* signs are words */
}
END_TEST

/* Bytes that are not UTF-8, and NUL, have no token. */
START_TEST(test_invalid_bytes)
{
    static const char text[] = "ab\xff"
                               "ab \xe4\xb8\0cd\0cd\n\xc3\nab";
    const th_tokenizer *t =
        th_tokenizer_train_word_piece(ctx, text, sizeof text - 1, &(th_word_piece_options){.vocabulary = 30});
    no_error();
    ck_assert_int_eq(th_tokenizer_size(t), 5 + 4 + 3 + 1); /* a b c d, ##b ##c ##d, ab; cdcd is there once */
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
}
END_TEST

START_TEST(test_specials)
{
    static const char *const specials[] = {"<e>", "[CLS]", "<e>", "##b", "c"};
    const th_word_piece_options options = {.vocabulary = 30, .specials = specials, .n_specials = 5, .min_frequency = 1};
    th_tokenizer *t = expect_tokens("abc", options, "<e> ##b c a b ##c ##bc abc");
    ck_assert(th_tokenizer_is_special(t, 5) && !th_tokenizer_is_special(t, 8));
    expect_ids(t, "[SEP]<e>abc", "2 3 5 8 6 7 3");
    static const char *const learned[] = {"ab"}; /* a merge that makes it makes no further token */
    expect_tokens("abc abc", (th_word_piece_options){.vocabulary = 30, .specials = learned, .n_specials = 1},
                  "ab a b c ##b ##c abc");
}
END_TEST

START_TEST(test_refused)
{
    static const char *const empty[] = {""}, *const broken[] = {"\xff"};
    static const struct {
        th_word_piece_options options;
        const char *words;
    } refused[] = {
        {{0}, "vocabulary = 0 is outside 7"},
        {{.vocabulary = 6}, "vocabulary = 6 is outside 7 (the special tokens, and the text's characters"},
        {{.vocabulary = (1 << 22) + 1}, ".. 4194304"},
        {{.vocabulary = 30, .min_frequency = -1}, "negative"},
        {{.vocabulary = 30, .limit_alphabet = -1}, "negative"},
        {{.vocabulary = 30, .n_specials = -1}, "negative"},
        {{.vocabulary = 30, .n_specials = 1}, "needs specials"},
        {{.vocabulary = 30, .specials = empty, .n_specials = 1 << 30}, "too many special tokens"},
        {{.vocabulary = 30, .specials = empty, .n_specials = 1}, "1 to 512 bytes"},
        {{.vocabulary = 30, .specials = broken, .n_specials = 1}, "must be UTF-8"},
        {{.vocabulary = 30, .alphabet = "a\xff"}, "the alphabet must be UTF-8"},
        {{.vocabulary = 30, .accents = (th_accents)3}, "accents is not a value of th_accents"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_error(th_tokenizer_train_word_piece(ctx, "aa", 2, &refused[i].options), TH_ERROR_ARGUMENT,
                     refused[i].words);
    assert_error(th_tokenizer_train_word_piece(ctx, "a", 1, NULL), TH_ERROR_ARGUMENT, "needs a text and options");
    assert_error(th_tokenizer_train_word_piece(ctx, NULL, 1, &refused[0].options), TH_ERROR_ARGUMENT,
                 "a text and options");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("training of WordPiece", setup, teardown);
    tcase_add_test(tests, test_merges);
    tcase_add_test(tests, test_alphabet);
    tcase_add_test(tests, test_text_options);
    tcase_add_test(tests, test_invalid_bytes);
    tcase_add_test(tests, test_specials);
    tcase_add_test(tests, test_refused);
    return run_suites();
}
