/* Counts the processors for this thread: the affinity mask and the process's CPU quota limit them. */
#ifndef TH_KERNELS_MACHINE_PROCESSORS_H
#define TH_KERNELS_MACHINE_PROCESSORS_H

/* Returns the number of processors in the affinity mask, or the quota of the control group if it is less; at least
 * 1. */
int th_processors(void);

/* Returns the team size if the context sets none: th_processors, or OMP_NUM_THREADS or OMP_THREAD_LIMIT if less. */
int th_processors_default_team(void);

/* Like th_processors, with the mask of the process's first thread. */
int th_processors_of_process(void);

/* Returns the CPU quota of this process's control group, in processors, rounded up; INT_MAX without a quota. It is the
 * smallest quota of the group and of all groups above it, in version 1 and version 2 of control groups. `root` is a
 * prefix of /proc and of the mount points found there: "" for the machine's own. */
int th_processors_quota(const char *root);

#endif
