/* A file that appears at its path only when it is complete: until then, after an error and after a crash at any moment,
 * what was there stays.
 *
 *     th_atomic_file f;
 *     if (!th_atomic_begin(&f, path))
 *         return fail(strerror(errno));
 *     const bool written = fwrite(bytes, 1, n, f.file) == n;
 *     if (!th_atomic_end(&f, written))
 *         return fail(strerror(errno));
 *
 * It is written beside the path under a name of its own, synchronised, and renamed; then the directory is synchronised.
 * What a process that was killed leaves of it, the next one that writes to the same path uses up. */
#ifndef TH_IO_ATOMIC_FILE_H
#define TH_IO_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdio.h>

enum { TH_MAX_PATH = 4096 };

typedef struct th_atomic_file {
    FILE *file;
    bool direct;                 /* a device or a pipe, which is written to, not replaced */
    bool hasty;                  /* may be set by the caller: nothing is synchronised, which is faster, and enough for
                                    a crash of the program, but not of the machine */
    char target[TH_MAX_PATH];    /* the path, or what it links to */
    char temporary[TH_MAX_PATH]; /* beside the target */
} th_atomic_file;

/* Opens f->file for writing. false, with errno, when that cannot be; then there is nothing to end. */
bool th_atomic_begin(th_atomic_file *f, const char *path);
/* Closes it. What was written takes its place if `written` and nothing fails; else it is thrown away: false, with errno
 * (which is what it was where the caller found that writing had failed; EIO if it was 0). */
bool th_atomic_end(th_atomic_file *f, bool written);

#endif
