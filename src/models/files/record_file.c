/* Appends complete records to files: see record_file.h. */
#include "models/files/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"

static th_status fail(th_record_file *f, int error_number)
{
    return th_fail(f->ctx, TH_ERROR_FILE, f->operation, "%.300s: %s", f->path,
                   error_number == ESPIPE ? "it is not a regular file" : strerror(error_number));
}

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

th_status th_record_open(th_record_file *f, th_context *ctx, const char *operation, const char *path, int flags)
{
    *f = (th_record_file){.ctx = ctx, .operation = operation, .descriptor = -1};
    f->path = th_allocate(ctx, strlen(path) + 1);
    if (f->path == NULL)
        return th_fail_memory(ctx, operation, strlen(path) + 1);
    strcpy(f->path, path);
    if (!th_is_system_path(path))
        flags |= O_NOFOLLOW;
    f->descriptor = th_open_file(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
    const off_t end = f->descriptor < 0 ? -1 : lseek(f->descriptor, 0, SEEK_END);
    f->size = end;
    if (end >= 0)
        return TH_OK;
    const int error_number = errno;
    const th_status status =
        error_number == ELOOP && is_link(path)
            ? th_fail(ctx, TH_ERROR_FILE, operation,
                      "%.300s is a symbolic link; logs are not written through links: give the path that it leads to",
                      path)
            : fail(f, error_number);
    if (f->descriptor >= 0 && (flags & O_EXCL)) /* it is new and empty */
        unlink(path);
    th_record_close(f);
    return status;
}

void th_record_close(th_record_file *f)
{
    if (f->descriptor >= 0)
        close(f->descriptor);
    th_release(f->ctx, f->bytes, f->capacity);
    th_release(f->ctx, f->path, f->path ? strlen(f->path) + 1 : 0);
    *f = (th_record_file){.ctx = f->ctx, .descriptor = -1};
}

static void release(th_context *ctx, void *object)
{
    th_record_close(object);
    th_release(ctx, object, sizeof(th_record_file));
}

th_record_file *th_record_new(th_context *ctx, const char *operation)
{
    th_record_file *f = th_allocate(ctx, sizeof *f);
    if (f)
        *f = (th_record_file){.ctx = ctx, .descriptor = -1};
    if (f && th_attach_object(ctx, f, release))
        return f;
    th_release(ctx, f, f ? sizeof *f : 0);
    th_fail_memory(ctx, operation, sizeof *f);
    return NULL;
}

void th_record_free(th_record_file *f)
{
    if (f == NULL)
        return;
    th_context *ctx = f->ctx;
    th_detach_object(ctx, f);
    release(ctx, f);
}

static bool grow_record(th_record_file *f, size_t needed)
{
    size_t capacity = f->capacity ? f->capacity : 1024;
    while (capacity < needed && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    unsigned char *bytes = capacity < needed ? NULL : th_allocate(f->ctx, capacity);
    if (bytes == NULL)
        return false;
    if (f->used)
        memcpy(bytes, f->bytes, f->used);
    th_release(f->ctx, f->bytes, f->capacity);
    f->bytes = bytes;
    f->capacity = capacity;
    return true;
}

void th_record_put(th_record_file *f, const void *bytes, size_t n)
{
    if (n == 0 || f->short_of_memory)
        return;
    if (n > f->capacity - f->used && (n > SIZE_MAX - f->used || !grow_record(f, f->used + n))) {
        f->short_of_memory = true;
        return;
    }
    memcpy(f->bytes + f->used, bytes, n);
    f->used += n;
}

void th_record_format(th_record_file *f, const char *format, ...)
{
    char text[64] = ""; /* enough for numbers, the only arguments */
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(text, sizeof text, format, arguments);
    va_end(arguments);
    th_record_put(f, text, strlen(text));
}

/* Writes the record after the complete ones. Returns 0, or the value of errno. */
static int write_record(th_record_file *f)
{
    if (f->torn && th_truncate_file(f->descriptor, f->size) != 0)
        return errno;
    f->torn = false;
    return th_write_bytes(f->descriptor, f->bytes, f->used, f->size) == f->used ? 0 : errno;
}

th_status th_record_write(th_record_file *f)
{
    th_status status = TH_OK;
    const int error_number = f->short_of_memory ? 0 : write_record(f);
    if (f->short_of_memory)
        status = th_fail_memory(f->ctx, f->operation, 2 * f->capacity);
    else if (error_number == 0)
        f->size += (int64_t)f->used;
    else
        status = fail(f, error_number);
    if (error_number != 0) /* or else before the next record; EINVAL: not a regular file, so nothing can be cut off */
        f->torn = th_truncate_file(f->descriptor, f->size) != 0 && errno != EINVAL;
    f->used = 0;
    f->short_of_memory = false;
    return status;
}

th_status th_log_check_arguments(th_record_file *f, int64_t step, const th_log_field *fields, int count)
{
    if (th_failed(f->ctx))
        return th_error_code(f->ctx);
    bool valid = step >= 0 && count >= 0 && (fields || count == 0);
    for (int i = 0; valid && i < count; i++)
        valid = fields[i].name != NULL;
    return valid ? TH_OK
                 : th_fail(f->ctx, TH_ERROR_ARGUMENT, f->operation,
                           "needs a step of at least 0 and %d fields with names", count);
}
