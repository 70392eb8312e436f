/* Pools: records of one size in pages that never move, handed out one after another. */
#ifndef TH_TENSOR_POOL_H
#define TH_TENSOR_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tapehead/base.h"

/* Records of a fixed size. Pages come from th_allocate and stay until the pool is destroyed. */
typedef struct th_pool {
    size_t record; /* bytes of one */
    int64_t count; /* handed out since the last reset */
    int64_t capacity;
    void **page; /* page[i] holds TH_POOL_PAGE records */
    int64_t pages;
    size_t page_table_bytes;
} th_pool;

enum { TH_POOL_PAGE = 256 };

void th_pool_init(th_pool *pool, size_t record);
void th_pool_destroy(th_context *ctx, th_pool *pool);
/* A new record, its bytes as they were left; NULL when memory is out. */
void *th_pool_new(th_context *ctx, th_pool *pool);
static inline void *th_pool_at(const th_pool *pool, int64_t index)
{
    const uint64_t i = (uint64_t)index;
    return (char *)pool->page[i / TH_POOL_PAGE] + (size_t)(i % TH_POOL_PAGE) * pool->record;
}
static inline void th_pool_reset(th_pool *pool)
{
    pool->count = 0;
}

/* Bytes of any size, handed out in runs of whole 16 bytes; all are given back at once. */
typedef struct th_bump {
    struct th_bump_page *pages, *current;
} th_bump;

/* How far a bump was at some time. */
typedef struct th_bump_mark {
    struct th_bump_page *page; /* NULL: nothing had been taken */
    size_t used;
} th_bump_mark;

void *th_bump_take(th_context *ctx, th_bump *bump, size_t bytes); /* NULL when memory is out */
th_bump_mark th_bump_mark_now(const th_bump *bump);
void th_bump_rewind(th_bump *bump, th_bump_mark mark); /* gives back what was taken since */
void th_bump_reset(th_bump *bump);
void th_bump_destroy(th_context *ctx, th_bump *bump);

#endif
