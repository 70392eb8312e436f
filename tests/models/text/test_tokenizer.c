/* Tokenizers in memory: the tokens of texts, round trips, special tokens, streams, misuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

static th_token_list tokens;
static th_text text;

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    th_token_list_free(&tokens);
    th_text_free(&text);
    close_context();
}

/* Sets tokens to the tokens of these bytes. */
static void encode(th_tokenizer *t, const char *bytes, size_t count)
{
    tokens.count = 0;
    ck_assert_int_eq(th_tokenizer_encode(t, bytes, count, &tokens), TH_OK);
}

static void assert_round_trip(th_tokenizer *t, const char *bytes, size_t count)
{
    encode(t, bytes, count);
    text.count = 0;
    ck_assert_int_eq(th_tokenizer_decode(t, tokens.token, tokens.count, &text), TH_OK);
    ck_assert_uint_eq(text.count, count);
    ck_assert_int_eq(memcmp(text.bytes, bytes, count), 0);
    ck_assert_int_eq(text.bytes[count], 0);
}

/* Checks the tokens of a text by their bytes; "" ends the list. */
static void assert_pieces(th_tokenizer *t, const char *bytes, const char *const *piece)
{
    encode(t, bytes, strlen(bytes));
    size_t i = 0;
    for (; piece[i][0]; i++) {
        size_t length;
        ck_assert_uint_lt(i, tokens.count);
        ck_assert_str_eq(th_tokenizer_bytes(t, tokens.token[i], &length), piece[i]);
        ck_assert_uint_eq(length, strlen(piece[i]));
    }
    ck_assert_uint_eq(tokens.count, i);
}

static const char rhyme[] = "the cat sat on the mat, the rat sat on the cat; that's that.\n\nthe end  of it 1234";

static th_tokenizer *train_rhyme(int64_t vocabulary)
{
    static const char *const specials[] = {"<|end|>"};
    th_tokenizer *t = th_tokenizer_train(
        ctx, rhyme, strlen(rhyme), &(th_bpe_options){.vocabulary = vocabulary, .specials = specials, .n_specials = 1});
    no_error();
    return t;
}

static uint32_t next_random(uint32_t *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

/* -- bytes and characters -- */

START_TEST(test_bytes)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    char all[512];
    for (int i = 0; i < 512; i++)
        all[i] = (char)(i < 256 ? i : 511 - i);
    assert_round_trip(t, all, sizeof all);
    for (int i = 0; i < 256; i++)
        ck_assert_int_eq(tokens.token[i], i);
    ck_assert_int_eq(th_tokenizer_size(t), 256);
    ck_assert_int_eq(th_tokenizer_find(t, " "), ' ');
}
END_TEST

START_TEST(test_characters)
{
    th_tokenizer *t = th_tokenizer_characters_new(ctx, "ab€ 😀é\n", strlen("ab€ 😀é\n"));
    const char *const order[] = {"\n", " ", "a", "b", "é", "€", "😀"};
    ck_assert_int_eq(th_tokenizer_size(t), 7);
    for (int i = 0; i < 7; i++)
        ck_assert_str_eq(th_tokenizer_bytes(t, i, NULL), order[i]);
    assert_pieces(t, "bé😀\n", (const char *const[]){"b", "é", "😀", "\n", ""});
    encode(t, "aa", 2);
    expect_status(th_tokenizer_encode(t, "aß", 3, &tokens), TH_ERROR_VALUE, "'ß' (bytes c3 9f) at byte 1");
    expect_status(th_tokenizer_encode(t, "ab\xff", 3, &tokens), TH_ERROR_VALUE, "(bytes ff) at byte 2");
    ck_assert_uint_eq(tokens.count, 2); /* as before */
    ck_assert_int_eq(th_tokenizer_add(t, "<|end|>"), 7);
    assert_pieces(t, "a<|end|>b", (const char *const[]){"a", "<|end|>", "b", ""});
}
END_TEST

START_TEST(test_rejected_characters)
{
    assert_error(th_tokenizer_characters_new(ctx, "a\xe2\x82", 3), TH_ERROR_VALUE, "byte 1 of the text (0xe2)");
    assert_error(th_tokenizer_characters_new(ctx, "ab\xed\xa0\x80", 5), TH_ERROR_VALUE, "byte 2");
    assert_error(th_tokenizer_characters_new(ctx, "ab\0", 3), TH_ERROR_VALUE, "byte 2 of the text is NUL");
    assert_error(th_tokenizer_characters_new(ctx, "", 0), TH_ERROR_ARGUMENT, "the text is NULL");
}
END_TEST

/* -- byte-level BPE -- */

/* "at" is the most frequent pair (8 times), so it becomes the first token after the bytes. */
START_TEST(test_training)
{
    th_tokenizer *t = train_rhyme(280);
    ck_assert_int_eq(th_tokenizer_size(t), 280);
    ck_assert_str_eq(th_tokenizer_bytes(t, 0, NULL), "<|end|>");
    ck_assert_str_eq(th_tokenizer_bytes(t, 1, NULL), "!"); /* the first character that represents a byte */
    ck_assert_str_eq(th_tokenizer_bytes(t, 257, NULL), "at");
    assert_pieces(t, " the cat", (const char *const[]){" the", " cat", ""});
    assert_pieces(t, " the's 98<|end|>7", (const char *const[]){" the", "'s", " ", "9", "8", "<|end|>", "7", ""});
    for (int i = 257; i < 280; i++) { /* no token crosses the end of a word */
        const char *bytes = th_tokenizer_bytes(t, i, NULL);
        ck_assert_msg(strchr(bytes + 1, ' ') == NULL || strspn(bytes, " ") == strlen(bytes), "'%s'", bytes);
    }
}
END_TEST

START_TEST(test_training_ends)
{
    th_tokenizer *t = train_rhyme(100000); /* every word became one token */
    ck_assert_int_lt(th_tokenizer_size(t), 350);
    const int64_t all = th_tokenizer_size(t);
    t = th_tokenizer_train(ctx, rhyme, strlen(rhyme), &(th_bpe_options){.vocabulary = 100000, .min_frequency = 3});
    ck_assert_int_lt(th_tokenizer_size(t), all - 10);
    ck_assert_int_ge(th_tokenizer_find(t, " the"), 0);
    ck_assert_int_eq(th_tokenizer_find(t, " mat"), -1);
    t = th_tokenizer_train(ctx, rhyme, strlen(rhyme), &(th_bpe_options){.vocabulary = 100000, .max_bytes = 4});
    ck_assert_int_eq(th_tokenizer_find(t, " the"), -1);
    ck_assert_int_ge(th_tokenizer_find(t, "the"), 0);
    t = th_tokenizer_train(ctx, NULL, 0, &(th_bpe_options){.vocabulary = 300});
    ck_assert_int_eq(th_tokenizer_size(t), 256);
    t = th_tokenizer_train(ctx, rhyme, strlen(rhyme), &(th_bpe_options){.vocabulary = 400, .pattern = "\\p{L}+|\\d"});
    assert_pieces(t, "that's 12", (const char *const[]){"that", "'", "s", " ", "1", "2", ""});
}
END_TEST

START_TEST(test_rejected_training)
{
    static const char *const empty[] = {""}, *const broken[] = {"\xff"}, *const taken[] = {"\xc3\xa9"},
                             *const null[] = {"a b", NULL};
    const struct {
        th_bpe_options options;
        const char *words;
    } refused[] = {
        {{.vocabulary = 255}, "vocabulary = 255 is outside 256 (256 bytes and the special tokens) .. 4194304"},
        {{.vocabulary = 1 << 23}, "vocabulary = 8388608 is outside"},
        {{.vocabulary = 300, .min_frequency = -1}, "may be negative"},
        {{.vocabulary = 300, .max_bytes = -1}, "may be negative"},
        {{.vocabulary = 300, .specials = empty, .n_specials = -1}, "may be negative"},
        {{.vocabulary = 300, .n_specials = 1}, "n_specials needs specials"},
        {{.vocabulary = 300, .specials = empty, .n_specials = (1 << 14) + 1}, "there are too many special tokens"},
        {{.vocabulary = 300, .specials = null, .n_specials = 2}, "1 to 512 bytes"},
        {{.vocabulary = 257, .specials = null, .n_specials = 0, .pattern = "$"},
         "the pattern '$' cannot be used: $ is"},
        {{.vocabulary = 300, .specials = empty, .n_specials = 1}, "1 to 512 bytes"},
        {{.vocabulary = 300, .specials = broken, .n_specials = 1}, "must be UTF-8"},
        {{.vocabulary = 300, .specials = taken, .n_specials = 1}, "has other bytes"},
        {{.vocabulary = 300, .pattern = "a*"}, "match the empty string"},
        {{.vocabulary = 300, .pattern = "a("}, "a ( is not closed"},
        {{.vocabulary = 300, .pattern = "\\y+"}, "\\y is not supported"},
        {{.vocabulary = 300, .pattern = "[b-a]"}, "ends before it begins"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_error(th_tokenizer_train(ctx, "a", 1, &refused[i].options), TH_ERROR_ARGUMENT, refused[i].words);
    assert_error(th_tokenizer_train(ctx, "a", 1, NULL), TH_ERROR_ARGUMENT, "needs a text and options");
    assert_error(th_tokenizer_train(ctx, NULL, 1, &refused[0].options), TH_ERROR_ARGUMENT, "a text and options");
}
END_TEST

/* A byte that is not valid UTF-8 is treated on its own and does not affect its neighbors, in encoding and in
 * training. */
START_TEST(test_invalid_utf8)
{
    static const char *const part[] = {"\x80",         "\xff",     "\xc3",     "\xe2\x82",        "\xf0\x9f\x98",
                                       "\xed\xa0\x80", "\xc0\x80", "\xf8\x88", "\xf4\x90\x80\x80"};
    th_tokenizer *t = train_rhyme(320);
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        char broken[64];
        const int length = snprintf(broken, sizeof broken, "the cat%s the é mat %s", part[i], part[i]);
        assert_round_trip(t, broken, (size_t)length);
        const size_t count = tokens.count, bytes = strlen(part[i]);
        encode(t, "the cat", 7);
        const size_t before = tokens.count;
        encode(t, " the é mat ", strlen(" the é mat "));
        ck_assert_uint_eq(count, before + tokens.count + 2 * bytes);
    }
    th_tokenizer *learnt = th_tokenizer_train(ctx,
                                              "ab\xff"
                                              "ab\xff"
                                              "ab\xff"
                                              "ab",
                                              11, &(th_bpe_options){.vocabulary = 300});
    ck_assert_int_eq(th_tokenizer_size(learnt), 257);
    ck_assert_int_eq(th_tokenizer_find(learnt, "ab"), 256);
}
END_TEST

/* Random bytes, and random pieces of text, also longer than any buffer. The cache must not change the result. */
START_TEST(test_round_trips)
{
    static const char *const piece[] = {
        "the",  " cat", "\n\n",     "  ",           "é",    "\xcc\x81", "👩\xe2\x80\x8d👧", "שלום",
        "中文", "١٢",   "\xc2\x85", "\xe1\xa0\x8e", "\xff", "<|end|>",  "<|en",           "'s"};
    th_tokenizer *t = train_rhyme(350);
    uint32_t state = 1;
    static char bytes[40000];
    for (int round = 0; round < 200; round++) {
        size_t count = 0;
        const size_t wanted = round < 190 ? next_random(&state) % 200 : 30000;
        while (count < wanted) {
            const char *next = piece[(next_random(&state) >> 16) % 16];
            const bool raw = round % 2;
            count += (size_t)(raw ? snprintf(bytes + count, 32, "%c", (int)(next_random(&state) >> 24))
                                  : snprintf(bytes + count, 32, "%s", next));
        }
        assert_round_trip(t, bytes, count);
        const size_t before = tokens.count;
        int32_t *copy = malloc((before + 1) * sizeof *copy);
        memcpy(copy, tokens.token, before * sizeof *copy);
        if (round % 20 == 0) {
            th_tokenizer *fresh = train_rhyme(350);
            encode(fresh, bytes, count);
            ck_assert_uint_eq(tokens.count, before);
            ck_assert_int_eq(memcmp(tokens.token, copy, before * sizeof *copy), 0);
            th_tokenizer_free(fresh);
        }
        free(copy);
    }
}
END_TEST

/* A word as long as a text is merged like a short one, and in reasonable time. */
START_TEST(test_long_words)
{
    th_tokenizer *t =
        th_tokenizer_train(ctx, "aaaaaaaa aaaaaaaa aaaa aaaa aa", 30, &(th_bpe_options){.vocabulary = 259});
    ck_assert_int_eq(th_tokenizer_find(t, "aaaaaaaa"), -1); /* "aa" and "aaaa" and a space before one of them */
    static char word[1000000];
    memset(word, 'a', sizeof word);
    size_t longest;
    th_tokenizer_bytes(t, th_tokenizer_find(t, "aaaa"), &longest);
    ck_assert_uint_eq(longest, 4);
    for (size_t count = 4; count <= sizeof word; count *= 5) {
        assert_round_trip(t, word, count);
        ck_assert_uint_eq(tokens.count, count / 4 + count % 4 / 2 + count % 2);
    }
    memset(word, ' ', sizeof word);
    assert_round_trip(t, word, sizeof word);
    memset(word, '\xff', sizeof word);
    assert_round_trip(t, word, sizeof word);
}
END_TEST

/* -- special tokens -- */

START_TEST(test_special_tokens)
{
    th_tokenizer *t = train_rhyme(280);
    ck_assert(th_tokenizer_is_special(t, 0));
    ck_assert(!th_tokenizer_is_special(t, 1));
    ck_assert_int_eq(th_tokenizer_add(t, "<|end|>"), 0);
    ck_assert_int_eq(th_tokenizer_add(t, "<|end|><|end|>"), 280);
    ck_assert_int_eq(th_tokenizer_add(t, "<é e>"), 281);
    ck_assert_int_eq(th_tokenizer_add(t, "<é e>"), 281);
    ck_assert_int_eq(th_tokenizer_size(t), 282);
    ck_assert_int_eq(th_tokenizer_find(t, "<é e>"), 281);
    assert_pieces(t, "<|end|><|end|><|end|><é e><é",
                  (const char *const[]){"<|end|><|end|>", "<|end|>", "<é e>", "<", "\xc3", "\xa9", ""});
    ck_assert_int_eq(th_tokenizer_add(t, ""), -1);
    expect_error(TH_ERROR_ARGUMENT, "1 to 512 bytes");
    ck_assert_int_eq(th_tokenizer_add(t, "\xff"), -1);
    expect_error(TH_ERROR_ARGUMENT, "UTF-8");
    ck_assert_int_eq(th_tokenizer_add(t, "Ġ"), -1); /* a space as files have it */
    expect_error(TH_ERROR_ARGUMENT, "has other bytes");
}
END_TEST

/* -- streams -- */

/* Checks what the bytes look like on a terminal, with one byte as one token at a time. After each byte there are
 * only whole characters. */
static void assert_stream(const char *bytes, const char *shown)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_text_stream stream = {0};
    char *written;
    size_t size;
    FILE *file = open_memstream(&written, &size);
    for (const char *c = bytes; *c; c++) {
        const int32_t token = (unsigned char)*c;
        ck_assert_int_eq(th_tokenizer_write(t, &token, 1, &stream, file), TH_OK);
        ck_assert_msg(size == 0 || strncmp(written, shown, size) == 0, "'%s' of '%s'", written, shown);
        ck_assert(((unsigned char)shown[size] & 0xc0) != 0x80);
    }
    ck_assert_int_eq(th_tokenizer_write_end(t, &stream, file), TH_OK);
    fclose(file);
    ck_assert_str_eq(written, shown);
    free(written);
}

START_TEST(test_stream)
{
    assert_stream("aé€😀b", "aé€😀b");
    assert_stream("\xff"
                  "a",
                  "\xef\xbf\xbd"
                  "a");
    assert_stream("\xe2\x82"
                  "a\xe2\x82",
                  "\xef\xbf\xbd"
                  "a\xef\xbf\xbd");
    assert_stream("\xf0\x9f\x98\xe2\x82\xac", "\xef\xbf\xbd€");
    assert_stream("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    assert_stream("\xc0\x80\xf5", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_text_stream stream = {0};
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL)
        return;
    expect_status(th_tokenizer_write(t, &(int32_t){65}, 1, &stream, full), TH_ERROR_FILE, "could not be written");
    fclose(full);
}
END_TEST

/* Writes to a file that takes no bytes. The stream then still holds at most the beginning of one character. */
START_TEST(test_failed_writes)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    struct {
        th_text_stream stream;
        unsigned char behind[32];
    } guarded = {0};
    static const char bytes[] = "\xe2\xff"
                                "a\xf0\x9f\x98\x80\xff\xff"
                                "abc";
    FILE *closed = fopen("/dev/null", "r");
    ck_assert_ptr_nonnull(closed);
    for (size_t i = 0; bytes[i]; i++) {
        const int32_t token[] = {(unsigned char)bytes[i], 'x', 'x', 'x', 'x', 'x'};
        expect_status(th_tokenizer_write(t, token, 6, &guarded.stream, closed), TH_ERROR_FILE,
                      "tokenizer_write: the text could not be written");
        ck_assert_int_le(guarded.stream.count, 3);
        ck_assert_mem_eq(guarded.behind, (unsigned char[32]){0}, sizeof guarded.behind);
    }
    guarded.stream = (th_text_stream){.held = {0xe2}, .count = 1};
    expect_status(th_tokenizer_write_end(t, &guarded.stream, closed), TH_ERROR_FILE,
                  "tokenizer_write_end: the text could not be written");
    ck_assert_int_eq(guarded.stream.count, 0);
    ck_assert_int_eq(th_tokenizer_write_end(t, &guarded.stream, closed), TH_OK);
    fclose(closed);
}
END_TEST

/* Takes two bytes, and then no more. */
static ssize_t take_two(void *taken, const char *bytes, size_t count)
{
    (void)bytes;
    const size_t left = 2 - *(size_t *)taken, now = count < left ? count : left;
    *(size_t *)taken += now;
    return (ssize_t)now;
}

/* A part of a character that was written is an error, too. */
START_TEST(test_a_character_written_in_part)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    for (int end = 0; end < 2; end++) {
        size_t taken = 0;
        FILE *file = fopencookie(&taken, "w", (cookie_io_functions_t){.write = take_two});
        ck_assert_ptr_nonnull(file);
        setvbuf(file, NULL, _IONBF, 0);
        th_text_stream stream = {.held = {0xe2}, .count = end};
        const th_status status = end ? th_tokenizer_write_end(t, &stream, file)
                                     : th_tokenizer_write(t, (const int32_t[]){0xe2, 0x82, 0xac}, 3, &stream, file);
        expect_status(status, TH_ERROR_FILE, "could not be written");
        ck_assert_uint_eq(taken, 2);
        fclose(file);
    }
}
END_TEST

/* -- misuse -- */

START_TEST(test_misuse)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_text_stream stream = {0};
    expect_status(th_tokenizer_encode(t, NULL, 1, &tokens), TH_ERROR_ARGUMENT, "a text and a list");
    expect_status(th_tokenizer_encode(t, "a", 1, NULL), TH_ERROR_ARGUMENT, "a text and a list");
    ck_assert_int_eq(th_tokenizer_encode(t, NULL, 0, &tokens), TH_OK);
    ck_assert_uint_eq(tokens.count, 0);
    expect_status(th_tokenizer_encode(NULL, "a", 1, &tokens), TH_ERROR_ARGUMENT, "the tokenizer is NULL");
    expect_status(th_tokenizer_encode(t, "a", PTRDIFF_MAX / 4 + 1, &tokens), TH_ERROR_ARGUMENT,
                  "tokenizer_encode: needs a text");
    expect_status(th_tokenizer_encode_document(t, NULL, 1, &tokens), TH_ERROR_ARGUMENT,
                  "tokenizer_encode_document: needs a text");
    expect_status(th_tokenizer_decode(t, (const int32_t[]){5, 256}, 2, &text), TH_ERROR_INDEX,
                  "tokenizer_decode: token 1 is 256, outside 0 .. 255");
    expect_status(th_tokenizer_decode(t, &(const int32_t){-1}, 1, &text), TH_ERROR_INDEX, "token 0 is -1");
    expect_status(th_tokenizer_decode(t, NULL, 1, &text), TH_ERROR_ARGUMENT, "needs tokens");
    expect_status(th_tokenizer_decode(t, NULL, 0, NULL), TH_ERROR_ARGUMENT, "needs tokens");
    ck_assert_int_eq(th_tokenizer_decode(NULL, NULL, 0, &text), TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "tokenizer_decode: the tokenizer is NULL");
    expect_status(th_tokenizer_write(t, NULL, 0, &stream, NULL), TH_ERROR_ARGUMENT, "needs tokens");
    expect_status(th_tokenizer_write(t, NULL, 0, NULL, stdout), TH_ERROR_ARGUMENT, "needs tokens");
    expect_status(th_tokenizer_write(NULL, NULL, 0, &stream, stdout), TH_ERROR_ARGUMENT, "the tokenizer is NULL");
    expect_status(th_tokenizer_write_end(t, NULL, stdout), TH_ERROR_ARGUMENT, "needs tokens");
    expect_status(th_tokenizer_write_end(t, &stream, NULL), TH_ERROR_ARGUMENT, "tokenizer_write_end: needs tokens");
    expect_status(th_tokenizer_write_end(NULL, &stream, stdout), TH_ERROR_ARGUMENT, "the tokenizer is NULL");
    expect_status(th_tokenizer_save(NULL, "/tmp"), TH_ERROR_ARGUMENT, "tokenizer_save: the tokenizer is NULL");
    ck_assert_uint_eq(text.count, 0);
    size_t bytes = 7;
    ck_assert_ptr_null(th_tokenizer_bytes(t, 256, &bytes));
    ck_assert_uint_eq(bytes, 0);
    ck_assert_ptr_null(th_tokenizer_bytes(NULL, 0, NULL));
    ck_assert_int_eq(th_tokenizer_size(NULL), 0);
    ck_assert_int_eq(th_tokenizer_find(NULL, "a"), -1);
    ck_assert_int_eq(th_tokenizer_find(t, NULL), -1);
    ck_assert(!th_tokenizer_is_special(t, -1));
    assert_error(th_tokenizer_bytes_new(NULL), TH_ERROR_ARGUMENT, "the context is NULL");
    th_tokenizer_free(t);
    expect_status(th_tokenizer_encode(t, "a", 1, &tokens), TH_ERROR_STATE, "has been freed");
    ck_assert_int_eq(th_tokenizer_add(t, "a"), -1);
    expect_error(TH_ERROR_STATE, "has been freed");
    ck_assert_ptr_null(th_tokenizer_bytes(t, 0, NULL));
    th_tokenizer_free(t);
    expect_error(TH_ERROR_STATE, "freed already");
    th_tokenizer_free(NULL);
    th_token_list_free(NULL);
    th_text_free(NULL);
}
END_TEST

/* With an error pending nothing happens, and the first error stays. */
START_TEST(test_pending_error)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    ck_assert_ptr_null(th_tokenizer_load(ctx, "/nowhere/at/all"));
    ck_assert_ptr_null(th_tokenizer_bytes_new(ctx));
    ck_assert_int_eq(th_tokenizer_encode(t, "a", 1, &tokens), TH_ERROR_FILE);
    ck_assert_uint_eq(tokens.count, 0);
    expect_error(TH_ERROR_FILE, "/nowhere/at/all");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizer", setup, teardown);
    tcase_add_test(tests, test_bytes);
    tcase_add_test(tests, test_characters);
    tcase_add_test(tests, test_rejected_characters);
    tcase_add_test(tests, test_training);
    tcase_add_test(tests, test_training_ends);
    tcase_add_test(tests, test_rejected_training);
    tcase_add_test(tests, test_invalid_utf8);
    tcase_add_test(tests, test_round_trips);
    tcase_add_test(tests, test_long_words);
    tcase_add_test(tests, test_special_tokens);
    tcase_add_test(tests, test_stream);
    tcase_add_test(tests, test_failed_writes);
    tcase_add_test(tests, test_a_character_written_in_part);
    tcase_add_test(tests, test_misuse);
    tcase_add_test(tests, test_pending_error);
    return run_suites();
}
