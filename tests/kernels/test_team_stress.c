/* Teams under disturbances: signals interrupt callers and helpers, sleeping threads wake without a cause, and system
 * calls and atomic operations of teams are late. Several callers run jobs of changing sizes, also nested ones, and some
 * callers are canceled. Each run must do all of its work once, with the same bits. */
#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* -- the atomic operations of teams: some are late -- */

/* Random numbers (splitmix64). */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static int below(uint64_t *state, int bound)
{
    return (int)(random_bits(state) % (uint64_t)bound);
}

static _Atomic uint64_t seeds;
static _Thread_local uint64_t chance;

/* Returns a random number below 64 for this thread. */
static int luck(void)
{
    if (chance == 0)
        chance = atomic_fetch_add_explicit(&seeds, 1000003, memory_order_relaxed) + 1;
    return below(&chance, 64);
}

/* Waits now and then, so that other threads come first. This is not a cancellation point, and it is legal in a signal
 * handler. (On a busy machine each yield takes milliseconds, so there is only one.) */
static void be_late(void)
{
    if (luck() != 0)
        return;
    if (luck() % 2 == 0)
        sched_yield();
    for (volatile int i = 50 * luck(); i > 0; i--)
        ;
}

#undef atomic_load
#undef atomic_store
#undef atomic_fetch_add
#undef atomic_fetch_or
#undef atomic_fetch_and
#undef atomic_fetch_sub
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_load(p) (be_late(), atomic_load_explicit(p, memory_order_seq_cst))
#define atomic_store(p, x) (be_late(), atomic_store_explicit(p, x, memory_order_seq_cst))
#define atomic_fetch_add(p, x) (be_late(), atomic_fetch_add_explicit(p, x, memory_order_seq_cst))
#define atomic_fetch_or(p, x) (be_late(), atomic_fetch_or_explicit(p, x, memory_order_seq_cst))
#define atomic_fetch_and(p, x) (be_late(), atomic_fetch_and_explicit(p, x, memory_order_seq_cst))
#define atomic_fetch_sub(p, x) (be_late(), atomic_fetch_sub_explicit(p, x, memory_order_seq_cst))
#define atomic_compare_exchange_strong(p, old, x)                                                                      \
    (be_late(), atomic_compare_exchange_strong_explicit(p, old, x, memory_order_seq_cst, memory_order_seq_cst))
#define atomic_compare_exchange_weak(p, old, x)                                                                        \
    (be_late(), atomic_compare_exchange_weak_explicit(p, old, x, memory_order_seq_cst, memory_order_seq_cst))

#include "kernels/machine/team.c" /* replaces the library's */

#include "kernels/machine/parallel.h"
#include "suite.h"

enum { CALLERS = 3, RUNS = 150, MAX_TASKS = 150, MAX_WORKERS = 6, ADDRESSES = 64, HELPERS = 64, SECONDS = 1500 };

static void sleep_microseconds(int microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000L * microseconds}, NULL);
}

/* -- the system calls of teams: this definition replaces the one of the C library -- */

static long (*system_call)(long number, ...);
static _Atomic(void *) addresses[ADDRESSES]; /* where threads slept last */
static atomic_int sleeps, spurious;
static atomic_bool wakes; /* without a cause; without them, a thread that misses its own wake-up hangs */

__attribute__((constructor)) static void find_system_call(void)
{
    void *symbol = dlsym(RTLD_NEXT, "syscall");
    memcpy(&system_call, &symbol, sizeof system_call);
}

/* A wait ends at once or begins late; a wake-up comes late. */
static long disturbed_futex(void *address, long operation, long value, void *time)
{
    const int number = luck();
    if (number < 4)
        sleep_microseconds(luck());
    if (operation == FUTEX_WAIT_PRIVATE) {
        atomic_store(&addresses[atomic_fetch_add(&sleeps, 1) % ADDRESSES], address);
        if (number > 52 && atomic_load(&wakes)) {
            atomic_fetch_add(&spurious, 1);
            return 0;
        }
    }
    return system_call(SYS_futex, address, operation, value, time, NULL, 0L);
}

long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    /* (An int argument has undefined upper bits.) */
    if (number == SYS_futex && ((int)a[1] == FUTEX_WAIT_PRIVATE || (int)a[1] == FUTEX_WAKE_PRIVATE))
        return disturbed_futex((void *)a[0], (int)a[1], (int)a[2], (void *)a[3]); /* NOLINT */
    return system_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* -- the disturber -- */

/* ThreadSanitizer delays the handlers of most signals, but not of SIGTRAP: that handler would wait for locks that its
 * own thread holds. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER true
#endif
#endif
#ifndef UNDER_THREAD_SANITIZER
#define UNDER_THREAD_SANITIZER false
#endif

static atomic_int handled, stopped;
static _Atomic pid_t helpers[HELPERS]; /* threads that ran tasks */

/* Takes a while, without a cancellation point. */
static void handle(int number)
{
    const int64_t nanoseconds = atomic_fetch_add(&handled, 1) % 8 == 0 ? 60000 : number == SIGTRAP ? 100 : 1000;
    for (const int64_t start = th_nanoseconds_now(); th_nanoseconds_now() - start < nanoseconds;)
        ;
}

typedef struct client {
    pthread_t thread;
    uint64_t random;
    int runs;                       /* to make; INT_MAX: until it is canceled */
    atomic_int begun, ended, wrong; /* runs */
} client;

/* Interrupts callers (SIGUSR1) and helpers (SIGTRAP, which they do not block), and wakes sleeping threads. */
static void *disturb(void *argument)
{
    client *callers = argument;
    uint64_t random = 17;
    while (!atomic_load(&stopped)) {
        pthread_kill(callers[below(&random, CALLERS)].thread, SIGUSR1);
        const pid_t helper = atomic_load(&helpers[below(&random, HELPERS)]);
        if (helper && !UNDER_THREAD_SANITIZER)
            system_call(SYS_tgkill, (long)getpid(), (long)helper, (long)SIGTRAP);
        void *address = atomic_load(&addresses[below(&random, ADDRESSES)]);
        if (address && atomic_load(&wakes))
            system_call(SYS_futex, address, (long)FUTEX_WAKE_PRIVATE, 1L, NULL, NULL, 0L);
        sleep_microseconds(below(&random, 60));
    }
    return NULL;
}

/* -- the callers -- */

typedef struct record {
    float result[MAX_TASKS];
    atomic_int times[MAX_TASKS];
    int work;
    bool nested;
} record;

static float value_of(int64_t index, int work)
{
    float x = 1.0f + (float)index / 7;
    for (int i = 0; i < work; i++)
        x = x * 0.75f + 1 / (x + (float)i);
    return x;
}

static void count(void *shared, int64_t index, int worker)
{
    (void)index;
    (void)worker;
    atomic_fetch_add((atomic_int *)shared, 1);
}

static void compute(void *shared, int64_t index, int worker)
{
    record *r = shared;
    if (worker > 0 && index % 8 == 0) {
        const long thread = system_call(SYS_gettid);
        atomic_store(&helpers[thread % HELPERS], (pid_t)thread);
    }
    r->result[index] = value_of(index, r->work);
    if (r->nested) {
        atomic_int done = 0;
        th_parallel(MAX_WORKERS, 5, count, &done); /* runs here, on this thread alone */
        r->result[index] += (float)atomic_load(&done);
    }
    atomic_fetch_add(&r->times[index], 1);
}

/* Returns true if every task of the run ran once and has the bits of a single thread. */
static bool run_once(uint64_t *random)
{
    record r = {.work = 1 + below(random, 50), .nested = below(random, 4) == 0};
    const int tasks = 1 + below(random, MAX_TASKS);
    th_parallel(1 + below(random, MAX_WORKERS), tasks, compute, &r);
    bool right = true;
    for (int i = 0; i < MAX_TASKS; i++) {
        const float expected = value_of(i, r.work) + (r.nested ? 5.0f : 0.0f);
        right = right && atomic_load(&r.times[i]) == (i < tasks) &&
                (i >= tasks || memcmp(&r.result[i], &expected, sizeof expected) == 0);
    }
    return right;
}

/* A run may start the team, and wait for it, with cancellation enabled: only the test's own call is a cancellation
 * point here. (ThreadSanitizer reports a thread that is canceled in nanosleep.) */
static void *call(void *argument)
{
    client *c = argument;
    for (int i = 0; i < c->runs; i++) {
        int state;
        atomic_fetch_add(&c->begun, 1);
        if (!run_once(&c->random))
            atomic_fetch_add(&c->wrong, 1);
        atomic_fetch_add(&c->ended, 1);
        pthread_testcancel();
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        if (below(&c->random, 8) == 0)
            sleep_microseconds(below(&c->random, 300)); /* helpers sleep after 50 */
        pthread_setcancelstate(state, &state);
    }
    return NULL;
}

/* Waits until a caller has ended this many runs; fails if it takes too long. */
static void wait_for_runs(client *c, int runs)
{
    for (int i = 0; atomic_load(&c->ended) < runs; i++) {
        ck_assert_msg(i < 1000 * SECONDS, "a caller hangs in run %d", atomic_load(&c->begun));
        sleep_microseconds(1000);
    }
}

static void *join_in_time(pthread_t thread)
{
    struct timespec limit;
    void *result = NULL;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += SECONDS;
    ck_assert_msg(pthread_timedjoin_np(thread, &result, &limit) == 0, "a thread hangs at its end");
    return result;
}

static void check(const client *c, bool canceled)
{
    ck_assert_int_eq(atomic_load(&c->wrong), 0);
    ck_assert_int_eq(atomic_load(&c->begun), atomic_load(&c->ended)); /* no run was canceled */
    ck_assert(canceled || atomic_load(&c->ended) == RUNS);
}

START_TEST(test_disturbed_teams)
{
    static client callers[CALLERS];
    const uint64_t seed = (uint64_t)_i + 1;
    pthread_t disturber;
    memset(callers, 0, sizeof callers);
    atomic_store(&seeds, seed << 32);
    atomic_store(&stopped, 0);
    atomic_store(&wakes, seed % 4 < 2);
    const bool cancels = seed % 2 == 0;
    for (int i = 0; i < CALLERS; i++) {
        callers[i].random = seed * CALLERS + (uint64_t)i;
        callers[i].runs = cancels && i == 0 ? INT_MAX : RUNS;
        ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    ck_assert_int_eq(pthread_create(&disturber, NULL, disturb, callers), 0);
    if (cancels) {
        wait_for_runs(&callers[0], RUNS / 4);
        ck_assert_int_eq(pthread_cancel(callers[0].thread), 0);
    }
    for (int i = cancels; i < CALLERS; i++)
        wait_for_runs(&callers[i], RUNS);
    atomic_store(&stopped, 1); /* before the callers are joined: then they cannot get signals */
    join_in_time(disturber);
    for (int i = 0; i < CALLERS; i++) {
        const bool canceled = join_in_time(callers[i].thread) == PTHREAD_CANCELED;
        ck_assert(canceled == (cancels && i == 0));
        check(&callers[i], canceled);
    }
    ck_assert_int_gt(atomic_load(&sleeps), 0); /* the test disturbs */
    ck_assert(!atomic_load(&wakes) || atomic_load(&spurious) > 0);
    ck_assert_int_gt(atomic_load(&handled), 0);
}
END_TEST

int main(void)
{
    const struct sigaction action = {.sa_handler = handle}; /* without SA_RESTART: system calls fail with EINTR */
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    TCase *stress = new_suite("team_stress", NULL, NULL);
    tcase_add_loop_test(stress, test_disturbed_teams, 0, 8);
    return run_suites();
}
