/* Counts the processors for this thread: the affinity mask and the process's CPU quota limit them. */
#ifndef TH_KERNELS_MACHINE_PROCESSORS_H
#define TH_KERNELS_MACHINE_PROCESSORS_H

#include "platform/control_groups.h" /* th_processors_quota */

/* Returns the number of processors in the affinity mask, or the quota of the control group if it is less; at least
 * 1. */
int th_processors(void);

/* Returns the team size if the context sets none: th_processors, or OMP_NUM_THREADS or OMP_THREAD_LIMIT if less. */
int th_processors_default_team(void);

/* Like th_processors, with the mask of the process's first thread. */
int th_processors_of_process(void);

#endif
