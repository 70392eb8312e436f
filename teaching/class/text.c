#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void text_clear(class_text *t)
{
    t->used = 0;
    t->failed = false;
    if (t->data)
        t->data[0] = 0;
}

void text_free(class_text *t)
{
    free(t->data);
    *t = (class_text){0};
}

static void reserve(class_text *t, size_t more)
{
    const size_t needed = t->used + more + 1;
    if (needed <= t->size || t->failed)
        return;
    char *larger = realloc(t->data, 2 * needed);
    if (larger == NULL) {
        text_free(t);
        t->failed = true;
        return;
    }
    t->data = larger;
    t->size = 2 * needed;
}

void text_add(class_text *t, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    if (length >= 0)
        reserve(t, (size_t)length);
    if (length >= 0 && !t->failed)
        t->used += (size_t)vsnprintf(t->data + t->used, t->size - t->used, format, again);
    va_end(again);
    va_end(arguments);
}

void text_add_number(class_text *t, double value)
{
    if (isfinite(value))
        text_add(t, "%.17g", value);
    else
        text_add(t, "null");
}
