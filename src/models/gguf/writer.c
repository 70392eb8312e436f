/* Writes values of a GGUF file. */
#include "models/gguf/writer.h"

#include <string.h>

void th_gguf_write_uint32(FILE *file, uint32_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

void th_gguf_write_uint64(FILE *file, uint64_t value)
{
    fwrite(&value, sizeof value, 1, file);
}

void th_gguf_write_float32(FILE *file, double value)
{
    const float single = (float)value;
    fwrite(&single, sizeof single, 1, file);
}

void th_gguf_write_string(FILE *file, const char *text, size_t bytes)
{
    th_gguf_write_uint64(file, bytes);
    if (bytes > 0)
        fwrite(text, 1, bytes, file);
}

static void begin_value(th_gguf_writer *w, const char *key, th_gguf_kind kind)
{
    th_gguf_write_string(w->file, key, strlen(key));
    th_gguf_write_uint32(w->file, (uint32_t)kind);
    w->values++;
}

void th_gguf_put_uint32(th_gguf_writer *w, const char *key, uint32_t value)
{
    begin_value(w, key, TH_GGUF_UINT32);
    th_gguf_write_uint32(w->file, value);
}

void th_gguf_put_float32(th_gguf_writer *w, const char *key, double value)
{
    begin_value(w, key, TH_GGUF_FLOAT32);
    th_gguf_write_float32(w->file, value);
}

void th_gguf_put_flag(th_gguf_writer *w, const char *key, bool value)
{
    begin_value(w, key, TH_GGUF_BOOL);
    fputc(value ? 1 : 0, w->file);
}

void th_gguf_put_text(th_gguf_writer *w, const char *key, const char *text, size_t bytes)
{
    begin_value(w, key, TH_GGUF_STRING);
    th_gguf_write_string(w->file, text, bytes);
}

void th_gguf_put_array(th_gguf_writer *w, const char *key, th_gguf_kind item, uint64_t count)
{
    begin_value(w, key, TH_GGUF_ARRAY);
    th_gguf_write_uint32(w->file, (uint32_t)item);
    th_gguf_write_uint64(w->file, count);
}
