/* A temporary folder for a model in transformers' format, and a context that counts its memory. */
#ifndef TESTS_HUGGING_FACE_FOLDER_H
#define TESTS_HUGGING_FACE_FOLDER_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tapehead/hugging_face.h"

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

/* Reads a model from a folder and writes it as the family. Every allocation fails in turn: the result is an error, and
 * nothing is left. */
static inline void export_without_memory(const char *from, const char *family)
{
    for (int64_t at = 1;; at++) {
        test_memory own = {.fail_at = at};
        th_context *other = th_context_new(&(th_context_options){.allocator = allocator_of(&own)});
        if (other == NULL)
            continue;
        th_module *model = th_language_model_from_pretrained(other, from);
        const th_export_options named = {.family = family};
        const th_status status = model ? th_language_model_export(model, directory, &named) : th_error_code(other);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        th_context_free(other);
        ck_assert_uint_eq(own.bytes, 0);
        if (own.calls < at)
            break;
    }
}

#endif
