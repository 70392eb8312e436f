/* A file that appears at its path only when it is complete. Until then, and after an error or a crash at any moment,
 * the old file stays.
 *
 *     th_atomic_file f;
 *     if (!th_atomic_begin(&f, path))
 *         return fail(strerror(errno));
 *     const bool written = fwrite(bytes, 1, n, f.file) == n;
 *     if (!th_atomic_end(&f, written))
 *         return fail(strerror(errno));
 *
 * It is written beside the path (PATH.unfinished0), synchronized, and renamed; then the directory is synchronized. The
 * next writer to the same path removes the file that a killed process left. Anything else that has such a name stays: a
 * pipe, a folder, a link, a file with a second name, or another user's file. The writer then takes the next number.
 *
 * The new file gets the permissions and the group of the old file, and also its owner if an administrator writes the
 * file. A link at the path is followed if this user owns it and it leads to a name in its own folder
 * (newest.safetensors -> step_1000.safetensors). The new file replaces any other link, so nothing in a folder makes a
 * program write outside that folder. The system's names of open files and devices (/dev/stdout, /proc/self/fd/1) are
 * always followed. A device or a pipe at the path is written to in place. A pipe that no process reads is an error,
 * ENXIO.
 *
 * Windows has neither of these permissions and owners nor links: the new file inherits the permissions of its folder.
 *
 * A writer of several files that belong together calls th_atomic_finish for each of them, and th_atomic_publish when
 * all are complete. */
#ifndef TH_PLATFORM_ATOMIC_FILE_H
#define TH_PLATFORM_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "private_api.h"

enum { TH_MAX_PATH = 4096 };

typedef struct th_atomic_file {
    FILE *file;
    int descriptor;      /* of the file; the stream does not own it */
    int write_error;     /* errno of the first failed write; 0: none. With musl, ferror misses this error */
    bool direct;         /* a device or a pipe, which is written to, not replaced */
    bool unsynchronized; /* set by the caller: no fsync; faster, but a crash of the machine may lose the file */
    bool replaces;       /* a regular file existed, with these permissions: */
#ifndef _WIN32
    mode_t mode;
    uid_t owner;
    gid_t group;
#endif
    char target[TH_MAX_PATH];    /* the path, or what it links to */
    char temporary[TH_MAX_PATH]; /* beside the target */
} th_atomic_file;

/* Joins a folder and a name. Returns false if the path is too long. */
TH_PRIVATE_API bool th_path_join(char path[TH_MAX_PATH], const char *folder, const char *name);

/* Returns true if a path names an open file or a device of the system: /dev/stdout, /dev/fd/1, /proc/self/fd/1. The
 * system owns these links, so they are followed anywhere. */
TH_PRIVATE_API bool th_is_system_path(const char *path);
/* Opens f->file for writing. Returns false with errno on failure; then th_atomic_end must not be called. The struct
 * must not move until th_atomic_end. */
TH_PRIVATE_API bool th_atomic_begin(th_atomic_file *f, const char *path);
/* Closes the file. If `written` is true and nothing fails, the file replaces the old one and the function returns true.
 * Otherwise it discards the file and returns false with errno. If `written` is false, errno must be the caller's error;
 * 0 becomes EIO. An error of writing to f->file counts even if the caller missed it. If only the directory cannot be
 * synchronized, the new file stays. */
TH_PRIVATE_API bool th_atomic_end(th_atomic_file *f, bool written);

/* The two halves of th_atomic_end. The first one completes the file under its temporary name, where it stays open and
 * locked. After an error the file is discarded. */
TH_PRIVATE_API bool th_atomic_finish(th_atomic_file *f, bool written);
/* Gives a complete file its name. After an error the file is discarded, except if only the directory cannot be
 * synchronized. */
TH_PRIVATE_API bool th_atomic_publish(th_atomic_file *f);
/* Discards a complete file instead. */
TH_PRIVATE_API void th_atomic_discard(th_atomic_file *f);

/* Removes a file, or a link, and synchronizes its directory. Returns true if the path does not exist. Returns false
 * with errno. */
TH_PRIVATE_API bool th_remove_file(const char *path);
/* Removes a temporary file that a killed process left under this name. Returns false for anything else. */
TH_PRIVATE_API bool th_remove_leftover(const char *name);

#endif
