/* Patterns of names: fixed cases, and random patterns that the C library matches too. */
#include <fnmatch.h>
#include <stdint.h>
#include <string.h>

#include "suite.h"
#include "tensor/name_pattern.h"

START_TEST(test_names_of_parameters)
{
    ck_assert(th_name_matches("*.bias", "block.0.mlp.bias"));
    ck_assert(!th_name_matches("*.bias", "block.0.mlp.weight"));
    ck_assert(th_name_matches("block.?.mlp.[!b]*", "block.0.mlp.weight"));
    ck_assert(th_name_matches("block.[0-3].*", "block.3.weight"));
    ck_assert(!th_name_matches("block.[0-3].*", "block.4.weight"));
    ck_assert(th_name_matches("layer[[:digit:]][]x]", "layer7]"));
    ck_assert(th_name_matches("a\\*b[", "a*b["));
    ck_assert(!th_name_matches("", "a"));
    ck_assert(th_name_matches("", ""));
    ck_assert(th_name_matches("***", ""));
}
END_TEST

static uint32_t below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % n;
}

static void draw(uint32_t *state, char *text, const char *letters)
{
    const uint32_t length = below(state, 9);
    for (uint32_t i = 0; i < length; i++)
        text[i] = letters[below(state, (uint32_t)strlen(letters))];
    text[length] = 0;
}

/* C libraries differ in a list without its end, in a [ within a list, and in a backslash at the end. */
static int is_clear(const char *pattern)
{
    const char *list = strchr(pattern, '[');
    return list == NULL || (strchr(list + 1, '[') == NULL && pattern[strlen(pattern) - 1] == ']');
}

START_TEST(test_as_fnmatch)
{
    uint32_t state = 1;
    int matched = 0;
    for (int i = 0; i < 100000; i++) {
        char pattern[16], name[16];
        draw(&state, pattern, "ab.**?[!^-]ab");
        draw(&state, name, "ab.");
        if (!is_clear(pattern))
            continue;
        const int expected = fnmatch(pattern, name, 0) == 0;
        ck_assert_msg(th_name_matches(pattern, name) == expected, "\"%s\" and \"%s\": fnmatch returns %d", pattern,
                      name, expected);
        matched += expected;
    }
    ck_assert_int_gt(matched, 1000);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("name_pattern", NULL, NULL);
    tcase_add_test(tests, test_names_of_parameters);
    tcase_add_test(tests, test_as_fnmatch);
    return run_suites();
}
