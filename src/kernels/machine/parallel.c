/* Distributes tasks among a team. Each worker starts with its own share of the tasks, so that the same rows stay in the
 * same cache from call to call. Then it helps the others. No result depends on which worker ran a task. */
#include "kernels/machine/parallel.h"

#include <stdatomic.h>

#include "kernels/machine/team.h"

/* The next task of one worker's share. Each share is a cache line. */
typedef struct share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

enum { SHARES = 64 }; /* further workers begin with other workers' shares */

/* The tasks of one th_parallel. */
typedef struct work {
    share share[SHARES];
    int shares;
    th_task *task;
    void *shared;
} work;

static void run_share(const work *w, share *mine, int worker)
{
    while (atomic_load_explicit(&mine->next, memory_order_relaxed) < mine->end) {
        const int64_t index = atomic_fetch_add_explicit(&mine->next, 1, memory_order_relaxed);
        if (index < mine->end)
            w->task(w->shared, index, worker);
    }
}

static void run_shares(void *shared, int worker)
{
    work *w = shared;
    for (int i = 0; i < w->shares; i++)
        run_share(w, &w->share[(worker + i) % w->shares], worker);
}

void th_parallel(int threads, int64_t count, th_task *task, void *shared)
{
    if (count < 2 || threads < 2) {
        for (int64_t index = 0; index < count; index++)
            task(shared, index, 0);
        return;
    }
    work w = {.shares = threads < SHARES ? threads : SHARES, .task = task, .shared = shared};
    const int64_t tasks_each = count / w.shares, longer_shares = count % w.shares;
    for (int64_t part = 0, start = 0; part < w.shares; part++) {
        atomic_init(&w.share[part].next, start);
        start += tasks_each + (part < longer_shares);
        w.share[part].end = start;
    }
    th_team_run(threads, run_shares, &w);
}
