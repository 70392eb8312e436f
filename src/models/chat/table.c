/* Tables of examples, as spreadsheets and pandas write them: see examples.h. A field may be quoted; then it may have line
 * breaks, and a quotation mark is written twice. */
#include <stdlib.h>
#include <string.h>

#include "models/chat/examples.h"
#include "models/core/files.h"

enum { MAX_COLUMNS = 1000, MAX_HEADER = 1 << 16 };

typedef struct table_field {
    char *text; /* gets the text without quotation marks, and NUL; NULL: not needed */
    size_t bytes;
    const char *end; /* before a delimiter or a line break, or at the end of the table */
    const char *problem;
} table_field;

static bool ends_row(const char *at, const char *end)
{
    return at == end || *at == '\n' || (*at == '\r' && (at + 1 == end || at[1] == '\n'));
}

static void put(table_field *field, char c)
{
    if (field->text)
        field->text[field->bytes] = c;
    field->bytes++;
}

/* Reads a field whose opening quotation mark is at `at`. */
static void read_quoted(const th_example_reader *r, const char *at, table_field *field)
{
    const char *const end = r->end - at > TH_MAX_EXAMPLE ? at + TH_MAX_EXAMPLE : r->end;
    for (at++; at < end; at++) {
        if (*at == '"' && (at + 1 == end || at[1] != '"'))
            break;
        at += *at == '"';
        put(field, *at);
    }
    field->end = at < end ? at + 1 : at;
    if (at == end)
        field->problem = "a field of this row begins with a quotation mark, and the mark that closes it is missing";
    else if (!ends_row(field->end, r->end) && *field->end != r->delimiter)
        field->problem = "text follows the closing quotation mark of a field; a mark inside a field is written twice";
}

static void read_field(const th_example_reader *r, const char *at, table_field *field)
{
    field->bytes = 0;
    if (at < r->end && *at == '"') {
        read_quoted(r, at, field);
    } else {
        for (; !ends_row(at, r->end) && *at != r->delimiter; at++)
            put(field, *at);
        field->end = at;
    }
    if (field->text)
        field->text[field->bytes] = 0;
}

const char *th_example_row_end(const th_example_reader *r, const char *at, const char **problem)
{
    table_field field = {.text = NULL};
    const char *newline = memchr(at, '\n', (size_t)(r->end - at)), *const begin = at;
    for (;; at = field.end + 1) {
        read_field(r, at, &field);
        if (field.end - begin > TH_MAX_EXAMPLE)
            field.problem = "the row has more than 64 MiB";
        if (field.problem || ends_row(field.end, r->end))
            break;
    }
    *problem = field.problem;
    return field.problem ? newline ? newline : r->end : field.end;
}

/* -- rows as values -- */

/* Why a field cannot be used; NULL if it can. */
static const char *check_text(const table_field *field)
{
    if (memchr(field->text, 0, field->bytes))
        return "the row has a NUL character";
    return th_is_utf8(field->text)
               ? NULL
               : "the row is not UTF-8; `iconv -f windows-1252 -t utf-8` converts tables of older spreadsheets";
}

/* Appends the fields of a row to an array, at most one more than a table may have. Returns false if memory runs out. */
static bool add_fields(const th_example_reader *r, const th_example_part *row, table_field *field, json_t *fields)
{
    const char *at = row->text, *const end = row->text + row->bytes;
    do {
        read_field(r, at, field);
        if (field->problem == NULL)
            field->problem = check_text(field);
        if (field->problem)
            return true;
        if (json_array_append_new(fields, json_stringn_nocheck(field->text, field->bytes)) != 0)
            return false;
        at = field->end + 1;
    } while (field->end < end && json_array_size(fields) <= MAX_COLUMNS);
    return true;
}

/* Returns the fields of a row as an array. Returns NULL and sets *problem as th_example_row does. */
static json_t *read_row(const th_example_reader *r, const th_example_part *row, const char **problem)
{
    table_field field = {.text = malloc(row->bytes + 1)};
    json_t *fields = field.text ? json_array() : NULL;
    const bool added = fields && add_fields(r, row, &field, fields);
    free(field.text);
    *problem = field.problem;
    if (added && !field.problem)
        return fields;
    json_decref(fields);
    return NULL;
}

/* Returns an object with the fields of a row. Returns NULL if memory runs out. */
static json_t *name_fields(const json_t *columns, const json_t *fields)
{
    json_t *object = json_object(), *field;
    bool complete = object != NULL;
    size_t i;
    json_array_foreach (fields, i, field) {
        const char *name = json_string_value(json_array_get(columns, i));
        complete = complete && (*name == 0 || json_object_set_nocheck(object, name, field) == 0);
    }
    if (complete)
        return object;
    json_decref(object);
    return NULL;
}

json_t *th_example_row(const th_example_reader *r, const th_example_part *row, const char **problem)
{
    json_t *fields = read_row(r, row, problem), *object = NULL;
    const size_t count = json_array_size(fields), columns = json_array_size(r->columns);
    if (fields && count != columns)
        *problem =
            count < columns ? "the row has fewer fields than the header" : "the row has more fields than the header";
    else if (fields)
        object = name_fields(r->columns, fields);
    json_decref(fields);
    return object;
}

/* -- names and the delimiter -- */

static const char delimiters[] = ",\t;|";

/* Returns the delimiter that the line has most often; 0: none. */
static char find_delimiter(const char *at, const char *end)
{
    size_t count[sizeof delimiters] = {0}, best = sizeof delimiters - 1;
    for (; !ends_row(at, end); at++)
        for (size_t i = 0; i + 1 < sizeof delimiters; i++)
            count[i] += *at == delimiters[i];
    for (size_t i = 0; i + 1 < sizeof delimiters; i++)
        if (count[i] > count[best])
            best = i;
    return delimiters[best];
}

/* Returns a name without spaces around it, in lower case. Returns NULL if memory runs out. */
static json_t *plain_name(const json_t *name)
{
    const char *text = json_string_value(name);
    size_t bytes = json_string_length(name);
    while (bytes > 0 && *text == ' ')
        text++, bytes--;
    while (bytes > 0 && text[bytes - 1] == ' ')
        bytes--;
    char *copy = strndup(text, bytes);
    for (char *c = copy; c && *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
    json_t *plain = copy ? json_stringn_nocheck(copy, bytes) : NULL;
    free(copy);
    return plain;
}

static bool make_names_plain(json_t *names)
{
    bool complete = true;
    for (size_t i = 0; i < json_array_size(names); i++)
        complete = complete && json_array_set_new(names, i, plain_name(json_array_get(names, i))) == 0;
    return complete;
}

/* Whether a table with this column alone has examples. */
static bool is_enough(const char *name)
{
    static const char *const names[] = {"text", "messages", "conversations"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

bool th_example_columns(th_example_reader *r, const char *first)
{
    const char *problem;
    th_example_reader beginning = *r;
    if (r->end - first > MAX_HEADER)
        beginning.end = first + MAX_HEADER;
    beginning.delimiter = r->delimiter = find_delimiter(first, beginning.end);
    const char *end = th_example_row_end(&beginning, first, &problem);
    if (end == beginning.end && end < r->end)
        return true; /* no header is so long */
    const th_example_part header = {.text = first, .bytes = (size_t)(end - first)};
    json_t *names = problem ? NULL : read_row(&beginning, &header, &problem);
    if (names == NULL)
        return problem != NULL;
    const size_t count = json_array_size(names);
    const bool complete = make_names_plain(names);
    if (complete && count <= MAX_COLUMNS && (count > 1 || is_enough(json_string_value(json_array_get(names, 0))))) {
        r->columns = names;
        r->at = end;
        return true;
    }
    json_decref(names);
    return complete;
}

/* Returns how many fields the row at `at` has with a delimiter. */
static size_t count_fields(const th_example_reader *r, const char *at, char delimiter)
{
    const th_example_reader reader = {.end = r->end, .delimiter = delimiter};
    table_field field = {.text = NULL};
    size_t count = 0;
    do {
        read_field(&reader, at, &field);
        at = field.end + 1;
        count++;
    } while (field.problem == NULL && !ends_row(field.end, r->end));
    return count;
}

bool th_example_name_columns(th_example_reader *r, const char *first, const char *names)
{
    const th_example_part header = {.text = names, .bytes = strlen(names)};
    const th_example_reader list = {.end = names + header.bytes, .delimiter = ','};
    const char *problem;
    r->columns = read_row(&list, &header, &problem);
    if (r->columns == NULL || !make_names_plain(r->columns))
        return false;
    r->delimiter = delimiters[0];
    for (const char *d = delimiters; *d; d++)
        if (count_fields(r, first, *d) == json_array_size(r->columns)) {
            r->delimiter = *d;
            break;
        }
    return true;
}
