/* Teams: every task runs once, in a team of the requested size, never nested, and correctly in a forked process. */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/machine/parallel.h"
#include "kernels/machine/team.h"
#include "suite.h"

enum { MAX_TASKS = 1000 };

typedef struct record {
    atomic_int runs[MAX_TASKS];
    atomic_int wrong_workers;
    int threads;
} record;

static void note(void *shared, int64_t index, int worker)
{
    record *r = shared;
    atomic_fetch_add(&r->runs[index], 1);
    if (worker < 0 || worker >= r->threads)
        atomic_fetch_add(&r->wrong_workers, 1);
}

START_TEST(test_every_task_runs_once)
{
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 65, MAX_TASKS};
    static const int teams[] = {-1, 0, 1, 2, 3, 4, 70}; /* more than processors, more than tasks */
    for (size_t t = 0; t < sizeof teams / sizeof *teams; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            static record r;
            r = (record){.threads = teams[t] < 1 ? 1 : teams[t]};
            th_parallel(teams[t], counts[c], note, &r);
            for (int64_t i = 0; i < MAX_TASKS; i++)
                if (atomic_load(&r.runs[i]) != (i < counts[c]))
                    ck_abort_msg("task %d of %d ran %d times", (int)i, (int)counts[c], atomic_load(&r.runs[i]));
            ck_assert_int_eq(atomic_load(&r.wrong_workers), 0);
        }
}
END_TEST

START_TEST(test_the_team_has_the_requested_size)
{
    for (int threads = 1; threads <= 4; threads++)
        ck_assert_int_eq(th_team_threads(threads), threads);
    ck_assert_int_eq(th_team_threads(0), 1);
}
END_TEST

/* Proves that there is a team: two tasks that wait for each other can only end if two workers run them. */
static void wait_for_each_other(void *shared, int64_t index, int worker)
{
    (void)index;
    (void)worker;
    atomic_int *arrived = shared;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 2)
        usleep(10);
}

START_TEST(test_workers_run_at_the_same_time)
{
    atomic_int arrived = 0;
    th_parallel(2, 2, wait_for_each_other, &arrived);
    ck_assert_int_eq(atomic_load(&arrived), 2);
}
END_TEST

/* A long task does not delay later tasks: the other worker takes them. */
static void wait_for_the_rest(void *shared, int64_t index, int worker)
{
    (void)worker;
    atomic_int *done = shared;
    if (index == 0)
        while (atomic_load(done) < MAX_TASKS - 1)
            usleep(10);
    atomic_fetch_add(done, 1);
}

START_TEST(test_workers_help_each_other)
{
    atomic_int done = 0;
    th_parallel(2, MAX_TASKS, wait_for_the_rest, &done);
    ck_assert_int_eq(atomic_load(&done), MAX_TASKS);
}
END_TEST

static void ask_inside(void *shared, int64_t index, int worker)
{
    (void)index;
    (void)worker;
    record inner = {.threads = 1}; /* the inner tasks run here, as worker 0 */
    if (th_team_threads(4) != 1)
        atomic_fetch_add((atomic_int *)shared, 1);
    th_parallel(4, MAX_TASKS, note, &inner);
    atomic_fetch_add((atomic_int *)shared, atomic_load(&inner.wrong_workers));
}

START_TEST(test_no_team_inside_a_team)
{
    atomic_int wrong = 0;
    th_parallel(2, 8, ask_inside, &wrong);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

/* Without an earlier team, the forked process has its own; with one, it runs alone instead of hanging. */
static int team_in_child(void)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        static record r = {.threads = 2};
        th_parallel(2, MAX_TASKS, note, &r);
        int right = 1;
        for (int i = 0; i < MAX_TASKS; i++)
            right = right && atomic_load(&r.runs[i]) == 1;
        _exit(right ? th_team_threads(2) : 99);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(test_forked_process)
{
    ck_assert_int_eq(team_in_child(), 2);
    ck_assert_int_eq(th_team_threads(2), 2);
    ck_assert_int_eq(team_in_child(), 1);
    ck_assert_int_eq(th_team_threads(2), 2);
}
END_TEST

int main(void)
{
    TCase *team = new_suite("parallel", NULL, NULL);
    tcase_add_test(
        team, test_forked_process); /* first: it tests the state before the first team, even if Check does not fork */
    tcase_add_test(team, test_every_task_runs_once);
    tcase_add_test(team, test_the_team_has_the_requested_size);
    tcase_add_test(team, test_workers_run_at_the_same_time);
    tcase_add_test(team, test_workers_help_each_other);
    tcase_add_test(team, test_no_team_inside_a_team);
    return run_suites();
}
