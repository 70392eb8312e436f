/* The settings of a build without OpenMP: two environment variables. Nothing binds threads. */
#include "kernels/machine/openmp.h"

#ifndef TAPEHEAD_OPENMP

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int max_threads = INT_MAX, thread_limit = INT_MAX;

/* Reads a number of at least 1, and spaces around it. Returns the text after it; NULL for other text. */
static const char *read_number(const char *text, int *number)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || errno != 0 || value < 1)
        return NULL;
    *number = value < INT_MAX ? (int)value : INT_MAX;
    return end + strspn(end, " \t\n\v\f\r");
}

/* Returns the number in an environment variable, or the first one of a list such as "4,2". Other text is ignored, as
 * OpenMP's library does: INT_MAX. */
static int read_setting(const char *name, bool may_be_list)
{
    int first = INT_MAX, next;
    const char *at = getenv(name);
    for (at = at ? read_number(at, &first) : NULL; at && *at;)
        at = *at == ',' && may_be_list ? read_number(at + 1, &next) : NULL;
    return at ? first : INT_MAX;
}

/* OpenMP's library also reads its variables when a program loads it: later, another thread may change the
 * environment. */
__attribute__((constructor)) static void read_environment(void)
{
    const int saved = errno;
    max_threads = read_setting("OMP_NUM_THREADS", true); /* further numbers are for regions inside regions */
    thread_limit = read_setting("OMP_THREAD_LIMIT", false);
    errno = saved;
}

int th_openmp_threads(void)
{
    return max_threads;
}

int th_openmp_thread_limit(void)
{
    return thread_limit;
}

int th_openmp_processors(void)
{
    return 0;
}

void th_openmp_bind(th_thread thread, int worker, int threads)
{
    (void)thread;
    (void)worker;
    (void)threads;
}

bool th_openmp_in_parallel(void)
{
    return false;
}

th_openmp_count th_openmp_own_count(void)
{
    return (th_openmp_count){NULL, NULL};
}

#endif
