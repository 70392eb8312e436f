/* The lines of a file: see encoder.h. */
#include <string.h>

#include "encoder/encoder.h"
#include "shared/system.h"
#include "shared/texts.h"

static line_list split_lines(const char *bytes, size_t count)
{
    line_list list = {.bytes = malloc(count + 1)};
    size_t capacity = 1;
    for (size_t i = 0; i < count; i++)
        capacity += bytes[i] == '\n';
    list.line = malloc(capacity * sizeof *list.line);
    if (list.bytes == NULL || list.line == NULL)
        give_up(PROGRAM, "out of memory");
    memcpy(list.bytes, bytes, count);
    list.bytes[count] = 0;
    for (char *at = list.bytes, *end = list.bytes + count; at < end;) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        *line_end = 0;
        if (line_end > at && line_end[-1] == '\r')
            line_end[-1] = 0;
        if (*at)
            list.line[list.count++] = at;
        at = line_end + 1;
    }
    return list;
}

line_list read_lines(const char *path)
{
    texts file = open_texts(&path, 1, NULL);
    line_list list = split_lines(file.bytes, file.count);
    close_texts(&file);
    if (list.count == 0)
        refuse(PROGRAM, "the file has no line with text: ", path);
    return list;
}

line_list read_lines_or_text(const char *word)
{
    struct stat status;
    return strcmp(word, "-") == 0 || stat(word, &status) == 0 ? read_lines(word) : split_lines(word, strlen(word));
}

void free_lines(line_list *list)
{
    free(list->bytes);
    free(list->line);
}
