/* Tasks on several threads. Work is cut by size before it comes here, never by the number of threads, so that the same
 * tasks run, with the same bits, whatever the team. */
#ifndef TH_KERNELS_MACHINE_PARALLEL_H
#define TH_KERNELS_MACHINE_PARALLEL_H

#include <stdint.h>

#include "private_api.h"

/* One task: index in [0, count), worker in [0, threads) for scratch memory. */
typedef void th_task(void *shared, int64_t index, int worker);

/* Runs task 0 .. count-1 on a team of `threads` (team.h), each once; in order on this thread when threads < 2 or
 * count < 2. */
TH_PRIVATE_API void th_parallel(int threads, int64_t count, th_task *task, void *shared);

#endif
