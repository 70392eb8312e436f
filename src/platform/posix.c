/* What POSIX systems share: see threads.h and system.h. linux.c, darwin.c and bsd.c have the rest. */
#include "platform/system.h"
#include "platform/threads.h"

#ifndef _WIN32

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* -- threads -- */

bool th_thread_create(th_thread *thread, size_t stack, th_thread_main *run, void *argument)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, stack);
    int error = pthread_create(thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    if (error == EINVAL) /* the program's thread-local variables need a larger stack */
        error = pthread_create(thread, NULL, run, argument);
    return error == 0;
}

void th_thread_join(th_thread thread)
{
    pthread_join(thread, NULL);
}

bool th_thread_key_create(th_thread_key *key, void (*end)(void *value))
{
    return pthread_key_create(key, end) == 0;
}

bool th_thread_key_set(th_thread_key key, void *value)
{
    return pthread_setspecific(key, value) == 0;
}

void th_thread_key_delete(th_thread_key key)
{
    pthread_key_delete(key);
}

/* -- what interrupts a thread -- */

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

void th_signals_block(th_signals *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

void th_signals_restore(const th_signals *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void th_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    pthread_atfork(before, in_parent, in_child);
}

/* -- waiting -- */

void th_mutex_lock(th_mutex *mutex)
{
    pthread_mutex_lock(mutex);
}

void th_mutex_unlock(th_mutex *mutex)
{
    pthread_mutex_unlock(mutex);
}

/* A change of the system's clock makes the wait longer or shorter. */
void th_condition_wait(th_condition *condition, th_mutex *mutex, int64_t time)
{
    if (time == TH_NO_LIMIT) {
        pthread_cond_wait(condition, mutex);
        return;
    }
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    const int64_t nanoseconds = end.tv_nsec + time;
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    pthread_cond_timedwait(condition, mutex, &end);
}

void th_condition_wake_all(th_condition *condition)
{
    pthread_cond_broadcast(condition);
}

/* -- time, memory, terminals -- */

int64_t th_nanoseconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void *th_aligned_allocate(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

void th_aligned_free(void *memory)
{
    free(memory);
}

bool th_is_terminal(FILE *file)
{
    return isatty(fileno(file)) == 1;
}

int th_terminal_columns(FILE *file)
{
    struct winsize window;
    return ioctl(fileno(file), TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

#endif
