/* Translates Oniguruma's syntax to PCRE2's in one pass. It accepts only syntax that has the same meaning in both:
 *
 *     characters, and \ before a character with a special meaning;  \t \n \r \f \v \a \e \xHH \x{H} \uHHHH;  .
 *     \s \S \d \D  \p{..} \P{..} with a general category or Han;  [..] and [^..] of these, of characters and ranges
 *     (..) (?:..) (?i:..) (?=..) (?!..) (?<=..) (?<!..) (?>..);  |;  * + ? {n} {n,} {n,m}, also lazy, * + ? possessive
 *
 * The differences, and their translation:
 *     \s          PCRE2 includes U+180E, which is not a space since Unicode 6.3: spelled out
 *     \p{..}      the version of Unicode: additions of 15.0 to 16.0 are spelled out
 *     \p{Han}     PCRE2 includes characters that are also used with the script: \p{sc:Han}
 *     (?i:..)     Oniguruma also matches one character with several (a ligature with "ff"): only ASCII, without such
 *                 pairs
 *     {n,m}+      possessive in PCRE2, a repetition of a repetition in Oniguruma: rejected, as are (?i), ^, $, \w, \b,
 *                 \h, back references, named groups, sets within sets. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "models/core.h"
#include "models/text/expression.h"
#include "models/text/pattern.h"
#include "models/text/unicode_additions.h"

enum { MAX_GROUPS = 63 };

typedef struct reader {
    th_expression in;
    char *out;
    size_t capacity; /* left, including the NUL */
    char *trouble;   /* "" without an error */
    bool ignores_case[MAX_GROUPS + 2], looks_around[MAX_GROUPS + 2];
    int groups; /* open */
} reader;

static const char space[] =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

static void complain(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(reader *r, const char *format, ...)
{
    if (r->trouble[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(r->trouble, TH_PATTERN_TROUBLE, format, arguments);
    va_end(arguments);
}

static bool is_valid(const reader *r)
{
    return r->trouble[0] == 0;
}

static void emit(reader *r, const char *text, size_t count)
{
    if (count >= r->capacity) {
        complain(r, "it is too long");
        return;
    }
    memcpy(r->out, text, count);
    r->out += count;
    r->capacity -= count;
    *r->out = 0;
}

static void emit_text(reader *r, const char *text)
{
    emit(r, text, strlen(text));
}

static void emit_code(reader *r, uint32_t code)
{
    char text[16];
    snprintf(text, sizeof text, "\\x{%x}", (unsigned)code);
    emit_text(r, text);
}

static bool ignores_case(const reader *r)
{
    return r->ignores_case[r->groups];
}

/* -- classes -- */

/* Emits a category's characters as they appear in [..]. Returns false for an unknown category. */
static bool emit_category(reader *r, const char *name)
{
    static const char *const known[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "N",  "Nd",
                                        "Nl", "No", "P",  "S",  "Z",  "Zs", "Zl", "Zp", "Han"};
    size_t i = 0;
    while (i < sizeof known / sizeof known[0] && strcmp(known[i], name) != 0)
        i++;
    if (i == sizeof known / sizeof known[0])
        return false;
    /* ASCII first: a compiled class has a table for these characters */
    emit_text(r, strcmp(name, "L") == 0 ? "A-Za-z" : strcmp(name, "N") == 0 ? "0-9" : "");
    emit_text(r, strcmp(name, "Han") == 0 ? "\\p{sc:" : "\\p{");
    emit_text(r, name);
    emit_text(r, "}");
    for (i = 0; i < sizeof th_unicode_additions / sizeof th_unicode_additions[0]; i++) {
        const th_unicode_range *added = &th_unicode_additions[i];
        if (strcmp(name, added->category) != 0 &&
            (name[1] != 0 || name[0] != added->category[0] || added->category[0] == 'H'))
            continue;
        emit_code(r, added->first);
        emit_text(r, "-");
        emit_code(r, added->last);
    }
    return true;
}

/* Reads \s, \d, \p{..} and their opposites, after the backslash. Within [..], opposites are not allowed. */
static bool read_class(reader *r, bool within)
{
    const char kind = r->in.at < r->in.end ? *r->in.at : 0;
    if (kind == 0 || !strchr("sSdDpP", kind))
        return false;
    r->in.at++;
    const bool opposite = kind < 'a';
    if (opposite && within)
        complain(r, "\\%c within [] is not supported", kind);
    if (ignores_case(r))
        complain(r, "\\%c within (?i:) is not supported", kind);
    if (!within)
        emit_text(r, opposite ? "[^" : "[");
    char name[8] = "Nd";
    if (kind == 'p' || kind == 'P') {
        const char *close = th_next_is(&r->in, "{") ? memchr(r->in.at, '}', (size_t)(r->in.end - r->in.at)) : NULL;
        const size_t count = close ? (size_t)(close - r->in.at) - 1 : 0;
        name[0] = 0;
        if (count > 0 && count < sizeof name) {
            memcpy(name, r->in.at + 1, count);
            name[count] = 0;
            r->in.at = close + 1;
        }
    }
    if (kind == 's' || kind == 'S')
        emit_text(r, space);
    else if (!emit_category(r, name))
        complain(r, "\\%c{%s} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are", kind,
                 name);
    if (!within)
        emit_text(r, "]");
    return true;
}

/* -- characters -- */

static bool read_hexadecimal(reader *r, int least, int max, uint32_t *code)
{
    int digits = 0;
    for (*code = 0; digits < max && r->in.at < r->in.end; digits++, r->in.at++) {
        const char c = *r->in.at;
        const int value = c >= '0' && c <= '9'                 ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : -1;
        if (value < 0)
            break;
        *code = *code << 4 | (uint32_t)value;
    }
    return digits >= least;
}

/* Reads a character written with a backslash, after the backslash. */
static void read_escape(reader *r)
{
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    const char c = r->in.at < r->in.end ? *r->in.at++ : 0;
    const char *letter = c ? strchr(letters, c) : NULL;
    uint32_t code = 0;
    bool good = true;
    if (letter) {
        code = (uint32_t)codes[letter - letters];
    } else if (c == 'x' && th_accept(&r->in, "{")) {
        good = read_hexadecimal(r, 1, 6, &code) && th_accept(&r->in, "}");
    } else if (c == 'x') {
        good = read_hexadecimal(r, 2, 2, &code) && code < 0x80;
    } else if (c == 'u') {
        good = read_hexadecimal(r, 4, 4, &code);
    } else if (c > ' ' && c < 127 && !((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9')) {
        emit(r, (const char[]){'\\', c}, 2);
        return;
    } else if (c > ' ' && c < 127) {
        complain(r, "\\%c is not supported", c);
    } else {
        complain(r, "a backslash precedes a character that cannot be escaped");
    }
    if (!good || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        complain(r, "\\%c is not followed by a code point", c);
    if (ignores_case(r) && code >= 0x80)
        complain(r, "within (?i:) only ASCII is supported");
    emit_code(r, code);
}

/* Reads a literal character. */
static void read_character(reader *r)
{
    const unsigned char c = (unsigned char)*r->in.at;
    if (c < 0x80) {
        static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st"};
        for (size_t i = 0; ignores_case(r) && i < sizeof pairs / sizeof pairs[0]; i++)
            if (r->in.end - r->in.at >= 2 && (c | 32) == pairs[i][0] && (r->in.at[1] | 32) == pairs[i][1])
                complain(r, "\"%s\" within (?i:) is not supported", pairs[i]);
        emit(r, r->in.at++, 1);
        return;
    }
    unsigned char character[5] = {0};
    const size_t left = (size_t)(r->in.end - r->in.at);
    memcpy(character, r->in.at, left < 4 ? left : 4);
    const int count = th_utf8_length(character);
    if (count == 0)
        complain(r, "it is not UTF-8");
    if (ignores_case(r))
        complain(r, "within (?i:) only ASCII is supported");
    emit(r, r->in.at, (size_t)count);
    r->in.at += count ? count : 1;
}

/* Reads [..], after the bracket. */
static void read_set(reader *r)
{
    if (ignores_case(r))
        complain(r, "[] within (?i:) is not supported");
    emit_text(r, "[");
    if (th_accept(&r->in, "^"))
        emit_text(r, "^");
    if (th_next_is(&r->in, "]"))
        complain(r, "a [] is empty");
    while (is_valid(r) && !th_next_is(&r->in, "]")) {
        if (r->in.at == r->in.end) {
            complain(r, "a [ is not closed");
        } else if (th_next_is(&r->in, "[") || th_next_is(&r->in, "&&")) {
            complain(r, "sets within sets are not supported; write \\[ and \\& for the characters");
        } else if (th_accept(&r->in, "\\")) {
            if (!read_class(r, true))
                read_escape(r);
            else if (th_next_is(&r->in, "-") && !(r->in.at + 1 < r->in.end && r->in.at[1] == ']'))
                complain(r, "a range begins with a class");
        } else {
            read_character(r);
        }
    }
    th_accept(&r->in, "]");
    emit_text(r, "]");
}

/* -- groups and repetitions -- */

static void read_group(reader *r)
{
    static const char *const kinds[] = {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"};
    const char *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && kind == NULL; i++)
        if (th_accept(&r->in, kinds[i]))
            kind = kinds[i];
    if (kind == NULL && th_next_is(&r->in, "?"))
        complain(r, "a group begins with (? and something other than : i: = ! <= <! >");
    if (th_next_is(&r->in, "*"))
        complain(r, "a group begins with (*");
    if (r->groups == MAX_GROUPS)
        complain(r, "groups are nested deeper than %d", MAX_GROUPS);
    const bool before = ignores_case(r);
    r->looks_around[r->groups + 1] = kind && strchr("=!", kind[strlen(kind) - 1]);
    r->ignores_case[++r->groups] = before || (kind && strcmp(kind, "?i:") == 0);
    emit_text(r, "(");
    emit_text(r, kind ? kind : "?:");
}

/* Reads {n}, {n,} or {n,m}, after the brace. Returns whether it is {n}. */
static bool read_counts(reader *r)
{
    const char *begin = r->in.at - 1;
    int numbers = 0, digits = 0;
    bool comma = false;
    for (; r->in.at < r->in.end && *r->in.at != '}'; r->in.at++) {
        if (*r->in.at == ',' && !comma && digits > 0) {
            comma = true;
            digits = 0;
        } else if (*r->in.at >= '0' && *r->in.at <= '9' && ++digits < 5) {
            numbers += digits == 1;
        } else {
            break;
        }
    }
    if (!th_accept(&r->in, "}") || numbers == 0)
        complain(r, "a { does not begin {n}, {n,} or {n,m} with n and m below 10000; write \\{ for the character");
    emit(r, begin, (size_t)(r->in.at - begin));
    return !comma;
}

/* Reads a repetition if there is one. */
static void read_repetition(reader *r)
{
    bool counted = false, exact = false;
    if (th_accept(&r->in, "{")) {
        counted = true;
        exact = read_counts(r);
    } else if (th_next_is(&r->in, "*") || th_next_is(&r->in, "+") || th_next_is(&r->in, "?")) {
        emit(r, r->in.at++, 1);
    } else {
        return;
    }
    if (th_next_is(&r->in, "+") && counted)
        complain(r, "{}+ is ambiguous; put the repeated part in (?:)");
    if (th_next_is(&r->in, "?") && exact)
        complain(r, "{n}? is ambiguous; put the repeated part in (?:)");
    if (th_next_is(&r->in, "+") || th_next_is(&r->in, "?"))
        emit(r, r->in.at++, 1);
    if (th_next_is(&r->in, "+") || th_next_is(&r->in, "?") || th_next_is(&r->in, "*") || th_next_is(&r->in, "{"))
        complain(r, "a repetition is repeated; put the repeated part in (?:)");
}

static void read_next(reader *r)
{
    bool repeatable = true;
    if (th_accept(&r->in, "\\")) {
        if (!read_class(r, false))
            read_escape(r);
    } else if (th_accept(&r->in, "[")) {
        read_set(r);
    } else if (th_accept(&r->in, "(")) {
        read_group(r);
        repeatable = false;
    } else if (th_accept(&r->in, ")")) {
        if (r->groups-- == 0) {
            complain(r, "a ) has no matching (");
            r->groups = 0;
        }
        emit_text(r, ")");
        if (r->looks_around[r->groups + 1] && r->in.at < r->in.end && strchr("*+?{", *r->in.at))
            complain(r, "a lookaround group is repeated, which is not supported");
    } else if (th_accept(&r->in, "|")) {
        emit_text(r, "|");
        repeatable = false;
    } else if (th_next_is(&r->in, "^") || th_next_is(&r->in, "$")) {
        complain(r, "%c is not supported", *r->in.at);
    } else if (strchr("*+?{", *r->in.at)) {
        complain(r, "there is nothing before %c to repeat", *r->in.at);
    } else if (th_next_is(&r->in, "]") || th_next_is(&r->in, "}")) {
        emit(r, (const char[]){'\\', *r->in.at++}, 2);
    } else {
        read_character(r);
    }
    if (repeatable)
        read_repetition(r);
}

bool th_pattern_translate(const char *expression, size_t count, char *translated, size_t capacity,
                          char trouble[TH_PATTERN_TROUBLE])
{
    trouble[0] = 0;
    reader r = {.in = {expression, expression + count}, .out = translated, .capacity = capacity, .trouble = trouble};
    translated[0] = 0;
    if (count > TH_MAX_PATTERN)
        complain(&r, "it has %zu bytes, more than %d", count, TH_MAX_PATTERN);
    if (memchr(expression, 0, count))
        complain(&r, "it contains a NUL");
    while (is_valid(&r) && r.in.at < r.in.end)
        read_next(&r);
    if (r.groups > 0)
        complain(&r, "a ( is not closed");
    return is_valid(&r);
}
