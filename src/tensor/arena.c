/* The arena: chunks cut into blocks, first fit. See arena.h for the promise that follows from it. */
#include "tensor/arena.h"

#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define TH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TH_ASAN 1
#endif
#endif
#ifdef TH_ASAN
#include <sanitizer/asan_interface.h>
enum { TH_RED_ZONE = 64 };
#define TH_POISON(memory, bytes) ASAN_POISON_MEMORY_REGION((memory), (bytes))
#define TH_UNPOISON(memory, bytes) ASAN_UNPOISON_MEMORY_REGION((memory), (bytes))
#else
enum { TH_RED_ZONE = 0 };
#define TH_POISON(memory, bytes) ((void)(memory), (void)(bytes))
#define TH_UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

enum { TH_MIN_CHUNK = 256 * 1024, TH_MAX_SLACK = 16 * 1024 * 1024, TH_RECORDS_PER_PAGE = 126 };

/* A run of a chunk, free or taken. All runs of a chunk form a list by address; the free ones a second list, by address
 * too. */
struct th_block {
    struct th_chunk *chunk;
    size_t offset, bytes; /* with the red zone */
    size_t used;          /* bytes asked for, in cache lines; 0 when free */
    th_block *before, *after;
    th_block *free_before, *free_after;
};

struct th_chunk {
    struct th_chunk *next;
    char *memory; /* NULL when virtual */
    size_t bytes;
    size_t largest; /* no free run is longer than this (an upper bound: lowered when a search fails) */
    th_block *first_free;
};

struct th_record_page {
    struct th_record_page *next;
    th_block record[TH_RECORDS_PER_PAGE];
};

void th_arena_init(th_arena *arena, th_chunk_source source, bool virtual_only)
{
    *arena = (th_arena){.source = source, .virtual_only = virtual_only};
}

void th_arena_destroy(th_arena *arena)
{
    for (struct th_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (chunk->memory) {
            TH_UNPOISON(chunk->memory, chunk->bytes);
            arena->source.give(arena->source.owner, chunk->memory, chunk->bytes);
        }
        arena->source.give(arena->source.owner, chunk, sizeof *chunk);
    }
    for (struct th_record_page *page = arena->records, *next; page; page = next) {
        next = page->next;
        arena->source.give(arena->source.owner, page, sizeof *page);
    }
    th_arena_init(arena, arena->source, arena->virtual_only);
}

static th_block *record_new(th_arena *arena)
{
    if (arena->spare == NULL) {
        struct th_record_page *page = arena->source.take(arena->source.owner, sizeof *page);
        if (page == NULL)
            return NULL;
        page->next = arena->records;
        arena->records = page;
        for (int i = TH_RECORDS_PER_PAGE - 1; i >= 0; i--) {
            page->record[i].after = arena->spare;
            arena->spare = &page->record[i];
        }
    }
    th_block *block = arena->spare;
    arena->spare = block->after;
    *block = (th_block){0};
    return block;
}

static void record_free(th_arena *arena, th_block *block)
{
    block->after = arena->spare;
    arena->spare = block;
}

static void free_list_insert(th_block *block, th_block *before, th_block *after)
{
    block->free_before = before;
    block->free_after = after;
    if (before)
        before->free_after = block;
    else
        block->chunk->first_free = block;
    if (after)
        after->free_before = block;
}

static void free_list_remove(th_block *block)
{
    if (block->free_before)
        block->free_before->free_after = block->free_after;
    else
        block->chunk->first_free = block->free_after;
    if (block->free_after)
        block->free_after->free_before = block->free_before;
}

/* Takes the first `need` bytes of a free run. */
static th_block *carve(th_arena *arena, th_block *run, size_t need)
{
    if (run->bytes > need) {
        th_block *rest = record_new(arena);
        if (rest == NULL)
            return NULL;
        rest->chunk = run->chunk;
        rest->offset = run->offset + need;
        rest->bytes = run->bytes - need;
        rest->before = run;
        rest->after = run->after;
        if (rest->after)
            rest->after->before = rest;
        run->after = rest;
        run->bytes = need;
        th_block *before = run->free_before, *after = run->free_after;
        free_list_remove(run);
        free_list_insert(rest, before, after);
    } else {
        free_list_remove(run);
    }
    return run;
}

static th_block *find(struct th_chunk *chunk, size_t need)
{
    if (chunk->largest < need)
        return NULL;
    size_t largest = 0;
    for (th_block *run = chunk->first_free; run; run = run->free_after) {
        if (run->bytes >= need)
            return run;
        largest = run->bytes > largest ? run->bytes : largest;
    }
    chunk->largest = largest;
    return NULL;
}

/* A new chunk for at least `need` bytes: a quarter of what there is at a time, so that large models do not reserve much
 * too much. */
static struct th_chunk *chunk_new(th_arena *arena, size_t need)
{
    size_t total = 0;
    struct th_chunk **end = &arena->chunks;
    for (; *end; end = &(*end)->next)
        total += (*end)->bytes;
    size_t bytes = total / 4 < TH_MAX_SLACK ? total / 4 : (size_t)TH_MAX_SLACK;
    bytes = bytes < TH_MIN_CHUNK ? (size_t)TH_MIN_CHUNK : bytes / 64 * 64;
    bytes = bytes < need ? need : bytes;

    struct th_chunk *chunk = arena->source.take(arena->source.owner, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    *chunk = (struct th_chunk){.bytes = bytes, .largest = bytes};
    th_block *run = record_new(arena);
    if (run && !arena->virtual_only) {
        chunk->memory = arena->source.take(arena->source.owner, bytes);
        if (chunk->memory == NULL && bytes > need) { /* near a limit: just what is needed */
            bytes = chunk->bytes = chunk->largest = need;
            chunk->memory = arena->source.take(arena->source.owner, bytes);
        }
    }
    if (run == NULL || (chunk->memory == NULL && !arena->virtual_only)) {
        if (run)
            record_free(arena, run);
        arena->source.give(arena->source.owner, chunk, sizeof *chunk);
        return NULL;
    }
    if (chunk->memory)
        TH_POISON(chunk->memory, bytes);
    run->chunk = chunk;
    run->bytes = bytes;
    free_list_insert(run, NULL, NULL);
    *end = chunk;
    return chunk;
}

th_block *th_arena_take(th_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    const size_t used = (bytes + 63) / 64 * 64;
    if (used == 0)
        return record_new(arena);
    const size_t need = used + TH_RED_ZONE;
    th_block *run = NULL;
    for (struct th_chunk *chunk = arena->chunks; chunk && !run; chunk = chunk->next)
        run = find(chunk, need);
    if (run == NULL) {
        struct th_chunk *chunk = chunk_new(arena, need);
        run = chunk ? chunk->first_free : NULL;
    }
    th_block *block = run ? carve(arena, run, need) : NULL;
    if (block == NULL)
        return NULL;
    block->used = used;
    arena->live += used;
    if (block->chunk->memory)
        TH_UNPOISON(block->chunk->memory + block->offset, bytes);
    return block;
}

/* Joins a free run with the one after it. */
static void merge_with_next(th_arena *arena, th_block *run)
{
    th_block *next = run->after;
    free_list_remove(next);
    run->bytes += next->bytes;
    run->after = next->after;
    if (run->after)
        run->after->before = run;
    record_free(arena, next);
}

void th_arena_give(th_arena *arena, th_block *block)
{
    if (block->used == 0) {
        record_free(arena, block);
        return;
    }
    struct th_chunk *chunk = block->chunk;
    if (chunk->memory)
        TH_POISON(chunk->memory + block->offset, block->bytes);
    arena->live -= block->used;
    block->used = 0;

    th_block *before = block->before; /* the nearest free run below */
    while (before && before->used)
        before = before->before;
    free_list_insert(block, before, before ? before->free_after : chunk->first_free);
    if (block->after && block->after->used == 0)
        merge_with_next(arena, block);
    if (block->before && block->before->used == 0) {
        block = block->before;
        merge_with_next(arena, block);
    }
    chunk->largest = block->bytes > chunk->largest ? block->bytes : chunk->largest;
}

void *th_block_data(const th_block *block)
{
    return block->chunk && block->chunk->memory ? block->chunk->memory + block->offset : NULL;
}
