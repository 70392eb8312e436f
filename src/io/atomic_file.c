/* Files that appear at their path only when they are complete: see atomic_file.h. */
#include "io/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 }; /* this many programs can write to one path at a time */
enum { LINKS = 8 };      /* the longest chain of links */

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

/* Replaces the last name of target, a link, by the name that it leads to. Returns false if the link is not followed: it
 * leads out of its folder, or another user owns it. */
static bool follow_link(char target[TH_MAX_PATH])
{
    char name[TH_MAX_PATH];
    struct stat status;
    if (lstat(target, &status) != 0 || !S_ISLNK(status.st_mode) || status.st_uid != geteuid())
        return false;
    const char *slash = strrchr(target, '/');
    const size_t begin = slash ? (size_t)(slash - target) + 1 : 0, capacity = TH_MAX_PATH - begin;
    const ssize_t length = readlink(target, name, capacity);
    if (length <= 0 || (size_t)length == capacity || memchr(name, '/', (size_t)length))
        return false;
    memcpy(target + begin, name, (size_t)length);
    target[begin + (size_t)length] = 0;
    return true;
}

/* Finds the path of the file that is replaced. */
static bool find_target(const char *path, char target[TH_MAX_PATH])
{
    if (strlen(path) >= TH_MAX_PATH) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(target, path);
    for (int i = 0; i < LINKS && follow_link(target); i++)
        continue;
    return true;
}

/* -- the temporary file -- */

/* Whether `name` is still the name of the open file. */
static bool has_name(int descriptor, const char *name)
{
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && lstat(name, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Creates a file and locks it while it is open. Returns -1 with EEXIST if the name is taken. A file system without
 * locks does not show whether a file is still being written, so leftovers stay there. */
static int create_and_lock(const char *name, mode_t mode)
{
    const int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor < 0)
        return -1;
    if ((flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && has_name(descriptor, name))
        return descriptor;
    close(descriptor); /* before the lock, another process mistook the file for a leftover and removed it */
    errno = EEXIST;
    return -1;
}

/* Whether the open file is a leftover: this user owns it, it has no second name, and no process writes to it. A writer
 * holds a lock, which ends with its process. */
static bool is_leftover(int descriptor, const char *name)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           status.st_nlink == 1 && flock(descriptor, LOCK_EX | LOCK_NB) == 0 && has_name(descriptor, name);
}

/* Removes the file that a killed process left under this name. The file is not used again, because another process may
 * have opened it. Returns false for anything else. (Opening must not wait for a pipe.) */
static bool remove_leftover(const char *name)
{
    const int descriptor = open(name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    const bool removed = is_leftover(descriptor, name) && unlink(name) == 0;
    close(descriptor);
    return removed;
}

static int open_temporary(th_atomic_file *f, mode_t mode)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (snprintf(f->temporary, TH_MAX_PATH, "%s.unfinished%d", f->target, attempt) >= TH_MAX_PATH) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int descriptor = create_and_lock(f->temporary, mode);
        const bool taken = descriptor < 0 && errno == EEXIST;
        if (taken && remove_leftover(f->temporary))
            descriptor = create_and_lock(f->temporary, mode);
        if (descriptor >= 0 || !taken)
            return descriptor;
    }
    errno = EEXIST;
    return -1;
}

/* -- beginning and ending -- */

/* Opens a device, a pipe or the system's name of an open file, to write to it in place. */
static int open_direct(const char *path)
{
    const int flags = O_WRONLY | O_NOCTTY | O_CLOEXEC;
    return th_is_system_path(path) ? open(path, flags | O_TRUNC) : open(path, flags | O_NOFOLLOW);
}

bool th_atomic_begin(th_atomic_file *f, const char *path)
{
    const bool system = th_is_system_path(path);
    struct stat existing;
    f->unsynchronized = false;
    if (!find_target(path, f->target))
        return false;
    const bool exists = (system ? stat(path, &existing) : lstat(f->target, &existing)) == 0;
    f->direct = exists && (system || !(S_ISREG(existing.st_mode) || S_ISLNK(existing.st_mode)));
    f->replaces = exists && S_ISREG(existing.st_mode);
    f->group = f->replaces ? existing.st_gid : 0;
    f->mode = f->replaces ? existing.st_mode & 0777 : 0;
    /* Only this user may read the new file until it has the permissions of the old one. */
    const int descriptor =
        f->direct ? open_direct(system ? path : f->target) : open_temporary(f, f->replaces ? 0600 : 0666);
    if (descriptor < 0)
        return false;
    f->file = fdopen(descriptor, "wb");
    if (f->file == NULL) {
        const int trouble = errno;
        if (!f->direct)
            unlink(f->temporary);
        close(descriptor);
        errno = trouble;
    }
    return f->file != NULL;
}

/* Copies the permissions of the old file. If its group cannot be kept, the new file's group gets only the permissions
 * of all users. A file system without permissions refuses, and the permissions stay narrow. */
static void keep_permissions(const th_atomic_file *f)
{
    const int descriptor = fileno(f->file);
    mode_t mode = f->mode;
    if (fchown(descriptor, (uid_t)-1, f->group) != 0)
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    (void)!fchmod(descriptor, mode);
}

/* Makes the new name survive a loss of power. Some file systems cannot do this and return EINVAL, which is not an
 * error here. */
static bool synchronize_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    const int descriptor = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return errno == EACCES; /* a user without read permission may still write to a directory */
    const bool done = fsync(descriptor) == 0 || errno == EINVAL;
    const int trouble = errno;
    close(descriptor);
    errno = trouble;
    return done;
}

bool th_atomic_end(th_atomic_file *f, bool written)
{
    int trouble = written ? 0 : errno ? errno : EIO;
    errno = 0;
    const bool synchronized = !f->direct && !f->unsynchronized;
    if (f->replaces && !f->direct)
        keep_permissions(f);
    if (trouble == 0 && (fflush(f->file) != 0 || (synchronized && fsync(fileno(f->file)) != 0)))
        trouble = errno ? errno : EIO;
    /* Before the lock is released: another process may remove an unlocked file as a leftover. */
    if (!f->direct && trouble == 0 && rename(f->temporary, f->target) != 0)
        trouble = errno;
    if (!f->direct && trouble != 0)
        unlink(f->temporary);
    if (fclose(f->file) != 0 && trouble == 0)
        trouble = errno;
    f->file = NULL;
    if (synchronized && trouble == 0 && !synchronize_directory(f->target))
        trouble = errno;
    errno = trouble;
    return trouble == 0;
}
