/* Reads and writes whole files for programs: see tapehead/files.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "tapehead/files.h"

static const char read_file[] = "file_read", write_file[] = "file_write";

static th_status fail(th_context *ctx, const char *operation, const char *path, const char *reason)
{
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, reason);
}

/* Makes space for `count` more bytes and the final NUL. */
static bool reserve_bytes(th_text *text, size_t count)
{
    if (count >= PTRDIFF_MAX - text->count)
        return false;
    const size_t capacity = text->count + count + 1;
    char *bytes = capacity <= text->capacity ? text->bytes : realloc(text->bytes, capacity);
    if (bytes == NULL)
        return false;
    text->bytes = bytes;
    text->capacity = capacity > text->capacity ? capacity : text->capacity;
    return true;
}

/* Appends `count` bytes of an open file to the text. */
static th_status append_file_bytes(th_context *ctx, const char *path, int descriptor, size_t count, th_text *text)
{
    if (!reserve_bytes(text, count))
        return th_fail_memory(ctx, read_file, count);
    const ssize_t got = th_read_bytes_at(descriptor, text->bytes + text->count, count, 0);
    const char *reason = got < 0 ? strerror(errno) : "it has become shorter";
    if (got >= 0 && (size_t)got == count)
        text->count += count;
    text->bytes[text->count] = 0;
    return got >= 0 && (size_t)got == count ? TH_OK : fail(ctx, read_file, path, reason);
}

th_status th_file_read(th_context *ctx, const char *path, size_t most, th_text *text)
{
    if (!th_usable_context(ctx, read_file))
        return ctx ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    if (path == NULL || text == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, read_file, "the %s is NULL", path ? "text" : "path");
    const char *reason;
    int64_t bytes;
    const int descriptor = th_regular_descriptor(path, &bytes, &reason);
    if (descriptor < 0)
        return fail(ctx, read_file, path, reason);
    const th_status status =
        append_file_bytes(ctx, path, descriptor, (uint64_t)bytes < most ? (size_t)bytes : most, text);
    (void)close(descriptor);
    return status;
}

th_status th_file_write(th_context *ctx, const char *path, const void *bytes, size_t count)
{
    th_atomic_file file;
    if (!th_usable_context(ctx, write_file))
        return ctx ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    if (path == NULL || (bytes == NULL && count > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, write_file, path ? "the bytes are NULL" : "the path is NULL");
    errno = 0;
    bool written = th_atomic_begin(&file, path);
    if (written)
        written = th_atomic_end(&file, count == 0 || fwrite(bytes, 1, count, file.file) == count);
    return written ? TH_OK : fail(ctx, write_file, path, strerror(errno));
}
