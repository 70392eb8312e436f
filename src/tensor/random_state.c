/* The random streams: their keys and counters. */
#include "tensor/random_state.h"

#include <string.h>

#include "tensor/error.h"
#include "tensor/splitmix.h"

uint64_t th_stream_key(uint64_t seed, th_stream stream)
{
    return th_mix64(th_splitmix64_start(seed) + (uint64_t)stream * th_golden);
}

th_random_call th_random_next_call(th_context *ctx, th_stream stream)
{
    uint64_t key = th_stream_key(ctx->seed, stream);
    if (ctx->shard > 0)
        key = th_mix64(key + (uint64_t)ctx->shard * th_golden);
    return (th_random_call){
        .key = {(uint32_t)key, (uint32_t)(key >> 32)}, .call = ctx->calls[stream]++, .step = (uint32_t)ctx->step};
}

static void reset_calls(th_context *ctx)
{
    memset(ctx->calls, 0, sizeof ctx->calls);
    ctx->calls_at_clear = 0;
}

void th_set_seed(th_context *ctx, uint64_t seed)
{
    if (ctx) {
        ctx->seed = seed;
        reset_calls(ctx);
    }
}

int64_t th_step(const th_context *ctx)
{
    return ctx ? ctx->step : 0;
}

void th_set_step(th_context *ctx, int64_t step)
{
    if (ctx && (step < 0 || step > INT64_MAX / 2)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "set_step", "the number of steps must be 0 to 2^62; it is %lld",
                (long long)step);
    } else if (ctx) {
        ctx->step = step - 1;
        th_random_finish_step(ctx);
    }
}

void th_random_begin_shard(th_context *ctx, int shard, const uint32_t calls[TH_STREAM_COUNT])
{
    ctx->shard = shard;
    memcpy(ctx->calls, calls, sizeof ctx->calls);
    ctx->calls_at_clear = calls[TH_STREAM_DROPOUT];
}

void th_random_finish_step(th_context *ctx)
{
    ctx->step_failed = false;
    ctx->shard = 0;
    ctx->step++;
    reset_calls(ctx);
}

void th_random_repeat_step(th_context *ctx)
{
    ctx->shard = 0;
    ctx->calls[TH_STREAM_DROPOUT] = 0;
    ctx->calls_at_clear = 0;
}

th_random_state th_random_state_get(const th_context *ctx)
{
    th_random_state state = {.seed = ctx->seed, .step = ctx->step, .calls_at_clear = ctx->calls_at_clear};
    memcpy(state.calls, ctx->calls, sizeof state.calls);
    return state;
}

void th_random_state_set(th_context *ctx, const th_random_state *state)
{
    ctx->seed = state->seed;
    ctx->step = state->step;
    memcpy(ctx->calls, state->calls, sizeof ctx->calls);
    ctx->calls_at_clear = state->calls_at_clear;
    ctx->step_failed = false;
}
