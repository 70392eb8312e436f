/* Unigram: the choice of tokens, unknown characters, maps of characters, scores in files, damaged files. The reference
 * library made the expected tokens. */
#include <math.h>

#include "models/text/character_map.h"
#include "models/text/characters.h"
#include "models/text/unigram.h"

#include "tokenizer_file.h"

#define SPACES                                                                                                         \
    "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"always\"}"
#define UNIGRAM(members, vocabulary) "\"model\": {\"type\": \"Unigram\", " members ", \"vocab\": [" vocabulary "]}"
#define LETTERS                                                                                                        \
    "[\"<unk>\", 0], [\"a\", -2], [\"b\", -2], [\"ab\", -3.5], [\"\xe2\x96\x81\", -1], [\"ba\", -3.5], [\"aba\", "     \
    "-5.5]"

START_TEST(test_choice)
{
    th_tokenizer *t = load_members("", UNIGRAM("\"unk_id\": 0", LETTERS));
    expect_tokens(t, "ab", "3");
    expect_tokens(t, "abab", "33");
    expect_tokens(t, "aba", "6"); /* of three ways with the sum -5.5, the one with the longest last token */
    expect_tokens(t, "", "");
    t = load_members(SPACES, UNIGRAM("\"unk_id\": 0", LETTERS));
    expect_tokens(t, "a  b", "41442");
    t = load_members("", "\"model\": {\"unk_id\": 0, \"vocab\": [" LETTERS "]}"); /* older files have no type */
    expect_tokens(t, "abab", "33");
}
END_TEST

START_TEST(test_unknown)
{
    th_tokenizer *t = load_members("", UNIGRAM("\"unk_id\": 0", LETTERS));
    expect_tokens(t, "xya\xc3\xa9\xe4\xb8\xad", "010"); /* neighbors are one unknown token */
    expect_tokens(t, "<unk>", "0");
    expect_tokens(t, "x<unk>y", "0");
    tokens.count = 0;
    ck_assert_int_eq(th_tokenizer_encode(t, "a\xff", 2, &tokens), TH_OK); /* a byte that is not UTF-8 */
    ck_assert_uint_eq(tokens.count, 2);
    ck_assert_int_eq(tokens.token[1], 0);
    t = load_members("", UNIGRAM("\"byte_fallback\": true, \"unk_id\": 0",
                                 "[\"u\", 0], [\"<0xC3>\", 0], [\"<0xA9>\", 0], [\"a\", -1], [\"<0xA8>\", 0]"));
    expect_tokens(t, "a\xc3\xa9\xc3\xa8", "31214");
    expect_tokens(t, "\xc3\xa9\xc3\xaa", "0"); /* not all of the bytes are tokens */
    t = load_members("", UNIGRAM("\"unk_id\": null", "[\"a\", -1], [\"xy\", -1]"));
    expect_tokens(t, "a", "0");
    expect_status(th_tokenizer_encode(t, "axy", 3, &tokens), TH_ERROR_VALUE, "'x' (bytes 78) at byte 1");
}
END_TEST

START_TEST(test_added_tokens)
{
    th_tokenizer *t = load_members("\"added_tokens\": [{\"id\": 3, \"content\": \"ab\", \"single_word\": false, "
                                   "\"lstrip\": false, \"rstrip\": false, "
                                   "\"normalized\": true, \"special\": false}, {\"id\": 7, \"content\": \"new\", "
                                   "\"single_word\": false, \"lstrip\": "
                                   "false, \"rstrip\": false, \"normalized\": false, \"special\": true}]",
                                   UNIGRAM("\"unk_id\": 0", LETTERS));
    expect_tokens(t, "aabanewb", "13172");
}
END_TEST

/* -- maps of characters -- */

/* a -> "x"; a U+0301 -> "y"; U+0301 -> "". The double array has 772 bytes. */
static unsigned char compiled[1024];

static void put_unit(size_t at, uint32_t unit)
{
    for (int i = 0; i < 4; i++)
        compiled[4 + 4 * at + (size_t)i] = (unsigned char)(unit >> 8 * i);
}

/* Puts a node for a byte at `at`, whose children and replacement have the given base; value: -1, or the replacement. */
static void put_node(size_t at, unsigned byte, size_t base, int value)
{
    put_unit(at, byte | (uint32_t)(at ^ base) << 10 | (value >= 0 ? 0x100u : 0));
    if (value >= 0)
        put_unit(base, 0x80000000u | (uint32_t)value);
}

static size_t make_map(void)
{
    static const char replacements[] = "x\0y\0"; /* and "" at byte 4 */
    memset(compiled, 0, sizeof compiled);
    compiled[0] = 0, compiled[1] = 4; /* 1024 bytes: corrected below */
    put_node(0, 0, 1, -1);
    put_node(1 ^ 'a', 'a', 2, 0);
    put_node(1 ^ 0xcc, 0xcc, 3, -1);
    put_node(3 ^ 0x81, 0x81, 4, 4);
    put_node(2 ^ 0xcc, 0xcc, 5, -1);
    put_node(5 ^ 0x81, 0x81, 6, 2);
    const uint32_t bytes = 4 * 240;
    for (int i = 0; i < 4; i++)
        compiled[i] = (unsigned char)(bytes >> 8 * i);
    memcpy(compiled + 4 + bytes, replacements, sizeof replacements);
    return 4 + bytes + sizeof replacements;
}

static void expect_mapped(const th_character_map *m, const char *text, const char *wanted)
{
    th_text out = {0};
    size_t first;
    const th_piece piece = {.text = text, .bytes = strlen(text), .first = 1};
    ck_assert_int_eq(th_character_map_apply(m, ctx, "test", 1000, piece, &out, &first), TH_OK);
    ck_assert(th_text_append(&out, "", 1));
    ck_assert_str_eq(out.bytes, wanted);
    th_text_free(&out);
}

START_TEST(test_map)
{
    const char *reason;
    th_character_map *m = th_character_map_new(compiled, make_map(), &reason);
    ck_assert_ptr_nonnull(m);
    expect_mapped(m, "bab", "bxb");
    expect_mapped(m, "a\xcc\x81", "x");           /* a cluster becomes what its shortest beginning becomes */
    expect_mapped(m, "b\xcc\x81", "b");           /* each character of another cluster alone */
    expect_mapped(m, "a\xcc\x82", "x");           /* the mark has no rule, and disappears */
    expect_mapped(m, "a\xcc\x82\xcc\x81\xcc\x82", /* the cluster has more than 5 bytes */
                  "x\xcc\x82\xcc\x82");
    expect_mapped(m, "a\xff", "x\xff");
    m->longest = true;
    expect_mapped(m, "a\xcc\x81", "y");
    expect_mapped(m, "a\xcc\x82", "x\xcc\x82");
    expect_mapped(m, "\xff", "\xef\xbf\xbd");
    th_text out = {0};
    size_t first;
    const th_piece piece = {.text = "bbbbbb", .bytes = 6};
    expect_status(th_character_map_apply(m, ctx, "test", 5, piece, &out, &first), TH_ERROR_VALUE,
                  "replacements would make the text longer than 5 bytes");
    th_text_free(&out);
    th_character_map_free(m);
}
END_TEST

START_TEST(test_damaged_maps)
{
    const size_t bytes = make_map();
    const char *reason;
    for (size_t count = 0; count < 4 + 4 * 240; count++) { /* truncated */
        ck_assert_ptr_null(th_character_map_new(compiled, count, &reason));
        ck_assert_str_eq(reason, count < 4 ? "has no array" : "is truncated");
    }
    for (size_t i = 0; i < 4 * 240; i++) { /* any bit of the array may be wrong: no access is outside the map */
        make_map();
        compiled[4 + i] ^= (unsigned char)(1 << i % 8);
        th_character_map *m = th_character_map_new(compiled, bytes, &reason);
        ck_assert_ptr_nonnull(m);
        th_text out = {0};
        size_t first;
        const th_piece piece = {.text = "a\xcc\x81 ab\xcc\x81", .bytes = 8};
        ck_assert_int_eq(th_character_map_apply(m, ctx, "test", 100000, piece, &out, &first), TH_OK);
        th_text_free(&out);
        th_character_map_free(m);
    }
    make_map();
    compiled[bytes - 2] = 0xff;
    ck_assert_ptr_null(th_character_map_new(compiled, bytes, &reason));
    ck_assert_str_eq(reason, "has replacements that are not UTF-8");
    compiled[0] = 1;
    ck_assert_ptr_null(th_character_map_new(compiled, bytes, &reason));
    ck_assert_str_eq(reason, "is truncated");
}
END_TEST

/* -- scores -- */

START_TEST(test_scores)
{
    /* the reference divides 20154635906219482 by 1e16, and rounds the dividend before */
    ck_assert(th_unigram_read_score(-2.0154635906219482) == -2.015463590621948);
    ck_assert(th_unigram_read_score(-0.5) == -0.5 && th_unigram_read_score(0) == 0);
    ck_assert(th_unigram_read_score(-1e300) == -1e300 && th_unigram_read_score(1e-320) == 1e-320);
    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) { /* what is written is read again */
        random = random * 6364136223846793005u + 1442695040888963407u;
        const float single = -(float)(random >> 40) / (1 << 20);
        const double score = th_unigram_read_score((double)single);
        ck_assert(th_unigram_read_score(th_unigram_written_score(score)) == score);
    }
}
END_TEST

START_TEST(test_saved)
{
    th_tokenizer *t = load_members(SPACES, UNIGRAM("\"unk_id\": 0, \"byte_fallback\": false", LETTERS));
    ck_assert_int_eq(th_tokenizer_save(t, folder), TH_OK);
    expect_tokens(th_tokenizer_load(ctx, folder), "abab x", "43340");
}
END_TEST

/* -- damaged files -- */

#define MAP(text) "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": " text "}"

START_TEST(test_rejected)
{
    static const struct {
        const char *members, *model, *sentence;
    } cases[] = {
        {"", UNIGRAM("\"unk_id\": 0", ""), "its vocabulary is empty, or not a list"},
        {"", "\"model\": {\"type\": \"Unigram\", \"vocab\": {\"a\": 0}}", "its vocabulary is empty, or not a list"},
        {"", UNIGRAM("\"unk_id\": 0", "[\"a\"]"), "a token of its vocabulary is not [\"token\", score]"},
        {"", UNIGRAM("\"unk_id\": 0", "[\"a\", \"b\"]"), "a token of its vocabulary is not [\"token\", score]"},
        {"", UNIGRAM("\"unk_id\": 0", "[\"a\", 1, 2]"), "a token of its vocabulary is not [\"token\", score]"},
        {"", UNIGRAM("\"unk_id\": 0", "[\"a\", 1], [\"a\", 2]"), "its vocabulary has the token 'a' twice"},
        {"", UNIGRAM("\"unk_id\": 1", "[\"a\", 1]"), "\"unk_id\" is 1, outside 0 to 0"},
        {"", UNIGRAM("\"byte_fallback\": 1", "[\"a\", 1]"),
         "\"byte_fallback\" has another type; it should be true or false"},
        {"\"pre_tokenizer\": " BYTES, UNIGRAM("\"unk_id\": 0", "[\"a\", 1]"),
         "its model is Unigram, but its pre_tokenizer is ByteLevel"},
        {MAP("\"AAA\""), MODEL, "the precompiled_charsmap of its normalizer is not base64"},
        {MAP("\"AA*=\""), MODEL, "the precompiled_charsmap of its normalizer is not base64"},
        {MAP("\"A=AA\""), MODEL, "the precompiled_charsmap of its normalizer is not base64"},
        {MAP("\"\""), MODEL, "the precompiled_charsmap of its normalizer has no array"},
        {MAP("\"BAAAAAA=\""), MODEL, "the precompiled_charsmap of its normalizer is truncated"},
        {MAP("null"), MODEL, "\"precompiled_charsmap\" has another type; it should be a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(load_members(cases[i].members, cases[i].model), path, cases[i].sentence);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("Unigram", setup, teardown);
    tcase_add_test(tests, test_choice);
    tcase_add_test(tests, test_unknown);
    tcase_add_test(tests, test_added_tokens);
    tcase_add_test(tests, test_map);
    tcase_add_test(tests, test_damaged_maps);
    tcase_add_test(tests, test_scores);
    tcase_add_test(tests, test_saved);
    tcase_add_test(tests, test_rejected);
    return run_suites();
}
