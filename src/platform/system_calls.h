/* System calls that are repeated if a signal interrupts them, and streams that are read in the same way. Network and
 * user-space file systems return EINTR also for regular files. th_path_exists tells an absent file from an error. */
#ifndef TH_PLATFORM_SYSTEM_CALLS_H
#define TH_PLATFORM_SYSTEM_CALLS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#ifdef _WIN32
#include <stdint.h>
#define O_NONBLOCK 0 /* flags that Windows does not need */
#define O_CLOEXEC 0
enum { TH_POSIX_LINK = 0120000 }; /* the mode of a link */
/* What is at a path. (The C library's structure lacks the number of a file.) */
struct th_posix_stat {
    uint64_t st_dev, st_ino; /* the volume, and the number of the file on it */
    unsigned st_mode;        /* S_IFREG, S_IFDIR, S_IFIFO, S_IFCHR or TH_POSIX_LINK */
    int64_t st_size;         /* bytes; of a folder 0 */
};
typedef struct th_posix_stat th_file_status;
#else
#include <dirent.h>
typedef struct stat th_file_status;
#endif

#include "private_api.h"

/* Opens a file as open does. */
TH_PRIVATE_API int th_open_file(const char *path, int flags, mode_t mode);
/* Closes a descriptor. An interruption is not an error: Linux has closed it by then. */
int th_close_file(int descriptor);
enum { TH_AT_POSITION = -1 }; /* for th_write_bytes: where the descriptor is */
/* Writes all bytes from `begin` on, or at the descriptor's position (TH_AT_POSITION). Returns how many were written. If
 * fewer than count, errno says why. */
TH_PRIVATE_API size_t th_write_bytes(int descriptor, const void *bytes, size_t count, off_t begin);
/* Reads until `count` bytes have been read or the file ends. Returns how many were read; -1 with errno. */
TH_PRIVATE_API ssize_t th_read_bytes_at(int descriptor, void *to, size_t count, off_t begin);
/* Does what fsync does. */
int th_synchronize_file(int descriptor);
/* Does what ftruncate does. */
TH_PRIVATE_API int th_truncate_file(int descriptor, off_t size);
#ifdef _WIN32
/* Do what fstat and stat do. */
int th_posix_fstat(int descriptor, struct th_posix_stat *status);
int th_posix_stat(const char *path, struct th_posix_stat *status);
#else
/* Opens a folder as opendir does. */
TH_PRIVATE_API DIR *th_open_folder(const char *path);
/* Does what flock does. */
int th_lock_file(int descriptor, int operation);
/* Does what fchown does. */
int th_change_owner(int descriptor, uid_t owner, gid_t group);
/* Does what fchmod does. */
int th_change_mode(int descriptor, mode_t mode);
#endif

/* Returns 1 if something is at the path, 0 if not, and -1 with errno if this cannot be known. Links are followed. */
TH_PRIVATE_API int th_path_exists(const char *path, th_file_status *status);

/* Returns true if the last read of the stream was interrupted, and clears the error, so that the caller reads again. */
TH_PRIVATE_API bool th_stream_clear_interrupt(FILE *file);
/* Reads as fread does, in bytes. If the result is smaller than `count`, errno is 0 at the end of the file. */
TH_PRIVATE_API size_t th_stream_read(FILE *file, void *to, size_t count);

#endif
