/* Opening regular files for reading: see regular_file.h. */
#include "platform/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/system_calls.h"

int th_regular_descriptor(const char *path, int64_t *bytes, const char **problem)
{
    struct stat status;
    const int descriptor = th_open_file(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0); /* (must not wait for a pipe) */
    const char *reason = NULL;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        reason = strerror(errno);
    else if (!S_ISREG(status.st_mode))
        reason = "it is not a regular file";
    else if (bytes)
        *bytes = status.st_size;
    if (reason == NULL)
        return descriptor;
    *problem = reason;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

FILE *th_regular_open(const char *path, int64_t *bytes, const char **problem)
{
    const int descriptor = th_regular_descriptor(path, bytes, problem);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    if (file == NULL && descriptor >= 0) {
        *problem = strerror(errno);
        close(descriptor);
    }
    return file;
}
