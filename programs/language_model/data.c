/* Finds out what the data of `tune` is: examples, or texts. Refuses files that are not texts. */
#include <string.h>

#include "shared/system.h"
#include "tuning.h"

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

/* Whether document i has examples, by its name or its beginning. */
static bool has_examples(const texts *text, size_t i)
{
    const size_t begin = i > 0 ? text->end[i - 1] : 0;
    return has_examples_ending(text->paths[i]) ||
           th_instructions_format(text->bytes + begin, text->end[i] - begin) != NULL;
}

size_t count_example_documents(const texts *text)
{
    size_t examples = 0;
    for (size_t i = 0; i < text->documents; i++)
        examples += has_examples(text, i);
    return examples;
}

void refuse_mixed(const texts *text)
{
    size_t first[2] = {0}; /* a text, and examples */
    char problem[700];
    for (size_t i = text->documents; i-- > 0;)
        first[has_examples(text, i)] = i;
    snprintf(problem, sizeof problem,
             "some of the files have examples (JSON or tables), such as %.200s, and others are texts, such as %.200s; "
             "give one kind only",
             text->paths[first[1]], text->paths[first[0]]);
    refuse(PROGRAM, problem, "");
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

/* Returns what a file is that has no text; NULL: it may have text. Compressed files were decompressed once. */
static const char *kind_of_file(const char *bytes, size_t count)
{
    enum { SEARCHED = 4096 };
    static const struct {
        size_t at;
        const char *magic, *kind;
    } kinds[] = {
        {0, "PAR1", "a Parquet file"},         {0, "PK\3\4", "a ZIP archive or a spreadsheet"},
        {0, "\xfd\x37zXZ", "compressed (xz)"}, {0, "BZh", "compressed (bzip2)"},
        {257, "ustar", "a tar archive"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i].magic);
        if (count >= kinds[i].at + length && memcmp(bytes + kinds[i].at, kinds[i].magic, length) == 0)
            return kinds[i].kind;
    }
    if (th_compression_name(bytes, count))
        return "compressed twice";
    return memchr(bytes, 0, count < SEARCHED ? count : SEARCHED) ? "not a text in UTF-8: it has bytes of 0" : NULL;
}

static void check_document(const char *path, const char *bytes, size_t count)
{
    char problem[500];
    const char *kind = kind_of_file(bytes, count);
    if (kind) {
        snprintf(problem, sizeof problem,
                 "%.250s is %s; tune reads texts, JSON and tables (CSV, TSV), also compressed with gzip or zstd", path,
                 kind);
        give_up(PROGRAM, problem);
    }
    if (begins_as_json(bytes, count))
        fprintf(stderr,
                PROGRAM ": %s looks like JSON, and tune trains on its text as it is; examples are objects like "
                        "{\"prompt\": \"...\", \"completion\": \"...\"}\n",
                path);
}

void check_texts(const texts *text)
{
    for (size_t i = 0, begin = 0; i < text->documents; begin = text->end[i++])
        check_document(text->paths[i], text->bytes + begin, text->end[i] - begin);
}
