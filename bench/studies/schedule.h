/* Predicts the time of a step on more processors than the machine has, from the times of its tasks. */
#ifndef BENCH_SCHEDULE_H
#define BENCH_SCHEDULE_H

#include "task_times.h"

/* The costs of a region with n workers: region + (n - 2) worker. */
typedef struct {
    double region, worker; /* seconds */
} schedule_costs;

/* The parts of a predicted step, in seconds. */
typedef struct {
    double total;
    double outside; /* between the regions: one thread */
    double alone;   /* regions of one thread, or with one task */
    double share;   /* the work of all other regions, divided by the number of workers */
    double waiting; /* until the last worker of a region is done */
    double costs;   /* beginning and ending the regions */
    int64_t regions, tasks;
} prediction;

/* Returns the prediction for this number of workers, 1 to SCHEDULE_WORKERS. The step must have been recorded with as
 * many threads. */
prediction schedule_step(const timed_step *step, int workers, const schedule_costs *costs);

/* Returns the seconds until the last of the workers has finished its tasks of this region. */
double schedule_region(const timed_region *region, int workers);

enum { SCHEDULE_WORKERS = 64 };

#endif
