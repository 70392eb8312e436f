/* The text of values: Python's str and repr, and JSON as transformers writes it. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "models/core/files.h"
#include "models/jinja/value.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/unicode.h"

/* -- the output -- */

bool th_jinja_append(th_text *text, const char *bytes, size_t count)
{
    if (count > PTRDIFF_MAX - 1 - text->count || !TH_GROW(text->bytes, text->capacity, text->count + count + 1))
        return false;
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = 0;
    return true;
}

void th_jinja_write(th_jinja_run *run, const char *bytes, size_t count)
{
    th_text *text = &run->result->text;
    if (run->failed || count == 0 || !th_jinja_step(run, 1 + count / 64))
        return;
    if (count > run->most_output || text->count > run->most_output - count)
        th_jinja_fail(run, "the template writes more than %zu bytes", run->most_output);
    else if (!th_jinja_append(text, bytes, count)) {
        th_jinja_fail(run, "memory ran out");
        run->status = TH_ERROR_MEMORY;
    }
}

void th_jinja_write_format(th_jinja_run *run, const char *format, ...)
{
    char text[200] = "";
    va_list arguments;
    if (!th_jinja_step(run, 16)) /* formatting takes as long */
        return;
    va_start(arguments, format);
    th_append_arguments(text, sizeof text, format, arguments);
    va_end(arguments);
    th_jinja_write(run, text, strlen(text));
}

size_t th_jinja_capture(th_jinja_run *run)
{
    if (run->captures++ == 0)
        run->base = run->result->text.count;
    return run->result->text.count;
}

th_jinja_value th_jinja_captured(th_jinja_run *run, size_t begin)
{
    th_text *text = &run->result->text;
    const size_t count = text->count - begin;
    run->captures--;
    char *bytes = th_jinja_new(run, count + 1);
    if (bytes == NULL)
        return th_jinja_undefined();
    memcpy(bytes, text->bytes + begin, count);
    text->count = begin;
    text->bytes[begin] = 0;
    return th_jinja_string_of(run, bytes, count);
}

/* -- numbers -- */

static void write_float(th_jinja_run *run, double value, bool json)
{
    if (value != value || value - value != 0) {
        const bool negative = value < 0;
        const char *name = value != value ? (json ? "NaN" : "nan") : json ? "Infinity" : "inf";
        th_jinja_write_format(run, "%s%s", negative ? "-" : "", name);
        return;
    }
    const double size = fabs(value);
    const bool positional = size == 0 || (size >= 1e-4 && size < 1e16);
    const th_decimal d = positional ? th_decimal_positional(value, false, -1) : th_decimal_scientific(value, false, -1);
    const char *zero = positional && d.fraction[0] == 0 ? "0" : "";
    th_jinja_write_format(run, "%s%s%s%s%s", d.negative ? "-" : "", d.whole, d.fraction[0] || *zero ? "." : "",
                          d.fraction, zero);
    if (!positional)
        th_jinja_write_format(run, "e%c%s", d.exponent_negative ? '-' : '+', d.exponent);
}

/* -- strings -- */

static bool is_printable(uint32_t code)
{
    static const char *const names[] = {"C", "Zl", "Zp", "Zs"};
    const uint32_t category = UINT32_C(1) << th_unicode_category(code);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (th_unicode_categories(names[i]) & category)
            return code == ' ';
    return true;
}

static void write_quoted(th_jinja_run *run, const th_jinja_string *string)
{
    static const char escaped[] = "\t\n\r\\", letters[] = "tnr\\";
    const bool single = memchr(string->bytes, '\'', string->count) != NULL;
    const char quote = single && memchr(string->bytes, '"', string->count) == NULL ? '"' : '\'';
    th_jinja_write(run, &quote, 1);
    for (size_t at = 0; at < string->count && !run->failed;) {
        const char *p = string->bytes + at;
        const int length = th_character_length(p, string->count - at);
        const uint32_t code = length > 0 ? th_character_code(p, length) : (unsigned char)*p;
        const char *letter = code < 128 ? memchr(escaped, (int)code, sizeof escaped - 1) : NULL;
        if (letter)
            th_jinja_write_format(run, "\\%c", letters[letter - escaped]);
        else if (code == (unsigned char)quote)
            th_jinja_write_format(run, "\\%c", quote);
        else if (!is_printable(code))
            th_jinja_write_format(run,
                                  code < 0x100     ? "\\x%02x"
                                  : code < 0x10000 ? "\\u%04x"
                                                   : "\\U%08x",
                                  (unsigned)code);
        else
            th_jinja_write(run, p, (size_t)(length > 0 ? length : 1));
        at += (size_t)(length > 0 ? length : 1);
    }
    th_jinja_write(run, &quote, 1);
}

/* -- values -- */

static void write_list(th_jinja_run *run, const th_jinja_list *list, const char *brackets)
{
    th_jinja_write(run, brackets, 1);
    for (size_t i = 0; i < list->count && !run->failed; i++) {
        th_jinja_write(run, ", ", i > 0 ? 2 : 0);
        th_jinja_write_repr(run, list->item[i]);
    }
    th_jinja_write(run, ",", brackets[0] == '(' && list->count == 1);
    th_jinja_write(run, brackets + 1, 1);
}

static void write_dict(th_jinja_run *run, const th_jinja_dict *dict)
{
    th_jinja_write(run, "{", 1);
    for (size_t i = 0; i < dict->count && !run->failed; i++) {
        th_jinja_write(run, ", ", i > 0 ? 2 : 0);
        th_jinja_write_repr(run, dict->member[i].key);
        th_jinja_write(run, ": ", 2);
        th_jinja_write_repr(run, dict->member[i].value);
    }
    th_jinja_write(run, "}", 1);
}

static void write_container(th_jinja_run *run, th_jinja_value value)
{
    if (++run->depth > TH_JINJA_DEPTH)
        th_jinja_fail(run, "the value is nested too deep");
    else if (value.kind == TH_JINJA_DICT)
        write_dict(run, value.dict);
    else {
        const char *view = value.list->view;
        if (view)
            th_jinja_write_format(run, "%s(", view);
        write_list(run, value.list, value.kind == TH_JINJA_LIST ? "[]" : "()");
        th_jinja_write(run, ")", view != NULL);
    }
    run->depth--;
}

void th_jinja_write_repr(th_jinja_run *run, th_jinja_value value)
{
    if (run->failed)
        return;
    switch (value.kind) {
    case TH_JINJA_UNDEFINED:
        th_jinja_write(run, "Undefined", 9);
        break;
    case TH_JINJA_NONE:
        th_jinja_write(run, "None", 4);
        break;
    case TH_JINJA_BOOL:
        th_jinja_write(run, value.boolean ? "True" : "False", value.boolean ? 4 : 5);
        break;
    case TH_JINJA_INT:
        th_jinja_write_format(run, "%lld", (long long)value.integer);
        break;
    case TH_JINJA_FLOAT:
        write_float(run, value.real, false);
        break;
    case TH_JINJA_STRING:
        write_quoted(run, value.string);
        break;
    case TH_JINJA_LIST:
    case TH_JINJA_TUPLE:
    case TH_JINJA_DICT:
        write_container(run, value);
        break;
    default:
        th_jinja_fail(run, "the text of a %s is not supported", th_jinja_type(value));
    }
}

void th_jinja_write_value(th_jinja_run *run, th_jinja_value value)
{
    if (value.kind == TH_JINJA_STRING && !run->failed)
        th_jinja_write(run, value.string->bytes, value.string->count);
    else if (value.kind != TH_JINJA_UNDEFINED)
        th_jinja_write_repr(run, value);
}

th_jinja_value th_jinja_str(th_jinja_run *run, th_jinja_value value)
{
    if (value.kind == TH_JINJA_STRING)
        return value;
    const size_t begin = th_jinja_capture(run);
    th_jinja_write_value(run, value);
    return th_jinja_captured(run, begin);
}

/* -- JSON -- */

typedef struct json_style {
    bool ascii, sorted;
    const th_jinja_string *indent; /* NULL: one line */
    th_jinja_string comma, colon;
} json_style;

static void write_json(th_jinja_run *run, const json_style *style, th_jinja_value value, size_t level);

static void write_json_unit(th_jinja_run *run, uint32_t code)
{
    if (code >= 0x10000)
        th_jinja_write_format(run, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                              (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
    else
        th_jinja_write_format(run, "\\u%04x", (unsigned)code);
}

static void write_json_string(th_jinja_run *run, const json_style *style, const th_jinja_string *string)
{
    static const char escaped[] = "\t\n\r\f\b\\\"", letters[] = "tnrfb\\\"";
    th_jinja_write(run, "\"", 1);
    for (size_t at = 0; at < string->count && !run->failed;) {
        const char *p = string->bytes + at;
        const int valid = th_character_length(p, string->count - at), length = valid > 0 ? valid : 1;
        const uint32_t code = valid > 0 ? th_character_code(p, valid) : (unsigned char)*p;
        const char *letter = code < 128 ? memchr(escaped, (int)code, sizeof escaped - 1) : NULL;
        if (letter)
            th_jinja_write_format(run, "\\%c", letters[letter - escaped]);
        else if (code < 0x20 || (style->ascii && code > 0x7e))
            write_json_unit(run, code);
        else
            th_jinja_write(run, p, (size_t)length);
        at += (size_t)length;
    }
    th_jinja_write(run, "\"", 1);
}

static void write_json_line(th_jinja_run *run, const json_style *style, size_t level)
{
    if (style->indent == NULL)
        return;
    th_jinja_write(run, "\n", 1);
    for (size_t i = 0; i < level && !run->failed; i++)
        th_jinja_write(run, style->indent->bytes, style->indent->count);
}

static void write_json_key(th_jinja_run *run, const json_style *style, th_jinja_value key)
{
    if (key.kind == TH_JINJA_STRING) {
        write_json_string(run, style, key.string);
        return;
    }
    if (key.kind == TH_JINJA_TUPLE || key.kind == TH_JINJA_UNDEFINED) {
        th_jinja_fail(run, "a %s cannot be a key of JSON", th_jinja_type(key));
        return;
    }
    th_jinja_write(run, "\"", 1);
    write_json(run, style, key, 0);
    th_jinja_write(run, "\"", 1);
}

/* Returns a copy of the dict with its keys in order. */
static const th_jinja_dict *sorted_dict(th_jinja_run *run, const th_jinja_dict *dict)
{
    th_jinja_dict *sorted = th_jinja_dict_of(run, TH_JINJA_DICT).dict;
    for (size_t i = 0; i < dict->count && !run->failed; i++) {
        th_jinja_put(run, sorted, dict->member[i].key, dict->member[i].value);
        for (size_t at = i; !run->failed && at > 0; at--) {
            th_jinja_member *m = &sorted->member[at], later = *m;
            if (th_jinja_order(run, m[-1].key, later.key, "<") <= 0)
                break;
            *m = m[-1];
            m[-1] = later;
        }
    }
    return run->failed ? dict : sorted;
}

static void write_json_container(th_jinja_run *run, const json_style *style, th_jinja_value value, size_t level)
{
    const bool object = value.kind == TH_JINJA_DICT;
    const th_jinja_dict *dict = !object ? NULL : style->sorted ? sorted_dict(run, value.dict) : value.dict;
    const size_t count = object ? dict->count : value.list->count;
    th_jinja_write(run, object ? "{" : "[", 1);
    for (size_t i = 0; i < count && !run->failed; i++) {
        if (i > 0)
            th_jinja_write(run, style->comma.bytes, style->comma.count);
        write_json_line(run, style, level + 1);
        if (object) {
            write_json_key(run, style, dict->member[i].key);
            th_jinja_write(run, style->colon.bytes, style->colon.count);
        }
        write_json(run, style, object ? dict->member[i].value : value.list->item[i], level + 1);
    }
    if (count > 0)
        write_json_line(run, style, level);
    th_jinja_write(run, object ? "}" : "]", 1);
}

static void write_json(th_jinja_run *run, const json_style *style, th_jinja_value value, size_t level)
{
    if (run->failed)
        return;
    if (th_jinja_is_sequence(value) && value.list->view) {
        th_jinja_fail(run, "a %s cannot be written as JSON", value.list->view);
        return;
    }
    switch (value.kind) {
    case TH_JINJA_NONE:
        th_jinja_write(run, "null", 4);
        break;
    case TH_JINJA_BOOL:
        th_jinja_write(run, value.boolean ? "true" : "false", value.boolean ? 4 : 5);
        break;
    case TH_JINJA_FLOAT:
        write_float(run, value.real, true);
        break;
    case TH_JINJA_INT:
        th_jinja_write_repr(run, value);
        break;
    case TH_JINJA_STRING:
        write_json_string(run, style, value.string);
        break;
    case TH_JINJA_LIST:
    case TH_JINJA_TUPLE:
    case TH_JINJA_DICT:
        if (level >= TH_JINJA_DEPTH / 2)
            th_jinja_fail(run, "the value is nested too deep");
        else
            write_json_container(run, style, value, level);
        break;
    default:
        th_jinja_fail(run, "a %s cannot be written as JSON", th_jinja_type(value));
    }
}

/* Sets the string that one level is indented with. */
static void set_indent(th_jinja_run *run, th_jinja_value indent, json_style *style)
{
    static const th_jinja_string comma = {.bytes = ",", .count = 1};
    if (indent.kind == TH_JINJA_UNDEFINED || indent.kind == TH_JINJA_NONE)
        return;
    style->comma = comma;
    if (indent.kind == TH_JINJA_STRING) {
        style->indent = indent.string;
        return;
    }
    const double wanted = th_jinja_is_number(indent) ? th_jinja_number(indent) : 1e9;
    const size_t begin = th_jinja_capture(run);
    if (wanted > 1000)
        th_jinja_fail(run, "the indent of tojson must be a small number or a text");
    for (int i = 0; i < wanted && !run->failed; i++)
        th_jinja_write(run, " ", 1);
    style->indent = th_jinja_captured(run, begin).string;
}

th_jinja_value th_jinja_to_json(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    enum { ASCII, INDENT, SEPARATORS, SORTED, COUNT };
    th_jinja_value argument[COUNT];
    json_style style = {.comma = {.bytes = ", ", .count = 2}, .colon = {.bytes = ": ", .count = 2}};
    if (!th_jinja_bind(run, "tojson", "ensure_ascii=,indent=,separators=,sort_keys=", given, argument))
        return value;
    set_indent(run, argument[INDENT], &style);
    style.ascii = th_jinja_truth(argument[ASCII]);
    style.sorted = th_jinja_truth(argument[SORTED]);
    const th_jinja_value separators = argument[SEPARATORS];
    if (th_jinja_truth(separators)) {
        const bool pair = th_jinja_is_sequence(separators) && separators.list->count == 2 &&
                          separators.list->item[0].kind == TH_JINJA_STRING &&
                          separators.list->item[1].kind == TH_JINJA_STRING;
        if (!pair)
            return th_jinja_fail(run, "the separators of tojson must be two texts");
        style.comma = *separators.list->item[0].string;
        style.colon = *separators.list->item[1].string;
    }
    const size_t begin = th_jinja_capture(run);
    write_json(run, &style, value, 0);
    return th_jinja_captured(run, begin);
}
