/* printf with a decimal point in every locale, and appending to strings. (Numbers of printed tensors: decimal.h.) */
#ifndef TH_TENSOR_FORMAT_H
#define TH_TENSOR_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "private_api.h"
#include "tapehead/base.h"

/* Appends to the string in text, which has size bytes, as much as fits. */
TH_PRIVATE_API void th_append(char *text, size_t size, const char *format, ...) TH_FORMAT(3, 4);
/* As th_append, with a va_list. */
TH_PRIVATE_API void th_append_arguments(char *text, size_t size, const char *format, va_list arguments) TH_FORMAT(3, 0);

/* -- files and paths -- */

/* As snprintf. */
int th_format(char *text, size_t size, const char *format, ...) TH_FORMAT(3, 4);
/* Appends name i of n names to a list such as "a, b and c". */
static inline void th_append_item(char *text, size_t size, int i, int n, const char *name)
{
    th_append(text, size, "%s%s", i == 0 ? "" : i == n - 1 ? " and " : ", ", name);
}
/* As fprintf. */
int th_format_to(FILE *file, const char *format, ...) TH_FORMAT(2, 3);
/* Returns the part of a path after the last slash. */
const char *th_base_name(const char *path);

#endif
