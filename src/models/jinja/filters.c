/* The filters of a Jinja program: "value | name(arguments)". Those of lists are in list_filters.c. */
#include "models/jinja/filters.h"
#include "models/text/characters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const th_jinja_string *text_of(th_jinja_run *run, th_jinja_value value)
{
    static const th_jinja_string empty = {.bytes = "", .count = 0};
    const th_jinja_value text = th_jinja_str(run, value);
    return run->failed ? &empty : text.string;
}

/* -- text -- */

static th_jinja_value filter_case(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given, char mode)
{
    if (!th_jinja_bind(run, "the filter", "", given, NULL))
        return value;
    return th_jinja_change_case(run, text_of(run, value), mode);
}
static th_jinja_value filter_upper(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return filter_case(run, value, given, 'u');
}
static th_jinja_value filter_lower(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return filter_case(run, value, given, 'l');
}
static th_jinja_value filter_capitalize(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return filter_case(run, value, given, 'c');
}
static th_jinja_value filter_title(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return filter_case(run, value, given, 'T');
}

static th_jinja_value filter_trim(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value characters;
    if (!th_jinja_bind(run, "trim", "chars=", given, &characters))
        return value;
    if (characters.kind == TH_JINJA_UNDEFINED || characters.kind == TH_JINJA_NONE)
        return th_jinja_strip(run, text_of(run, value), NULL, 3);
    if (characters.kind != TH_JINJA_STRING)
        return th_jinja_fail(run, "trim needs a str; it has a %s", th_jinja_type(characters));
    return th_jinja_strip(run, text_of(run, value), characters.string, 3);
}

static th_jinja_value filter_string(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return th_jinja_bind(run, "string", "", given, NULL) ? th_jinja_str(run, value) : value;
}

static th_jinja_value filter_safe(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_string *safe = th_jinja_new(run, sizeof *safe);
    if (safe == NULL || !th_jinja_bind(run, "safe", "", given, NULL))
        return value;
    *safe = *text_of(run, value);
    safe->safe = true;
    return (th_jinja_value){.kind = TH_JINJA_STRING, .string = safe};
}

static th_jinja_value filter_escape(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    return th_jinja_bind(run, "escape", "", given, NULL) ? th_jinja_escape(run, value) : value;
}

static th_jinja_value filter_replace(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[3];
    if (!th_jinja_bind(run, "replace", "old,new,count=", given, argument))
        return value;
    const th_jinja_value count = argument[2];
    if (count.kind != TH_JINJA_INT && count.kind != TH_JINJA_UNDEFINED && count.kind != TH_JINJA_NONE)
        return th_jinja_fail(run, "the count of replace must be an integer; it is a %s", th_jinja_type(count));
    return th_jinja_replace(run, text_of(run, value), text_of(run, argument[0]), text_of(run, argument[1]),
                            count.kind == TH_JINJA_INT ? count.integer : -1);
}

static th_jinja_value filter_format(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    const th_jinja_value tuple = th_jinja_list_of(run, TH_JINJA_TUPLE, given->count);
    if (given->named.count > 0)
        return th_jinja_fail(run, "format with named values is not supported");
    for (size_t i = 0; i < given->count; i++)
        th_jinja_push(run, tuple, given->value[i]);
    return run->failed ? value : th_jinja_percent(run, text_of(run, value), tuple);
}

/* Returns the lines of a text, as Python's splitlines. */
static th_jinja_value lines_of(th_jinja_run *run, const th_jinja_string *text)
{
    static const th_jinja_string name = {.bytes = "splitlines", .count = 10};
    const th_jinja_arguments none = {0};
    const th_jinja_method method = {{.kind = TH_JINJA_STRING, .string = text}, &name};
    return th_jinja_call_method(run, &method, &none);
}

static th_jinja_value filter_indent(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[3];
    if (!th_jinja_bind(run, "indent", "width=,first=,blank=", given, argument))
        return value;
    if (argument[0].kind == TH_JINJA_UNDEFINED)
        argument[0] = th_jinja_int(4);
    const th_jinja_value indent = argument[0].kind == TH_JINJA_STRING
                                      ? argument[0]
                                      : th_jinja_arithmetic(run, '*', th_jinja_literal(run, " "), argument[0]);
    const th_jinja_string *text = text_of(run, value);
    const th_jinja_value lines = lines_of(run, text);
    if (run->failed)
        return value;
    /* a newline at the end begins an empty line, which jinja2 keeps */
    const bool open = text->count == 0 || text->bytes[text->count - 1] == '\n';
    const size_t count = lines.list->count + open, begin = th_jinja_capture(run);
    for (size_t i = 0; i < count && !run->failed; i++) {
        const bool empty = i == lines.list->count || lines.list->item[i].string->count == 0;
        const bool indents = i == 0 ? th_jinja_truth(argument[1]) : !empty || th_jinja_truth(argument[2]);
        th_jinja_write(run, "\n", i > 0);
        if (indents)
            th_jinja_write_value(run, indent);
        if (i < lines.list->count)
            th_jinja_write_value(run, lines.list->item[i]);
    }
    return th_jinja_captured(run, begin);
}

static th_jinja_value filter_center(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value width;
    if (!th_jinja_bind(run, "center", "width=", given, &width))
        return value;
    const th_jinja_string *text = text_of(run, value);
    const int64_t wanted = width.kind == TH_JINJA_INT ? width.integer : 80, length = (int64_t)th_jinja_length(text);
    const int64_t space = wanted > length ? wanted - length : 0, left = space / 2 + (space & wanted & 1);
    const size_t begin = th_jinja_capture(run);
    for (int64_t i = 0; i < left && !run->failed; i++)
        th_jinja_write(run, " ", 1);
    th_jinja_write(run, text->bytes, text->count);
    for (int64_t i = left; i < space && !run->failed; i++)
        th_jinja_write(run, " ", 1);
    return th_jinja_captured(run, begin);
}

static th_jinja_value filter_wordcount(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    (void)given;
    const th_jinja_string *text = text_of(run, value);
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < text->count && th_jinja_step(run, 1); i++) {
        const char c = text->bytes[i];
        const bool word =
            (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || (unsigned char)c >= 0x80;
        words += word && !inside;
        inside = word;
    }
    return th_jinja_int(words);
}

/* Returns the end of the words of a text that fit, for truncate. */
static size_t last_space(const th_jinja_string *text, size_t end)
{
    for (size_t i = end; i > 0; i--)
        if (text->bytes[i - 1] == ' ')
            return i - 1;
    return end;
}

static th_jinja_value filter_truncate(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[4];
    if (!th_jinja_bind(run, "truncate", "length=,killwords=,end=,leeway=", given, argument))
        return value;
    const th_jinja_string *text = text_of(run, value);
    const th_jinja_string dots = {.bytes = "...", .count = 3};
    const th_jinja_string *end = argument[2].kind == TH_JINJA_STRING ? argument[2].string : &dots;
    const int64_t length = argument[0].kind == TH_JINJA_INT ? argument[0].integer : 255;
    const int64_t leeway = argument[3].kind == TH_JINJA_INT ? argument[3].integer : 5;
    const int64_t of_end = (int64_t)th_jinja_length(end), count = (int64_t)th_jinja_length(text);
    if (length < of_end || leeway < 0)
        return th_jinja_fail(run, "truncate needs a length of at least %lld", (long long)of_end);
    if (count <= length || count - length <= leeway || run->failed)
        return (th_jinja_value){.kind = TH_JINJA_STRING, .string = text};
    size_t kept = th_jinja_byte_of(text, (size_t)(length - of_end));
    if (!th_jinja_truth(argument[1]))
        kept = last_space(text, kept);
    const size_t begin = th_jinja_capture(run);
    th_jinja_write(run, text->bytes, kept);
    th_jinja_write(run, end->bytes, end->count);
    return th_jinja_captured(run, begin);
}

/* -- numbers -- */

/* Reads a text as a number, with white space around it. Returns false for another text. */
static bool read_real(const th_jinja_string *text, double *value)
{
    char copy[80];
    size_t begin = 0, end = text->count;
    while (begin < end && th_white_space_length(text->bytes + begin, 1))
        begin++;
    while (end > begin && th_white_space_length(text->bytes + end - 1, 1))
        end--;
    const size_t plus = begin < end && text->bytes[begin] == '+';
    if (end - begin - plus >= sizeof copy || end - begin - plus == 0)
        return false;
    memcpy(copy, text->bytes + begin + plus, end - begin - plus);
    copy[end - begin - plus] = 0;
    json_t *json = json_loads(copy, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    const bool is_number = json_is_real(json);
    *value = json_real_value(json);
    json_decref(json);
    return is_number;
}

static th_jinja_value filter_int(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    double real = 0;
    if (!th_jinja_bind(run, "int", "default=,base=", given, argument))
        return value;
    const th_jinja_value other = argument[0].kind == TH_JINJA_UNDEFINED ? th_jinja_int(0) : argument[0];
    if (value.kind == TH_JINJA_INT || value.kind == TH_JINJA_BOOL)
        return th_jinja_arithmetic(run, '+', value, th_jinja_int(0));
    if (argument[1].kind == TH_JINJA_INT && argument[1].integer != 10)
        return th_jinja_fail(run, "int with another base than 10 is not supported");
    if (value.kind == TH_JINJA_FLOAT)
        real = value.real;
    else if (value.kind != TH_JINJA_STRING || !read_real(value.string, &real))
        return other;
    if (!(fabs(real) < 9.2e18))
        return real != real || real - real != 0 ? other : th_jinja_fail(run, "an integer is too large");
    if (value.kind == TH_JINJA_STRING && fabs(real) > 9e15)
        return th_jinja_fail(run, "the filter int is not supported for %.*s",
                             (int)th_smaller((int64_t)value.string->count, 60), value.string->bytes);
    return th_jinja_int((int64_t)real);
}

static th_jinja_value filter_float(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value other;
    double real = 0;
    if (!th_jinja_bind(run, "float", "default=", given, &other))
        return value;
    if (th_jinja_is_number(value))
        return th_jinja_float(th_jinja_number(value));
    if (value.kind == TH_JINJA_STRING && read_real(value.string, &real))
        return th_jinja_float(real);
    return other.kind == TH_JINJA_UNDEFINED ? th_jinja_float(0) : other;
}

static th_jinja_value filter_abs(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    if (!th_jinja_bind(run, "abs", "", given, NULL))
        return value;
    if (value.kind == TH_JINJA_FLOAT)
        return th_jinja_float(fabs(value.real));
    if (!th_jinja_is_number(value))
        return th_jinja_fail(run, "abs needs a number; it has a %s", th_jinja_type(value));
    return th_jinja_arithmetic(run, th_jinja_number(value) < 0 ? '-' : '+', th_jinja_int(0), value);
}

static th_jinja_value filter_round(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "round", "precision=,method=", given, argument))
        return value;
    const bool whole =
        argument[0].kind == TH_JINJA_UNDEFINED || (argument[0].kind == TH_JINJA_INT && argument[0].integer == 0);
    if (!th_jinja_is_number(value) || !whole)
        return th_jinja_fail(run, "round needs a number, and no digits; it has a %s", th_jinja_type(value));
    const double real = th_jinja_number(value);
    if (argument[1].kind == TH_JINJA_STRING && th_jinja_is(argument[1].string, "ceil"))
        return th_jinja_float(ceil(real));
    if (argument[1].kind == TH_JINJA_STRING && th_jinja_is(argument[1].string, "floor"))
        return th_jinja_float(floor(real));
    return value.kind == TH_JINJA_FLOAT ? th_jinja_float(rint(real)) : th_jinja_float(real);
}

/* -- any value -- */

static th_jinja_value filter_default(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "default", "default_value=,boolean=", given, argument))
        return value;
    const bool missing = value.kind == TH_JINJA_UNDEFINED || (th_jinja_truth(argument[1]) && !th_jinja_truth(value));
    return !missing ? value : given->count + given->named.count == 0 ? th_jinja_literal(run, "") : argument[0];
}

static th_jinja_value filter_length(th_jinja_run *run, th_jinja_value value, const th_jinja_arguments *given)
{
    if (!th_jinja_bind(run, "length", "", given, NULL))
        return value;
    if (value.kind == TH_JINJA_UNDEFINED)
        return th_jinja_int(0);
    if (value.kind == TH_JINJA_STRING && th_jinja_step(run, value.string->count / 4))
        return th_jinja_int((int64_t)th_jinja_length(value.string));
    if (th_jinja_is_sequence(value))
        return th_jinja_int((int64_t)value.list->count);
    if (value.kind == TH_JINJA_DICT)
        return th_jinja_int((int64_t)value.dict->count);
    return th_jinja_fail(run, "a %s has no length", th_jinja_type(value));
}

static const struct {
    const char *name;
    th_jinja_filter_call *call;
} filters[] = {
    {"abs", filter_abs},
    {"batch", th_jinja_filter_batch},
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", th_jinja_filter_dictsort},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"first", th_jinja_filter_first},
    {"float", filter_float},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"items", th_jinja_filter_items},
    {"join", th_jinja_filter_join},
    {"last", th_jinja_filter_last},
    {"length", filter_length},
    {"list", th_jinja_filter_list},
    {"lower", filter_lower},
    {"map", th_jinja_filter_map},
    {"max", th_jinja_filter_max},
    {"min", th_jinja_filter_min},
    {"reject", th_jinja_filter_reject},
    {"rejectattr", th_jinja_filter_rejectattr},
    {"replace", filter_replace},
    {"reverse", th_jinja_filter_reverse},
    {"round", filter_round},
    {"safe", filter_safe},
    {"select", th_jinja_filter_select},
    {"selectattr", th_jinja_filter_selectattr},
    {"sort", th_jinja_filter_sort},
    {"string", filter_string},
    {"sum", th_jinja_filter_sum},
    {"title", filter_title},
    {"tojson", th_jinja_to_json},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"unique", th_jinja_filter_unique},
    {"upper", filter_upper},
    {"wordcount", filter_wordcount},
};

th_jinja_value th_jinja_filter(th_jinja_run *run, const th_jinja_string *name, th_jinja_value value,
                               const th_jinja_arguments *given)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters && !run->failed; i++)
        if (th_jinja_is(name, filters[i].name))
            return filters[i].call(run, value, given);
    return th_jinja_fail(run, "the filter '%.*s' is unknown or not supported",
                         (int)th_smaller((int64_t)name->count, 60), name->bytes);
}
