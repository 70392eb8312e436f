/* Teams: threads that run one function together, again and again. The threads are our own (team.c), limited and bound
 * to processors as OpenMP's variables say. No signal handler runs on them, except for faults. */
#ifndef TH_KERNELS_MACHINE_TEAM_H
#define TH_KERNELS_MACHINE_TEAM_H

/* The function that a team runs. worker is 0 for the calling thread and below `threads` for the others, each at most
 * once. */
typedef void th_job(void *shared, int worker);

/* Runs job(shared, 0) on this thread, and job(shared, worker) on every other thread of a team of `threads` that arrives
 * before the caller's own job is done. Nothing waits for a thread that the system is not running, so the job must
 * finish the work with any number of workers. The calling thread cannot be canceled meanwhile.
 *
 * The job runs on the calling thread alone
 *
 *     if threads < 2,
 *     inside another team (also one of OpenMP),
 *     while other callers' teams occupy the processors,
 *     while no thread can be created,
 *     in a process forked from one that had a team. */
void th_team_run(int threads, th_job *job, void *shared);

/* Returns the number of threads that th_team_run gets for `threads` on this thread, while nothing else computes. Starts
 * the team to find out. */
int th_team_threads(int threads);

#endif
