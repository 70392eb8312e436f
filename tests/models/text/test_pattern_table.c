/* Tables of patterns. Random expressions have PCRE2's matches, also where a match crosses windows of the table. The
 * work of all matches in a text is proportional to its length, for expressions with which engines that backtrack take
 * exponential or quadratic time; it is counted, not timed. */
#include <stdlib.h>
#include <string.h>

#include "models/text/pattern/pattern.h"
#include "models/text/pattern/table.h"

#include "pattern_oracle.h"
#include "suite.h"

#ifdef __SANITIZE_ADDRESS__
enum { ROUNDS = 150 };
#else
enum { ROUNDS = 1500 };
#endif

static char reason[TH_PATTERN_REASON];

static th_pattern *pattern_of(const char *expression)
{
    th_pattern *p = th_pattern_new(expression, strlen(expression), reason);
    ck_assert_msg(p != NULL, "%.300s: %s", expression, reason);
    return p;
}

/* -- random expressions -- */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

#define DRAW(list) list[draw(sizeof list / sizeof *list)]

static void append_alternatives(char *to, int depth);

/* Appends a lookbehind: alternatives with fixed lengths, perhaps with another look within. */
static void append_behind(char *to, int depth)
{
    static const char *const kinds[] = {"(?<=", "(?<!"}, *const parts[] = {"a", "b", "[ab]", ".", " ", "\\s", "(?<!b)"};
    strcat(to, DRAW(kinds));
    for (uint32_t i = 0, alternatives = 1 + draw(3); i < alternatives; i++) {
        strcat(to, i > 0 ? "|" : "");
        for (uint32_t k = draw(4); k > 0; k--)
            strcat(to, DRAW(parts));
        if (draw(5) == 0) {
            strcat(to, "(?=");
            append_alternatives(to, depth);
            strcat(to, ")");
        }
    }
    strcat(to, ")");
}

static void append_repetition(char *to)
{
    static const char *const repetitions[] = {"*",   "+",     "?",     "*?",   "+?",  "??",     "*+",    "++",   "?+",
                                              "{2}", "{1,3}", "{0,2}", "{2,}", "{0}", "{1,2}?", "{0,}?", "{2,}?"};
    if (draw(100) < 45)
        strcat(to, DRAW(repetitions));
}

static void append_item(char *to, int depth)
{
    static const char *const items[] = {"a",   "b",   "c",      " ",   "a",      "b",        "[ab]",     "[^a]",  ".",
                                        "\\s", "\\S", "[b-c ]", "\\n", "(?i:k)", "\xc3\xa9", "\\p{Han}", "\\p{L}"};
    static const char *const groups[] = {"(?:", "(?:", "(", "(?>", "(?>", "(?=", "(?!"};
    if (depth == 0 || draw(100) < 55) {
        strcat(to, DRAW(items));
        append_repetition(to);
    } else if (draw(4) == 0) {
        append_behind(to, depth - 1);
    } else {
        const char *group = DRAW(groups);
        strcat(to, group);
        append_alternatives(to, depth - 1);
        strcat(to, ")");
        if (strcmp(group, "(?=") != 0 && strcmp(group, "(?!") != 0)
            append_repetition(to);
    }
}

static void append_alternatives(char *to, int depth)
{
    for (uint32_t i = 0, alternatives = 1 + draw(3) / 2 + draw(4) / 3; i < alternatives; i++) {
        strcat(to, i > 0 ? "|" : "");
        for (uint32_t k = draw(10) == 0 ? 0 : 1 + draw(3); k > 0; k--)
            append_item(to, depth);
    }
}

static size_t write_random_text(char *text)
{
    static const char *const pieces[] = {"a",        "b",           "c", "a", "b", " ", "\n", "k", "\xe2\x84\xaa",
                                         "\xc3\xa9", "\xe6\xbc\xa2"};
    text[0] = 0;
    for (uint32_t i = 0, kinds = 1 + draw(11), length = draw(14); i < length; i++)
        strcat(text, pieces[draw(kinds)]);
    return strlen(text);
}

/* Compares all matches in a text; none if PCRE2 gives up. Returns their number. */
static int compare(th_pattern *p, oracle *o, const char *expression, const char *text, size_t count)
{
    int matches = 0;
    size_t begin, end, expected_begin, expected_end;
    th_pattern_begin(p, text, count);
    for (size_t at = 0; at < count; at = end, matches++) {
        if (!oracle_next(o, text, count, at, &expected_begin, &expected_end))
            break;
        begin = end = count;
        (void)th_pattern_next(p, at, &begin, &end);
        ck_assert_msg(begin == expected_begin && end == expected_end,
                      "%s in '%.*s' from %zu: %zu to %zu, not %zu to %zu", expression, (int)count, text, at, begin, end,
                      expected_begin, expected_end);
    }
    return matches;
}

START_TEST(random_expressions_match_as_pcre2)
{
    static char expression[1 << 16], text[200];
    int matches = 0, compared = 0;
    for (int round = 0; round < ROUNDS; round++) {
        state = (uint64_t)round * 1000003 + (uint64_t)_i;
        expression[0] = 0;
        append_alternatives(expression, 1 + (int)draw(3));
        th_pattern *p = th_pattern_new(expression, strlen(expression), reason);
        oracle *o = p ? oracle_new(expression, strlen(expression)) : NULL;
        for (int i = 0; i < 12 && o; i++) {
            const size_t count = write_random_text(text);
            char *copy = malloc(count ? count : 1); /* without anything behind it */
            memcpy(copy, text, count);
            matches += compare(p, o, expression, copy, count);
            free(copy);
        }
        compared += o != NULL;
        oracle_free(o);
        th_pattern_free(p);
    }
    ck_assert_int_gt(compared, ROUNDS / 3);
    ck_assert_int_gt(matches, 10 * compared);
}
END_TEST

/* -- windows -- */

/* Writes runs of letters, digits, spaces and signs: short, and near the lengths of windows. */
static size_t write_runs(char *text)
{
    static const char *const pieces[] = {"a", "B", "\xc3\xa9", "\xe6\xbc\xa2", " ", "\n", "7", "'", "s", "-"};
    static const size_t lengths[] = {1, 2, 3, 510, 512, 515, 1030, 17};
    size_t bytes = 0;
    for (int run = 0; run < 12; run++) {
        const char *one = DRAW(pieces), *two = DRAW(pieces);
        for (size_t i = DRAW(lengths), mixed = draw(3); i > 0; i--) {
            const char *now = mixed == 0 && i % 2 ? two : one;
            memcpy(text + bytes, now, strlen(now));
            bytes += strlen(now);
        }
    }
    return bytes;
}

START_TEST(matches_cross_windows)
{
    static const char *const expressions[] = {
        "(?<!x)'s|'t|(?> ?\\p{L}+)| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?:a|B)+s(?<=[aB]s)|7{5}(?=7|-)",
        "(?>-+)(?!-)|\\n(?= *a)|(?<=\\n{3})\xe6\xbc\xa2",
        "(?<=(?<!a)a|b(?=.*-)c)[^a]|(?>(?:a|B)+|a{0,3}7)",
        "(?<=[^-]{600}).(?!\\s{3})",
    };
    static char text[1 << 16];
    th_pattern *p = pattern_of(expressions[_i]);
    oracle *o = oracle_new(expressions[_i], strlen(expressions[_i]));
    int matches = 0;
    state = 7;
    for (int round = 0; round < 12; round++)
        matches += compare(p, o, expressions[_i], text, write_runs(text));
    ck_assert_int_gt(matches, 50);
    oracle_free(o);
    th_pattern_free(p);
}
END_TEST

/* -- work -- */

/* Returns the work of all matches of an expression in a text of n characters, which repeats `piece`. */
static uint64_t work_of(const char *expression, const char *piece, size_t n)
{
    th_pattern *p = pattern_of(expression);
    const size_t bytes = strlen(piece);
    char *text = malloc(n * bytes);
    for (size_t i = 0; i < n * bytes; i++)
        text[i] = piece[i % bytes];
    th_pattern_begin(p, text, n * bytes);
    for (size_t at = 0, begin; at < n * bytes;) {
        const th_match match = th_pattern_next(p, at, &begin, &at);
        ck_assert_int_ne(match, TH_MATCH_NO_MEMORY);
        if (match == TH_NO_MATCH)
            break;
    }
    const uint64_t work = th_pattern_work(p);
    free(text);
    th_pattern_free(p);
    return work;
}

/* The steps of an expression are at most 5,000, and each one is visited at most ten times for each character. */
static const struct {
    const char *expression, *piece;
    uint64_t steps; /* at least as many as the expression has */
} hostile[] = {
    {"(?:(?:(?:a?){9}){9}){9}b|a", "a", 1470},        /* nested counts */
    {"(?:(?:(?:(?:a?){6}){6}){6}){6}b|a", "a", 2620}, /* one level more */
    {"(?:(?:a+)+)+b|a", "a", 10},                     /* nested quantifiers */
    {"(?:a|a)*b|a", "a", 10},                         /* alternatives that overlap */
    {"(?:a|aa|aaa)+b|a", "a", 16},                    /* the same, of several lengths */
    {"(?:[a-z]+[A-Z]?)*[0-9]|[a-z]", "a", 12},        /* ambiguous words */
    {"(?<!x)a+a+a+b|a", "a", 16},                     /* cubic, with a lookbehind */
    {"(?>a+)+b|a", "a", 12},                          /* atomic groups */
    {"(?:a*+b|a)", "a", 10},                          /* possessive */
    {"(?:[^x]*x|a)", "a", 10},                        /* each match reads the whole text */
    {"a(?=(?:a|a)*b)|a", "a", 12},                    /* a lookahead over the whole text */
    {"(?:(?=(?:a+)+b)a)+|a", "a", 16},                /* lookaheads in a repetition */
    {"(?:a?)*?b|(?:(?:a?)*)*c|a", "a", 40},           /* repetitions of what can be empty */
    {"(?<=a{40})b|(?<=(?<!b)a{30})c|a", "a", 90},     /* lookbehinds */
    {"\\s+(?!\\S)x|\\s*[\\r\\n]+x|\\s", " \n", 30},   /* white space */
    {"(?:\\p{L}+\\p{M}*)+[0-9]|.", "\xc3\xa9", 12},   /* words */
    {"a+b", "a", 10},                                 /* without any match */
};

START_TEST(work_is_linear)
{
    for (size_t n = 20; n <= 20000; n *= 10) {
        const uint64_t most = n * (10 * hostile[_i].steps + 18) + 4096,
                       work = work_of(hostile[_i].expression, hostile[_i].piece, n);
        ck_assert_msg(work <= most, "%s, %zu characters: work of %llu, at most %llu expected", hostile[_i].expression,
                      n, (unsigned long long)work, (unsigned long long)most);
    }
}
END_TEST

/* Ordinary text stays with the automaton, which hardly reads a character twice. */
START_TEST(ordinary_work_is_small)
{
    static const char llama[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    ck_assert_uint_lt(work_of(llama, "It's 2026;   words\n\n  and more. ", 1000), 32 * 1000 * 3 / 2);
}
END_TEST

/* -- limits -- */

/* Each sentence shows the part of the expression that is the reason. */
START_TEST(large_expressions_are_refused_by_name)
{
    static const char *const cases[][2] = {
        {"x|(?:a{1000}){1000}y", "at '(?:a{1000}){1000}' it becomes longer than 5000 steps"},
        {"(?:(?:(?:(?:a?){9}){9}){9}){9}b|a", "at '(?:(?:(?:(?:a?){9}){9}){9}){9}' it becomes longer than 5000 steps"},
        {"b(?:(?:(?:(?:a{9999}){9999}){9999}){9999})", "at 'a{9999}' it becomes longer than 5000 steps"},
        {"a(?:b{0,2000}|c){3}", "at '(?:b{0,2000}|c){3}' it becomes longer than 5000 steps"},
        {"a{3000}b{3000}c", "at 'b{3000}' it becomes longer than 5000 steps"},
        {"a(?>ab){65}b", "at '(?>ab){65}' it has more than 64 possessive or atomic groups and lookbehinds"},
        {"a(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:a?)*)*)*)*)*)*)*)*)*)*)*)*", "it becomes longer than 5000 steps"},
        {"a(?<=ba+)", "'(?<=ba+)' looks behind for a part without a fixed length"},
        {"(?<!a|b{1,2})c", "'(?<!a|b{1,2})' looks behind for a part without a fixed length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_ptr_null(th_pattern_new(cases[i][0], strlen(cases[i][0]), reason));
        ck_assert_msg(strstr(reason, cases[i][1]) != NULL, "%s: '%s', not '%s'", cases[i][0], reason, cases[i][1]);
    }
    th_pattern_free(pattern_of("(?:a{60}){60}(?>ab){64}"));
}
END_TEST

/* Every expression of 4,096 bytes without counts fits. */
START_TEST(long_expressions_fit)
{
    static const char *const pieces[] = {"a", "a|", "a*", "(?=ab)c", "[b-c]", "(a)", "\\s", "a?+", "\xe6\xbc\xa2"};
    char expression[TH_MAX_PATTERN + 1];
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        expression[0] = 0;
        while (strlen(expression) + strlen(pieces[i]) < TH_MAX_PATTERN)
            strcat(expression, pieces[i]);
        strcat(expression, "b");
        th_pattern *p = pattern_of(expression);
        ck_assert_uint_lt(th_pattern_memory(p), 4 << 20);
        th_pattern_free(p);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("pattern table", NULL, NULL);
    tcase_add_loop_test(tests, random_expressions_match_as_pcre2, 0, 2);
    tcase_add_loop_test(tests, matches_cross_windows, 0, 5);
    tcase_add_loop_test(tests, work_is_linear, 0, sizeof hostile / sizeof *hostile);
    tcase_add_test(tests, ordinary_work_is_small);
    tcase_add_test(tests, large_expressions_are_refused_by_name);
    tcase_add_test(tests, long_expressions_fit);
    return run_suites();
}
