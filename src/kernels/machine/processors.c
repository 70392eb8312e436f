/* The processors that this thread may use: see processors.h. */
#include "kernels/machine/processors.h"

#include <stdbool.h>

#include "kernels/machine/locks.h"
#include "kernels/machine/openmp.h"

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* Returns the number of processors for the calling thread, or for the process's first one. If OpenMP binds threads to
 * places, the processors of all places count. Disables cancellation while a file is open and while OpenMP's library
 * starts. */
static int available_processors(bool first)
{
    const int cancellation = th_cancellation_disable();
    const int bound = th_openmp_processors();
    const int count = lesser(bound > 0 ? bound : th_thread_processors(first), th_processors_quota(""));
    th_cancellation_restore(cancellation);
    return count;
}

int th_processors(void)
{
    return available_processors(false);
}

int th_processors_of_process(void)
{
    return available_processors(true);
}

int th_processors_default_team(void)
{
    const int processors = th_processors(); /* first, because it starts OpenMP's library */
    return lesser(processors, lesser(th_openmp_threads(), th_openmp_thread_limit()));
}
