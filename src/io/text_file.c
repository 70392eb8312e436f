/* Text files: see text_file.h. */
#include "io/text_file.h"

#include <errno.h>
#include <string.h>

#include "tensor/context.h"

th_status th_text_file_begin(th_atomic_file *f, th_context *ctx, const char *path, const char *operation)
{
    if (!th_atomic_begin(f, path))
        return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s cannot be opened for writing: %s", path, strerror(errno));
    f->unsynchronized = true;
    errno = 0;
    return TH_OK;
}

th_status th_text_file_end(th_atomic_file *f, bool written, th_context *ctx, const char *path, const char *operation)
{
    if (th_atomic_end(f, written))
        return TH_OK;
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s could not be written in full: %s", path, strerror(errno));
}
