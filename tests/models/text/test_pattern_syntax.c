/* The syntax of patterns: what is accepted, which characters an escape names, what is rejected and why, and the limits
 * of a pattern. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/text/pattern/pattern.h"
#include "suite.h"

static char reason[TH_PATTERN_REASON];

/* The pattern is a copy without a NUL, so the sanitizers detect reads behind it. */
static th_pattern *compile_bytes(const char *expression, size_t count)
{
    char *copy = malloc(count ? count : 1);
    memcpy(copy, expression, count);
    memset(reason, 'x', sizeof reason - 1);
    th_pattern *p = th_pattern_new(copy, count, reason);
    free(copy);
    ck_assert_int_eq(p != NULL, reason[0] == 0);
    return p;
}

static bool accepts_bytes(const char *expression, size_t count)
{
    th_pattern *p = compile_bytes(expression, count);
    th_pattern_free(p);
    return p != NULL;
}

static bool accepts(const char *expression)
{
    return accepts_bytes(expression, strlen(expression));
}

static th_match match(const char *expression, const char *text, size_t from, size_t *begin, size_t *end)
{
    th_pattern *p = compile_bytes(expression, strlen(expression));
    ck_assert_msg(p != NULL, "%s: %s", expression, reason);
    th_pattern_begin(p, text, strlen(text));
    const th_match found = th_pattern_next(p, from, begin, end);
    th_pattern_free(p);
    return found;
}

/* Whether an expression matches a whole text. */
static bool matches(const char *expression, const char *text)
{
    size_t begin = 1, end = 0;
    return match(expression, text, 0, &begin, &end) == TH_MATCH && begin == 0 && end == strlen(text);
}

/* The whole sentence is compared, because it names the construct. */
static void expect_refusal(const char *expression, const char *wanted)
{
    ck_assert_msg(!accepts(expression), "'%s' is accepted", expression);
    ck_assert_msg(strcmp(reason, wanted) == 0, "'%s': '%s', not '%s'", expression, reason, wanted);
}

START_TEST(each_construct_is_accepted)
{
    static const char *const accepted[] = {"",
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
                                           "a{0,2400}",
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
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        char expression[100];
        snprintf(expression, sizeof expression, "x(?:%s)", accepted[i]); /* so it is not empty */
        ck_assert_msg(accepts(expression), "%s: %s", expression, reason);
    }
    ck_assert(matches("(a)]}", "a]}") && matches("]+", "]]"));
    ck_assert(matches("[a-c-e]+", "abc-e") && !matches("[a-c-e]", "d"));
}
END_TEST

/* Letters, marks, decimal digits, numbers that are letters, letters in circles, and punctuation that connects. Like
 * Oniguruma, \w has one half outside of [] only. */
START_TEST(characters_of_words)
{
    static const char *const words[] = {"a",      "Z", "\u00e9", "\u6f22", "\u0301",     "7",     "\u0663",
                                        "\u2167", "_", "\u203f", "\u24d0", "\U0001f130", "\uff3f"},
                             *const others[] = {" ", "-", "\u2153", "\u20ac", "\u200d", "\U0001f600", "."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(matches("\\w", words[i]) && matches("[\\w-]", words[i]) && !matches("\\W", words[i]) &&
                          !matches("[^\\w\\s]", words[i]),
                      "%s", words[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!matches("\\w", others[i]) && matches("\\W", others[i]), "%s", others[i]);
    ck_assert(matches("\\w", "\u00bd") && !matches("[\\w]", "\u00bd") && !matches("\\W", "\u00bd"));
}
END_TEST

START_TEST(escapes_name_characters)
{
    static const char *const cases[][2] = {
        {"\\t\\n\\r\\f\\v\\a\\e", "\t\n\r\f\v\a\x1b"},
        {"\\x41", "A"},
        {"\\x4a7", "J7"},
        {"\\x7F", "\x7f"},
        {"\\x{4}", "\x04"},
        {"\\x{1F600}", "\xf0\x9f\x98\x80"},
        {"\\x{10ffff}", "\xf4\x8f\xbf\xbf"},
        {"\\x{d7ff}\\x{e000}", "\xed\x9f\xbf\xee\x80\x80"},
        {"\\u00e9", "\xc3\xa9"},
        {"\\uFfFf0", "\xef\xbf\xbf"
                     "0"},
        {"[\\t-\\x{20}]{2}", "\t "},
        {"(?i:\\x41)", "a"},
        {"(?i:\\x7f)", "\x7f"},
        {"\\.\\*\\-\\&[\\[\\]\\&]{3}", ".*-&&[]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(matches(cases[i][0], cases[i][1]), "%s", cases[i][0]);
}
END_TEST

START_TEST(classes_have_opposites)
{
    ck_assert(matches("\\s\\S", " x") && !matches("\\S", " ") && !matches("\\s", "x"));
    ck_assert(matches("[\\sa-]+", "a -") && !matches("\\s", "\xe1\xa0\x8e")); /* U+180E is not a space */
    ck_assert(matches("\\p{Z}", " ") && !matches("\\P{Zs}", " ") && matches("\\P{Zs}", "x"));
    ck_assert(!matches("[^\\p{Z}\\p{Zl}]", " ") && matches("[^\\p{Z}\\p{Zl}]", "x"));
    ck_assert(matches("\\d\\D", "7x") && matches("\\p{Han}\\P{Han}", "\xe6\xbc\xa2x"));
}
END_TEST

/* New characters belong to their category and to the larger one of its first letter, and to no other. */
START_TEST(new_characters_are_in_their_categories)
{
    static const char upper[] = "\xe1\xb2\x89", lower[] = "\xe1\xb2\x8a", mark[] = "\xe0\xa2\x97",
                      digit[] = "\xf0\x90\xb5\x80"; /* U+1C89, U+1C8A, U+0897, U+10D40 */
    ck_assert(matches("\\p{Lu}", upper) && !matches("\\p{Lu}", lower) && !matches("\\p{Lu}", mark));
    ck_assert(matches("\\p{Ll}", lower) && !matches("\\p{Ll}", upper));
    ck_assert(matches("\\p{L}", upper) && matches("\\p{L}", lower));
    ck_assert(!matches("\\p{L}", mark) && !matches("\\p{L}", digit));
    ck_assert(matches("\\p{M}", mark) && !matches("\\p{M}", upper));
    ck_assert(matches("\\p{N}", digit) && matches("\\p{Nd}", digit) && matches("\\d", digit));
    ck_assert(!matches("\\p{Nl}", digit) && !matches("\\D", digit));
    ck_assert(!matches("\\p{Zs}", upper) && !matches("\\p{Lt}", upper) && !matches("\\p{Han}", upper));
    ck_assert(matches("\\p{Han}", "\xf0\xae\xaf\xb0")); /* U+2EBF0 */
}
END_TEST

START_TEST(what_differs_is_rejected)
{
    static const char *const cases[][2] = {
        {"\\y", "\\y is not supported"},
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
        {"[a-\\d]", "a range ends with a class"},
        {"[a-[b]]", "sets within sets are not supported; write \\[ and \\& for the characters"},
        {"[a-", "a [ is not closed"},
        {"a{3,2}", "a {3,2} has the larger number first"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i][0], cases[i][1]);
}
END_TEST

START_TEST(counts_have_one_form)
{
    static const char *const wrong[] = {"a{",  "a{}",   "a{x}",     "a{1x}",      "a{,3}", "a{1,2,3}",
                                        "a{2", "a{1,2", "a{10000}", "a{1,10000}", "a{1 }"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(wrong[i],
                       "a { does not begin {n}, {n,} or {n,m} with n and m below 10000; write \\{ for the character");
}
END_TEST

/* -- limits -- */

START_TEST(a_pattern_has_a_limit)
{
    char *text = malloc(TH_MAX_PATTERN + 1);
    memset(text, 'a', TH_MAX_PATTERN + 1);
    ck_assert(accepts_bytes(text, TH_MAX_PATTERN));
    ck_assert(!accepts_bytes(text, TH_MAX_PATTERN + 1));
    ck_assert_str_eq(reason, "it has 4097 bytes, more than 4096");
    ck_assert(!accepts_bytes("a\0b", 3));
    ck_assert_str_eq(reason, "it contains a NUL");
    free(text);
}
END_TEST

START_TEST(groups_have_a_limit)
{
    char text[256];
    for (int depth = 62; depth <= 64; depth++) {
        memset(text, '(', (size_t)depth);
        text[depth] = 'a';
        memset(text + depth + 1, ')', (size_t)depth);
        ck_assert_int_eq(accepts_bytes(text, 2 * (size_t)depth + 1), depth < 64);
    }
    ck_assert_str_eq(reason, "groups are nested deeper than 63");
    /* an option holds for the groups within, and ends with its group */
    ck_assert(matches("(?i:(a))b\\s", "Ab ") && !matches("(?i:(a))b", "AB") && accepts("(?=a)(b)+"));
}
END_TEST

/* -- use -- */

START_TEST(a_new_pattern_says_what_is_wrong)
{
    static const char *const cases[][2] = {{"a*", "it can match the empty string"},
                                           {"a|", "it can match the empty string"},
                                           {"[b-a]", "a range of a [] ends before it begins"},
                                           {"\\y", "\\y is not supported"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(reason, 'x', sizeof reason - 1);
        ck_assert_ptr_null(th_pattern_new(cases[i][0], strlen(cases[i][0]), reason));
        ck_assert_msg(strcmp(reason, cases[i][1]) == 0, "%s: %s", cases[i][0], reason);
    }
    th_pattern_free(NULL);
}
END_TEST

START_TEST(matches_begin_at_or_after_a_position)
{
    size_t begin = 77, end = 77;
    ck_assert_int_eq(match("b+", "abbabb", 0, &begin, &end), TH_MATCH);
    ck_assert(begin == 1 && end == 3);
    ck_assert_int_eq(match("b+", "abbabb", 3, &begin, &end), TH_MATCH);
    ck_assert(begin == 4 && end == 6);
    ck_assert_int_eq(match("b+", "abbabb", 6, &begin, &end), TH_NO_MATCH);
    ck_assert_int_eq(match("c", "abbabb", 0, &begin, &end), TH_NO_MATCH);
    ck_assert_int_eq(match("(?<!x)c", "abbabb", 0, &begin, &end), TH_NO_MATCH);
    ck_assert(begin == 4 && end == 6);                                    /* without a match they stay */
    ck_assert_int_eq(match("(?<=a)b", "abb", 1, &begin, &end), TH_MATCH); /* it sees the text before */
    ck_assert(begin == 1 && end == 2);
}
END_TEST

/* A match reads characters that a lookahead has read. */
START_TEST(what_is_ahead_is_not_counted_twice)
{
    static const char *const cases[][2] = {
        {"(?=a)b*?(?>a)", "a"}, {"(?=a)(?>b*)a", "a"}, {"(?=k)a?(?>k)", "k"}, {"(?:(?>c)|(?=b)d){0}a", "a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(matches(cases[i][0], cases[i][1]), "%s", cases[i][0]);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("pattern syntax", NULL, NULL);
    tcase_add_test(tests, each_construct_is_accepted);
    tcase_add_test(tests, characters_of_words);
    tcase_add_test(tests, escapes_name_characters);
    tcase_add_test(tests, classes_have_opposites);
    tcase_add_test(tests, new_characters_are_in_their_categories);
    tcase_add_test(tests, what_differs_is_rejected);
    tcase_add_test(tests, counts_have_one_form);
    tcase_add_test(tests, a_pattern_has_a_limit);
    tcase_add_test(tests, groups_have_a_limit);
    tcase_add_test(tests, a_new_pattern_says_what_is_wrong);
    tcase_add_test(tests, matches_begin_at_or_after_a_position);
    tcase_add_test(tests, what_is_ahead_is_not_counted_twice);
    return run_suites();
}
