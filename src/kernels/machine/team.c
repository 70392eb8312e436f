/* Teams of threads, and how they wait. A team's helpers end with their caller. A thread without work spins for some
 * tens of microseconds, because the next work usually comes within them. Then it sleeps until it is woken. The middle
 * column shows the shared variable that is read or written:
 *
 *     caller                            helper
 *     opens a run        word           finds a new run in the word: enters it, works, leaves
 *     wakes two          sleepers       wakes two more
 *     works                             finds no new run for SPIN nanoseconds: sleeps
 *     closes the run     word           comes too late: continues waiting
 *     waits until no helper is inside
 *
 * The caller never waits for a helper that has not entered: if the system runs another program instead of the helper,
 * the caller does the work itself. Such a helper does not delay other helpers either: each helper that enters a run
 * wakes two that still sleep.
 *
 * OpenMP sets only limits and places. Its threads are not used: they spin for milliseconds between regions, run the
 * program's signal handlers and may outlive their caller. OpenMP also ends the process if it cannot create a thread.
 *
 * tests/team_model/team.pml is a model of this protocol. Change it with this file, and run
 * tests/team_model/check.sh. */
#include "kernels/machine/team.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernels/machine/locks.h"
#include "kernels/machine/openmp.h"
#include "kernels/machine/processors.h"
#include "platform/system.h"
#include "platform/threads.h"

/* Nanoseconds. */
enum {
    SPIN = 50000,             /* a waiting thread spins for this long before it sleeps */
    LONG_RUN = 500000,        /* for runs of this length it pays to wake more threads than there are processors */
    HELD_UP = 1000000,        /* a caller that waits less than this for a helper does not count as held up */
    SHORT_BACKOFF = 4000000,  /* a helper that held its caller up backs off for this long the first time */
    LONG_BACKOFF = 128000000, /* and at most for this long */
    FIRST_RETRY = 10000000,   /* the first delay before a caller tries again to create missing threads */
    LAST_RETRY = 1280000000   /* the longest such delay */
};

enum {
    MAX_THREADS = 1024, /* of a team */
    STACK = 1 << 20     /* bytes of a helper's stack: tasks need some tens of thousands */
};

/* The state of a run in one word: the number of helpers inside, whether more may enter, and the number of the run. */
#define INSIDE ((uint64_t)0xFFFF)
#define OPEN ((uint64_t)0x10000)
#define RUN ((uint64_t)0x20000) /* the run's number is in the higher bits */

/* A slot is where one thread of a team sleeps. A helper that backs off (back_off) is not woken for runs. */
enum { AWAKE, ASLEEP, BACKING_OFF };
typedef struct slot {
    _Alignas(64) _Atomic uint32_t state;
    th_thread thread;  /* of the helper */
    struct team *team; /* the helper's team */
} slot;

/* The state of a thread as a caller of th_team_run. A team in use belongs to its caller. A thread that holds the lock
 * may end a free team. In a helper the state is always IN_USE, so that a task does not start another team. */
enum { FREE, IN_USE, ENDED };
typedef struct caller {
    _Atomic uint32_t state;
    struct team *team; /* NULL: none yet */
    int64_t retry;     /* when it may try again to create missing threads */
    int64_t delay;     /* the delay before that; 0: no attempt failed */
} caller;

/* The team of one calling thread, which is its worker 0. */
typedef struct team {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) th_job *job; /* of the open run; NULL ends the team */
    void *shared;
    int threads; /* that may take part in the run */
    int size;    /* threads that exist, including the caller */
    int processors;
    int64_t last_duration;                      /* duration of the last run, if threads outnumber processors */
    _Alignas(8) _Atomic int64_t opened, closed; /* times of the last run */
    atomic_bool ending;
    _Atomic uint32_t begun; /* helpers that have begun, over all time */
    caller *caller;
    struct team *next, **link;                                /* in the list of teams */
    _Alignas(64) _Atomic uint64_t sleepers[MAX_THREADS / 64]; /* a bit for each helper asleep */
    slot slot[MAX_THREADS];                                   /* initialized for the threads that exist */
} team;

static _Thread_local caller this_caller;

/* Protected by the lock. */
static team *teams;        /* of all threads */
static bool key_exists;    /* `key` exists */
static bool unloaded;      /* no new teams */
static th_thread_key key;  /* its destructor ends a thread's team */
static atomic_bool forked; /* this process was forked from one with a team, whose threads do not exist here */

static _Atomic int computing_threads; /* threads in the runs of all teams */
static _Atomic int processors;        /* of the process, as the last caller counted them */

/* -- waiting -- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool wake_from(slot *sleeper, uint32_t state)
{
    if (atomic_load(&sleeper->state) != state || !atomic_compare_exchange_strong(&sleeper->state, &state, AWAKE))
        return false;
    th_wake_one(&sleeper->state);
    return true;
}

/* Conditions to wait for: a run other than `last` (a helper), or no helper inside (the caller). */
static bool is_new_run(uint64_t word, uint64_t last)
{
    return word / RUN != last / RUN;
}

static bool is_run_empty(uint64_t word, uint64_t last)
{
    (void)last;
    return (word & INSIDE) == 0;
}

typedef bool condition(uint64_t word, uint64_t last);

static void spin_until(team *t, condition *holds, uint64_t last)
{
    const int64_t end = th_nanoseconds_now() + SPIN;
    do {
        for (int i = 0; i < 16; i++) {
            if (holds(atomic_load_explicit(&t->word, memory_order_relaxed), last))
                return;
            pause_briefly();
        }
    } while (th_nanoseconds_now() < end);
}

/* -- sleep -- */

/* A helper is asleep if its slot says so and its bit is set. It clears the bit before it enters a run. So a waker that
 * clears a bit knows that the helper has not entered yet. */
static void mark_asleep(team *t, int worker)
{
    atomic_store(&t->slot[worker].state, ASLEEP);
    if (worker > 0)
        atomic_fetch_or(&t->sleepers[worker / 64], (uint64_t)1 << worker % 64);
}

static void mark_awake(team *t, int worker)
{
    if (worker > 0)
        atomic_fetch_and(&t->sleepers[worker / 64], ~((uint64_t)1 << worker % 64));
    atomic_store(&t->slot[worker].state, AWAKE);
}

/* Waits as this worker until the condition holds; returns the word. */
static inline uint64_t wait_for(team *t, int worker, condition *holds, uint64_t last, bool spinning)
{
    uint64_t word = atomic_load(&t->word);
    if (spinning && !holds(word, last))
        spin_until(t, holds, last);
    while (word = atomic_load(&t->word), !holds(word, last)) {
        mark_asleep(t, worker); /* before the word is read again: a later change of the word wakes this thread */
        if (!holds(atomic_load(&t->word), last))
            th_wait_while(&t->slot[worker].state, ASLEEP, TH_NO_LIMIT);
        if (atomic_load(&t->slot[worker].state) != AWAKE)
            mark_awake(t, worker);
    }
    return word;
}

/* -- helpers -- */

/* Wakes two sleeping helpers that may take part. Each wakes two more, so that a large team is awake in few steps. */
static void wake_two(team *t)
{
    int woken = 0;
    for (int first = 0; first < t->threads && woken < 2; first += 64) {
        const int last = t->threads - first;
        const uint64_t eligible = last < 64 ? ((uint64_t)1 << last) - 1 : UINT64_MAX;
        _Atomic uint64_t *const sleepers = &t->sleepers[first / 64];
        for (uint64_t asleep; woken < 2 && (asleep = atomic_load(sleepers) & eligible) != 0;) {
            const uint64_t lowest = asleep & (~asleep + 1);
            if ((atomic_fetch_and(sleepers, ~lowest) & lowest) &&
                wake_from(&t->slot[first + __builtin_ctzll(lowest)], ASLEEP))
                woken++;
        }
    }
}

/* Enters the run that the word names, or a newer one. Returns false if the run is closed. */
static bool enter_run(team *t, uint64_t *word)
{
    while ((*word & OPEN) && !atomic_compare_exchange_weak(&t->word, word, *word + 1))
        ;
    return *word & OPEN;
}

/* Leaves a run. Returns true if this woke a caller that was held up: it had waited longer than HELD_UP and longer than
 * its own work took. */
static bool leave_run(team *t)
{
    const uint64_t before = atomic_fetch_sub(&t->word, 1);
    if ((before & OPEN) || (before & INSIDE) > 1 || !wake_from(&t->slot[0], ASLEEP))
        return false;
    const int64_t opened = atomic_load_explicit(&t->opened, memory_order_relaxed);
    const int64_t closed = atomic_load_explicit(&t->closed, memory_order_relaxed);
    const int64_t waited = th_nanoseconds_now() - closed;
    return waited > HELD_UP && waited > closed - opened;
}

/* A helper's record of how it delayed its caller. */
typedef struct backoff {
    long preemptions;
    int64_t duration, ended; /* the last backoff: its length, and when it ended */
} backoff;

/* Backs off if this helper was preempted in a task while its caller waited: on a busy machine this costs more than the
 * helper saves. If it happens again soon, the next backoff is twice as long. */
static void back_off(team *t, slot *mine, backoff *b)
{
    const long before = b->preemptions;
    b->preemptions = th_thread_preemptions();
    if (b->preemptions == before) /* not preempted: the task was long */
        return;
    b->duration = th_nanoseconds_now() - b->ended > 16 * b->duration ? SHORT_BACKOFF
                  : b->duration < LONG_BACKOFF                       ? 2 * b->duration
                                                                     : LONG_BACKOFF;
    atomic_store(&mine->state, BACKING_OFF);
    if (!atomic_load(&t->ending)) /* end() sets it before it wakes the slots */
        th_wait_while(&mine->state, BACKING_OFF, b->duration);
    atomic_store(&mine->state, AWAKE);
    b->ended = th_nanoseconds_now();
}

/* The main function of a helper. A helper that entered a run but was not needed in it does not spin for the next
 * run. */
static void *helper_main(void *argument)
{
    slot *const mine = argument;
    team *const t = mine->team;
    const int worker = (int)(mine - t->slot);
    atomic_store(&this_caller.state, IN_USE);
    atomic_fetch_add(&t->begun, 1);
    th_wake_one(&t->begun);
    bool needed = true, spinning = false;
    backoff b = {.preemptions = th_thread_preemptions()};
    for (uint64_t last = 0; needed;) {
        last = wait_for(t, worker, is_new_run, last, spinning);
        if (!enter_run(t, &last))
            continue;
        spinning = worker < t->threads && t->threads <= t->processors;
        if (worker < t->threads)
            wake_two(t);
        if (t->job == NULL)
            needed = false;
        else if (worker < t->threads)
            t->job(t->shared, worker);
        if (leave_run(t))
            back_off(t, mine, &b);
    }
    return NULL;
}

/* -- begin and end of a team, under the lock -- */

/* Creates helpers until the team has this many threads, or no more can be created. When this returns, every new helper
 * runs, and its thread-local variables exist. If they were created later, they could wait for a dlclose that itself
 * waits for the helper (end_all). */
static void add_helpers(team *t, int threads)
{
    while (t->size < threads) {
        slot *const next = &t->slot[t->size];
        *next = (slot){.team = t};
        if (!th_thread_create(&next->thread, STACK, helper_main, next))
            break;
        t->size++;
    }
    const uint32_t helpers = (uint32_t)t->size - 1;
    for (uint32_t begun; (begun = atomic_load(&t->begun)) < helpers;)
        th_wait_while(&t->begun, begun, TH_NO_LIMIT);
    for (int worker = 1; worker < t->size; worker++)
        th_openmp_bind(t->slot[worker].thread, worker, t->size);
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

/* Ends a team with a run that stays open until every helper has left. */
static void end_team(team *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    atomic_store(&t->ending, true);
    open_run(t, t->size, NULL, NULL);
    for (int worker = 1; worker < t->size; worker++)
        wake_from(&t->slot[worker], BACKING_OFF);
    for (int worker = 1; worker < t->size; worker++)
        th_thread_join(t->slot[worker].thread);
    th_aligned_free(t);
}

/* Ends the team if its caller is not using it. Afterwards the caller computes alone. */
static void end_if_free(team *t)
{
    uint32_t state = FREE;
    if (atomic_compare_exchange_strong(&t->caller->state, &state, ENDED))
        end_team(t);
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

/* Runs when the process exits, or when the program unloads the shared object that contains this library. Helpers must
 * not run unloaded code, and a thread that ends later must not call it. */
__attribute__((destructor)) static void end_all_teams(void)
{
    if (atomic_load(&forked))
        return;
    const th_held_lock held = th_lock_take(TH_LOCK_TEAMS);
    unloaded = true;
    for (team *t = teams, *next; t; t = next) {
        next = t->next;
        end_if_free(t);
    }
    if (key_exists)
        th_thread_key_delete(key);
    th_lock_release(&held);
}

static void in_forked_child(void)
{
    atomic_store(&forked, true);
}

static bool create_key(void)
{
    if (!key_exists && th_thread_key_create(&key, end_with_thread)) {
        th_on_fork(NULL, NULL, in_forked_child);
        key_exists = true;
    }
    return key_exists;
}

/* Returns a team of this thread alone; NULL if memory is exhausted. */
static team *create_team(void)
{
    team *t = th_aligned_allocate(_Alignof(team), sizeof(team));
    if (t == NULL || !create_key() || !th_thread_key_set(key, &this_caller)) {
        th_aligned_free(t);
        return NULL;
    }
    atomic_init(&t->word, 0);
    atomic_init(&t->ending, false);
    for (int i = 0; i < MAX_THREADS / 64; i++)
        atomic_init(&t->sleepers[i], 0);
    t->slot[0] = (slot){.team = t};
    t->size = 1;
    t->last_duration = 0;
    atomic_init(&t->begun, 0);
    t->caller = &this_caller;
    t->next = teams;
    t->link = &teams;
    if (teams)
        teams->link = &t->next;
    teams = t;
    return t;
}

/* Enlarges this thread's team to `threads`, or to as many as the system can create now. For missing threads it tries
 * again after a delay, longer each time: the shortage may pass, and an attempt costs time. */
static void enlarge_team(int threads)
{
    const int64_t time = this_caller.delay ? th_nanoseconds_now() : 0;
    if (this_caller.delay && time < this_caller.retry)
        return;
    const int of_thread = th_processors(), of_process = th_processors_of_process();
    const th_held_lock held = th_lock_take(TH_LOCK_TEAMS);
    if (this_caller.team == NULL && !unloaded)
        this_caller.team = create_team();
    if (this_caller.team) {
        this_caller.team->processors = of_thread;
        add_helpers(this_caller.team, threads);
    }
    th_lock_release(&held);
    atomic_store(&processors, of_process);
    const bool complete = this_caller.team && this_caller.team->size >= threads;
    this_caller.delay = complete                         ? 0
                        : this_caller.delay == 0         ? FIRST_RETRY
                        : this_caller.delay < LAST_RETRY ? 2 * this_caller.delay
                                                         : LAST_RETRY;
    this_caller.retry = complete ? 0 : th_nanoseconds_now() + this_caller.delay;
}

/* -- the caller -- */

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static bool runs_alone(int threads)
{
    return threads < 2 || atomic_load_explicit(&this_caller.state, memory_order_relaxed) != FREE ||
           atomic_load_explicit(&forked, memory_order_relaxed);
}

/* Starts using this thread's team, with `threads` if the system can create them. Returns NULL if this thread cannot
 * have a team, and inside the user's OpenMP regions; then the caller must not call release_team. OpenMP's library may
 * read files and hold locks in its first call, so the caller must have disabled cancellation. */
static team *acquire_team(int threads)
{
    uint32_t state = FREE;
    if (th_openmp_in_parallel() || !atomic_compare_exchange_strong_explicit(&this_caller.state, &state, IN_USE,
                                                                            memory_order_acquire, memory_order_relaxed))
        return NULL;
    if (this_caller.team == NULL || this_caller.team->size < threads) {
        const int possible = lesser(lesser(threads, MAX_THREADS), th_openmp_thread_limit());
        if (this_caller.team == NULL || this_caller.team->size < possible)
            enlarge_team(possible);
    }
    if (this_caller.team == NULL)
        atomic_store_explicit(&this_caller.state, FREE, memory_order_release);
    return this_caller.team;
}

static void release_team(void)
{
    atomic_store_explicit(&this_caller.state, FREE, memory_order_release);
}

/* Returns the number of threads for a run, including its caller. As many are available as there are processors, or
 * `threads` if that is more, minus the threads in other callers' runs. Waking more threads than there are processors
 * (and more than two) pays only for long runs. */
static int claim_threads(const team *t, int threads)
{
    const int all = atomic_load_explicit(&processors, memory_order_relaxed);
    const int few_threads = t->processors < 2 ? 2 : t->processors;
    const int wanted = lesser(lesser(threads, t->size), t->last_duration < LONG_RUN ? few_threads : threads);
    const int available =
        (threads > all ? threads : all) - atomic_fetch_add_explicit(&computing_threads, wanted, memory_order_relaxed);
    const int claimed = available < 1 ? 1 : lesser(wanted, available);
    if (claimed < wanted)
        atomic_fetch_sub_explicit(&computing_threads, wanted - claimed, memory_order_relaxed);
    return claimed;
}

static void run_with_helpers(team *t, int threads, th_job *job, void *shared)
{
    open_run(t, threads, job, shared);
    atomic_store_explicit(&t->opened, th_nanoseconds_now(), memory_order_relaxed);
    job(shared, 0);
    if ((atomic_fetch_and(&t->word, ~OPEN) & INSIDE) == 0)
        return;
    atomic_store_explicit(&t->closed, th_nanoseconds_now(), memory_order_relaxed);
    wait_for(t, 0, is_run_empty, 0, threads <= t->processors);
}

static void run_in_team(team *t, int threads, th_job *job, void *shared)
{
    const int claimed = claim_threads(t, threads);
    const bool crowded = threads > t->processors;
    const int64_t start = crowded ? th_nanoseconds_now() : 0;
    if (claimed > 1)
        run_with_helpers(t, claimed, job, shared);
    else
        job(shared, 0);
    if (crowded)
        t->last_duration = th_nanoseconds_now() - start;
    atomic_fetch_sub_explicit(&computing_threads, claimed, memory_order_relaxed);
}

void th_team_run(int threads, th_job *job, void *shared)
{
    if (runs_alone(threads)) {
        job(shared, 0);
        return;
    }
    const int cancellation = th_cancellation_disable(); /* a run that stopped half-way would leave its helpers inside */
    team *t = acquire_team(threads);
    if (t) {
        run_in_team(t, threads, job, shared);
        release_team();
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
    const team *t = acquire_team(threads);
    const int size = t ? lesser(threads, t->size) : 1;
    if (t)
        release_team();
    th_cancellation_restore(cancellation);
    return size;
}
