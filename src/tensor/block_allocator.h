/* Memory in large chunks from the context's allocator, handed out in blocks of whole cache lines that can be given back
 * in any order.
 *
 * First fit in the order the chunks were taken: a sequence of requests that fitted once fits again in the same places,
 * so that after the first step no step allocates. The free runs are a tree, so that taking and giving back cost the
 * logarithm of their number. Bookkeeping lies outside the blocks; under AddressSanitizer free memory is poisoned and
 * every block ends in a red zone. */
#ifndef TH_TENSOR_BLOCK_ALLOCATOR_H
#define TH_TENSOR_BLOCK_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct th_block th_block;

/* What the allocator calls to get and return memory; the context counts and limits there. */
typedef struct th_chunk_source {
    /* For the allocator's own records: 64-byte aligned, or NULL. */
    void *(*take)(void *owner, size_t bytes);
    void (*give)(void *owner, void *memory, size_t bytes);
    /* For chunks: false when there is none. A source may grant a chunk without memory (NULL, for a run of shapes only):
     * its blocks have a size and a place, and no memory either. */
    bool (*take_chunk)(void *owner, size_t bytes, void **memory);
    void (*give_chunk)(void *owner, void *memory, size_t bytes);
    void *owner;
} th_chunk_source;

typedef struct th_block_allocator {
    th_chunk_source source;
    size_t live;             /* bytes in blocks now */
    size_t reserved;         /* bytes of all chunks */
    struct th_chunk *newest; /* each leads to the one before it */
    th_block *free;          /* root of the tree of free runs */
    uint64_t draws;          /* state of the priorities handed out in the tree */
    th_block *spare;         /* unused block records */
    void *records;           /* pages of block records */
} th_block_allocator;

void th_block_allocator_init(th_block_allocator *allocator, th_chunk_source source);
void th_block_allocator_destroy(th_block_allocator *allocator);

/* A block of at least `bytes` (0 is legal: a block without memory); NULL when memory is out. */
th_block *th_block_allocate(th_block_allocator *allocator, size_t bytes);
void th_block_free(th_block_allocator *allocator, th_block *block);
void *th_block_data(const th_block *block); /* 64-byte aligned; NULL for an empty block and in a chunk without memory */

#endif
