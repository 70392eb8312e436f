/* What exercise_marker and exercise_runner send to each other. The runner holds the student's code and is not
 * trusted: the marker decides how many bytes it reads, and no answer says that something is right. */
#ifndef TAPEHEAD_MESSAGE_H
#define TAPEHEAD_MESSAGE_H

#include <unistd.h>

#include "marker.h"

enum {
    REQUESTS = 3,
    ANSWERS = 4,
    ARRAYS = 2 * (INPUTS + OUTPUTS),
    NAME = 64
}; /* file descriptors of the runner; limits */

/* Which arrays a call has, in this order. The gradients are not given in forward. */
enum {
    OF_INPUT = 0,
    OF_OUTPUT = INPUTS,
    OF_OUTPUT_GRADIENT = OF_OUTPUT + OUTPUTS,
    OF_INPUT_GRADIENT = OF_OUTPUT_GRADIENT + OUTPUTS
};

/* An array of a call. Its memory has `slots` elements of `element` bytes, and element [0, 0, ...] is at slot
 * `first`. */
typedef struct message_array {
    bool given, has_data;
    th_dtype dtype;
    int ndim;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS];
    int64_t element, slots, first;
} message_array;

/* A request: this, and then the memory of each array that has data. */
typedef struct message_call {
    bool backward, training;
    int n_inputs, n_outputs;
    bool add[INPUTS];
    message_array array[ARRAYS];
} message_call;

/* Makes the array that a message describes. Its memory begins at `memory`. */
static inline th_array array_of_message(const message_array *m, char *memory)
{
    th_array a = {.given = m->given, .dtype = m->dtype, .ndim = m->ndim};
    for (int d = 0; d < TH_MAX_DIMS; d++) {
        a.size[d] = m->size[d];
        a.stride[d] = m->stride[d];
    }
    if (m->has_data)
        a.data = memory + m->first * m->element;
    return a;
}

/* Makes the call that a message describes, with these arrays. */
static inline th_call call_of_message(const th_op *op, message_call *m, th_array *array)
{
    th_call call = {.op = op,
                    .n_inputs = m->n_inputs,
                    .n_outputs = m->n_outputs,
                    .input = array + OF_INPUT,
                    .output = array + OF_OUTPUT,
                    .training = m->training};
    if (m->backward) {
        call.output_gradient = array + OF_OUTPUT_GRADIENT;
        call.input_gradient = array + OF_INPUT_GRADIENT;
        call.add = m->add;
    }
    return call;
}

/* The first answer describes the operation that was loaded. After each call comes an answer and, if nothing stopped
 * it, the memory of the arrays. */
typedef struct message_answer {
    mark_state state; /* NOT_RUN: nothing stopped the code */
    char cause[CAUSE];
    char sentence[CAUSE];
    char name[NAME]; /* of the operation */
    int n_inputs;
    bool changed; /* the descriptor has fields that no exercise has, or lacks some */
} message_answer;

/* Reads or writes all bytes. Returns false at the end of the file or on an error. */
static inline bool receive(int file, void *data, size_t bytes)
{
    for (ssize_t count; bytes > 0; data = (char *)data + count, bytes -= (size_t)count)
        if ((count = read(file, data, bytes)) <= 0)
            return false;
    return true;
}

static inline bool send_all(int file, const void *data, size_t bytes)
{
    for (ssize_t count; bytes > 0; data = (const char *)data + count, bytes -= (size_t)count)
        if ((count = write(file, data, bytes)) <= 0)
            return false;
    return true;
}

#endif
