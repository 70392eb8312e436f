/* Runs the student's functions in another process (marker.h, message.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "message.h"
#include "regions.h"

enum { CLOCK_FACTOR = 10 }; /* the time on the clock, in limits of processor time */

static struct {
    pid_t process;
    int requests, answers, seconds;
    time_t end;
} remote;

/* -- the process -- */

/* In the new process: leaves it nothing of the marker's but the two pipes, and standard error for what the student
 * prints. */
static _Noreturn void become_runner(const mark_runner *runner, int requests, int answers)
{
    const rlim_t memory = (rlim_t)2 << 30, seconds = (rlim_t)runner->seconds;
    const int highest = 256;
    requests = fcntl(requests, F_DUPFD, highest);
    answers = fcntl(answers, F_DUPFD, highest + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    if (dup2(requests, REQUESTS) < 0 || dup2(answers, ANSWERS) < 0)
        _exit(EXIT_FAILURE);
    for (int file = ANSWERS + 1; file <= highest + 8; file++)
        close(file);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_AS, &(struct rlimit){memory, memory});
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds + 1}); /* SIGXCPU, then SIGKILL */
    char libraries[4096] = "LD_LIBRARY_PATH=";
    const char *path = getenv("LD_LIBRARY_PATH");
    append_text(libraries, sizeof libraries, "%s", path ? path : "");
    execve(runner->program,
           (char *const[]){(char *)(uintptr_t)runner->program, (char *)(uintptr_t)runner->library, NULL},
           (char *const[]){path ? libraries : NULL, NULL});
    perror(runner->program);
    _exit(EXIT_FAILURE);
}

/* Ends the check with a sentence about the status with which the student's code ended. */
static _Noreturn void end_by_status(int status, int seconds)
{
    if (!WIFSIGNALED(status))
        end_guarded(STOPPED, "it called exit or a similar function: use return",
                    "your code ended the program (exit status %d)", WEXITSTATUS(status));
    switch (WTERMSIG(status)) {
    case SIGXCPU:
    case SIGKILL: /* the limit again, or the marker's own clock */
        end_guarded(ENDLESS, CAUSE_ENDLESS, "your code did not finish within %d seconds", seconds);
    case SIGSEGV:
    case SIGBUS:
        end_guarded(STOPPED, CAUSE_NO_ARRAY, "your code stopped with a segmentation fault");
    case SIGILL:
    case SIGTRAP:
        end_guarded(STOPPED, CAUSE_LOCAL_INDEX, "your code stopped at an index outside an array");
    case SIGFPE:
        end_guarded(STOPPED, CAUSE_DIVISION, "your code stopped with an arithmetic error");
    case SIGABRT:
        end_guarded(STOPPED, "it damaged memory that the C library uses: it wrote beyond the end of an array",
                    "your code aborted");
    default:
        end_guarded(STOPPED, "", "your code was stopped by signal %d (%s)", WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    }
}

/* Ends the runner and the check, with a sentence. */
static _Noreturn void end_runner(void)
{
    int status = 0;
    if (time(NULL) >= remote.end)
        kill(remote.process, SIGKILL);
    close(remote.requests);
    close(remote.answers);
    while (waitpid(remote.process, &status, 0) < 0 && errno == EINTR)
        continue;
    end_by_status(status, remote.seconds);
}

/* Receives bytes before the clock says that the time is over. */
static void receive_in_time(void *data, size_t bytes)
{
    struct pollfd file = {.fd = remote.answers, .events = POLLIN};
    for (ssize_t count = 0; bytes > 0; data = (char *)data + count, bytes -= (size_t)count) {
        const time_t now = time(NULL);
        if (now >= remote.end || (poll(&file, 1, (int)(remote.end - now) * 1000) <= 0 && errno != EINTR))
            end_runner();
        count = read(remote.answers, data, bytes);
        if (count <= 0)
            end_runner();
    }
}

static void send_request(const void *data, size_t bytes)
{
    if (!send_all(remote.requests, data, bytes))
        end_runner();
}

/* Receives an answer, and ends the check if something stopped the code. An answer never says that a check is right. */
static void receive_answer(message_answer *answer)
{
    receive_in_time(answer, sizeof *answer);
    answer->cause[CAUSE - 1] = answer->sentence[CAUSE - 1] = answer->name[NAME - 1] = '\0';
    if (answer->state != NOT_RUN)
        end_guarded(answer->state == BLANK ? BLANK : WRONG, answer->cause, "%s", answer->sentence);
}

static void start_runner(const void *user, const mark_report *report, mark_result *r)
{
    const mark_runner *runner = user;
    int requests[2], answers[2];
    static message_answer answer;
    signal(SIGPIPE, SIG_IGN);
    if (pipe(requests) != 0 || pipe(answers) != 0 || (remote.process = fork()) < 0)
        end_guarded(STOPPED, "", "the marker cannot start a process");
    if (remote.process == 0)
        become_runner(runner, requests[0], answers[1]);
    close(requests[0]);
    close(answers[1]);
    remote.requests = requests[1];
    remote.answers = answers[0];
    remote.seconds = runner->seconds;
    remote.end = time(NULL) + CLOCK_FACTOR * runner->seconds;
    receive_answer(&answer);
    require_operation(report, answer.name);
    if (answer.n_inputs != report->subject->n_inputs || answer.changed)
        end_guarded(WRONG, "", "the descriptor at the end of the file was changed: restore its lines");
    r->state = RIGHT;
}

/* -- calls -- */

static void exchange_with_runner(const message_call *m, region *regions)
{
    static message_answer answer;
    send_request(m, sizeof *m);
    for (int i = 0; i < ARRAYS; i++)
        if (m->array[i].has_data)
            send_request(regions[i].sent, regions[i].bytes);
    receive_answer(&answer);
    for (int i = 0; i < ARRAYS; i++)
        if (m->array[i].has_data)
            receive_in_time(regions[i].received, regions[i].bytes);
}

static void remote_forward(const th_call *c)
{
    call_on_regions(c, false, exchange_with_runner);
}

static void remote_backward(const th_call *c)
{
    call_on_regions(c, true, exchange_with_runner);
}

static th_op remote_op(const void *user, const th_op *original)
{
    (void)user;
    th_op op = *original;
    op.forward = remote_forward;
    op.backward = remote_backward;
    return op;
}

mark_code runner_code(const mark_runner *runner)
{
    return (mark_code){.user = runner, .start = start_runner, .op = remote_op};
}
