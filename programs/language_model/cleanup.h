/* Functions that remove files at every end of the program, except after SIGKILL. */
#ifndef EXAMPLES_LANGUAGE_MODEL_CLEANUP_H
#define EXAMPLES_LANGUAGE_MODEL_CLEANUP_H

#include <signal.h>

/* Calls at_exit when the program exits, and at_signal before SIGINT, SIGTERM or SIGHUP end it. A signal that is ignored,
 * for example by nohup, stays ignored. at_signal calls only functions that a signal handler may call. A second call with
 * the same functions changes nothing. */
void at_every_end(void (*at_exit)(void), void (*at_signal)(void));

/* Ends the program by the signal, after the functions of at_every_end. A handler for signals. */
void end_at_signal(int signal_number);

/* Blocks signals until release_signals, so that at_signal runs either before files are made, or when the program knows
 * them. */
void hold_signals(sigset_t *before);
/* Leaves errno as it is. */
void release_signals(const sigset_t *before);

#endif
