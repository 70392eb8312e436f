/* How threads wait. A team's threads stay in one OpenMP parallel region for as long as the process lives: OpenMP's own
 * wait between two regions would spin for milliseconds, for partners that may not be running. Here a thread without
 * work spins for some tens of microseconds, in which the next work usually comes, and then sleeps until it is woken.
 *
 *     caller                            helper
 *     opens a run        word           sees a new run in the word: enters it, works, leaves
 *     wakes two          beds           wakes two more, so that the caller need not
 *     works                             sees none for SPIN nanoseconds: sleeps
 *     closes the run     word           comes too late: goes on waiting
 *     waits for who is inside
 *
 * Nothing waits for a helper that has not come: on a busy machine, where the system gives its processor to another
 * program, the caller does the work itself. */
#include "kernels/team.h"

#include <limits.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/processors.h"

/* In nanoseconds. */
enum {
    SPIN = 50000,         /* before a waiting thread sleeps */
    LONG_RUN = 500000,    /* from where on a run is worth waking more threads than there are processors */
    HELD_UP = 1000000,    /* that a caller waits for a helper at least before it counts as held up */
    SHORT_REST = 4000000, /* of a helper that held it up, the first time */
    LONG_REST = 128000000 /* and at most */
};

/* The state of a run, in one word: how many helpers are inside, whether more may enter, and which run it is. */
#define INSIDE ((uint64_t)0xFFFF)
#define OPEN ((uint64_t)0x10000)
#define RUN ((uint64_t)0x20000) /* runs count from here up */

/* Where a thread sleeps; a resting one is not woken for a run. */
enum { AWAKE, ASLEEP, RESTING };
typedef struct bed {
    _Alignas(64) _Atomic uint32_t state;
} bed;

/* The team of one calling thread, which is its worker 0. */
typedef struct team {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) th_job *job; /* of the open run; NULL ends the team */
    void *shared;
    int threads; /* that may take part in it */
    int size;    /* threads there are, the caller among them */
    int asked;   /* threads asked of OpenMP, which may give less */
    int processors;
    int64_t lasted;                 /* the last run, where threads outnumber processors */
    _Atomic int64_t opened, closed; /* when the run was */
    pthread_t host;                 /* is OpenMP's first thread in the caller's place, and sleeps */
    sem_t started, ended;
    bed bed[]; /* [asked] */
} team;

static _Thread_local team *own; /* this thread's, once it asked for one */
static _Thread_local bool in_team;
static team nobody = {.size = 1, .asked = INT_MAX, .processors = INT_MAX}; /* when a team could not be made */
static pthread_key_t key;                                                  /* ends a thread's team with it */
static bool keyed;
static atomic_bool forked; /* this process was forked from one that had a team: there are no threads behind it */

static _Atomic int computing;  /* threads in the runs of all teams */
static _Atomic int processors; /* of the process, as the last team found them */

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
static void sleep_while(bed *mine, uint32_t state, const struct timespec *most)
{
    syscall(SYS_futex, &mine->state, FUTEX_WAIT_PRIVATE, state, most, NULL, 0);
}

static bool wake_from(bed *sleeper, uint32_t state)
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

/* Waits as this worker; returns the word for which the condition holds. */
static inline uint64_t wait_for(team *t, int worker, condition *holds, uint64_t seen, bool spinning)
{
    uint64_t word = atomic_load(&t->word);
    if (spinning && !holds(word, seen))
        spin(t, holds, seen);
    bed *mine = &t->bed[worker];
    while (word = atomic_load(&t->word), !holds(word, seen)) {
        atomic_store(&mine->state, ASLEEP); /* before the word is read again: who changes it from now on wakes */
        if (holds(atomic_load(&t->word), seen))
            atomic_store(&mine->state, AWAKE);
        else
            sleep_while(mine, ASLEEP, NULL);
    }
    return word;
}

/* -- helpers -- */

/* Wakes the next two of a tree, so that a large team is awake in few steps. */
static void wake_next(team *t, int worker)
{
    for (int next = 2 * worker + 1; next <= 2 * worker + 2 && next < t->threads; next++)
        wake_from(&t->bed[next], ASLEEP);
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
    if ((before & OPEN) || (before & INSIDE) > 1 || !wake_from(&t->bed[0], ASLEEP))
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
typedef struct fatigue {
    long preemptions;
    int64_t rest, rested; /* how long it rested last, and until when */
} fatigue;

/* A helper was preempted in the middle of a task, and its caller had to wait until the system let it go on: on a busy
 * machine that costs more than the help is worth. It rests, longer each time that it happens again soon. */
static void rest(bed *mine, fatigue *f)
{
    const long seen = f->preemptions;
    f->preemptions = preemptions();
    if (f->preemptions == seen) /* the task was long, nothing else */
        return;
    f->rest = now() - f->rested > 16 * f->rest ? SHORT_REST : f->rest < LONG_REST ? 2 * f->rest : LONG_REST;
    atomic_store(&mine->state, RESTING);
    sleep_while(mine, RESTING, &(struct timespec){.tv_nsec = (long)f->rest});
    atomic_store(&mine->state, AWAKE);
    f->rested = now();
}

/* The life of a helper. One that is not needed in a small run does not spin for the next. */
static void help(team *t, int worker)
{
    bool needed = true, spinning = false;
    fatigue f = {.preemptions = preemptions()};
    for (uint64_t seen = 0; needed;) {
        seen = wait_for(t, worker, is_new, seen, spinning);
        if (!enter(t, &seen))
            continue;
        spinning = worker < t->threads && t->threads <= t->processors;
        if (worker < t->threads)
            wake_next(t, worker);
        if (t->job == NULL)
            needed = false;
        else if (worker < t->threads)
            t->job(t->shared, worker);
        if (leave(t))
            rest(&t->bed[worker], &f);
    }
}

/* -- a team begins and ends -- */

/* Waits for a semaphore, whatever signals come meanwhile. In the form of a thread's function. */
static void *wait_for_post(void *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
    return NULL;
}

/* OpenMP's library ends the process when it cannot make a thread (a limit of the system's, no memory for its stack). So
 * they are made here first, which may fail, and one more, for what else the library needs; one team at a time, with its
 * host, or two would find room for either and not for both. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;

/* How many threads, this one included, there can be of so many. */
static int threads_there_can_be(int threads)
{
    pthread_t *trial = malloc((size_t)threads * sizeof *trial);
    sem_t over;
    if (trial == NULL)
        return 1;
    sem_init(&over, 0, 0);
    int made = 0;
    while (made < threads && pthread_create(&trial[made], NULL, wait_for_post, &over) == 0)
        made++;
    for (int i = 0; i < made; i++)
        sem_post(&over);
    for (int i = 0; i < made; i++)
        pthread_join(trial[i], NULL);
    sem_destroy(&over);
    free(trial);
    return made < 1 ? 1 : made;
}

static void *host(void *argument)
{
    team *const t = argument;
    const int limit = omp_get_thread_limit();
    const int threads = threads_there_can_be(t->asked < limit ? t->asked : limit);
#pragma omp parallel num_threads(threads) default(none) firstprivate(t)
    {
        const int worker = omp_get_thread_num();
        in_team = true;
        if (worker > 0) {
            help(t, worker);
        } else {
            t->size = omp_get_num_threads();
            sem_post(&t->started);
            wait_for_post(&t->ended);
        }
    }
    return NULL;
}

static void open_run(team *t, int threads, th_job *job, void *shared)
{
    t->job = job;
    t->shared = shared;
    t->threads = threads;
    const uint64_t last = atomic_load_explicit(&t->word, memory_order_relaxed);
    atomic_store(&t->word, (last / RUN + 1) * RUN | OPEN);
    wake_next(t, 0);
}

/* Ends this thread's team, by a run that stays open until every helper has left for good. */
static void end(void *argument)
{
    team *t = argument;
    own = NULL;
    if (t == &nobody || atomic_load(&forked))
        return;
    open_run(t, t->size, NULL, NULL);
    for (int worker = 1; worker < t->size; worker++)
        wake_from(&t->bed[worker], RESTING);
    sem_post(&t->ended);
    pthread_join(t->host, NULL);
    sem_destroy(&t->started);
    sem_destroy(&t->ended);
    free(t);
}

/* The process exits: OpenMP's library must not find the caller's threads at work when it ends itself. */
__attribute__((destructor)) static void end_with_process(void)
{
    if (own && !in_team)
        end(own);
}

static void in_forked_child(void)
{
    atomic_store(&forked, true);
}

static void prepare(void)
{
    keyed = pthread_key_create(&key, end) == 0;
    pthread_atfork(NULL, NULL, in_forked_child);
}

/* A team of so many threads for this one; NULL when there is no memory or no thread to be had. */
static team *begin(int threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    team *t = aligned_alloc(_Alignof(team), sizeof(team) + (size_t)threads * sizeof(bed));
    if (t == NULL)
        return NULL;
    *t = (team){.asked = threads, .processors = th_processors()};
    memset(t->bed, 0, (size_t)threads * sizeof(bed));
    sem_init(&t->started, 0, 0);
    sem_init(&t->ended, 0, 0);
    pthread_mutex_lock(&beginning);
    const bool begun = keyed && pthread_create(&t->host, NULL, host, t) == 0;
    if (begun)
        wait_for_post(&t->started);
    pthread_mutex_unlock(&beginning);
    if (!begun) {
        free(t);
        return NULL;
    }
    atomic_store(&processors, th_processors_of_process());
    return t;
}

/* This thread's team, with so many threads if they can be had; one of fewer is replaced. */
static team *own_team(int threads)
{
    if (own && own->asked >= threads)
        return own;
    if (own)
        end(own);
    team *t = begin(threads);
    own = t ? t : &nobody;
    pthread_setspecific(key, own);
    return own;
}

/* -- the caller -- */

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static bool runs_alone(int threads)
{
    return threads < 2 || in_team || omp_in_parallel() || atomic_load_explicit(&forked, memory_order_relaxed);
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

void th_team_run(int threads, th_job *job, void *shared)
{
    if (runs_alone(threads)) {
        job(shared, 0);
        return;
    }
    team *t = own_team(threads);
    const int claimed = claim(t, threads);
    const bool crowded = threads > t->processors;
    const int64_t start = crowded ? now() : 0;
    in_team = true;
    if (claimed > 1)
        run(t, claimed, job, shared);
    else
        job(shared, 0);
    in_team = false;
    if (crowded)
        t->lasted = now() - start;
    atomic_fetch_sub_explicit(&computing, claimed, memory_order_relaxed);
}

int th_team_threads(int threads)
{
    if (runs_alone(threads))
        return 1;
    const team *t = own_team(threads);
    return lesser(threads, t->size);
}
