/* Formats in the C locale, which is set for the calling thread during the call only. The locale "C" is static memory
 * in glibc and musl, so newlocale allocates nothing. */
#include "tensor/format.h"

#include <locale.h>
#include <string.h>

static int format_arguments(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
static int format_arguments(char *text, size_t size, const char *format, va_list arguments)
{
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t previous = c_locale ? uselocale(c_locale) : (locale_t)0;
    const int length = vsnprintf(text, size, format, arguments);
    if (c_locale) {
        uselocale(previous);
        freelocale(c_locale);
    }
    return length;
}

int th_format(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = format_arguments(text, size, format, arguments);
    va_end(arguments);
    return length;
}

void th_append_arguments(char *text, size_t size, const char *format, va_list arguments)
{
    const size_t used = strlen(text);
    format_arguments(text + used, size - used, format, arguments);
}

void th_append(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(text, size, format, arguments);
    va_end(arguments);
}

const char *th_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int th_format_to(FILE *file, const char *format, ...)
{
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t previous = c_locale ? uselocale(c_locale) : (locale_t)0;
    va_list arguments;
    va_start(arguments, format);
    const int length = vfprintf(file, format, arguments);
    va_end(arguments);
    if (c_locale) {
        uselocale(previous);
        freelocale(c_locale);
    }
    return length;
}
