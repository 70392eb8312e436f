/* How threads wait and share the processors. Without work they sleep. Several callers share one set of threads. They
 * end with their caller, and exist again in a forked process whose parent only used OpenMP. Teams work with canceled
 * callers, signals, a helper that does not start, a shortage of threads, and OpenMP's places. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/machine/parallel.h"
#include "kernels/machine/processors.h"
#include "kernels/machine/team.h"
#include "suite.h"

#ifdef TAPEHEAD_OPENMP
#include <omp.h>
#endif

static void sleep_milliseconds(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void count(void *shared, int64_t index, int worker)
{
    (void)index;
    (void)worker;
    atomic_fetch_add((atomic_int *)shared, 1);
}

/* -- waiting -- */

static double processor_seconds(void)
{
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

START_TEST(test_a_team_without_work_sleeps)
{
    atomic_int done = 0;
    for (int i = 0; i < 100; i++)
        th_parallel(4, 100, count, &done);
    sleep_milliseconds(20); /* they may still be going to sleep */
    const double before = processor_seconds();
    sleep_milliseconds(300);
    ck_assert_double_lt(processor_seconds() - before, 0.03);
    th_parallel(4, 100, count, &done); /* with work they wake up */
    ck_assert_int_eq(atomic_load(&done), 101 * 100);
}
END_TEST

/* A task that waits for another: the caller waits for its helper long enough to fall asleep. */
static void wait_for_the_first(void *shared, int64_t index, int worker)
{
    (void)worker;
    atomic_int *begun = shared;
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < 2)
        sleep_milliseconds(1);
    if (index == 1)
        sleep_milliseconds(5);
}

START_TEST(test_a_caller_waits_for_its_helpers)
{
    for (int i = 0; i < 20; i++) {
        atomic_int begun = 0;
        th_parallel(2, 2, wait_for_the_first, &begun);
        ck_assert_int_eq(atomic_load(&begun), 2);
        if (i % 4 == 0)
            sleep_milliseconds(1);
    }
}
END_TEST

/* -- the number of threads -- */

typedef struct crowd {
    atomic_int now, max, workers;
    atomic_uint present; /* a bit for each worker */
} crowd;

static void count_worker(void *shared, int64_t index, int worker)
{
    (void)index;
    crowd *c = shared;
    const int now = atomic_fetch_add(&c->now, 1) + 1;
    for (int max = atomic_load(&c->max); now > max && !atomic_compare_exchange_weak(&c->max, &max, now);)
        ;
    atomic_fetch_or(&c->present, 1u << worker);
    sleep_milliseconds(2);
    atomic_fetch_sub(&c->now, 1);
}

START_TEST(test_a_team_larger_than_the_machine_works_in_long_runs)
{
    const int threads = th_processors() + 2;
    ck_assert_int_eq(th_team_threads(threads), threads);
    crowd c = {0};
    for (int tries = 0; atomic_load(&c.max) <= th_processors() && tries < 1000; tries++)
        th_parallel(threads, 8 * threads, count_worker, &c);
    ck_assert_int_gt(atomic_load(&c.max), th_processors());
    ck_assert_int_le(atomic_load(&c.max), threads);
}
END_TEST

enum { CALLERS = 4 };

static void *call(void *shared)
{
    for (int i = 0; i < 10; i++)
        th_parallel(th_processors(), 8, count_worker, shared);
    return NULL;
}

START_TEST(test_callers_share_the_processors)
{
    crowd c = {0};
    pthread_t thread[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, call, &c), 0);
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    ck_assert_int_le(atomic_load(&c.max), CALLERS + th_processors() - 1);
}
END_TEST

START_TEST(test_a_team_grows)
{
    static const int sizes[] = {2, 5, 3, 2, 6, 6, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        atomic_int done = 0;
        th_parallel(sizes[i], 50, count, &done);
        ck_assert_int_eq(atomic_load(&done), 50);
        ck_assert_int_eq(th_team_threads(sizes[i]), sizes[i]);
    }
}
END_TEST

/* Records each worker's processors. */
static cpu_set_t processors_of[4];

static void note_processors(void *shared, int64_t index, int worker)
{
    (void)index;
    sched_getaffinity(0, sizeof processors_of[worker], &processors_of[worker]);
    atomic_fetch_or((atomic_uint *)shared, 1u << worker);
    sleep_milliseconds(1);
}

/* The processors of OpenMP's place for a worker, or the caller's if OpenMP binds no thread. */
static cpu_set_t place_of(int worker, const cpu_set_t *caller)
{
#ifdef TAPEHEAD_OPENMP
    int processor[CPU_SETSIZE];
    const int places = omp_get_num_places();
    if (omp_get_proc_bind() != omp_proc_bind_false && places > 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        omp_get_place_proc_ids(worker % places, processor);
        for (int i = 0; i < omp_get_place_num_procs(worker % places); i++)
            CPU_SET((size_t)processor[i], &set);
        return set;
    }
#endif
    (void)worker;
    return *caller;
}

START_TEST(test_helpers_run_at_openmps_places)
{
    enum { THREADS = 4 };
    cpu_set_t caller;
    ck_assert_int_eq(sched_getaffinity(0, sizeof caller, &caller), 0);
    atomic_uint present = 0;
    for (int tries = 0; atomic_load(&present) != (1u << THREADS) - 1 && tries < 1000; tries++)
        th_parallel(THREADS, 8 * THREADS, note_processors, &present);
    ck_assert_uint_eq(atomic_load(&present), (1u << THREADS) - 1);
    for (int worker = 1; worker < THREADS; worker++) {
        const cpu_set_t place = place_of(worker, &caller);
        ck_assert_msg(CPU_EQUAL(&processors_of[worker], &place), "worker %d runs on other processors", worker);
    }
}
END_TEST

/* -- the lifetime of threads -- */

static int threads_of_this_process(void)
{
    DIR *directory = opendir("/proc/self/task");
    if (directory == NULL)
        return -1;
    int threads = -2; /* . and .. */
    while (readdir(directory))
        threads++;
    closedir(directory);
    return threads;
}

START_TEST(test_a_team_ends_with_its_caller)
{
    const int before = threads_of_this_process();
    crowd c = {0};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, call, &c), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    for (int i = 0; threads_of_this_process() > before && i < 1000; i++)
        sleep_milliseconds(10); /* the system counts a thread for a moment after its end */
    ck_assert_int_eq(threads_of_this_process(), before);
}
END_TEST

/* Adds up how many threads more than requested exist, for some sizes of this thread's team. */
static void *count_surplus(void *surplus)
{
    static const int sizes[] = {3, 2, 5};
    const int before = threads_of_this_process();
    for (int i = 0; i < 3; i++) {
        const int largest = i < 2 ? 3 : 5;
        th_team_threads(sizes[i]);
        const int more = threads_of_this_process() - (before + largest - 1);
        *(int *)surplus += more > 0 ? more : 0; /* less than 0: threads of earlier teams have ended meanwhile */
    }
    return NULL;
}

START_TEST(test_a_team_has_no_more_threads_than_requested)
{
    pthread_t thread;
    int surplus = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, count_surplus, &surplus), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(surplus, 0);
}
END_TEST

/* -- canceled callers -- */

static void *cancel_own_first_run(void *done)
{
    pthread_cancel(pthread_self()); /* takes effect at the next cancellation point of POSIX */
    th_parallel(4, 1000, count, done);
    pthread_testcancel();
    return NULL;
}

/* A task with a cancellation point. The caller's first task must not end the run. */
static void count_if_not_canceled(void *shared, int64_t index, int worker)
{
    pthread_testcancel();
    count(shared, index, worker);
}

static void *cancel_own_second_run(void *done)
{
    th_parallel(2, 2, count, done);
    pthread_cancel(pthread_self());
    th_parallel(2, 998, count_if_not_canceled, done);
    pthread_testcancel();
    return NULL;
}

START_TEST(test_a_caller_canceled_in_a_task)
{
    pthread_t canceled;
    atomic_int done = 0;
    ck_assert_int_eq(pthread_create(&canceled, NULL, cancel_own_second_run, &done), 0);
    ck_assert_int_eq(pthread_join(canceled, NULL), 0);
    ck_assert_int_eq(atomic_load(&done), 1000);
}
END_TEST

static void *run_team_of_2(void *done)
{
    th_parallel(2, 1000, count, done);
    return (void *)(intptr_t)th_team_threads(2);
}

/* The return value of a thread that ends within a minute; NULL if it hangs. */
static void *join_in_time(pthread_t thread)
{
    struct timespec end;
    void *result = NULL;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    return pthread_timedjoin_np(thread, &result, &end) == 0 ? result : NULL;
}

START_TEST(test_a_caller_canceled_in_its_first_run)
{
    const int before = threads_of_this_process();
    pthread_t canceled, next;
    atomic_int done = 0;
    ck_assert_int_eq(pthread_create(&canceled, NULL, cancel_own_first_run, &done), 0);
    ck_assert_ptr_eq(join_in_time(canceled), PTHREAD_CANCELED);
    ck_assert_int_eq(atomic_load(&done), 1000); /* the run that had begun is complete */
    ck_assert_int_eq(pthread_create(&next, NULL, run_team_of_2, &done), 0);
    ck_assert_int_eq((intptr_t)join_in_time(next), 2);
    ck_assert_int_eq(atomic_load(&done), 2000);
    for (int i = 0; threads_of_this_process() > before && i < 1000; i++)
        sleep_milliseconds(10);
    ck_assert_int_eq(threads_of_this_process(), before);
}
END_TEST

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER
#endif
#endif

/* -- signals -- */

START_TEST(test_a_signal_waits_for_the_program)
{
    atomic_int done = 0;
    sigset_t term;
    th_parallel(4, 100, count, &done);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &term, NULL), 0); /* after the helpers were created */
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    sleep_milliseconds(20); /* a helper would take it and end the process */
    ck_assert_int_eq(sigtimedwait(&term, NULL, &(struct timespec){.tv_sec = 10}), SIGTERM);
    ck_assert_int_eq(pthread_sigmask(SIG_UNBLOCK, &term, NULL), 0);
    sigset_t mine;
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mine), 0);
    for (int s = 1; s < SIGRTMAX; s++)
        ck_assert_msg(sigismember(&mine, s) != 1, "the caller was left with signal %d blocked", s);
}
END_TEST

#ifndef UNDER_THREAD_SANITIZER /* it delays handlers */
static atomic_int parked, released;

static void park(int number)
{
    (void)number;
    atomic_store(&parked, 1);
    while (!atomic_load(&released))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static atomic_int first_helper;

static void note_first_helper(void *shared, int64_t index, int worker)
{
    if (worker == 1)
        atomic_store(&first_helper, (int)syscall(SYS_gettid));
    count_worker(shared, index, worker);
}

/* A helper that the system does not run (here: one in a signal handler) does not delay others. */
START_TEST(test_a_helper_that_does_not_come)
{
    enum { THREADS = 15 };
    crowd c = {0};
    for (int tries = 0; atomic_load(&first_helper) == 0 && tries < 1000; tries++)
        th_parallel(THREADS, 8 * THREADS, note_first_helper, &c);
    ck_assert_int_ne(atomic_load(&first_helper), 0);
    signal(SIGTRAP, park);
    ck_assert_int_eq(syscall(SYS_tgkill, getpid(), atomic_load(&first_helper), SIGTRAP), 0);
    for (int i = 0; !atomic_load(&parked) && i < 10000; i++)
        sleep_milliseconds(1);
    ck_assert_int_eq(atomic_load(&parked), 1);
    sleep_milliseconds(20); /* the others fall asleep */
    const unsigned others = ((1u << THREADS) - 1) & ~2u;
    atomic_store(&c.present, 0);
    for (int runs = 0; (atomic_load(&c.present) & others) != others && runs < 100; runs++)
        th_parallel(THREADS, 8 * THREADS, count_worker, &c);
    const unsigned present = atomic_load(&c.present);
    atomic_store(&released, 1);
    ck_assert_msg((present & others) == others, "only workers 0x%x of 0x%x came", present, others);
    signal(SIGTRAP, SIG_DFL);
}
END_TEST
#endif

/* -- fork and OpenMP -- */

/* ThreadSanitizer starts no threads in a forked process, and does not know how OpenMP orders its own regions. */
#if defined(TAPEHEAD_OPENMP) && !defined(UNDER_THREAD_SANITIZER)
START_TEST(test_fork_of_a_process_that_used_openmp)
{
    if (getenv("EMULATOR")) {
        puts("skipped: this emulator cannot start threads in a forked process");
        return;
    }
    int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
    sum += 1;
    ck_assert_int_eq(sum, 2);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        atomic_int done = 0;
        th_parallel(2, 1000, count, &done);
        _exit(atomic_load(&done) == 1000 ? 10 + th_team_threads(2) : 99);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 12);
}
END_TEST

START_TEST(test_no_team_inside_a_parallel_region_of_the_user)
{
    int team = 0;
    atomic_int done = 0;
#pragma omp parallel num_threads(2) reduction(+ : team)
    {
        team += th_team_threads(2);
        th_parallel(2, 100, count, &done);
    }
    ck_assert_int_eq(team, 2);
    ck_assert_int_eq(atomic_load(&done), 200);
}
END_TEST
#endif

/* Sanitizers need address space for every thread. */
#if defined(UNDER_THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
#define UNDER_SANITIZER
#endif
#ifndef UNDER_SANITIZER
/* -- too few threads -- */

/* How many more threads can be created (-1: any number), how many failed, and the error for a thread with
 * attributes. */
static atomic_int left = -1, refused, refused_attributes;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&create, &symbol, sizeof create);
    if (attributes && atomic_load(&refused_attributes))
        return atomic_load(&refused_attributes);
    if (atomic_load(&left) == 0) {
        atomic_fetch_add(&refused, 1);
        return EAGAIN;
    }
    if (atomic_load(&left) > 0)
        atomic_fetch_sub(&left, 1);
    return create(thread, attributes, function, argument);
}

/* Waits until the team is this large; fails after a minute. */
static void wait_for_team(int threads)
{
    for (int i = 0; th_team_threads(threads) < threads && i < 6000; i++)
        sleep_milliseconds(10);
    ck_assert_int_eq(th_team_threads(threads), threads);
}

START_TEST(test_a_shortage_of_threads_passes)
{
    atomic_int done = 0;
    atomic_store(&left, 0);
    ck_assert_int_eq(th_team_threads(4), 1);
    for (int i = 0; i < 10000; i++)
        th_parallel(4, 10, count, &done);
    ck_assert_int_eq(atomic_load(&done), 100000);
    ck_assert_int_le(atomic_load(&refused), 20); /* of 10,001 possible attempts */
    atomic_store(&left, 1);
    wait_for_team(2);
    ck_assert_int_eq(th_team_threads(4), 2);
    th_parallel(4, 1000, count, &done);
    atomic_store(&left, -1);
    wait_for_team(4);
    th_parallel(4, 1000, count, &done);
    ck_assert_int_eq(atomic_load(&done), 102000);
}
END_TEST

/* A program with large thread-local variables. */
START_TEST(test_threads_that_need_a_larger_stack)
{
    atomic_store(&refused_attributes, EINVAL);
    ck_assert_int_eq(th_team_threads(3), 3);
    atomic_store(&refused_attributes, 0);
}
END_TEST

static sem_t all_are_made;

static void *work_alone(void *done)
{
    sem_wait(&all_are_made);
    th_parallel(16, 1000, count, done);
    return NULL;
}

/* Several callers want teams, and there is only memory for the stacks of a few threads. */
START_TEST(test_the_largest_team)
{
    struct rlimit stack;
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    ck_assert(statm && fscanf(statm, "%ld", &pages) == 1);
    fclose(statm);
    ck_assert_int_eq(getrlimit(RLIMIT_STACK, &stack), 0);
    const rlim_t each = stack.rlim_cur == RLIM_INFINITY ? (rlim_t)2 << 20 : stack.rlim_cur;
    const rlim_t space = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 10 * each;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){space, space}), 0);
    atomic_int done = 0;
    pthread_t thread[3];
    int made = 0;
    sem_init(&all_are_made, 0, 0);
    while (made < 3 && pthread_create(&thread[made], NULL, work_alone, &done) == 0)
        made++;
    ck_assert_int_gt(made, 0);
    for (int i = 0; i < made; i++)
        sem_post(&all_are_made);
    for (int i = 0; i < made; i++)
        pthread_join(thread[i], NULL);
    ck_assert_int_eq(atomic_load(&done), made * 1000);
}
END_TEST
#endif

int main(void)
{
    TCase *team = new_suite("team", NULL, NULL);
#if defined(TAPEHEAD_OPENMP) && !defined(UNDER_THREAD_SANITIZER)
    tcase_add_test(team, test_fork_of_a_process_that_used_openmp); /* first: before the first team */
    tcase_add_test(team, test_no_team_inside_a_parallel_region_of_the_user);
#endif
    tcase_add_test(team, test_a_team_without_work_sleeps);
    tcase_add_test(team, test_a_caller_waits_for_its_helpers);
    tcase_add_test(team, test_a_team_larger_than_the_machine_works_in_long_runs);
    tcase_add_test(team, test_callers_share_the_processors);
    tcase_add_test(team, test_a_team_grows);
    tcase_add_test(team, test_helpers_run_at_openmps_places);
    tcase_add_test(team, test_a_team_ends_with_its_caller);
    tcase_add_test(team, test_a_team_has_no_more_threads_than_requested);
    tcase_add_test(team, test_a_caller_canceled_in_its_first_run);
    tcase_add_test(team, test_a_caller_canceled_in_a_task);
    tcase_add_test(team, test_a_signal_waits_for_the_program);
#ifndef UNDER_THREAD_SANITIZER
    tcase_add_test(team, test_a_helper_that_does_not_come);
#endif
#ifndef UNDER_SANITIZER
    tcase_add_test(team, test_a_shortage_of_threads_passes);
    tcase_add_test(team, test_threads_that_need_a_larger_stack);
    tcase_add_test(team, test_the_largest_team);
#endif
    return run_suites();
}
