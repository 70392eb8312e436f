/* Headers of GGUF files that tests make in memory, byte by byte, and open without a file. */
#ifndef TESTS_GGUF_BYTES_H
#define TESTS_GGUF_BYTES_H

#include <string.h>

#include "memory.h"
#include "models/gguf/file.h"

#include "context.h"

static test_memory memory;
static char made[1 << 16];
static size_t bytes;
static th_gguf file;

static inline void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    ck_assert_ptr_nonnull(ctx);
}

static inline void teardown(void)
{
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
}

/* -- making a header -- */

static inline void put(const void *data, size_t count)
{
    ck_assert_uint_le(bytes + count, sizeof made);
    memcpy(made + bytes, data, count);
    bytes += count;
}

static inline void put32(uint32_t value)
{
    put(&value, sizeof value);
}

static inline void put64(uint64_t value)
{
    put(&value, sizeof value);
}

static inline void put_text(const char *text)
{
    put64(strlen(text));
    put(text, strlen(text));
}

static inline void begin(uint32_t version, uint64_t tensors, uint64_t values)
{
    bytes = 0;
    put("GGUF", 4);
    put32(version);
    put64(tensors);
    put64(values);
}

/* Begins a file in which elements may begin at every byte, so that a header without elements is a whole file. */
static inline void begin_packed(uint64_t tensors, uint64_t values)
{
    begin(3, tensors, values + 1);
    put_text("general.alignment");
    put32(TH_GGUF_UINT8);
    put("\1", 1);
}

static inline void put_value(const char *key, uint32_t kind, const void *data, size_t count)
{
    put_text(key);
    put32(kind);
    put(data, count);
}

/* A vector of F32 without elements, or of `size` ones. */
static inline void put_tensor(const char *name, uint64_t size, uint64_t offset)
{
    put_text(name);
    put32(1);
    put64(size);
    put32(0);
    put64(offset);
}

static inline bool opens(size_t count)
{
    return th_gguf_open_bytes(&file, ctx, "test", "m.gguf", made, count);
}

static inline void expect_opens(const char *what)
{
    ck_assert_msg(opens(bytes), "%s: %s", what, th_error_message(ctx));
    no_error();
    th_gguf_close(&file);
}

/* Checks that TH_ERROR_FILE is stored with this sentence behind the name of the file. */
static inline void expect_sentence(const char *sentence)
{
    const char *at = strstr(th_error_text(ctx), "m.gguf: ");
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_FILE);
    ck_assert_msg(at && strcmp(at + 8, sentence) == 0, "\"%s\", not \"%s\"", th_error_text(ctx), sentence);
    th_error_clear(ctx);
}

static inline void expect_refused(const char *sentence)
{
    ck_assert_msg(!opens(bytes), "no error, instead of \"%s\"", sentence);
    expect_sentence(sentence);
}

#endif
