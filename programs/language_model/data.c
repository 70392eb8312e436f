/* Finds out what the data of `tune` is: examples (lines of JSON), a text, or a file that only looks like one of them.
 * For example, a table of examples is rejected, because training on its text is hardly intended. */
#include <string.h>
#include <strings.h>

#include "tuning.h"

#define LIKE_EXAMPLES "lines like {\"prompt\": \"...\", \"completion\": \"...\"}"

void write_document_name(const texts *text, size_t i, char *name, size_t bytes)
{
    const size_t training = text->documents - text->held_out;
    const bool held_out = i >= training;
    const char *word = held_out ? chosen.validation_file : text->name;
    if ((held_out ? text->held_out : training) == 1)
        snprintf(name, bytes, "%.250s", word);
    else
        snprintf(name, bytes, "%.200s, file %zu", word, (held_out ? i - training : i) + 1);
}

static bool has_ending(const char *path, const char *const *endings)
{
    const size_t length = strlen(path);
    for (; *endings; endings++) {
        const size_t count = strlen(*endings);
        if (length > count && strcasecmp(path + length - count, *endings) == 0)
            return true;
    }
    return false;
}

bool has_examples_ending(const char *path)
{
    return has_ending(path, (const char *const[]){".jsonl", ".json", ".ndjson", NULL});
}

/* -- the beginning of a document -- */

/* The fields of examples and of tables of examples, in this library and elsewhere. */
static const char *const example_fields[] = {"messages",      "prompt",      "completion", "text",
                                             "conversations", "instruction", "question",   "answer",
                                             "output",        "response",    NULL};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Moves *bytes to the first character that is not blank, behind a byte order mark. */
static void skip_blanks(const char **bytes, size_t *count)
{
    size_t begin = *count >= 3 && memcmp(*bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (begin < *count && is_blank((*bytes)[begin]))
        begin++;
    *bytes += begin;
    *count -= begin;
}

static size_t length_of_line(const char *bytes, size_t count)
{
    const char *newline = memchr(bytes, '\n', count);
    return newline ? (size_t)(newline - bytes) : count;
}

/* Returns whether the text begins with an object, or an array of objects, of JSON. */
static bool begins_as_json(const char *bytes, size_t count)
{
    skip_blanks(&bytes, &count);
    if (count == 0 || (bytes[0] != '{' && bytes[0] != '['))
        return false;
    const char inside = bytes[0] == '{' ? '"' : '{';
    bytes++;
    count--;
    skip_blanks(&bytes, &count);
    return count > 0 && bytes[0] == inside;
}

static bool contains(const char *bytes, size_t count, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= count; i++)
        if (memcmp(bytes + i, word, length) == 0)
            return true;
    return false;
}

/* Returns whether the text begins as JSON, and its first line or its first 4096 bytes have a key of examples. */
static bool begins_with_example(const char *bytes, size_t count)
{
    enum { MIN_SEARCHED = 4096 };
    if (!begins_as_json(bytes, count))
        return false;
    skip_blanks(&bytes, &count);
    const size_t line = length_of_line(bytes, count), searched = count < MIN_SEARCHED ? count : MIN_SEARCHED;
    for (const char *const *field = example_fields; *field; field++) {
        char key[32];
        snprintf(key, sizeof key, "\"%s\"", *field);
        if (contains(bytes, line > searched ? line : searched, key))
            return true;
    }
    return false;
}

size_t count_example_documents(const texts *text)
{
    size_t examples = 0;
    for (size_t i = 0, begin = 0; i < text->documents; begin = text->end[i++])
        examples += begins_with_example(text->bytes + begin, text->end[i] - begin);
    return examples;
}

/* Returns whether the first line has names of several columns, between commas, semicolons or tabs, and two of them are
 * fields of examples. Writes these two to `found`. */
static bool find_example_columns(const char *bytes, size_t count, const char *found[2])
{
    enum { MAX_LINE = 1000 };
    char line[MAX_LINE + 1], *rest = line;
    int known = 0;
    skip_blanks(&bytes, &count);
    count = length_of_line(bytes, count);
    if (count > MAX_LINE)
        return false;
    memcpy(line, bytes, count);
    line[count] = 0;
    for (const char *column; (column = strsep(&rest, ",;\t\r")) != NULL;) {
        column += strspn(column, " \"");
        const size_t length = strcspn(column, "\"");
        for (const char *const *field = example_fields; *field && known < 2; field++)
            if (strlen(*field) == length && strncasecmp(column, *field, length) == 0)
                found[known++] = *field;
    }
    return known == 2;
}

/* Returns what a file is that has no text; NULL: it may have text. */
static const char *kind_of_file(const char *bytes, size_t count)
{
    static const struct {
        const char *magic, *kind;
    } kinds[] = {
        {"PAR1", "a Parquet file"}, {"PK\3\4", "a ZIP archive or a spreadsheet"}, {"\x1f\x8b", "compressed (gzip)"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (count >= strlen(kinds[i].magic) && memcmp(bytes, kinds[i].magic, strlen(kinds[i].magic)) == 0)
            return kinds[i].kind;
    return NULL;
}

/* -- refusals -- */

static void check_document(const texts *text, size_t i, const char *bytes, size_t count)
{
    static const char *const tables[] = {".csv", ".tsv", NULL};
    char name[300], problem[800];
    const char *kind = kind_of_file(bytes, count), *column[2];
    write_document_name(text, i, name, sizeof name);
    if (kind) {
        snprintf(problem, sizeof problem, "%s is %s; tune reads texts and " LIKE_EXAMPLES, name, kind);
        give_up(PROGRAM, problem);
    }
    if (find_example_columns(bytes, count, column)) {
        snprintf(problem, sizeof problem,
                 "%s is a table with the columns %s and %s; tune reads " LIKE_EXAMPLES ". This command writes them:\n"
                 "  python3 -c 'import csv, json, sys; [print(json.dumps(r)) for r in csv.DictReader(sys.stdin)]' "
                 "<table.csv >data.jsonl",
                 name, column[0], column[1]);
        give_up(PROGRAM, problem);
    }
    const bool json = begins_as_json(bytes, count);
    if (json || has_ending(name, tables))
        fprintf(stderr,
                PROGRAM ": %s looks like %s, and tune trains on its text as it is; examples are " LIKE_EXAMPLES "\n",
                name, json ? "JSON" : "a table");
}

void check_texts(const texts *text)
{
    for (size_t i = 0, begin = 0; i < text->documents; begin = text->end[i++])
        check_document(text, i, text->bytes + begin, text->end[i] - begin);
}
