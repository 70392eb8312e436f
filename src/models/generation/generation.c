/* Functions for choosing tokens, with or without beams: a row's logits, working memory, and passing tokens to the
 * caller. */
#include "models/generation/generation.h"

th_sampling_space th_generation_worker_space(const th_generation *g, int worker)
{
    return th_sampling_space_at((char *)g->workspace + (size_t)worker * th_sampling_bytes(g->vocabulary),
                                g->vocabulary);
}

int64_t th_generation_row_of(const th_generation *g, int64_t result)
{
    const int64_t sequences = g->options.sequences;
    return g->options.beams > 1 ? result / sequences * g->options.beams + result % sequences : result;
}

bool th_generation_rotation_changes(const th_generation *g)
{
    for (int64_t row = 0; g->switch_length > 0 && row < g->rows; row++)
        if (!g->ended[row / g->options.beams] && g->count[row] - g->begin[row] == g->switch_length + 1)
            return true;
    return false;
}

th_logits_row th_generation_row(const th_generation *g, int64_t row)
{
    return (th_logits_row){.logits = (const char *)g->logits + (size_t)(row * g->vocabulary) * th_dtype_size(g->dtype),
                           .dtype = g->dtype,
                           .vocabulary = g->vocabulary,
                           .history = g->tokens + row * g->stride,
                           .length = g->count[row]};
}

th_status th_generation_refuse_logits(const th_generation *g, int64_t sequence)
{
    const int64_t row = sequence * g->options.beams;
    return th_fail(g->ctx, TH_ERROR_VALUE, "generate",
                   "the logits for token %lld of sequence %lld contain NaN or +inf, or all are -inf%s",
                   (long long)(g->count[row] - g->prompt_length[row]), (long long)sequence,
                   g->options.no_repeat_ngram_size ? ", or every token would repeat an n-gram" : "");
}

bool th_generation_emit(const th_generation *g, int64_t sequence, int64_t token)
{
    return g->options.emit == NULL || g->options.emit(g->options.user, sequence, token);
}

bool th_generation_is_end_token(const th_generation *g, int64_t token)
{
    for (int i = 0; i < g->options.n_end_tokens; i++)
        if (g->options.end_tokens[i] == token)
            return true;
    return false;
}
