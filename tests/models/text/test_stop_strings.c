/* Texts that end before the first of some stop strings. The expected text is found in the whole text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* Writes the bytes of a text as tokens, `step` tokens at a time. Returns what was written; the caller frees it. */
static char *written(const char *text, size_t count, int step, th_stop_stream *stream)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    char *result = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&result, &size);
    ck_assert(t && file);
    for (size_t i = 0; i < count; i += (size_t)step) {
        int32_t tokens[64];
        const size_t n = count - i < (size_t)step ? count - i : (size_t)step;
        for (size_t k = 0; k < n; k++)
            tokens[k] = (unsigned char)text[i + k];
        ck_assert_int_eq(th_tokenizer_write_until(t, tokens, n, stream, file), TH_OK);
    }
    ck_assert_int_eq(th_tokenizer_write_until_end(t, stream, file), TH_OK);
    fclose(file);
    th_tokenizer_free(t);
    no_error();
    return result;
}

static const struct {
    const char *text, *stop[3], *expected;
} cases[] = {
    {"one two three", {"two"}, "one "},
    {"one two three", {"four"}, "one two three"},
    {"one two three", {NULL}, "one two three"},
    {"two", {"two"}, ""},
    {"a tw", {"two"}, "a tw"},                /* the beginning is written at the end */
    {"ttwtwo", {"two"}, "ttw"},               /* a beginning inside another */
    {"aaaab", {"aab"}, "aa"},                 /* as above, of equal characters */
    {"x abcd", {"bcd", "abcx", "cd"}, "x a"}, /* bcd and cd end together: the longest counts */
    {"x abcd", {"abcd", "bc"}, "x a"},        /* bc ends first */
    {"\xc3\xa9t\xc3\xa9 fin", {"t\xc3\xa9"}, "\xc3\xa9"},
    {"\xc3\xa9\xc3\xa8 fin", {"\xc3\xaa"}, "\xc3\xa9\xc3\xa8 fin"}, /* the same first byte of another character */
    {"bad \xff end", {"\xef\xbf\xbd"}, "bad "},                     /* the invalid byte becomes U+FFFD */
    {"cut \xc3", {"t \xef\xbf\xbd"}, "cu"},                         /* also at the end of the text */
    {"\n\nUser: a", {"\nUser:", "\n\n"}, ""},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(a_text_ends_before_the_first_stop_string)
{
    for (int step = 1; step < 16; step++) {
        th_stop_stream stream = {.strings = cases[_i].stop};
        while (stream.count < 3 && cases[_i].stop[stream.count])
            stream.count++;
        char *text = written(cases[_i].text, strlen(cases[_i].text), step, &stream);
        ck_assert_msg(strcmp(text, cases[_i].expected) == 0, "\"%s\" in steps of %d", text, step);
        ck_assert_int_eq(stream.found, strcmp(cases[_i].text, cases[_i].expected) != 0 && stream.count > 0);
        free(text);
    }
}
END_TEST

/* All texts of four letters, and all pairs of stop strings of two and three letters, against a search in the text. */
START_TEST(every_short_text)
{
    char text[9], stop[2][4];
    for (int letters = 0; letters < 1 << 8; letters++)
        for (int strings = 0; strings < 1 << 5; strings++) {
            for (int i = 0; i < 8; i++)
                text[i] = (char)('a' + (letters >> i & 1));
            for (int i = 0; i < 5; i++)
                stop[i / 3][i % 3] = (char)('a' + (strings >> i & 1));
            text[8] = stop[0][3] = stop[1][2] = 0;
            size_t expected = 8;
            for (size_t end = 1; end <= 8 && expected == 8; end++) { /* the first end, and its longest string */
                if (end >= 3 && memcmp(text + end - 3, stop[0], 3) == 0)
                    expected = end - 3;
                else if (end >= 2 && memcmp(text + end - 2, stop[1], 2) == 0)
                    expected = end - 2;
            }
            th_stop_stream stream = {.strings = (const char *const[]){stop[0], stop[1]}, .count = 2};
            char *got = written(text, 8, 3, &stream);
            ck_assert_msg(strlen(got) == expected && memcmp(got, text, expected) == 0, "%s, %s and %s: %s", text,
                          stop[0], stop[1], got);
            free(got);
        }
}
END_TEST

/* A byte 0 in a text does not end it, and the longest stop string fits. */
START_TEST(unusual_texts)
{
    char longest[256], text[600];
    memset(longest, 'x', 255);
    longest[255] = 0;
    const char *const strings[] = {longest, "a"};
    th_stop_stream stream = {.strings = strings, .count = 1};
    memset(text, 'x', sizeof text);
    text[254] = 'y';
    char *got = written(text, sizeof text, 64, &stream);
    ck_assert_uint_eq(strlen(got), 255);
    free(got);

    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    const int32_t tokens[] = {'x', 0, 'x', 'x', 0, 'a', 'b'};
    char *result = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&result, &size);
    stream = (th_stop_stream){.strings = strings, .count = 2};
    ck_assert_int_eq(th_tokenizer_write_until(t, tokens, 7, &stream, file), TH_OK);
    fclose(file);
    ck_assert_uint_eq(size, 5);
    ck_assert_mem_eq(result, "x\0xx\0", 5);
    free(result);
    th_tokenizer_free(t);
}
END_TEST

static char too_long[300];

START_TEST(wrong_streams_are_errors)
{
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    FILE *full = fopen("/dev/full", "w");
    ck_assert(t && full);
    memset(too_long, 'x', 256);
    const char *const strings[] = {"a", "", too_long, NULL};
    const int32_t token = 'b';
    th_stop_stream stream = {.strings = strings, .count = 2};
    expect_status(th_tokenizer_write_until(t, &token, 1, &stream, full), TH_ERROR_ARGUMENT,
                  "stop string 1 has 0 bytes, outside 1 .. 255");
    stream = (th_stop_stream){.strings = strings + 2, .count = 1};
    expect_status(th_tokenizer_write_until_end(t, &stream, full), TH_ERROR_ARGUMENT, "stop string 0 has 256 bytes");
    stream.strings = strings + 3;
    expect_status(th_tokenizer_write_until(t, &token, 1, &stream, full), TH_ERROR_ARGUMENT, "0 bytes");
    stream = (th_stop_stream){.count = 1};
    expect_status(th_tokenizer_write_until(t, &token, 1, &stream, full), TH_ERROR_ARGUMENT, "with its strings");
    expect_status(th_tokenizer_write_until(t, &token, 1, NULL, full), TH_ERROR_ARGUMENT, "with its strings");
    stream = (th_stop_stream){.strings = strings, .count = 1};
    expect_status(th_tokenizer_write_until(t, &token, 1, &stream, NULL), TH_ERROR_ARGUMENT, "and a file");
    expect_status(th_tokenizer_write_until(t, &(int32_t){999}, 1, &stream, full), TH_ERROR_INDEX, "token 0 is 999");
    expect_status(th_tokenizer_write_until(NULL, &token, 1, &stream, full), TH_ERROR_ARGUMENT, "NULL");
    expect_status(th_tokenizer_write_until(t, &token, 1, &stream, full), TH_ERROR_FILE, "could not be written");
    fclose(full);
    th_tokenizer_free(t);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("stop strings", setup, close_context);
    tcase_add_loop_test(tests, a_text_ends_before_the_first_stop_string, 0, CASES);
    tcase_add_test(tests, every_short_text);
    tcase_add_test(tests, unusual_texts);
    tcase_add_test(tests, wrong_streams_are_errors);
    return run_suites();
}
