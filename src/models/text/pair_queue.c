/* Pairs of tokens in the order of merging: see pair_queue.h. */
#include "models/text/pair_queue.h"

#include "models/text/grow.h"

/* -- the table of pairs -- */

static size_t slot_of(const th_pair_queue *q, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)th_hash_number(q->key, pair) & (q->slots - 1);
    while (q->slot[at] >= 0 && (q->pair[q->slot[at]].left != left || q->pair[q->slot[at]].right != right))
        at = (at + 1) & (q->slots - 1);
    return at;
}

static bool grow_table(th_pair_queue *q)
{
    const size_t slots = q->slots ? 2 * q->slots : 1024;
    int32_t *slot = malloc(slots * sizeof *slot);
    if (slot == NULL)
        return false;
    for (size_t i = 0; i < slots; i++)
        slot[i] = -1;
    if (q->slots == 0)
        q->key = th_hash_key_new();
    free(q->slot);
    q->slot = slot;
    q->slots = slots;
    for (size_t i = 0; i < q->pairs; i++)
        q->slot[slot_of(q, q->pair[i].left, q->pair[i].right)] = (int32_t)i;
    return true;
}

/* Returns the pair's index in q->pair, and first adds the pair if it is new. Returns -1 if out of memory. */
static int64_t index_of_pair(th_pair_queue *q, int32_t left, int32_t right)
{
    if (2 * (q->pairs + 1) > q->slots && !grow_table(q))
        return -1;
    const size_t at = slot_of(q, left, right);
    if (q->slot[at] < 0) {
        if (q->pairs == INT32_MAX || !TH_GROW(q->pair, q->pair_capacity, q->pairs + 1))
            return -1;
        q->pair[q->pairs] = (th_pair){.left = left, .right = right};
        q->slot[at] = (int32_t)q->pairs++;
    }
    return q->slot[at];
}

/* Changes the count of a pair in a word. */
static bool change_count(th_pair_queue *q, int32_t left, int32_t right, int64_t times, size_t word)
{
    const int64_t index = index_of_pair(q, left, right);
    if (index < 0)
        return false;
    th_pair *pair = &q->pair[index];
    pair->times += times;
    if (times < 0)
        return true;
    if (pair->words.count == 0) {
        if (!TH_GROW(q->changed, q->changed_capacity, q->n_changed + 1))
            return false;
        q->changed[q->n_changed++] = (uint32_t)index;
    } else if (pair->words.word[pair->words.count - 1] == (int32_t)word) {
        return true;
    }
    if (!TH_GROW(pair->words.word, pair->words.capacity, pair->words.count + 1))
        return false;
    pair->words.word[pair->words.count++] = (int32_t)word;
    return true;
}

/* -- the heap -- */

static bool comes_before(const th_queued_pair *a, const th_queued_pair *b)
{
    if (a->times != b->times)
        return a->times > b->times;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static bool push_queued(th_pair_queue *q, th_queued_pair queued)
{
    if (!TH_GROW(q->heap, q->heap_capacity, q->queued + 1))
        return false;
    size_t at = q->queued++;
    for (; at > 0 && comes_before(&queued, &q->heap[(at - 1) / 2]); at = (at - 1) / 2)
        q->heap[at] = q->heap[(at - 1) / 2];
    q->heap[at] = queued;
    return true;
}

static th_queued_pair pop_queued(th_pair_queue *q)
{
    const th_queued_pair first = q->heap[0], last = q->heap[--q->queued];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < q->queued; at = child) {
        if (child + 1 < q->queued && comes_before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!comes_before(&q->heap[child], &last))
            break;
        q->heap[at] = q->heap[child];
    }
    q->heap[at] = last;
    return first;
}

/* Moves the new occurrences of pairs into the queue. */
static bool queue_changed_pairs(th_pair_queue *q)
{
    for (size_t i = 0; i < q->n_changed; i++) {
        th_pair *pair = &q->pair[q->changed[i]];
        if (pair->times > 0) {
            if (!push_queued(
                    q, (th_queued_pair){(uint64_t)pair->times, pair->left, pair->right, q->changed[i], pair->words}))
                return false;
        } else {
            free(pair->words.word);
        }
        pair->words = (th_occurrences){0};
    }
    q->n_changed = 0;
    return true;
}

/* -- words -- */

bool th_pair_queue_add_word(th_pair_queue *q, int64_t times)
{
    if (!TH_GROW(q->word, q->word_capacity, q->words + 1))
        return false;
    q->word[q->words++] = (th_training_word){q->tokens, 0, times};
    return true;
}

bool th_pair_queue_add_token(th_pair_queue *q, int32_t token)
{
    if (!TH_GROW(q->token, q->token_capacity, q->tokens + 1))
        return false;
    q->token[q->tokens++] = token;
    q->word[q->words - 1].count++;
    return true;
}

bool th_pair_queue_begin(th_pair_queue *q)
{
    for (size_t w = 0; w < q->words; w++) {
        const th_training_word *word = &q->word[w];
        for (size_t i = 0; i + 1 < word->count; i++)
            if (!change_count(q, q->token[word->first + i], q->token[word->first + i + 1], word->times, w))
                return false;
    }
    return queue_changed_pairs(q);
}

bool th_pair_queue_next(th_pair_queue *q, int64_t min_frequency, int32_t *left, int32_t *right)
{
    while (q->queued > 0) {
        q->current = pop_queued(q);
        const uint64_t times = (uint64_t)q->pair[q->current.pair].times;
        if (q->current.times == times) {
            *left = q->current.left;
            *right = q->current.right;
            return times >= 1 && times >= (uint64_t)min_frequency;
        }
        q->current.times = times;
        if (!push_queued(q, q->current)) {
            q->out_of_memory = true;
            return false;
        }
        q->current.words = (th_occurrences){0};
    }
    return false;
}

/* Whether a pair counts: its tokens together are shorter than the limit. */
static bool is_short_enough(const th_vocabulary *v, int32_t a, int32_t b, int64_t max_bytes)
{
    return max_bytes == 0 || (int64_t)v->entry[a].bytes + (int64_t)v->entry[b].bytes < max_bytes;
}

static bool merge_in_word(th_pair_queue *q, size_t w, int32_t token, const th_vocabulary *v, int64_t max_bytes)
{
    th_training_word *word = &q->word[w];
    const int32_t left = q->current.left, right = q->current.right;
    int32_t *tokens = q->token + word->first;
    size_t written = 0;
    for (size_t i = 0; i < word->count;) {
        if (tokens[i] != left || i + 1 == word->count || tokens[i + 1] != right) {
            tokens[written++] = tokens[i++];
            continue;
        }
        i += 2;
        if (written > 0 && (!change_count(q, tokens[written - 1], left, -word->times, w) ||
                            (is_short_enough(v, tokens[written - 1], token, max_bytes) &&
                             !change_count(q, tokens[written - 1], token, word->times, w))))
            return false;
        tokens[written++] = token;
        if (i < word->count &&
            (!change_count(q, right, tokens[i], -word->times, w) ||
             (is_short_enough(v, tokens[i], token, max_bytes) && !change_count(q, token, tokens[i], word->times, w))))
            return false;
    }
    word->count = written;
    return true;
}

bool th_pair_queue_merge(th_pair_queue *q, int32_t token, const th_vocabulary *v, int64_t max_bytes)
{
    bool merged = true;
    for (size_t i = 0; merged && i < q->current.words.count; i++)
        merged = merge_in_word(q, (size_t)q->current.words.word[i], token, v, max_bytes);
    free(q->current.words.word);
    q->current.words = (th_occurrences){0};
    return merged && queue_changed_pairs(q);
}

void th_pair_queue_release(th_pair_queue *q)
{
    for (size_t i = 0; i < q->pairs; i++)
        free(q->pair[i].words.word);
    for (size_t i = 0; i < q->queued; i++)
        free(q->heap[i].words.word);
    free(q->current.words.word);
    free(q->token);
    free(q->word);
    free(q->pair);
    free(q->slot);
    free(q->changed);
    free(q->heap);
    *q = (th_pair_queue){0};
}
