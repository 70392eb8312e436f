/* A GGUF file taken apart, so that tests can change it and write it again. Reads what the library writes. */
#ifndef TESTS_GGUF_PARTS_H
#define TESTS_GGUF_PARTS_H

#include <string.h>

#include "folder.h"

enum { GGUF_VALUES = 64, GGUF_TENSORS = 160, GGUF_ALIGNMENT = 32 };
enum { UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 };

typedef struct gguf_value {
    char key[128];
    uint32_t kind;
    const void *bytes; /* behind the kind; an array's begin with the kind of its elements */
    size_t count;
} gguf_value;

typedef struct gguf_tensor {
    char name[64];
    uint32_t axes, type;
    uint64_t size[4]; /* the last axis first */
    uint64_t offset;
    const char *elements;
    size_t count; /* bytes of them, with the padding behind them */
} gguf_tensor;

typedef struct gguf_parts {
    char *file; /* the bytes that values and tensors point to */
    uint32_t version;
    uint64_t alignment;
    uint64_t n_values, n_tensors;
    gguf_value value[GGUF_VALUES];
    gguf_tensor tensor[GGUF_TENSORS];
    int place[GGUF_TENSORS]; /* the tensors in the order of their elements */
} gguf_parts;

/* -- reading -- */

static inline const char *gguf_take(const char **at, void *to, size_t bytes)
{
    const char *begin = *at;
    if (to)
        memcpy(to, begin, bytes);
    *at += bytes;
    return begin;
}

static inline void gguf_take_text(const char **at, char *text, size_t capacity)
{
    uint64_t bytes;
    gguf_take(at, &bytes, sizeof bytes);
    ck_assert_uint_lt(bytes, capacity);
    gguf_take(at, text, bytes);
    text[bytes] = 0;
}

static inline size_t gguf_size_of(uint32_t kind)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    ck_assert_uint_lt(kind, sizeof bytes);
    return bytes[kind];
}

static inline void gguf_skip_value(const char **at, uint32_t kind)
{
    uint64_t count = 0;
    uint32_t item;
    if (kind == ARRAY) {
        gguf_take(at, &item, sizeof item);
        gguf_take(at, &count, sizeof count);
        for (uint64_t i = 0; i < count; i++)
            gguf_skip_value(at, item);
    } else if (kind == STRING) {
        gguf_take(at, &count, sizeof count);
        *at += count;
    } else {
        *at += gguf_size_of(kind);
    }
}

static inline void gguf_take_value(const char **at, gguf_value *v)
{
    gguf_take_text(at, v->key, sizeof v->key);
    gguf_take(at, &v->kind, sizeof v->kind);
    v->bytes = *at;
    gguf_skip_value(at, v->kind);
    v->count = (size_t)(*at - (const char *)v->bytes);
}

static inline void gguf_take_tensor(const char **at, gguf_tensor *t)
{
    gguf_take_text(at, t->name, sizeof t->name);
    gguf_take(at, &t->axes, sizeof t->axes);
    gguf_take(at, t->size, t->axes * sizeof t->size[0]);
    gguf_take(at, &t->type, sizeof t->type);
    gguf_take(at, &t->offset, sizeof t->offset);
}

/* Takes a file of the library apart: its tensors are in the order of their elements. Free with gguf_free. */
static inline void gguf_read(const char *path, gguf_parts *p)
{
    size_t bytes;
    memset(p, 0, sizeof *p);
    p->file = read_bytes(path, &bytes);
    const char *at = p->file + 4;
    gguf_take(&at, &p->version, sizeof p->version);
    gguf_take(&at, &p->n_tensors, sizeof p->n_tensors);
    gguf_take(&at, &p->n_values, sizeof p->n_values);
    ck_assert(p->n_values < GGUF_VALUES && p->n_tensors <= GGUF_TENSORS);
    p->alignment = GGUF_ALIGNMENT;
    for (uint64_t i = 0; i < p->n_values; i++)
        gguf_take_value(&at, &p->value[i]);
    for (uint64_t i = 0; i < p->n_tensors; i++)
        gguf_take_tensor(&at, &p->tensor[i]);
    const size_t begin = ((size_t)(at - p->file) + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        gguf_tensor *t = &p->tensor[i];
        const uint64_t end = i + 1 < p->n_tensors ? p->tensor[i + 1].offset : bytes - begin;
        t->elements = p->file + begin + t->offset;
        t->count = (size_t)(end - t->offset);
        p->place[i] = (int)i;
    }
}

static inline void gguf_free(gguf_parts *p)
{
    free(p->file);
}

static inline gguf_value *gguf_find(gguf_parts *p, const char *key)
{
    for (uint64_t i = 0; i < p->n_values; i++)
        if (strcmp(p->value[i].key, key) == 0)
            return &p->value[i];
    return NULL;
}

static inline gguf_tensor *gguf_find_tensor(gguf_parts *p, const char *name)
{
    for (uint64_t i = 0; i < p->n_tensors; i++)
        if (strcmp(p->tensor[i].name, name) == 0)
            return &p->tensor[i];
    return NULL;
}

/* -- changes -- */

/* Sets a value, or adds one. The bytes are not copied. */
static inline void gguf_set(gguf_parts *p, const char *key, uint32_t kind, const void *bytes, size_t count)
{
    gguf_value *v = gguf_find(p, key);
    if (v == NULL) {
        ck_assert_uint_lt(p->n_values, GGUF_VALUES);
        v = &p->value[p->n_values++];
        snprintf(v->key, sizeof v->key, "%s", key);
    }
    v->kind = kind;
    v->bytes = bytes;
    v->count = count;
}

static inline void gguf_remove(gguf_parts *p, const gguf_value *v)
{
    const size_t behind = (size_t)(p->value + p->n_values - v - 1);
    memmove(p->value + (v - p->value), v + 1, behind * sizeof *v);
    p->n_values--;
}

/* Places the elements one behind the other, in the order of p->place. */
static inline void gguf_place(gguf_parts *p)
{
    uint64_t offset = 0;
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        gguf_tensor *t = &p->tensor[p->place[i]];
        t->offset = offset;
        offset += (t->count + p->alignment - 1) / p->alignment * p->alignment;
    }
}

/* -- writing -- */

/* Continues at the next multiple of the alignment; the file is sparse. */
static inline void gguf_pad(FILE *file, uint64_t alignment)
{
    const uint64_t at = (uint64_t)ftell(file), end = (at + alignment - 1) / alignment * alignment;
    ck_assert(fflush(file) == 0 && ftruncate(fileno(file), (off_t)end) == 0 && fseek(file, (long)end, SEEK_SET) == 0);
}

static inline void gguf_put_text(FILE *file, const char *text)
{
    const uint64_t bytes = strlen(text);
    fwrite(&bytes, sizeof bytes, 1, file);
    fwrite(text, 1, bytes, file);
}

/* Writes the file. The offsets stay as they are; gguf_place sets them. */
static inline void gguf_write(const char *path, const gguf_parts *p)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fwrite("GGUF", 1, 4, file);
    fwrite(&p->version, sizeof p->version, 1, file);
    fwrite(&p->n_tensors, sizeof p->n_tensors, 1, file);
    fwrite(&p->n_values, sizeof p->n_values, 1, file);
    for (uint64_t i = 0; i < p->n_values; i++) {
        gguf_put_text(file, p->value[i].key);
        fwrite(&p->value[i].kind, sizeof p->value[i].kind, 1, file);
        fwrite(p->value[i].bytes, 1, p->value[i].count, file);
    }
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        const gguf_tensor *t = &p->tensor[i];
        gguf_put_text(file, t->name);
        fwrite(&t->axes, sizeof t->axes, 1, file);
        fwrite(t->size, sizeof t->size[0], t->axes, file);
        fwrite(&t->type, sizeof t->type, 1, file);
        fwrite(&t->offset, sizeof t->offset, 1, file);
    }
    gguf_pad(file, p->alignment);
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        const gguf_tensor *t = &p->tensor[p->place[i]];
        fwrite(t->elements, 1, t->count, file);
        gguf_pad(file, p->alignment);
    }
    ck_assert_int_eq(fclose(file), 0);
}

#endif
