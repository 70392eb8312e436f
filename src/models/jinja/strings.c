/* Strings as Python's str changes them: white space, replacement, case, escaping, "%" formats. */
#include <string.h>

#include <utf8proc.h>

#include "models/core/files.h"
#include "models/jinja/value.h"
#include "models/text/characters.h"

/* -- white space and other characters at both ends -- */

/* Returns the length of the character at p if it is in the set; 0 otherwise. set NULL: white space. */
static size_t in_set(const char *p, size_t count, const th_jinja_string *set)
{
    if (set == NULL)
        return th_white_space_length(p, count);
    for (size_t at = 0; at < set->count;) {
        const th_jinja_string rest = {.bytes = set->bytes + at, .count = set->count - at};
        const size_t length = th_jinja_byte_of(&rest, 1);
        if (length <= count && memcmp(p, rest.bytes, length) == 0)
            return length;
        at += length;
    }
    return 0;
}

th_jinja_value th_jinja_strip(th_jinja_run *run, const th_jinja_string *text, const th_jinja_string *characters,
                              int mode)
{
    size_t begin = 0, end = text->count;
    const size_t cost = characters ? characters->count : 1;
    for (size_t n; mode & 1 && th_jinja_step(run, cost) && (n = in_set(text->bytes + begin, end - begin, characters));)
        begin += n;
    while (mode & 2 && end > begin && th_jinja_step(run, cost)) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)text->bytes[last] & 0xc0) == 0x80)
            last--;
        if (in_set(text->bytes + last, end - last, characters) != end - last)
            break;
        end = last;
    }
    return th_jinja_string_of(run, text->bytes + begin, end - begin);
}

th_jinja_value th_jinja_replace(th_jinja_run *run, const th_jinja_string *text, const th_jinja_string *old,
                                const th_jinja_string *new, int64_t most)
{
    const size_t begin = th_jinja_capture(run);
    size_t at = 0;
    const char *found;
    if (!th_jinja_step(run, text->count / 8))
        most = 0;
    if (old->count == 0)
        while (at <= text->count && most != 0 && !run->failed) { /* before each character, and at the end */
            const th_jinja_string rest = {.bytes = text->bytes + at, .count = text->count - at};
            const size_t length = th_jinja_byte_of(&rest, 1);
            th_jinja_write(run, new->bytes, new->count);
            th_jinja_write(run, rest.bytes, length);
            most--;
            at += length > 0 ? length : 1;
        }
    else
        while (most != 0 && !run->failed && at < text->count &&
               (found = memmem(text->bytes + at, text->count - at, old->bytes, old->count)) != NULL) {
            th_jinja_write(run, text->bytes + at, (size_t)(found - text->bytes) - at);
            th_jinja_write(run, new->bytes, new->count);
            at = (size_t)(found - text->bytes) + old->count;
            most--;
        }
    if (at < text->count)
        th_jinja_write(run, text->bytes + at, text->count - at);
    return th_jinja_captured(run, begin);
}

/* -- case -- */

static bool is_letter(uint32_t code)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LM;
}

static void write_code(th_jinja_run *run, uint32_t code)
{
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t count = utf8proc_encode_char((utf8proc_int32_t)code, bytes);
    th_jinja_write(run, (const char *)bytes, (size_t)count);
}

static void write_upper(th_jinja_run *run, uint32_t code, bool title)
{
    if (code == 0xdf) /* the German sharp s */
        th_jinja_write(run, title ? "Ss" : "SS", 2);
    else
        write_code(run, (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)code)
                                         : utf8proc_toupper((utf8proc_int32_t)code)));
}

/* Whether jinja2's title begins a word behind this character. */
static bool divides_words(uint32_t code)
{
    return code < 128 &&
           (strchr("-({[<", (int)code) != NULL || th_white_space_length((const char[]){(char)code}, 1) > 0);
}

th_jinja_value th_jinja_change_case(th_jinja_run *run, const th_jinja_string *text, char mode)
{
    const size_t begin = th_jinja_capture(run);
    bool first = true; /* of a word, or of the text */
    for (size_t at = 0; at < text->count && !run->failed;) {
        const int length = th_character_length(text->bytes + at, text->count - at);
        if (length == 0)
            break;
        const uint32_t code = th_character_code(text->bytes + at, length);
        if (mode == 'u')
            write_upper(run, code, false);
        else if (mode != 'l' && first)
            write_upper(run, code, mode != 'T');
        else
            write_code(run, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
        first = mode == 't' ? !is_letter(code) : mode == 'T' && divides_words(code);
        at += (size_t)length;
    }
    return th_jinja_captured(run, begin);
}

/* -- escaping for HTML -- */

th_jinja_value th_jinja_escape(th_jinja_run *run, th_jinja_value value)
{
    static const char characters[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    const th_jinja_value text = th_jinja_str(run, value);
    if (run->failed || text.string->safe)
        return text;
    const size_t begin = th_jinja_capture(run);
    for (size_t i = 0; i < text.string->count && !run->failed; i++) {
        const char *c = memchr(characters, text.string->bytes[i], sizeof characters - 1);
        if (c)
            th_jinja_write(run, names[c - characters], strlen(names[c - characters]));
        else
            th_jinja_write(run, text.string->bytes + i, 1);
    }
    const th_jinja_value escaped = th_jinja_captured(run, begin);
    th_jinja_string *safe = th_jinja_new(run, sizeof *safe);
    if (safe == NULL)
        return escaped;
    *safe = *escaped.string;
    safe->safe = true;
    return (th_jinja_value){.kind = TH_JINJA_STRING, .string = safe};
}

/* -- "%" -- */

static void write_converted(th_jinja_run *run, char letter, th_jinja_value value)
{
    if (letter == 's')
        th_jinja_write_value(run, value);
    else if (letter == 'r')
        th_jinja_write_repr(run, value);
    else if ((letter == 'd' || letter == 'i') && th_jinja_is_number(value) && value.kind != TH_JINJA_FLOAT)
        th_jinja_write_format(run, "%lld",
                              (long long)(value.kind == TH_JINJA_INT ? value.integer : (int64_t)value.boolean));
    else
        th_jinja_fail(run, "the format %%%c of a %s is not supported", letter, th_jinja_type(value));
}

th_jinja_value th_jinja_percent(th_jinja_run *run, const th_jinja_string *format, th_jinja_value arguments)
{
    const bool many = arguments.kind == TH_JINJA_TUPLE;
    const size_t count = many ? arguments.list->count : 1;
    const size_t begin = th_jinja_capture(run);
    size_t used = 0;
    for (size_t i = 0; i < format->count && !run->failed; i++) {
        const char letter = i + 1 < format->count ? format->bytes[i + 1] : 0;
        if (format->bytes[i] != '%')
            th_jinja_write(run, format->bytes + i, 1);
        else if (letter == '%')
            th_jinja_write(run, format->bytes + i++, 1);
        else if (used == count)
            th_jinja_fail(run, "the format needs more than %zu values", count);
        else {
            write_converted(run, letter, many ? arguments.list->item[used] : arguments);
            used++;
            i++;
        }
    }
    if (used < count && arguments.kind != TH_JINJA_DICT)
        th_jinja_fail(run, "the format uses %zu of %zu values", used, count);
    return th_jinja_captured(run, begin);
}
