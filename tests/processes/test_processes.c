/* Tests of tests/support/processes.c: how it reports the end of processes, and its transport. */
#include "processes.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"
#include "transport_checks.h"

static const int sizes[] = {1, 2, 3, 5, 8};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* -- the end of processes -- */

static int return_rank(const th_transport *t, void *user)
{
    *((int *)user + t->rank) = 100 + t->size;
    process_print("process %d of %d", t->rank, t->size);
    return t->rank;
}

START_TEST(processes_return_a_status_and_a_text_and_share_memory)
{
    process_result results[8];
    int *numbers = shared_memory(8 * sizeof *numbers);
    try_processes(8, return_rank, numbers, INFINITY, results);
    for (int i = 0; i < 8; i++) {
        char text[40];
        snprintf(text, sizeof text, "process %d of 8", i);
        ck_assert_int_eq(results[i].status, i);
        ck_assert_str_eq(results[i].text, text);
        ck_assert_int_eq(numbers[i], 108);
    }
}
END_TEST

static int end_in_different_ways(const th_transport *t, void *user)
{
    if (t->rank == 1)
        process_assert(user == &t);
    if (t->rank == 2)
        raise(SIGKILL);
    if (t->rank == 3)
        pause();
    return 0;
}

START_TEST(failed_killed_and_stuck_processes_are_told_apart)
{
    process_result results[4];
    try_processes(4, end_in_different_ways, NULL, 2.0, results);
    ck_assert_int_eq(results[0].status, 0);
    ck_assert_int_eq(results[1].status, 1);
    ck_assert_ptr_nonnull(strstr(results[1].text, "test_processes.c:"));
    ck_assert_ptr_nonnull(strstr(results[1].text, "not true: user == &t"));
    ck_assert_int_eq(results[2].status, 128 + SIGKILL);
    ck_assert_int_eq(results[3].status, 128 + SIGKILL);
}
END_TEST

static int fail_in_process_2(const th_transport *t, void *user)
{
    (void)user;
    if (t->rank == 2)
        fail_process("process 2 fails");
    pause();
    return 0;
}

START_TEST(a_failed_process_ends_the_others)
{
    process_result results[3];
    ck_assert_int_eq(run_until_failure(3, fail_in_process_2, NULL, results), 2);
    ck_assert_int_eq(results[0].status, 128 + SIGKILL);
    ck_assert_int_eq(results[1].status, 128 + SIGKILL);
    ck_assert_int_eq(results[2].status, 1);
    ck_assert_str_eq(results[2].text, "process 2 fails");
}
END_TEST

/* -- exchanges -- */

static void expect(const char *problem)
{
    if (problem)
        fail_process("%s", problem);
}

static int mixtures(const th_transport *t, void *user)
{
    expect(check_mixtures(t, *(const uint64_t *)user, 80 / t->size, 5 << 20));
    return 0;
}

START_TEST(any_mixture_of_messages_arrives)
{
    run_processes(sizes[_i], mixtures, &(uint64_t){(uint64_t)_i});
}
END_TEST

static int all_pairs(const th_transport *t, void *user)
{
    (void)user;
    expect(check_all_pairs(t, 1, 1));
    expect(check_all_pairs(t, 3, 300001));
    expect(check_all_pairs(t, 30, 1000));
    return 0;
}

START_TEST(all_pairs_exchange_more_than_a_ring_holds)
{
    run_processes(sizes[_i], all_pairs, NULL);
}
END_TEST

static int turns(const th_transport *t, void *user)
{
    (void)user;
    expect(check_turns(t, 200));
    return 0;
}

START_TEST(messages_go_around)
{
    run_processes(sizes[_i], turns, NULL);
}
END_TEST

/* -- errors -- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Process 1 ends in the way `user` says. Process 2 gets its message from process 0, and waits for process 1. */
static int wait_for_process_1(const th_transport *t, void *user)
{
    const char *way = user;
    int out = 7, in[2] = {0};
    if (t->rank == 1 && strcmp(way, "dead") == 0)
        raise(SIGKILL);
    if (t->rank == 1) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        return 0;
    }
    const double start = now();
    const char *problem = NULL;
    if (t->rank == 0)
        problem = t->exchange(t->user, &(th_message){2, &out, sizeof out}, 1, NULL, 0, 1);
    else
        problem = t->exchange(t->user, NULL, 0, (th_message[]){{0, in, sizeof *in}, {1, in + 1, sizeof *in}}, 2, 0.5);
    process_assert(t->rank == 2 || problem == NULL);
    if (problem) {
        process_assert(in[0] == 7);
        process_assert(now() - start >= 0.5);
        process_print("%s", problem);
    }
    return 0;
}

START_TEST(a_dead_or_stuck_process_is_named_after_the_time)
{
    process_result results[3];
    try_processes(3, wait_for_process_1, _i ? "dead" : "stuck", INFINITY, results);
    ck_assert_int_eq(results[0].status, 0);
    ck_assert_int_eq(results[2].status, 0);
    ck_assert_str_eq(results[2].text, "rank 1 has not answered for 0.5 seconds");
}
END_TEST

/* Process 0 sends more than a ring holds; process 1 does not receive. */
static int send_to_nobody(const th_transport *t, void *user)
{
    static char data[1 << 20];
    (void)user;
    if (t->rank == 0)
        process_print("%s", t->exchange(t->user, &(th_message){1, data, sizeof data}, 1, NULL, 0, 1));
    return 0;
}

START_TEST(a_process_that_does_not_receive_is_named)
{
    process_result results[2];
    try_processes(2, send_to_nobody, NULL, INFINITY, results);
    ck_assert_str_eq(results[0].text, "rank 1 has not answered for 1 second");
}
END_TEST

/* The processes disagree about the length of a message: *user bytes are sent, and 16 expected. */
static int disagree(const th_transport *t, void *user)
{
    char data[24] = {0};
    const char *problem = t->rank == 0
                              ? t->exchange(t->user, &(th_message){1, data, *(const size_t *)user}, 1, NULL, 0, 10)
                              : t->exchange(t->user, NULL, 0, &(th_message){0, data, 16}, 1, 10);
    process_print("%s", problem ? problem : "");
    return 0;
}

START_TEST(another_length_is_an_error)
{
    process_result results[2];
    try_processes(2, disagree, &(size_t){8 * (size_t)_i}, INFINITY, results);
    char text[80];
    snprintf(text, sizeof text, "rank 0 sent %d bytes instead of 16", 8 * _i);
    ck_assert_str_eq(results[1].text, _i == 2 ? "" : text);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("Processes", NULL, NULL);
    tcase_add_test(tests, processes_return_a_status_and_a_text_and_share_memory);
    tcase_add_test(tests, failed_killed_and_stuck_processes_are_told_apart);
    tcase_add_test(tests, a_failed_process_ends_the_others);
    tests = new_suite("Exchanges", NULL, NULL);
    tcase_add_loop_test(tests, any_mixture_of_messages_arrives, 0, SIZES);
    tcase_add_loop_test(tests, all_pairs_exchange_more_than_a_ring_holds, 0, SIZES);
    tcase_add_loop_test(tests, messages_go_around, 0, SIZES);
    tcase_add_loop_test(tests, a_dead_or_stuck_process_is_named_after_the_time, 0, 2);
    tcase_add_test(tests, a_process_that_does_not_receive_is_named);
    tcase_add_loop_test(tests, another_length_is_an_error, 1, 4);
    return run_suites();
}
