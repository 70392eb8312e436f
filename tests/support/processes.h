/* Runs a function in several processes of this machine, joined by shared memory: groups without MPI. */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

#include <stddef.h>

#include "tapehead/group.h"

enum { MAX_PROCESSES = 16 };

/* What each process runs. The transport's rank is the process's number. Returns 0 for success. */
typedef int process_function(const th_transport *transport, void *user);

/* How a process ended. */
typedef struct process_result {
    int status;     /* what the function returned; 1 after fail_process; 128 + the signal that ended the process */
    char text[512]; /* what the process printed with process_print, or the reason why it failed */
} process_result;

/* Forks n processes. Each calls function(transport, user). If one of them does not return 0, the test fails with the text
 * of that process, and the others are killed. The calling process must not have a team of threads: processes forked
 * from it would compute with one thread. */
void run_processes(int n, process_function *function, void *user);
/* As run_processes, but the test does not fail. Returns the number of the first process that failed, or n. results[n]
 * tells how each one ended. */
int run_until_failure(int n, process_function *function, void *user, process_result *results);
/* As run_until_failure, but a failed process does not end the others. Processes that still run after `seconds` are killed
 * (status 128 + SIGKILL). */
void try_processes(int n, process_function *function, void *user, double seconds, process_result *results);
/* Returns memory that processes forked later share with this one, all zero; freed when the test ends. */
void *shared_memory(size_t bytes);

/* -- within a process -- */

/* Sets the text of this process's result. */
void process_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets the text of this process's result and ends the process. */
_Noreturn void fail_process(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends this process, and so fails the test, unless a condition holds. (Check's own assertions return to the place in
 * the parent where the test began, if Check does not fork.) */
#define process_assert(condition)                                                                                      \
    ((condition) ? (void)0 : fail_process("%s:%d: not true: %s", __FILE__, __LINE__, #condition))

#endif
