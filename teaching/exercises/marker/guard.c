/* Runs the student's code in a child process with limits (marker.h). */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "marker.h"

static mark_result *shared; /* in memory that parent and child share */

static void append_arguments(char *text, size_t size, const char *format, va_list arguments)
{
    const size_t length = strlen(text);
    vsnprintf(text + length, size - length, format, arguments);
}

void append_text(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append_arguments(text, size, format, arguments);
    va_end(arguments);
}

void write_text(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    text[0] = '\0';
    va_start(arguments, format);
    append_arguments(text, size, format, arguments);
    va_end(arguments);
}

void end_guarded(mark_state s, const char *cause, const char *format, ...)
{
    va_list arguments;
    shared->sentence[0] = '\0';
    va_start(arguments, format);
    append_arguments(shared->sentence, SENTENCE, format, arguments);
    va_end(arguments);
    write_text(shared->cause, CAUSE, "%s", cause);
    shared->state = s;
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

static void limit(int resource, rlim_t value, rlim_t hard)
{
    setrlimit(resource, &(struct rlimit){value, hard});
}

/* What the student prints goes to standard error: standard output has the report. */
static void child(void (*work)(const void *user, mark_result *r), const void *user, int seconds)
{
    const rlim_t memory = (rlim_t)2 << 30;
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_AS, memory, memory);
    limit(RLIMIT_CPU, (rlim_t)seconds, (rlim_t)seconds + 1); /* SIGXCPU, then SIGKILL */
    alarm((unsigned)seconds * 10);                           /* also ends a program that sleeps */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    mark_result *r = calloc(1, sizeof *r);
    if (r == NULL)
        _exit(EXIT_FAILURE);
    work(user, r);
    memcpy(shared, r, sizeof *shared);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

static void explain_signal(int signal_number, int seconds, mark_result *r)
{
    switch (signal_number) {
    case SIGXCPU:
    case SIGALRM:
        r->state = ENDLESS;
        write_text(r->sentence, SENTENCE, "your code did not finish within %d seconds", seconds);
        write_text(r->cause, CAUSE,
                   "a loop never ends: check that its counter changes and that its condition becomes false");
        return;
    case SIGSEGV:
    case SIGBUS:
        write_text(r->sentence, SENTENCE, "your code stopped with a segmentation fault");
        write_text(
            r->cause, CAUSE,
            "it used memory that belongs to no array: at() would name the index, a pointer of your own does not");
        return;
    case SIGILL:
    case SIGTRAP:
        write_text(r->sentence, SENTENCE, "your code stopped at an index outside an array");
        write_text(r->cause, CAUSE,
                   "an index of an array that you declared is outside it: the array is too short, or a loop too long");
        return;
    case SIGFPE:
        write_text(r->sentence, SENTENCE, "your code stopped with an arithmetic error");
        write_text(r->cause, CAUSE, "it divided an integer by 0: convert to double before the division");
        return;
    case SIGABRT:
        write_text(r->sentence, SENTENCE, "your code aborted");
        write_text(r->cause, CAUSE, "it damaged memory that the C library uses: it wrote beyond the end of an array");
        return;
    default:
        write_text(r->sentence, SENTENCE, "your code was stopped by signal %d (%s)", signal_number,
                   strsignal(signal_number));
    }
}

void run_guarded(void (*work)(const void *user, mark_result *r), const void *user, int seconds, mark_result *r)
{
    if (shared == NULL)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("exercise_marker: mmap");
        exit(EXIT_FAILURE);
    }
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    const pid_t process = fork();
    if (process < 0) {
        perror("exercise_marker: fork");
        exit(EXIT_FAILURE);
    }
    if (process == 0)
        child(work, user, seconds);
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        continue;
    *r = *shared;
    if (WIFSIGNALED(status)) {
        r->state = STOPPED;
        explain_signal(WTERMSIG(status), seconds, r);
    } else if (r->state == NOT_RUN) {
        r->state = STOPPED;
        write_text(r->sentence, SENTENCE, "your code ended the program (exit status %d)", WEXITSTATUS(status));
        write_text(r->cause, CAUSE, "it called exit or a similar function: use return");
    }
}
