/* Runs a check in a child process: a crash or a hang of the user's function becomes a report. On Windows and without
 * POSIX (macro TH_NO_POSIX) the check runs in this process. */
#include <string.h>

#include "checker/function/function.h"
#include "tensor/format.h"

#if defined TH_NO_POSIX || defined _WIN32

void th_process_begin_call(const char *name, double time_limit)
{
    (void)name;
    (void)time_limit;
}

void th_process_end_call(void)
{
}

th_status th_check_function_isolated(const th_function *function, const th_function_options *options,
                                     th_function_report *report)
{
    return th_check_function_here(function, options, report);
}

#else

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child tells its parent. */
typedef struct shared_result {
    char call[16]; /* the user's function that runs, or "" */
    th_status status;
    th_function_report report;
} shared_result;

static shared_result *shared; /* not NULL in a child process only */

static void set_timer(double seconds)
{
    struct itimerval timer;
    memset(&timer, 0, sizeof timer);
    timer.it_value.tv_sec = (time_t)seconds;
    timer.it_value.tv_usec = (suseconds_t)((seconds - (double)timer.it_value.tv_sec) * 1e6);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void th_process_begin_call(const char *name, double time_limit)
{
    if (shared == NULL)
        return;
    shared->call[0] = '\0';
    th_append(shared->call, sizeof shared->call, "%s", name);
    if (time_limit > 0)
        set_timer(time_limit);
}

void th_process_end_call(void)
{
    if (shared == NULL)
        return;
    set_timer(0);
    shared->call[0] = '\0';
}

/* Reports how the child process ended, while it ran a function of the user's. */
static void report_end(const th_function *function, double time_limit, const char *call, int state,
                       th_function_report *report)
{
    memset(report, 0, sizeof *report);
    report->input = -1;
    report->verdict = TH_GRADIENT_WRONG;
    th_append(report->text, sizeof report->text, "%s: %s ", function->name ? function->name : "the function",
              call[0] ? call : "the check");
    if (!WIFSIGNALED(state))
        th_append(report->text, sizeof report->text, "ended the process with exit status %d\n", WEXITSTATUS(state));
    else if (WTERMSIG(state) == SIGALRM)
        th_append(report->text, sizeof report->text, "did not return within %g seconds\n", time_limit);
    else
        th_append(report->text, sizeof report->text, "crashed with signal %d%s\n", WTERMSIG(state),
                  WTERMSIG(state) == SIGSEGV   ? " (SIGSEGV, an illegal address)"
                  : WTERMSIG(state) == SIGFPE  ? " (SIGFPE)"
                  : WTERMSIG(state) == SIGABRT ? " (SIGABRT)"
                                               : "");
}

th_status th_check_function_isolated(const th_function *function, const th_function_options *options,
                                     th_function_report *report)
{
    shared_result *result =
        (shared_result *)mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        return th_check_function_here(function, options, report);
    const pid_t child = fork();
    if (child < 0) {
        munmap(result, sizeof *result);
        return th_check_function_here(function, options, report);
    }
    if (child == 0) {
        shared = result;
        signal(SIGALRM, SIG_DFL);
        result->status = th_check_function_here(function, options, &result->report);
        _exit(0);
    }
    int state = 0;
    while (waitpid(child, &state, 0) < 0)
        ;
    th_status status = result->status;
    *report = result->report;
    if (WIFSIGNALED(state) || result->call[0]) {
        report_end(function, options->time_limit, result->call, state, report);
        status = TH_ERROR_VALUE;
    }
    munmap(result, sizeof *result);
    return status;
}

#endif
