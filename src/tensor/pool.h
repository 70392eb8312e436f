/* Two allocators for records that live as long as a step or a context: pools, of records of one size, and bump
 * allocators, of any size. Records never move, and are released all at once. */
#ifndef TH_TENSOR_POOL_H
#define TH_TENSOR_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tapehead/base.h"

/* Records of one size. Pages come from th_allocate and are kept until th_pool_destroy. */
typedef struct th_pool {
    size_t record_bytes;
    int64_t count; /* records in use */
    int64_t capacity;
    void **page_table; /* page_table[i] holds TH_POOL_PAGE_RECORDS records */
    int64_t pages;
    size_t page_table_bytes;
} th_pool;

enum { TH_POOL_PAGE_RECORDS = 256 };

/* Initializes an empty pool. */
void th_pool_init(th_pool *pool, size_t record_bytes);
/* Releases all pages. */
void th_pool_destroy(th_context *ctx, th_pool *pool);
/* Returns the next record. Its bytes are zero, or left over from before the last reset. Returns NULL if memory runs
 * out. */
void *th_pool_new(th_context *ctx, th_pool *pool);
/* Returns a record by its index: 0 for the first one after a reset. */
static inline void *th_pool_at(const th_pool *pool, int64_t index)
{
    const uint64_t i = (uint64_t)index;
    return (char *)pool->page_table[i / TH_POOL_PAGE_RECORDS] + (size_t)(i % TH_POOL_PAGE_RECORDS) * pool->record_bytes;
}
/* Ends all records. Keeps the pages. */
static inline void th_pool_reset(th_pool *pool)
{
    pool->count = 0;
}

/* A bump allocator. Sizes are rounded up to 16 bytes. All zero is an empty one. */
typedef struct th_bump {
    struct th_bump_page *pages, *current;
} th_bump;

/* A position in a bump allocator. */
typedef struct th_bump_mark {
    struct th_bump_page *page; /* NULL: nothing had been allocated */
    size_t used;
} th_bump_mark;

/* Allocates memory. Returns NULL if memory runs out. */
void *th_bump_allocate(th_context *ctx, th_bump *bump, size_t bytes);
/* Returns the current position. */
th_bump_mark th_bump_get_mark(const th_bump *bump);
/* Releases everything that was allocated after the mark. Keeps the pages. */
void th_bump_rewind(th_bump *bump, th_bump_mark mark);
/* Releases everything. Keeps the pages. */
void th_bump_reset(th_bump *bump);
/* Releases all pages. */
void th_bump_destroy(th_context *ctx, th_bump *bump);

#endif
