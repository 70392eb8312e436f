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
        char *text_end = line_end > at && line_end[-1] == '\r' ? line_end - 1 : line_end;
        if (memchr(at, 0, (size_t)(text_end - at)))
            refuse(PROGRAM, "a line has a NUL character, as in UTF-16; texts are UTF-8. It begins: ", at);
        *text_end = 0;
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
    if (strcmp(word, "-") == 0 || stat(word, &status) == 0)
        return read_lines(word);
    if (strchr(word, ' ') == NULL && strpbrk(word, "/."))
        fprintf(stderr, PROGRAM ": there is no file %s, so the word is a text\n", word);
    line_list list = split_lines(word, strlen(word));
    if (list.count == 0)
        refuse(PROGRAM, "the text is empty", "");
    return list;
}

void free_lines(line_list *list)
{
    free(list->bytes);
    free(list->line);
}
