/* Tokenizers and hostile files. Time is proportional to the length of the input, and memory stays within the
 * context's limit. Times are compared with ordinary input of the same size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "models/text/merges.h"
#include "models/text/tokenizer.h"
#include "models/text/vocabulary.h"
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
    tokens = (th_token_list){0};
    remove_folder();
    close_context();
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Loads a file with these added tokens and this pattern; its model knows "a" and "b". */
static th_tokenizer *load_with(const char *added, const char *pattern)
{
    static const char format[] =
        "{\"version\": \"1.0\", \"added_tokens\": [%s], \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
        "[{\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}, \"behavior\": \"Isolated\", \"invert\": false}, "
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}]}, "
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}";
    const size_t size = sizeof format + strlen(added) + strlen(pattern);
    char *text = malloc(size);
    const int bytes = snprintf(text, size, format, added, pattern);
    write_bytes(in_folder("tokenizer.json"), text, (size_t)bytes);
    free(text);
    return th_tokenizer_load(ctx, folder);
}

/* Writes an added token as files have it. Returns the position after it. */
static char *write_added(char *at, int id, const char *content, bool rstrip)
{
    return at + sprintf(at,
                        "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, \"rstrip\": "
                        "%s, \"normalized\": false, \"special\": true}",
                        id > 2 ? ", " : "", id, content, rstrip ? "true" : "false");
}

/* -- tables -- */

/* Inverts `key *= factor; key ^= key >> 32` for an odd factor. */
static uint64_t undo(uint64_t value, uint64_t factor)
{
    uint64_t inverse = factor;
    for (int i = 0; i < 5; i++)
        inverse *= 2 - factor * inverse;
    value ^= value >> 32;
    return value * inverse;
}

enum { TOKENS = 60000 };

/* Returns the seconds that a vocabulary of these words of 8 bytes takes. */
static double time_of(const uint64_t *word)
{
    th_vocabulary v = {0};
    const double start = seconds();
    for (int i = 0; i < TOKENS; i++)
        ck_assert(th_vocabulary_add(&v, (const char *)&word[i], 8) && th_vocabulary_index(&v, i));
    const double time = seconds() - start;
    for (int i = 0; i < TOKENS; i++)
        ck_assert_int_eq(th_vocabulary_find(&v, (const char *)&word[i], 8), i);
    th_vocabulary_release(&v);
    return time;
}

/* Words that a hash with fixed constants would put into one slot: multiply, fold, multiply, fold, twice. */
START_TEST(chosen_tokens_do_not_collide)
{
    const uint64_t first = UINT64_C(0x9e3779b97f4a7c15), second = UINT64_C(0xd6e8feb86659fd93);
    uint64_t *chosen = malloc(TOKENS * sizeof *chosen), *ordinary = malloc(TOKENS * sizeof *ordinary);
    for (uint64_t i = 0; i < TOKENS; i++) {
        const uint64_t once = undo(undo(i << 32, second), first);
        chosen[i] = undo(undo(once, second), first) ^ 8;
        ordinary[i] = i;
    }
    const double usual = time_of(ordinary), time = time_of(chosen);
    ck_assert_msg(time < 20 * usual + 0.05, "%g s, where other tokens take %g s", time, usual);
    free(chosen);
    free(ordinary);
}
END_TEST

/* The memory of merges follows the number of different pairs, and the last merge of a pair counts. */
START_TEST(repeated_merges_take_no_memory)
{
    th_merges m = {0};
    for (int i = 0; i < 100000; i++) {
        ck_assert(th_merges_add(&m, (th_merge){0, 1, 2}));
        ck_assert(th_merges_add(&m, (th_merge){i % 7, 9, 10 + i % 7}));
    }
    ck_assert(th_merges_add(&m, (th_merge){0, 1, 3}));
    ck_assert_uint_lt(m.capacity, 100);
    ck_assert_uint_le(m.slots, 1024);
    th_word_memory memory = {.token = malloc(4 * sizeof(int32_t)), .capacity = 4};
    memcpy(memory.token, (int32_t[]){0, 1, 4, 9}, 4 * sizeof(int32_t));
    size_t left;
    ck_assert(th_merges_apply(&m, &memory, 4, &left));
    ck_assert_uint_eq(left, 2);
    ck_assert_int_eq(memory.token[0], 3);
    ck_assert_int_eq(memory.token[1], 14);
    th_word_memory_release(&memory);
    th_merges_release(&m);
}
END_TEST

/* Ranks stay in order when replaced merges are removed: every order of a few pairs against a plain list. */
START_TEST(replaced_merges_keep_their_order)
{
    uint32_t state = 1;
    for (int round = 0; round < 200; round++) {
        th_merges m = {0};
        int last[6];
        for (int i = 0; i < 300; i++) {
            const int pair = (int)((state = state * 1664525u + 1013904223u) >> 16) % 6;
            ck_assert(th_merges_add(&m, (th_merge){pair, pair + 1, 100 + pair}));
            last[pair] = i;
        }
        int before = -1;
        for (size_t rank = 0; rank < m.count; rank++) {
            if (!th_merges_is_valid(&m, rank))
                continue;
            ck_assert_int_gt(last[m.merge[rank].left], before);
            before = last[m.merge[rank].left];
        }
        ck_assert_int_eq(before, 299);
        th_merges_release(&m);
    }
}
END_TEST

/* -- added tokens -- */

enum { ADDED = 8192, PREFIX = 500 };

static double time_of_added(bool common_prefix)
{
    char *added = malloc((size_t)ADDED * 700), *at = added, content[PREFIX + 16];
    for (int i = 0; i < ADDED; i++) {
        memset(content, 'a', PREFIX);
        sprintf(content + (common_prefix ? PREFIX : 0), "%06d", i);
        memset(content + strlen(content), 'a', common_prefix ? 0 : PREFIX);
        content[PREFIX + 6] = 0;
        at = write_added(at, 2 + i, content, false);
    }
    const double start = seconds();
    th_tokenizer *t = load_with(added, "a|b");
    no_error();
    char *text = malloc(1 << 16);
    memset(text, 'a', 1 << 16);
    ck_assert_int_eq(th_tokenizer_encode(t, text, 1 << 16, &tokens), TH_OK);
    const double time = seconds() - start;
    free(text);
    free(added);
    th_tokenizer_free(t);
    return time;
}

START_TEST(added_tokens_may_share_a_prefix)
{
    const double usual = time_of_added(false), time = time_of_added(true);
    ck_assert_msg(time < 8 * usual, "%g s, where other tokens take %g s", time, usual);
}
END_TEST

static double time_of_spaces(bool rstrip, size_t bytes)
{
    char added[400];
    write_added(added, 2, " ", rstrip);
    th_tokenizer *t = load_with(added, "a|b");
    no_error();
    char *text = malloc(bytes);
    memset(text, ' ', bytes);
    const double start = seconds();
    tokens.count = 0;
    ck_assert_int_eq(th_tokenizer_encode(t, text, bytes, &tokens), TH_OK);
    const double time = seconds() - start;
    ck_assert_uint_eq(tokens.count, bytes);
    free(text);
    th_tokenizer_free(t);
    return time;
}

START_TEST(a_token_that_includes_spaces_takes_linear_time)
{
    const double usual = time_of_spaces(false, 40000), time = time_of_spaces(true, 40000);
    ck_assert_msg(time < 20 * usual + 0.02, "%g s, where other tokens take %g s", time, usual);
}
END_TEST

START_TEST(added_tokens_have_a_limit)
{
    char content[600], added[1000];
    for (int bytes = 512; bytes <= 513; bytes++) {
        memset(content, 'x', sizeof content);
        content[bytes] = 0;
        write_added(added, 2, content, false);
        th_tokenizer *t = load_with(added, "a|b");
        if (bytes == 512)
            ck_assert_int_eq(th_tokenizer_find(t, content), 2);
        else
            assert_error(t, TH_ERROR_FILE, "has 513 bytes, which is more than the 512");
        th_tokenizer_free(t);
        t = th_tokenizer_bytes_new(ctx);
        ck_assert_int_eq(th_tokenizer_add(t, content), bytes == 512 ? 256 : -1);
        if (bytes > 512)
            expect_error(TH_ERROR_ARGUMENT, "this one has 513 bytes");
    }
}
END_TEST

/* -- patterns -- */

/* An engine that backtracks takes exponential or cubic time, or reads the whole text for each match.
 * test_pattern_table.c counts the work of more expressions. */
START_TEST(hostile_patterns_take_linear_time)
{
    static const char *const slow[] = {"(?:(?:(?:a?){9}){9}){9}b|a", "(?:(?:(?:(?:a?){6}){6}){6}){6}b|a",
                                       "(?:(?<!x)a+a+a+b|a)", "(?:a*+b|a)", "(?:[^x]*x|a)"};
    enum { BYTES = 2000 };
    static char text[BYTES];
    memset(text, 'a', BYTES);
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        th_tokenizer *t = load_with("", slow[i]);
        no_error();
        tokens.count = 0;
        ck_assert_int_eq(th_tokenizer_encode(t, text, BYTES, &tokens), TH_OK);
        ck_assert_uint_eq(tokens.count, BYTES);
        ck_assert_uint_lt(th_pattern_work(t->split.stage[0].pattern), BYTES * 30000);
        th_tokenizer_free(t);
    }
}
END_TEST

/* A pattern that would take too many steps for each character is refused when the file is loaded. */
START_TEST(a_large_pattern_is_refused_by_name)
{
    assert_error(load_with("", "b|(?:(?:(?:(?:a?){9}){9}){9}){9}"), TH_ERROR_FILE,
                 "at '(?:(?:(?:(?:a?){9}){9}){9}){9}' it becomes longer than 5000 steps");
    assert_error(load_with("", "(?:a{1000}){1000}"), TH_ERROR_FILE, "at '(?:a{1000}){1000}' it becomes longer");
}
END_TEST

/* -- memory -- */

/* Reading a file stays within memory_limit, whatever its values are. */
START_TEST(reading_stays_within_the_limit)
{
    static const char *const values[] = {"{}", "[]", "\"\"", "0", "{\"a\":{}}", "[[],[]]"};
    const size_t bytes = 1 << 20;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char *text = malloc(bytes + 64), *at = text;
        at += sprintf(at, "{\"version\":[%s", values[i]);
        while (at < text + bytes)
            at += sprintf(at, ",%s", values[i]);
        at += sprintf(at, "]}");
        write_bytes(in_folder("tokenizer.json"), text, (size_t)(at - text));
        free(text);
        th_context *limited = th_context_new(&(th_context_options){.memory_limit = 20 << 20, .threads = 1});
        ck_assert_ptr_null(th_tokenizer_load(limited, folder));
        ck_assert_msg(th_error_code(limited) == TH_ERROR_MEMORY, "%s: %s", values[i], th_error_message(limited));
        ck_assert_uint_le(th_memory(limited).reserved_peak, 20 << 20);
        th_context_free(limited);
        ck_assert_ptr_null(th_tokenizer_load(ctx, folder)); /* without a limit the file is only invalid */
        expect_error(TH_ERROR_FILE, "it has no model");
    }
}
END_TEST

/* Without a limit too, a file takes at most the memory that th_tokenizer_load states. */
START_TEST(values_have_a_separate_limit)
{
    const size_t bytes = 8 << 20;
    char *text = malloc(bytes);
    for (size_t i = 1; i + 3 < bytes; i += 3)
        memcpy(text + i, "{},", 3);
    text[0] = '[';
    memset(text + bytes - 8, ' ', 8);
    text[bytes - 1] = ']';
    write_bytes(in_folder("tokenizer.json"), text, bytes);
    free(text);
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "its values take more memory");
}
END_TEST

/* The context counts a tokenizer's memory until it is freed. */
START_TEST(a_tokenizer_counts_in_the_memory)
{
    const th_memory_usage before = th_memory(ctx);
    th_tokenizer *t = th_tokenizer_load(ctx, FIXTURES "/bpe/gpt2.json");
    no_error();
    ck_assert_uint_gt(th_memory(ctx).live, before.live + (2 << 20));
    const size_t live = th_memory(ctx).live;
    ck_assert_int_ge(th_tokenizer_add(t, "<|another|>"), 0);
    ck_assert_uint_ge(th_memory(ctx).live, live);
    th_tokenizer_free(t);
    ck_assert_uint_eq(th_memory(ctx).live, before.live);
    th_context *limited = th_context_new(&(th_context_options){.memory_limit = 1 << 20, .threads = 1});
    ck_assert_ptr_null(th_tokenizer_bytes_new(limited));
    ck_assert_int_eq(th_error_code(limited), TH_ERROR_MEMORY);
    th_context_free(limited);
}
END_TEST

/* The parts that a tokenizer keeps for writing are small. */
START_TEST(parts_kept_for_writing_are_small)
{
    const size_t bytes = 100000;
    char *text = malloc(bytes + 200);
    char *at = text + sprintf(text, "{\"model\": {}, \"decoder\": {\"type\": \"Fuse\", \"x\": \"");
    memset(at, 'x', bytes);
    strcpy(at + bytes, "\"}}");
    write_bytes(in_folder("tokenizer.json"), text, strlen(text));
    free(text);
    assert_error(th_tokenizer_load(ctx, folder), TH_ERROR_FILE, "its \"decoder\" has 1000");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tokenizer limits", setup, teardown);
    tcase_add_test(tests, chosen_tokens_do_not_collide);
    tcase_add_test(tests, repeated_merges_take_no_memory);
    tcase_add_test(tests, replaced_merges_keep_their_order);
    tcase_add_test(tests, added_tokens_may_share_a_prefix);
    tcase_add_test(tests, a_token_that_includes_spaces_takes_linear_time);
    tcase_add_test(tests, added_tokens_have_a_limit);
    tcase_add_test(tests, hostile_patterns_take_linear_time);
    tcase_add_test(tests, a_large_pattern_is_refused_by_name);
    tcase_add_test(tests, reading_stays_within_the_limit);
    tcase_add_test(tests, values_have_a_separate_limit);
    tcase_add_test(tests, a_tokenizer_counts_in_the_memory);
    tcase_add_test(tests, parts_kept_for_writing_are_small);
    return run_suites();
}
