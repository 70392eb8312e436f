/* The state of BPE training: words as tokens, how often each pair of neighbors occurs in them, and the pairs in
 * order. It follows the reference's trainer in everything that decides which pair is next:
 *   - the most frequent pair is next; of equally frequent pairs, the one with the smaller ids;
 *   - a pair's count is updated when the pair reaches the front; merges of its neighbors change the count, its own
 *     merge does not;
 *   - with a limit on the length of tokens, a pair that would be too long is not counted when it appears, but it is
 *     subtracted when it disappears. A count below zero then comes before all others. */
#ifndef TH_MODELS_TEXT_PAIR_QUEUE_H
#define TH_MODELS_TEXT_PAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/vocabulary.h"

/* The words in which a pair occurs. */
typedef struct th_occurrences {
    int32_t *word; /* [count], ascending */
    size_t count, capacity;
} th_occurrences;

typedef struct th_pair {
    int32_t left, right;
    int64_t times;
    th_occurrences words; /* new occurrences since the queue was last updated */
} th_pair;

/* A pair in the queue. */
typedef struct th_queued_pair {
    uint64_t times; /* its count when it was added */
    int32_t left, right;
    uint32_t pair;
    th_occurrences words;
} th_queued_pair;

typedef struct th_training_word {
    size_t first, count; /* range of its tokens */
    int64_t times;
} th_training_word;

typedef struct th_pair_queue {
    int32_t *token; /* of all words */
    size_t tokens, token_capacity;
    th_training_word *word;
    size_t words, word_capacity;
    th_pair *pair;
    size_t pairs, pair_capacity;
    int32_t *slot; /* [slots], open addressing, of pairs; -1: empty */
    size_t slots;
    th_hash_key key;   /* generated with the first slots */
    uint32_t *changed; /* pairs with new occurrences */
    size_t n_changed, changed_capacity;
    th_queued_pair *heap;
    size_t queued, heap_capacity;
    th_queued_pair current; /* the result of th_pair_queue_next */
    bool out_of_memory;
} th_pair_queue;

/* Adds a word that occurs `times` times, without tokens. This function and those below return false if out of memory. */
bool th_pair_queue_add_word(th_pair_queue *q, int64_t times);
/* Appends a token to the last word. */
bool th_pair_queue_add_token(th_pair_queue *q, int32_t token);
/* Begins training: all words have been added. */
bool th_pair_queue_begin(th_pair_queue *q);
/* Finds the next pair. Also returns false if no pair occurs at least min_frequency times. */
bool th_pair_queue_next(th_pair_queue *q, int64_t min_frequency, int32_t *left, int32_t *right);
/* Replaces that pair by a token in all words. New pairs count if they are shorter than max_bytes (0: all count). */
bool th_pair_queue_merge(th_pair_queue *q, int32_t token, const th_vocabulary *v, int64_t max_bytes);
/* Releases the memory. */
void th_pair_queue_release(th_pair_queue *q);

#endif
