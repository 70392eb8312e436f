/* Functions that remove files at every end of the program, except after SIGKILL. */
#ifndef EXAMPLES_LANGUAGE_MODEL_CLEANUP_H
#define EXAMPLES_LANGUAGE_MODEL_CLEANUP_H

#include "shared/system.h"

/* Calls at_exit when the program exits, and at_signal before SIGINT, SIGTERM or SIGHUP end it. A signal that is
 * ignored, for example by nohup, stays ignored. at_signal calls only functions that a signal handler may call. A second
 * call with the same functions changes nothing. */
void register_cleanup(void (*at_exit)(void), void (*at_signal)(void));

/* Ends the program by the signal, after the functions of register_cleanup. A handler for signals. */
void end_at_signal(int signal_number);

/* Blocks signals until restore_signals, so that at_signal runs either before files are made, or when the program knows
 * them. */
void block_signals(sigset_t *old_signals);
/* Restores the signals that were blocked before. Preserves errno. */
void restore_signals(const sigset_t *old_signals);

#endif
