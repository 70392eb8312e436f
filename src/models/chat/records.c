/* Divides a text into examples: see examples.h. The text is a file of any size, so nothing is copied but one row. */
#include <stdlib.h>
#include <string.h>

#include "models/chat/examples.h"
#include "models/files/json_build.h"

/* -- lines -- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *end_of_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

/* Returns the number of the line in which `at` is. The calls go forward. */
static int64_t line_of(th_example_reader *r, const char *at)
{
    for (const char *newline; (newline = memchr(r->counted, '\n', (size_t)(at - r->counted))) != NULL; r->line++)
        r->counted = newline + 1;
    return r->line;
}

/* -- JSON -- */

/* Moves behind the string whose opening quotation mark is at `at`. Returns NULL if a line or the text ends before. */
static const char *end_of_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"' && *at != '\n'; at++)
        at += *at == '\\' && at + 1 < end && at[1] != '\n';
    return at < end && *at == '"' ? at + 1 : NULL;
}

/* Returns the end of the object or array at `at`. Returns NULL if it cannot be found: a line ends within a string, the
 * nesting is too deep, a value follows another one without a comma, or the text ends. So a line with an open bracket does
 * not swallow the lines after it. */
static const char *end_of_value(const char *at, const char *end)
{
    bool value_may_follow = true;
    int depth = 0;
    end = end - at > TH_MAX_EXAMPLE ? at + TH_MAX_EXAMPLE : end;
    while (at && (at = th_json_skip_space(at, end)) < end) {
        const char c = *at;
        const bool opens = c == '{' || c == '[';
        if ((opens || c == '"') && !value_may_follow)
            return NULL;
        depth += opens - (c == '}' || c == ']');
        if (depth <= 0)
            return at + 1;
        if (depth > TH_EXAMPLE_DEPTH)
            return NULL;
        value_may_follow = opens || c == ',' || c == ':';
        at = c == '"' ? end_of_string(at, end) : at + 1;
    }
    return NULL;
}

/* Returns the end of an element of an array that is neither an object nor an array. */
static const char *end_of_word(const char *at, const char *end)
{
    while (at < end && *at != ',' && *at != ']' && *at != '\n')
        at++;
    return at;
}

/* Moves to the next line that begins with an object or an array. At the end of the text, no array is open. */
static void skip_to_value(th_example_reader *r)
{
    while ((r->at = end_of_line(r->at, r->end)) < r->end) {
        r->at++;
        if (r->at < r->end && (*r->at == '{' || *r->at == '['))
            return;
    }
    r->in_array = false;
}

/* Returns the end of a record outside of arrays: the end of the value, or the end of its last line if more text is there. */
static const char *end_with_line(const char *value_end, const char *end)
{
    const char *after = value_end;
    while (after < end && is_blank(*after))
        after++;
    return after == end || *after == '\n' ? value_end : end_of_line(after, end);
}

static void read_value(th_example_reader *r, th_example_part *record)
{
    const bool brackets = *r->at == '{' || *r->at == '[';
    const char *const begin = r->at, *const line_end = end_of_line(begin, r->end);
    const char *end = brackets ? end_of_value(begin, r->end) : r->in_array ? end_of_word(begin, r->end) : line_end;
    const bool found = end != NULL;
    if (!found)
        end = line_end;
    else if (!r->in_array)
        end = end_with_line(end, r->end);
    *record = (th_example_part){.text = begin, .bytes = (size_t)(end - begin), .line = line_of(r, begin)};
    if (found)
        r->at = end;
    else
        skip_to_value(r);
}

/* Enters and leaves arrays. Returns whether a value follows. */
static bool find_value(th_example_reader *r)
{
    while ((r->at = th_json_skip_space(r->at, r->end)) < r->end) {
        if (*r->at == (r->in_array ? ']' : '['))
            r->in_array = !r->in_array;
        else if (!r->in_array || *r->at != ',')
            return true;
        r->at++;
    }
    return false;
}

static bool next_value(th_example_reader *r, th_example_part *record)
{
    if (find_value(r)) {
        read_value(r, record);
        return true;
    }
    const bool is_open = r->in_array;
    r->in_array = false;
    if (is_open)
        *record = (th_example_part){.text = r->at,
                                    .line = line_of(r, r->at),
                                    .problem = "the array of examples has no end, so the file is not complete"};
    return is_open;
}

/* -- tables and sentences -- */

/* Skips empty lines of a table. A tab may be a delimiter. */
static void skip_blank_lines(th_example_reader *r)
{
    const char *at = r->at;
    while (at < r->end && (*at == ' ' || *at == '\r' || *at == '\n'))
        if (*at++ == '\n')
            r->at = at;
    r->at = at == r->end ? at : r->at;
}

/* Finds the next sentence. CoNLL's marks of documents are left out. */
static bool next_sentence(th_example_reader *r, th_example_part *record)
{
    static const char mark[] = "-DOCSTART-";
    while (r->at < r->end) {
        const char *begin = r->at;
        r->at = th_example_sentence_end(begin, r->end);
        if (r->at == begin) { /* an empty line */
            r->at = end_of_line(begin, r->end);
            r->at += r->at < r->end;
            continue;
        }
        *record = (th_example_part){.text = begin, .bytes = (size_t)(r->at - begin), .line = line_of(r, begin)};
        if (record->bytes < sizeof mark - 1 || memcmp(begin, mark, sizeof mark - 1) != 0)
            return true;
    }
    return false;
}

/* -- all -- */

/* Sets the reader to the beginning. Returns the first character that is not white space. */
static const char *begin_text(th_example_reader *r, const char *text, size_t bytes)
{
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *r = (th_example_reader){.at = text + mark, .counted = text, .end = text + bytes, .line = 1};
    return th_json_skip_space(r->at, r->end);
}

bool th_examples_begin(th_example_reader *r, const char *text, size_t bytes)
{
    const char *first = begin_text(r, text, bytes);
    return first == r->end || *first == '{' || *first == '[' || th_example_columns(r, first);
}

bool th_examples_begin_table(th_example_reader *r, const char *text, size_t bytes, const char *columns)
{
    (void)begin_text(r, text, bytes);
    skip_blank_lines(r);
    return th_example_name_columns(r, r->at, columns);
}

bool th_examples_begin_words(th_example_reader *r, const char *text, size_t bytes)
{
    const char *first = begin_text(r, text, bytes);
    r->sentences = first < r->end && *first != '{' && *first != '[';
    return true;
}

bool th_examples_next(th_example_reader *r, th_example_part *record)
{
    if (r->sentences)
        return next_sentence(r, record);
    if (r->columns == NULL)
        return next_value(r, record);
    skip_blank_lines(r);
    if (r->at == r->end)
        return false;
    const char *begin = r->at;
    *record = (th_example_part){.text = begin, .line = line_of(r, begin)};
    r->at = th_example_row_end(r, begin, &record->problem);
    record->bytes = (size_t)(r->at - begin);
    return true;
}

void th_examples_end(th_example_reader *r)
{
    json_decref(r->columns);
    r->columns = NULL;
}
