/* The tokens of a tokenizer: what each one stands for, and which one stands for given bytes. Ids are 0, 1, 2 .. */
#ifndef TH_MODELS_TEXT_VOCABULARY_H
#define TH_MODELS_TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/hash.h"

enum { TH_MAX_TOKENS = 1 << 22 }; /* ids are below it */

typedef struct th_token_entry {
    size_t offset; /* of its bytes in the pool */
    uint32_t bytes;
    bool model;   /* it stands in the model's vocabulary, not among the added tokens alone */
    bool indexed; /* it is found by its bytes */
    bool made;    /* the model can make it: from a byte or character, or by a merge */
    bool special;
    bool literal; /* in byte-level BPE: written in files as it is, not in the characters that stand for bytes */
} th_token_entry;

typedef struct th_vocabulary {
    th_token_entry *entry; /* [size] */
    size_t size, capacity;
    char *pool; /* bytes of all tokens, with a NUL behind each */
    size_t pool_bytes, pool_capacity;
    int32_t *slot; /* [slots], open addressing; -1: empty */
    size_t slots, used;
    th_hash_key key; /* drawn with the first slots */
} th_vocabulary;

/* A further token, whose id is the size before; false when memory is out. */
bool th_vocabulary_add(th_vocabulary *v, const char *bytes, size_t count);
/* Gives a token other bytes, by which it is not found; false when memory is out. */
bool th_vocabulary_replace(th_vocabulary *v, int32_t id, const char *bytes, size_t count);
/* From now on th_vocabulary_find knows it. false when memory is out. */
bool th_vocabulary_index(th_vocabulary *v, int32_t id);
/* -1: none. */
int32_t th_vocabulary_find(const th_vocabulary *v, const char *bytes, size_t count);
static inline const char *th_vocabulary_bytes(const th_vocabulary *v, int32_t id)
{
    return v->pool + v->entry[id].offset;
}
static inline bool th_vocabulary_has(const th_vocabulary *v, int64_t id)
{
    return id >= 0 && (uint64_t)id < v->size;
}
void th_vocabulary_release(th_vocabulary *v);

#endif
