/* How many processors there are for this thread: what its affinity mask and the process's CPU quota leave. And where
 * OpenMP's variables bind the threads of a team. */
#ifndef TH_KERNELS_MACHINE_PROCESSORS_H
#define TH_KERNELS_MACHINE_PROCESSORS_H

#include <pthread.h>

/* The processors of the affinity mask, or the quota of the control group where that is less; at least 1. */
int th_processors(void);

/* The team of who asks for none: th_processors, or OMP_NUM_THREADS or OMP_THREAD_LIMIT where they are less. */
int th_processors_default_team(void);

/* As th_processors, for the process: by the mask of its first thread. */
int th_processors_of_process(void);

/* The CPU quota of this process's control group, in processors, rounded up: the least of all levels up to the root of
 * the hierarchy, of version 1 and version 2. INT_MAX where there is none. `root` stands before /proc and before the
 * mount points found there: "" for the machine's own. */
int th_processors_quota(const char *root);

/* Binds a thread, this worker of a team of `threads`, to its OpenMP place as OMP_PROC_BIND and OMP_PLACES ask. Worker 0
 * belongs at the first place. Does nothing where OpenMP does not bind threads. */
void th_processors_bind(pthread_t thread, int worker, int threads);

#endif
