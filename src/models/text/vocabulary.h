/* The tokens of a tokenizer: the bytes of each, and the token for given bytes. Ids are 0, 1, 2, ... */
#ifndef TH_MODELS_TEXT_VOCABULARY_H
#define TH_MODELS_TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/text/hash.h"

enum { TH_MAX_TOKENS = 1 << 22 }; /* ids are below it */

typedef struct th_token_entry {
    size_t offset, text_offset; /* its bytes in the pool, as the model has them; the text that it becomes */
    uint32_t bytes, text_bytes;
    bool model;       /* it is in the model's vocabulary, not only among the added tokens */
    bool indexed;     /* th_vocabulary_find finds it */
    bool can_be_made; /* the model can make it: from a byte or character, or by a merge */
    bool special;
    bool literal; /* in byte-level BPE: files have its bytes, not the characters that represent them */
} th_token_entry;

typedef struct th_vocabulary_slot {
    int32_t id;    /* -1: empty */
    uint32_t mark; /* a part of the hash: most other words are rejected without a look at the token's bytes */
} th_vocabulary_slot;

typedef struct th_vocabulary {
    th_token_entry *entry; /* [size] */
    size_t size, capacity;
    char *pool; /* bytes of all tokens, each followed by a NUL */
    size_t pool_bytes, pool_capacity;
    th_vocabulary_slot *slot; /* [slots], open addressing */
    size_t slots, used;
    th_hash_key key; /* generated with the first slots */
} th_vocabulary;

/* Adds a token, whose id is the previous size. Returns false if out of memory. */
bool th_vocabulary_add(th_vocabulary *v, const char *bytes, size_t count);
/* Gives a token other bytes. th_vocabulary_find does not find it by them. Returns false if out of memory. */
bool th_vocabulary_replace(th_vocabulary *v, int32_t id, const char *bytes, size_t count);
/* Gives a token the text that it becomes, if that is not its bytes. Returns false if out of memory. */
bool th_vocabulary_set_text(th_vocabulary *v, int32_t id, const char *text, size_t count);
/* Makes th_vocabulary_find find the token. Returns false if out of memory. */
bool th_vocabulary_index(th_vocabulary *v, int32_t id);
/* Returns the token with these bytes; -1: none. */
int32_t th_vocabulary_find(const th_vocabulary *v, const char *bytes, size_t count);
/* Does the same for bytes whose hash, with the vocabulary's key, the caller has. */
int32_t th_vocabulary_find_hashed(const th_vocabulary *v, uint64_t hash, const char *bytes, size_t count);
/* Returns the bytes of a token, followed by a NUL. */
static inline const char *th_vocabulary_bytes(const th_vocabulary *v, int32_t id)
{
    return v->pool + v->entry[id].offset;
}
/* Returns the text that a token becomes, followed by a NUL. */
static inline const char *th_vocabulary_text(const th_vocabulary *v, int32_t id)
{
    return v->pool + v->entry[id].text_offset;
}
/* Whether an id is a token. */
static inline bool th_vocabulary_has(const th_vocabulary *v, int64_t id)
{
    return id >= 0 && (uint64_t)id < v->size;
}
/* Releases the memory. */
void th_vocabulary_release(th_vocabulary *v);

#endif
