/* Merges the tokens of words. Most words are short: the rank of each pair is stored, and each merge searches all of
 * them. A word can also be as long as a file: a long word has a linked list of its remaining tokens and a heap of
 * pairs, and takes O(n log n) time. */
#include "models/text/merges.h"

#include "models/text/grow.h"

enum { SHORT_WORD = 48 };

/* A token of a long word, and its remaining neighbors. */
typedef struct th_link {
    int32_t token; /* -1: merged into another */
    uint32_t previous, next;
} th_link;

#define NO_LINK UINT32_MAX

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Returns the slot of the pair with this hash, or the empty slot for it. */
static th_merge_slot *slot_of(const th_merges *m, uint64_t pair, uint64_t hash)
{
    size_t at = (size_t)hash & (m->slots - 1);
    while (m->slot[at].pair != pair && m->slot[at].pair != TH_NO_PAIR)
        at = (at + 1) & (m->slots - 1);
    return &m->slot[at];
}

/* Returns the byte of the filter that has the bit of a hash. Its bits are others than those that choose the slot. */
static uint8_t *filter_of(const th_merges *m, uint64_t hash)
{
    return &m->filter[(size_t)(hash >> 32) & (m->slots - 1)];
}

static uint8_t filter_bit(uint64_t hash)
{
    return (uint8_t)(1u << (hash >> 61));
}

static const th_merge_slot *find_merge(const th_merges *m, int32_t left, int32_t right)
{
    if (m->slots == 0)
        return NULL;
    const uint64_t pair = pair_key(left, right), hash = th_hash_number(m->key, pair);
    if ((*filter_of(m, hash) & filter_bit(hash)) == 0)
        return NULL;
    const th_merge_slot *slot = slot_of(m, pair, hash);
    return slot->pair == TH_NO_PAIR ? NULL : slot;
}

int64_t th_merges_rank(const th_merges *m, int32_t left, int32_t right)
{
    const th_merge_slot *slot = find_merge(m, left, right);
    return slot ? (int64_t)slot->rank : -1;
}

/* Returns the slot for a new pair, or the slot of the same pair, which the filter then passes. */
static th_merge_slot *open_slot(th_merges *m, uint64_t pair)
{
    const uint64_t hash = th_hash_number(m->key, pair);
    *filter_of(m, hash) |= filter_bit(hash);
    return slot_of(m, pair, hash);
}

static bool grow_table(th_merges *m)
{
    const size_t slots = m->slots ? 2 * m->slots : 1024;
    th_merge_slot *const old = m->slot, *const slot = malloc(slots * sizeof *slot);
    uint8_t *const filter = calloc(slots, 1);
    if (slot == NULL || filter == NULL) {
        free(slot);
        free(filter);
        return false;
    }
    for (size_t i = 0; i < slots; i++)
        slot[i].pair = TH_NO_PAIR;
    if (m->slots == 0)
        m->key = th_hash_key_new();
    const size_t old_slots = m->slots;
    free(m->filter);
    m->filter = filter;
    m->slot = slot;
    m->slots = slots;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].pair != TH_NO_PAIR)
            *open_slot(m, old[i].pair) = old[i];
    free(old);
    return true;
}

/* Removes the merges that later ones have replaced. The others keep their order and get new ranks. */
static void remove_replaced(th_merges *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        const th_merge merge = m->merge[i];
        if (!th_merges_is_valid(m, i))
            continue;
        open_slot(m, pair_key(merge.left, merge.right))->rank = (uint32_t)count;
        m->merge[count++] = merge;
    }
    m->count = count;
}

static bool add_merge(th_merges *m, th_merge merge, uint32_t rank)
{
    if ((2 * (m->pairs + 1) > m->slots && !grow_table(m)) || !TH_GROW(m->merge, m->capacity, m->count + 1))
        return false;
    const uint64_t pair = pair_key(merge.left, merge.right);
    th_merge_slot *slot = open_slot(m, pair);
    m->pairs += slot->pair == TH_NO_PAIR;
    *slot = (th_merge_slot){pair, rank, merge.result};
    m->merge[m->count++] = merge;
    return true;
}

bool th_merges_add(th_merges *m, th_merge merge)
{
    if (m->count == m->capacity && m->count > 2 * m->pairs)
        remove_replaced(m);
    return add_merge(m, merge, (uint32_t)m->count);
}

bool th_merges_add_equal(th_merges *m, th_merge merge)
{
    const th_merge before = m->merge[m->count - 1];
    return add_merge(m, merge, find_merge(m, before.left, before.right)->rank);
}

bool th_merges_is_valid(const th_merges *m, size_t index)
{
    return find_merge(m, m->merge[index].left, m->merge[index].right)->rank <= index;
}

void th_merges_release(th_merges *m)
{
    free(m->merge);
    free(m->slot);
    free(m->filter);
    *m = (th_merges){0};
}

/* -- short words -- */

typedef struct ranked {
    uint32_t rank; /* of the pair that begins with this token; no_rank: not a merge */
    int32_t result;
} ranked;
static const uint32_t no_rank = UINT32_MAX;

static ranked find_rank(const th_merges *m, int32_t left, int32_t right)
{
    const th_merge_slot *slot = find_merge(m, left, right);
    return slot ? (ranked){slot->rank, slot->result} : (ranked){no_rank, 0};
}

/* Returns the pair with the lowest rank; 0 if no pair is a merge. */
static size_t index_of_lowest(const ranked *pair, size_t pairs)
{
    size_t best = 0;
    for (size_t i = 1; i < pairs; i++)
        best = pair[i].rank < pair[best].rank ? i : best;
    return best;
}

static size_t merge_short(const th_merges *m, int32_t *token, size_t count)
{
    ranked pair[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++)
        pair[i] = find_rank(m, token[i], token[i + 1]);
    while (count > 1) {
        const size_t best = index_of_lowest(pair, count - 1);
        if (pair[best].rank == no_rank)
            break;
        token[best] = pair[best].result;
        count--;
        for (size_t i = best + 1; i < count; i++) {
            token[i] = token[i + 1];
            pair[i - 1] = pair[i];
        }
        if (best + 1 < count)
            pair[best] = find_rank(m, token[best], token[best + 1]);
        if (best > 0)
            pair[best - 1] = find_rank(m, token[best - 1], token[best]);
    }
    return count;
}

/* -- long words: a heap of rank << 32 | position, the smallest first -- */

static void sift_down(uint64_t *heap, size_t count, size_t at)
{
    const uint64_t value = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

static void push_to_heap(uint64_t *heap, size_t *count, uint64_t value)
{
    size_t at = (*count)++;
    for (; at > 0 && heap[(at - 1) / 2] > value; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
}

static void push_pair(const th_merges *m, th_word_memory *w, size_t *queued, uint32_t at)
{
    const th_link *link = w->link;
    const uint32_t next = link[at].next;
    const th_merge_slot *slot = next == NO_LINK ? NULL : find_merge(m, link[at].token, link[next].token);
    if (slot)
        push_to_heap(w->heap, queued, (uint64_t)slot->rank << 32 | at);
}

/* Each merge removes one pair from the heap and adds at most two, so 2 count pairs are enough. */
static bool merge_long(const th_merges *m, th_word_memory *w, size_t count, size_t *left)
{
    if (count >= NO_LINK || !TH_GROW(w->link, w->link_capacity, count) ||
        !TH_GROW(w->heap, w->heap_capacity, 2 * count))
        return false;
    th_link *link = w->link;
    for (uint32_t i = 0; i < count; i++)
        link[i] = (th_link){w->token[i], i == 0 ? NO_LINK : i - 1, i + 1 == count ? NO_LINK : i + 1};
    size_t queued = 0;
    for (uint32_t i = 0; i < count; i++)
        push_pair(m, w, &queued, i);
    while (queued > 0) {
        const uint64_t top = w->heap[0];
        const uint32_t at = (uint32_t)top, next = link[at].next;
        w->heap[0] = w->heap[--queued];
        sift_down(w->heap, queued, 0);
        const th_merge_slot *slot =
            link[at].token < 0 || next == NO_LINK ? NULL : find_merge(m, link[at].token, link[next].token);
        if (slot == NULL || slot->rank != top >> 32)
            continue; /* one of the two tokens has been merged since */
        link[at].token = slot->result;
        link[at].next = link[next].next;
        link[next].token = -1;
        if (link[at].next != NO_LINK)
            link[link[at].next].previous = at;
        if (link[at].previous != NO_LINK)
            push_pair(m, w, &queued, link[at].previous);
        push_pair(m, w, &queued, at);
    }
    *left = 0;
    for (uint32_t i = 0; i != NO_LINK; i = link[i].next)
        w->token[(*left)++] = link[i].token;
    return true;
}

bool th_merges_apply(const th_merges *m, th_word_memory *memory, size_t count, size_t *left)
{
    *left = count;
    if (count < 2 || m->count == 0)
        return true;
    if (count > SHORT_WORD)
        return merge_long(m, memory, count, left);
    *left = merge_short(m, memory->token, count);
    return true;
}

void th_word_memory_release(th_word_memory *memory)
{
    free(memory->token);
    free(memory->link);
    free(memory->heap);
    free(memory->text);
    *memory = (th_word_memory){0};
}
