/* The locks that threads of a process share. While a thread holds one, the thread cannot be canceled, no signal handler
 * runs on it (except for faults), and no other thread forks. So every lock is released in the end. In a forked process
 * every lock is free, and the data that it protects are consistent. No function calls the user's code while it holds a
 * lock. */
#ifndef TH_KERNELS_MACHINE_LOCKS_H
#define TH_KERNELS_MACHINE_LOCKS_H

#include "platform/threads.h"

typedef enum th_lock {
    TH_LOCK_OPENBLAS, /* loading OpenBLAS (openblas.c) */
    TH_LOCK_TEAMS,    /* creating and ending teams (team.c) */
    TH_LOCK_CONTEXTS, /* the list of live contexts (tensor/contexts.c) */
    TH_LOCK_PATHS,    /* measuring paths (paths.c) */
    TH_LOCKS
} th_lock;

/* A lock that this thread holds, and the thread's earlier state. */
typedef struct th_held_lock {
    th_lock lock;
    int cancellation;
    th_signals signals;
} th_held_lock;

/* Takes a lock. A thread may hold one lock only. Threads created meanwhile inherit the blocked signals. */
th_held_lock th_lock_take(th_lock lock);
void th_lock_release(const th_held_lock *held);

#endif
