/* Stores and appends printf-like texts (marker.h). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "marker.h"

static void append_arguments(char *text, size_t size, const char *format, va_list arguments)
{
    const size_t length = strlen(text);
    vsnprintf(text + length, size - length, format, arguments);
}

void append_text(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_arguments(text, size, format, arguments);
    va_end(arguments);
}

void write_text(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    text[0] = '\0';
    va_start(arguments, format);
    append_arguments(text, size, format, arguments);
    va_end(arguments);
}
