/* Generation token by token: greedy or sampled. */
#include "models/generation/generation.h"

/* Returns a number in [0, 1) for token number i of a sequence. */
static double uniform_number(const th_generation *g, int64_t sequence, int64_t i)
{
    const uint64_t key = th_stream_key(g->options.seed, TH_STREAM_GENERATION);
    const th_philox random = {.key = {(uint32_t)key, (uint32_t)(key >> 32)}, .call = (uint32_t)((uint64_t)i >> 32)};
    uint32_t words[4];
    th_philox_block(&random, (uint32_t)i, (uint32_t)sequence, words);
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

static void choose_token(void *shared, int64_t row, int worker)
{
    const th_generation *g = shared;
    if (g->ended[row])
        return;
    th_sampling_space space = th_generation_worker_space(g, worker);
    const th_logits_row logits = th_generation_row(g, row);
    const int64_t i = g->count[row] - g->prompt_length[row];
    g->chosen[row] = th_sampling_token(&g->sampling, &logits, uniform_number(g, row, i), &space);
    if (g->options.log_probabilities && g->chosen[row] >= 0)
        g->log_probability[row * g->options.max_new_tokens + i] =
            th_log_probability(&g->sampling, &logits, g->chosen[row], &space);
}

/* Appends the chosen token to each sequence that has not ended, and passes it to the caller. Returns whether any
 * continues. */
static bool append_tokens(th_generation *g)
{
    bool any = false;
    for (int64_t row = 0; row < g->rows && !th_failed(g->ctx); row++) {
        if (g->ended[row])
            continue;
        const int64_t token = g->chosen[row];
        if (token < 0) {
            th_generation_refuse_logits(g, row);
            return false;
        }
        g->tokens[row * g->stride + g->count[row]++] = token;
        const bool full = g->count[row] - g->prompt_length[row] == g->options.max_new_tokens;
        g->ended[row] = !th_generation_emit(g, row, token) || th_generation_is_end_token(g, token) || full;
        any |= !g->ended[row];
    }
    return any;
}

/* Moves the beginning of the sequences that have reached the model's length. Returns whether there are any. */
static bool slide_sequences(th_generation *g)
{
    bool any = false;
    for (int64_t row = 0; row < g->rows; row++)
        if (!g->ended[row] && g->count[row] - g->begin[row] > g->length) {
            const int64_t overlap = g->length / 2 > 0 ? g->length / 2 : 1;
            g->begin[row] = g->count[row] - overlap;
            any = true;
        }
    return any;
}

th_status th_generate_tokens(th_generation *g)
{
    bool whole = true;
    if (th_is_shapes_only(g->ctx))
        return th_generation_measure_memory(g);
    do {
        whole |= slide_sequences(g) || th_generation_rotation_changes(g);
        if (th_generation_run(g, whole) == TH_OK)
            th_parallel(g->threads, g->rows, choose_token, g);
        th_generation_end_run(g);
        whole = false;
    } while (!th_failed(g->ctx) && append_tokens(g));
    return th_error_code(g->ctx);
}
