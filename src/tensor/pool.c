/* Pools of records, and bump allocators. */
#include "tensor/pool.h"

#include <string.h>

#include "tensor/memory.h"

void th_pool_init(th_pool *pool, size_t record_bytes)
{
    *pool = (th_pool){.record_bytes = record_bytes};
}

void th_pool_destroy(th_context *ctx, th_pool *pool)
{
    for (int64_t i = 0; i < pool->pages; i++)
        th_release(ctx, pool->page_table[i], pool->record_bytes * TH_POOL_PAGE_RECORDS);
    th_release(ctx, pool->page_table, pool->page_table_bytes);
    th_pool_init(pool, pool->record_bytes);
}

/* Makes space for one more page pointer. */
static bool grow_page_table(th_context *ctx, th_pool *pool)
{
    if ((size_t)(pool->pages + 1) * sizeof(void *) <= pool->page_table_bytes)
        return true;
    const size_t bytes = pool->page_table_bytes ? 2 * pool->page_table_bytes : 64;
    void **table = th_allocate(ctx, bytes);
    if (table == NULL)
        return false;
    if (pool->pages)
        memcpy(table, pool->page_table, (size_t)pool->pages * sizeof(void *));
    th_release(ctx, pool->page_table, pool->page_table_bytes);
    pool->page_table = table;
    pool->page_table_bytes = bytes;
    return true;
}

static bool add_page(th_context *ctx, th_pool *pool)
{
    if (!grow_page_table(ctx, pool))
        return false;
    const size_t bytes = pool->record_bytes * TH_POOL_PAGE_RECORDS;
    void *page = th_allocate(ctx, bytes);
    if (page == NULL)
        return false;
    memset(page, 0, bytes);
    pool->page_table[pool->pages++] = page;
    pool->capacity += TH_POOL_PAGE_RECORDS;
    return true;
}

void *th_pool_new(th_context *ctx, th_pool *pool)
{
    if (pool->count == pool->capacity && !add_page(ctx, pool))
        return NULL;
    return th_pool_at(pool, pool->count++);
}

enum { TH_BUMP_PAGE = 16 * 1024 };

struct th_bump_page {
    struct th_bump_page *next;
    size_t bytes, used; /* including this header */
};

void *th_bump_allocate(th_context *ctx, th_bump *bump, size_t bytes)
{
    const size_t header = (sizeof(struct th_bump_page) + 15) / 16 * 16;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    const size_t rounded = (bytes + 15) / 16 * 16;
    struct th_bump_page *last = bump->current;
    for (struct th_bump_page *page = last ? last : bump->pages; page; page = page->next) {
        if (page->bytes - page->used >= rounded) {
            void *result = (char *)page + page->used;
            page->used += rounded;
            bump->current = page;
            return result;
        }
        last = page;
    }
    const size_t size = header + rounded > TH_BUMP_PAGE ? header + rounded : (size_t)TH_BUMP_PAGE;
    struct th_bump_page *page = th_allocate(ctx, size);
    if (page == NULL)
        return NULL;
    *page = (struct th_bump_page){.bytes = size, .used = header + rounded};
    if (last)
        last->next = page;
    else
        bump->pages = page;
    bump->current = page;
    return (char *)page + header;
}

th_bump_mark th_bump_get_mark(const th_bump *bump)
{
    return (th_bump_mark){bump->current, bump->current ? bump->current->used : 0};
}

/* Keeps the pages after the mark, empty. */
void th_bump_rewind(th_bump *bump, th_bump_mark mark)
{
    for (struct th_bump_page *page = mark.page ? mark.page->next : bump->pages; page; page = page->next)
        page->used = (sizeof(struct th_bump_page) + 15) / 16 * 16;
    if (mark.page)
        mark.page->used = mark.used;
    bump->current = mark.page ? mark.page : bump->pages;
}

void th_bump_reset(th_bump *bump)
{
    th_bump_rewind(bump, (th_bump_mark){NULL, 0});
}

void th_bump_destroy(th_context *ctx, th_bump *bump)
{
    for (struct th_bump_page *page = bump->pages, *next; page; page = next) {
        next = page->next;
        th_release(ctx, page, page->bytes);
    }
    *bump = (th_bump){0};
}
