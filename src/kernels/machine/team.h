/* Teams: threads that run one function together, again and again. The threads are our own (team.c), limited and bound to
 * processors as OpenMP's variables ask. No signal handler runs on them, except for faults. */
#ifndef TH_KERNELS_MACHINE_TEAM_H
#define TH_KERNELS_MACHINE_TEAM_H

/* What a team runs: worker is 0 for the calling thread and below `threads` for the others, each at most once. */
typedef void th_job(void *shared, int worker);

/* Runs job(shared, 0) here, and job(shared, worker) on every other thread of a team of `threads` that comes before the
 * caller's own is done: a thread that the system has given to somebody else is not waited for, so a job must finish the
 * work whoever takes part. The calling thread cannot be canceled meanwhile. The job runs alone when threads < 2, inside
 * another team (an OpenMP one too), while other callers' teams hold the processors, while no thread can be created, and
 * in a process forked from one that had a team. */
void th_team_run(int threads, th_job *job, void *shared);

/* The team that th_team_run has for `threads` here, while nobody else computes. Starts it to find out. */
int th_team_threads(int threads);

#endif
