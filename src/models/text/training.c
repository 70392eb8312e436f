/* The parts of training that BPE and WordPiece share: see training.h. */
#include "models/text/training.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/grow.h"

/* -- words -- */

th_status th_word_counts_add_times(th_word_counts *c, const char *word, size_t bytes, int64_t times)
{
    int32_t id = th_vocabulary_find(&c->words, word, bytes);
    if (id < 0) {
        const size_t count = c->words.size;
        if (count == INT32_MAX || !TH_GROW(c->times, c->capacity, count + 1) ||
            !th_vocabulary_add(&c->words, word, bytes) || !th_vocabulary_index(&c->words, (int32_t)count))
            return th_fail_memory(c->ctx, c->operation, bytes);
        id = (int32_t)count;
        c->times[id] = 0;
    }
    c->times[id] = times > INT64_MAX - c->times[id] ? INT64_MAX : c->times[id] + times;
    return TH_OK;
}

th_status th_word_counts_add(void *user, const char *word, size_t bytes)
{
    return th_word_counts_add_times(user, word, bytes, 1);
}

void th_word_counts_release(th_word_counts *c)
{
    th_vocabulary_release(&c->words);
    free(c->times);
    *c = (th_word_counts){0};
}

/* -- special tokens -- */

bool th_check_specials(th_context *ctx, const char *operation, const char *const *specials, int n_specials)
{
    if (n_specials > TH_MAX_ADDED_TOKENS) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "there are too many special tokens");
        return false;
    }
    for (int i = 0; i < n_specials; i++) {
        const char *special = specials[i];
        if (special && *special && strlen(special) <= TH_MAX_ADDED_TOKEN_BYTES && th_is_utf8(special))
            continue;
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a special token must be UTF-8 of 1 to %d bytes",
                TH_MAX_ADDED_TOKEN_BYTES);
        return false;
    }
    return true;
}

/* -- merges -- */

bool th_queue_words(th_tokenizer *t, const th_word_counts *c, th_queue_word *queue_word, th_pair_queue *queue)
{
    for (size_t i = 0; i < c->words.size; i++)
        if (!queue_word(t, c, i, queue))
            return false;
    return th_pair_queue_begin(queue);
}

/* Returns the token for two others in a row, which may exist already; -1 if out of memory. */
static int32_t merged_token(th_tokenizer *t, int32_t left, int32_t right)
{
    th_vocabulary *v = &t->vocabulary;
    const size_t first = v->entry[left].bytes, prefix = t->pieces.prefix_bytes;
    const size_t bytes = first + v->entry[right].bytes - prefix;
    char *joined = malloc(bytes);
    if (joined == NULL)
        return -1;
    memcpy(joined, th_vocabulary_bytes(v, left), first);
    memcpy(joined + first, th_vocabulary_bytes(v, right) + prefix, bytes - first);
    int32_t token = th_vocabulary_find(v, joined, bytes);
    if (token < 0 && th_vocabulary_add(v, joined, bytes)) {
        v->entry[v->size - 1].model = true;
        token = th_vocabulary_index(v, (int32_t)v->size - 1) ? (int32_t)v->size - 1 : -1;
    }
    free(joined);
    return token;
}

bool th_learn_merges(th_tokenizer *t, th_pair_queue *queue, int64_t vocabulary, int64_t min_frequency,
                     int64_t max_bytes)
{
    th_merge merge;
    while ((int64_t)t->vocabulary.size < vocabulary &&
           th_pair_queue_next(queue, min_frequency, &merge.left, &merge.right)) {
        merge.result = merged_token(t, merge.left, merge.right);
        if (merge.result < 0 || (!t->pieces.used && !th_tokenizer_add_merge(t, merge)) ||
            !th_pair_queue_merge(queue, merge.result, &t->vocabulary, max_bytes))
            return false;
    }
    return !queue->out_of_memory;
}
