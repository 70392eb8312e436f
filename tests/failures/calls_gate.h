/* Makes chosen system calls of this process fail, at the boundary to the kernel. So it also reaches the calls inside
 * libc (fclose, fwrite), which a preloaded library cannot replace. A seccomp filter turns the calls about files into
 * SIGSYS. The handler makes the call itself, or does not, and sets the result. */
#ifndef TESTS_CALLS_GATE_H
#define TESTS_CALLS_GATE_H

#include <stdbool.h>

/* What fails. With `from`, all later calls of the kind fail too. */
typedef enum calls_kind {
    CALLS_ANY,        /* any call about a file; close closes the file first */
    CALLS_THAT_WRITE, /* calls that need space on a disk */
    CALLS_THAT_OPEN,  /* calls that make a descriptor */
    CALLS_THAT_WAIT,  /* calls that a signal can interrupt */
    CALLS_SHORT,      /* reads and writes of more than one byte: they do only a part, and return its length */
} calls_kind;

typedef struct calls_failure {
    calls_kind kind;
    int error;   /* the value of errno */
    bool partly; /* the first of the calls does a part of its work, if it writes */
    bool from;   /* that call and all later ones; CALLS_THAT_WAIT: every second one */
    int number;  /* which call, from 1 */
} calls_failure;

/* Installs the filter, which stays until the process ends. Programs that the process starts are killed at their first
 * call about a file. Returns false with *reason if the system does not allow it. */
bool calls_gate_install(const char **reason);
/* Counts calls from now on and lets the chosen ones fail. */
void calls_gate_arm(const calls_failure *failure);
/* Returns the name of the first call that failed, or NULL if none did. Afterwards no call fails. */
const char *calls_gate_disarm(void);

#endif
