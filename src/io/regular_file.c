/* Opening regular files for reading: see regular_file.h. */
#include "io/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/system_calls.h"

int th_regular_descriptor(const char *path, int64_t *bytes, const char **reason)
{
    struct stat status;
    const int descriptor = th_open_file(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0); /* (must not wait for a pipe) */
    const char *found = NULL;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        found = strerror(errno);
    else if (!S_ISREG(status.st_mode))
        found = "it is not a regular file";
    else if (bytes)
        *bytes = status.st_size;
    if (found == NULL)
        return descriptor;
    *reason = found;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

FILE *th_regular_open(const char *path, int64_t *bytes, const char **reason)
{
    const int descriptor = th_regular_descriptor(path, bytes, reason);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    if (file == NULL && descriptor >= 0) {
        *reason = strerror(errno);
        close(descriptor);
    }
    return file;
}
