/* Writes values of a GGUF file. */
#ifndef TH_MODELS_GGUF_WRITER_H
#define TH_MODELS_GGUF_WRITER_H

#include <stdio.h>

#include "models/gguf/file.h"

typedef struct th_gguf_writer {
    FILE *file;
    int64_t values; /* written so far */
} th_gguf_writer;

void th_gguf_put_uint32(th_gguf_writer *w, const char *key, uint32_t value);
void th_gguf_put_float32(th_gguf_writer *w, const char *key, double value);
void th_gguf_put_flag(th_gguf_writer *w, const char *key, bool value);
void th_gguf_put_text(th_gguf_writer *w, const char *key, const char *text, size_t bytes);
/* Begins an array; the caller writes its elements with the functions below. */
void th_gguf_put_array(th_gguf_writer *w, const char *key, th_gguf_kind item, uint64_t count);

/* Elements: numbers as in memory (processors are little-endian), and strings. */
void th_gguf_write_uint32(FILE *file, uint32_t value);
void th_gguf_write_uint64(FILE *file, uint64_t value);
void th_gguf_write_float32(FILE *file, double value);
void th_gguf_write_string(FILE *file, const char *text, size_t bytes);

#endif
