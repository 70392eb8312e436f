/* Times every task of every parallel region alone, and keeps the minima of several steps. A disturbance by another
 * program rarely hits the same task in every step. */
#include "task_times.h"

#include "kernels/machine/parallel.h"
#include "measure.h"

/* The linker gives these names to the function that replaces th_parallel, and to th_parallel itself. */
void __wrap_th_parallel(int threads, int64_t count, th_task *task, void *shared);
void __real_th_parallel(int threads, int64_t count, th_task *task, void *shared);

enum { MAX_REGIONS = 1 << 16, MAX_TIMES = 1 << 22 };

static timed_region regions[MAX_REGIONS];
static double times[MAX_TIMES], after; /* times: of all regions, one after another */
static int64_t region_count, time_count, recorded;
static bool recording, inside, same;
static double last; /* the end of the region before */

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* Returns the next region. In the first recorded step it is a new one, with times that any other is less than. */
static timed_region *next_region(int threads, int64_t count, th_task *task)
{
    const bool fits = region_count < MAX_REGIONS && count <= MAX_TIMES - time_count;
    if (!fits)
        return NULL;
    timed_region *region = &regions[region_count++];
    if (recorded == 0) {
        *region = (timed_region){task, count, threads < 2 || count < 2, 1e300, times + time_count};
        for (int64_t i = 0; i < count; i++)
            times[time_count + i] = 1e300;
    }
    return region->task == task && region->tasks == count ? region : NULL;
}

static void time_tasks(timed_region *region, th_task *task, void *shared)
{
    double *seconds = times + time_count, begin = now();
    for (int64_t i = 0; i < region->tasks; i++) {
        task(shared, i, 0);
        const double end = now();
        seconds[i] = lesser(seconds[i], end - begin);
        begin = end;
    }
    time_count += region->tasks;
}

void __wrap_th_parallel(int threads, int64_t count, th_task *task, void *shared)
{
    if (!recording || inside) {
        __real_th_parallel(inside ? 1 : threads, count, task, shared);
        return;
    }
    const double before = now() - last;
    timed_region *region = next_region(threads, count, task);
    inside = true;
    if (region) {
        region->before = lesser(region->before, before);
        time_tasks(region, task, shared);
    } else {
        same = false;
        __real_th_parallel(1, count, task, shared);
    }
    inside = false;
    last = now();
}

void task_times_clear(void)
{
    recorded = 0;
    same = true;
}

void task_times_begin(void)
{
    region_count = time_count = 0;
    recording = true;
    last = now();
}

bool task_times_end(void)
{
    static int64_t first_count;
    const double rest = now() - last;
    recording = false;
    after = recorded == 0 ? rest : lesser(after, rest);
    first_count = recorded == 0 ? region_count : first_count;
    recorded++;
    return same && region_count == first_count;
}

timed_step task_times_result(void)
{
    return (timed_step){regions, region_count, after};
}

/* -- the cost of a region -- */

static const double spun = 5e-6; /* seconds of a task: enough for the other thread to arrive */

static void spin(void *shared, int64_t index, int worker)
{
    (void)shared;
    (void)index;
    (void)worker;
    for (const double begin = now(); now() - begin < spun;)
        ;
}

static void run_region(void *tasks)
{
    __real_th_parallel(2, *(const int64_t *)tasks, spin, NULL);
}

double region_seconds(void)
{
    int64_t one = 1, two = 2;
    return least_seconds(run_region, &two, 0.2) - least_seconds(run_region, &one, 0.1);
}
