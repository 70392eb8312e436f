/* Distributes the tasks of a region among workers as src/kernels/machine/parallel.c does. Each worker begins with its
 * own share of consecutive tasks. Then it takes tasks from the shares of the others. */
#include "schedule.h"

#include <stddef.h>

typedef struct {
    int64_t next, end;
} share;

/* Returns the share from which this worker takes its next task; NULL if no task is left. */
static share *share_with_task(share *shares, int workers, int worker)
{
    for (int i = 0; i < workers; i++) {
        share *s = &shares[(worker + i) % workers];
        if (s->next < s->end)
            return s;
    }
    return NULL;
}

double schedule_region(const timed_region *region, int workers)
{
    share shares[SCHEDULE_WORKERS];
    double busy[SCHEDULE_WORKERS] = {0}; /* until when */
    const int64_t each = region->tasks / workers, longer = region->tasks % workers;
    for (int64_t i = 0, start = 0; i < workers; i++) {
        shares[i] = (share){start, start + each + (i < longer)};
        start = shares[i].end;
    }
    for (int64_t left = region->tasks; left > 0; left--) {
        int first = 0; /* the worker that is free first */
        for (int i = 1; i < workers; i++)
            if (busy[i] < busy[first])
                first = i;
        share *from = share_with_task(shares, workers, first);
        busy[first] += region->seconds[from->next++];
    }
    double last = 0;
    for (int i = 0; i < workers; i++)
        last = busy[i] > last ? busy[i] : last;
    return last;
}

prediction schedule_step(const timed_step *step, int workers, const schedule_costs *costs)
{
    prediction p = {.outside = step->after, .regions = step->count};
    for (int64_t i = 0; i < step->count; i++) {
        const timed_region *region = &step->regions[i];
        double work = 0;
        for (int64_t task = 0; task < region->tasks; task++)
            work += region->seconds[task];
        p.outside += region->before;
        p.tasks += region->tasks;
        if (region->alone && workers > 1) {
            p.alone += work;
            continue;
        }
        p.share += work / workers;
        if (workers > 1) {
            p.waiting += schedule_region(region, workers) - work / workers;
            p.costs += costs->region + (workers - 2) * costs->worker;
        }
    }
    p.total = p.outside + p.alone + p.share + p.waiting + p.costs;
    return p;
}
