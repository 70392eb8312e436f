/* Measuring for the programs of this folder: the clock, the minimum and median of repeated runs, peak memory.
 * Independent of Tapehead. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returns seconds of CLOCK_MONOTONIC, the clock that Python's time.monotonic() also reads. */
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

/* Sorts seconds, so that seconds[0] is the minimum, and returns the median. */
static inline double median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_seconds);
    return (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
}

/* Returns the seconds of one run(what): the minimum of several samples. Each sample repeats run until it is long enough
 * for the clock. budget: seconds to spend. */
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

/* Returns the peak memory of this process in MiB: VmHWM, because ru_maxrss includes the parent's memory at fork. */
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
