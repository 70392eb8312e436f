/* Builds the values of a JSON text, by recursive descent (RFC 8259). */
#include "models/files/json_build.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/files.h"
#include "models/files/json.h"

typedef struct reader {
    const char *at, *end;
    char *text; /* of the string that is being read; it grows */
    size_t capacity;
    bool short_of_memory;
    th_json_error *error;
} reader;

static json_t *read_value(reader *r);

const char *th_json_skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* Whether the next character that is not white space is c, which is skipped. */
static bool skip_if_next(reader *r, char c)
{
    r->at = th_json_skip_space(r->at, r->end);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* Stores what is wrong at the present place, if nothing was wrong before. Returns false. */
static bool reject(reader *r, const char *reason)
{
    if (r->error->reason[0] == 0)
        snprintf(r->error->reason, sizeof r->error->reason, "%s", reason);
    return false;
}

/* Returns value. NULL means that memory ran out. */
static json_t *note_missing_memory(reader *r, json_t *value)
{
    r->short_of_memory |= value == NULL;
    return value;
}

/* -- strings -- */

static bool reserve_text(reader *r, size_t bytes)
{
    if (bytes <= r->capacity)
        return true;
    char *grown = realloc(r->text, bytes > 2 * r->capacity ? bytes : 2 * r->capacity);
    if (grown == NULL) {
        r->short_of_memory = true;
        return false;
    }
    r->capacity = bytes > 2 * r->capacity ? bytes : 2 * r->capacity;
    r->text = grown;
    return true;
}

/* Reads four hexadecimal digits. Returns -1 if there are fewer. */
static int32_t read_hexadecimal(reader *r, const char *close)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = r->at < close && *r->at ? strchr(digits, *r->at | (*r->at >= 'A' ? 0x20 : 0)) : NULL;
        if (digit == NULL)
            return -1;
        unit = 16 * unit + (int32_t)(digit - digits);
    }
    return unit;
}

/* Reads the rest of an escape \uXXXX, or of two that are one character. Returns 0 if it is not allowed. */
static uint32_t read_escaped_code(reader *r, const char *close)
{
    static const char lone_half[] = "an escape is one half of a character";
    const int32_t first = read_hexadecimal(r, close);
    if (first <= 0)
        return reject(r, first == 0 ? "the escape \\u0000 is not allowed" : "\\u needs four hexadecimal digits");
    if (first < 0xd800 || first > 0xdfff)
        return (uint32_t)first;
    if (first > 0xdbff || close - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
        return reject(r, lone_half);
    r->at += 2;
    const int32_t second = read_hexadecimal(r, close);
    if (second < 0xdc00 || second > 0xdfff)
        return reject(r, lone_half);
    return 0x10000u + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
}

/* Reads one character, or an escape, to `to`. Returns the bytes written; 0 if it is not allowed. */
static size_t read_character(reader *r, const char *close, char *to)
{
    if ((unsigned char)*r->at < 0x20)
        return reject(r, "a string contains a control character that is not escaped");
    if (*r->at != '\\') {
        const int length = th_utf8_length((const unsigned char *)r->at);
        memcpy(to, r->at, (size_t)length);
        r->at += length;
        return length > 0 ? (size_t)length
                          : reject(r, "a string is not UTF-8; `iconv -f windows-1252 -t utf-8` converts older texts");
    }
    static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const char escape = r->at[1];
    r->at += 2;
    if (escape == 'u') {
        const uint32_t code = read_escaped_code(r, close);
        return code > 0 ? th_utf8_write(code, to) : 0;
    }
    for (size_t i = 0; i + 1 < sizeof escapes - 1; i += 2)
        if (escapes[i] == escape) {
            *to = escapes[i + 1];
            return 1;
        }
    return reject(r, "this escape does not exist");
}

/* Reads a string into r->text, with a NUL after it. The text between the quotes is never shorter than its
 * characters. */
static bool read_string(reader *r, size_t *bytes)
{
    const char *close = ++r->at;
    while (close < r->end && *close != '"')
        close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    if (close >= r->end)
        return reject(r, "a string is not closed");
    if (!reserve_text(r, (size_t)(close - r->at) + 1))
        return false;
    *bytes = 0;
    while (r->at < close) {
        const size_t count = read_character(r, close, r->text + *bytes);
        if (count == 0)
            return false;
        *bytes += count;
    }
    r->text[*bytes] = 0;
    r->at = close + 1;
    return true;
}

/* -- numbers -- */

static size_t skip_digits(reader *r)
{
    const char *const start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - start);
}

static bool skip_one_of(reader *r, const char *characters)
{
    const bool found = r->at < r->end && *r->at && strchr(characters, *r->at);
    r->at += found;
    return found;
}

/* Skips a number and sets *real if it has a fraction or an exponent. Returns false if its grammar is wrong. */
static bool skip_number(reader *r, bool *real)
{
    skip_one_of(r, "-");
    const bool zero = r->at < r->end && *r->at == '0';
    const size_t digits = skip_digits(r);
    if (digits == 0 || (zero && digits > 1))
        return false;
    *real = false;
    if (skip_one_of(r, ".")) {
        *real = true;
        if (skip_digits(r) == 0)
            return false;
    }
    if (skip_one_of(r, "eE")) {
        *real = true;
        skip_one_of(r, "+-");
        return skip_digits(r) > 0;
    }
    return true;
}

/* Converts a real. strtod expects the decimal point of the locale. */
static json_t *make_real(reader *r, const char *number, size_t bytes)
{
    char text[TH_JSON_MAX_NUMBER + 32];
    const char *point = memchr(number, '.', bytes), *local = localeconv()->decimal_point;
    const size_t whole = point ? (size_t)(point - number) : bytes;
    snprintf(text, sizeof text, "%.*s%.16s%.*s", (int)whole, number, point ? local : "",
             point ? (int)(bytes - whole - 1) : 0, point ? point + 1 : "");
    const double value = strtod(text, NULL);
    if (isfinite(value))
        return note_missing_memory(r, json_real(value));
    reject(r, "a real number is too large");
    return NULL;
}

static json_t *read_number(reader *r)
{
    const char *const start = r->at;
    bool real;
    if (!skip_number(r, &real) || r->at - start > TH_JSON_MAX_NUMBER) {
        r->at = start;
        reject(r, "this is not a value of JSON");
        return NULL;
    }
    if (real)
        return make_real(r, start, (size_t)(r->at - start));
    char text[TH_JSON_MAX_NUMBER + 1] = "";
    memcpy(text, start, (size_t)(r->at - start));
    errno = 0;
    const long long value = strtoll(text, NULL, 10);
    if (errno == 0)
        return note_missing_memory(r, json_integer(value));
    reject(r, "an integer is too large");
    return NULL;
}

/* -- objects, arrays, words -- */

/* Rejects the key in r->text. */
static bool reject_repeated(reader *r)
{
    char quoted[TH_QUOTED], reason[TH_QUOTED + 32];
    snprintf(reason, sizeof reason, "the key \"%s\" occurs twice", th_quote(r->text, quoted));
    return reject(r, reason);
}

/* Reads a key, a colon and a value into an object. */
static bool read_member(reader *r, json_t *object)
{
    size_t bytes;
    r->at = th_json_skip_space(r->at, r->end);
    if (r->at == r->end || *r->at != '"')
        return reject(r, "a key is missing");
    if (!read_string(r, &bytes))
        return false;
    if (json_object_get(object, r->text))
        return reject_repeated(r);
    char *key = strdup(r->text); /* the value may be a string, too */
    r->short_of_memory |= key == NULL;
    const bool colon = key && (skip_if_next(r, ':') || reject(r, "a colon is missing after a key"));
    json_t *value = colon ? read_value(r) : NULL;
    const bool added = value && json_object_set_new_nocheck(object, key, value) == 0;
    r->short_of_memory |= value && !added;
    free(key);
    return added;
}

static bool read_element(reader *r, json_t *array)
{
    json_t *value = read_value(r);
    const bool added = value && json_array_append_new(array, value) == 0;
    r->short_of_memory |= value && !added;
    return added;
}

/* Reads the members or elements up to the bracket `close` into a new object or array. */
static json_t *read_container(reader *r, json_t *container, bool (*read_next)(reader *, json_t *), char close)
{
    r->at++;
    bool valid = note_missing_memory(r, container) != NULL;
    if (valid && skip_if_next(r, close))
        return container;
    do
        valid = valid && read_next(r, container);
    while (valid && skip_if_next(r, ','));
    if (valid && skip_if_next(r, close))
        return container;
    reject(r, close == '}' ? "a comma or } is missing" : "a comma or ] is missing");
    json_decref(container);
    return NULL;
}

static json_t *read_word(reader *r, const char *word, json_t *value)
{
    const size_t bytes = strlen(word);
    if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, word, bytes) != 0) {
        reject(r, "this is not a value of JSON");
        return NULL;
    }
    r->at += bytes;
    return value;
}

/* Reads a value. The recursion is as deep as the text, whose depth th_json_measure limits. */
static json_t *read_value(reader *r)
{
    size_t bytes;
    r->at = th_json_skip_space(r->at, r->end);
    if (r->at == r->end) {
        reject(r, "a value is missing");
        return NULL;
    }
    switch (*r->at) {
    case '{':
        return read_container(r, json_object(), read_member, '}');
    case '[':
        return read_container(r, json_array(), read_element, ']');
    case '"':
        return read_string(r, &bytes) ? note_missing_memory(r, json_stringn_nocheck(r->text, bytes)) : NULL;
    case 't':
        return read_word(r, "true", json_true());
    case 'f':
        return read_word(r, "false", json_false());
    case 'n':
        return read_word(r, "null", json_null());
    default:
        return read_number(r);
    }
}

const char *th_json_describe_rest(const char *at, const char *end, char reason[TH_JSON_REASON])
{
    char start[TH_QUOTED], quoted[TH_QUOTED]; /* longer than what th_quote writes, so that it shows "..." */
    const size_t bytes = (size_t)(end - at) < sizeof start - 1 ? (size_t)(end - at) : sizeof start - 1;
    memcpy(start, at, bytes);
    start[bytes] = 0;
    snprintf(reason, TH_JSON_REASON, "there is more text after the value: %s; only white space may follow it",
             th_quote(start, quoted));
    return reason;
}

json_t *th_json_parse(const char *text, size_t bytes, th_json_error *error)
{
    reader r = {.at = text, .end = text + bytes, .error = error};
    *error = (th_json_error){{0}, 0};
    json_t *value = read_value(&r);
    free(r.text);
    if (value && th_json_skip_space(r.at, r.end) != r.end) {
        char more[TH_JSON_REASON];
        reject(&r, th_json_describe_rest(th_json_skip_space(r.at, r.end), r.end, more));
        json_decref(value);
        value = NULL;
    }
    error->byte = (size_t)(r.at - text);
    if (r.short_of_memory)
        error->reason[0] = 0;
    return value;
}
