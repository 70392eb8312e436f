/* Functions that remove files at every end of the program: see cleanup.h. */
#include "cleanup.h"

#include <errno.h>
#include <stdlib.h>

#include "trainer.h"

enum { MAX_CLEANUPS = 4 };
static void (*cleanups[MAX_CLEANUPS])(void);
static volatile sig_atomic_t cleanup_count;

void end_at_signal(int received)
{
    for (int i = 0; i < cleanup_count; i++)
        cleanups[i]();
    signal(received, SIG_DFL);
    raise(received);
}

void register_cleanup(void (*at_exit)(void), void (*at_signal)(void))
{
    static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < cleanup_count; i++)
        if (cleanups[i] == at_signal)
            return;
    if (cleanup_count == MAX_CLEANUPS || atexit(at_exit) != 0)
        give_up(PROGRAM, "out of memory");
    cleanups[cleanup_count] = at_signal;
    cleanup_count++;
    for (size_t i = 0; i < sizeof end_signals / sizeof *end_signals; i++)
        if (signal(end_signals[i], end_at_signal) == SIG_IGN)
            signal(end_signals[i], SIG_IGN);
}

void block_signals(sigset_t *old_signals)
{
    sigset_t all_signals;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_BLOCK, &all_signals, old_signals);
}

void restore_signals(const sigset_t *old_signals)
{
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, old_signals, NULL);
    errno = error;
}
