/* Files that appear at their path only when they are complete: see atomic_file.h. */
#include "platform/atomic_file.h"

#ifndef _WIN32 /* windows_files.c has these functions for Windows */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/system_calls.h"

enum { MAX_ATTEMPTS = 100 }; /* this many programs can write to one path at a time */
enum { MAX_LINKS = 8 };      /* the longest chain of links */

/* -- which file -- */

bool th_path_join(char path[TH_MAX_PATH], const char *folder, const char *name)
{
    return snprintf(path, TH_MAX_PATH, "%s/%s", folder, name) < TH_MAX_PATH;
}

bool th_is_system_path(const char *path)
{
    if (strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/fd/", 8) == 0)
        return true;
    return strncmp(path, "/dev/", 5) == 0 && strchr(path + 5, '/') == NULL;
}

/* Replaces the last name of target, a link, by the name that it leads to, and returns 1. Returns 0 if target is not a
 * link, leads out of its folder, or belongs to another user. Returns -1 with errno if the link cannot be read. */
static int follow_link(char target[TH_MAX_PATH])
{
    char name[TH_MAX_PATH];
    struct stat status;
    if (lstat(target, &status) != 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISLNK(status.st_mode) || status.st_uid != geteuid())
        return 0;
    const char *slash = strrchr(target, '/');
    const size_t begin = slash ? (size_t)(slash - target) + 1 : 0, capacity = TH_MAX_PATH - begin;
    const ssize_t length = readlink(target, name, capacity);
    if (length < 0)
        return -1;
    if (length == 0 || (size_t)length == capacity || memchr(name, '/', (size_t)length))
        return 0;
    memcpy(target + begin, name, (size_t)length);
    target[begin + (size_t)length] = 0;
    return 1;
}

/* Finds the path of the file that will be replaced. Returns false with errno. */
static bool find_target(const char *path, char target[TH_MAX_PATH])
{
    if (strlen(path) >= TH_MAX_PATH) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(target, path);
    int followed = 1;
    for (int i = 0; i < MAX_LINKS && followed > 0; i++)
        followed = follow_link(target);
    return followed >= 0;
}

/* -- the temporary file -- */

/* Returns true if `name` is still the name of the open file. Otherwise errno is EEXIST, or the error that prevents an
 * answer. */
static bool has_name(int descriptor, const char *name)
{
    struct stat opened, named;
    if (fstat(descriptor, &opened) != 0)
        return false;
    const bool exists = lstat(name, &named) == 0;
    if (!exists && errno != ENOENT)
        return false;
    errno = EEXIST;
    return exists && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Creates a file and locks it while it is open. Returns -1 with EEXIST if the name is taken. A file system without
 * locks does not show whether a file is still being written, so leftovers stay there. */
static int create_and_lock(const char *name, mode_t mode)
{
    const int descriptor = th_open_file(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor < 0)
        return -1;
    int error = EEXIST; /* before the lock, another process may mistake the file for a leftover and remove it */
    if (th_lock_file(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        if (has_name(descriptor, name))
            return descriptor;
        error = errno;
    }
    if (error != EEXIST)
        unlink(name);
    close(descriptor);
    errno = error;
    return -1;
}

/* Returns true if the open file is a leftover: this user owns it, it has no second name, and no process writes to it. A
 * writer holds a lock, which ends with its process. */
static bool is_leftover(int descriptor, const char *name)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           status.st_nlink == 1 && th_lock_file(descriptor, LOCK_EX | LOCK_NB) == 0 && has_name(descriptor, name);
}

/* The file is not used again, because another process may have opened it. (Opening must not wait for a pipe.) */
bool th_remove_leftover(const char *name)
{
    const int descriptor = th_open_file(name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0);
    if (descriptor < 0)
        return false;
    const bool removed = is_leftover(descriptor, name) && unlink(name) == 0;
    close(descriptor);
    return removed;
}

static int open_temporary(th_atomic_file *f, mode_t mode)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (snprintf(f->temporary, TH_MAX_PATH, "%s.unfinished%d", f->target, attempt) >= TH_MAX_PATH) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int descriptor = create_and_lock(f->temporary, mode);
        const bool taken = descriptor < 0 && errno == EEXIST;
        if (taken && th_remove_leftover(f->temporary))
            descriptor = create_and_lock(f->temporary, mode);
        if (descriptor >= 0 || !taken)
            return descriptor;
    }
    errno = EEXIST;
    return -1;
}

/* -- beginning and ending -- */

/* Opens a device, a pipe or the system's name of an open file, to write to it in place. Opening does not wait for a
 * process that reads the pipe; writing does. */
static int open_direct(const char *path)
{
    const int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const int descriptor = th_open_file(path, flags | (th_is_system_path(path) ? O_TRUNC : O_NOFOLLOW), 0);
    const int opened = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFL);
    if (opened >= 0)
        (void)fcntl(descriptor, F_SETFL, opened & ~O_NONBLOCK);
    return descriptor;
}

/* -- a stream whose writes are repeated if a signal interrupts them: the stream of fdopen loses bytes then -- */

#if defined __APPLE__ || defined __FreeBSD__ || defined __OpenBSD__ || defined __DragonFly__
#define HAVE_FUNOPEN
typedef int stream_count, stream_result;
#else /* glibc and musl */
typedef size_t stream_count;
typedef ssize_t stream_result;
#endif

/* The th_atomic_file keeps the first error, because the stream forgets it. */
static stream_result write_to_file(void *cookie, const char *bytes, stream_count count)
{
    th_atomic_file *f = cookie;
    const size_t done = th_write_bytes(f->descriptor, bytes, (size_t)count, TH_AT_POSITION);
    if (done < (size_t)count && f->write_error == 0)
        f->write_error = errno;
    return (stream_result)done;
}

static off_t seek_file(void *cookie, off_t position, int whence)
{
    const th_atomic_file *f = cookie;
    return lseek(f->descriptor, position, whence);
}

#ifdef HAVE_FUNOPEN
static FILE *open_stream(th_atomic_file *f)
{
    return funopen(f, NULL, write_to_file, seek_file, NULL);
}
#else
static int move_in_file(void *cookie, off_t *position, int whence)
{
    *position = seek_file(cookie, *position, whence);
    return *position < 0 ? -1 : 0;
}

static FILE *open_stream(th_atomic_file *f)
{
    return fopencookie(f, "wb", (cookie_io_functions_t){.write = write_to_file, .seek = move_in_file});
}
#endif

bool th_atomic_begin(th_atomic_file *f, const char *path)
{
    const bool system = th_is_system_path(path);
    struct stat existing;
    f->unsynchronized = false;
    f->write_error = 0;
    if (!find_target(path, f->target))
        return false;
    const bool exists = (system ? stat(path, &existing) : lstat(f->target, &existing)) == 0;
    if (!exists && errno != ENOENT)
        return false; /* a file whose permissions are unknown must not be replaced */
    f->direct = exists && (system || !(S_ISREG(existing.st_mode) || S_ISLNK(existing.st_mode)));
    f->replaces = exists && S_ISREG(existing.st_mode);
    f->owner = f->replaces ? existing.st_uid : 0;
    f->group = f->replaces ? existing.st_gid : 0;
    f->mode = f->replaces ? existing.st_mode & 0777 : 0;
    /* Only this user may read the new file until it has the permissions of the old one. */
    f->descriptor = f->direct ? open_direct(system ? path : f->target) : open_temporary(f, f->replaces ? 0600 : 0666);
    if (f->descriptor < 0)
        return false;
    f->file = open_stream(f);
    if (f->file == NULL) {
        const int error = errno;
        if (!f->direct)
            unlink(f->temporary);
        close(f->descriptor);
        errno = error;
    }
    return f->file != NULL;
}

/* Copies the permissions of the old file. Only an administrator can keep its owner. If the group of the old file cannot
 * be kept, the new file's group gets only the permissions of all users. A file system without permissions refuses, and
 * the permissions stay narrow. Returns false with errno if the disk fails. */
static bool copy_permissions(const th_atomic_file *f)
{
    mode_t mode = f->mode;
    bool kept = f->owner != geteuid() && th_change_owner(f->descriptor, f->owner, f->group) == 0;
    kept = kept || th_change_owner(f->descriptor, (uid_t)-1, f->group) == 0;
    if (!kept) {
        if (errno == EIO)
            return false;
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    }
    return th_change_mode(f->descriptor, mode) == 0 || errno != EIO;
}

/* Makes the new name survive a loss of power. Some file systems cannot do this and return EINVAL, which is not an
 * error here. */
static bool synchronize_directory(char *path)
{
    char *slash = strrchr(path, '/'), *end = slash == path ? path + 1 : slash;
    const char first = end ? *end : 0;
    if (end)
        *end = 0;
    const int descriptor = th_open_file(end ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (end)
        *end = first;
    if (descriptor < 0)
        return errno == EACCES; /* a user without read permission may still write to a directory */
    const bool done = th_synchronize_file(descriptor) == 0 || errno == EINVAL;
    const int error = errno;
    close(descriptor);
    errno = error;
    return done;
}

/* Returns whether close would succeed, while the file stays open and locked. A network file system writes at each
 * close, and may find only then that the disk is full. */
static bool check_close(int descriptor)
{
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return copy < 0 || th_close_file(copy) == 0;
}

/* Writes everything that the stream still has, and closes the stream. Returns 0 or the value of errno. */
static int finish_stream(th_atomic_file *f)
{
    errno = 0;
    const bool closed = fclose(f->file) == 0;
    f->file = NULL;
    if (f->write_error)
        return f->write_error;
    return closed ? 0 : errno ? errno : EIO;
}

/* Does everything that must precede the renaming. Returns 0 or the value of errno. */
static int complete_file(const th_atomic_file *f)
{
    const bool done = (!f->replaces || copy_permissions(f)) &&
                      (f->unsynchronized || th_synchronize_file(f->descriptor) == 0) && check_close(f->descriptor);
    return done ? 0 : errno;
}

bool th_atomic_finish(th_atomic_file *f, bool written)
{
    int error = written ? 0 : errno ? errno : EIO;
    const int stream_error = finish_stream(f);
    if (stream_error != 0)
        error = stream_error;
    if (!f->direct && error == 0)
        error = complete_file(f);
    if (error != 0)
        th_atomic_discard(f);
    errno = error;
    return error == 0;
}

void th_atomic_discard(th_atomic_file *f)
{
    if (!f->direct) /* before the lock is released: another process may remove an unlocked file as a leftover */
        unlink(f->temporary);
    (void)th_close_file(f->descriptor);
}

bool th_atomic_publish(th_atomic_file *f)
{
    int error = 0;
    if (!f->direct && rename(f->temporary, f->target) != 0) {
        error = errno;
        unlink(f->temporary);
    }
    if (th_close_file(f->descriptor) != 0 && f->direct)
        error = errno;
    if (!f->direct && !f->unsynchronized && error == 0 && !synchronize_directory(f->target))
        error = errno;
    errno = error;
    return error == 0;
}

bool th_atomic_end(th_atomic_file *f, bool written)
{
    return th_atomic_finish(f, written) && th_atomic_publish(f);
}

bool th_remove_file(const char *path)
{
    char folder[TH_MAX_PATH];
    if (strlen(path) >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(folder, path);
    if (unlink(path) != 0)
        return errno == ENOENT;
    return synchronize_directory(folder);
}

#endif
