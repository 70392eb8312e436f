/* Runs a check in a child process, which may end at any place with a result (marker.h). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "marker.h"

static mark_result *shared; /* in memory that parent and child share */

void end_guarded(mark_state s, const char *cause, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(shared->sentence, SENTENCE, format, arguments);
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
