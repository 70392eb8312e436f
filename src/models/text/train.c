/* Trains byte-level BPE: counts the words of a text, starts with a token for each byte, and repeatedly merges the pair
 * that pair_queue.h finds. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/byte_alphabet.h"
#include "models/text/grow.h"
#include "models/text/pair_queue.h"
#include "models/text/tokenizer.h"

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
    if (o->n_specials > TH_MAX_ADDED_TOKENS)
        return refuse_options(ctx, "there are too many special tokens");
    for (int i = 0; i < o->n_specials; i++) {
        const char *special = o->specials[i];
        if (special == NULL || *special == 0 || strlen(special) > TH_MAX_ADDED_TOKEN_BYTES || !th_is_utf8(special))
            return refuse_options(ctx, "a special token must be UTF-8 of 1 to 512 bytes");
    }
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

typedef struct word_count {
    th_context *ctx;
    th_vocabulary words; /* different ones */
    int64_t *times;      /* [words.size] */
    size_t capacity;
} word_count;

static th_status count_word(void *user, const char *word, size_t bytes)
{
    word_count *c = user;
    int32_t id = th_vocabulary_find(&c->words, word, bytes);
    if (id < 0) {
        const size_t count = c->words.size;
        if (count == INT32_MAX || !TH_GROW(c->times, c->capacity, count + 1) ||
            !th_vocabulary_add(&c->words, word, bytes) || !th_vocabulary_index(&c->words, (int32_t)count))
            return th_fail_memory(c->ctx, operation, bytes);
        id = (int32_t)count;
        c->times[id] = 0;
    }
    c->times[id]++;
    return TH_OK;
}

static bool queue_words(th_tokenizer *t, const word_count *c, th_pair_queue *queue)
{
    for (size_t i = 0; i < c->words.size; i++)
        if (!th_pair_queue_add_word(queue, th_vocabulary_bytes(&c->words, (int32_t)i), c->words.entry[i].bytes,
                                    t->byte_token, c->times[i]))
            return false;
    return th_pair_queue_begin(queue);
}

/* -- merges -- */

/* Returns the token for two others in a row, which may exist already; -1 if out of memory. */
static int32_t merged_token(th_tokenizer *t, int32_t left, int32_t right)
{
    th_vocabulary *v = &t->vocabulary;
    const size_t first = v->entry[left].bytes, bytes = first + v->entry[right].bytes;
    char *joined = malloc(bytes);
    if (joined == NULL)
        return -1;
    memcpy(joined, th_vocabulary_bytes(v, left), first);
    memcpy(joined + first, th_vocabulary_bytes(v, right), bytes - first);
    int32_t token = th_vocabulary_find(v, joined, bytes);
    if (token < 0 && th_vocabulary_add(v, joined, bytes)) {
        v->entry[v->size - 1].model = true;
        token = th_vocabulary_index(v, (int32_t)v->size - 1) ? (int32_t)v->size - 1 : -1;
    }
    free(joined);
    return token;
}

static bool learn_merges(th_tokenizer *t, const th_bpe_options *o, th_pair_queue *queue)
{
    th_merge merge;
    while ((int64_t)t->vocabulary.size < o->vocabulary &&
           th_pair_queue_next(queue, o->min_frequency, &merge.left, &merge.right)) {
        merge.result = merged_token(t, merge.left, merge.right);
        if (merge.result < 0 || !th_tokenizer_add_merge(t, merge) ||
            !th_pair_queue_merge(queue, merge.result, &t->vocabulary, o->max_bytes))
            return false;
    }
    return !queue->out_of_memory;
}

th_tokenizer *th_tokenizer_train(th_context *ctx, const char *text, size_t bytes, const th_bpe_options *options)
{
    if (!th_usable_context(ctx, operation) || !check_options(ctx, text, bytes, options))
        return NULL;
    th_tokenizer *t = th_tokenizer_make(ctx, operation);
    if (t == NULL)
        return NULL;
    word_count count = {.ctx = ctx};
    th_pair_queue queue = {0};
    const bool made = th_tokenizer_set_own_parts(t, operation, pre_tokenizer_json(options), th_byte_level_json(true)) &&
                      add_first_tokens(t, options) &&
                      th_split_text(&t->split, ctx, operation, (th_piece){.text = text, .bytes = bytes},
                                    (th_word_sink){count_word, &count}) == TH_OK &&
                      queue_words(t, &count, &queue) && learn_merges(t, options, &queue) && add_specials(t, options);
    th_vocabulary_release(&count.words);
    free(count.times);
    th_pair_queue_release(&queue);
    return th_tokenizer_if_made(t, operation, made);
}
