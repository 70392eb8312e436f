/* A trie of tokens, as a double array: it finds all tokens with which a text begins. A child is found by one XOR and one
 * comparison (Aoe 1989; the XOR is Yata's). */
#ifndef TH_MODELS_TEXT_TOKEN_TRIE_H
#define TH_MODELS_TEXT_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node, or a free unit. Free units form a list in both directions. */
typedef struct th_trie_unit {
    uint32_t base;   /* the child for byte c is the unit base ^ c. Free: the next free unit */
    uint32_t parent; /* TH_TRIE_FREE: the unit is free, or the root */
    int32_t token;   /* that ends here; -1: none. Free: the free unit before */
} th_trie_unit;

#define TH_TRIE_FREE UINT32_MAX

typedef struct th_token_trie {
    th_trie_unit *unit; /* [units], in blocks of 256; 0 is the root */
    size_t units, capacity;
} th_token_trie;

/* A key of the trie. */
typedef struct th_trie_key {
    const char *text;
    size_t bytes; /* at least 1 */
    int32_t token;
} th_trie_key;

/* Builds a trie of different keys, which it sorts. Takes time in proportion to their bytes, whatever they are. Returns
 * false if out of memory. */
bool th_token_trie_build(th_token_trie *trie, th_trie_key *key, size_t count);
/* Releases the memory. */
void th_token_trie_release(th_token_trie *trie);

/* Returns the child of a node for a byte; 0: none. */
static inline uint32_t th_token_trie_child(const th_token_trie *trie, uint32_t node, char byte)
{
    const uint32_t child = trie->unit[node].base ^ (unsigned char)byte;
    return trie->unit[child].parent == node ? child : 0;
}

#endif
