/* Limits for untrusted JSON, reading it, and typed access: see json.h. */
#include "models/files/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "models/core/files.h"
#include "models/files/json_build.h"

static bool fail_at(const th_json_source *source, size_t byte, const char *reason)
{
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: byte %zu: %s", source->name, byte, reason);
    return false;
}

/* -- tokens -- */

/* Whether a number, true, false or null ends before c. */
static bool ends_word(char c)
{
    return c != 0 && strchr(" \t\n\r,:{}[]\"", c) != NULL;
}

/* Returns the end of the token at `at`: a string, a bracket, a comma, a colon, or a word. Returns NULL if a string is
 * not closed. */
static const char *token_end(const char *at, const char *end)
{
    if (*at == '"') {
        for (at++; at < end && *at != '"'; at++)
            at += *at == '\\' && at + 1 < end;
        return at < end ? at + 1 : NULL;
    }
    if (ends_word(*at))
        return at + 1;
    while (at < end && !ends_word(*at))
        at++;
    return at;
}

const char *th_json_value_end(const char *text, const char *end)
{
    int64_t depth = 0;
    for (const char *at = text; (at = th_json_skip_space(at, end)) < end;) {
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at = token_end(at, end);
        if (at == NULL || depth <= 0)
            return at;
    }
    return NULL;
}

/* Returns the end of a value in a measured text; `at` itself if no value begins there. */
static const char *value_end(const char *at, const char *end)
{
    return *at == ',' || *at == ':' || *at == '}' || *at == ']' ? at : th_json_value_end(at, end);
}

/* -- limits -- */

/* Upper bounds of the bytes that a value takes, besides the characters of a string. A key needs COLON bytes
 * more than another string. While a token is read, there are also the equivalent of COPIES copies of it: a buffer that
 * doubles, and a key. */
enum { COLON = 16, STRING = 96, NUMBER = 48, ARRAY = 160, OBJECT = 256, ELEMENT = 24, BUFFER = 256, COPIES = 3 };

typedef struct measurement {
    int depth;
    size_t memory, longest; /* the bytes of the values, and of the longest token */
} measurement;

static size_t memory_bound(const measurement *m)
{
    return BUFFER + m->memory + COPIES * m->longest;
}

/* Counts one token. Returns what is wrong with it, or NULL. */
static const char *count_token(measurement *m, int max_depth, const char *token, size_t bytes)
{
    m->longest = bytes > m->longest ? bytes : m->longest;
    switch (*token) {
    case '{':
    case '[':
        m->memory += *token == '{' ? ELEMENT + OBJECT : ELEMENT + ARRAY;
        return m->depth++ < max_depth ? NULL : "objects and arrays are nested too deeply";
    case '}':
    case ']':
        return m->depth-- > 0 ? NULL : "a closing bracket comes before any opening bracket";
    case '"':
        m->memory += ELEMENT + STRING + bytes;
        return NULL;
    case ',':
    case ':':
        m->memory += *token == ':' ? COLON : 0;
        return NULL;
    default:
        m->memory += ELEMENT;
        if (*token != '-' && (*token < '0' || *token > '9'))
            return NULL;
        m->memory += NUMBER;
        return bytes > TH_JSON_MAX_NUMBER                      ? "a number has more than 64 characters"
               : bytes == 2 && memcmp(token, "-0", bytes) == 0 ? "the integer -0 is not supported; write 0 or -0.0"
                                                               : NULL;
    }
}

/* th_json_describe_rest completes this message. */
static const char more_text[] = "more text";

/* Counts the tokens from *at on. Returns what is wrong with the token at *at, or NULL at the end of a text within the
 * limits. */
static const char *count_tokens(measurement *m, const th_json_limits *limits, const char **at, const char *end)
{
    static const char cut[] = "the text ends too early";
    const char *const start = *at;
    for (const char *next; *at < end; *at = th_json_skip_space(next, end)) {
        if (m->depth == 0 && *at > start)
            return more_text;
        next = token_end(*at, end);
        if (next == NULL) {
            *at = end;
            return cut;
        }
        const char *reason = count_token(m, limits->depth, *at, (size_t)(next - *at));
        if (reason)
            return reason;
        if (limits->memory && memory_bound(m) > limits->memory)
            return "its values take more memory than allowed";
    }
    return m->depth > 0 || start == end ? cut : NULL;
}

/* The limits hold for invalid JSON, too: th_json_parse stops at the first error in the grammar, and before that byte it
 * finds the same tokens as this function. */
th_status th_json_measure(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits,
                          size_t *memory)
{
    if (bytes > limits->bytes)
        return th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %zu bytes are more than the %zu allowed",
                       source->name, bytes, limits->bytes);
    measurement m = {0};
    const char *at = th_json_skip_space(text, text + bytes);
    const char *reason = count_tokens(&m, limits, &at, text + bytes), *nul = memchr(text, 0, bytes);
    *memory = memory_bound(&m);
    if (nul && nul <= at) {
        at = nul;
        reason = "a NUL is not allowed";
    }
    char more[TH_JSON_REASON];
    if (reason)
        fail_at(source, (size_t)(at - text),
                reason == more_text ? th_json_describe_rest(at, text + bytes, more) : reason);
    return reason ? TH_ERROR_FILE : TH_OK;
}

/* -- building -- */

/* Builds one value. whole: the text is the whole source, so error messages give the byte. */
static json_t *build_value(const th_json_source *source, const char *text, size_t bytes, bool whole)
{
    th_json_error error;
    json_t *value = th_json_parse(text, bytes, &error);
    if (value)
        return value;
    if (error.reason[0] == 0)
        th_fail_memory(source->ctx, source->operation, bytes);
    else if (whole)
        fail_at(source, error.byte, error.reason);
    else
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, error.reason);
    return NULL;
}

json_t *th_json_build(const th_json_source *source, const char *text, size_t bytes)
{
    return build_value(source, text, bytes, false);
}

/* Removes the member `key` unless the text begins with '{' and contains the key without escapes. */
static void remove_escaped(const th_json_source *source, const char *text, size_t bytes, const char *key, json_t *value)
{
    const size_t length = strlen(key);
    th_json_iterator it = th_json_iterate(source, text, bytes);
    while (*text == '{' && th_json_next(&it))
        if (it.key_bytes == length + 2 && memcmp(it.key + 1, key, length) == 0)
            return;
    json_object_del(value, key);
}

/* Measures the text and builds its value, whose *memory the context counts. */
static json_t *measure_and_build(const th_json_source *source, const char *text, size_t bytes,
                                 const th_json_limits *limits, size_t *memory)
{
    if (th_json_measure(source, text, bytes, limits, memory) ||
        th_count_memory(source->ctx, *memory, source->operation))
        return NULL;
    json_t *value = build_value(source, text, bytes, true);
    if (value == NULL)
        th_uncount_memory(source->ctx, *memory);
    else if (limits->plain_key)
        remove_escaped(source, text, bytes, limits->plain_key, value);
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
    json_t *value = measure_and_build(source, text, bytes, limits, &memory);
    if (value)
        th_uncount_memory(source->ctx, memory);
    return value;
}

/* -- files -- */

/* Reads all bytes of an open file. Returns NULL with the error pending. */
static char *read_descriptor(const th_json_source *source, int descriptor, size_t bytes)
{
    th_context *ctx = source->ctx;
    char *text = th_allocate(ctx, bytes);
    if (text == NULL) {
        th_fail_memory(ctx, source->operation, bytes);
        return NULL;
    }
    const ssize_t got = th_read_bytes_at(descriptor, text, bytes, 0);
    if (got >= 0 && (size_t)got == bytes)
        return text;
    th_fail(ctx, TH_ERROR_FILE, source->operation, "%.300s: it could not be read in full: %s", source->name,
            got < 0 ? strerror(errno) : "it has become shorter");
    th_release(ctx, text, bytes);
    return NULL;
}

/* Reads a file's text, which the caller releases with th_release. Returns NULL with the error pending. */
static char *read_file_text(const th_json_source *source, const th_json_limits *limits, size_t *bytes)
{
    int64_t size = 0;
    const char *reason = NULL;
    char *text = NULL;
    const int descriptor = th_regular_descriptor(source->name, &size, &reason);
    if (descriptor >= 0 && size == 0)
        reason = "it is empty";
    else if (descriptor >= 0 && (uint64_t)size > limits->bytes)
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %lld bytes are more than the %zu allowed",
                source->name, (long long)size, limits->bytes);
    else if (descriptor >= 0)
        text = read_descriptor(source, descriptor, *bytes = (size_t)size);
    if (reason)
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, reason);
    if (descriptor >= 0)
        close(descriptor);
    return text;
}

json_t *th_json_read_file(const th_json_source *source, const th_json_limits *limits, size_t *memory)
{
    size_t bytes;
    char *text = read_file_text(source, limits, &bytes);
    if (text == NULL)
        return NULL;
    json_t *value = measure_and_build(source, text, bytes, limits, memory);
    th_release(source->ctx, text, bytes);
    return value;
}

/* -- members of an object -- */

th_json_iterator th_json_iterate(const th_json_source *source, const char *text, size_t bytes)
{
    return (th_json_iterator){.source = source, .text = text, .at = text + 1, .end = text + bytes};
}

static bool fail_iterator(th_json_iterator *it, const char *at, const char *reason)
{
    it->failed = true;
    return fail_at(it->source, (size_t)(at - it->text), reason);
}

/* No read goes past the object's last bracket, because th_json_measure has checked brackets and strings. */
bool th_json_next(th_json_iterator *it)
{
    const char *at = th_json_skip_space(it->at, it->end);
    if (*at == '}')
        return false;
    if (it->key && *at != ',')
        return fail_iterator(it, at, "a comma or a closing bracket is missing after a value");
    if (it->key)
        at = th_json_skip_space(at + 1, it->end);
    if (*at != '"')
        return fail_iterator(it, at, "a key is missing");
    it->key = at;
    at = token_end(at, it->end);
    it->key_bytes = (size_t)(at - it->key);
    at = th_json_skip_space(at, it->end);
    if (*at != ':')
        return fail_iterator(it, at, "a colon is missing after a key");
    it->value = th_json_skip_space(at + 1, it->end);
    it->at = value_end(it->value, it->end);
    it->value_bytes = (size_t)(it->at - it->value);
    return it->value_bytes > 0 || fail_iterator(it, it->at, "a value is missing");
}

/* -- typed members -- */

static bool refuse(const th_json_source *source, const char *key, const json_t *value, const char *wanted)
{
    char quoted[TH_QUOTED];
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: \"%s\" %s; it should be %s", source->name,
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
