/* Runs the model for generation: forward passes with the cache, in evaluation mode and without recording. Nothing
 * stays on the tape. */
#include "models/core/tensors.h"
#include "models/generation/generation.h"
#include "tapehead/ops.h"
#include "tapehead/transformer.h"

/* Switches to evaluation mode without recording, and marks the step, so that all later memory is released. */
static void begin_evaluation(th_generation *g)
{
    th_context *ctx = g->ctx;
    g->mark = th_step_get_mark(ctx);
    g->mode = th_mode_evaluate(ctx);
}

void th_generation_end_run(th_generation *g)
{
    th_context *ctx = g->ctx;
    th_mode_restore(ctx, g->mode);
    th_step_rewind(ctx, g->mark);
}

/* Returns a tensor of the step; *data is NULL in a shapes-only context. */
static th_tensor *new_index_tensor(const th_generation *g, int ndim, const int64_t *size, bool owned, int64_t **data)
{
    th_tensor_impl *t = th_tensor_new(g->ctx, TH_INT64, ndim, size, owned, "generate");
    *data = t ? th_tensor_data(t) : NULL;
    return th_handle_of(t);
}

/* -- the encoder -- */

/* Repeats the rows of each prompt for its sequences or beams. */
static th_tensor *repeat_for_rows(const th_generation *g, th_tensor *memory)
{
    if (memory == NULL || g->rows == g->prompts)
        return memory;
    const int64_t copies = g->rows / g->prompts, length = th_size(memory, 1), width = th_size(memory, 2);
    th_tensor *spread = th_expand(th_unsqueeze(memory, 1), TH_SHAPE(g->prompts, copies, length, width));
    return th_reshape(spread, TH_SHAPE(g->rows, length, width));
}

th_status th_generation_encode(th_generation *g)
{
    th_context *ctx = g->ctx;
    const th_generate_options *o = &g->options;
    begin_evaluation(g);
    th_tensor *memory = repeat_for_rows(g, th_transformer_encode(g->model, o->source, o->source_lengths));
    g->memory = memory ? th_keep(memory) : NULL;
    th_generation_end_run(g);
    if (g->memory == NULL || o->source_lengths == NULL)
        return th_error_code(ctx);
    int64_t *lengths;
    const th_array given = th_tensor_array(th_tensor_impl_of(o->source_lengths));
    g->memory_lengths = new_index_tensor(g, 1, &g->rows, true, &lengths);
    for (int64_t row = 0; lengths && row < g->rows; row++)
        lengths[row] = th_load_index(given.dtype, given.data, row / (g->rows / g->prompts) * given.stride[0]);
    return th_error_code(ctx);
}

/* -- the decoder -- */

typedef struct inputs {
    th_tensor *tokens, *positions, *rows; /* (rows, T), (rows, T) or NULL, (rows) */
} inputs;

/* Returns the number of a row's tokens that the cache has or will have; for an ended sequence the smallest possible
 * number. */
static int64_t tokens_in_cache(const th_generation *g, int64_t row)
{
    return g->ended[row / g->options.beams] ? 1 : g->count[row] - g->begin[row];
}

/* Returns positions (rows, longest) that give each row the length that it has without padding: padding repeats the last
 * position. Together with the last token, it stores the same key there once more. */
static th_tensor *positions_of_rows(const th_generation *g, int64_t longest)
{
    int64_t *position;
    th_tensor *positions = new_index_tensor(g, 2, (const int64_t[]){g->rows, longest}, false, &position);
    for (int64_t row = 0; position && row < g->rows; row++)
        for (int64_t t = 0; t < longest; t++)
            position[row * longest + t] = th_smaller(t, tokens_in_cache(g, row) - 1);
    return positions;
}

/* Returns all tokens from `begin` on, padded with the last one. */
static inputs inputs_of_all_tokens(const th_generation *g)
{
    int64_t longest = 1, *token, *last;
    for (int64_t row = 0; row < g->rows; row++)
        longest = th_larger(longest, tokens_in_cache(g, row));
    inputs in = {.positions = g->by_length && g->options.lengths ? positions_of_rows(g, longest) : NULL};
    in.tokens = new_index_tensor(g, 2, (const int64_t[]){g->rows, longest}, false, &token);
    in.rows = new_index_tensor(g, 1, &g->rows, false, &last);
    for (int64_t row = 0; token && last && row < g->rows; row++) {
        const int64_t count = tokens_in_cache(g, row);
        last[row] = count - 1;
        for (int64_t t = 0; t < longest; t++)
            token[row * longest + t] = g->tokens[row * g->stride + g->begin[row] + th_smaller(t, count - 1)];
    }
    return in;
}

/* Returns the last token of each row, and its position. */
static inputs inputs_of_last_tokens(const th_generation *g)
{
    int64_t *token, *position, *last;
    const int64_t size[2] = {g->rows, 1};
    inputs in;
    in.tokens = new_index_tensor(g, 2, size, false, &token);
    in.positions = new_index_tensor(g, 2, size, false, &position);
    in.rows = new_index_tensor(g, 1, size, false, &last);
    for (int64_t row = 0; token && position && last && row < g->rows; row++) {
        token[row] = g->tokens[row * g->stride + g->count[row] - 1];
        position[row] = tokens_in_cache(g, row) - 1;
        last[row] = 0;
    }
    return in;
}

th_status th_generation_run(th_generation *g, bool whole)
{
    begin_evaluation(g);
    const inputs in = whole ? inputs_of_all_tokens(g) : inputs_of_last_tokens(g);
    th_tensor *logits = NULL;
    if (g->decoder_only)
        logits = th_language_model_logits(
            g->model, in.tokens,
            &(th_language_model_logits_options){.positions = in.positions, .cache = g->cache, .rows = in.rows});
    else
        logits = th_transformer_decode(
            g->model, in.tokens, g->memory,
            &(th_transformer_decode_options){
                .memory_lengths = g->memory_lengths, .positions = in.positions, .cache = g->cache, .rows = in.rows});
    if (logits) {
        g->logits = th_tensor_data(th_tensor_impl_of(logits));
        g->dtype = th_dtype_of(logits);
    }
    return th_error_code(g->ctx);
}

th_status th_generation_measure_memory(th_generation *g)
{
    const int64_t end = g->longest + g->options.max_new_tokens - 1, overlap = th_larger(g->length / 2, 1);
    const bool slides = g->options.slide && end > g->length;
    const bool rotation_changes =
        g->switch_length > 0 && end > g->switch_length && (g->options.lengths || g->longest <= g->switch_length);
    for (int64_t row = 0; slides && row < g->rows; row++) /* as generation slides before its first run */
        if (g->count[row] > g->length)
            g->begin[row] = g->count[row] - overlap;
    /* the largest number of tokens of a later whole run: sequences of one length slide and switch together */
    const int64_t common_length = th_larger(slides ? overlap : 0, rotation_changes ? g->switch_length + 1 : 0),
                  largest = g->options.lengths ? th_smaller(end, g->length) : common_length;
    for (int forward = 0; forward < (slides || rotation_changes ? 3 : 2) && !th_failed(g->ctx); forward++) {
        if (forward == 2)
            for (int64_t row = 0; row < g->rows; row++)
                g->count[row] = g->begin[row] + largest;
        th_generation_run(g, forward != 1);
        th_generation_end_run(g);
        for (int64_t row = 0; row < g->rows; row++)
            g->count[row]++;
    }
    return th_error_code(g->ctx);
}
