/* A first-fit allocator: chunks cut into blocks. What follows from that for the user of it is in block_allocator.h. */
#include "tensor/block_allocator.h"

#include <stdint.h>

#include "tensor/splitmix.h"

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

enum { TH_MIN_CHUNK = 256 * 1024, TH_MAX_SLACK = 16 * 1024 * 1024, TH_RECORDS_PER_PAGE = 101 };

/* A run of a chunk, free or taken. All runs of a chunk form a list by address. */
struct th_block {
    struct th_chunk *chunk;
    size_t offset, bytes; /* with the red zone */
    size_t used;          /* bytes asked for, in cache lines; 0 when free */
    th_block *before, *after;
    /* of a free run, in the tree */
    th_block *left, *right;
    size_t largest; /* bytes of the longest run in its part of the tree */
    uint64_t priority;
};

struct th_chunk {
    struct th_chunk *previous;
    char *memory; /* NULL in a run of shapes only */
    size_t bytes;
    int64_t number; /* chunks are searched in the order in which they were taken */
};

struct th_record_page {
    struct th_record_page *next;
    th_block record[TH_RECORDS_PER_PAGE];
};

void th_block_allocator_init(th_block_allocator *allocator, th_chunk_source source)
{
    *allocator = (th_block_allocator){.source = source};
}

void th_block_allocator_destroy(th_block_allocator *allocator)
{
    for (struct th_chunk *chunk = allocator->newest, *previous; chunk; chunk = previous) {
        previous = chunk->previous;
        if (chunk->memory)
            TH_UNPOISON(chunk->memory, chunk->bytes);
        allocator->source.give_chunk(allocator->source.owner, chunk->memory, chunk->bytes);
        allocator->source.give(allocator->source.owner, chunk, sizeof *chunk);
    }
    for (struct th_record_page *page = allocator->records, *next; page; page = next) {
        next = page->next;
        allocator->source.give(allocator->source.owner, page, sizeof *page);
    }
    th_block_allocator_init(allocator, allocator->source);
}

static th_block *record_new(th_block_allocator *allocator)
{
    if (allocator->spare == NULL) {
        struct th_record_page *page = allocator->source.take(allocator->source.owner, sizeof *page);
        if (page == NULL)
            return NULL;
        page->next = allocator->records;
        allocator->records = page;
        for (int i = TH_RECORDS_PER_PAGE - 1; i >= 0; i--) {
            page->record[i].after = allocator->spare;
            allocator->spare = &page->record[i];
        }
    }
    th_block *block = allocator->spare;
    allocator->spare = block->after;
    *block = (th_block){0};
    return block;
}

static void record_free(th_block_allocator *allocator, th_block *block)
{
    block->after = allocator->spare;
    allocator->spare = block;
}

/* -- the tree of free runs: by place, and as a heap by priorities that look random, so that it is about as deep as the
 * logarithm of its size (a treap: Seidel and Aragon, 1996). Every run knows the longest one below it, so that the first
 * that is long enough is found on one way down. -- */

static bool lies_before(const th_block *a, const th_block *b)
{
    return a->chunk == b->chunk ? a->offset < b->offset : a->chunk->number < b->chunk->number;
}

static size_t largest_in(const th_block *tree)
{
    return tree ? tree->largest : 0;
}

static void note_largest(th_block *tree)
{
    const size_t left = largest_in(tree->left), right = largest_in(tree->right), below = left > right ? left : right;
    tree->largest = tree->bytes > below ? tree->bytes : below;
}

/* Cuts a tree into what lies before a place and what lies behind it. */
static void split(th_block *tree, const th_block *at, th_block **before, th_block **behind)
{
    if (tree == NULL) {
        *before = *behind = NULL;
        return;
    }
    if (lies_before(tree, at)) {
        split(tree->right, at, &tree->right, behind);
        *before = tree;
    } else {
        split(tree->left, at, before, &tree->left);
        *behind = tree;
    }
    note_largest(tree);
}

/* One tree of two, all of the first lying before all of the second. */
static th_block *join(th_block *before, th_block *behind)
{
    if (before == NULL || behind == NULL)
        return before ? before : behind;
    if (before->priority > behind->priority) {
        before->right = join(before->right, behind);
        note_largest(before);
        return before;
    }
    behind->left = join(before, behind->left);
    note_largest(behind);
    return behind;
}

static th_block *with(th_block *tree, th_block *run)
{
    if (tree == NULL || run->priority > tree->priority) {
        split(tree, run, &run->left, &run->right);
        tree = run;
    } else if (lies_before(run, tree)) {
        tree->left = with(tree->left, run);
    } else {
        tree->right = with(tree->right, run);
    }
    note_largest(tree);
    return tree;
}

static th_block *without(th_block *tree, const th_block *run)
{
    if (tree == run)
        return join(tree->left, tree->right);
    if (lies_before(run, tree))
        tree->left = without(tree->left, run);
    else
        tree->right = without(tree->right, run);
    note_largest(tree);
    return tree;
}

/* After a run in the tree has become shorter, or longer; its place among the others has not changed. */
static void shorter(th_block *tree, const th_block *run)
{
    if (tree != run)
        shorter(lies_before(run, tree) ? tree->left : tree->right, run);
    note_largest(tree);
}

static void longer(th_block *tree, const th_block *run)
{
    for (;; tree = lies_before(run, tree) ? tree->left : tree->right) {
        tree->largest = run->bytes > tree->largest ? run->bytes : tree->largest;
        if (tree == run)
            return;
    }
}

static void free_run(th_block_allocator *allocator, th_block *run)
{
    run->priority = th_splitmix64(&allocator->draws);
    allocator->free = with(allocator->free, run);
}

/* The first free run of at least `need` bytes. */
static th_block *find(const th_block_allocator *allocator, size_t need)
{
    th_block *run = allocator->free;
    if (largest_in(run) < need)
        return NULL;
    for (;;) {
        if (largest_in(run->left) >= need)
            run = run->left;
        else if (run->bytes >= need)
            return run;
        else
            run = run->right;
    }
}

/* Takes the first `need` bytes of a free run: what is left of it stays where it is in the tree. */
static th_block *carve(th_block_allocator *allocator, th_block *run, size_t need)
{
    if (run->bytes == need) {
        allocator->free = without(allocator->free, run);
        return run;
    }
    th_block *block = record_new(allocator);
    if (block == NULL)
        return NULL;
    block->chunk = run->chunk;
    block->offset = run->offset;
    block->bytes = need;
    block->before = run->before;
    block->after = run;
    if (block->before)
        block->before->after = block;
    run->before = block;
    run->offset += need;
    run->bytes -= need;
    shorter(allocator->free, run);
    return block;
}

/* -- chunks -- */

/* A new chunk for at least `need` bytes: a quarter of what there is at a time, so that large models do not reserve much
 * too much. Returns it as a free run. */
static th_block *chunk_new(th_block_allocator *allocator, size_t need)
{
    const size_t quarter = allocator->reserved / 4;
    size_t bytes = quarter < TH_MAX_SLACK ? quarter : (size_t)TH_MAX_SLACK;
    bytes = bytes < TH_MIN_CHUNK ? (size_t)TH_MIN_CHUNK : bytes / 64 * 64;
    bytes = bytes < need ? need : bytes;

    struct th_chunk *chunk = allocator->source.take(allocator->source.owner, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    th_block *run = record_new(allocator);
    void *memory = NULL;
    bool granted = run && allocator->source.take_chunk(allocator->source.owner, bytes, &memory);
    if (run && !granted && bytes > need) { /* near a limit: just what is needed */
        bytes = need;
        granted = allocator->source.take_chunk(allocator->source.owner, bytes, &memory);
    }
    if (!granted) {
        if (run)
            record_free(allocator, run);
        allocator->source.give(allocator->source.owner, chunk, sizeof *chunk);
        return NULL;
    }
    if (memory)
        TH_POISON(memory, bytes);
    *chunk = (struct th_chunk){.previous = allocator->newest,
                               .memory = memory,
                               .bytes = bytes,
                               .number = allocator->newest ? allocator->newest->number + 1 : 0};
    allocator->newest = chunk;
    allocator->reserved += bytes;
    run->chunk = chunk;
    run->bytes = bytes;
    free_run(allocator, run);
    return run;
}

/* -- taking and giving back -- */

th_block *th_block_allocate(th_block_allocator *allocator, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    const size_t used = (bytes + 63) / 64 * 64;
    if (used == 0)
        return record_new(allocator);
    const size_t need = used + TH_RED_ZONE;
    th_block *run = find(allocator, need);
    if (run == NULL)
        run = chunk_new(allocator, need);
    th_block *block = run ? carve(allocator, run, need) : NULL;
    if (block == NULL)
        return NULL;
    block->used = used;
    allocator->live += used;
    if (block->chunk->memory)
        TH_UNPOISON(block->chunk->memory + block->offset, bytes);
    return block;
}

/* A run leaves the list of its chunk: its neighbor has taken its bytes. */
static void unlink_run(th_block_allocator *allocator, th_block *run)
{
    if (run->before)
        run->before->after = run->after;
    if (run->after)
        run->after->before = run->before;
    record_free(allocator, run);
}

void th_block_free(th_block_allocator *allocator, th_block *block)
{
    if (block->used == 0) {
        record_free(allocator, block);
        return;
    }
    if (block->chunk->memory)
        TH_POISON(block->chunk->memory + block->offset, block->bytes);
    allocator->live -= block->used;
    block->used = 0;

    th_block *before = block->before, *after = block->after;
    const bool joins_before = before && before->used == 0, joins_after = after && after->used == 0;
    if (joins_before) {
        before->bytes += block->bytes;
        unlink_run(allocator, block);
        if (joins_after) {
            allocator->free = without(allocator->free, after);
            before->bytes += after->bytes;
            unlink_run(allocator, after);
        }
        longer(allocator->free, before);
    } else if (joins_after) {
        after->offset = block->offset;
        after->bytes += block->bytes;
        unlink_run(allocator, block);
        longer(allocator->free, after);
    } else {
        free_run(allocator, block);
    }
}

void *th_block_data(const th_block *block)
{
    return block->chunk && block->chunk->memory ? block->chunk->memory + block->offset : NULL;
}
