/* Builds double arrays: see token_trie.h. A node with one child takes any free unit for it. For the children of others, a
 * few free units are tried before a new block is added. */
#include "models/text/token_trie.h"

#include <string.h>

#include "models/text/grow.h"

enum { BLOCK = 256, TRIALS = 32 };

/* key[low .. high-1], whose first `depth` bytes lead to a node. */
typedef struct range {
    uint32_t node;
    size_t low, high, depth;
} range;

typedef struct building {
    th_token_trie *trie;
    const th_trie_key *key;
    range *open; /* [n_open], whose children are missing. No two have a key in common */
    size_t n_open;
    uint32_t root_base;
} building;

/* -- free units. The links of the root are the ends of their list until the trie is built -- */

static bool add_block(th_token_trie *trie)
{
    const size_t first = trie->units;
    if (first > INT32_MAX - BLOCK || !TH_GROW(trie->unit, trie->capacity, first + BLOCK))
        return false;
    trie->units += BLOCK;
    if (first == 0)
        trie->unit[0] = (th_trie_unit){.parent = TH_TRIE_FREE};
    for (size_t i = first > 0 ? first : 1; i < trie->units; i++) {
        const int32_t last = trie->unit[0].token;
        trie->unit[i] = (th_trie_unit){.parent = TH_TRIE_FREE, .token = last};
        trie->unit[last].base = (uint32_t)i;
        trie->unit[0].token = (int32_t)i;
    }
    return true;
}

static void take_unit(th_token_trie *trie, uint32_t at, uint32_t parent)
{
    const th_trie_unit taken = trie->unit[at];
    trie->unit[taken.token].base = taken.base;
    trie->unit[taken.base].token = taken.token;
    trie->unit[at] = (th_trie_unit){.parent = parent, .token = -1};
}

static bool is_free(const th_token_trie *trie, uint32_t at)
{
    return at != 0 && trie->unit[at].parent == TH_TRIE_FREE;
}

/* Finds a base for which the units of all children are free. Returns false if out of memory. */
static bool find_base(th_token_trie *trie, const unsigned char *child, size_t count, uint32_t *base)
{
    uint32_t at = trie->unit[0].base;
    for (int trial = 0; at != 0 && trial < TRIALS; trial++, at = trie->unit[at].base) {
        size_t fitting = 1;
        *base = at ^ child[0];
        while (fitting < count && is_free(trie, *base ^ child[fitting]))
            fitting++;
        if (fitting == count)
            return true;
    }
    *base = (uint32_t)trie->units;
    return add_block(trie);
}

/* -- nodes -- */

/* Adds the children of a node. Returns false if out of memory. */
static bool add_children(building *b, range r)
{
    unsigned char child[BLOCK];
    size_t begin[BLOCK + 1], count = 0;
    if (r.low < r.high && b->key[r.low].bytes == r.depth) /* the shortest key is the first one */
        b->trie->unit[r.node].token = b->key[r.low++].token;
    for (size_t i = r.low; i < r.high; i++) {
        const unsigned char byte = (unsigned char)b->key[i].text[r.depth];
        if (count == 0 || child[count - 1] != byte) {
            begin[count] = i;
            child[count++] = byte;
        }
    }
    begin[count] = r.high;
    uint32_t base;
    if (count == 0)
        return true;
    if (!find_base(b->trie, child, count, &base))
        return false;
    for (size_t i = 0; i < count; i++) {
        take_unit(b->trie, base ^ child[i], r.node);
        b->open[b->n_open++] = (range){base ^ child[i], begin[i], begin[i + 1], r.depth + 1};
    }
    *(r.node ? &b->trie->unit[r.node].base : &b->root_base) = base;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const th_trie_key *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

bool th_token_trie_build(th_token_trie *trie, th_trie_key *key, size_t count)
{
    building b = {.trie = trie, .key = key, .open = malloc((count + 1) * sizeof *b.open), .n_open = 1};
    bool built = b.open && add_block(trie);
    if (count > 0)
        qsort(key, count, sizeof *key, compare_keys);
    if (built)
        b.open[0] = (range){.high = count};
    while (built && b.n_open > 0)
        built = add_children(&b, b.open[--b.n_open]);
    if (built)
        trie->unit[0] = (th_trie_unit){.base = b.root_base, .parent = TH_TRIE_FREE, .token = -1};
    free(b.open);
    return built;
}

void th_token_trie_release(th_token_trie *trie)
{
    free(trie->unit);
    *trie = (th_token_trie){0};
}
