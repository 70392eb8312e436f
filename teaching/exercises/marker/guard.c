/* Runs a check in a child process, which may end at any place with a result (marker.h). */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static void child(void (*work)(const void *user, mark_result *r), const void *user)
{
    mark_result *r = calloc(1, sizeof *r);
    if (r == NULL)
        _exit(EXIT_FAILURE);
    work(user, r);
    memcpy(shared, r, sizeof *shared);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

void end_by_status(int status, int seconds)
{
    if (!WIFSIGNALED(status))
        end_guarded(STOPPED, "it called exit or a similar function: use return",
                    "your code ended the program (exit status %d)", WEXITSTATUS(status));
    switch (WTERMSIG(status)) {
    case SIGXCPU:
    case SIGKILL: /* the limit again, or the marker's own clock */
        end_guarded(ENDLESS, "a loop never ends: check that its counter changes and that its condition becomes false",
                    "your code did not finish within %d seconds", seconds);
    case SIGSEGV:
    case SIGBUS:
        end_guarded(
            STOPPED,
            "it used memory that belongs to no array: at() would name the index, a pointer of your own does not",
            "your code stopped with a segmentation fault");
    case SIGILL:
    case SIGTRAP:
        end_guarded(STOPPED,
                    "an index of an array that you declared is outside it: the array is too short, or a loop too long",
                    "your code stopped at an index outside an array");
    case SIGFPE:
        end_guarded(STOPPED, "it divided an integer by 0: convert to double before the division",
                    "your code stopped with an arithmetic error");
    case SIGABRT:
        end_guarded(STOPPED, "it damaged memory that the C library uses: it wrote beyond the end of an array",
                    "your code aborted");
    default:
        end_guarded(STOPPED, "", "your code was stopped by signal %d (%s)", WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    }
}

void run_guarded(void (*work)(const void *user, mark_result *r), const void *user, mark_result *r)
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
        child(work, user);
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        continue;
    *r = *shared;
    if (r->state == NOT_RUN || status != 0) { /* the student's code cannot do that where the sandbox is complete */
        r->state = STOPPED;
        write_text(r->sentence, SENTENCE, "the marker's process ended with status %d before it had a result", status);
    }
}
