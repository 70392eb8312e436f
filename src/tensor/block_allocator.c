/* The first-fit block allocator. */
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

/* A run of memory in a chunk: a block, or free. All runs of a chunk are in a list, by address. */
struct th_block {
    struct th_memory_chunk *chunk;
    size_t offset, bytes; /* including the red zone */
    size_t used;          /* requested bytes, rounded up to cache lines; 0: the run is free */
    th_block *before, *after;
    /* of a free run: its node in the tree */
    th_block *left, *right;
    size_t largest; /* bytes of the longest run in this subtree */
    uint64_t priority;
};

struct th_memory_chunk {
    struct th_memory_chunk *previous;
    char *memory; /* NULL in a shapes-only context */
    size_t bytes;
    int64_t number; /* 0 for the first chunk; chunks are searched in this order */
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
    for (struct th_memory_chunk *chunk = allocator->newest, *previous; chunk; chunk = previous) {
        previous = chunk->previous;
        if (chunk->memory)
            TH_UNPOISON(chunk->memory, chunk->bytes);
        allocator->source.release_chunk(allocator->source.owner, chunk->memory, chunk->bytes);
        allocator->source.release_record(allocator->source.owner, chunk, sizeof *chunk);
    }
    for (struct th_record_page *page = allocator->record_pages, *next; page; page = next) {
        next = page->next;
        allocator->source.release_record(allocator->source.owner, page, sizeof *page);
    }
    th_block_allocator_init(allocator, allocator->source);
}

static th_block *record_new(th_block_allocator *allocator)
{
    if (allocator->unused_records == NULL) {
        struct th_record_page *page = allocator->source.allocate_record(allocator->source.owner, sizeof *page);
        if (page == NULL)
            return NULL;
        page->next = allocator->record_pages;
        allocator->record_pages = page;
        for (int i = TH_RECORDS_PER_PAGE - 1; i >= 0; i--) {
            page->record[i].after = allocator->unused_records;
            allocator->unused_records = &page->record[i];
        }
    }
    th_block *block = allocator->unused_records;
    allocator->unused_records = block->after;
    *block = (th_block){0};
    return block;
}

static void record_free(th_block_allocator *allocator, th_block *block)
{
    block->after = allocator->unused_records;
    allocator->unused_records = block;
}

/* -- the tree of free runs --
 *
 * It is a treap (Seidel and Aragon, 1996): a search tree by address and a heap by random priorities, so its depth is
 * about the logarithm of its size. Every node stores the longest run of its subtree. So a search from the root to one
 * leaf finds the first run that is long enough. */

static bool is_before(const th_block *a, const th_block *b)
{
    return a->chunk == b->chunk ? a->offset < b->offset : a->chunk->number < b->chunk->number;
}

static size_t largest_in(const th_block *tree)
{
    return tree ? tree->largest : 0;
}

static void update_largest(th_block *tree)
{
    const size_t left = largest_in(tree->left), right = largest_in(tree->right), below = left > right ? left : right;
    tree->largest = tree->bytes > below ? tree->bytes : below;
}

/* Splits a tree into the runs before `run` and the others. */
static void split_tree(th_block *tree, const th_block *run, th_block **before, th_block **after)
{
    if (tree == NULL) {
        *before = *after = NULL;
        return;
    }
    if (is_before(tree, run)) {
        split_tree(tree->right, run, &tree->right, after);
        *before = tree;
    } else {
        split_tree(tree->left, run, before, &tree->left);
        *after = tree;
    }
    update_largest(tree);
}

/* Joins two trees. All runs of the first are before all runs of the second. */
static th_block *join_trees(th_block *before, th_block *after)
{
    if (before == NULL || after == NULL)
        return before ? before : after;
    if (before->priority > after->priority) {
        before->right = join_trees(before->right, after);
        update_largest(before);
        return before;
    }
    after->left = join_trees(before, after->left);
    update_largest(after);
    return after;
}

/* Returns the tree with `run` inserted. */
static th_block *insert_run(th_block *tree, th_block *run)
{
    if (tree == NULL || run->priority > tree->priority) {
        split_tree(tree, run, &run->left, &run->right);
        tree = run;
    } else if (is_before(run, tree)) {
        tree->left = insert_run(tree->left, run);
    } else {
        tree->right = insert_run(tree->right, run);
    }
    update_largest(tree);
    return tree;
}

/* Returns the tree with `run` removed. */
static th_block *remove_run(th_block *tree, const th_block *run)
{
    if (tree == run)
        return join_trees(tree->left, tree->right);
    if (is_before(run, tree))
        tree->left = remove_run(tree->left, run);
    else
        tree->right = remove_run(tree->right, run);
    update_largest(tree);
    return tree;
}

/* Updates the tree after one of its runs became shorter. */
static void update_shorter(th_block *tree, const th_block *run)
{
    if (tree != run)
        update_shorter(is_before(run, tree) ? tree->left : tree->right, run);
    update_largest(tree);
}

/* Updates the tree after one of its runs became longer. */
static void update_longer(th_block *tree, const th_block *run)
{
    for (;; tree = is_before(run, tree) ? tree->left : tree->right) {
        tree->largest = run->bytes > tree->largest ? run->bytes : tree->largest;
        if (tree == run)
            return;
    }
}

/* Adds a free run to the tree. */
static void add_free_run(th_block_allocator *allocator, th_block *run)
{
    run->priority = th_splitmix64(&allocator->priority_state);
    allocator->free_runs = insert_run(allocator->free_runs, run);
}

/* Returns the first free run of at least `need` bytes, or NULL. */
static th_block *find_first_fit(const th_block_allocator *allocator, size_t need)
{
    th_block *run = allocator->free_runs;
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

/* Makes a block of the first `need` bytes of a free run. The rest of the run keeps its node in the tree. */
static th_block *cut_block(th_block_allocator *allocator, th_block *run, size_t need)
{
    if (run->bytes == need) {
        allocator->free_runs = remove_run(allocator->free_runs, run);
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
    update_shorter(allocator->free_runs, run);
    return block;
}

/* -- chunks -- */

/* Allocates a chunk and returns it as a free run. Its size is a quarter of the bytes in all chunks, at least
 * TH_MIN_CHUNK and at most TH_MAX_SLACK, or `need` if that is larger. So a large model reserves little more than it
 * needs. */
static th_block *chunk_new(th_block_allocator *allocator, size_t need)
{
    const size_t quarter = allocator->reserved / 4;
    size_t bytes = quarter < TH_MAX_SLACK ? quarter : (size_t)TH_MAX_SLACK;
    bytes = bytes < TH_MIN_CHUNK ? (size_t)TH_MIN_CHUNK : bytes / 64 * 64;
    bytes = bytes < need ? need : bytes;

    struct th_memory_chunk *chunk = allocator->source.allocate_record(allocator->source.owner, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    th_block *run = record_new(allocator);
    void *memory = NULL;
    bool granted = run && allocator->source.allocate_chunk(allocator->source.owner, bytes, &memory);
    if (run && !granted && bytes > need) { /* near the memory limit: only what is needed */
        bytes = need;
        granted = allocator->source.allocate_chunk(allocator->source.owner, bytes, &memory);
    }
    if (!granted) {
        if (run)
            record_free(allocator, run);
        allocator->source.release_record(allocator->source.owner, chunk, sizeof *chunk);
        return NULL;
    }
    if (memory)
        TH_POISON(memory, bytes);
    *chunk = (struct th_memory_chunk){.previous = allocator->newest,
                                      .memory = memory,
                                      .bytes = bytes,
                                      .number = allocator->newest ? allocator->newest->number + 1 : 0};
    allocator->newest = chunk;
    allocator->reserved += bytes;
    run->chunk = chunk;
    run->bytes = bytes;
    add_free_run(allocator, run);
    return run;
}

/* -- allocating and freeing -- */

th_block *th_block_allocate(th_block_allocator *allocator, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    const size_t used = (bytes + 63) / 64 * 64;
    if (used == 0)
        return record_new(allocator);
    const size_t need = used + TH_RED_ZONE;
    th_block *run = find_first_fit(allocator, need);
    if (run == NULL)
        run = chunk_new(allocator, need);
    th_block *block = run ? cut_block(allocator, run, need) : NULL;
    if (block == NULL)
        return NULL;
    block->used = used;
    allocator->live += used;
    if (block->chunk->memory)
        TH_UNPOISON(block->chunk->memory + block->offset, bytes);
    return block;
}

/* Removes a run from the list of its chunk, after a neighbor has taken over its bytes. */
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
            allocator->free_runs = remove_run(allocator->free_runs, after);
            before->bytes += after->bytes;
            unlink_run(allocator, after);
        }
        update_longer(allocator->free_runs, before);
    } else if (joins_after) {
        after->offset = block->offset;
        after->bytes += block->bytes;
        unlink_run(allocator, block);
        update_longer(allocator->free_runs, after);
    } else {
        add_free_run(allocator, block);
    }
}

void *th_block_data(const th_block *block)
{
    return block->chunk && block->chunk->memory ? block->chunk->memory + block->offset : NULL;
}
