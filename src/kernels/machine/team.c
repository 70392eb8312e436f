/* Teams of threads, and how they wait. A caller's helpers live as long as the caller. A thread without work spins for
 * some tens of microseconds, because the next work usually comes within them, and then sleeps until it is woken.
 *
 *     caller                            helper
 *     opens a run        word           sees a new run in the word: enters it, works, leaves
 *     wakes two          sleepers       wakes two more, so that the caller need not
 *     works                             sees no new run for SPIN nanoseconds: sleeps
 *     closes the run     word           comes too late: continues waiting
 *     waits until the run is empty
 *
 * Nothing waits for a helper that has not come: on a busy machine, where the system gives its processor to another
 * program, the caller does the work itself. Nor does a helper that has not come keep others asleep: whoever enters
 * wakes two of those that sleep then.
 *
 * The library creates the helpers itself and takes only limits and places from OpenMP. OpenMP's threads spin for
 * milliseconds between two regions, handle the program's signals, and may outlive their caller. And OpenMP ends the
 * process when it cannot create a thread. */
#include "kernels/machine/team.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/machine/locks.h"
#include "kernels/machine/processors.h"

/* In nanoseconds. */
enum {
    SPIN = 50000,           /* before a waiting thread sleeps */
    LONG_RUN = 500000,      /* a run this long is worth waking more threads than there are processors */
    HELD_UP = 1000000,      /* a caller that waits less than this for a helper does not count as held up */
    SHORT_REST = 4000000,   /* of a helper that held its caller up, the first time */
    LONG_REST = 128000000,  /* and at most */
    FIRST_RETRY = 10000000, /* until a caller again tries to create the threads that its team lacks */
    LAST_RETRY = 1280000000 /* and at most */
};

enum {
    MAX_THREADS = 1024, /* of a team */
    STACK = 1 << 20     /* bytes of a helper's stack: tasks take some tens of thousands */
};

/* The state of a run, in one word: how many helpers are inside, whether more may enter, and which run it is. */
#define INSIDE ((uint64_t)0xFFFF)
#define OPEN ((uint64_t)0x10000)
#define RUN ((uint64_t)0x20000) /* runs count from here up */

/* Where a thread sleeps; a resting one is not woken for a run. */
enum { AWAKE, ASLEEP, QUARANTINED };
typedef struct slot {
    _Alignas(64) _Atomic uint32_t state;
    pthread_t thread;  /* the helper */
    struct team *team; /* and its team */
} slot;

/* A thread as a caller. A team in use belongs to its caller; a free one may be ended by whoever holds
 * the lock. A helper counts as a caller whose team is in use. */
enum { FREE, IN_USE, ENDED };
typedef struct caller {
    _Atomic uint32_t state;
    struct team *team; /* NULL: none yet */
    int64_t retry;     /* when it may next try to create the threads that its team lacks */
    int64_t delay;     /* the wait before that; 0: nothing failed */
} caller;

/* The team of one calling thread, which is its worker 0. */
typedef struct team {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) th_job *job; /* of the open run; NULL ends the team */
    void *shared;
    int threads; /* that may take part in it */
    int size;    /* threads that exist, the caller among them */
    int processors;
    int64_t lasted;                 /* the last run, where threads outnumber processors */
    _Atomic int64_t opened, closed; /* when the run was */
    atomic_bool ending;
    sem_t begun; /* posted by each new helper */
    caller *caller;
    struct team *next, **link;                                /* in the list of teams */
    _Alignas(64) _Atomic uint64_t sleepers[MAX_THREADS / 64]; /* a bit for each helper asleep */
    slot slot[MAX_THREADS];                                   /* written for the threads that exist */
} team;

static _Thread_local caller own;

/* Under the lock. */
static team *teams;        /* of all threads */
static bool prepared;      /* `key` exists */
static bool unloaded;      /* no team begins any more */
static pthread_key_t key;  /* ends a thread's team with the thread */
static atomic_bool forked; /* this process was forked from one that had a team: the team's threads do not exist here */

static _Atomic int computing;  /* threads in the runs of all teams */
static _Atomic int processors; /* of the process, as the last caller found them */

/* -- waiting -- */

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps while the bed's state is this one, at most so long (NULL: for ever). */
static void sleep_while(slot *mine, uint32_t state, const struct timespec *max)
{
    syscall(SYS_futex, &mine->state, FUTEX_WAIT_PRIVATE, state, max, NULL, 0);
}

static bool wake_from(slot *sleeper, uint32_t state)
{
    if (atomic_load(&sleeper->state) != state || !atomic_compare_exchange_strong(&sleeper->state, &state, AWAKE))
        return false;
    syscall(SYS_futex, &sleeper->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

/* What is waited for: another run than `seen` (a helper), or that nobody is inside (the caller). */
static bool is_new(uint64_t word, uint64_t seen)
{
    return word / RUN != seen / RUN;
}

static bool is_empty(uint64_t word, uint64_t seen)
{
    (void)seen;
    return (word & INSIDE) == 0;
}

typedef bool condition(uint64_t word, uint64_t seen);

static void spin(team *t, condition *holds, uint64_t seen)
{
    const int64_t end = now() + SPIN;
    do {
        for (int i = 0; i < 16; i++) {
            if (holds(atomic_load_explicit(&t->word, memory_order_relaxed), seen))
                return;
            pause_briefly();
        }
    } while (now() < end);
}

/* -- sleep -- */

/* A helper is asleep while its bed says so and its bit is set. The bit is cleared before the helper enters a run, so a
 * bit that is taken for a wake belongs to a helper that has not entered yet. */
static void lie_down(team *t, int worker)
{
    atomic_store(&t->slot[worker].state, ASLEEP);
    if (worker > 0)
        atomic_fetch_or(&t->sleepers[worker / 64], (uint64_t)1 << worker % 64);
}

static void get_up(team *t, int worker)
{
    if (worker > 0)
        atomic_fetch_and(&t->sleepers[worker / 64], ~((uint64_t)1 << worker % 64));
    atomic_store(&t->slot[worker].state, AWAKE);
}

/* Waits as this worker; returns the word for which the condition holds. */
static inline uint64_t wait_for(team *t, int worker, condition *holds, uint64_t seen, bool spinning)
{
    uint64_t word = atomic_load(&t->word);
    if (spinning && !holds(word, seen))
        spin(t, holds, seen);
    while (word = atomic_load(&t->word), !holds(word, seen)) {
        lie_down(t, worker); /* before the word is read again: whoever changes it from now on wakes */
        if (!holds(atomic_load(&t->word), seen))
            sleep_while(&t->slot[worker], ASLEEP, NULL);
        if (atomic_load(&t->slot[worker].state) != AWAKE)
            get_up(t, worker);
    }
    return word;
}

/* -- helpers -- */

/* Wakes two helpers that sleep and may take part: each wakes two more, so that a large team is awake in few steps. */
static void wake_two(team *t)
{
    int woken = 0;
    for (int first = 0; first < t->threads && woken < 2; first += 64) {
        const int last = t->threads - first;
        const uint64_t may = last < 64 ? ((uint64_t)1 << last) - 1 : UINT64_MAX;
        _Atomic uint64_t *const sleepers = &t->sleepers[first / 64];
        for (uint64_t asleep; woken < 2 && (asleep = atomic_load(sleepers) & may) != 0;) {
            const uint64_t lowest = asleep & (~asleep + 1);
            if ((atomic_fetch_and(sleepers, ~lowest) & lowest) &&
                wake_from(&t->slot[first + __builtin_ctzll(lowest)], ASLEEP))
                woken++;
        }
    }
}

/* Enters the run that the word names, or a newer one; false when it is closed. */
static bool enter(team *t, uint64_t *word)
{
    while ((*word & OPEN) && !atomic_compare_exchange_weak(&t->word, word, *word + 1))
        ;
    return *word & OPEN;
}

/* Leaves a run; true when that woke a caller who had been held up: longer than it had worked itself. */
static bool leave(team *t)
{
    const uint64_t before = atomic_fetch_sub(&t->word, 1);
    if ((before & OPEN) || (before & INSIDE) > 1 || !wake_from(&t->slot[0], ASLEEP))
        return false;
    const int64_t opened = atomic_load_explicit(&t->opened, memory_order_relaxed);
    const int64_t closed = atomic_load_explicit(&t->closed, memory_order_relaxed);
    const int64_t waited = now() - closed;
    return waited > HELD_UP && waited > closed - opened;
}

/* How often the system has taken the processor from this thread. */
static long preemptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* What a helper remembers of being in the way. */
typedef struct backoff {
    long preemptions;
    int64_t rest, rested; /* how long it rested last, and until when */
} backoff;

/* A helper was preempted in the middle of a task, and its caller had to wait until the system resumed the helper: on a
 * busy machine that costs more than the help is worth. It rests, longer each time that this happens again soon. */
static void rest(team *t, slot *mine, backoff *f)
{
    const long seen = f->preemptions;
    f->preemptions = preemptions();
    if (f->preemptions == seen) /* the task was long, nothing else */
        return;
    f->rest = now() - f->rested > 16 * f->rest ? SHORT_REST : f->rest < LONG_REST ? 2 * f->rest : LONG_REST;
    atomic_store(&mine->state, QUARANTINED);
    if (!atomic_load(&t->ending)) /* set before the resting are woken */
        sleep_while(mine, QUARANTINED, &(struct timespec){.tv_nsec = (long)f->rest});
    atomic_store(&mine->state, AWAKE);
    f->rested = now();
}

/* The life of a helper. One that is not needed in a small run does not spin for the next. */
static void *help(void *argument)
{
    slot *const mine = argument;
    team *const t = mine->team;
    const int worker = (int)(mine - t->slot);
    atomic_store(&own.state, IN_USE);
    sem_post(&t->begun);
    bool needed = true, spinning = false;
    backoff f = {.preemptions = preemptions()};
    for (uint64_t seen = 0; needed;) {
        seen = wait_for(t, worker, is_new, seen, spinning);
        if (!enter(t, &seen))
            continue;
        spinning = worker < t->threads && t->threads <= t->processors;
        if (worker < t->threads)
            wake_two(t);
        if (t->job == NULL)
            needed = false;
        else if (worker < t->threads)
            t->job(t->shared, worker);
        if (leave(t))
            rest(t, mine, &f);
    }
    return NULL;
}

static bool create_thread(slot *mine)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK);
    int error = pthread_create(&mine->thread, &attributes, help, mine);
    pthread_attr_destroy(&attributes);
    if (error == EINVAL) /* the program's thread-local variables need more than that */
        error = pthread_create(&mine->thread, NULL, help, mine);
    return error == 0;
}

/* -- a team begins and ends, under the lock -- */

/* Creates helpers until the team has this many threads, or no more can be created. Every new helper has begun when this
 * returns: its thread-local variables exist, which would otherwise wait for a dlclose that waits for the helper. */
static void add_helpers(team *t, int threads)
{
    const int before = t->size;
    while (t->size < threads) {
        slot *const next = &t->slot[t->size];
        *next = (slot){.team = t};
        if (!create_thread(next))
            break;
        t->size++;
    }
    for (int i = before; i < t->size; i++)
        while (sem_wait(&t->begun) != 0)
            ;
    for (int worker = 1; worker < t->size; worker++)
        th_processors_bind(t->slot[worker].thread, worker, t->size);
}

static void open_run(team *t, int threads, th_job *job, void *shared)
{
    t->job = job;
    t->shared = shared;
    t->threads = threads;
    const uint64_t last = atomic_load_explicit(&t->word, memory_order_relaxed);
    atomic_store(&t->word, (last / RUN + 1) * RUN | OPEN);
    wake_two(t);
}

/* Ends a team, by a run that stays open until every helper has left for good. */
static void end(team *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    atomic_store(&t->ending, true);
    open_run(t, t->size, NULL, NULL);
    for (int worker = 1; worker < t->size; worker++)
        wake_from(&t->slot[worker], QUARANTINED);
    for (int worker = 1; worker < t->size; worker++)
        pthread_join(t->slot[worker].thread, NULL);
    sem_destroy(&t->begun);
    free(t);
}

/* Ends the team if its caller does not use it. The caller computes alone from then on. */
static void end_if_free(team *t)
{
    uint32_t state = FREE;
    if (atomic_compare_exchange_strong(&t->caller->state, &state, ENDED))
        end(t);
}

static void end_with_thread(void *argument)
{
    if (atomic_load(&forked))
        return;
    const th_held_lock held = th_lock_take(TH_LOCK_TEAMS);
    const caller *c = argument;
    if (atomic_load(&c->state) == FREE && c->team)
        end_if_free(c->team);
    th_lock_release(&held);
}

/* The process exits, or the program unloads the shared object that contains this library. Helpers must not continue in
 * unloaded code, and a thread that ends later must not call it. */
__attribute__((destructor)) static void end_all(void)
{
    if (atomic_load(&forked))
        return;
    const th_held_lock held = th_lock_take(TH_LOCK_TEAMS);
    unloaded = true;
    for (team *t = teams, *next; t; t = next) {
        next = t->next;
        end_if_free(t);
    }
    if (prepared)
        pthread_key_delete(key);
    th_lock_release(&held);
}

static void in_forked_child(void)
{
    atomic_store(&forked, true);
}

static bool prepare(void)
{
    if (!prepared && pthread_key_create(&key, end_with_thread) == 0) {
        pthread_atfork(NULL, NULL, in_forked_child);
        prepared = true;
    }
    return prepared;
}

/* A team of this thread alone; NULL when memory is out. */
static team *begin(void)
{
    team *t = aligned_alloc(_Alignof(team), sizeof(team));
    if (t == NULL || !prepare() || pthread_setspecific(key, &own) != 0) {
        free(t);
        return NULL;
    }
    atomic_init(&t->word, 0);
    atomic_init(&t->ending, false);
    for (int i = 0; i < MAX_THREADS / 64; i++)
        atomic_init(&t->sleepers[i], 0);
    t->slot[0] = (slot){.team = t};
    t->size = 1;
    t->lasted = 0;
    sem_init(&t->begun, 0, 0);
    t->caller = &own;
    t->next = teams;
    t->link = &teams;
    if (teams)
        teams->link = &t->next;
    teams = t;
    return t;
}

/* Gives this thread a team of `threads`, or of as many threads as the system can create now. It tries the rest again
 * after a while, longer each time: a shortage may pass, and a try costs time. */
static void enlarge(int threads)
{
    const int64_t time = own.delay ? now() : 0;
    if (own.delay && time < own.retry)
        return;
    const int here = th_processors(), of_process = th_processors_of_process();
    const th_held_lock held = th_lock_take(TH_LOCK_TEAMS);
    if (own.team == NULL && !unloaded)
        own.team = begin();
    if (own.team) {
        own.team->processors = here;
        add_helpers(own.team, threads);
    }
    th_lock_release(&held);
    atomic_store(&processors, of_process);
    const bool complete = own.team && own.team->size >= threads;
    own.delay = complete ? 0 : own.delay == 0 ? FIRST_RETRY : own.delay < LAST_RETRY ? 2 * own.delay : LAST_RETRY;
    own.retry = complete ? 0 : now() + own.delay;
}

/* -- the caller -- */

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static bool runs_alone(int threads)
{
    return threads < 2 || atomic_load_explicit(&own.state, memory_order_relaxed) != FREE ||
           atomic_load_explicit(&forked, memory_order_relaxed);
}

/* Takes this thread's team into use, with `threads` if the system can create them. NULL without a team, and
 * inside the user's OpenMP regions; then there is nothing to give back. The first call of OpenMP's library may read files
 * and hold locks, so the thread must not be canceled meanwhile. */
static team *take(int threads)
{
    uint32_t state = FREE;
    if (omp_in_parallel() || !atomic_compare_exchange_strong_explicit(&own.state, &state, IN_USE, memory_order_acquire,
                                                                      memory_order_relaxed))
        return NULL;
    if (own.team == NULL || own.team->size < threads) {
        const int possible = lesser(lesser(threads, MAX_THREADS), omp_get_thread_limit());
        if (own.team == NULL || own.team->size < possible)
            enlarge(possible);
    }
    if (own.team == NULL)
        atomic_store_explicit(&own.state, FREE, memory_order_release);
    return own.team;
}

static void give_back(void)
{
    atomic_store_explicit(&own.state, FREE, memory_order_release);
}

/* How many threads a run gets, at least its caller: what other callers' runs leave of the processors, or of `threads`
 * where that is more. To wake more threads than there are processors, and more than one, pays only where runs are long.
 */
static int claim(const team *t, int threads)
{
    const int all = atomic_load_explicit(&processors, memory_order_relaxed);
    const int few = t->processors < 2 ? 2 : t->processors;
    const int wanted = lesser(lesser(threads, t->size), t->lasted < LONG_RUN ? few : threads);
    const int left =
        (threads > all ? threads : all) - atomic_fetch_add_explicit(&computing, wanted, memory_order_relaxed);
    const int claimed = left < 1 ? 1 : lesser(wanted, left);
    if (claimed < wanted)
        atomic_fetch_sub_explicit(&computing, wanted - claimed, memory_order_relaxed);
    return claimed;
}

static void run(team *t, int threads, th_job *job, void *shared)
{
    open_run(t, threads, job, shared);
    atomic_store_explicit(&t->opened, now(), memory_order_relaxed);
    job(shared, 0);
    if ((atomic_fetch_and(&t->word, ~OPEN) & INSIDE) == 0)
        return;
    atomic_store_explicit(&t->closed, now(), memory_order_relaxed);
    wait_for(t, 0, is_empty, 0, threads <= t->processors);
}

static void run_in_team(team *t, int threads, th_job *job, void *shared)
{
    const int claimed = claim(t, threads);
    const bool crowded = threads > t->processors;
    const int64_t start = crowded ? now() : 0;
    if (claimed > 1)
        run(t, claimed, job, shared);
    else
        job(shared, 0);
    if (crowded)
        t->lasted = now() - start;
    atomic_fetch_sub_explicit(&computing, claimed, memory_order_relaxed);
}

void th_team_run(int threads, th_job *job, void *shared)
{
    if (runs_alone(threads)) {
        job(shared, 0);
        return;
    }
    const int cancellation = th_cancellation_disable(); /* a run that broke off would leave its helpers inside */
    team *t = take(threads);
    if (t) {
        run_in_team(t, threads, job, shared);
        give_back();
    } else {
        job(shared, 0);
    }
    th_cancellation_restore(cancellation);
}

int th_team_threads(int threads)
{
    if (runs_alone(threads))
        return 1;
    const int cancellation = th_cancellation_disable();
    const team *t = take(threads);
    const int size = t ? lesser(threads, t->size) : 1;
    if (t)
        give_back();
    th_cancellation_restore(cancellation);
    return size;
}
