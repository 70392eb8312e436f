/* The limits of the process that runs a student's code. */
#ifndef TAPEHEAD_SANDBOX_H
#define TAPEHEAD_SANDBOX_H

#include <stdbool.h>

/* From here on, the process can compute, print, and read this file, and nothing else. It has no network, cannot
 * write files, start processes, send signals to others, or change its limits. This needs Linux with seccomp; the
 * rule for files needs Landlock. Elsewhere only the limits of time and memory remain, and an autograder must isolate
 * the marker. */
void enter_sandbox(const char *readable_file);

#endif
