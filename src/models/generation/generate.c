/* th_generate: its memory and its results. generate_check.c checks the arguments; generate_tokens.c and
 * generate_beams.c choose the tokens. */
#include <string.h>

#include "models/core/tensors.h"
#include "models/generation/generation.h"

static const char operation[] = "generate";

/* -- memory -- */

/* Places the arrays of a generation in memory. Returns their bytes. */
static size_t lay_out_arrays(th_generation *g, char *memory)
{
    const size_t rows = (size_t)g->rows,
                 numbers = g->options.log_probabilities ? rows * (size_t)g->options.max_new_tokens : 0;
    char *at = memory;
#define TAKE(field, count) (g->field = (void *)at, at += th_aligned((count) * sizeof *g->field))
    TAKE(tokens, rows * (size_t)g->stride);
    TAKE(prompt_length, rows);
    TAKE(count, rows);
    TAKE(begin, rows);
    TAKE(chosen, rows);
    TAKE(ended, rows);
    TAKE(score, rows);
    TAKE(log_probability, numbers);
#undef TAKE
    return (size_t)(at - memory);
}

/* Copies the prompts, once for each of their rows. A token outside the vocabulary is an error. */
static th_status fill_prompts(th_generation *g)
{
    const th_generate_options *o = &g->options;
    const th_array prompts = o->prompts ? th_tensor_array(th_tensor_impl_of(o->prompts)) : (th_array){.given = false};
    const th_array lengths = o->lengths ? th_tensor_array(th_tensor_impl_of(o->lengths)) : (th_array){.given = false};
    for (int64_t row = 0; row < g->rows; row++) {
        const int64_t b = row / (g->rows / g->prompts);
        g->prompt_length[row] = g->count[row] =
            lengths.data ? th_load_index(lengths.dtype, lengths.data, b * lengths.stride[0]) : g->longest;
        for (int64_t t = 0; t < g->count[row]; t++) {
            const int64_t token =
                prompts.data ? th_load_index(prompts.dtype, prompts.data, b * prompts.stride[0] + t * prompts.stride[1])
                             : (prompts.given ? 0 : o->start);
            if (token < 0 || token >= g->vocabulary)
                return th_fail(g->ctx, TH_ERROR_INDEX, operation,
                               "token %lld of prompt %lld is %lld, outside the vocabulary of %lld", (long long)t,
                               (long long)b, (long long)token, (long long)g->vocabulary);
            g->tokens[row * g->stride + t] = token;
        }
    }
    return TH_OK;
}

/* -- results -- */

static void put_integer(th_tensor *t, int64_t i, int64_t value)
{
    th_tensor_impl *impl = th_tensor_impl_of(t);
    void *data = th_tensor_data(impl);
    if (data && impl->dtype == TH_INT64)
        ((int64_t *)data)[i] = value;
    else if (data)
        ((int32_t *)data)[i] = (int32_t)value;
}

static void put_real(th_tensor *t, int64_t i, double value)
{
    double *data = t ? th_tensor_data(th_tensor_impl_of(t)) : NULL;
    if (data)
        data[i] = value;
}

static th_status make_result(const th_generation *g, th_generated *result)
{
    th_context *ctx = g->ctx;
    const th_generate_options *o = &g->options;
    const int64_t padding = o->n_end_tokens > 0 ? o->end_tokens[0] : 0, results = g->prompts * o->sequences;
    const th_shape all = TH_SHAPE(results, o->max_new_tokens);
    *result = (th_generated){.tokens = th_empty(ctx, g->index_type, all),
                             .lengths = th_empty(ctx, g->index_type, TH_SHAPE(results)),
                             .scores = o->beams > 1 ? th_zeros(ctx, TH_FLOAT64, TH_SHAPE(results)) : NULL,
                             .log_probabilities = o->log_probabilities ? th_zeros(ctx, TH_FLOAT64, all) : NULL};
    for (int64_t b = 0; b < results && !th_failed(ctx); b++) {
        const int64_t row = th_generation_row_of(g, b), count = g->count[row] - g->prompt_length[row];
        const int64_t *tokens = g->tokens + row * g->stride + g->prompt_length[row];
        for (int64_t i = 0; i < o->max_new_tokens; i++)
            put_integer(result->tokens, b * o->max_new_tokens + i, i < count ? tokens[i] : padding);
        put_integer(result->lengths, b, count);
        put_real(result->scores, b, g->score[row]);
        for (int64_t i = 0; o->log_probabilities && i < count; i++)
            put_real(result->log_probabilities, b * o->max_new_tokens + i,
                     g->log_probability[row * o->max_new_tokens + i]);
    }
    if (!th_failed(ctx))
        return TH_OK;
    th_tensor_free(result->tokens);
    th_tensor_free(result->lengths);
    th_tensor_free(result->scores);
    th_tensor_free(result->log_probabilities);
    *result = (th_generated){.tokens = NULL};
    return th_error_code(ctx);
}

static th_status run_generation(th_generation *g)
{
    const int64_t needed = g->longest + g->options.max_new_tokens - 1;
    if (g->batch == 0)
        return TH_OK;
    g->cache = th_cache_new(g->model, g->rows, needed < g->length ? needed : g->length);
    if (g->cache == NULL || (!g->decoder_only && th_generation_encode(g) != TH_OK))
        return th_error_code(g->ctx);
    return g->options.beams > 1 ? th_generate_beams(g) : th_generate_tokens(g);
}

th_status th_generate(th_module *model, const th_generate_options *options, th_generated *result)
{
    if (result)
        *result = (th_generated){.tokens = NULL};
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : th_pending_status(NULL);
    th_context *ctx = model->ctx;
    th_generation g = {.ctx = ctx,
                       .model = model,
                       .threads = th_threads(ctx),
                       .options = options ? *options : (th_generate_options){0}};
    if (th_generation_check(&g) != TH_OK)
        return th_error_code(ctx);
    const size_t bytes = lay_out_arrays(&g, NULL), space = (size_t)g.threads * th_sampling_bytes(g.vocabulary);
    char *memory = th_allocate(ctx, bytes + !bytes);
    if (memory == NULL)
        return th_fail_memory(ctx, operation, bytes);
    lay_out_arrays(&g, memory);
    memset(memory, 0, bytes);
    if (fill_prompts(&g) == TH_OK && th_allocate_numbers(ctx, space, &g.workspace, operation) == TH_OK) {
        if (run_generation(&g) == TH_OK && result)
            (void)make_result(&g, result);
        th_release_numbers(ctx, g.workspace, space);
    }
    th_cache_free(g.cache);
    th_tensor_free(g.memory);
    th_tensor_free(g.memory_lengths);
    th_release(ctx, memory, bytes + !bytes);
    return th_error_code(ctx);
}
