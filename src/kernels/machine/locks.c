/* Locks that cancellation, signal handlers and fork respect. */
#include "kernels/machine/locks.h"

static th_mutex mutexes[TH_LOCKS] = {
    [TH_LOCK_OPENBLAS] = TH_MUTEX_INITIALIZER,
    [TH_LOCK_TEAMS] = TH_MUTEX_INITIALIZER,
    [TH_LOCK_CONTEXTS] = TH_MUTEX_INITIALIZER,
    [TH_LOCK_PATHS] = TH_MUTEX_INITIALIZER,
};

th_held_lock th_lock_take(th_lock lock)
{
    th_held_lock held = {.lock = lock, .cancellation = th_cancellation_disable()};
    th_signals_block(&held.signals);
    th_mutex_lock(&mutexes[lock]);
    return held;
}

void th_lock_release(const th_held_lock *held)
{
    th_mutex_unlock(&mutexes[held->lock]);
    th_signals_restore(&held->signals);
    th_cancellation_restore(held->cancellation);
}

/* -- fork: waits for every lock, so that no lock is held in the child -- */

static void lock_all(void)
{
    for (int i = 0; i < TH_LOCKS; i++)
        th_mutex_lock(&mutexes[i]);
}

static void unlock_all(void)
{
    for (int i = TH_LOCKS - 1; i >= 0; i--)
        th_mutex_unlock(&mutexes[i]);
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
    th_on_fork(lock_all, unlock_all, unlock_all);
}
