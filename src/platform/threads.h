/* Threads, locks and waiting, as the operating system has them: posix.c with linux.c, darwin.c or bsd.c; or windows.c.
 * Times are nanoseconds. */
#ifndef TH_PLATFORM_THREADS_H
#define TH_PLATFORM_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
typedef void *th_thread;
typedef struct th_mutex {
    void *lock; /* an SRWLOCK */
} th_mutex;
typedef struct th_condition {
    void *variable; /* a CONDITION_VARIABLE */
} th_condition;
typedef unsigned long th_thread_key;
typedef int th_signals;
#define TH_MUTEX_INITIALIZER                                                                                           \
    {                                                                                                                  \
        NULL                                                                                                           \
    }
#define TH_CONDITION_INITIALIZER TH_MUTEX_INITIALIZER
#else
#include <pthread.h>
#include <signal.h>
typedef pthread_t th_thread;
typedef pthread_mutex_t th_mutex;
typedef pthread_cond_t th_condition;
typedef pthread_key_t th_thread_key;
typedef sigset_t th_signals;
#define TH_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define TH_CONDITION_INITIALIZER PTHREAD_COND_INITIALIZER
#endif

enum { TH_NO_LIMIT = -1 }; /* a time: wait without a limit */

/* -- threads -- */

/* What a thread does; nothing reads its result. */
typedef void *th_thread_main(void *argument);

/* Creates a thread with a stack of at least this many bytes. Returns false if the system cannot create one. */
bool th_thread_create(th_thread *thread, size_t stack, th_thread_main *run, void *argument);
/* Waits until the thread ends. */
void th_thread_join(th_thread thread);
/* Returns how often the system has taken the processor from this thread; 0 if the system does not tell. */
long th_thread_preemptions(void);
/* Returns the number of processors that the calling thread may use; if `first`, that the process's first thread may
 * use. Systems without affinity return all processors. At least 1. */
int th_thread_processors(bool first);
/* Binds a thread to these processors. Does nothing if the system or its limits do not permit it. */
void th_thread_bind(th_thread thread, int count, const int *processors);

/* A value of each thread. When a thread ends that has set it to another value than NULL, `end` gets the value. */
bool th_thread_key_create(th_thread_key *key, void (*end)(void *value));
bool th_thread_key_set(th_thread_key key, void *value);
void th_thread_key_delete(th_thread_key key);

/* -- what interrupts a thread: cancellation, signals, fork. On Windows these functions do nothing -- */

/* Keeps this thread from being canceled. Returns the state for th_cancellation_restore. */
int th_cancellation_disable(void);
void th_cancellation_restore(int state);
/* Blocks all signals of this thread, except those of faults: the system ends a process whose thread causes a fault that
 * it blocks. */
void th_signals_block(th_signals *before);
void th_signals_restore(const th_signals *before);
/* Registers functions that fork calls: before it, and after it in both processes. NULL: none. */
void th_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* -- waiting -- */

void th_mutex_lock(th_mutex *mutex);
void th_mutex_unlock(th_mutex *mutex);
/* Waits for th_condition_wake_all, at most for this time. May return early. */
void th_condition_wait(th_condition *condition, th_mutex *mutex, int64_t time);
void th_condition_wake_all(th_condition *condition);

/* Sleeps while the word has this value, at most for this time. May return early. */
void th_wait_while(_Atomic uint32_t *word, uint32_t value, int64_t time);
/* Wakes one thread that sleeps for the word. The caller has changed the word before. */
void th_wake_one(_Atomic uint32_t *word);

#endif
