/* Sentences as CoNLL has them: a word in each line, with its label in the last column, and an empty line after each
 * sentence. See examples.h. */
#include <string.h>

#include "models/chat/examples.h"
#include "models/core/files.h"

static const char *end_of_word_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

/* Returns the end of a line without white space at its end. */
static const char *end_of_columns(const char *at, const char *line_end)
{
    while (line_end > at && (line_end[-1] == ' ' || line_end[-1] == '\t' || line_end[-1] == '\r'))
        line_end--;
    return line_end;
}

const char *th_example_sentence_end(const char *at, const char *end)
{
    for (const char *line_end; at < end; at = line_end + 1) {
        line_end = end_of_word_line(at, end);
        if (end_of_columns(at, line_end) == at)
            return at;
        if (line_end == end)
            return end;
    }
    return end;
}

/* Whether a line is a comment of CoNLL-U, such as "# sent_id = 5". A word may be "#", too. */
static bool is_sentence_comment(const char *at, const char *end)
{
    return end - at > 2 && at[0] == '#' && at[1] == ' ' && memchr(at, '=', (size_t)(end - at));
}

static bool append_column(json_t *list, const char *at, const char *end, const char **problem)
{
    const size_t bytes = (size_t)(end - at);
    if (memchr(at, '\0', bytes)) {
        *problem = "a word or its label has a NUL character";
        return false;
    }
    json_t *column = json_stringn_nocheck(at, bytes);
    if (column && !th_is_utf8(json_string_value(column)))
        *problem = "a word or its label is not UTF-8";
    if (*problem) {
        json_decref(column);
        return false;
    }
    return json_array_append_new(list, column) == 0;
}

/* Appends the first and the last column of a line. Returns false if memory runs out, or for a wrong line. */
static bool append_word_line(json_t *words, json_t *labels, const char *at, const char *end, const char **problem)
{
    const char delimiter = memchr(at, '\t', (size_t)(end - at)) ? '\t' : ' ';
    const char *word_end = memchr(at, delimiter, (size_t)(end - at)), *label = end;
    if (word_end == NULL) {
        *problem =
            "a line has one column; sentences have a word and its label in each line, and an empty line at the end";
        return false;
    }
    while (label[-1] != delimiter)
        label--;
    return append_column(words, at, word_end, problem) && append_column(labels, label, end, problem);
}

json_t *th_example_sentence(const th_example_part *record, const char *word_name, const char *label_name,
                            const char **problem)
{
    const char *const end = record->text + record->bytes;
    json_t *words = json_array(), *labels = json_array();
    bool complete = words && labels;
    *problem = NULL;
    for (const char *at = record->text, *line_end; complete && at < end; at = line_end + 1) {
        line_end = end_of_word_line(at, end);
        const char *text_end = end_of_columns(at, line_end);
        complete = is_sentence_comment(at, text_end) || append_word_line(words, labels, at, text_end, problem);
    }
    json_t *object = complete ? json_pack("{s:O, s:O}", word_name, words, label_name, labels) : NULL;
    json_decref(words);
    json_decref(labels);
    return object;
}
