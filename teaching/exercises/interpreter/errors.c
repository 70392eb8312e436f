/* Sentences about errors, and the memory of the syntax tree (language.h). */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language.h"

const char *base_name_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

static void store_error(interpreter *in, int line, const char *format, va_list arguments)
{
    if (in->error[0])
        return;
    const int length = snprintf(in->error, sizeof in->error, "%s, line %d: ", base_name_of(in->file), line);
    if (length > 0 && (size_t)length < sizeof in->error)
        vsnprintf(in->error + length, sizeof in->error - (size_t)length, format, arguments);
    if (in->n_tokens > 0)
        in->at = in->n_tokens - 1; /* the end, so that nothing else is parsed */
}

void fail_at(interpreter *in, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    store_error(in, line, format, arguments);
    va_end(arguments);
}

void fail(interpreter *in, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    store_error(in, peek(in)->line, format, arguments);
    va_end(arguments);
}

void unsupported(interpreter *in, const char *construct, const char *instead)
{
    fail(in, "%s is not in the C of the exercises: %s", construct, instead);
}

const char *type_text(type t)
{
    static const char *const names[] = {"bool",   "int",  "int64_t",  "size_t", "float",
                                        "double", "void", "th_array", "th_call"};
    static char text[4][48];
    static int next;
    char *result = text[next = (next + 1) % 4];
    snprintf(result, sizeof *text, "%s%s%s", t.constant_target && t.level ? "const " : "", names[t.base],
             t.level == 0 ? ""
             : t.array    ? " array"
                          : " *");
    return result;
}

/* -- memory, which is released together -- */

typedef struct block {
    struct block *next;
    max_align_t data[];
} block;

void *keep(interpreter *in, const void *data, size_t bytes)
{
    static max_align_t spare[64];
    block *b = malloc(sizeof *b + bytes);
    if (b == NULL) {
        in->no_memory = true;
        fail_at(in, 0, "the memory does not suffice");
        return memset(spare, 0, sizeof spare);
    }
    b->next = in->blocks;
    in->blocks = b;
    if (data)
        memcpy(b->data, data, bytes);
    else
        memset(b->data, 0, bytes);
    return b->data;
}

void release_tree(interpreter *in)
{
    while (in->blocks) {
        block *next = in->blocks->next;
        free(in->blocks);
        in->blocks = next;
    }
}
