/* Shared by the fuzz targets. A target is a file NAME.c with the function LLVMFuzzerTestOneInput, and optionally
 * LLVMFuzzerCustomMutator. It aborts with a message if a property does not hold for the input. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/context.h"
#include "tapehead/tensor.h"

/* Runs a target on one input. libFuzzer or replay.c calls it. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Changes an input in place and returns its new size, which is at most max_size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
/* The general mutator, from libFuzzer or replay.c. Custom mutators call it, then repair checksums. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* Aborts with a message unless the condition holds: FUZZ_CHECK(n == m, "%d is not %d", n, m). */
#define FUZZ_CHECK(condition, ...) ((condition) ? (void)0 : fuzz_abort(__FILE__, __LINE__, __VA_ARGS__))
_Noreturn void fuzz_abort(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* -- contexts -- */

/* Returns a new context with one thread. Its allocator counts bytes and checks that they stay below the limit. */
th_context *fuzz_context(size_t memory_limit);
/* Frees the context, which must have no pending error, and checks that it has released all memory. */
void fuzz_context_free(th_context *ctx);
/* Checks that an error is pending if `failed`, and none otherwise. The message must be a sentence of visible UTF-8
 * characters. Clears the error. Returns failed. */
bool fuzz_failed(th_context *ctx, bool failed);
/* As fuzz_failed, and the error's code must be the expected one, or TH_ERROR_MEMORY. */
bool fuzz_failed_with(th_context *ctx, bool failed, th_status code);
/* As fuzz_failed_with and TH_ERROR_FILE, for a function that reads a file or a folder: the message must name it. */
bool fuzz_rejected(th_context *ctx, bool failed, const char *path);

/* -- files -- */

/* Returns a path in a folder of this process, which is removed at exit. Four such paths are valid at a time. */
const char *fuzz_path(const char *name);
/* Writes a file in that folder, and returns its path as fuzz_path does. */
const char *fuzz_write(const char *name, const void *bytes, size_t count);
/* Returns a whole file with a NUL behind it; the caller releases it with free. */
char *fuzz_read(const char *path, size_t *count);
/* Removes a file in that folder, if it exists. */
void fuzz_remove(const char *name);
/* Checks that a file has these bytes. */
void fuzz_check_file(const char *path, const void *bytes, size_t count);

/* -- inputs of several parts, separated by NUL -- */

typedef struct fuzz_part {
    const char *bytes; /* [count] */
    size_t count;
} fuzz_part;
/* Sets part[0 .. n - 1]. The last part is the rest; missing parts are empty. */
void fuzz_split(const uint8_t *data, size_t size, fuzz_part *part, int n);
/* Returns a copy with a NUL behind it; the caller releases it with free. */
char *fuzz_copy(fuzz_part part);

/* -- tensors -- */

/* Checks that two tensors have the same type, shape and bits. */
void fuzz_check_same(const th_tensor *a, const th_tensor *b);

#endif
