/* Prints the line "next: ..." for the programs of this folder, only on a terminal: scripts read their output. */
#ifndef BENCH_SUGGEST_H
#define BENCH_SUGGEST_H

#include <stdlib.h>
#include <unistd.h>

#include "options.h"

/* Flushes the output. If standard output is a terminal, prints the file that was written (or nothing if NULL) and the
 * command to run next. Returns the exit status for main. */
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
