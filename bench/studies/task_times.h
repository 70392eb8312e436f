/* Times every task of every parallel region alone. The linker directs the library's calls of th_parallel here, so the
 * library itself needs no code for it. */
#ifndef BENCH_TASK_TIMES_H
#define BENCH_TASK_TIMES_H

#include <stdbool.h>
#include <stdint.h>

/* One call of th_parallel that is not inside a task. */
typedef struct {
    void (*task)(void *shared, int64_t index, int worker);
    int64_t tasks;
    bool alone;            /* its caller has asked for one thread, or it has one task only */
    double before;         /* seconds since the end of the region before, or since the begin of the step */
    const double *seconds; /* (tasks) */
} timed_region;

/* The least times of all recorded steps. */
typedef struct {
    const timed_region *regions;
    int64_t count;
    double after; /* seconds after the last region */
} timed_step;

/* Forgets all recorded steps. */
void task_times_clear(void);

/* Until task_times_end, this thread runs all tasks in order, and times them. */
void task_times_begin(void);

/* Returns false if the steps since task_times_clear did not have the same regions, or have too many tasks. */
bool task_times_end(void);

timed_step task_times_result(void);

/* Returns the seconds that a region with a short task for each of two threads takes longer than the task. */
double region_seconds(void);

#endif
