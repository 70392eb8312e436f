/* Patterns of names: see name_pattern.h. */
#include "tensor/name_pattern.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* -- lists of characters: [a-z_] -- */

/* Returns whether the character belongs to the class, one of POSIX. Sets *end behind the class, or to NULL if `at` does
 * not begin one. */
static bool is_in_class(const char *at, unsigned char c, const char **end)
{
    static const struct {
        const char *name;
        int (*contains)(int c);
    } classes[] = {{"[:alnum:]", isalnum}, {"[:alpha:]", isalpha}, {"[:blank:]", isblank}, {"[:cntrl:]", iscntrl},
                   {"[:digit:]", isdigit}, {"[:graph:]", isgraph}, {"[:lower:]", islower}, {"[:print:]", isprint},
                   {"[:punct:]", ispunct}, {"[:space:]", isspace}, {"[:upper:]", isupper}, {"[:xdigit:]", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const size_t length = strlen(classes[i].name);
        if (strncmp(at, classes[i].name, length) != 0)
            continue;
        *end = at + length;
        return c < 128 && classes[i].contains(c);
    }
    *end = NULL;
    return false;
}

/* Reads a character of a list, which may follow a backslash. Returns the text after it. */
static const char *read_character(const char *at, unsigned char *c)
{
    at += *at == '\\' && at[1];
    *c = (unsigned char)*at;
    return at + 1;
}

/* Sets *found to whether the list contains the character. `at` is behind the [. Returns the text behind the ]; NULL if
 * the ] is missing. */
static const char *search_list(const char *at, unsigned char c, bool *found)
{
    const bool inverted = *at == '!' || *at == '^';
    at += inverted;
    *found = false;
    for (const char *const first = at; *at && (*at != ']' || at == first);) {
        const char *end;
        *found |= is_in_class(at, c, &end);
        if (end) {
            at = end;
            continue;
        }
        unsigned char low, high;
        at = read_character(at, &low);
        high = low;
        if (at[0] == '-' && at[1] && at[1] != ']')
            at = read_character(at + 1, &high);
        *found |= low <= c && c <= high;
    }
    *found ^= inverted;
    return *at ? at + 1 : NULL;
}

/* -- patterns -- */

/* Matches one character, with a pattern that does not begin with *. Returns the rest of the pattern; NULL if it does
 * not match. */
static const char *match_character(const char *pattern, char c)
{
    bool found;
    const char *rest = *pattern == '[' ? search_list(pattern + 1, (unsigned char)c, &found) : NULL;
    if (rest)
        return found ? rest : NULL;
    if (*pattern == '?')
        return pattern + 1;
    if (*pattern == '\\')
        pattern++;
    return *pattern == c ? pattern + 1 : NULL;
}

/* When a character does not match, the last * takes one character more. */
bool th_name_matches(const char *pattern, const char *name)
{
    const char *after_star = NULL, *taken = NULL; /* the pattern behind the last *, and the end of what the * takes */
    while (*name) {
        if (*pattern == '*') {
            after_star = ++pattern;
            taken = name;
            continue;
        }
        const char *rest = *pattern ? match_character(pattern, *name) : NULL;
        if (rest) {
            pattern = rest;
            name++;
        } else if (after_star) {
            pattern = after_star;
            name = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}
