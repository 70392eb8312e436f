/* What training BPE turns around: words as tokens, how often each pair of neighbors stands in them, and the pairs in
 * order. It follows the reference's trainer in all that decides which pair comes next:
 *   - the most frequent pair is next; of equally frequent ones the one with the smaller ids;
 *   - a pair's count is brought up to date when it comes to the front, and changed by what merges do around it, not by
 *     its own merge;
 *   - where tokens must be shorter than a limit, pairs that would be too long are not counted when they come up, but
 *     taken off when they go. A count below zero then comes first of all. */
#ifndef TH_MODELS_TEXT_PAIR_QUEUE_H
#define TH_MODELS_TEXT_PAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/vocabulary.h"

/* Words in which a pair stands. */
typedef struct th_places {
    int32_t *word; /* [count], rising */
    size_t count, capacity;
} th_places;

typedef struct th_pair {
    int32_t left, right;
    int64_t times;
    th_places places; /* where it came up since the queue last took over */
} th_pair;

/* A pair that waits. */
typedef struct th_waiting {
    uint64_t times; /* as of when it was put in */
    int32_t left, right;
    uint32_t pair;
    th_places places;
} th_waiting;

typedef struct th_training_word {
    size_t first, count; /* its tokens */
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
    th_hash_key key;   /* drawn with the first slots */
    uint32_t *touched; /* pairs that have places */
    size_t n_touched, touched_capacity;
    th_waiting *heap;
    size_t waiting, heap_capacity;
    th_waiting current; /* what th_pair_queue_next gave */
    bool out_of_memory;
} th_pair_queue;

/* A word that stands `times` times; false, here and below, when memory is out. */
bool th_pair_queue_add_word(th_pair_queue *q, const char *bytes, size_t count, const int32_t byte_token[256],
                            int64_t times);
/* All words are there. */
bool th_pair_queue_begin(th_pair_queue *q);
/* The pair that is next; false when none is left that stands min_frequency times. */
bool th_pair_queue_next(th_pair_queue *q, int64_t min_frequency, int32_t *left, int32_t *right);
/* Puts a token in the place of that pair in all words. New pairs count that are shorter than max_bytes (0: all). */
bool th_pair_queue_merge(th_pair_queue *q, int32_t token, const th_vocabulary *v, int64_t max_bytes);
void th_pair_queue_release(th_pair_queue *q);

#endif
