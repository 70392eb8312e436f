/* Values: memory, lists, dictionaries, comparison, and values of JSON. */
#include "models/jinja/value.h"

#include <stdarg.h>
#include <string.h>

#include "models/jinja/syntax.h"
#include "models/text/characters.h"

/* -- memory -- */

enum { CHUNK = 16384, ALIGNMENT = 16 };
struct th_jinja_chunk {
    struct th_jinja_chunk *before;
    size_t size, used; /* bytes behind this header */
};
enum { HEADER = (sizeof(struct th_jinja_chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT };

void *th_jinja_allocate(th_jinja_arena *arena, size_t bytes)
{
    if (bytes > arena->limit || arena->limit - bytes < arena->used + ALIGNMENT)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    th_jinja_chunk *chunk = arena->chunk;
    if (chunk == NULL || chunk->size - chunk->used < bytes) {
        const size_t size = bytes > CHUNK ? bytes : CHUNK;
        if (size > PTRDIFF_MAX - HEADER || (chunk = th_allocate(arena->ctx, HEADER + size)) == NULL)
            return NULL;
        *chunk = (th_jinja_chunk){arena->chunk, size, 0};
        arena->chunk = chunk;
    }
    char *memory = (char *)chunk + HEADER + chunk->used;
    chunk->used += bytes;
    arena->used += bytes;
    return memset(memory, 0, bytes);
}

void th_jinja_arena_free(th_jinja_arena *arena)
{
    for (th_jinja_chunk *chunk = arena->chunk, *before; chunk; chunk = before) {
        before = chunk->before;
        th_release(arena->ctx, chunk, HEADER + chunk->size);
    }
    arena->chunk = NULL;
}

/* -- errors -- */

th_jinja_value th_jinja_fail(th_jinja_run *run, const char *format, ...)
{
    if (!run->failed) {
        va_list arguments;
        va_start(arguments, format);
        run->problem[0] = 0;
        th_append_arguments(run->problem, sizeof run->problem, format, arguments);
        va_end(arguments);
        run->failed = true;
        run->status = TH_ERROR_VALUE;
    }
    return th_jinja_undefined();
}

bool th_jinja_step(th_jinja_run *run, size_t steps)
{
    if (steps > run->most_steps - run->steps) {
        run->steps = run->most_steps;
        th_jinja_fail(run, "the template needs more than %zu steps", run->most_steps);
        return false;
    }
    run->steps += steps;
    return !run->failed;
}

void *th_jinja_new(th_jinja_run *run, size_t bytes)
{
    void *memory = run->failed ? NULL : th_jinja_allocate(&run->arena, bytes);
    if (memory == NULL && !run->failed) {
        th_jinja_fail(run, "the template needs too much memory: %zu bytes, and then %zu more", run->arena.used, bytes);
        run->status = TH_ERROR_MEMORY;
    }
    return memory;
}

/* -- strings -- */

th_jinja_value th_jinja_string_of(th_jinja_run *run, const char *bytes, size_t count)
{
    th_jinja_string *string = th_jinja_new(run, sizeof *string);
    if (string == NULL)
        return th_jinja_undefined();
    *string = (th_jinja_string){.bytes = bytes, .count = count};
    return (th_jinja_value){.kind = TH_JINJA_STRING, .string = string};
}

th_jinja_value th_jinja_literal(th_jinja_run *run, const char *text)
{
    return th_jinja_string_of(run, text, strlen(text));
}

bool th_jinja_is(const th_jinja_string *string, const char *text)
{
    return strlen(text) == string->count && memcmp(string->bytes, text, string->count) == 0;
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

size_t th_jinja_length(const th_jinja_string *string)
{
    size_t length = 0;
    for (size_t i = 0; i < string->count; i++)
        length += begins_character(string->bytes[i]);
    return length;
}

size_t th_jinja_byte_of(const th_jinja_string *string, size_t index)
{
    size_t at = 0;
    while (at < string->count && index > 0) {
        at++;
        while (at < string->count && !begins_character(string->bytes[at]))
            at++;
        index--;
    }
    return at;
}

/* -- lists -- */

th_jinja_value th_jinja_list_of(th_jinja_run *run, th_jinja_kind kind, size_t capacity)
{
    th_jinja_list *list = th_jinja_new(run, sizeof *list);
    if (list == NULL)
        return th_jinja_undefined();
    if (capacity > 0 && capacity < SIZE_MAX / sizeof *list->item)
        list->item = th_jinja_new(run, capacity * sizeof *list->item);
    list->capacity = list->item ? capacity : 0;
    return (th_jinja_value){.kind = kind, .list = list};
}

/* Makes room for one more element of `size` bytes. Returns NULL with an error. */
static void *grow(th_jinja_run *run, void *old, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return old;
    const size_t wanted = *capacity < 4 ? 4 : *capacity * 2;
    void *grown = th_jinja_new(run, wanted * size);
    if (grown && count > 0)
        memcpy(grown, old, count * size);
    if (grown)
        *capacity = wanted;
    return grown;
}

void th_jinja_push(th_jinja_run *run, th_jinja_value value, th_jinja_value item)
{
    if (run->failed || !th_jinja_step(run, 1))
        return;
    th_jinja_list *list = value.list;
    th_jinja_value *items = grow(run, list->item, list->count, &list->capacity, sizeof *items);
    if (items == NULL)
        return;
    list->item = items;
    list->item[list->count++] = item;
}

/* -- dictionaries -- */

th_jinja_value th_jinja_dict_of(th_jinja_run *run, th_jinja_kind kind)
{
    th_jinja_dict *dict = th_jinja_new(run, sizeof *dict);
    return dict ? (th_jinja_value){.kind = kind, .dict = dict} : th_jinja_undefined();
}

static bool hashable(th_jinja_value key)
{
    return key.kind != TH_JINJA_LIST && key.kind != TH_JINJA_DICT;
}

th_jinja_value *th_jinja_find(th_jinja_run *run, const th_jinja_dict *dict, th_jinja_value key)
{
    if (!hashable(key))
        th_jinja_fail(run, "a %s cannot be a key of a dict", th_jinja_type(key));
    for (size_t i = 0; i < dict->count && th_jinja_step(run, 1); i++)
        if (th_jinja_equal(run, dict->member[i].key, key))
            return &dict->member[i].value;
    return NULL;
}

th_jinja_value *th_jinja_find_name(th_jinja_run *run, const th_jinja_dict *dict, const char *name)
{
    const th_jinja_string string = {.bytes = name, .count = strlen(name)};
    return th_jinja_find(run, dict, (th_jinja_value){.kind = TH_JINJA_STRING, .string = &string});
}

void th_jinja_put(th_jinja_run *run, th_jinja_dict *dict, th_jinja_value key, th_jinja_value value)
{
    th_jinja_value *found = run->failed ? NULL : th_jinja_find(run, dict, key);
    if (found)
        *found = value;
    if (found || run->failed)
        return;
    th_jinja_member *members = grow(run, dict->member, dict->count, &dict->capacity, sizeof *members);
    if (members == NULL)
        return;
    dict->member = members;
    dict->member[dict->count++] = (th_jinja_member){key, value};
}

/* -- JSON -- */

static th_jinja_value object_from_json(th_jinja_run *run, const json_t *json)
{
    const th_jinja_value dict = th_jinja_dict_of(run, TH_JINJA_DICT);
    json_t *object = (json_t *)(uintptr_t)json;
    for (void *it = json_object_iter(object); it && th_jinja_step(run, 1); it = json_object_iter_next(object, it)) {
        th_jinja_dict *d = dict.dict;
        th_jinja_member *members = grow(run, d->member, d->count, &d->capacity, sizeof *members);
        if (members == NULL)
            break;
        d->member = members; /* keys are unique, so there is no search */
        const char *key = json_object_iter_key(it);
        members[d->count] =
            (th_jinja_member){th_jinja_literal(run, key), th_jinja_from_json(run, json_object_iter_value(it))};
        d->count++;
    }
    return dict;
}

static th_jinja_value list_from_json(th_jinja_run *run, const json_t *json)
{
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, json_array_size(json));
    const json_t *item;
    size_t i;
    json_array_foreach (json, i, item) {
        th_jinja_push(run, list, th_jinja_from_json(run, item));
    }
    return list;
}

th_jinja_value th_jinja_from_json(th_jinja_run *run, const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return object_from_json(run, json);
    case JSON_ARRAY:
        return list_from_json(run, json);
    case JSON_STRING:
        return th_jinja_string_of(run, json_string_value(json), json_string_length(json));
    case JSON_INTEGER:
        return th_jinja_int(json_integer_value(json));
    case JSON_REAL:
        return th_jinja_float(json_real_value(json));
    case JSON_TRUE:
    case JSON_FALSE:
        return th_jinja_bool(json_is_true(json));
    default:
        return th_jinja_none();
    }
}

/* -- properties -- */

bool th_jinja_is_sequence(th_jinja_value value)
{
    return value.kind == TH_JINJA_LIST || value.kind == TH_JINJA_TUPLE;
}

bool th_jinja_is_number(th_jinja_value value)
{
    return value.kind == TH_JINJA_BOOL || value.kind == TH_JINJA_INT || value.kind == TH_JINJA_FLOAT;
}

double th_jinja_number(th_jinja_value value)
{
    return value.kind == TH_JINJA_FLOAT ? value.real
           : value.kind == TH_JINJA_INT ? (double)value.integer
                                        : (double)value.boolean;
}

bool th_jinja_truth(th_jinja_value value)
{
    switch (value.kind) {
    case TH_JINJA_UNDEFINED:
    case TH_JINJA_NONE:
        return false;
    case TH_JINJA_BOOL:
        return value.boolean;
    case TH_JINJA_INT:
        return value.integer != 0;
    case TH_JINJA_FLOAT:
        return value.real < 0 || value.real > 0 || value.real != value.real;
    case TH_JINJA_STRING:
        return value.string->count > 0;
    case TH_JINJA_LIST:
    case TH_JINJA_TUPLE:
        return value.list->count > 0;
    case TH_JINJA_DICT:
        return value.dict->count > 0;
    default:
        return true;
    }
}

const char *th_jinja_type(th_jinja_value value)
{
    static const char *const name[] = {"undefined value", "None",      "bool", "int",       "float", "str",  "list",
                                       "tuple",           "generator", "dict", "namespace", "macro", "loop", "function",
                                       "method"};
    return name[value.kind];
}

/* -- comparison -- */

static bool equal_lists(th_jinja_run *run, const th_jinja_list *a, const th_jinja_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!th_jinja_equal(run, a->item[i], b->item[i]))
            return false;
    return true;
}

static bool equal_dicts(th_jinja_run *run, const th_jinja_dict *a, const th_jinja_dict *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const th_jinja_value *other = th_jinja_find(run, b, a->member[i].key);
        if (other == NULL || !th_jinja_equal(run, a->member[i].value, *other))
            return false;
    }
    return true;
}

static int order_numbers(th_jinja_value a, th_jinja_value b)
{
    if (a.kind == TH_JINJA_INT && b.kind == TH_JINJA_INT)
        return (a.integer > b.integer) - (a.integer < b.integer);
    const double x = th_jinja_number(a), y = th_jinja_number(b);
    return (x > y) - (x < y);
}

static bool is_nan(th_jinja_value value)
{
    return value.kind == TH_JINJA_FLOAT && value.real != value.real;
}

bool th_jinja_equal(th_jinja_run *run, th_jinja_value a, th_jinja_value b)
{
    if (!th_jinja_step(run, 1))
        return false;
    if (th_jinja_is_number(a) && th_jinja_is_number(b))
        return !is_nan(a) && !is_nan(b) && order_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case TH_JINJA_UNDEFINED:
    case TH_JINJA_NONE:
        return true;
    case TH_JINJA_STRING:
        return a.string->count == b.string->count && th_jinja_step(run, a.string->count / 64) &&
               memcmp(a.string->bytes, b.string->bytes, a.string->count) == 0;
    case TH_JINJA_LIST:
    case TH_JINJA_TUPLE:
    case TH_JINJA_DICT: {
        bool equal = false;
        if (++run->depth > TH_JINJA_DEPTH)
            th_jinja_fail(run, "the values are nested too deep");
        else
            equal = a.kind == TH_JINJA_DICT ? equal_dicts(run, a.dict, b.dict) : equal_lists(run, a.list, b.list);
        run->depth--;
        return equal;
    }
    default:
        return a.list == b.list;
    }
}

static int order_strings(const th_jinja_string *a, const th_jinja_string *b)
{
    const size_t count = a->count < b->count ? a->count : b->count;
    const int order = count == 0 ? 0 : memcmp(a->bytes, b->bytes, count);
    return order != 0 ? (order > 0) - (order < 0) : (a->count > b->count) - (a->count < b->count);
}

int th_jinja_order(th_jinja_run *run, th_jinja_value a, th_jinja_value b, const char *operator)
{
    if (!th_jinja_step(run, 1))
        return 0;
    if (th_jinja_is_number(a) && th_jinja_is_number(b))
        return is_nan(a) || is_nan(b) ? 2 : order_numbers(a, b);
    if (a.kind == TH_JINJA_STRING && b.kind == TH_JINJA_STRING && th_jinja_step(run, a.string->count / 64))
        return order_strings(a.string, b.string);
    if (a.kind == b.kind && th_jinja_is_sequence(a)) {
        for (size_t i = 0; i < a.list->count && i < b.list->count && !run->failed; i++)
            if (!th_jinja_equal(run, a.list->item[i], b.list->item[i]))
                return th_jinja_order(run, a.list->item[i], b.list->item[i], operator);
        return (a.list->count > b.list->count) - (a.list->count < b.list->count);
    }
    th_jinja_fail(run, "%s cannot compare %s and %s", operator, th_jinja_type(a), th_jinja_type(b));
    return 0;
}

/* -- iteration -- */

static th_jinja_value characters_of(th_jinja_run *run, const th_jinja_string *string)
{
    const th_jinja_value list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
    for (size_t at = 0; at < string->count && !run->failed;) {
        const th_jinja_string rest = {.bytes = string->bytes + at, .count = string->count - at};
        const size_t count = th_jinja_byte_of(&rest, 1);
        th_jinja_push(run, list, th_jinja_string_of(run, rest.bytes, count));
        at += count;
    }
    return list;
}

th_jinja_value th_jinja_items(th_jinja_run *run, th_jinja_value value)
{
    th_jinja_value list;
    switch (value.kind) {
    case TH_JINJA_LIST:
    case TH_JINJA_TUPLE:
        return value;
    case TH_JINJA_ITERATOR:
        list = th_jinja_list_of(run, TH_JINJA_LIST, 0);
        if (!run->failed) {
            *list.list = *value.list;
            *value.list = (th_jinja_list){0};
        }
        return list;
    case TH_JINJA_UNDEFINED:
        return th_jinja_list_of(run, TH_JINJA_LIST, 0);
    case TH_JINJA_STRING:
        return characters_of(run, value.string);
    case TH_JINJA_DICT:
        list = th_jinja_list_of(run, TH_JINJA_LIST, value.dict->count);
        for (size_t i = 0; i < value.dict->count && !run->failed; i++)
            th_jinja_push(run, list, value.dict->member[i].key);
        return list;
    default:
        return th_jinja_fail(run, "a %s cannot be iterated over", th_jinja_type(value));
    }
}
