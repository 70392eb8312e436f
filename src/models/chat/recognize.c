/* Recognizes a chat template by its text. The text is first brought into a normal form, without what never
 * changes the output:
 *
 *   - carriage returns
 *   - white space at both ends, and white space that a hyphen of a tag removes
 *   - spaces inside tags
 *   - the text of comments
 *   - whether a newline in a string is written as \n
 *
 * The normal form is compared by its length and its hash, which scripts/interop/chat_templates.py prints. */
#include <ctype.h>
#include <string.h>

#include "models/chat/chat.h"
#include "models/chat/known_templates.h"

typedef struct scanner {
    const char *at, *end;
    uint64_t hash; /* FNV-1a */
    uint64_t count;
    char last; /* the last byte of the normal form */
} scanner;

static void hash_character(scanner *s, char c)
{
    s->hash = (s->hash ^ (unsigned char)c) * UINT64_C(1099511628211);
    s->count++;
    s->last = c;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool begins_with(const scanner *s, char first, char second)
{
    return s->end - s->at >= 2 && s->at[0] == first && s->at[1] == second;
}

/* Returns whether the tag or comment that ends before s->at removes the white space after it. */
static bool strips_after(const scanner *s, const char *begin)
{
    return s->at - begin >= 5 && s->at[-3] == '-';
}

/* Reads text up to a tag or a comment, or to the end. strip: a hyphen removes the white space before it. */
static void scan_text(scanner *s, bool strip)
{
    while (strip && s->at < s->end && is_space(*s->at))
        s->at++;
    const char *end = s->at;
    while (end < s->end && !(s->end - end >= 2 && *end == '{' && strchr("#%{", end[1]) && end[1]))
        end++;
    const char *kept = end;
    if (s->end - end >= 3 && end[2] == '-')
        while (kept > s->at && is_space(kept[-1]))
            kept--;
    for (; s->at < kept; s->at++)
        if (*s->at != '\r')
            hash_character(s, *s->at);
    s->at = end;
}

/* Reads a comment, whose text does not matter, but whose hyphens remove white space. */
static void scan_comment(scanner *s)
{
    hash_character(s, '{');
    hash_character(s, '#');
    s->at += 2;
    if (s->at < s->end && *s->at == '-')
        hash_character(s, '-');
    while (s->at < s->end && !begins_with(s, '#', '}'))
        s->at++;
    if (s->at < s->end && s->at[-1] == '-')
        hash_character(s, '!');
    hash_character(s, '#');
    s->at = s->end - s->at >= 2 ? s->at + 2 : s->end;
}

static void scan_string(scanner *s)
{
    const char quote = *s->at;
    hash_character(s, *s->at++);
    while (s->at < s->end && *s->at != quote) {
        if (*s->at == '\n') {
            hash_character(s, '\\');
            hash_character(s, 'n');
        } else if (*s->at != '\r')
            hash_character(s, *s->at);
        if (*s->at++ == '\\' && s->at < s->end)
            hash_character(s, *s->at++);
    }
    if (s->at < s->end)
        hash_character(s, *s->at++);
}

/* Reads a tag up to its end, "%}" or "}}". */
static void scan_tag(scanner *s)
{
    const char end = s->at[1] == '{' ? '}' : '%';
    hash_character(s, *s->at++);
    hash_character(s, *s->at++);
    bool space = false;
    while (s->at < s->end && !begins_with(s, end, '}')) {
        if (is_space(*s->at)) {
            space = true;
            s->at++;
            continue;
        }
        if (space && is_word(s->last) && is_word(*s->at))
            hash_character(s, ' ');
        space = false;
        if (*s->at == '\'' || *s->at == '"')
            scan_string(s);
        else
            hash_character(s, *s->at++);
    }
    for (int i = 0; i < 2 && s->at < s->end; i++)
        hash_character(s, *s->at++);
}

static scanner normalize(const char *jinja, size_t bytes)
{
    scanner s = {.at = jinja, .end = jinja + bytes, .hash = UINT64_C(14695981039346656037)};
    if (s.end > s.at && s.end[-1] == '\n') /* Jinja writes other white space at both ends */
        s.end--;
    if (s.end > s.at && s.end[-1] == '\r')
        s.end--;
    for (bool strip = false; s.at < s.end;) {
        scan_text(&s, strip);
        const char *begin = s.at;
        if (begins_with(&s, '{', '#'))
            scan_comment(&s);
        else if (s.at < s.end)
            scan_tag(&s);
        strip = strips_after(&s, begin);
    }
    return s;
}

const th_chat_kind *th_chat_recognize(const char *jinja, size_t bytes)
{
    const scanner s = normalize(jinja, bytes);
    for (size_t i = 0; i < sizeof known_templates / sizeof *known_templates; i++)
        if (known_templates[i].hash == s.hash && known_templates[i].count == s.count)
            for (int kind = 0; kind < TH_CHAT_KINDS; kind++)
                if (strcmp(th_chat_table[kind].name, known_templates[i].kind) == 0)
                    return &th_chat_table[kind];
    return NULL;
}
