/* Trains byte-level BPE: counts the words of a text, starts with a token for each byte, and learns merges (training.h). */
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/byte_alphabet.h"
#include "models/text/training.h"

static const char operation[] = "tokenizer_train";

/* -- options -- */

static bool refuse_options(th_context *ctx, const char *sentence)
{
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s", sentence);
    return false;
}

static bool check_options(th_context *ctx, const char *text, size_t bytes, const th_bpe_options *o)
{
    if ((text == NULL && bytes > 0) || o == NULL)
        return refuse_options(ctx, "needs a text and options");
    if (o->min_frequency < 0 || o->max_bytes < 0 || o->n_specials < 0 || (o->specials == NULL && o->n_specials > 0))
        return refuse_options(ctx, "no number may be negative, and n_specials needs specials");
    if (!th_check_specials(ctx, operation, o->specials, o->n_specials))
        return false;
    char reason[TH_PATTERN_REASON];
    th_pattern *pattern = o->pattern ? th_pattern_new(o->pattern, strlen(o->pattern), reason) : NULL;
    const bool usable = pattern || o->pattern == NULL;
    th_pattern_free(pattern);
    if (!usable && reason[0])
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the pattern '%.200s' cannot be used: %s", o->pattern, reason);
    else if (!usable)
        th_fail_memory(ctx, operation, strlen(o->pattern));
    return usable;
}

static json_t *pre_tokenizer_json(const th_bpe_options *o)
{
    if (o->pattern == NULL)
        return th_byte_level_json(true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", o->pattern, "behavior", "Isolated", "invert", 0, th_byte_level_json(false));
}

/* -- the first tokens -- */

static bool add_first_tokens(th_tokenizer *t, const th_bpe_options *o)
{
    th_vocabulary *v = &t->vocabulary;
    for (int i = 0; i < o->n_specials; i++) {
        bool is_repeated = false;
        for (int k = 0; k < i && !is_repeated; k++)
            is_repeated = strcmp(o->specials[i], o->specials[k]) == 0;
        if (!is_repeated && !th_tokenizer_add_model_token(t, o->specials[i], strlen(o->specials[i])))
            return false;
    }
    for (unsigned code = 0; code < TH_BYTE_CHARACTERS; code++) {
        const char byte = (char)th_byte_of_character(code);
        char written[TH_BYTE_WRITTEN + 1];
        if (th_byte_of_character(code) >= 0 && th_vocabulary_find(v, &byte, 1) < 0 &&
            !th_tokenizer_add_model_token(t, written, th_bytes_write(&byte, 1, written)))
            return false;
    }
    th_tokenizer_find_alphabet(t);
    if (o->vocabulary >= (int64_t)v->size && o->vocabulary <= TH_MAX_TOKENS)
        return true;
    th_fail(t->ctx, TH_ERROR_ARGUMENT, operation,
            "vocabulary = %lld is outside %zu (256 bytes and the special tokens) .. %d", (long long)o->vocabulary,
            v->size, TH_MAX_TOKENS);
    return false;
}

static bool add_specials(th_tokenizer *t, const th_bpe_options *o)
{
    for (int i = 0; i < o->n_specials; i++)
        if (th_tokenizer_add(t, o->specials[i]) < 0)
            return false;
    return true;
}

/* -- words -- */

static bool queue_word(th_tokenizer *t, const th_word_counts *c, size_t word, th_pair_queue *queue)
{
    const char *bytes = th_vocabulary_bytes(&c->words, (int32_t)word);
    bool queued = th_pair_queue_add_word(queue, c->times[word]);
    for (size_t i = 0; queued && i < c->words.entry[word].bytes; i++)
        queued = th_pair_queue_add_token(queue, t->byte_token[(unsigned char)bytes[i]]);
    return queued;
}

th_tokenizer *th_tokenizer_train(th_context *ctx, const char *text, size_t bytes, const th_bpe_options *options)
{
    if (!th_usable_context(ctx, operation) || !check_options(ctx, text, bytes, options))
        return NULL;
    th_tokenizer *t = th_tokenizer_make(ctx, operation);
    if (t == NULL)
        return NULL;
    th_word_counts count = {.ctx = ctx, .operation = operation};
    th_pair_queue queue = {0};
    const bool made = th_tokenizer_set_own_parts(t, operation, pre_tokenizer_json(options), th_byte_level_json(true)) &&
                      add_first_tokens(t, options) &&
                      th_split_text(&t->split, ctx, operation, (th_piece){.text = text, .bytes = bytes},
                                    (th_word_sink){th_word_counts_add, &count}) == TH_OK &&
                      th_queue_words(t, &count, queue_word, &queue) &&
                      th_learn_merges(t, &queue, options->vocabulary, options->min_frequency, options->max_bytes) &&
                      add_specials(t, options);
    th_word_counts_release(&count);
    th_pair_queue_release(&queue);
    return th_tokenizer_if_made(t, operation, made);
}
