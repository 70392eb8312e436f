/* Functions that remove files at every end of the program: see cleanup.h. */
#include "cleanup.h"

#include <errno.h>
#include <stdlib.h>

#include "trainer.h"

enum { MOST = 4 };
static void (*cleanups[MOST])(void);
static volatile sig_atomic_t count;

void end_at_signal(int received)
{
    for (int i = 0; i < count; i++)
        cleanups[i]();
    signal(received, SIG_DFL);
    raise(received);
}

void at_every_end(void (*at_exit)(void), void (*at_signal)(void))
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < count; i++)
        if (cleanups[i] == at_signal)
            return;
    if (count == MOST || atexit(at_exit) != 0)
        give_up(PROGRAM, "out of memory");
    cleanups[count] = at_signal;
    count++;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (signal(ends[i], end_at_signal) == SIG_IGN)
            signal(ends[i], SIG_IGN);
}

void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
}

void release_signals(const sigset_t *before)
{
    const int error = errno;
    sigprocmask(SIG_SETMASK, before, NULL);
    errno = error;
}
