/* Locks that cancellation, signal handlers and fork respect. */
#include "kernels/machine/locks.h"

#include <pthread.h>

static pthread_mutex_t mutexes[TH_LOCKS] = {
    [TH_LOCK_OPENBLAS] = PTHREAD_MUTEX_INITIALIZER,
    [TH_LOCK_TEAMS] = PTHREAD_MUTEX_INITIALIZER,
    [TH_LOCK_CONTEXTS] = PTHREAD_MUTEX_INITIALIZER,
    [TH_LOCK_PATHS] = PTHREAD_MUTEX_INITIALIZER,
};

int th_cancellation_disable(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void th_cancellation_restore(int state)
{
    int disabled;
    pthread_setcancelstate(state, &disabled);
}

/* Signals of faults stay unblocked: the operating system ends a process whose thread causes a fault that it blocks. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

th_held_lock th_lock_take(th_lock lock)
{
    th_held_lock held = {.lock = lock, .cancellation = th_cancellation_disable()};
    block_signals(&held.signals);
    pthread_mutex_lock(&mutexes[lock]);
    return held;
}

void th_lock_release(const th_held_lock *held)
{
    pthread_mutex_unlock(&mutexes[held->lock]);
    pthread_sigmask(SIG_SETMASK, &held->signals, NULL);
    th_cancellation_restore(held->cancellation);
}

/* -- fork: waits for every lock, so that no lock is held in the child -- */

static void lock_all(void)
{
    for (int i = 0; i < TH_LOCKS; i++)
        pthread_mutex_lock(&mutexes[i]);
}

static void unlock_all(void)
{
    for (int i = TH_LOCKS - 1; i >= 0; i--)
        pthread_mutex_unlock(&mutexes[i]);
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
    pthread_atfork(lock_all, unlock_all, unlock_all);
}
