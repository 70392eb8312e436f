/* An allocator of blocks that can be freed in any order. It allocates large chunks from its source and cuts them into
 * blocks of whole cache lines.
 *
 * It is first-fit, in the order in which the chunks were allocated. So a sequence of requests that fitted once gets the
 * same addresses again, and after the first step no step allocates a chunk. The free runs are in a tree, so allocating
 * and freeing take time proportional to the logarithm of their number. The bookkeeping is outside the blocks. Under
 * AddressSanitizer, free memory is poisoned and every block ends in a red zone. */
#ifndef TH_TENSOR_BLOCK_ALLOCATOR_H
#define TH_TENSOR_BLOCK_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct th_block th_block;

/* Where the allocator gets its memory. The context's source counts and limits it (tensor/memory.h). */
typedef struct th_chunk_source {
    /* Returns memory for the allocator's own records, aligned to 64 bytes; NULL if memory runs out. */
    void *(*allocate_record)(void *owner, size_t bytes);
    void (*release_record)(void *owner, void *memory, size_t bytes);
    /* Provides a chunk. Returns false if memory runs out. In a shapes-only context *memory is NULL, and the blocks of
     * the chunk have sizes and offsets, but no memory. */
    bool (*allocate_chunk)(void *owner, size_t bytes, void **memory);
    void (*release_chunk)(void *owner, void *memory, size_t bytes);
    void *owner;
} th_chunk_source;

typedef struct th_block_allocator {
    th_chunk_source source;
    size_t live;                    /* bytes in blocks */
    size_t reserved;                /* bytes in chunks */
    struct th_memory_chunk *newest; /* first of the list of chunks */
    th_block *free_runs;            /* root of a tree */
    uint64_t priority_state;        /* state of the random priorities in the tree */
    th_block *unused_records;       /* a list */
    void *record_pages;             /* list of the pages that contain the block records */
} th_block_allocator;

/* Initializes an empty allocator. */
void th_block_allocator_init(th_block_allocator *allocator, th_chunk_source source);
/* Returns all memory to the source. */
void th_block_allocator_destroy(th_block_allocator *allocator);

/* Allocates a block of at least `bytes`. 0 is legal and gives a block without memory. Returns NULL when memory is
 * out. */
th_block *th_block_allocate(th_block_allocator *allocator, size_t bytes);
/* Frees a block. */
void th_block_free(th_block_allocator *allocator, th_block *block);
/* Returns the block's memory, aligned to 64 bytes; NULL if it is empty or its chunk has no memory. */
void *th_block_data(const th_block *block);

#endif
