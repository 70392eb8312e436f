/* Checks the options and operands of th_generate, and fills in the defaults. */
#include <math.h>

#include "models/core/tensors.h"
#include "models/generation/generation.h"
#include "tapehead/transformer.h"

static const char operation[] = "generate";

static th_status fail(const th_generation *g, th_status code, const char *sentence)
{
    return th_fail(g->ctx, code, operation, "%s", sentence);
}

static th_status check_sequences(const th_generation *g)
{
    const th_generate_options *o = &g->options;
    if (o->sequences < 0 || o->sequences > INT32_MAX)
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation, "sequences must be 0 to 2147483647; it is %lld",
                       (long long)o->sequences);
    if (o->beams > 1 && o->sequences > o->beams)
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation, "%lld beams cannot give %lld sequences",
                       (long long)o->beams, (long long)o->sequences);
    if (o->beams <= 1 && o->sequences > 1 && o->temperature == 0)
        return fail(g, TH_ERROR_ARGUMENT,
                    "several sequences of one prompt would be equal: they need a temperature above 0, or beams");
    if (o->beams > 1 && o->log_probabilities)
        return fail(g, TH_ERROR_ARGUMENT, "log_probabilities are not available with beams, which return scores");
    return TH_OK;
}

static th_status check_options(const th_generation *g)
{
    const th_generate_options *o = &g->options;
    if (o->max_new_tokens <= 0)
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation, "max_new_tokens must be positive; it is %lld",
                       (long long)o->max_new_tokens);
    if (!(o->temperature >= 0 && isfinite(o->temperature)) || o->top_k < 0 || !(o->top_p >= 0 && o->top_p <= 1) ||
        !(o->repetition_penalty >= 0 && isfinite(o->repetition_penalty)))
        return th_fail(
            g->ctx, TH_ERROR_ARGUMENT, operation,
            "temperature %g, top_k %lld and repetition_penalty %g must not be negative, and top_p %g must be in [0, 1]",
            o->temperature, (long long)o->top_k, o->repetition_penalty, o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1) || o->no_repeat_ngram_size < 0)
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation,
                       "min_p %g must be in [0, 1], and no_repeat_ngram_size %lld must not be negative", o->min_p,
                       (long long)o->no_repeat_ngram_size);
    if (o->beams < 0 || o->beams > INT32_MAX || !isfinite(o->length_penalty))
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation,
                       "beams must be 0 to 2147483647 and length_penalty finite; they are %lld and %g",
                       (long long)o->beams, o->length_penalty);
    if (o->beams > 1 && o->temperature > 0)
        return fail(g, TH_ERROR_ARGUMENT, "beam search does not sample: with beams the temperature must be 0");
    if (o->beams > 1 && o->slide)
        return fail(g, TH_ERROR_ARGUMENT, "beam search cannot slide: prompt and max_new_tokens must fit the model");
    if (check_sequences(g) != TH_OK)
        return th_error_code(g->ctx);
    if (o->n_end_tokens < 0 || (o->n_end_tokens > 0 && o->end_tokens == NULL))
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation, "n_end_tokens is %d and end_tokens is %s", o->n_end_tokens,
                       o->end_tokens ? "given" : "NULL");
    for (int i = 0; i < o->n_end_tokens; i++)
        if (o->end_tokens[i] < 0 || o->end_tokens[i] >= g->vocabulary)
            return th_fail(g->ctx, TH_ERROR_INDEX, operation, "end token %lld is outside the vocabulary of %lld",
                           (long long)o->end_tokens[i], (long long)g->vocabulary);
    return TH_OK;
}

/* Checks an operand of indices: (batch, length), or (batch) if length is NULL. */
static th_status check_indices(const th_generation *g, th_tensor *t, const char *name, int64_t *batch, int64_t *length)
{
    const th_tensor_impl *impl = th_usable_tensor(t, g->ctx, operation, name);
    if (impl == NULL)
        return th_error_code(g->ctx);
    const th_array a = th_tensor_array(impl);
    if (!th_is_index(a.dtype))
        return th_fail(g->ctx, TH_ERROR_TYPE, operation, "%s must be int32 or int64; it is %s", name,
                       th_dtype_name(a.dtype));
    const bool fits = length ? a.ndim == 2 && a.size[1] > 0 : a.ndim == 1;
    if (!fits || (*batch >= 0 && a.size[0] != *batch))
        return th_fail(g->ctx, TH_ERROR_SHAPE, operation, "%s must be %s%s; it is %s", name,
                       length ? "(B, T) with T > 0" : "(B)", *batch >= 0 ? " for the same B" : "", TH_TEXT(&a));
    *batch = a.size[0];
    if (length)
        *length = a.size[1];
    return TH_OK;
}

/* Checks that lengths are in [1, max]. */
static th_status check_lengths(const th_generation *g, th_tensor *lengths, const char *name, int64_t max)
{
    int64_t batch = g->batch;
    if (lengths == NULL)
        return TH_OK;
    if (check_indices(g, lengths, name, &batch, NULL) != TH_OK)
        return th_error_code(g->ctx);
    const th_array a = th_tensor_array(th_tensor_impl_of(lengths));
    for (int64_t b = 0; a.data && b < batch; b++)
        if (th_load_index(a.dtype, a.data, b * a.stride[0]) < 1 ||
            th_load_index(a.dtype, a.data, b * a.stride[0]) > max)
            return th_fail(g->ctx, TH_ERROR_INDEX, operation, "%s[%lld] is %lld, outside [1, %lld]", name, (long long)b,
                           (long long)th_load_index(a.dtype, a.data, b * a.stride[0]), (long long)max);
    return TH_OK;
}

/* Checks the inputs. Sets batch, longest and index_type. */
static th_status check_inputs(th_generation *g)
{
    const th_generate_options *o = &g->options;
    int64_t source_length;
    g->batch = -1;
    g->longest = 1;
    if (g->decoder_only && (o->source || o->source_lengths))
        return fail(g, TH_ERROR_ARGUMENT, "a decoder-only model has no source");
    if (!g->decoder_only) {
        if (check_indices(g, o->source, "source", &g->batch, &source_length) != TH_OK ||
            check_lengths(g, o->source_lengths, "source_lengths", source_length) != TH_OK)
            return th_error_code(g->ctx);
        g->index_type = th_dtype_of(o->source);
        if (o->prompts == NULL && o->lengths)
            return fail(g, TH_ERROR_ARGUMENT, "lengths are given, but prompts are not");
        if (o->prompts == NULL && (o->start < 0 || o->start >= g->vocabulary))
            return th_fail(g->ctx, TH_ERROR_INDEX, operation, "start token %lld is outside the vocabulary of %lld",
                           (long long)o->start, (long long)g->vocabulary);
        if (o->prompts == NULL)
            return TH_OK;
    }
    if (check_indices(g, o->prompts, "prompts", &g->batch, &g->longest) != TH_OK)
        return th_error_code(g->ctx);
    g->index_type = th_dtype_of(o->prompts);
    return check_lengths(g, o->lengths, "lengths", g->longest);
}

/* Notes how the model's rotary positions depend on the length of a sequence. */
static th_status note_rotary_scaling(th_generation *g, const th_score_options *scores)
{
    const th_rotary_scaling *scaling = &scores->rotary_scaling;
    if (!scores->rotary)
        return TH_OK;
    g->by_length |= th_rotary_depends_on_length(scaling);
    if (scaling->kind != TH_ROTARY_LONGROPE)
        return TH_OK;
    if (g->switch_length > 0 && g->switch_length != scaling->original_length)
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation,
                       "layers with LongRoPE must have the same original_length; the model has %lld and %lld",
                       (long long)g->switch_length, (long long)scaling->original_length);
    g->switch_length = scaling->original_length;
    return TH_OK;
}

th_status th_generation_check(th_generation *g)
{
    th_generate_options *o = &g->options;
    const th_language_model_options *language = th_language_model_options_of(g->model);
    const th_transformer_options *transformer = th_transformer_options_of(g->model);
    if (language == NULL && transformer == NULL)
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, operation, "%s is neither a language_model nor a transformer",
                       g->model->type);
    g->decoder_only = language != NULL;
    g->vocabulary = language ? language->vocabulary : transformer->target_vocabulary;
    g->length = language ? language->length : transformer->length;
    if (note_rotary_scaling(g, language ? &language->block.scores : &transformer->block.scores) != TH_OK)
        return th_error_code(g->ctx);
    if (language && language->other_layers && note_rotary_scaling(g, &language->other_scores) != TH_OK)
        return th_error_code(g->ctx);
    if (check_options(g) != TH_OK || check_inputs(g) != TH_OK)
        return th_error_code(g->ctx);
    if (!o->slide && (o->max_new_tokens > g->length || g->longest + o->max_new_tokens - 1 > g->length))
        return th_fail(g->ctx, TH_ERROR_SHAPE, operation,
                       "a prompt of %lld tokens and %lld more do not fit the model's length of %lld (.slide continues "
                       "from the last half)",
                       (long long)g->longest, (long long)o->max_new_tokens, (long long)g->length);
    if (o->beams == 0)
        o->beams = 1;
    if (o->sequences == 0)
        o->sequences = 1;
    if (o->no_length_penalty)
        o->length_penalty = 0;
    else if (o->length_penalty == 0)
        o->length_penalty = 1;
    g->sampling = (th_sampling){.kernels = th_context_kernels(g->ctx, TH_FLOAT64),
                                .temperature = o->temperature,
                                .top_k = o->top_k,
                                .top_p = o->top_p,
                                .repetition_penalty = o->repetition_penalty,
                                .no_repeat_ngram_size = o->no_repeat_ngram_size,
                                .min_p = o->min_p};
    int64_t numbers;
    g->prompts = g->batch;
    if (!th_checked_add(g->longest, o->max_new_tokens, &g->stride) ||
        !th_checked_multiply(g->prompts, o->beams > 1 ? 1 : o->sequences, &g->batch) ||
        !th_checked_multiply(g->batch, o->beams, &g->rows) || !th_checked_multiply(g->rows, g->stride, &numbers) ||
        numbers > INT64_MAX / 64 || g->vocabulary > INT64_MAX / 256)
        return fail(g, TH_ERROR_SHAPE, "the size in bytes overflows");
    return TH_OK;
}
