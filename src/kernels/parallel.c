/* Teams of threads, over OpenMP. Each worker starts with its own stretch of the tasks, so that the same rows stay in
 * the same cache from one call to the next, and then helps the others: which worker runs a task is never seen in its
 * result. */
#include "kernels/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The next task of one worker's stretch; a cache line each. */
typedef struct stretch {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} stretch;

enum { STRETCHES = 64 }; /* workers beyond these share */

static pthread_once_t watching = PTHREAD_ONCE_INIT;
static atomic_bool has_no_team; /* this process was forked from one that had a team: there are no threads behind it */

static void in_forked_child(void)
{
    atomic_store_explicit(&has_no_team, true, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_forked_child);
}

static bool runs_serially(int threads)
{
    if (threads < 2 || omp_in_parallel() || atomic_load_explicit(&has_no_team, memory_order_relaxed))
        return true;
    pthread_once(&watching, watch_forks);
    return false;
}

static void run_stretch(stretch *mine, th_task *task, void *shared, int worker)
{
    while (atomic_load_explicit(&mine->next, memory_order_relaxed) < mine->end) {
        const int64_t index = atomic_fetch_add_explicit(&mine->next, 1, memory_order_relaxed);
        if (index < mine->end)
            task(shared, index, worker);
    }
}

void th_parallel(int threads, int64_t count, th_task *task, void *shared)
{
    if (count < 2 || runs_serially(threads)) {
        for (int64_t index = 0; index < count; index++)
            task(shared, index, 0);
        return;
    }
    stretch stretches[STRETCHES];
    const int parts = threads < STRETCHES ? threads : STRETCHES;
    const int64_t each = count / parts, longer = count % parts;
    for (int64_t part = 0, start = 0; part < parts; part++) {
        atomic_init(&stretches[part].next, start);
        start += each + (part < longer);
        stretches[part].end = start;
    }
    /* always the whole team: libgomp ends the threads that a smaller one does not need */
#pragma omp parallel num_threads(threads)
    {
        const int worker = omp_get_thread_num();
        for (int i = 0; i < parts; i++)
            run_stretch(&stretches[(worker + i) % parts], task, shared, worker);
    }
}

int th_parallel_team(int threads)
{
    if (runs_serially(threads))
        return 1;
    int team = 1;
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        team = omp_get_num_threads();
    }
    return team;
}
