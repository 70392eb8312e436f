/* Whether this machine has OpenBLAS. */
#ifndef TESTS_OPENBLAS_H
#define TESTS_OPENBLAS_H

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/machine/openblas.h"

/* Tests in a child process, so that OpenBLAS is not loaded in later tests. */
static inline bool there_is_openblas(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(!th_openblas());
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#endif
