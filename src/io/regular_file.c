/* Opening regular files for reading: see regular_file.h. */
#include "io/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *th_regular_open(const char *path, int64_t *bytes, const char **trouble)
{
    struct stat status;
    FILE *file = NULL;
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* (a pipe must not hold us up) */
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        *trouble = strerror(errno);
    else if (!S_ISREG(status.st_mode))
        *trouble = "it is not a regular file";
    else if ((file = fdopen(descriptor, "rb")) == NULL)
        *trouble = strerror(errno);
    if (file == NULL && descriptor >= 0)
        close(descriptor);
    if (file && bytes)
        *bytes = status.st_size;
    return file;
}
