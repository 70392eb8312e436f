/* Formats in the C locale, which is set for the calling thread during the call only. */
#include "tensor/format.h"

#include <string.h>

#include "platform/locale.h"

/* Writes to the file, or to text if file is NULL. */
static int format_arguments(FILE *file, char *text, size_t size, const char *format, va_list arguments) TH_FORMAT(4, 0);
static int format_arguments(FILE *file, char *text, size_t size, const char *format, va_list arguments)
{
    const th_locale previous = th_locale_begin_c();
    const int length = file ? vfprintf(file, format, arguments) : vsnprintf(text, size, format, arguments);
    th_locale_end_c(&previous);
    return length;
}

void th_append_arguments(char *text, size_t size, const char *format, va_list arguments)
{
    const size_t used = strlen(text);
    format_arguments(NULL, text + used, size - used, format, arguments);
}

void th_append(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(text, size, format, arguments);
    va_end(arguments);
}

/* -- files and paths -- */

int th_format(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = format_arguments(NULL, text, size, format, arguments);
    va_end(arguments);
    return length;
}

const char *th_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int th_format_to(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = format_arguments(file, NULL, 0, format, arguments);
    va_end(arguments);
    return length;
}
