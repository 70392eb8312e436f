/* A temporary folder for a model in transformers' format, and a context that counts its memory. */
#ifndef TESTS_HUGGING_FACE_FOLDER_H
#define TESTS_HUGGING_FACE_FOLDER_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

#include "context.h"

#define FOLDER FIXTURES "/hugging_face/"

static char directory[64], path[128];
static test_memory memory;

static inline void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 3, .allocator = allocator_of(&memory)});
    ck_assert_ptr_nonnull(ctx);
    strcpy(directory, "/tmp/tapehead_hf_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static inline const char *in_directory(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* Only the files of a model may be left: no temporary file. */
static inline void teardown(void)
{
    unlink(in_directory("config.json"));
    unlink(in_directory("model.safetensors"));
    ck_assert_int_eq(rmdir(directory), 0);
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
}

#endif
