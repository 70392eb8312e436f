/* Texts that grow, and JSON. A text that ran out of memory stays NULL. */
#ifndef CLASS_TEXT_H
#define CLASS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct class_text {
    char *data; /* NULL: nothing was written, or memory ran out */
    size_t size, used;
    bool failed;
} class_text;

void text_clear(class_text *t);
void text_free(class_text *t);
void text_add(class_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a number so that reading it gives the same number; null for NaN and infinite values. */
void text_add_number(class_text *t, double value);

#endif
