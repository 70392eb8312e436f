/* The line "next: ..." of the programs of this directory. Only for a person: scripts read these programs' output. */
#ifndef BENCH_SUGGEST_H
#define BENCH_SUGGEST_H

#include <stdlib.h>
#include <unistd.h>

#include "options.h"

/* Ends a program: the file that it wrote, or NULL, and the command to run next, if standard output is a terminal. Returns
 * what main does. */
static inline int end_with_suggestion(const char *program, const char *argv0, const char *written, const char *next,
                                      const char *const *words)
{
    finish_output(program);
    if (isatty(STDOUT_FILENO)) {
        if (written)
            print_written(written);
        print_next(argv0, next, words);
    }
    return EXIT_SUCCESS;
}

#endif
