/* The merges of byte-pair encoding: which pairs of tokens become one, in which order. Also merges the tokens of one
 * word. */
#ifndef TH_MODELS_TEXT_MERGES_H
#define TH_MODELS_TEXT_MERGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/hash.h"

typedef struct th_merge {
    int32_t left, right, result;
} th_merge;

typedef struct th_merge_slot {
    uint64_t pair; /* left << 32 | right; TH_NO_PAIR: empty */
    uint32_t rank; /* the index of the first merge with this rank */
    int32_t result;
} th_merge_slot;

#define TH_NO_PAIR UINT64_MAX
enum { TH_MAX_MERGES = 1 << 23 };

typedef struct th_merges {
    th_merge *merge; /* [count], in order: index 0 is applied first */
    size_t count, capacity;
    th_merge_slot *slot; /* [slots], open addressing */
    uint8_t *filter;     /* [slots]: a bit for the hash of each pair, so most other pairs are rejected without a slot */
    size_t slots, pairs; /* pairs: slots in use. The other count - pairs merges are replaced by a later one */
    th_hash_key key;     /* generated with the first slots */
} th_merges;

/* Adds a merge, which replaces an earlier merge of the same pair, as in the reference. The memory is proportional to
 * the number of different pairs. Returns false if out of memory. */
bool th_merges_add(th_merges *m, th_merge merge);
/* Adds a merge with the rank of the one before: of both, the leftmost in a word is applied first. The pair must be
 * new. Returns false if out of memory. */
bool th_merges_add_equal(th_merges *m, th_merge merge);
/* Whether a merge is valid: no later merge of the same pair has replaced it. */
bool th_merges_is_valid(const th_merges *m, size_t index);
/* Returns the rank of a pair: the index of the first merge with this rank. -1: the pair is no merge. */
int64_t th_merges_rank(const th_merges *m, int32_t left, int32_t right);
/* Releases the memory. */
void th_merges_release(th_merges *m);

/* Memory for the tokens of a word. Initialize it with zeros. */
typedef struct th_word_memory {
    int32_t *token;
    size_t capacity;
    struct th_link *link;
    size_t link_capacity;
    uint64_t *heap;
    size_t heap_capacity;
    char *text; /* of WordPiece: the word, with prefixes */
    size_t text_capacity;
} th_word_memory;

/* Merges the tokens in memory->token[0 .. count-1] in place. The earliest merge is always applied first, the
 * leftmost of equal ones. Sets *left to the number of remaining tokens. Returns false if out of memory. */
bool th_merges_apply(const th_merges *m, th_word_memory *memory, size_t count, size_t *left);
/* Releases the memory. */
void th_word_memory_release(th_word_memory *memory);

#endif
