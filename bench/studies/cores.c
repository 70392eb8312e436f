/* Predicts the time of a training step on more cores than the machine has. It runs every task of every parallel region
 * alone, times it, and distributes the tasks among n workers on paper. As a check, it also measures the step with as
 * many threads as there are processors, and prints both times. One line of name=value pairs for each number of threads:
 *
 *     cores char12 --most 64                      1, 2, 4, ... 64 threads
 *     cores char12 --regions                      where the time goes with the most threads, by kind of task
 *
 * The prediction assumes that a task takes as long beside others as alone. */
#include <math.h>
#include <string.h>
#include <tapehead/tapehead.h>

#include "machine_limits.h"
#include "measure.h"
#include "options.h"
#include "precision.h"
#include "schedule.h"
#include "suggest.h"
#include "training.h"

static const char program[] = "cores";

static int64_t most = SCHEDULE_WORKERS, steps = 5;
static double seconds = 5;
static const char *precision = "float32";
static bool by_region;

static const program_option options[] = {
    {"most", "the largest number of threads", .integer = &most, .low = 1, .high = SCHEDULE_WORKERS},
    {"steps", "for each number of threads, at least", .integer = &steps, .low = 1, .high = 1e6},
    {"seconds", "for each number of threads, at least", .real = &seconds, .low = 0, .high = 1e5},
    {"precision", "of matrix products: float32, bfloat16x3, bfloat16 or int8", .text = &precision},
    {"regions", "print the regions of the largest number of threads instead, summed by kind of task",
     .flag = &by_region},
    {0},
};

/* Runs a step whose tasks are timed one by one. */
static void record_step(const training *t, int64_t step)
{
    task_times_begin();
    training_step(program, t, step);
    if (!task_times_end())
        give_up(program, "two steps have different regions, or more than the program can record");
}

/* Records steps and, if the machine has as many processors, also measures as many steps in between. Returns the
 * seconds of the fastest measured step, 0 if none was measured. */
static double record(const training *t, int threads, bool measured)
{
    double least = 1e300;
    if (th_set_threads(t->ctx, threads))
        give_up(program, th_error_message(t->ctx));
    training_step(program, t, 0); /* warms up */
    task_times_clear();
    const double begin = now();
    for (int64_t step = 0; step < steps || now() - begin < seconds; step++) {
        record_step(t, step);
        if (!measured)
            continue;
        training_step(program, t, step); /* the helpers sleep while tasks are recorded: this wakes them */
        const double start = now();
        training_step(program, t, step);
        least = fmin(least, now() - start);
    }
    return measured ? least : 0;
}

static void print_prediction(int threads, const prediction *p, double measured)
{
    printf("threads=%d predicted_ms=%.4f outside_ms=%.4f alone_ms=%.4f share_ms=%.4f waiting_ms=%.4f costs_ms=%.4f "
           "regions=%lld tasks=%lld",
           threads, p->total * 1e3, p->outside * 1e3, p->alone * 1e3, p->share * 1e3, p->waiting * 1e3, p->costs * 1e3,
           (long long)p->regions, (long long)p->tasks);
    if (measured > 0)
        printf(" measured_ms=%.4f", measured * 1e3);
    printf("\n");
    fflush(stdout);
}

/* -- where the time goes -- */

typedef struct {
    const timed_region *first; /* of this kind */
    double work, last, before;
    int64_t regions, tasks;
} kind;

static int compare_kinds(const void *a, const void *b)
{
    const double x = ((const kind *)a)->last + ((const kind *)a)->before,
                 y = ((const kind *)b)->last + ((const kind *)b)->before;
    return (x < y) - (x > y);
}

/* Prints one line for all regions with the same function and number of tasks, the longest first. task: the function's
 * offset in the program, for addr2line. */
static void print_regions(const timed_step *step, int workers)
{
    extern const char __executable_start;
    enum { KINDS = 256 };
    static kind kinds[KINDS];
    int count = 0;
    for (int64_t i = 0; i < step->count; i++) {
        const timed_region *r = &step->regions[i];
        int k = 0;
        while (k < count && (kinds[k].first->task != r->task || kinds[k].first->tasks != r->tasks ||
                             kinds[k].first->alone != r->alone))
            k++;
        if (k == KINDS)
            give_up(program, "too many kinds of regions");
        count += k == count;
        kind *to = &kinds[k];
        to->first = to->first ? to->first : r;
        to->regions++;
        to->tasks += r->tasks;
        to->before += r->before;
        to->last += schedule_region(r, r->alone ? 1 : workers);
        for (int64_t task = 0; task < r->tasks; task++)
            to->work += r->seconds[task];
    }
    qsort(kinds, (size_t)count, sizeof *kinds, compare_kinds);
    for (int k = 0; k < count; k++)
        printf("task=0x%llx regions=%lld tasks_of_each=%lld alone=%d work_ms=%.4f last_ms=%.4f before_ms=%.4f\n",
               (unsigned long long)((uintptr_t)kinds[k].first->task - (uintptr_t)&__executable_start),
               (long long)kinds[k].regions, (long long)kinds[k].first->tasks, kinds[k].first->alone,
               kinds[k].work * 1e3, kinds[k].last * 1e3, kinds[k].before * 1e3);
}

int main(int argc, char **argv)
{
    const char *configuration = "copyB";
    if (parse_options_and_words(argc, argv, program,
                                "cores [CONFIGURATION]: predicts the time of a training step on many cores", options,
                                &configuration, 1) > 1)
        return EXIT_FAILURE;
    training_sizes sizes = {0};
    if (!training_find(configuration, &sizes))
        refuse(program, "unknown configuration ", configuration);
    const training t = training_new(program, &sizes,
                                    &(th_context_options){.seed = 1, .precision = precision_named(program, precision)});
    const int processors = th_threads(t.ctx);
    const schedule_costs costs = {processors > 1 ? region_seconds() : 0, 1.5 * round_trip_seconds()};
    if (!by_region)
        printf("region_us=%.2f worker_us=%.2f processors=%d build=%s\n", costs.region * 1e6, costs.worker * 1e6,
               processors, th_build_info(t.ctx));
    for (int threads = by_region ? (int)most : 1; threads <= most; threads *= 2) {
        const double measured = record(&t, threads, threads <= processors && !by_region);
        const timed_step step = task_times_result();
        const prediction p = schedule_step(&step, threads, &costs);
        if (by_region)
            print_regions(&step, threads);
        else
            print_prediction(threads, &p, measured);
    }
    th_context_free(t.ctx);
    return end_with_suggestion(program, argv[0], NULL, "cores", (const char *const[]){"char12", NULL});
}
