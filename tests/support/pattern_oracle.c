/* Translates expressions from Oniguruma's syntax to PCRE2's, and matches them: see pattern_oracle.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pattern_oracle.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/text/unicode_additions.h"

struct oracle {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

enum { MATCH_LIMIT = 100000, LONGEST_CLASS = 4000 };

/* Writes a category or a script, and its characters that PCRE2 perhaps does not know. */
static char *write_property(const char *name, char *to)
{
    const bool han = strcmp(name, "Han") == 0;
    to += sprintf(to, "\\p{%s%s}%s", han ? "sc:" : "", name,
                  han ? "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}" : "");
    for (size_t i = 0; !han && i < sizeof th_unicode_additions / sizeof *th_unicode_additions; i++) {
        const th_unicode_range *added = &th_unicode_additions[i];
        if (strcmp(name, added->category) == 0 || (name[1] == 0 && name[0] == added->category[0]))
            to += sprintf(to, "\\x{%x}-\\x{%x}", (unsigned)added->first, (unsigned)added->last);
    }
    return to;
}

/* Writes \s, \S, \d, \D, \p{..} or \P{..}, if it is at `from`. PCRE2's \s has a character that is not White_Space.
 * Returns the position behind it, or NULL. */
static const char *write_class(const char *from, bool within, char **to)
{
    static const char space[] =
        "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
    char name[8] = "Nd";
    int bytes = 0;
    if (from[0] != '\\' || from[1] == 0 || !strchr("sSdDpP", from[1]))
        return NULL;
    if ((from[1] | 32) == 'p')
        (void)sscanf(from + 2, "{%7[^}]}%n", name, &bytes);
    if (!within)
        *to += sprintf(*to, from[1] < 'a' ? "[^" : "[");
    *to = (from[1] | 32) == 's' ? *to + sprintf(*to, "%s", space) : write_property(name, *to);
    if (!within)
        *to += sprintf(*to, "]");
    return from + 2 + bytes;
}

/* Writes another character. Returns the position behind it. */
static const char *write_other(const char *from, bool within, char **to)
{
    const bool escaped = *from == '\\', code = escaped && from[1] == 'u';
    if (code)
        *to += sprintf(*to, "\\x{%.4s}", from + 2);
    else if (escaped && from[1] == 'v')
        *to += sprintf(*to, "\\x0b");
    else if (escaped)
        *to += sprintf(*to, "%.2s", from);
    else if (!within && *from == '(' && from[1] != '?')
        *to += sprintf(*to, "(?:");
    else if (!within && *from == ']')
        *to += sprintf(*to, "\\]");
    else
        *(*to)++ = *from;
    return from + (code ? 6 : escaped ? 2 : 1);
}

/* Returns an expression in PCRE2's syntax, which the caller frees. */
static char *translate(const char *expression, size_t count)
{
    char *copy = calloc(1, count + 8), *text = malloc(count / 2 * LONGEST_CLASS + 8), *to = text;
    memcpy(copy, expression, count);
    bool within = false;
    for (const char *from = copy; *from;) {
        const char *behind = write_class(from, within, &to);
        if (behind == NULL) {
            behind = write_other(from, within, &to);
            within = *from == '[' ? true : *from == ']' ? false : within;
        }
        from = behind;
    }
    *to = 0;
    free(copy);
    return text;
}

oracle *oracle_new(const char *expression, size_t count)
{
    int error;
    PCRE2_SIZE at;
    char *translated = translate(expression, count);
    pcre2_compile_context *newlines = pcre2_compile_context_create(NULL);
    pcre2_set_newline(newlines, PCRE2_NEWLINE_LF);
    /* two of its optimizations miss matches: of (?=a)b*?a, and of [bc]{2,}(?:(?i:k)?+[bc]) */
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_START_OPTIMIZE | PCRE2_NO_AUTO_POSSESS;
    oracle *o = calloc(1, sizeof *o);
    o->code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, options, &error, &at, newlines);
    pcre2_compile_context_free(newlines);
    free(translated);
    if (o->code == NULL) {
        free(o);
        return NULL;
    }
    o->data = pcre2_match_data_create(1, NULL);
    o->context = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(o->context, MATCH_LIMIT);
    return o;
}

void oracle_free(oracle *o)
{
    if (o == NULL)
        return;
    pcre2_match_data_free(o->data);
    pcre2_match_context_free(o->context);
    pcre2_code_free(o->code);
    free(o);
}

bool oracle_match(oracle *o, const char *text, size_t count, size_t at, size_t *end)
{
    const int found =
        pcre2_match(o->code, (PCRE2_SPTR)text, count, at, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, o->data, o->context);
    *end = found > 0 ? pcre2_get_ovector_pointer(o->data)[1] : at;
    return found > 0 || found == PCRE2_ERROR_NOMATCH;
}

bool oracle_next(oracle *o, const char *text, size_t count, size_t from, size_t *begin, size_t *end)
{
    for (*begin = *end = from; *begin < count; ++*begin) {
        if (((unsigned char)text[*begin] & 0xc0) == 0x80)
            continue;
        if (!oracle_match(o, text, count, *begin, end))
            return false;
        if (*end > *begin)
            return true;
    }
    *end = *begin;
    return true;
}
