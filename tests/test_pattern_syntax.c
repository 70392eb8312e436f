/* The translation of patterns from Oniguruma's syntax to PCRE2's: what each construct becomes, what is rejected and
 * why, and the limits of a pattern. */
#include <stdlib.h>
#include <string.h>

#include "models/text/pattern.h"
#include "suite.h"

enum { CAPACITY = 1 << 18 };

static char *translated;
static char trouble[TH_PATTERN_TROUBLE];

static void setup(void)
{
    translated = malloc(CAPACITY);
    memset(translated, 'x', CAPACITY);
}

static void teardown(void)
{
    free(translated);
}

/* The pattern is a copy without a NUL, so the sanitizers detect reads behind it. */
static bool translate_bytes(const char *expression, size_t count, size_t capacity)
{
    char *copy = malloc(count ? count : 1);
    memcpy(copy, expression, count);
    const bool good = th_pattern_translate(copy, count, translated, capacity, trouble);
    free(copy);
    ck_assert_int_eq(good, trouble[0] == 0);
    return good;
}

static bool translate(const char *expression)
{
    return translate_bytes(expression, strlen(expression), CAPACITY);
}

static void expect_translation(const char *expression, const char *wanted)
{
    ck_assert_msg(translate(expression), "%s: %s", expression, trouble);
    ck_assert_msg(strcmp(translated, wanted) == 0, "'%s' becomes '%s', not '%s'", expression, translated, wanted);
}

/* The whole sentence is compared, because it names the construct. */
static void expect_trouble(const char *expression, const char *wanted)
{
    ck_assert_msg(!translate(expression), "'%s' is accepted", expression);
    ck_assert_msg(strcmp(trouble, wanted) == 0, "'%s': '%s', not '%s'", expression, trouble, wanted);
}

#define SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

START_TEST(what_is_the_same_in_both_stays)
{
    static const char *const same[] = {"",
                                       "a",
                                       ".",
                                       "a|b",
                                       "(?:a)",
                                       "(?i:a)",
                                       "(?=a)b",
                                       "(?!a)b",
                                       "(?<=a)b",
                                       "(?<!a)b",
                                       "(?>a)",
                                       "[a-z]",
                                       "[^a]",
                                       "a*",
                                       "a+",
                                       "a?",
                                       "a*?",
                                       "a+?",
                                       "a??",
                                       "a*+",
                                       "a++",
                                       "a?+",
                                       "a{3}",
                                       "a{3,}",
                                       "a{0,9999}",
                                       "a{3,}?",
                                       "a{3,4}?",
                                       "(?:a{2}){3}",
                                       "\\.\\*",
                                       "\\-\\&",
                                       "[\\[\\]\\&]",
                                       "\xc3\xa9",
                                       "[\xe6\xbc\xa2]",
                                       "(?i:(?:fa|sa|tf|f))",
                                       ("a\xf0\x9f\x98\x80"
                                        "bcdefghijklmnopqrstuvwxyz"),
                                       "[\\*-]"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect_translation(same[i], same[i]);
    expect_translation("(a)", "(?:a)");
    expect_translation("]}", "\\]\\}");
    expect_translation("]+", "\\]+");
}
END_TEST

START_TEST(escaped_characters_become_code_points)
{
    static const char *const cases[][2] = {
        {"\\t\\n\\r\\f\\v\\a\\e", "\\x{9}\\x{a}\\x{d}\\x{c}\\x{b}\\x{7}\\x{1b}"},
        {"\\x41", "\\x{41}"},
        {"\\x4a7", "\\x{4a}7"},
        {"\\x7F", "\\x{7f}"},
        {"\\x{4}", "\\x{4}"},
        {"\\x{1F600}", "\\x{1f600}"},
        {"\\x{10ffff}", "\\x{10ffff}"},
        {"\\x{d7ff}\\x{e000}", "\\x{d7ff}\\x{e000}"},
        {"\\u00e9", "\\x{e9}"},
        {"\\uFfFf0", "\\x{ffff}0"},
        {"[\\t-\\x{20}]", "[\\x{9}-\\x{20}]"},
        {"(?i:\\x41)", "(?i:\\x{41})"},
        {"(?i:\\x7f)", "(?i:\\x{7f})"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_translation(cases[i][0], cases[i][1]);
}
END_TEST

START_TEST(classes_are_spelled_out)
{
    expect_translation("\\s", "[" SPACE "]");
    expect_translation("\\S+", "[^" SPACE "]+");
    expect_translation("[\\sa]", "[" SPACE "a]");
    expect_translation("[\\s-]", "[" SPACE "-]");
    expect_translation("\\p{Z}", "[\\p{Z}]");
    expect_translation("\\P{Zs}", "[^\\p{Zs}]");
    expect_translation("[^\\p{Z}\\p{Zl}]", "[^\\p{Z}\\p{Zl}]");
}
END_TEST

/* Whether the translation of a class has this range of characters that PCRE2 may not know. */
static bool adds(const char *expression, const char *range)
{
    ck_assert_msg(translate(expression), "%s: %s", expression, trouble);
    return strstr(translated, range) != NULL;
}

/* New characters belong to their category and to the larger one of its first letter, and to no other. */
START_TEST(new_characters_are_in_their_categories)
{
    static const char upper[] = "\\x{1c89}-\\x{1c89}", lower[] = "\\x{1c8a}-\\x{1c8a}", mark[] = "\\x{897}-\\x{897}",
                      digit[] = "\\x{10d40}-\\x{10d49}";
    ck_assert(adds("\\p{Lu}", upper) && !adds("\\p{Lu}", lower) && !adds("\\p{Lu}", mark));
    ck_assert(adds("\\p{Ll}", lower) && !adds("\\p{Ll}", upper));
    ck_assert(adds("\\p{L}", upper) && adds("\\p{L}", lower) && !adds("\\p{L}", mark) && !adds("\\p{L}", digit));
    ck_assert(adds("\\p{M}", mark) && !adds("\\p{M}", upper));
    ck_assert(adds("\\p{N}", digit) && adds("\\p{Nd}", digit) && adds("\\d", digit) && !adds("\\p{Nl}", digit));
    ck_assert(!adds("\\p{Zs}", upper) && !adds("\\p{Lt}", upper));
    ck_assert(translate("\\d"));
    ck_assert_ptr_nonnull(strstr(translated, "[\\p{Nd}\\x{"));
    ck_assert(translate("\\D"));
    ck_assert_ptr_nonnull(strstr(translated, "[^\\p{Nd}\\x{"));
    ck_assert(translate("\\p{L}"));
    ck_assert_ptr_nonnull(strstr(translated, "[A-Za-z\\p{L}\\x{"));
    ck_assert(translate("\\p{N}"));
    ck_assert_ptr_nonnull(strstr(translated, "[0-9\\p{N}\\x{"));
    ck_assert(adds("\\p{Han}", "[\\p{sc:Han}\\x{") && !adds("\\p{Han}", upper));
    ck_assert(!adds("\\p{L}", "sc:"));
}
END_TEST

START_TEST(what_differs_is_rejected)
{
    static const char *const cases[][2] = {
        {"\\w", "\\w is not supported"},
        {"\\1", "\\1 is not supported"},
        {"[\\h]", "\\h is not supported"},
        {"a\\", "a backslash precedes a character that cannot be escaped"},
        {"\\\xc3\xa9", "a backslash precedes a character that cannot be escaped"},
        {"\\ ", "a backslash precedes a character that cannot be escaped"},
        {"\\\x7f", "a backslash precedes a character that cannot be escaped"},
        {"\\x4", "\\x is not followed by a code point"},
        {"\\x4g", "\\x is not followed by a code point"},
        {"\\x80", "\\x is not followed by a code point"},
        {"\\x{}", "\\x is not followed by a code point"},
        {"\\x{41", "\\x is not followed by a code point"},
        {"\\x{1234567}", "\\x is not followed by a code point"},
        {"\\x{110000}", "\\x is not followed by a code point"},
        {"\\x{d800}", "\\x is not followed by a code point"},
        {"\\udfff", "\\u is not followed by a code point"},
        {"\\u00e", "\\u is not followed by a code point"},
        {"\\p{}", "\\p{} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are"},
        {"\\p{Greek}", "\\p{Greek} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are"},
        {"\\P{Lb}", "\\P{Lb} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are"},
        {"\\pL", "\\p{} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are"},
        {"\\p{L", "\\p{} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are"},
        {"\\p{LuLuLuLu}", "\\p{} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are"},
        {"[\\S]", "\\S within [] is not supported"},
        {"[\\P{L}]", "\\P within [] is not supported"},
        {"(?i:\\s)", "\\s within (?i:) is not supported"},
        {"(?i:(a|\\p{L}))", "\\p within (?i:) is not supported"},
        {"(?i:[a])", "[] within (?i:) is not supported"},
        {"(?i:\\x{e9})", "within (?i:) only ASCII is supported"},
        {"(?i:\\u0080)", "within (?i:) only ASCII is supported"},
        {"(?i:\xc3\xa9)", "within (?i:) only ASCII is supported"},
        {"(?i:ss)", "\"ss\" within (?i:) is not supported"},
        {"(?i:aFF)", "\"ff\" within (?i:) is not supported"},
        {"(?i:fI)", "\"fi\" within (?i:) is not supported"},
        {"(?i:Fl)", "\"fl\" within (?i:) is not supported"},
        {"(?i:(?:st))", "\"st\" within (?i:) is not supported"},
        {"a\xff", "it is not UTF-8"},
        {"a\xe6\xbc", "it is not UTF-8"},
        {"[\x80]", "it is not UTF-8"},
        {"[]", "a [] is empty"},
        {"[^]a]", "a [] is empty"},
        {"[a", "a [ is not closed"},
        {"[[a]", "sets within sets are not supported; write \\[ and \\& for the characters"},
        {"[a&&b]", "sets within sets are not supported; write \\[ and \\& for the characters"},
        {"[\\s-a]", "a range begins with a class"},
        {"[\\d-", "a range begins with a class"},
        {"(?a)", "a group begins with (? and something other than : i: = ! <= <! >"},
        {"(?<n>a)", "a group begins with (? and something other than : i: = ! <= <! >"},
        {"(*a)", "a group begins with (*"},
        {"a)", "a ) has no matching ("},
        {"(a", "a ( is not closed"},
        {"((a)", "a ( is not closed"},
        {"(?=a)*", "a lookaround group is repeated, which is not supported"},
        {"(?!a){2}", "a lookaround group is repeated, which is not supported"},
        {"(?<=a)?", "a lookaround group is repeated, which is not supported"},
        {"(?<!a)+", "a lookaround group is repeated, which is not supported"},
        {"^a", "^ is not supported"},
        {"a$", "$ is not supported"},
        {"*", "there is nothing before * to repeat"},
        {"a|+", "there is nothing before + to repeat"},
        {"(?", "a group begins with (? and something other than : i: = ! <= <! >"},
        {"({2})", "there is nothing before { to repeat"},
        {"a{2}+", "{}+ is ambiguous; put the repeated part in (?:)"},
        {"a{2,3}+", "{}+ is ambiguous; put the repeated part in (?:)"},
        {"a{2}?", "{n}? is ambiguous; put the repeated part in (?:)"},
        {"a+*", "a repetition is repeated; put the repeated part in (?:)"},
        {"a+?+", "a repetition is repeated; put the repeated part in (?:)"},
        {"a+{2}", "a repetition is repeated; put the repeated part in (?:)"},
        {"a*??", "a repetition is repeated; put the repeated part in (?:)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_trouble(cases[i][0], cases[i][1]);
}
END_TEST

START_TEST(counts_have_one_form)
{
    static const char *const wrong[] = {"a{",  "a{}",   "a{x}",     "a{1x}",      "a{,3}", "a{1,2,3}",
                                        "a{2", "a{1,2", "a{10000}", "a{1,10000}", "a{1 }"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_trouble(wrong[i],
                       "a { does not begin {n}, {n,} or {n,m} with n and m below 10000; write \\{ for the character");
}
END_TEST

/* -- limits -- */

START_TEST(a_pattern_has_a_limit)
{
    char *text = malloc(TH_MAX_PATTERN + 1);
    memset(text, 'a', TH_MAX_PATTERN + 1);
    ck_assert(translate_bytes(text, TH_MAX_PATTERN, CAPACITY));
    ck_assert(!translate_bytes(text, TH_MAX_PATTERN + 1, CAPACITY));
    ck_assert_str_eq(trouble, "it has 4097 bytes, more than 4096");
    ck_assert(!translate_bytes("a\0b", 3, CAPACITY));
    ck_assert_str_eq(trouble, "it contains a NUL");
    memcpy(text, "\xc3\xa9", 2); /* only this character is copied, not the text behind it */
    ck_assert(translate_bytes(text, TH_MAX_PATTERN, CAPACITY));
    free(text);
}
END_TEST

/* The capacity includes the NUL, and nothing is written behind it. */
START_TEST(a_translation_has_a_limit)
{
    ck_assert(translate_bytes("abc", 3, 4));
    ck_assert_str_eq(translated, "abc");
    memset(translated, 'x', CAPACITY);
    ck_assert(!translate_bytes("abc", 3, 3));
    ck_assert_str_eq(trouble, "it is too long");
    ck_assert_int_eq(translated[3], 'x');
    memset(translated, 'x', CAPACITY);
    ck_assert(!translate_bytes("a\\s", 3, 20));
    ck_assert_str_eq(trouble, "it is too long");
    for (int i = 20; i < 200; i++)
        ck_assert_int_eq(translated[i], 'x');
}
END_TEST

START_TEST(groups_have_a_limit)
{
    char text[256];
    for (int depth = 62; depth <= 64; depth++) {
        memset(text, '(', (size_t)depth);
        text[depth] = 'a';
        memset(text + depth + 1, ')', (size_t)depth);
        ck_assert_int_eq(translate_bytes(text, 2 * (size_t)depth + 1, CAPACITY), depth < 64);
    }
    ck_assert_str_eq(trouble, "groups are nested deeper than 63");
    /* an option holds for the groups within, and ends with its group */
    expect_translation("(?i:(a))\\s", "(?i:(?:a))[" SPACE "]");
    expect_translation("(?=a)(b)+", "(?=a)(?:b)+");
}
END_TEST

/* -- use -- */

START_TEST(a_new_pattern_says_what_is_wrong)
{
    static const char *const cases[][2] = {{"a*", "it can match the empty string"},
                                           {"a|", "it can match the empty string"},
                                           {"[b-a]", "PCRE2 reports: range out of order in character class"},
                                           {"\\w", "\\w is not supported"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(trouble, 'x', sizeof trouble - 1);
        ck_assert_ptr_null(th_pattern_new(cases[i][0], strlen(cases[i][0]), trouble));
        ck_assert_msg(strcmp(trouble, cases[i][1]) == 0, "%s: %s", cases[i][0], trouble);
    }
    th_pattern_free(NULL);
}
END_TEST

static th_match match(const char *expression, const char *text, size_t from, uint64_t *budget, size_t *begin,
                      size_t *end)
{
    th_pattern *p = th_pattern_new(expression, strlen(expression), trouble);
    ck_assert_msg(p != NULL, "%s", trouble);
    const th_match found = th_pattern_next(p, text, strlen(text), from, budget, begin, end);
    th_pattern_free(p);
    return found;
}

START_TEST(matches_begin_at_or_after_a_position)
{
    uint64_t budget = 1000;
    size_t begin = 77, end = 77;
    ck_assert_int_eq(match("b+", "abbabb", 0, &budget, &begin, &end), TH_MATCH);
    ck_assert(begin == 1 && end == 3);
    ck_assert_int_eq(match("b+", "abbabb", 3, &budget, &begin, &end), TH_MATCH);
    ck_assert(begin == 4 && end == 6);
    ck_assert_int_eq(match("b+", "abbabb", 6, &budget, &begin, &end), TH_NO_MATCH);
    ck_assert_int_eq(match("c", "abbabb", 0, &budget, &begin, &end), TH_NO_MATCH);
    ck_assert_int_eq(match("(?<!x)c", "abbabb", 0, &budget, &begin, &end), TH_NO_MATCH);
    ck_assert(begin == 4 && end == 6);                                             /* without a match they stay */
    ck_assert_int_eq(match("(?<=a)b", "abb", 1, &budget, &begin, &end), TH_MATCH); /* it sees the text before */
    ck_assert(begin == 1 && end == 2 && budget == 1000);
}
END_TEST

/* PCRE2's first attempt sees 1024 bytes. The next one sees four times as many, which it subtracts from the budget. */
/* PCRE2's search for characters that a match must have is wrong for these. The atomic groups prevent an automaton. */
START_TEST(what_is_ahead_is_not_counted_twice)
{
    static const char *const cases[][2] = {
        {"(?=a)b*?(?>a)", "a"}, {"(?=a)(?>b*)a", "a"}, {"(?=k)a?(?>k)", "k"}, {"(?:(?>c)|(?=b)d){0}a", "a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t budget = 1000;
        size_t begin = 77, end = 77;
        ck_assert_msg(match(cases[i][0], cases[i][1], 0, &budget, &begin, &end) == TH_MATCH, "%s", cases[i][0]);
        ck_assert(begin == 0 && end == 1);
    }
}
END_TEST

START_TEST(a_longer_attempt_takes_from_the_budget)
{
    static char text[4001];
    memset(text, 'a', 4000);
    uint64_t budget = 10000;
    size_t begin, end;
    ck_assert_int_eq(match("(?<!x)a+b", text, 0, &budget, &begin, &end), TH_NO_MATCH);
    ck_assert_uint_lt(budget, 10000);
    budget = 10000;
    ck_assert_int_eq(match("(?<!x)a+", text, 0, &budget, &begin, &end), TH_MATCH);
    ck_assert(begin == 0 && end == 4000);
    ck_assert_uint_eq(budget, 10000 - 4096);
    budget = 4096;
    ck_assert_int_eq(match("(?<!x)a+", text, 0, &budget, &begin, &end), TH_MATCH);
    ck_assert_uint_eq(budget, 0);
    budget = 4095;
    ck_assert_int_eq(match("(?<!x)a+", text, 0, &budget, &begin, &end), TH_MATCH_GAVE_UP);
    ck_assert_uint_eq(budget, 4095);
    ck_assert_uint_eq(th_pattern_budget(0), 1 << 24);
    ck_assert_uint_eq(th_pattern_budget(1000), (1 << 24) + 1024000);
}
END_TEST

/* An automaton has no attempts. It subtracts the characters that it reads behind a match, if they are many. */
START_TEST(an_automaton_takes_from_the_budget)
{
    static char text[5001];
    memset(text, 'a', 5000);
    size_t begin, end;
    uint64_t budget = 0;
    ck_assert_int_eq(match("a+", text, 0, &budget, &begin, &end), TH_MATCH);
    ck_assert(begin == 0 && end == 5000);
    ck_assert_int_eq(match("a+b|a", text, 5000 - 1025, &budget, &begin, &end), TH_MATCH);
    budget = 4998;
    ck_assert_int_eq(match("a+b|a", text, 0, &budget, &begin, &end), TH_MATCH_GAVE_UP);
    budget = 4999;
    ck_assert_int_eq(match("a+b|a", text, 0, &budget, &begin, &end), TH_MATCH);
    ck_assert(begin == 0 && end == 1 && budget == 0);
    budget = 5000 + 4999;
    ck_assert_int_eq(match("a+b", text, 0, &budget, &begin, &end), TH_MATCH_GAVE_UP);
    ck_assert_uint_eq(budget, 0);
}
END_TEST

/* A match that needs more memory than a match may have gives up, whatever the budget is. */
START_TEST(a_match_has_limited_memory)
{
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES + 1);
    memset(text, 'a', BYTES);
    text[BYTES] = 0;
    uint64_t budget = UINT64_MAX;
    size_t begin, end;
    ck_assert_int_eq(match("(?<!x)(?:a|b)+c", text, 0, &budget, &begin, &end), TH_MATCH_GAVE_UP);
    ck_assert_uint_gt(budget, UINT64_MAX / 2);
    free(text);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("pattern syntax", setup, teardown);
    tcase_add_test(tests, what_is_the_same_in_both_stays);
    tcase_add_test(tests, escaped_characters_become_code_points);
    tcase_add_test(tests, classes_are_spelled_out);
    tcase_add_test(tests, new_characters_are_in_their_categories);
    tcase_add_test(tests, what_differs_is_rejected);
    tcase_add_test(tests, counts_have_one_form);
    tcase_add_test(tests, a_pattern_has_a_limit);
    tcase_add_test(tests, a_translation_has_a_limit);
    tcase_add_test(tests, groups_have_a_limit);
    tcase_add_test(tests, a_new_pattern_says_what_is_wrong);
    tcase_add_test(tests, matches_begin_at_or_after_a_position);
    tcase_add_test(tests, what_is_ahead_is_not_counted_twice);
    tcase_add_test(tests, a_longer_attempt_takes_from_the_budget);
    tcase_add_test(tests, an_automaton_takes_from_the_budget);
    tcase_add_test(tests, a_match_has_limited_memory);
    return run_suites();
}
