/* An interpreter of the exercises' C, for places without a compiler: the page in the browser, and a test that compares
 * it with gcc.
 *
 * The subset: functions, enums, #define of a number; if, for, while, do; bool, int, int64_t, size_t, float, double;
 * pointers to numbers, th_array and th_call; local arrays; the members that exercises use; math functions; at and the
 * other functions of exercise.h; printf. Numbers are computed as gcc computes them for x86-64: float operations round
 * to float, nothing is contracted, integers wrap. Everything else is an error that names the line and what to write
 * instead.
 *
 * Three mistakes that a compiled program does not notice have a sentence with a line: an index outside an array, a
 * variable that is read before it has a value, and a loop that does not end. */
#ifndef TAPEHEAD_INTERPRETER_H
#define TAPEHEAD_INTERPRETER_H

#include "../exercise.h"

typedef struct interpreter interpreter;

/* Parses a file. `name` is for sentences. Both texts must stay valid. Returns NULL without memory. */
interpreter *interpreter_new(const char *name, const char *source);
void interpreter_free(interpreter *in);

/* Returns the first error of the file as a sentence; "" if it has none. */
const char *interpreter_error(const interpreter *in);

/* Returns the name in the descriptor of the operation, or "". */
const char *interpreter_operation(const interpreter *in);

/* Returns whether the file defines forward or backward. Otherwise its descriptor names a function of another file. */
bool interpreter_defines(const interpreter *in, bool backward);

/* The memory of an array, in elements, counted from element [0, 0, ...]. */
typedef struct interpreter_extent {
    int64_t low, high;               /* the elements are at low, ..., high - 1 */
    int64_t memory_low, memory_high; /* this memory exists */
} interpreter_extent;

/* The arrays of a call in one block, and the memory of each. */
typedef struct interpreter_call {
    const th_call *call;
    const th_array *arrays; /* the call's pointers point into this block */
    const interpreter_extent *extents;
} interpreter_call;

/* Runs forward or backward. An error ends the check by end_guarded (marker.h). */
void interpreter_run(interpreter *in, bool backward, const interpreter_call *call);

/* Begins a check: all loops of its calls together have this number of steps. */
void interpreter_begin(interpreter *in, int64_t steps);

/* Returns the sentence about the first use of memory outside an array since interpreter_begin; "" without one. */
const char *interpreter_outside(const interpreter *in);

/* Returns what printf wrote since interpreter_begin. */
const char *interpreter_printed(const interpreter *in);

#endif
