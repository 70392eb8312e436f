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

bool is_gguf(const char *path)
{
    th_context *ctx = th_context_new(NULL);
    th_text magic = {0};
    const bool found =
        th_file_read(ctx, path, 4, &magic) == TH_OK && magic.count == 4 && memcmp(magic.bytes, "GGUF", 4) == 0;
    th_text_free(&magic);
    th_context_free(ctx);
    return found;
}

th_dtype parse_export_type(const char *name, bool block_types)
{
    static const th_dtype types[] = {TH_FLOAT32, TH_FLOAT16, TH_BFLOAT16, TH_Q8_0, TH_Q4_0};
    const int count = block_types ? 5 : 3;
    int i = 0;
    while (i < count && strcmp(name, th_dtype_name(types[i])) != 0)
        i++;
    if (i == count)
        refuse(program_name,
               block_types ? "--type is float32, float16, bfloat16, q8_0 or q4_0, not "
                           : "--type is float32, float16 or bfloat16 (with --gguf also q8_0 or q4_0), not ",
               name);
    return types[i];
}

double monotonic_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
