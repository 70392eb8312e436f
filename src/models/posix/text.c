/* Functions for text that the C library of Windows lacks: see posix.h. */
#define TH_POSIX_SOURCE
#include "models/posix/posix.h"

#ifdef _WIN32

#include <stdlib.h>

#include "platform/windows.h"

/* -- parts of texts -- */

void *th_posix_memmem(const void *text, size_t count, const void *part, size_t part_count)
{
    const char *at = text, *const wanted = part;
    if (part_count == 0)
        return (void *)(uintptr_t)text;
    for (size_t rest = count; rest >= part_count; rest = count - (size_t)(at - (const char *)text)) {
        at = memchr(at, *wanted, rest - part_count + 1);
        if (at == NULL || memcmp(at, wanted, part_count) == 0)
            return (void *)(uintptr_t)at;
        at++;
    }
    return NULL;
}

char *th_posix_strndup(const char *text, size_t most)
{
    const char *const end = memchr(text, 0, most);
    const size_t count = end ? (size_t)(end - text) : most;
    char *const copy = malloc(count + 1);
    if (copy) {
        memcpy(copy, text, count);
        copy[count] = 0;
    }
    return copy;
}

char *th_posix_strsep(char **text, const char *separators)
{
    char *const word = *text;
    if (word == NULL)
        return NULL;
    char *const end = word + strcspn(word, separators);
    *text = *end ? end + 1 : NULL;
    *end = 0;
    return word;
}

/* -- lines -- */

/* Makes space for `size` bytes. Returns false without memory. */
static bool reserve(char **line, size_t *capacity, size_t size)
{
    if (*line && size <= *capacity)
        return true;
    const size_t wanted = size < 120 ? 120 : 2 * size;
    char *const grown = realloc(*line, wanted);
    if (grown == NULL)
        return false;
    *line = grown;
    *capacity = wanted;
    return true;
}

/* Reads a line from a console, which has UTF-16. Ctrl-Z at its beginning is the end. */
static ssize_t read_console_line(HANDLE console, char **line, size_t *capacity)
{
    enum { CTRL_Z = 26, MOST = 1 << 14 }; /* a console passes no longer lines */
    wchar_t *const wide = malloc(MOST * sizeof *wide);
    DWORD count = 0;
    ssize_t result = -1;
    if (wide && ReadConsoleW(console, wide, MOST, &count, NULL) && count > 0 && wide[0] != CTRL_Z) {
        const int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, (int)count, NULL, 0, NULL, NULL);
        if (bytes > 0 && reserve(line, capacity, (size_t)bytes + 1)) {
            WideCharToMultiByte(CP_UTF8, 0, wide, (int)count, *line, bytes, NULL, NULL);
            (*line)[bytes] = 0;
            result = bytes;
        }
    }
    free(wide);
    return result;
}

ssize_t th_posix_getline(char **line, size_t *capacity, FILE *file)
{
    const int descriptor = _fileno(file);
    size_t count = 0;
    if (th_posix_isatty(descriptor))
        return read_console_line((HANDLE)_get_osfhandle(descriptor), line, capacity); /* NOLINT */
    for (int c = 0; c != '\n' && (c = getc(file)) != EOF;) {
        if (!reserve(line, capacity, count + 2))
            return -1;
        (*line)[count++] = (char)c;
    }
    if (count == 0)
        return -1;
    (*line)[count] = 0;
    return (ssize_t)count;
}

/* -- patterns -- */

/* Compares a character with the bracket expression behind `[`. Returns what follows the expression; NULL if it has no
 * end. */
static const char *match_set(const char *set, char c, bool *found)
{
    const bool negated = *set == '!' || *set == '^';
    const char *at = set + negated;
    *found = false;
    do {
        at += *at == '\\' && at[1];
        const char low = *at;
        if (low == 0)
            return NULL;
        const bool range = at[1] == '-' && at[2] && at[2] != ']';
        at += range ? 2 : 0;
        const char high = *at++;
        *found |= low <= c && c <= high;
    } while (*at != ']');
    *found ^= negated;
    return at + 1;
}

static bool matches(const char *pattern, const char *text)
{
    for (; *pattern; text++) {
        const char *rest = pattern + 1;
        bool found = *text != 0;
        if (*pattern == '*') {
            for (; *text; text++)
                if (matches(rest, text))
                    return true;
            return matches(rest, text);
        }
        if (*pattern == '[' && strchr(rest, ']')) {
            rest = match_set(rest, *text, &found);
            found = found && *text;
        } else if (*pattern != '?') {
            const bool escaped = *pattern == '\\' && *rest;
            found = pattern[escaped] == *text;
            rest += escaped;
        }
        if (!found || rest == NULL)
            return false;
        pattern = rest;
    }
    return *text == 0;
}

int th_posix_fnmatch(const char *pattern, const char *text, int flags)
{
    const bool hidden = (flags & FNM_PERIOD) && *text == '.' && *pattern != '.';
    return hidden || !matches(pattern, text);
}

/* -- dates -- */

/* The conversions that the C library has in every version. It ends the program at others. */
static const char known[] = "aAbBdHIjmMpSUwWyY%";
static const struct {
    char letter;
    const char *format;
} composed[] = {{'F', "%Y-%m-%d"},
                {'T', "%H:%M:%S"},
                {'R', "%H:%M"},
                {'D', "%m/%d/%y"},
                {'h', "%b"},
                {'n', "\n"},
                {'t', "\t"},
                {'r', "%I:%M:%S %p"},
                {'x', "%m/%d/%y"},
                {'X', "%H:%M:%S"},
                {'c', "%a %b %e %H:%M:%S %Y"}};

/* Writes one conversion. Returns its bytes. */
static size_t put_conversion(char *text, size_t size, char letter, const struct tm *time)
{
    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++)
        if (composed[i].letter == letter)
            return th_posix_strftime(text, size, composed[i].format, time);
    const char format[] = {'%', letter, 0};
    int count = -1;
    if (letter == 'e')
        count = snprintf(text, size, "%2d", time->tm_mday);
    else if (strchr(known, letter))
        return strftime(text, size, format, time);
    else
        count = snprintf(text, size, "%s", format);
    return count > 0 && (size_t)count < size ? (size_t)count : 0;
}

size_t th_posix_strftime(char *text, size_t size, const char *format, const struct tm *time)
{
    size_t used = 0;
    for (; *format; format++) {
        const bool unpadded = format[0] == '%' && format[1] == '-' && format[2];
        if (*format != '%' || format[1] == 0) {
            if (used + 1 >= size)
                return 0;
            text[used++] = *format;
            continue;
        }
        format += unpadded ? 2 : 1;
        const size_t count = put_conversion(text + used, size - used, *format, time);
        const size_t skipped = unpadded ? strspn(text + used, "0 ") : 0,
                     leading = skipped < count ? skipped : count - 1;
        if (count == 0)
            return 0;
        if (unpadded && leading > 0)
            memmove(text + used, text + used + leading, count - leading + 1);
        used += count - (unpadded ? leading : 0);
    }
    text[used] = 0;
    return used;
}

#endif
