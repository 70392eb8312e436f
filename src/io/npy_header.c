/* Reading and writing the header of .npy files. The parser accepts only the part of Python's literals that headers
 * use. */
#include "io/npy_header.h"

#include <string.h>

#include "tensor/checked.h"
#include "tensor/format.h"

enum { ALIGNMENT = 64, GROWTH = 21 }; /* NumPy leaves space for the first size to grow to this many digits */

static const char *const descriptions[TH_DTYPE_COUNT] = {
    [TH_FLOAT32] = "<f4", [TH_FLOAT64] = "<f8", [TH_INT32] = "<i4", [TH_INT64] = "<i8", [TH_BOOL] = "|b1",
};

/* -- reading -- */

typedef struct parser {
    const char *cursor;
    char *problem; /* "" without an error; otherwise the first error */
} parser;

static void complain(parser *p, const char *format, const char *detail) TH_FORMAT(2, 0);
static void complain(parser *p, const char *format, const char *detail)
{
    if (p->problem[0] == 0)
        snprintf(p->problem, TH_NPY_PROBLEM_SIZE, format, detail);
}

static bool has_no_problem(const parser *p)
{
    return p->problem[0] == 0;
}

static void skip_spaces(parser *p)
{
    while (*p->cursor == ' ' || *p->cursor == '\t' || *p->cursor == '\n')
        p->cursor++;
}

/* Consumes c if it is the next character. */
static bool accept(parser *p, char c)
{
    skip_spaces(p);
    if (!has_no_problem(p) || *p->cursor != c)
        return false;
    p->cursor++;
    return true;
}

static void expect(parser *p, char c)
{
    if (!accept(p, c))
        complain(p, "its header lacks a '%s'", (char[]){c, 0});
}

/* Parses a quoted string without escapes. */
static void parse_string(parser *p, char *text, size_t size)
{
    skip_spaces(p);
    const char quote = *p->cursor;
    size_t n = 0;
    text[0] = 0;
    if (quote != '\'' && quote != '"') {
        complain(p, "its header lacks a %s", "string");
        return;
    }
    for (p->cursor++; *p->cursor != quote; p->cursor++) {
        if (*p->cursor < ' ' || *p->cursor > '~' || *p->cursor == '\\' || n + 1 >= size) {
            complain(p, "a string in its header does not %s", "end");
            return;
        }
        text[n++] = *p->cursor;
        text[n] = 0;
    }
    p->cursor++;
}

static void parse_dtype(parser *p, th_dtype *dtype)
{
    char text[32];
    skip_spaces(p);
    if (*p->cursor == '[') {
        complain(p, "its elements are %s, not numbers of one type", "records");
        return;
    }
    parse_string(p, text, sizeof text);
    for (int i = 0; i < TH_DTYPE_COUNT; i++)
        if (descriptions[i] && strcmp(text, descriptions[i]) == 0) {
            *dtype = (th_dtype)i;
            return;
        }
    complain(p, "its element type '%s' is not one of <f4, <f8, <i4, <i8, |b1", text);
}

static void parse_bool(parser *p, bool *value)
{
    skip_spaces(p);
    *value = strncmp(p->cursor, "True", 4) == 0;
    if (*value || strncmp(p->cursor, "False", 5) == 0)
        p->cursor += *value ? 4 : 5;
    else
        complain(p, "'fortran_order' in its header is neither %s", "True nor False");
}

static void parse_size(parser *p, int64_t *size)
{
    skip_spaces(p);
    if (*p->cursor < '0' || *p->cursor > '9')
        complain(p, "a size in its shape is not a %s", "non-negative integer");
    *size = 0;
    for (; has_no_problem(p) && *p->cursor >= '0' && *p->cursor <= '9'; p->cursor++)
        if (!th_checked_multiply(*size, 10, size) || !th_checked_add(*size, *p->cursor - '0', size))
            complain(p, "a size in its shape %s", "overflows");
}

/* Parses a tuple: (), (3,), (3, 4), ... */
static void parse_shape(parser *p, th_shape *shape)
{
    *shape = TH_SCALAR;
    expect(p, '(');
    bool comma = true;
    while (has_no_problem(p) && !accept(p, ')')) {
        if (!comma)
            complain(p, "its shape has no %s between two sizes", "comma");
        else if (shape->ndim == TH_MAX_DIMS)
            complain(p, "it has more than %s dimensions", "8");
        else
            parse_size(p, &shape->size[shape->ndim++]);
        comma = accept(p, ',');
    }
    if (has_no_problem(p) && shape->ndim == 1 && !comma)
        complain(p, "its shape is not a %s", "tuple");
}

bool th_npy_header_parse(const char *text, th_npy_header *header, char *problem)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    bool found[KEYS] = {false};
    parser p = {text, problem};
    problem[0] = 0;
    *header = (th_npy_header){0};
    expect(&p, '{');
    bool comma = true;
    while (has_no_problem(&p) && !accept(&p, '}')) {
        char key[32] = "";
        if (comma)
            parse_string(&p, key, sizeof key);
        int index = 0;
        while (index < KEYS && strcmp(key, keys[index]) != 0)
            index++;
        if (!comma)
            complain(&p, "its header has no %s between two entries", "comma");
        else if (index == KEYS)
            complain(&p, "its header has an unknown key '%s'", key);
        else if (found[index])
            complain(&p, "its header has the key '%s' twice", key);
        else
            found[index] = true;
        expect(&p, ':');
        if (has_no_problem(&p) && index == 0)
            parse_dtype(&p, &header->dtype);
        else if (has_no_problem(&p) && index == 1)
            parse_bool(&p, &header->fortran_order);
        else if (has_no_problem(&p))
            parse_shape(&p, &header->shape);
        comma = accept(&p, ',');
    }
    skip_spaces(&p);
    if (has_no_problem(&p) && *p.cursor != 0)
        complain(&p, "its header continues after its %s", "end");
    for (int i = 0; i < KEYS; i++)
        if (!found[i])
            complain(&p, "its header lacks the key '%s'", keys[i]);
    return has_no_problem(&p);
}

/* -- writing -- */

size_t th_npy_header_format(const th_npy_header *header, char *bytes)
{
    char *const text = bytes + TH_NPY_PREAMBLE;
    const size_t capacity = TH_NPY_WRITTEN_HEADER - TH_NPY_PREAMBLE;
    const th_shape *shape = &header->shape;
    text[0] = 0;
    th_append(text, capacity, "{'descr': '%s', 'fortran_order': %s, 'shape': (", descriptions[header->dtype],
              header->fortran_order ? "True" : "False");
    const size_t before = strlen(text);
    int growth = 0;
    for (int i = 0; i < shape->ndim; i++) {
        th_append(text, capacity, i ? ", %lld" : "%lld", (long long)shape->size[i]);
        growth = i ? growth : GROWTH - (int)(strlen(text) - before);
    }
    th_append(text, capacity, "%s), }%*s", shape->ndim == 1 ? "," : "", growth, "");
    size_t n = strlen(text);
    while ((TH_NPY_PREAMBLE + n + 1) % ALIGNMENT != 0)
        text[n++] = ' ';
    text[n++] = '\n';
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (char)(n & 0xff);
    bytes[9] = (char)(n >> 8);
    return TH_NPY_PREAMBLE + n;
}
