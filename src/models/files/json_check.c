/* The scanner of json.h: says whether a text is sound, and where not. It goes through the text once, without recursion;
 * the keys of open objects are remembered by where they stand, and looked through when their object closes. */
#include <stdlib.h>
#include <string.h>

#include "io/utf8.h"
#include "models/files/json.h"

/* A key of an open object. */
typedef struct key {
    uint64_t hash;
    const char *text; /* behind its opening quote */
} key;

typedef struct scanner {
    const th_json_source *source;
    const char *text, *at, *end;
    int depth, max_depth;
    size_t memory, max_memory;
    size_t longest; /* string of the text, in bytes */
    struct {
        bool object;
        int64_t first_key;
    } open[TH_JSON_MAX_DEPTH];
    key *keys; /* of all open objects, the innermost one's last */
    int64_t n_keys, capacity;
} scanner;

static bool fail_at(const scanner *s, const char *at, const char *trouble)
{
    th_fail(s->source->ctx, TH_ERROR_FILE, s->source->operation, "%.300s: byte %td: %s", s->source->name, at - s->text,
            trouble);
    return false;
}

static bool fail_here(const scanner *s, const char *trouble)
{
    return fail_at(s, s->at, s->at == s->end ? "the text ends in the middle" : trouble);
}

static bool ahead(const scanner *s, char wanted)
{
    return s->at < s->end && *s->at == wanted;
}

static void skip_space(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

/* -- strings -- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hexadecimal digits; -1 when they are none. */
static int32_t four_digits(const char *at)
{
    int32_t code = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

static bool is_between(int32_t code, int32_t low, int32_t high)
{
    return low <= code && code <= high;
}

/* An escape, from behind its backslash on: its character, or -1; *length is what it takes. */
static int32_t escaped(const char *at, const char *end, int *length)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    *length = 1;
    if (at == end)
        return -1;
    const char *letter = memchr(letters, *at, sizeof letters - 1);
    if (letter)
        return meant[letter - letters];
    if (*at != 'u' || end - at < 5)
        return -1;
    *length = 5;
    const int32_t code = four_digits(at + 1);
    if (!is_between(code, 0xd800, 0xdfff))
        return code;
    if (code >= 0xdc00 || end - at < 11 || at[5] != '\\' || at[6] != 'u')
        return -1;
    *length = 11;
    const int32_t low = four_digits(at + 7);
    return is_between(low, 0xdc00, 0xdfff) ? 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00)) : -1;
}

/* The next character of a string that has been scanned; -1 at its closing quote. Escapes become what they mean, other
 * bytes are given as they are: so equal strings give equal numbers. */
static int32_t next_character(const char **at, const char *end, int *pending, unsigned char rest[3])
{
    if (*pending > 0)
        return rest[3 - (*pending)--];
    if (**at == '"')
        return -1;
    if (**at != '\\')
        return (unsigned char)*(*at)++;
    int length;
    const int32_t code = escaped(*at + 1, end, &length);
    *at += 1 + length;
    char character[4];
    const size_t bytes = th_utf8_write((uint32_t)code, character);
    *pending = (int)bytes - 1;
    memcpy(rest + 4 - bytes, character + 1, bytes - 1);
    return (unsigned char)character[0];
}

/* Goes over a string, whose opening quote is ahead, up to behind its closing one. */
static bool scan_string(scanner *s)
{
    for (s->at++; s->at < s->end && *s->at != '"';) {
        const unsigned char c = (unsigned char)*s->at;
        int length;
        if (c < 0x20)
            return fail_here(s, "a control character in a string");
        if (c == '\\') {
            const int32_t code = escaped(s->at + 1, s->end, &length);
            if (code < 0)
                return fail_here(s, "an escape that stands for no character");
            if (code == 0)
                return fail_here(s, "the character NUL in a string");
            s->at += 1 + length;
            continue;
        }
        unsigned char four[4] = {0};
        memcpy(four, s->at, s->end - s->at < 4 ? (size_t)(s->end - s->at) : 4);
        length = th_utf8_length(four);
        if (length == 0)
            return fail_here(s, "it is not UTF-8");
        s->at += length;
    }
    if (s->at == s->end)
        return fail_here(s, "");
    s->at++;
    return true;
}

/* -- keys -- */

static bool remember_key(scanner *s, const char *text)
{
    if (s->n_keys == s->capacity) {
        const int64_t capacity = s->capacity ? 2 * s->capacity : 1024;
        key *keys = th_allocate(s->source->ctx, (size_t)capacity * sizeof *keys);
        if (keys == NULL) {
            th_fail_memory(s->source->ctx, s->source->operation, (size_t)capacity * sizeof *keys);
            return false;
        }
        if (s->n_keys > 0)
            memcpy(keys, s->keys, (size_t)s->n_keys * sizeof *keys);
        th_release(s->source->ctx, s->keys, (size_t)s->capacity * sizeof *keys);
        s->keys = keys;
        s->capacity = capacity;
    }
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    unsigned char rest[3];
    int pending = 0;
    const char *at = text;
    for (int32_t c; (c = next_character(&at, s->end, &pending, rest)) >= 0;)
        hash = (hash ^ (uint64_t)c) * 0x100000001b3u;
    s->keys[s->n_keys++] = (key){hash, text};
    return true;
}

/* By hash, and by the keys themselves where hashes are equal. (A key ends with its quote, wherever the text ends.) */
static int compare_keys(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    unsigned char rest_x[3], rest_y[3];
    int pending_x = 0, pending_y = 0;
    const char *at_x = x->text, *at_y = y->text;
    for (;;) {
        const int32_t c = next_character(&at_x, at_x + 12, &pending_x, rest_x);
        const int32_t d = next_character(&at_y, at_y + 12, &pending_y, rest_y);
        if (c != d)
            return c < d ? -1 : 1;
        if (c < 0)
            return 0;
    }
}

/* The beginning of a key, as what it means. */
static void copy_key(const char *text, char *start, size_t size)
{
    unsigned char rest[3];
    int pending = 0;
    size_t used = 0;
    for (int32_t c; used + 1 < size && (c = next_character(&text, text + 12, &pending, rest)) >= 0;)
        start[used++] = (char)c;
    start[used] = 0;
}

/* No key of the innermost object stands there twice. They are forgotten. */
static bool check_keys(scanner *s)
{
    const int64_t first = s->open[s->depth - 1].first_key, n = s->n_keys - first;
    key *keys = s->keys + first;
    s->n_keys = first;
    if (n < 2)
        return true;
    qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    for (int64_t i = 1; i < n; i++)
        if (keys[i - 1].hash == keys[i].hash && compare_keys(&keys[i - 1], &keys[i]) == 0) {
            const char *last = keys[i - 1].text > keys[i].text ? keys[i - 1].text : keys[i].text;
            char trouble[128], start[64], quoted[TH_QUOTED];
            copy_key(last, start, sizeof start);
            snprintf(trouble, sizeof trouble, "the key \"%s\" stands twice in one object", th_quote(start, quoted));
            return fail_at(s, last - 1, trouble);
        }
    return true;
}

/* -- numbers and words -- */

static int digits(const char *at, const char *end)
{
    int n = 0;
    while (at + n < end && n <= TH_JSON_MAX_NUMBER && at[n] >= '0' && at[n] <= '9')
        n++;
    return n;
}

static bool scan_number(scanner *s)
{
    const char *start = s->at, *at = s->at + (*s->at == '-');
    const int whole = digits(at, s->end);
    bool sound = whole == 1 || (whole > 1 && *at != '0');
    const bool negative_zero = whole == 1 && *at == '0' && at > start;
    at += whole;
    bool integer = true;
    if (sound && at < s->end && *at == '.') {
        const int fraction = digits(at + 1, s->end);
        sound = fraction > 0;
        at += 1 + fraction;
        integer = false;
    }
    if (sound && at < s->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < s->end && (*at == '+' || *at == '-');
        const int exponent = digits(at, s->end);
        sound = exponent > 0;
        at += exponent;
        integer = false;
    }
    if (at - start > TH_JSON_MAX_NUMBER)
        return fail_at(s, start, "a number of more than 64 characters");
    if (!sound)
        return fail_at(s, start, "what begins like a number is none");
    if (integer && negative_zero)
        return fail_at(s, start, "-0 is no integer");
    s->at = at;
    return true;
}

static bool scan_word(scanner *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= length && memcmp(s->at, words[i], length) == 0) {
            s->at += length;
            return true;
        }
    }
    return fail_here(s, "there is no value where one belongs");
}

/* -- structure -- */

/* Upper bounds of the bytes that jansson needs for a key, a value, or its place in an array, besides the characters of
 * a string. While jansson reads a string, it holds COPIES more of it: a buffer that doubles, and the decoded text. */
enum { KEY = 136, STRING = 96, NUMBER = 48, ARRAY = 160, OBJECT = 256, ELEMENT = 24, BUFFER = 256, COPIES = 3 };

static bool count_memory(scanner *s, size_t bytes)
{
    s->memory += bytes;
    return s->memory <= s->max_memory || s->max_memory == 0 ||
           fail_at(s, s->at, "its values take more memory than such a file may take");
}

/* A string that began at `start`. */
static bool count_string(scanner *s, size_t bytes, const char *start)
{
    const size_t size = (size_t)(s->at - start);
    s->longest = size > s->longest ? size : s->longest;
    return count_memory(s, bytes + size);
}

static bool open_container(scanner *s)
{
    if (s->depth == s->max_depth)
        return fail_at(s, s->at, "it is nested deeper than such a file is");
    s->open[s->depth].object = *s->at == '{';
    s->open[s->depth].first_key = s->n_keys;
    s->depth++;
    s->at++;
    return true;
}

/* A key and its colon. */
static bool scan_key(scanner *s)
{
    skip_space(s);
    const char *text = s->at + 1;
    if (!ahead(s, '"'))
        return fail_here(s, "a key is missing");
    if (!scan_string(s) || !remember_key(s, text) || !count_string(s, KEY, text))
        return false;
    skip_space(s);
    if (!ahead(s, ':'))
        return fail_here(s, "a key without a colon");
    s->at++;
    return true;
}

/* Up to the next value: over what closes behind the last one, a comma, and a key. *done: the text is over. */
static bool go_on(scanner *s, bool *done)
{
    for (skip_space(s); s->depth > 0; skip_space(s)) {
        const bool object = s->open[s->depth - 1].object;
        if (ahead(s, ',')) {
            s->at++;
            return !object || scan_key(s);
        }
        if (!ahead(s, object ? '}' : ']'))
            return fail_here(s, "neither a comma nor an end behind a value");
        if (object && !check_keys(s))
            return false;
        s->at++;
        s->depth--;
    }
    *done = true;
    return s->at == s->end || fail_at(s, s->at, "there is more behind the end");
}

/* One value, or the beginning of one; *begun: of an object or array with something in it. */
static bool scan_value(scanner *s, bool *begun)
{
    skip_space(s);
    *begun = false;
    const char *start = s->at;
    if (!count_memory(s, ELEMENT))
        return false;
    if (ahead(s, '"'))
        return scan_string(s) && count_string(s, STRING, start);
    if (ahead(s, '-') || (s->at < s->end && *s->at >= '0' && *s->at <= '9'))
        return scan_number(s) && count_memory(s, NUMBER);
    if (!ahead(s, '{') && !ahead(s, '['))
        return scan_word(s);
    const bool object = *s->at == '{';
    if (!count_memory(s, object ? OBJECT : ARRAY) || !open_container(s))
        return false;
    skip_space(s);
    *begun = !ahead(s, object ? '}' : ']');
    return !*begun || !object || scan_key(s);
}

th_status th_json_check(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits)
{
    size_t memory;
    return th_json_measure(source, text, bytes, limits, &memory);
}

th_status th_json_measure(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits,
                          size_t *memory)
{
    if (bytes > limits->bytes)
        return th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %zu bytes are more than the %zu allowed",
                       source->name, bytes, limits->bytes);
    scanner s = {.source = source,
                 .text = text,
                 .at = text,
                 .end = text + bytes,
                 .max_depth = limits->depth < TH_JSON_MAX_DEPTH ? limits->depth : TH_JSON_MAX_DEPTH,
                 .max_memory = limits->memory};
    bool done = false, begun = false;
    bool sound = true;
    while (sound && !done)
        sound = scan_value(&s, &begun) && (begun || go_on(&s, &done));
    sound = sound && count_memory(&s, BUFFER + COPIES * s.longest);
    th_release(source->ctx, s.keys, (size_t)s.capacity * sizeof *s.keys);
    *memory = s.memory;
    return sound ? TH_OK : source->ctx->error;
}
