/* How threads wait and share the processors: asleep without work, none multiplied by several callers, gone with their
 * caller, and there again in a forked process whose parent only used OpenMP. */
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/parallel.h"
#include "kernels/processors.h"
#include "kernels/team.h"
#include "suite.h"

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
    sleep_milliseconds(20); /* they may still be on their way to bed */
    const double before = processor_seconds();
    sleep_milliseconds(300);
    ck_assert_double_lt(processor_seconds() - before, 0.03);
    th_parallel(4, 100, count, &done); /* and wakes up */
    ck_assert_int_eq(atomic_load(&done), 101 * 100);
}
END_TEST

/* A task that waits for another makes the caller wait for its helper, long enough to sleep. */
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

/* -- how many -- */

typedef struct crowd {
    atomic_int now, most, workers;
    atomic_uint seen; /* bits of workers */
} crowd;

static void enter_crowd(void *shared, int64_t index, int worker)
{
    (void)index;
    crowd *c = shared;
    const int now = atomic_fetch_add(&c->now, 1) + 1;
    for (int most = atomic_load(&c->most); now > most && !atomic_compare_exchange_weak(&c->most, &most, now);)
        ;
    atomic_fetch_or(&c->seen, 1u << worker);
    sleep_milliseconds(2);
    atomic_fetch_sub(&c->now, 1);
}

START_TEST(test_a_team_larger_than_the_machine_works_in_long_runs)
{
    const int threads = th_processors() + 2;
    ck_assert_int_eq(th_team_threads(threads), threads);
    crowd c = {0};
    for (int tries = 0; atomic_load(&c.most) <= th_processors() && tries < 1000; tries++)
        th_parallel(threads, 8 * threads, enter_crowd, &c);
    ck_assert_int_gt(atomic_load(&c.most), th_processors());
    ck_assert_int_le(atomic_load(&c.most), threads);
}
END_TEST

enum { CALLERS = 4 };

static void *call(void *shared)
{
    for (int i = 0; i < 10; i++)
        th_parallel(th_processors(), 8, enter_crowd, shared);
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
    ck_assert_int_le(atomic_load(&c.most), CALLERS + th_processors() - 1);
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

/* -- how long -- */

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

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER
#endif
#endif

/* ThreadSanitizer starts no threads in a forked process, and sees nothing of how OpenMP's own regions are ordered. */
#ifndef UNDER_THREAD_SANITIZER
START_TEST(test_fork_of_a_process_that_used_openmp)
{
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

START_TEST(test_alone_inside_a_region_of_the_user)
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

/* Sanitizers need address space of their own for every thread. */
#if defined(UNDER_THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
#define UNDER_SANITIZER
#endif
#ifndef UNDER_SANITIZER
static sem_t all_are_made;

static void *work_alone(void *done)
{
    sem_wait(&all_are_made);
    th_parallel(16, 1000, count, done);
    return NULL;
}

/* With room for the stacks of a few threads only, of which several callers want teams at once. (OpenMP's library would
 * end the process.) */
START_TEST(test_a_team_of_as_many_as_there_can_be)
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
#ifndef UNDER_THREAD_SANITIZER
    tcase_add_test(team, test_fork_of_a_process_that_used_openmp); /* first: before there is a team */
    tcase_add_test(team, test_alone_inside_a_region_of_the_user);
#endif
    tcase_add_test(team, test_a_team_without_work_sleeps);
    tcase_add_test(team, test_a_caller_waits_for_its_helpers);
    tcase_add_test(team, test_a_team_larger_than_the_machine_works_in_long_runs);
    tcase_add_test(team, test_callers_share_the_processors);
    tcase_add_test(team, test_a_team_grows);
    tcase_add_test(team, test_a_team_ends_with_its_caller);
#ifndef UNDER_SANITIZER
    tcase_add_test(team, test_a_team_of_as_many_as_there_can_be);
#endif
    return run_suites();
}
