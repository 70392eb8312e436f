/* The state of the context's random streams. Every random number is a function of (seed, stream, step, shard, call
 * within the shard, element), so the state is a seed and a few counters. */
#ifndef TH_TENSOR_RANDOM_STATE_H
#define TH_TENSOR_RANDOM_STATE_H

#include "private_api.h"
#include "tensor/context_struct.h"

/* The state as a checkpoint stores it. */
typedef struct th_random_state {
    uint64_t seed;
    int64_t step;
    uint32_t calls[TH_STREAM_COUNT]; /* calls of each stream in the current step */
    uint32_t calls_at_clear;         /* dropout calls at the last th_tape_clear that ended a step without an error */
} th_random_state;

/* Returns the current state. */
TH_PRIVATE_API th_random_state th_random_state_get(const th_context *ctx);
/* Restores a state. A step that had failed counts as not failed. */
TH_PRIVATE_API void th_random_state_set(th_context *ctx, const th_random_state *state);

/* Returns the Philox key of a stream. */
TH_PRIVATE_API uint64_t th_stream_key(uint64_t seed, th_stream stream);
/* Returns the next call of a stream and counts it. In evaluation, operations draw nothing and do not call it. */
th_random_call th_random_next_call(th_context *ctx, th_stream stream);
/* Begins a shard of a step: its calls follow `calls`, the counts at the start of the step's first shard. */
void th_random_begin_shard(th_context *ctx, int shard, const uint32_t calls[TH_STREAM_COUNT]);
/* Increments the step after a successful optimizer step, and resets the calls of every stream. */
void th_random_finish_step(th_context *ctx);
/* Resets the dropout calls after a refused optimizer step, so that the repeated step draws the same numbers. */
void th_random_repeat_step(th_context *ctx);

#endif
