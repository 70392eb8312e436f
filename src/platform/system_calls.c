/* System calls that are repeated after a signal: see system_calls.h. */
#include "platform/system_calls.h"

#ifndef _WIN32 /* windows_files.c has these functions for Windows */

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static bool was_interrupted(long result)
{
    return result < 0 && errno == EINTR;
}

int th_open_file(const char *path, int flags, mode_t mode)
{
    int descriptor;
    do
        descriptor = open(path, flags, mode);
    while (was_interrupted(descriptor));
    return descriptor;
}

int th_close_file(int descriptor)
{
    const int result = close(descriptor);
    return was_interrupted(result) ? 0 : result;
}

DIR *th_open_folder(const char *path)
{
    DIR *folder;
    do
        folder = opendir(path);
    while (folder == NULL && errno == EINTR);
    return folder;
}

size_t th_write_bytes(int descriptor, const void *bytes, size_t count, off_t begin)
{
    size_t done = 0;
    while (done < count) {
        const char *rest = (const char *)bytes + done;
        const ssize_t n = begin < 0 ? write(descriptor, rest, count - done)
                                    : pwrite(descriptor, rest, count - done, begin + (off_t)done);
        if (was_interrupted(n))
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

ssize_t th_read_bytes_at(int descriptor, void *to, size_t count, off_t begin)
{
    size_t done = 0;
    while (done < count) {
        const ssize_t n = pread(descriptor, (char *)to + done, count - done, begin + (off_t)done);
        if (n == 0)
            break;
        if (n < 0 && !was_interrupted(n))
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

/* On macOS fsync leaves the bytes in the cache of the disk, and F_FULLFSYNC does not. Some file systems do not have it. */
static int synchronize(int descriptor)
{
#ifdef F_FULLFSYNC
    if (fcntl(descriptor, F_FULLFSYNC) == 0)
        return 0;
#endif
    return fsync(descriptor);
}

int th_synchronize_file(int descriptor)
{
    int result;
    do
        result = synchronize(descriptor);
    while (was_interrupted(result));
    return result;
}

int th_truncate_file(int descriptor, off_t size)
{
    int result;
    do
        result = ftruncate(descriptor, size);
    while (was_interrupted(result));
    return result;
}

int th_lock_file(int descriptor, int operation)
{
    int result;
    do
        result = flock(descriptor, operation);
    while (was_interrupted(result));
    return result;
}

int th_change_owner(int descriptor, uid_t owner, gid_t group)
{
    int result;
    do
        result = fchown(descriptor, owner, group);
    while (was_interrupted(result));
    return result;
}

int th_change_mode(int descriptor, mode_t mode)
{
    int result;
    do
        result = fchmod(descriptor, mode);
    while (was_interrupted(result));
    return result;
}

int th_path_exists(const char *path, th_file_status *status)
{
    if (stat(path, status) == 0)
        return 1;
    return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}

bool th_stream_clear_interrupt(FILE *file)
{
    if (!ferror(file) || errno != EINTR)
        return false;
    clearerr(file);
    errno = 0;
    return true;
}

size_t th_stream_read(FILE *file, void *to, size_t count)
{
    size_t done = 0;
    errno = 0;
    do
        done += fread((char *)to + done, 1, count - done, file);
    while (done < count && th_stream_clear_interrupt(file));
    return done;
}

#endif
