/* Attributes, items and calls of values, and the functions of the environment. */
#include <locale.h>
#include <string.h>

#include "models/core/files.h"
#include "models/jinja/run.h"

/* -- attributes and items -- */

static int shown(const th_jinja_string *string)
{
    return (int)th_smaller((int64_t)string->count, 60);
}

/* Python's index, which counts from the end if it is negative. Returns false outside. */
static bool find_index(int64_t *index, size_t count)
{
    if (*index < 0)
        *index += (int64_t)count;
    return *index >= 0 && *index < (int64_t)count;
}

static th_jinja_value missing(const th_jinja_string *name)
{
    return (th_jinja_value){.kind = TH_JINJA_UNDEFINED, .string = name};
}

static th_jinja_value refuse_undefined(th_jinja_run *run, th_jinja_value object)
{
    if (object.string)
        return th_jinja_fail(run, "'%.*s' is undefined", shown(object.string), object.string->bytes);
    return th_jinja_fail(run, "a value is undefined");
}

static bool has_item(th_jinja_run *run, th_jinja_value object, th_jinja_value key, th_jinja_value *item)
{
    const bool is_index = key.kind == TH_JINJA_INT || key.kind == TH_JINJA_BOOL;
    int64_t index = !is_index ? 0 : key.kind == TH_JINJA_INT ? key.integer : key.boolean;
    if (object.kind == TH_JINJA_DICT && key.kind != TH_JINJA_LIST && key.kind != TH_JINJA_DICT) {
        const th_jinja_value *found = th_jinja_find(run, object.dict, key);
        if (found)
            *item = *found;
        return found != NULL;
    }
    if (th_jinja_is_sequence(object) && is_index && find_index(&index, object.list->count)) {
        *item = object.list->item[index];
        return true;
    }
    if (object.kind == TH_JINJA_STRING && is_index && th_jinja_step(run, object.string->count / 4) &&
        find_index(&index, th_jinja_length(object.string))) {
        const size_t at = th_jinja_byte_of(object.string, (size_t)index);
        const th_jinja_string rest = {.bytes = object.string->bytes + at, .count = object.string->count - at};
        *item = th_jinja_string_of(run, rest.bytes, th_jinja_byte_of(&rest, 1));
        return true;
    }
    return false;
}

/* An attribute that the sandbox hides is undefined. */
static th_jinja_value forbidden(th_jinja_run *run, const th_jinja_string *name)
{
    static const th_jinja_string note = {.bytes = " (the sandbox forbids it)", .count = 25};
    const th_jinja_value text = th_jinja_arithmetic(run, '~', (th_jinja_value){.kind = TH_JINJA_STRING, .string = name},
                                                    (th_jinja_value){.kind = TH_JINJA_STRING, .string = &note});
    return missing(run->failed ? name : text.string);
}

/* Finds an attribute that is no item: a method, a member of a namespace, or what the sandbox forbids. */
static bool has_attribute(th_jinja_run *run, th_jinja_value object, const th_jinja_string *name, th_jinja_value *value)
{
    static const char *const changing[] = {"append",  "clear", "extend",  "insert",     "pop",   "remove",
                                           "reverse", "sort",  "popitem", "setdefault", "update"};
    if (name->count > 1 && name->bytes[0] == '_' && name->bytes[1] == '_') {
        *value = forbidden(run, name);
        return true;
    }
    const bool container = object.kind == TH_JINJA_LIST || object.kind == TH_JINJA_DICT;
    const size_t first = object.kind == TH_JINJA_DICT ? 4 : 0, past = object.kind == TH_JINJA_DICT ? 11 : 8;
    for (size_t i = first; container && i < past; i++)
        if (th_jinja_is(name, changing[i]) && !(object.kind == TH_JINJA_DICT && i > 4 && i < 8)) {
            *value = forbidden(run, name);
            return true;
        }
    if (object.kind == TH_JINJA_NAMESPACE) {
        const th_jinja_value *found =
            th_jinja_find(run, object.dict, (th_jinja_value){.kind = TH_JINJA_STRING, .string = name});
        if (found)
            *value = *found;
        return found != NULL;
    }
    if (!th_jinja_has_method(object, name))
        return false;
    th_jinja_method *method = th_jinja_new(run, sizeof *method);
    if (method == NULL)
        return false;
    *method = (th_jinja_method){object, name};
    *value = (th_jinja_value){.kind = TH_JINJA_METHOD, .method = method};
    return true;
}

th_jinja_value th_jinja_attribute(th_jinja_run *run, th_jinja_value object, const th_jinja_string *name)
{
    th_jinja_value value;
    if (object.kind == TH_JINJA_UNDEFINED)
        return refuse_undefined(run, object);
    if (object.kind == TH_JINJA_LOOP)
        return th_jinja_loop_attribute(run, object, name);
    if (has_attribute(run, object, name, &value) ||
        has_item(run, object, (th_jinja_value){.kind = TH_JINJA_STRING, .string = name}, &value))
        return value;
    return missing(name);
}

th_jinja_value th_jinja_item(th_jinja_run *run, th_jinja_value object, th_jinja_value key)
{
    th_jinja_value value;
    if (object.kind == TH_JINJA_UNDEFINED)
        return refuse_undefined(run, object);
    if (has_item(run, object, key, &value))
        return value;
    if (key.kind != TH_JINJA_STRING)
        return missing(NULL);
    if (object.kind == TH_JINJA_LOOP)
        return th_jinja_loop_attribute(run, object, key.string);
    return has_attribute(run, object, key.string, &value) ? value : missing(key.string);
}

/* -- the loop variable -- */

static th_jinja_value loop_neighbor(const th_jinja_loop *loop, bool next)
{
    if (next ? loop->index + 1 >= loop->items->count : loop->index == 0)
        return missing(NULL);
    return loop->items->item[next ? loop->index + 1 : loop->index - 1];
}

th_jinja_value th_jinja_loop_attribute(th_jinja_run *run, th_jinja_value value, const th_jinja_string *name)
{
    const th_jinja_loop *loop = value.loop;
    const int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", index + 1},
                   {"index0", index},
                   {"revindex", count - index},
                   {"revindex0", count - index - 1},
                   {"length", count},
                   {"depth", 1},
                   {"depth0", 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (th_jinja_is(name, numbers[i].name))
            return th_jinja_int(numbers[i].value);
    if (th_jinja_is(name, "first"))
        return th_jinja_bool(index == 0);
    if (th_jinja_is(name, "last"))
        return th_jinja_bool(index + 1 == count);
    if (th_jinja_is(name, "previtem") || th_jinja_is(name, "nextitem"))
        return loop_neighbor(loop, name->bytes[0] == 'n');
    if (!th_jinja_is(name, "cycle") && !th_jinja_is(name, "changed"))
        return missing(name);
    th_jinja_method *method = th_jinja_new(run, sizeof *method);
    if (method)
        *method = (th_jinja_method){value, name};
    return method ? (th_jinja_value){.kind = TH_JINJA_METHOD, .method = method} : value;
}

th_jinja_value th_jinja_call_loop(th_jinja_run *run, const th_jinja_method *method, const th_jinja_arguments *given)
{
    th_jinja_loop *loop = method->self.loop;
    if (th_jinja_is(method->name, "cycle")) {
        if (given->count == 0)
            return th_jinja_fail(run, "loop.cycle needs values");
        return given->value[loop->index % given->count];
    }
    const th_jinja_value now = th_jinja_list_of(run, TH_JINJA_TUPLE, given->count);
    for (size_t i = 0; i < given->count && !run->failed; i++)
        th_jinja_push(run, now, given->value[i]);
    const bool changed = loop->changed.kind == TH_JINJA_UNDEFINED || !th_jinja_equal(run, loop->changed, now);
    loop->changed = now;
    return th_jinja_bool(changed);
}

/* -- calls -- */

/* Returns the next name of "a,b=,c=", which *at is moved behind; *optional: with "=". */
static bool next_parameter(const char **at, th_jinja_string *name, bool *optional)
{
    if (**at == 0)
        return false;
    const size_t count = strcspn(*at, ",=");
    *name = (th_jinja_string){.bytes = *at, .count = count};
    *at += count;
    *optional = **at == '=';
    *at += *optional;
    *at += **at == ',';
    return true;
}

bool th_jinja_bind(th_jinja_run *run, const char *function, const char *parameters, const th_jinja_arguments *given,
                   th_jinja_value *value)
{
    size_t i = 0, used = 0;
    th_jinja_string name;
    bool optional;
    for (const char *at = parameters; next_parameter(&at, &name, &optional) && !run->failed; i++) {
        const th_jinja_value *named =
            th_jinja_find(run, &given->named, (th_jinja_value){.kind = TH_JINJA_STRING, .string = &name});
        used += named != NULL;
        if (named && i < given->count)
            th_jinja_fail(run, "%s has two values for %.*s", function, shown(&name), name.bytes);
        else if (named == NULL && i >= given->count && !optional)
            th_jinja_fail(run, "%s needs %.*s", function, shown(&name), name.bytes);
        value[i] = i < given->count ? given->value[i] : named ? *named : th_jinja_undefined();
    }
    if (given->count > i || given->named.count > used)
        th_jinja_fail(run, "%s has other parameters (%s); it is called with %zu and %zu named ones", function,
                      *parameters ? parameters : "none", given->count, given->named.count);
    return !run->failed;
}

th_jinja_value th_jinja_call(th_jinja_run *run, th_jinja_value function, const th_jinja_arguments *given)
{
    if (run->failed)
        return th_jinja_undefined();
    switch (function.kind) {
    case TH_JINJA_MACRO:
        return th_jinja_call_macro(run, function.macro, given);
    case TH_JINJA_FUNCTION:
        return th_jinja_call_function(run, function.function, given);
    case TH_JINJA_METHOD:
        return function.method->self.kind == TH_JINJA_LOOP ? th_jinja_call_loop(run, function.method, given)
                                                           : th_jinja_call_method(run, function.method, given);
    case TH_JINJA_UNDEFINED:
        return refuse_undefined(run, function);
    case TH_JINJA_LOOP:
        return th_jinja_fail(run, "recursive loops are not supported");
    default:
        return th_jinja_fail(run, "a %s cannot be called", th_jinja_type(function));
    }
}

/* -- functions of the environment -- */

typedef th_jinja_value call_function(th_jinja_run *run, const th_jinja_arguments *given);
struct th_jinja_function {
    const char *name;
    call_function *call;
};

static th_jinja_value call_range(th_jinja_run *run, const th_jinja_arguments *given)
{
    enum { MOST = 100000 };
    th_jinja_value argument[3];
    int64_t bound[3] = {0, 0, 1};
    if (!th_jinja_bind(run, "range", "stop,stop=,step=", given, argument))
        return th_jinja_undefined();
    for (size_t i = 0; i < given->count; i++) {
        if (argument[i].kind != TH_JINJA_INT && argument[i].kind != TH_JINJA_BOOL)
            return th_jinja_fail(run, "range needs integers; it has a %s", th_jinja_type(argument[i]));
        bound[given->count == 1 ? 1 : i] = (int64_t)th_jinja_number(argument[i]);
    }
    if (bound[2] == 0)
        return th_jinja_fail(run, "the step of a range cannot be 0");
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (int64_t i = bound[0]; (bound[2] > 0 ? i < bound[1] : i > bound[1]) && !run->failed;) {
        if (list.list->count == MOST)
            return th_jinja_fail(run, "a range may have %d numbers", MOST);
        th_jinja_push(run, list, th_jinja_int(i));
        if (__builtin_add_overflow(i, bound[2], &i))
            break;
    }
    return list;
}

/* Fills a dict from a dict or pairs, and from named arguments. */
static th_jinja_value fill_dict(th_jinja_run *run, th_jinja_kind kind, const char *name,
                                const th_jinja_arguments *given)
{
    const th_jinja_value dict = th_jinja_dict_of(run, kind);
    if (given->count > 1)
        return th_jinja_fail(run, "%s has one argument without a name", name);
    const bool copied = given->count == 1 && given->value[0].kind == TH_JINJA_DICT;
    for (size_t i = 0; copied && i < given->value[0].dict->count && !run->failed; i++)
        th_jinja_put(run, dict.dict, given->value[0].dict->member[i].key, given->value[0].dict->member[i].value);
    const th_jinja_value pairs =
        given->count == 1 && !copied ? th_jinja_items(run, given->value[0]) : th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (size_t i = 0; !run->failed && i < pairs.list->count; i++) {
        const th_jinja_value pair = th_jinja_items(run, pairs.list->item[i]);
        if (!run->failed && pair.list->count != 2)
            return th_jinja_fail(run, "%s needs pairs", name);
        if (!run->failed)
            th_jinja_put(run, dict.dict, pair.list->item[0], pair.list->item[1]);
    }
    for (size_t i = 0; i < given->named.count && !run->failed; i++)
        th_jinja_put(run, dict.dict, given->named.member[i].key, given->named.member[i].value);
    return dict;
}

static th_jinja_value call_namespace(th_jinja_run *run, const th_jinja_arguments *given)
{
    const th_jinja_value names = fill_dict(run, TH_JINJA_NAMESPACE, "namespace", given);
    for (size_t i = 0; !run->failed && i < names.dict->count; i++) {
        const th_jinja_value key = names.dict->member[i].key;
        if (key.kind == TH_JINJA_STRING && key.string->count > 0 && key.string->bytes[0] == '_')
            th_jinja_fail(run, "an attribute of a namespace cannot begin with an underscore");
    }
    return names;
}

static th_jinja_value call_dict(th_jinja_run *run, const th_jinja_arguments *given)
{
    return fill_dict(run, TH_JINJA_DICT, "dict", given);
}

static th_jinja_value call_raise_exception(th_jinja_run *run, const th_jinja_arguments *given)
{
    th_jinja_value message;
    if (!th_jinja_bind(run, "raise_exception", "message", given, &message))
        return message;
    const th_jinja_value text = th_jinja_str(run, message);
    if (run->failed)
        return text;
    return th_jinja_fail(run, "the template refuses the conversation: %.*s",
                         (int)th_smaller((int64_t)text.string->count, 300), text.string->bytes);
}

static th_jinja_value call_strftime_now(th_jinja_run *run, const th_jinja_arguments *given)
{
    th_jinja_value format;
    char c_format[200], text[400] = "";
    struct tm day;
    if (!th_jinja_bind(run, "strftime_now", "format", given, &format))
        return format;
    if (format.kind != TH_JINJA_STRING || format.string->count >= sizeof c_format)
        return th_jinja_fail(run, "strftime_now needs a short text");
    memcpy(c_format, format.string->bytes, format.string->count);
    c_format[format.string->count] = 0;
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const size_t count =
        localtime_r(&run->now, &day) && c_locale ? strftime_l(text, sizeof text, c_format, &day, c_locale) : 0;
    if (c_locale)
        freelocale(c_locale);
    char *copy = th_jinja_new(run, count + 1);
    if (copy)
        memcpy(copy, text, count);
    return th_jinja_string_of(run, copy, count);
}

/* `self` is the template. Its members would be blocks, which belong to inheritance, so each one is undefined. */
static th_jinja_value call_self(th_jinja_run *run, const th_jinja_arguments *given)
{
    (void)given;
    return th_jinja_fail(run, "self is the template, which cannot be called");
}

static const th_jinja_function functions[] = {{"range", call_range},
                                              {"dict", call_dict},
                                              {"namespace", call_namespace},
                                              {"raise_exception", call_raise_exception},
                                              {"strftime_now", call_strftime_now},
                                              {"self", call_self}};

const th_jinja_function *th_jinja_find_function(const th_jinja_string *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (th_jinja_is(name, functions[i].name))
            return &functions[i];
    return NULL;
}

th_jinja_value th_jinja_call_function(th_jinja_run *run, const th_jinja_function *function,
                                      const th_jinja_arguments *given)
{
    return function->call(run, given);
}
