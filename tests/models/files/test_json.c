/* Strict reading of JSON: the texts that are accepted and rejected, the messages, and the memory. */
#include <malloc.h>

#include "models/files/json.h"
#include "models/files/json_build.h"

#include "memory.h"

#include "context.h"

static test_memory memory;
static const th_json_limits usual = {.bytes = 1 << 24, .depth = 4};

static void open_context(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.allocator = allocator_of(&memory)});
}

static th_json_source source(void)
{
    return (th_json_source){ctx, "reading", "the text"};
}

static json_t *read_text(const char *text, const th_json_limits *limits)
{
    const th_json_source from = source();
    return th_json_read(&from, text, strlen(text), limits);
}

static void expect_refusal(const char *text, const char *words)
{
    json_t *value = read_text(text, &usual);
    ck_assert_msg(value == NULL, "%.200s was read, instead of \"%s\"", text, words);
    ck_assert_msg(strstr(th_error_message(ctx), "reading: the text: "), "%s", th_error_message(ctx));
    expect_failure(true, TH_ERROR_FILE, words);
}

START_TEST(what_is_sound_is_read)
{
    static const char *const texts[] = {
        "{}",
        " [ ] ",
        "0",
        "-1",
        "\"\"",
        "null",
        "true",
        "{\"a\":{\"b\":[{\"c\":1.5e-3}]}}",
        "[1,2,[3]]\n",
        "{\"a\":1,\"b\":{\"a\":1},\"A\":2}",
        "\"\\ud83d\\ude00\\n\\u00e9\xc3\xa9\"",
        "-0.0",
        "9223372036854775807",
        "{\"\\u0061\":1,\"\\\\u0061\":2,\"b\\\\\":3,\"b\\\"\":4}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *value = read_text(texts[i], &usual);
        ck_assert_msg(value != NULL, "%s: %s", texts[i], th_error_message(ctx));
        json_t *of_jansson = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        ck_assert_msg(json_equal(value, of_jansson), "%s: jansson reads another value", texts[i]);
        json_decref(of_jansson);
        json_decref(value);
    }
}
END_TEST

START_TEST(what_is_not_json_is_refused)
{
    static const char *const cases[][2] = {
        {"", "byte 0: the text ends"},
        {"{", "byte 1: the text ends"},
        {"{\"a\"", "the text ends"},
        {"{\"a\":", "the text ends"},
        {"{\"a\":1", "the text ends"},
        {"\"abc", "the text ends"},
        {"[1,]", "byte 3: this is not a value of JSON"},
        {"{,}", "byte 1: a key is missing"},
        {"{\"a\":1,}", "byte 7: a key is missing"},
        {"{\"a\" 1}", "byte 5: a colon is missing"},
        {"[1 2]", "byte 3: a comma or ] is missing"},
        {"[1}", "byte 2: a comma or ] is missing"},
        {"{\"a\":1]", "byte 6: a comma or } is missing"},
        {"{} {}", "byte 3: there is more text after the value: {}; only white space may follow it"},
        {"a,b\n1,2", "byte 1: there is more text after the value: ,b\\n1,2; only"},
        {"nul", "byte 0: this is not a value of JSON"},
        {"NaN", "this is not a value of JSON"},
        {"'a'", "this is not a value of JSON"},
        {"01", "this is not a value of JSON"},
        {"-", "this is not a value of JSON"},
        {"1.", "this is not a value of JSON"},
        {".5", "this is not a value of JSON"},
        {"1e", "this is not a value of JSON"},
        {"+1", "this is not a value of JSON"},
        {"[-0]", "byte 1: the integer -0 is not supported"},
        {"\"\\x\"", "this escape does not exist"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\ud800\"", "one half of a character"},
        {"\"\\ud800\\u0041\"", "one half of a character"},
        {"\"\\udc00\"", "one half of a character"},
        {"\"a\\u0000b\"", "\\u0000 is not allowed"},
        {"\"a\tb\"", "a control character that is not escaped"},
        {"\"\xff\"", "a string is not UTF-8"},
        {"\"\xc0\x80\"", "a string is not UTF-8"},
        {"\"\xed\xa0\x80\"", "a string is not UTF-8"},
        {"\"\xe2\x82\"", "a string is not UTF-8"},
        {"\xef\xbb\xbf", "this is not a value of JSON"},
        {"\xef\xbb\xbf{}", "there is more text after the value"},
        {"[[[[[]]]]]", "byte 4: objects and arrays are nested too deeply"},
        {"{\"a\\u0000\":1}", "the escape \\u0000 is not allowed"},
        {"18446744073709551616", "an integer is too large"},
        {"1e999", "a real number is too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i][0], cases[i][1]);
}
END_TEST

/* -- the same values as jansson -- */

/* Parses a copy without a NUL, so the sanitizers detect reads behind it. */
static void expect_the_value_of_jansson(const char *text, size_t bytes)
{
    char *copy = memcpy(malloc(bytes ? bytes : 1), text, bytes);
    th_json_error error = {0};
    json_t *value = th_json_parse(copy, bytes, &error);
    json_t *wanted = json_loadb(text, bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(value || error.reason[0], "%.*s", (int)bytes, text);
    ck_assert_msg((value == NULL) == (wanted == NULL), "%.*s is%s read", (int)bytes, text, value ? "" : " not");
    ck_assert_msg(value == NULL || json_equal(value, wanted), "%.*s has another value", (int)bytes, text);
    json_decref(value);
    json_decref(wanted);
    free(copy);
}

/* Sound texts, each of their beginnings, and each of them with one byte changed, removed or repeated. */
START_TEST(what_is_read_is_what_jansson_reads)
{
    static const char *const texts[] = {
        "{ \"a\" : [ 1 , -2.5e+3 , 0.25E-2 , 1e2 , 0 , -7 ] , \"b\":{\"a\":{},\"c\":[]} }",
        "[true,false,null,\"\",{\"\":\"x\"}]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\uAbCd\\ud83d\\uDE00\\uffff\"",
        "[\"\\ud800\\udc00\\udbff\\udfff\\ud7ff\\ue000\", 9223372036854775807, -9223372036854775808]",
        "[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\", 1.7976931348623157e308, 5e-324, 2.5]",
    };
    static const char other[] = "\"\\{}[]:,0195-+.eEtfnrulasx /\n\x1f\x80\xc3\xf0\xff"
                                "dDcC8gG@`:";
    char changed[200];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t bytes = strlen(texts[i]);
        for (size_t at = 0; at < bytes; at++) {
            expect_the_value_of_jansson(texts[i], at);
            memcpy(changed, texts[i], bytes);
            for (size_t k = 0; k < sizeof other - 1; k++) {
                changed[at] = other[k];
                expect_the_value_of_jansson(changed, bytes);
            }
            memcpy(changed, texts[i], at);
            memcpy(changed + at, texts[i] + at + 1, bytes - at - 1);
            expect_the_value_of_jansson(changed, bytes - 1);
            memcpy(changed + at, texts[i] + at, bytes - at);
            memmove(changed + at + 1, changed + at, bytes - at);
            expect_the_value_of_jansson(changed, bytes + 1);
        }
        expect_the_value_of_jansson(texts[i], bytes);
    }
    for (int shift = 0; shift < 2; shift++) /* each escape of one character, and each pair of halves near the limits */
        for (int c = 1; c < 256; c++) {
            const int n = snprintf(changed, sizeof changed, shift ? "\"\\u%02x00\\udc00\"" : "\"\\%c\"", c);
            expect_the_value_of_jansson(changed, (size_t)n);
        }
}
END_TEST

/* jansson skips a NUL in some places, so the text must be rejected with our own words. */
START_TEST(a_nul_is_not_json)
{
    static const struct {
        const char text[8];
        size_t bytes;
    } cases[] = {{"[1\0]", 4}, {"1\0", 2}, {"\0[]", 3}, {"[]\0", 3}, {"\"\0\"", 3}, {"{\"\0\":1}", 7}, {"\0", 1}};
    const th_json_source from = source();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_json_error error;
        ck_assert(th_json_parse(cases[i].text, cases[i].bytes, &error) == NULL && error.reason[0]);
        char words[96];
        snprintf(words, sizeof words, "reading: the text: byte %zu: a NUL is not allowed", strlen(cases[i].text));
        expect_failure(th_json_read(&from, cases[i].text, cases[i].bytes, &usual) == NULL, TH_ERROR_FILE, words);
    }
}
END_TEST

START_TEST(a_number_has_a_longest_form)
{
    char text[80] = "0.";
    th_json_error error;
    memset(text + 2, '3', 70);
    json_t *value = th_json_parse(text, TH_JSON_MAX_NUMBER, &error);
    ck_assert(json_is_real(value) && json_real_value(value) == 1.0 / 3);
    json_decref(value);
    ck_assert(th_json_parse(text, TH_JSON_MAX_NUMBER + 1, &error) == NULL && error.reason[0]);
    expect_refusal("[123456789012345678901]", "an integer is too large");
    expect_refusal("[-9223372036854775809]", "an integer is too large");
}
END_TEST

START_TEST(a_repeated_key_is_refused_however_it_is_written)
{
    expect_refusal("{\"a\":1,\"b\":2,\"a\":3}", "the key \"a\" occurs twice");
    expect_refusal("{\"a\":1,\"\\u0061\":3}", "occurs twice");
    expect_refusal("{\"x\":{\"\xc3\xa9\":1,\"\\u00e9\":3}}", "occurs twice");
    expect_refusal("{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":3}", "occurs twice");
    expect_refusal("{\"a\\\\\":1,\"a\\\\\":1}", "occurs twice");
    expect_refusal("{\"\":1,\"\":1}", "occurs twice");
}
END_TEST

START_TEST(a_long_number_is_refused)
{
    char *text = calloc(1, 100001);
    memset(text, '7', 100000);
    expect_refusal(text, "byte 0: a number has more than 64 characters");
    text[1] = '.';
    expect_refusal(text, "a number has more than 64 characters");
    memset(text, ' ', 10);
    text[10] = '1';
    text[11] = 'e';
    expect_refusal(text, "byte 10: a number has more than 64 characters");
    free(text);
}
END_TEST

START_TEST(limits_hold_before_anything_is_built)
{
    expect_failure(read_text("[1,2,3]", &(th_json_limits){.bytes = 6, .depth = 4}) == NULL, TH_ERROR_FILE,
                   "7 bytes are more than the 6 allowed");
    expect_failure(read_text("[1,2,3]", &(th_json_limits){.bytes = 100, .depth = 4, .memory = 300}) == NULL,
                   TH_ERROR_FILE, "its values take more memory");
    const size_t bytes = 1 << 24;
    char *deep = malloc(bytes);
    memset(deep, '[', bytes);
    const th_json_source from = source();
    size_t estimate;
    ck_assert_int_eq(th_json_measure(&from, deep, bytes, &usual, &estimate), TH_ERROR_FILE);
    expect_error(TH_ERROR_FILE, "byte 4: objects and arrays are nested too deeply");
    free(deep);
}
END_TEST

/* The estimate of a text's memory is at least the memory that jansson gets from the C library. (The sanitizers and
 * valgrind replace its malloc; it then reports 0 bytes.) */
START_TEST(the_estimate_covers_the_memory)
{
    static const char *const values[] = {"{}",  "[]",   "[1]",       "\"\"",         "\"abc\"",  "7",
                                         "1.5", "true", "{\"a\":1}", "[[],{},[{}]]", "{\"\":[]}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const int count = 20000;
        char *text = malloc((size_t)count * 16 + 3), *at = text;
        for (int k = 0; k < count; k++)
            at += sprintf(at, "%c%s", k ? ',' : '[', values[i]);
        strcpy(at, "]");
        const th_json_source from = source();
        size_t estimate;
        ck_assert_int_eq(th_json_measure(&from, text, strlen(text), &usual, &estimate), TH_OK);
        const size_t before = bytes_of_malloc();
        json_t *value = th_json_build(&from, text, strlen(text));
        const size_t taken = bytes_of_malloc() - before;
        ck_assert_ptr_nonnull(value);
        ck_assert_msg(estimate >= taken, "%s: %zu bytes, %zu estimated", values[i], taken, estimate);
        ck_assert_msg(taken == 0 || estimate <= 4 * taken + 1000000, "%s: %zu bytes, %zu estimated", values[i], taken,
                      estimate);
        json_decref(value);
        free(text);
    }
}
END_TEST

static size_t jansson_now, jansson_max;

static void *count_allocated(size_t bytes)
{
    void *memory_of = malloc(bytes);
    jansson_now += malloc_usable_size(memory_of);
    jansson_max = jansson_now > jansson_max ? jansson_now : jansson_max;
    return memory_of;
}

static void count_freed(void *memory_of)
{
    jansson_now -= malloc_usable_size(memory_of);
    free(memory_of);
}

/* While jansson reads a string, it holds several copies of it. */
START_TEST(a_long_string_is_estimated_while_it_is_read)
{
    static const char *const formats[] = {"[\"%s\"]", "{\"%s\":1}"};
    static const char *const characters[] = {"a", "\\u00e9", "\xc3\xa9"};
    char *text = malloc(1 << 20), *string = malloc(1 << 20);
    json_set_alloc_funcs(count_allocated, count_freed);
    for (int i = 0; i < 6; i++)
        for (int count = 1; count < 100000; count = 3 * count + 1) {
            string[0] = 0;
            char *at = string;
            for (int k = 0; k < count; k++)
                at = stpcpy(at, characters[i / 2]);
            snprintf(text, 1 << 20, formats[i % 2], string);
            const th_json_source from = source();
            size_t estimate;
            ck_assert_int_eq(th_json_measure(&from, text, strlen(text), &usual, &estimate), TH_OK);
            jansson_now = jansson_max = 0;
            json_t *value = th_json_build(&from, text, strlen(text));
            ck_assert_ptr_nonnull(value);
            ck_assert_msg(estimate >= jansson_max, "%zu bytes of text: %zu bytes, %zu estimated", strlen(text),
                          jansson_max, estimate);
            json_decref(value);
        }
    json_set_alloc_funcs(malloc, free);
    free(text);
    free(string);
}
END_TEST

static int64_t allocations_until_failure;

static void *fail_once(size_t bytes)
{
    return --allocations_until_failure == 0 ? NULL : malloc(bytes);
}

/* Reads a text while allocation n of jansson fails. Returns false if jansson made fewer allocations. */
static bool read_without_memory(const char *text, int64_t n)
{
    json_t *expected = read_text(text, &usual);
    ck_assert_ptr_nonnull(expected);
    json_set_alloc_funcs(fail_once, free);
    allocations_until_failure = n;
    json_t *value = read_text(text, &usual);
    const bool reached = allocations_until_failure <= 0;
    json_set_alloc_funcs(malloc, free);
    ck_assert_msg(value == NULL || json_equal(value, expected), "other values after allocation %lld failed",
                  (long long)n);
    if (value == NULL)
        expect_failure(true, TH_ERROR_MEMORY, "out of memory");
    json_decref(value);
    json_decref(expected);
    return reached;
}

/* Strings of all lengths at which a buffer that doubles may have to grow. */
START_TEST(a_failed_allocation_changes_no_value)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-";
    for (int length = 1; length < 65; length++) {
        char text[256];
        snprintf(text, sizeof text, "{\"%.*s\":[\"%.*s\",1.5,-12345678901234567,{\"a\":{}}]}", length, digits, length,
                 digits);
        int64_t n = 1;
        while (read_without_memory(text, n))
            n++;
        ck_assert_int_gt(n, 5);
    }
}
END_TEST

START_TEST(measuring_takes_no_memory)
{
    char *text = malloc(1 << 24), *at = text;
    *at++ = '{';
    for (int i = 0; i < 1000000; i++)
        at += sprintf(at, "\"%06x\":0,", i);
    memcpy(at - 1, "}", 2);
    const th_json_source from = source();
    size_t estimate;
    run_out(&memory);
    ck_assert_int_eq(th_json_measure(&from, text, strlen(text), &usual, &estimate), TH_OK);
    free(text);
}
END_TEST

/* Measured texts whose grammar is wrong: iteration stops with an error inside the text. */
START_TEST(an_iterator_rejects_invalid_objects)
{
    static const char *const cases[][2] = {
        {"{,}", "byte 1: a key is missing"},
        {"{1:2}", "byte 1: a key is missing"},
        {"{\"a\":1,}", "byte 7: a key is missing"},
        {"{\"a\" 1}", "byte 5: a colon is missing after a key"},
        {"{\"a\"}", "byte 4: a colon is missing after a key"},
        {"{\"a\":}", "byte 5: a value is missing"},
        {"{\"a\":,}", "byte 5: a value is missing"},
        {"{\"a\"::}", "byte 5: a value is missing"},
        {"{\"a\":1 2}", "byte 7: a comma or a closing bracket is missing"},
        {"{\"a\":1\"b\":2}", "byte 6: a comma or a closing bracket is missing"},
        {"{\"a\":1]", "byte 6: a comma or a closing bracket is missing"},
        {"{\"a\":[}]", "byte 7: a comma or a closing bracket is missing"},
        {"{]", "byte 1: a key is missing"},
    };
    const th_json_source from = source();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t bytes = strlen(cases[i][0]);
        char *text = memcpy(malloc(bytes), cases[i][0], bytes); /* (sanitizers detect a read behind it) */
        size_t estimate;
        ck_assert_int_eq(th_json_measure(&from, text, bytes, &usual, &estimate), TH_OK);
        th_json_iterator w = th_json_iterate(&from, text, bytes);
        while (th_json_next(&w))
            ;
        ck_assert_msg(w.failed, "%s", cases[i][0]);
        expect_failure(true, TH_ERROR_FILE, cases[i][1]);
        free(text);
    }
}
END_TEST

START_TEST(members_are_iterated)
{
    const char *text = "{ \"a\" : [1, {\"x\\\"}\": \"]\"}] ,\"b\":\"}\\\\\",\"c\":-1.5, \"d\":{} }";
    static const char *const members[][2] = {
        {"\"a\"", "[1, {\"x\\\"}\": \"]\"}]"}, {"\"b\"", "\"}\\\\\""}, {"\"c\"", "-1.5"}, {"\"d\"", "{}"}};
    const th_json_source from = source();
    size_t estimate;
    ck_assert_int_eq(th_json_measure(&from, text, strlen(text), &usual, &estimate), TH_OK);
    th_json_iterator w = th_json_iterate(&from, text, strlen(text));
    for (int i = 0; i < 4; i++) {
        ck_assert(th_json_next(&w));
        ck_assert_msg(w.key_bytes == strlen(members[i][0]) && memcmp(w.key, members[i][0], w.key_bytes) == 0, "%d", i);
        ck_assert_msg(strncmp(w.value, members[i][1], strlen(members[i][1])) == 0, "%.*s", (int)w.value_bytes, w.value);
        json_t *value = th_json_build(&from, w.value, w.value_bytes);
        ck_assert_msg(value != NULL, "%s", th_error_message(ctx));
        json_decref(value);
    }
    ck_assert(!th_json_next(&w) && !w.failed);
    w = th_json_iterate(&from, "{ }", 3);
    ck_assert(!th_json_next(&w));
}
END_TEST

/* A value ends with its last character, before any spaces. */
START_TEST(a_value_has_no_spaces_around_it)
{
    static const char *const values[] = {
        "\"v\"", "\"\"",  "\" v \"", "\"\\\" }\"", "1",  "-2.5e-3",           "0",
        "true",  "false", "null",    "{}",         "[]", "{ \"}\" : \"]\" }", "[ 1 , [ ] ]"};
    static const char *const spaces[] = {"", " ", "\n", "\t", "\r", "\r\n\t  "};
    const th_json_source from = source();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t j = 0; j < sizeof spaces / sizeof *spaces; j++) {
            char text[200];
            const char *s = spaces[j], *v = values[i];
            snprintf(text, sizeof text, "{%s\"a\"%s:%s%s%s,%s\"b\"%s:%s%s%s}%s", s, s, s, v, s, s, s, s, v, s, s);
            size_t estimate;
            ck_assert_int_eq(th_json_measure(&from, text, strlen(text), &usual, &estimate), TH_OK);
            th_json_iterator w = th_json_iterate(&from, text, strlen(text));
            for (int member = 0; member < 2; member++) {
                ck_assert(th_json_next(&w));
                ck_assert_uint_eq(w.key_bytes, 3);
                ck_assert_msg(w.value_bytes == strlen(v) && memcmp(w.value, v, w.value_bytes) == 0, "'%.*s' in %s",
                              (int)w.value_bytes, w.value, text);
            }
            ck_assert(!th_json_next(&w));
        }
}
END_TEST

START_TEST(values_are_what_they_should_be)
{
    json_t *object = read_text("{\"n\":3,\"r\":3.0,\"e\":1e3,\"s\":\"x\",\"t\":true}", &usual);
    const th_json_source from = source();
    int64_t n = 0;
    double r = 0;
    bool t = false;
    const char *s = NULL;
    ck_assert(th_json_integer(&from, object, "n", 0, 3, &n) && n == 3);
    ck_assert(th_json_number(&from, object, "r", &r) && r == 3);
    ck_assert(th_json_number(&from, object, "n", &r) && r == 3);
    ck_assert(th_json_boolean(&from, object, "t", &t) && t);
    ck_assert(th_json_string(&from, object, "s", &s) && strcmp(s, "x") == 0);
    expect_failure(!th_json_integer(&from, object, "r", 0, 3, &n), TH_ERROR_FILE, "\"r\" has another type");
    expect_failure(!th_json_integer(&from, object, "e", 0, 9999, &n), TH_ERROR_FILE, "it should be an integer");
    expect_failure(!th_json_integer(&from, object, "n", 0, 2, &n), TH_ERROR_FILE, "\"n\" is 3, outside 0 to 2");
    expect_failure(!th_json_integer(&from, object, "m", 0, 2, &n), TH_ERROR_FILE, "\"m\" is missing");
    expect_failure(!th_json_number(&from, object, "s", &r), TH_ERROR_FILE, "it should be a number");
    expect_failure(!th_json_boolean(&from, object, "n", &t), TH_ERROR_FILE, "it should be true or false");
    expect_failure(!th_json_string(&from, object, "t", &s), TH_ERROR_FILE, "it should be a string");
    json_decref(object);
}
END_TEST

START_TEST(quotes_are_short_and_plain)
{
    char quoted[TH_QUOTED], longest[200];
    memset(longest, 'x', sizeof longest);
    longest[199] = 0;
    ck_assert_str_eq(th_quote("a\n\x7f\xff\xc3\xa9", quoted), "a\\n\\u007f\\xff\xc3\xa9");
    ck_assert_uint_eq(strlen(th_quote(longest, quoted)), 63);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("json", open_context, close_context);
    tcase_add_test(tests, what_is_sound_is_read);
    tcase_add_test(tests, what_is_not_json_is_refused);
    tcase_add_test(tests, what_is_read_is_what_jansson_reads);
    tcase_add_test(tests, a_nul_is_not_json);
    tcase_add_test(tests, a_number_has_a_longest_form);
    tcase_add_test(tests, a_repeated_key_is_refused_however_it_is_written);
    tcase_add_test(tests, a_long_number_is_refused);
    tcase_add_test(tests, the_estimate_covers_the_memory);
    tcase_add_test(tests, limits_hold_before_anything_is_built);
    tcase_add_test(tests, a_failed_allocation_changes_no_value);
    tcase_add_test(tests, measuring_takes_no_memory);
    tcase_add_test(tests, an_iterator_rejects_invalid_objects);
    tcase_add_test(tests, a_long_string_is_estimated_while_it_is_read);
    tcase_add_test(tests, members_are_iterated);
    tcase_add_test(tests, a_value_has_no_spaces_around_it);
    tcase_add_test(tests, values_are_what_they_should_be);
    tcase_add_test(tests, quotes_are_short_and_plain);
    return run_suites();
}
