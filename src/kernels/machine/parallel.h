/* Runs tasks on several threads. Callers divide work by size, never by the number of threads: the tasks and their bits
 * are the same for every team. */
#ifndef TH_KERNELS_MACHINE_PARALLEL_H
#define TH_KERNELS_MACHINE_PARALLEL_H

#include <stdint.h>

#include "private_api.h"

/* One task: index in [0, count), worker in [0, threads) for scratch memory. */
typedef void th_task(void *shared, int64_t index, int worker);

/* Runs tasks 0 .. count - 1 on a team of `threads` (team.h), each once; in order on this thread if threads < 2 or count
 * < 2. */
TH_PRIVATE_API void th_parallel(int threads, int64_t count, th_task *task, void *shared);

#endif
