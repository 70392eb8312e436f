/* The methods of strings, dictionaries and lists that a program may call. */
#include <string.h>

#include <utf8proc.h>

#include "models/core/files.h"
#include "models/jinja/value.h"
#include "models/text/characters.h"

typedef th_jinja_value call_method(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given);

/* Sets the arguments that must be strings; those that are missing or None are NULL. */
static bool bind_strings(th_jinja_run *run, const char *name, const char *parameters, const th_jinja_arguments *given,
                         const th_jinja_string **string, size_t count)
{
    th_jinja_value value[3];
    if (!th_jinja_bind(run, name, parameters, given, value))
        return false;
    for (size_t i = 0; i < count; i++) {
        const bool none = value[i].kind == TH_JINJA_NONE || value[i].kind == TH_JINJA_UNDEFINED;
        if (!none && value[i].kind != TH_JINJA_STRING)
            th_jinja_fail(run, "%s needs a str; it has a %s", name, th_jinja_type(value[i]));
        string[i] = none ? NULL : value[i].string;
        if (none && i < given->count && value[i].kind == TH_JINJA_UNDEFINED)
            th_jinja_fail(run, "%s needs a str; it has an undefined value", name);
    }
    return !run->failed;
}

static bool read_count(th_jinja_run *run, const char *name, th_jinja_value value, int64_t *count)
{
    if (value.kind == TH_JINJA_UNDEFINED)
        return true;
    if (value.kind != TH_JINJA_INT && value.kind != TH_JINJA_BOOL)
        return th_jinja_fail(run, "%s needs an integer; it has a %s", name, th_jinja_type(value)), false;
    *count = value.kind == TH_JINJA_INT ? value.integer : value.boolean;
    return true;
}

/* -- strings: white space and parts -- */

static th_jinja_value call_strip(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *characters;
    const char first = method->name->bytes[0];
    if (!bind_strings(run, "strip", "chars=", given, &characters, 1))
        return th_jinja_undefined();
    return th_jinja_strip(run, method->self.string, characters, first == 'l' ? 1 : first == 'r' ? 2 : 3);
}

static void push_part(th_jinja_run *run, th_jinja_value list, const char *from, const char *to)
{
    th_jinja_push(run, list, th_jinja_string_of(run, from, (size_t)(to - from)));
}

/* Divides at white space, at most `most` times. */
static void split_words(th_jinja_run *run, const th_jinja_string *text, int64_t most, th_jinja_value list)
{
    const char *at = text->bytes, *end = text->bytes + text->count;
    for (;;) {
        size_t n;
        while ((n = th_white_space_length(at, (size_t)(end - at))) > 0)
            at += n;
        if (at == end || run->failed)
            return;
        const char *from = at;
        if (most-- == 0) {
            push_part(run, list, from, end);
            return;
        }
        while (at < end && th_white_space_length(at, (size_t)(end - at)) == 0)
            at++;
        push_part(run, list, from, at);
    }
}

static void split_at(th_jinja_run *run, const th_jinja_string *text, const th_jinja_string *separator, int64_t most,
                     th_jinja_value list)
{
    const char *at = text->bytes, *end = text->bytes + text->count, *found;
    while (most-- != 0 && !run->failed &&
           (found = memmem(at, (size_t)(end - at), separator->bytes, separator->count)) != NULL) {
        push_part(run, list, at, found);
        at = found + separator->count;
    }
    push_part(run, list, at, end);
}

/* Returns the last place of `part` that ends at `end` or before; NULL without one. */
static const char *find_last(const char *begin, const char *end, const th_jinja_string *part)
{
    if ((size_t)(end - begin) < part->count)
        return NULL;
    for (const char *at = end - part->count;; at--) {
        if (memcmp(at, part->bytes, part->count) == 0)
            return at;
        if (at == begin)
            return NULL;
    }
}

static void split_from_end(th_jinja_run *run, const th_jinja_string *text, const th_jinja_string *separator,
                           int64_t most, th_jinja_value list)
{
    const char *end = text->bytes + text->count, *found;
    while (most-- != 0 && !run->failed && (found = find_last(text->bytes, end, separator)) != NULL) {
        push_part(run, list, found + separator->count, end);
        end = found;
    }
    push_part(run, list, text->bytes, end);
    for (size_t i = 0; !run->failed && i < list.list->count / 2; i++) {
        th_jinja_value *a = &list.list->item[i], *b = &list.list->item[list.list->count - 1 - i], kept = *a;
        *a = *b;
        *b = kept;
    }
}

static th_jinja_value call_split(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    int64_t most = -1;
    if (!th_jinja_bind(run, "split", "sep=,maxsplit=", given, argument) ||
        !read_count(run, "split", argument[1], &most) || !th_jinja_step(run, method->self.string->count / 4))
        return th_jinja_undefined();
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    const bool none =
        argument[0].kind == TH_JINJA_NONE || (argument[0].kind == TH_JINJA_UNDEFINED && given->count == 0);
    const bool backwards = method->name->bytes[0] == 'r';
    if (none && backwards && most >= 0)
        return th_jinja_fail(run, "rsplit at white space with a count is not supported");
    if (!none && argument[0].kind != TH_JINJA_STRING)
        return th_jinja_fail(run, "split needs a str; it has a %s", th_jinja_type(argument[0]));
    if (!none && argument[0].string->count == 0)
        return th_jinja_fail(run, "split needs a separator; it is empty");
    if (none)
        split_words(run, method->self.string, most, list);
    else if (backwards)
        split_from_end(run, method->self.string, argument[0].string, most, list);
    else
        split_at(run, method->self.string, argument[0].string, most, list);
    return list;
}

static th_jinja_value call_partition(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *text = method->self.string, *separator;
    if (!bind_strings(run, "partition", "sep", given, &separator, 1))
        return th_jinja_undefined();
    if (separator == NULL || separator->count == 0)
        return th_jinja_fail(run, "partition needs a separator");
    const bool backwards = method->name->bytes[0] == 'r';
    const char *end = text->bytes + text->count;
    const char *found = backwards ? find_last(text->bytes, end, separator)
                                  : memmem(text->bytes, text->count, separator->bytes, separator->count);
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_TUPLE, 3);
    if (!th_jinja_step(run, text->count / 4))
        return list;
    const char *first = found ? found : backwards ? text->bytes : end;
    const char *after = found ? found + separator->count : first;
    push_part(run, list, text->bytes, first);
    push_part(run, list, first, after);
    push_part(run, list, after, end);
    return list;
}

static th_jinja_value call_splitlines(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    static const char *const ends[] = {"\r\n", "\n",   "\r",       "\v",           "\f",          "\x1c",
                                       "\x1d", "\x1e", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    th_jinja_value keep;
    const char *at = method->self.string->bytes, *end = at + method->self.string->count, *from = at;
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    if (!th_jinja_bind(run, "splitlines", "keepends=", given, &keep) ||
        !th_jinja_step(run, method->self.string->count / 4))
        return list;
    while (at < end && !run->failed) {
        size_t n = 0;
        for (size_t i = 0; i < sizeof ends / sizeof *ends && n == 0; i++)
            if (strlen(ends[i]) <= (size_t)(end - at) && memcmp(at, ends[i], strlen(ends[i])) == 0)
                n = strlen(ends[i]);
        if (n > 0)
            push_part(run, list, from, th_jinja_truth(keep) ? at + n : at);
        at += n > 0 ? n : 1;
        from = n > 0 ? at : from;
    }
    if (from < end)
        push_part(run, list, from, end);
    return list;
}

/* -- strings: search -- */

static bool has_end(const th_jinja_string *text, const th_jinja_string *part, bool begins)
{
    return part->count <= text->count &&
           memcmp(begins ? text->bytes : text->bytes + text->count - part->count, part->bytes, part->count) == 0;
}

static th_jinja_value call_starts(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    th_jinja_value part;
    const bool begins = method->name->bytes[0] == 's';
    if (!th_jinja_bind(run, begins ? "startswith" : "endswith", "part", given, &part))
        return part;
    if (part.kind == TH_JINJA_STRING)
        return th_jinja_bool(has_end(method->self.string, part.string, begins));
    if (part.kind != TH_JINJA_TUPLE)
        return th_jinja_fail(run, "startswith and endswith need a str or a tuple of them; they have a %s",
                             th_jinja_type(part));
    for (size_t i = 0; i < part.list->count; i++) {
        if (part.list->item[i].kind != TH_JINJA_STRING)
            return th_jinja_fail(run, "startswith and endswith need a str or a tuple of them");
        if (has_end(method->self.string, part.list->item[i].string, begins))
            return th_jinja_bool(true);
    }
    return th_jinja_bool(false);
}

static th_jinja_value call_remove(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *text = method->self.string, *part;
    const bool begins = th_jinja_is(method->name, "removeprefix");
    if (!bind_strings(run, "removeprefix", "part", given, &part, 1))
        return th_jinja_undefined();
    if (part == NULL || !has_end(text, part, begins))
        return method->self;
    return th_jinja_string_of(run, begins ? text->bytes + part->count : text->bytes, text->count - part->count);
}

static th_jinja_value call_find(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *text = method->self.string, *part;
    const bool backwards = method->name->bytes[0] == 'r';
    if (!bind_strings(run, "find", "part", given, &part, 1) || !th_jinja_step(run, text->count / 4))
        return th_jinja_undefined();
    if (part == NULL)
        return th_jinja_fail(run, "find needs a str");
    const char *found = backwards          ? find_last(text->bytes, text->bytes + text->count, part)
                        : part->count == 0 ? text->bytes
                                           : memmem(text->bytes, text->count, part->bytes, part->count);
    if (found == NULL && (th_jinja_is(method->name, "index") || th_jinja_is(method->name, "rindex")))
        return th_jinja_fail(run, "the substring is not found");
    const th_jinja_string before = {.bytes = text->bytes, .count = found ? (size_t)(found - text->bytes) : 0};
    return th_jinja_int(found ? (int64_t)th_jinja_length(&before) : -1);
}

static th_jinja_value call_count(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *text = method->self.string, *part;
    if (!bind_strings(run, "count", "part", given, &part, 1) || !th_jinja_step(run, text->count / 4))
        return th_jinja_undefined();
    if (part == NULL)
        return th_jinja_fail(run, "count needs a str");
    if (part->count == 0)
        return th_jinja_int((int64_t)th_jinja_length(text) + 1);
    int64_t count = 0;
    const char *at = text->bytes, *end = at + text->count;
    for (; (at = memmem(at, (size_t)(end - at), part->bytes, part->count)) != NULL; at += part->count)
        count++;
    return th_jinja_int(count);
}

static th_jinja_value call_replace(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    th_jinja_value argument[3];
    int64_t most = -1;
    if (!th_jinja_bind(run, "replace", "old,new,count=", given, argument) ||
        !read_count(run, "replace", argument[2], &most))
        return th_jinja_undefined();
    if (argument[0].kind != TH_JINJA_STRING || argument[1].kind != TH_JINJA_STRING)
        return th_jinja_fail(run, "replace needs two str; it has a %s and a %s", th_jinja_type(argument[0]),
                             th_jinja_type(argument[1]));
    return th_jinja_replace(run, method->self.string, argument[0].string, argument[1].string, most);
}

/* -- strings: case and kinds of characters -- */

static th_jinja_value call_case(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const char first = method->name->bytes[0];
    if (!th_jinja_bind(run, "a method", "", given, NULL))
        return th_jinja_undefined();
    return th_jinja_change_case(run, method->self.string, first);
}

static bool is_of_kind(const th_jinja_string *kind, uint32_t code, bool *cased, bool *wrong)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    const bool upper = c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT, lower = c == UTF8PROC_CATEGORY_LL;
    const bool letter = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    const bool digit = c == UTF8PROC_CATEGORY_ND,
               number = digit || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    *cased |= upper || lower;
    *wrong |= th_jinja_is(kind, "isupper") ? lower : th_jinja_is(kind, "islower") && upper;
    return th_jinja_is(kind, "isalpha")     ? letter
           : th_jinja_is(kind, "isnumeric") ? number
           : th_jinja_is(kind, "isalnum")   ? letter || number
                                            : digit;
}

static th_jinja_value call_is(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *text = method->self.string;
    bool cased = false, wrong = false, all = text->count > 0;
    const bool by_case = th_jinja_is(method->name, "isupper") || th_jinja_is(method->name, "islower");
    const bool space = th_jinja_is(method->name, "isspace");
    if (!th_jinja_bind(run, "a method", "", given, NULL) || !th_jinja_step(run, text->count))
        return th_jinja_undefined();
    for (size_t at = 0; at < text->count;) {
        const int length = th_character_length(text->bytes + at, text->count - at);
        const uint32_t code = length > 0 ? th_character_code(text->bytes + at, length) : 0;
        const bool fits = is_of_kind(method->name, code, &cased, &wrong);
        all &= space ? th_white_space_length(text->bytes + at, text->count - at) > 0 : by_case || fits;
        at += (size_t)(length > 0 ? length : 1);
    }
    return th_jinja_bool(by_case ? cased && !wrong : all);
}

/* -- strings: joining and formats -- */

static th_jinja_value call_join(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    th_jinja_value parts;
    if (!th_jinja_bind(run, "join", "parts", given, &parts))
        return parts;
    const th_jinja_value items = th_jinja_items(run, parts);
    const size_t begin = th_jinja_capture(run);
    for (size_t i = 0; !run->failed && i < items.list->count; i++) {
        if (items.list->item[i].kind != TH_JINJA_STRING) {
            th_jinja_fail(run, "join needs str; item %zu is a %s", i, th_jinja_type(items.list->item[i]));
            break;
        }
        if (i > 0)
            th_jinja_write_value(run, method->self);
        th_jinja_write_value(run, items.list->item[i]);
    }
    return th_jinja_captured(run, begin);
}

/* Returns the value of a field such as {}, {0} or {name}. */
static th_jinja_value field_of(th_jinja_run *run, const char *name, size_t count, size_t *next,
                               const th_jinja_arguments *given)
{
    size_t index = 0;
    const th_jinja_string key = {.bytes = name, .count = count};
    const th_jinja_value *named =
        th_jinja_find(run, &given->named, (th_jinja_value){.kind = TH_JINJA_STRING, .string = &key});
    if (named)
        return *named;
    for (size_t i = 0; i < count && count < 4; i++)
        index = name[i] >= '0' && name[i] <= '9' ? index * 10 + (size_t)(name[i] - '0') : SIZE_MAX / 20;
    if (count == 0)
        index = (*next)++;
    if (index < given->count && count < 4)
        return given->value[index];
    return th_jinja_fail(run, "format has no value for the field {%.*s}, or its form is not supported",
                         (int)th_smaller((int64_t)count, 60), name);
}

static th_jinja_value call_format(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_string *text = method->self.string;
    const size_t begin = th_jinja_capture(run);
    size_t next = 0;
    for (size_t i = 0; i < text->count && !run->failed; i++) {
        const char c = text->bytes[i];
        const bool doubled = i + 1 < text->count && text->bytes[i + 1] == c;
        const char *end = memchr(text->bytes + i, '}', text->count - i);
        if ((c == '{' || c == '}') && doubled)
            th_jinja_write(run, text->bytes + i++, 1);
        else if (c == '{' && end) {
            const char *name = text->bytes + i + 1;
            th_jinja_write_value(run, field_of(run, name, (size_t)(end - name), &next, given));
            i = (size_t)(end - text->bytes);
        } else if (c == '{' || c == '}')
            th_jinja_fail(run, "the format has a single %c", c);
        else
            th_jinja_write(run, text->bytes + i, 1);
    }
    return th_jinja_captured(run, begin);
}

/* -- dictionaries and lists -- */

static th_jinja_value call_members(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    const th_jinja_dict *dict = method->self.dict;
    const char first = method->name->bytes[0];
    if (!th_jinja_bind(run, "a method", "", given, NULL))
        return th_jinja_undefined();
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, dict->count);
    for (size_t i = 0; i < dict->count && !run->failed; i++) {
        th_jinja_value item = first == 'k' ? dict->member[i].key : dict->member[i].value;
        if (first == 'i') {
            item = th_jinja_list_of(run, TH_JINJA_TUPLE, 2);
            th_jinja_push(run, item, dict->member[i].key);
            th_jinja_push(run, item, dict->member[i].value);
        }
        th_jinja_push(run, list, item);
    }
    if (!run->failed)
        list.list->view = first == 'k' ? "dict_keys" : first == 'v' ? "dict_values" : "dict_items";
    return list;
}

static th_jinja_value call_get(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    th_jinja_value argument[2];
    if (!th_jinja_bind(run, "get", "key,default=", given, argument))
        return th_jinja_undefined();
    const th_jinja_value *found = th_jinja_find(run, method->self.dict, argument[0]);
    return found ? *found : given->count > 1 || given->named.count > 0 ? argument[1] : th_jinja_none();
}

static th_jinja_value call_copy(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    (void)th_jinja_bind(run, "copy", "", given, NULL);
    return method->self; /* values do not change */
}

static th_jinja_value call_list_search(th_jinja_run *run, const th_jinja_method *method,
                                       const th_jinja_arguments *given)
{
    th_jinja_value item;
    const bool counts = method->name->bytes[0] == 'c';
    int64_t count = 0;
    if (!th_jinja_bind(run, "index", "item", given, &item))
        return item;
    for (size_t i = 0; i < method->self.list->count && !run->failed; i++)
        if (th_jinja_equal(run, method->self.list->item[i], item)) {
            if (!counts)
                return th_jinja_int((int64_t)i);
            count++;
        }
    return counts ? th_jinja_int(count) : th_jinja_fail(run, "the list does not have the item");
}

/* -- the table -- */

static const struct {
    th_jinja_kind kind;
    const char *name;
    call_method *call;
} methods[] = {
    {TH_JINJA_STRING, "strip", call_strip},
    {TH_JINJA_STRING, "lstrip", call_strip},
    {TH_JINJA_STRING, "rstrip", call_strip},
    {TH_JINJA_STRING, "split", call_split},
    {TH_JINJA_STRING, "rsplit", call_split},
    {TH_JINJA_STRING, "splitlines", call_splitlines},
    {TH_JINJA_STRING, "partition", call_partition},
    {TH_JINJA_STRING, "rpartition", call_partition},
    {TH_JINJA_STRING, "startswith", call_starts},
    {TH_JINJA_STRING, "endswith", call_starts},
    {TH_JINJA_STRING, "removeprefix", call_remove},
    {TH_JINJA_STRING, "removesuffix", call_remove},
    {TH_JINJA_STRING, "find", call_find},
    {TH_JINJA_STRING, "rfind", call_find},
    {TH_JINJA_STRING, "index", call_find},
    {TH_JINJA_STRING, "rindex", call_find},
    {TH_JINJA_STRING, "count", call_count},
    {TH_JINJA_STRING, "replace", call_replace},
    {TH_JINJA_STRING, "upper", call_case},
    {TH_JINJA_STRING, "lower", call_case},
    {TH_JINJA_STRING, "title", call_case},
    {TH_JINJA_STRING, "capitalize", call_case},
    {TH_JINJA_STRING, "isdigit", call_is},
    {TH_JINJA_STRING, "isdecimal", call_is},
    {TH_JINJA_STRING, "isnumeric", call_is},
    {TH_JINJA_STRING, "isalpha", call_is},
    {TH_JINJA_STRING, "isalnum", call_is},
    {TH_JINJA_STRING, "isspace", call_is},
    {TH_JINJA_STRING, "isupper", call_is},
    {TH_JINJA_STRING, "islower", call_is},
    {TH_JINJA_STRING, "join", call_join},
    {TH_JINJA_STRING, "format", call_format},
    {TH_JINJA_DICT, "items", call_members},
    {TH_JINJA_DICT, "keys", call_members},
    {TH_JINJA_DICT, "values", call_members},
    {TH_JINJA_DICT, "get", call_get},
    {TH_JINJA_DICT, "copy", call_copy},
    {TH_JINJA_LIST, "copy", call_copy},
    {TH_JINJA_LIST, "index", call_list_search},
    {TH_JINJA_LIST, "count", call_list_search},
    {TH_JINJA_TUPLE, "index", call_list_search},
    {TH_JINJA_TUPLE, "count", call_list_search},
};

static call_method *find_method(th_jinja_value self, const th_jinja_string *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == self.kind && th_jinja_is(name, methods[i].name))
            return methods[i].call;
    return NULL;
}

bool th_jinja_has_method(th_jinja_value self, const th_jinja_string *name)
{
    return find_method(self, name) != NULL;
}

th_jinja_value th_jinja_call_method(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    return find_method(method->self, method->name)(run, method, given);
}
