/* Automata of patterns, compared with PCRE2: each expression has the same matches in random texts, and each class has
 * the same characters. Expressions that an automaton cannot match are left to the table (test_pattern_table.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include "models/text/pattern/automaton.h"
#include "models/text/pattern/pattern.h"
#include "models/text/unicode.h"
#include "models/text/unicode_additions.h"

#include "pattern_oracle.h"
#include "suite.h"

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

enum { TEXT = 1 << 12 };

#define END "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ALTERNATIVES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const char *const expressions[] = {
    /* of published tokenizers */
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    ALTERNATIVES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" END,
    ALTERNATIVES "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" END,
    "[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "*" SMALL "+" ALTERNATIVES "?|[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "+" SMALL
    "*" ALTERNATIVES "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" END,
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" END,
    /* preferences, repetitions, what is ahead */
    "a|ab|abc",
    "abc|ab|a",
    "a+?b?",
    "a*?b|[ab]",
    "(?:a|ab)(?:c|bcd)?",
    "(?:ab?)+?c|.",
    "(?:a|b(?:c|d)*)+",
    "a??b",
    "a{2}|b{2,}?|c{1,3}|(?:ab){0,2}d",
    "(a|b)(?=c)|[abc]+(?!\\p{L})",
    "(?!a)[abc]+",
    "(?:(?=a)|b)[ab]c",
    "(?i:k+s)|(?i:A(?:b|C))",
    "[a-c\\-]+|[\\]-]|[^a-z]",
    "[\\x41-\\u0044\\n]|\\x{e9}+|\\t|\\.|]|}",
    "é{2}|[é-漢]+",
    "\\D\\S|\\P{L}{2}",
    "\\d+\\s|\\p{Lu}(?!\\s)",
    " ",
    "[a-c-d]+|[a-b--c]",
    /* a possessive repetition of a set looks ahead at one character */
    "a++b?|b*+c|c?+d|(?>[a-c]+)d|(?>d)",
    "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}?| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s+(?!\\S)|\\s+",
    "\\p{Han}+|[^\\p{Han}a]{2}",
    /* an iteration without characters ends a repetition */
    "(?:a?)+b|(?:b*?)*c",
    "(?:|a|b)+c",
    "(?:(?=a)|b|)*?a|(?:b??c?){2,}d",
};

/* An expression, and its automaton or NULL. */
typedef struct compiled {
    th_program *program;
    th_automaton *automaton;
} compiled;

static compiled compile(const char *expression)
{
    th_pattern_tree tree = {0};
    char reason[TH_PATTERN_REASON];
    compiled c;
    ck_assert_msg(th_pattern_tree_read(expression, strlen(expression), &tree, reason), "%s: %s", expression, reason);
    c.program = th_program_new(&tree);
    ck_assert_ptr_nonnull(c.program);
    ck_assert(th_automaton_new(c.program, &c.automaton));
    th_pattern_tree_release(&tree);
    return c;
}

static void release(compiled c)
{
    th_automaton_free(c.automaton);
    th_program_free(c.program);
}

static oracle *oracle_of(const char *expression)
{
    oracle *o = oracle_new(expression, strlen(expression));
    ck_assert_msg(o != NULL, "%s", expression);
    return o;
}

/* Returns the end of PCRE2's match at text[at]; `at` without a match. Loops over matches call ck_abort only: each ck_assert
 * writes to Check's file, which takes longer than a match. */
static size_t expected_end(oracle *o, const char *text, size_t count, size_t at)
{
    size_t end;
    if (!oracle_match(o, text, count, at, &end))
        ck_abort_msg("PCRE2 has no result");
    return end;
}

static uint32_t draw(uint32_t below)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static size_t write_random(char *text)
{
    static const char *const pieces[] = {
        "a",
        "b",
        "c",
        "d",
        "A",
        "B",
        "C",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "1",
        "23",
        "'s",
        "'ll",
        "'\xc5\xbf",
        "'",
        "k",
        "\xe2\x84\xaa",
        "S",
        "-",
        "]",
        ".",
        "/",
        "\xc3\xa9",
        "\xe6\xbc\xa2",
        "\xc2\xa0",
        "\xcc\x81",
        "\xf0\x9f\x98\x80",
        "\xe0\xb8\x81",
        "\xd9\xa1",
        "\xf0\x9d\x9f\x98",
        "\xf0\xa0\x80\x80",
    };
    const uint32_t kinds = 1 + draw(sizeof pieces / sizeof *pieces), length = draw(60);
    size_t count = 0;
    for (uint32_t i = 0; i < length; i++) {
        const char *piece = pieces[draw(kinds)];
        memcpy(text + count, piece, strlen(piece));
        count += strlen(piece);
    }
    return count;
}

START_TEST(matches_are_those_of_pcre2)
{
    const char *expression = expressions[_i];
    const compiled c = compile(expression);
    ck_assert_msg(c.automaton != NULL, "no automaton for %s", expression);
    oracle *o = oracle_of(expression);
    static char text[TEXT];
    size_t matches = 0;
    for (int round = 0; round < (SANITIZED ? 1000 : 3000); round++) {
        const size_t count = write_random(text);
        /* a copy without anything behind it: the sanitizers detect reads there */
        char *copy = malloc(count ? count : 1);
        memcpy(copy, text, count);
        for (size_t at = 0, seen; at < count; at++) {
            if (((unsigned char)text[at] & 0xc0) == 0x80)
                continue;
            const size_t end = th_automaton_match(c.automaton, copy, count, at, &seen);
            const size_t expected = expected_end(o, text, count, at);
            if (end != expected || seen < end || seen > count)
                ck_abort_msg("%s in '%.*s' from %zu: to %zu, not %zu; %zu bytes read", expression, (int)count, text, at,
                             end, expected, seen);
            matches += end > at;
        }
        free(copy);
    }
    ck_assert_uint_gt(matches, 100);
    oracle_free(o);
    release(c);
}
END_TEST

/* Writes a character. Returns its length; 0 if it is a surrogate. */
static size_t write_code(char *text, uint32_t code)
{
    return code >= 0xd800 && code < 0xe000
               ? 0
               : (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)text);
}

/* Whether unicode_additions.h has a character. */
static bool is_added(uint32_t code)
{
    for (size_t i = 0; i < sizeof th_unicode_additions / sizeof *th_unicode_additions; i++)
        if (code >= th_unicode_additions[i].first && code <= th_unicode_additions[i].last)
            return true;
    return false;
}

/* Whether a character belongs to a category C: a control character, or not assigned. */
static bool is_other(uint32_t code)
{
    return th_unicode_categories("C") >> th_unicode_category(code) & 1;
}

/* Whether a character has the category of the characters beside it, and is not one of some. Under the sanitizers such
 * characters are left out, because each comparison takes many microseconds. */
static bool is_one_of_many(uint32_t code)
{
    const int category = th_unicode_category(code);
    return SANITIZED && code >= 0x3000 && code % 16 != 0 && category == th_unicode_category(code - 1) &&
           category == th_unicode_category(code + 1);
}

/* PCRE2 and utf8proc may have different versions of Unicode. A character that one of them does not have is not
 * compared, unless unicode_additions.h has it. */
START_TEST(classes_have_the_same_characters)
{
    static const char *const classes[] = {
        "\\p{L}",
        "\\p{Lu}",
        "\\p{Ll}",
        "\\p{Lt}",
        "\\p{Lm}",
        "\\p{Lo}",
        "\\p{M}",
        "\\p{N}",
        "\\p{Nd}",
        "\\p{Nl}",
        "\\p{No}",
        "\\p{P}",
        "\\p{S}",
        "\\p{Z}",
        "\\p{Zs}",
        "\\p{Zl}",
        "\\p{Zp}",
        "\\s",
        "\\d",
        "\\p{Han}",
        ".",
        "[^\\s\\p{L}\\p{N}]",
        "[^\\r\\n\\p{L}\\p{N}]",
    };
    const compiled class = compile(classes[_i]);
    th_automaton *a = class.automaton;
    ck_assert_ptr_nonnull(a);
    oracle *o = oracle_of(classes[_i]), *other = oracle_of("[^\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Z}]");
    char text[4];
    uint32_t compared = 0;
    for (uint32_t c = 0; c < 0x110000; c += c >= 0x40000 && c < 0xe0000 ? 251 : 1) {
        const size_t length = write_code(text, c);
        size_t seen;
        if (length == 0 || is_one_of_many(c) ||
            (!is_added(c) && is_other(c) != (expected_end(other, text, length, 0) > 0)))
            continue;
        compared++;
        const size_t expected = expected_end(o, text, length, 0);
        for (int again = 0; again < 2; again++) /* the second time from the table */
            if (th_automaton_match(a, text, length, 0, &seen) != expected)
                ck_abort_msg("%s, U+%04X: not %zu", classes[_i], (unsigned)c, expected);
    }
    ck_assert_uint_gt(compared, SANITIZED ? 30000 : 260000);
    oracle_free(other);
    oracle_free(o);
    release(class);
}
END_TEST

START_TEST(other_steps_are_left_to_the_table)
{
    static const char *const others[] = {
        "(?>ab)", "(?:ab)++c", "a{2,3}b(?>a{1,2})", "(?<=a)b", "(?<!a)b", "(?=ab)a", "(?=a|b)a", "(?!(?=a))b",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const compiled c = compile(others[i]);
        ck_assert_msg(c.automaton == NULL, "%s", others[i]);
        ck_assert_uint_eq(th_automaton_memory(NULL), 0);
        release(c);
    }
}
END_TEST

/* Repeats `piece` and returns whether there is an automaton. */
static bool repeated_fits(const char *piece, int times, const char *end)
{
    char *expression = malloc((size_t)times * strlen(piece) + strlen(end) + 1), *at = expression;
    for (int i = 0; i < times; i++)
        at = stpcpy(at, piece);
    strcpy(at, end);
    const compiled c = compile(expression);
    const bool fits = c.automaton != NULL;
    if (fits)
        ck_assert_uint_gt(th_automaton_memory(c.automaton), 1 << 17);
    release(c);
    free(expression);
    return fits;
}

/* Steps, states, sets, classes and ranges have limits. The last expression has states for every combination of
 * positions. */
START_TEST(large_expressions_are_left_to_the_table)
{
    ck_assert(repeated_fits("ab", 60, "") && !repeated_fits("ab", 300, ""));
    ck_assert(repeated_fits("a?", 30, "b") && !repeated_fits("a?", 200, "b"));
    char sets[5 * 75 + 1], *at = sets;
    for (int i = 0; i < 75; i++) {
        at += sprintf(at, "\\x%02x|", 0x30 + i);
        if (i == 40 || i == 74) {
            at[-1] = 0;
            const compiled c = compile(sets);
            ck_assert_int_eq(c.automaton != NULL, i == 40);
            release(c);
            at[-1] = '|';
        }
    }
    ck_assert(repeated_fits("[!#%')+-/13579;=?ACEGIKMOQSUWY_acegikmoqsuwy{ÀÂÄÆÈÊÌÎÐÒÔÖØÚÜÞàâäæèêìîðòô]", 1, ""));
    char ranges[600 * 6 + 3] = "[", *end = ranges + 1;
    for (int i = 0; i < 600; i++)
        end += sprintf(end, "\\u%04x", 0x1000 + 2 * i);
    ck_assert(!repeated_fits(strcat(ranges, "]"), 1, ""));
    ck_assert(!repeated_fits("[ab]*a[ab]{8}", 1, ""));
}
END_TEST

/* Returns the time in seconds that the automaton needs to read a character many times. */
static double time_to_repeat(th_automaton *a, const char *character)
{
    enum { TIMES = 100000 };
    const size_t length = strlen(character);
    char *text = malloc(TIMES * length);
    size_t seen;
    for (int i = 0; i < TIMES; i++)
        memcpy(text + (size_t)i * length, character, length);
    const clock_t begin = clock();
    ck_assert_uint_eq(th_automaton_match(a, text, TIMES * length, 0, &seen), TIMES * length);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    free(text);
    return seconds;
}

/* A class is found once for each character: 40 sets have 10 ranges each, and so a search takes microseconds. */
START_TEST(rare_characters_take_no_longer)
{
    static const char *const rare[] = {"\xf0\xa0\x80\x80", "\xf1\x80\x80\x80", "\xf4\x8f\xbf\xbf"};
    char expression[1000], *at = stpcpy(expression, "(?:");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "[%cbdfhjlnpr]|", 'A' + i + (i > 25 ? 6 : 0));
    strcpy(at, ".)+");
    const compiled c = compile(expression);
    th_automaton *a = c.automaton;
    ck_assert_ptr_nonnull(a);
    const double usual = time_to_repeat(a, "\xe6\xbc\xa2");
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++)
        ck_assert_double_lt(time_to_repeat(a, rare[i]), 10 * usual + 0.01);
    release(c);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("pattern automaton", NULL, NULL);
    tcase_add_loop_test(tests, matches_are_those_of_pcre2, 0, sizeof expressions / sizeof *expressions);
    tcase_add_loop_test(tests, classes_have_the_same_characters, 0, 23);
    tcase_add_test(tests, other_steps_are_left_to_the_table);
    tcase_add_test(tests, large_expressions_are_left_to_the_table);
    tcase_add_test(tests, rare_characters_take_no_longer);
    return run_suites();
}
