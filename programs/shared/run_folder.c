/* Paths and the folder of a run: see run_folder.h. */
#include "shared/run_folder.h"

#include <errno.h>
#include <string.h>

#include "options.h"
#include "shared/system.h"

const char *path_in(const char *run, const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    if (snprintf(path, sizeof paths[0], "%s/%s", run, name) >= (int)sizeof paths[0])
        give_up(program_name, "the path of the run is too long");
    return path;
}

const char *as_word(const char *path)
{
    return path[0] == '-' ? path_in(".", path) : path;
}

_Noreturn void give_up_file(const char *path, const char *what)
{
    const int error = errno;
    begin_last_message(program_name);
    fprintf(stderr, "%.200s cannot be %s: %s\n", path, what, strerror(error));
    exit(EXIT_FAILURE);
}

void create_folder(const char *path)
{
    struct stat status;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        give_up_file(path, "created");
    const bool known = lstat(path, &status) == 0;
    if (known && S_ISDIR(status.st_mode))
        return;
    if (known)
        errno = ENOTDIR;
    give_up_file(path, "written to");
}

void lock_run(const char *run)
{
    enum { MAX_TRIES = 20 };                                          /* a killed process takes a moment to end */
    const int folder = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* remains open and locked until the end */
    for (int i = 0; folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        if (i == MAX_TRIES)
            refuse(program_name, "another process is using this run: ", run);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

double monotonic_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
