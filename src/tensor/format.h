/* Text with floating numbers with a decimal point, whatever the locale of the program says: printf, and appending. (The
 * numbers of printed tensors have rules of their own: decimal.h.) */
#ifndef TH_TENSOR_FORMAT_H
#define TH_TENSOR_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "private_api.h"

int th_format(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Appends to the text that is there, in memory of size bytes, as much as fits. */
TH_PRIVATE_API void th_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
TH_PRIVATE_API void th_append_arguments(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int th_format_to(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What of a path is behind its last slash. */
const char *th_base_name(const char *path);

#endif
