/* What the programs of this directory measure with: the clock, the least and the median of repeated runs, peak memory.
 * It knows nothing about Tapehead. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds of CLOCK_MONOTONIC, the clock that Python's time.monotonic() reads too. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts, so that seconds[0] is the least. */
static inline double median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    return (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
}

/* Seconds of one run(what): the least of several samples, each long enough for the clock. budget: seconds to spend. */
static inline double least_seconds(void (*run)(void *what), void *what, double budget)
{
    run(what);
    int repeat = 1;
    double least = 1e300;
    for (const double start = now(); now() - start < budget || least == 1e300;) {
        const double begin = now();
        for (int i = 0; i < repeat; i++)
            run(what);
        const double seconds = now() - begin;
        if (seconds < 1e-4 && seconds < budget && repeat < 1 << 20)
            repeat *= 2;
        else if (seconds / repeat < least)
            least = seconds / repeat;
    }
    return least;
}

/* Most memory this process has had, in MiB: VmHWM rather than ru_maxrss, which begins with what the parent had. */
static inline double peak_rss_mib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return (double)kib / 1024;
}

#endif
