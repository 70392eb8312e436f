/* JSON that has been checked, built by jansson and read value by value: see json.h. */
#include "models/files/json.h"

#include <string.h>
#include <unistd.h>

#include "models/files/regular_file.h"

/* -- building -- */

json_t *th_json_build(const th_json_source *source, const char *text, size_t bytes)
{
    json_error_t error;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    char quoted[TH_QUOTED];
    if (value == NULL && json_error_code(&error) == json_error_out_of_memory)
        th_fail_memory(source->ctx, source->operation, bytes);
    else if (value == NULL)
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name,
                th_quote(error.text, quoted));
    return value;
}

/* Checks the text and builds its values, whose *memory the context counts. */
static json_t *check_and_build(const th_json_source *source, const char *text, size_t bytes,
                               const th_json_limits *limits, size_t *memory)
{
    if (th_json_measure(source, text, bytes, limits, memory) ||
        th_count_memory(source->ctx, *memory, source->operation))
        return NULL;
    json_t *value = th_json_build(source, text, bytes);
    if (value == NULL)
        th_uncount_memory(source->ctx, *memory);
    return value;
}

void th_json_release(th_context *ctx, json_t *value, size_t memory)
{
    if (value == NULL)
        return;
    json_decref(value);
    th_uncount_memory(ctx, memory);
}

json_t *th_json_read(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits)
{
    size_t memory;
    json_t *value = check_and_build(source, text, bytes, limits, &memory);
    if (value)
        th_uncount_memory(source->ctx, memory);
    return value;
}

/* All of an open file, which has so many bytes. */
static char *load_descriptor(const th_json_source *source, int descriptor, size_t bytes)
{
    th_context *ctx = source->ctx;
    char *text = th_allocate(ctx, bytes);
    if (text == NULL) {
        th_fail_memory(ctx, source->operation, bytes);
        return NULL;
    }
    size_t done = 0;
    for (ssize_t got = 1; got > 0 && done<bytes; done += got> 0 ? (size_t)got : 0)
        got = read(descriptor, text + done, bytes - done);
    if (done == bytes)
        return text;
    th_release(ctx, text, bytes);
    th_fail(ctx, TH_ERROR_FILE, source->operation, "%.300s: it cannot be read to the end", source->name);
    return NULL;
}

char *th_json_load(const th_json_source *source, const th_json_limits *limits, size_t *bytes)
{
    int64_t size = 0;
    const char *trouble = NULL;
    char *text = NULL;
    const int descriptor = th_regular_descriptor(source->name, &size, &trouble);
    if (descriptor >= 0 && size == 0)
        trouble = "it is empty";
    else if (descriptor >= 0 && (uint64_t)size > limits->bytes)
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %lld bytes are more than the %zu allowed",
                source->name, (long long)size, limits->bytes);
    else if (descriptor >= 0)
        text = load_descriptor(source, descriptor, *bytes = (size_t)size);
    if (trouble)
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, trouble);
    if (descriptor >= 0)
        close(descriptor);
    return text;
}

json_t *th_json_read_file(const th_json_source *source, const th_json_limits *limits, size_t *memory)
{
    size_t bytes;
    char *text = th_json_load(source, limits, &bytes);
    if (text == NULL)
        return NULL;
    json_t *value = check_and_build(source, text, bytes, limits, memory);
    th_release(source->ctx, text, bytes);
    return value;
}

/* -- walking -- */

static const char *behind_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static const char *behind_string(const char *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

/* Whether a number, true, false or null ends before c. */
static bool ends_word(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == '}' || c == ']';
}

static const char *behind_word(const char *at, const char *end)
{
    while (at < end && !ends_word(*at))
        at++;
    return at;
}

/* Returns the end of an object or array. Brackets inside it are balanced. */
static const char *behind_container(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = behind_string(at);
        } else {
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
            at++;
        }
    } while (depth > 0);
    return at;
}

/* Returns the end of a value, before the spaces that follow it. */
static const char *behind_value(const char *at, const char *end)
{
    return *at == '"' ? behind_string(at) : *at == '{' || *at == '[' ? behind_container(at) : behind_word(at, end);
}

th_json_walk th_json_members(const char *text, size_t bytes)
{
    return (th_json_walk){.at = behind_space(text, text + bytes) + 1, .end = text + bytes};
}

bool th_json_next(th_json_walk *w)
{
    const char *at = behind_space(w->at, w->end);
    if (at < w->end && *at == ',')
        at = behind_space(at + 1, w->end);
    if (at >= w->end || *at != '"')
        return false;
    w->key = at;
    at = behind_string(at);
    w->key_bytes = (size_t)(at - w->key);
    at = behind_space(at, w->end) + 1; /* the colon */
    w->value = behind_space(at, w->end);
    w->at = behind_value(w->value, w->end);
    w->value_bytes = (size_t)(w->at - w->value);
    return true;
}

/* -- values -- */

static bool refuse(const th_json_source *source, const char *key, const json_t *value, const char *wanted)
{
    char quoted[TH_QUOTED];
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: \"%s\" %s, it should be %s", source->name,
            th_quote(key, quoted), value ? "has another type" : "is missing", wanted);
    return false;
}

bool th_json_integer(const th_json_source *source, const json_t *object, const char *key, int64_t low, int64_t high,
                     int64_t *value)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_integer(member))
        return refuse(source, key, member, "an integer");
    *value = json_integer_value(member);
    if (*value >= low && *value <= high)
        return true;
    char quoted[TH_QUOTED];
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: \"%s\" is %lld, outside %lld to %lld", source->name,
            th_quote(key, quoted), (long long)*value, (long long)low, (long long)high);
    return false;
}

bool th_json_number(const th_json_source *source, const json_t *object, const char *key, double *value)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_number(member))
        return refuse(source, key, member, "a number");
    *value = json_number_value(member);
    return true;
}

bool th_json_boolean(const th_json_source *source, const json_t *object, const char *key, bool *value)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_boolean(member))
        return refuse(source, key, member, "true or false");
    *value = json_is_true(member);
    return true;
}

bool th_json_string(const th_json_source *source, const json_t *object, const char *key, const char **value)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_string(member))
        return refuse(source, key, member, "a string");
    *value = json_string_value(member);
    return true;
}
