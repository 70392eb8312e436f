/* Finds out what the data of `tune` is: examples, or texts. Refuses files that are not texts. */
#include <string.h>

#include "system.h"
#include "tuning.h"

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
    static const char *const compressed[] = {".gz", ".zst", NULL};
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    if (has_ending(name, compressed))
        *strrchr(name, '.') = 0;
    return has_ending(name, (const char *const[]){".jsonl", ".json", ".ndjson", ".csv", ".tsv", NULL});
}

size_t count_example_documents(const texts *text)
{
    size_t examples = 0;
    for (size_t i = 0, begin = 0; i < text->documents; begin = text->end[i++])
        examples += th_instructions_format(text->bytes + begin, text->end[i] - begin) != NULL;
    return examples;
}

/* -- texts -- */

/* Returns the index of the first byte from i on that is neither white space nor a byte order mark. */
static size_t skip_blanks(const char *bytes, size_t count, size_t i)
{
    static const char blanks[] = " \t\r\n\xef\xbb\xbf";
    while (i < count && memchr(blanks, bytes[i], sizeof blanks - 1))
        i++;
    return i;
}

/* Returns whether the text begins with an object, or an array of objects, of JSON. */
static bool begins_as_json(const char *bytes, size_t count)
{
    const size_t bracket = skip_blanks(bytes, count, 0), inside = skip_blanks(bytes, count, bracket + 1);
    return inside < count &&
           ((bytes[bracket] == '{' && bytes[inside] == '"') || (bytes[bracket] == '[' && bytes[inside] == '{'));
}

/* Returns what a file is that has no text; NULL: it may have text. */
static const char *kind_of_file(const char *bytes, size_t count)
{
    static const struct {
        const char *magic, *kind;
    } kinds[] = {
        {"PAR1", "a Parquet file"},
        {"PK\3\4", "a ZIP archive or a spreadsheet"},
        {"\xfd"
         "7zXZ",
         "compressed (xz)"},
        {"BZh", "compressed (bzip2)"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (count >= strlen(kinds[i].magic) && memcmp(bytes, kinds[i].magic, strlen(kinds[i].magic)) == 0)
            return kinds[i].kind;
    return NULL;
}

static void check_document(const texts *text, size_t i, const char *bytes, size_t count)
{
    char name[300], problem[500];
    const char *kind = kind_of_file(bytes, count);
    write_document_name(text, i, name, sizeof name);
    if (kind) {
        snprintf(problem, sizeof problem,
                 "%s is %s; tune reads texts, JSON and tables (CSV, TSV), also compressed with gzip or zstd", name,
                 kind);
        give_up(PROGRAM, problem);
    }
    if (begins_as_json(bytes, count))
        fprintf(stderr,
                PROGRAM ": %s looks like JSON, and tune trains on its text as it is; examples are objects like "
                        "{\"prompt\": \"...\", \"completion\": \"...\"}\n",
                name);
}

void check_texts(const texts *text)
{
    for (size_t i = 0, begin = 0; i < text->documents; begin = text->end[i++])
        check_document(text, i, text->bytes + begin, text->end[i] - begin);
}
