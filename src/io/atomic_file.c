/* Files that appear when they are complete: see atomic_file.h. */
#include "io/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 }; /* so many can write to one path at a time */

/* Where a new file at path would be: what a link leads to is replaced, not the link. */
static bool find_target(const char *path, char *target)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode) && stat(path, &status) == 0)
        return realpath(path, target) != NULL;
    if (strlen(path) < TH_MAX_PATH)
        return strcpy(target, path) != NULL;
    errno = ENAMETOOLONG;
    return false;
}

/* Whether the file behind the descriptor is still the one of this name. */
static bool has_name(int descriptor, const char *name)
{
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && lstat(name, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Who writes holds a lock, which ends with the process: a file of this name that nobody has locked is what a killed one
 * has left. Renaming takes the name away, so one who waited to open it looks again. */
static int open_and_lock(const char *name)
{
    const int descriptor = open(name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return -1;
    if ((flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && has_name(descriptor, name) &&
        ftruncate(descriptor, 0) == 0)
        return descriptor;
    close(descriptor);
    errno = EEXIST;
    return -1;
}

static int open_temporary(th_atomic_file *f)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (snprintf(f->temporary, TH_MAX_PATH, "%s.unfinished%d", f->target, attempt) >= TH_MAX_PATH) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int descriptor = open_and_lock(f->temporary);
        if (descriptor >= 0 || (errno != EEXIST && errno != ELOOP && errno != EACCES))
            return descriptor;
    }
    return -1;
}

bool th_atomic_begin(th_atomic_file *f, const char *path)
{
    struct stat existing;
    const bool exists = stat(path, &existing) == 0;
    f->direct = exists && !S_ISREG(existing.st_mode);
    f->hasty = false;
    if (f->direct) {
        f->file = fopen(path, "wbe");
        return f->file != NULL;
    }
    if (!find_target(path, f->target))
        return false;
    const int descriptor = open_temporary(f);
    if (descriptor < 0)
        return false;
    if (exists)
        (void)!fchmod(descriptor, existing.st_mode & 0777);
    f->file = fdopen(descriptor, "wb");
    if (f->file == NULL) {
        const int trouble = errno;
        unlink(f->temporary);
        close(descriptor);
        errno = trouble;
    }
    return f->file != NULL;
}

/* So that the new name outlives a loss of power. File systems that cannot do this say EINVAL. */
static bool synchronise_directory(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    const int descriptor = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return errno == EACCES; /* a directory can be written to by who may not read it */
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
    const bool synchronised = !f->direct && !f->hasty;
    if (trouble == 0 && (fflush(f->file) != 0 || (synchronised && fsync(fileno(f->file)) != 0)))
        trouble = errno ? errno : EIO;
    /* The name is changed while the lock is held. */
    if (!f->direct && trouble == 0 && rename(f->temporary, f->target) != 0)
        trouble = errno;
    if (!f->direct && trouble != 0)
        unlink(f->temporary);
    if (fclose(f->file) != 0 && trouble == 0)
        trouble = errno;
    f->file = NULL;
    if (synchronised && trouble == 0 && !synchronise_directory(f->target))
        trouble = errno;
    errno = trouble;
    return trouble == 0;
}
