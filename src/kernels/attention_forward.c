/* The forward of attention (attention.h). A task is a chunk of queries of one item, or several small items. For each
 * stripe of keys that some of them see, it packs the keys, copies the values, and takes its queries in blocks:
 *
 *     scores = q kᵀ;   weights = exp(scores scale + mask - maximum);   output = output factor + dropout(weights) v
 *
 * where maximum is the largest logit of the row so far, and factor, exp(maximum before - maximum now), brings what was
 * summed up under an earlier one to the present one. At the end o = output / sum of weights, and log_sum_exp = maximum
 * + log(sum). */
#include <string.h>

#include "kernels/attention_block.h"
#include "kernels/parallel.h"

enum {
    CHUNK = 10 * BLOCK_ROWS,      /* queries of a task at most where there are more stripes than one */
    LEAST_CHUNK = 2 * BLOCK_ROWS, /* at least, even if that makes few tasks: packing keys has to pay */
    TASKS_PER_THREAD = 4
};

typedef struct forward_memory {
    attention_copy q;   /* (BLOCK_ROWS, D) */
    attention_panels k; /* (D, STRIPE) */
    attention_copy v;   /* (STRIPE, Dv) */
    char *scores;       /* (BLOCK_ROWS, STRIPE) */
    int64_t stride;
    attention_copy output; /* (kept, Dv) */
    char *maximum, *sum;   /* (kept) */
} forward_memory;

typedef struct forward_work {
    attention_plan plan;
    char *workspace;
    size_t worker_bytes;
    int64_t chunk, chunks; /* queries that share packed keys; such parts of an item */
    int64_t together;      /* items of a task where they are not cut */
    bool one_stripe;       /* a block is finished before the next one is begun */
    int64_t kept;          /* queries whose output is kept: a chunk until its last stripe, or a block */
} forward_work;

static size_t take_memory(const forward_work *work, void *workspace, forward_memory *m)
{
    const attention_plan *p = &work->plan;
    attention_space space = {.base = workspace};
    const int64_t keys = th_item_min(p->a->keys, STRIPE), rows = th_item_min(p->a->queries, BLOCK_ROWS);
    m->stride = th_attention_stride(keys);
    m->q = th_attention_take_copy(p, &space, rows, p->a->width);
    m->k = th_attention_take_panels(p, &space, keys, p->a->width);
    m->v = th_attention_take_copy(p, &space, keys, p->a->value_width);
    m->scores = th_attention_take(&space, rows, m->stride, p->size);
    m->output = th_attention_take_copy(p, &space, work->kept, p->a->value_width);
    m->maximum = th_attention_take(&space, work->kept, 1, p->size);
    m->sum = th_attention_take(&space, work->kept, 1, p->size);
    return space.used;
}

/* Queries of a chunk: all of an item's, unless that makes too few tasks or there is more than one stripe. No bit
 * depends on it. */
static int64_t choose_chunk(const attention_plan *p, int threads, int64_t most)
{
    const int64_t blocks = th_item_parts(p->a->queries, BLOCK_ROWS);
    int64_t chunk = th_item_min(blocks * BLOCK_ROWS, most);
    if (threads > 1 && p->items > 0 && p->items < (int64_t)threads * TASKS_PER_THREAD) {
        const int64_t tasks = th_item_parts((int64_t)threads * TASKS_PER_THREAD, p->items);
        const int64_t wanted = th_item_parts(blocks, tasks) * BLOCK_ROWS;
        chunk = th_item_min(chunk, wanted > LEAST_CHUNK ? wanted : LEAST_CHUNK);
    }
    return chunk;
}

static forward_work make_work(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    forward_work work = {.plan = th_attention_plan(machine, dtype, a), .one_stripe = a->keys <= STRIPE};
    work.chunk = choose_chunk(&work.plan, threads, work.one_stripe ? INT64_MAX : CHUNK);
    work.chunks = work.chunk > 0 ? th_item_parts(a->queries, work.chunk) : 0;
    work.together = 1;
    if (work.chunks == 1)
        work.together = th_attention_items_of_task(
            work.plan.items, (double)a->queries * (double)a->keys * (double)(a->width + a->value_width), threads);
    work.kept = work.one_stripe ? th_item_min(a->queries, BLOCK_ROWS) : work.chunk;
    forward_memory m;
    work.worker_bytes = take_memory(&work, NULL, &m);
    return work;
}

size_t th_attention_forward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    size_t bytes;
    return __builtin_mul_overflow(make_work(machine, dtype, a, threads).worker_bytes, (size_t)threads, &bytes)
               ? SIZE_MAX
               : bytes;
}

/* One block against one stripe, whose keys and values are in place. row: of the block's first query among those kept.
 */
static void forward_block(const attention_plan *p, forward_memory *m, const attention_item *item,
                          const attention_block *block, int64_t row, bool fresh)
{
    char *output = m->output.data + row * m->output.stride * p->size;
    th_attention_load(p, &m->q, 0, &p->a->q, item, block->query, block->rows);
    th_attention_scores(p, block, &m->q, &m->k, m->scores, m->stride);
    const th_attention_rows rows = th_attention_block_rows(p, item, block, m->scores, m->stride);
    p->kernels->attention_softmax(&rows, fresh, m->maximum + row * p->size, m->sum + row * p->size, p->a->value_width,
                                  output, m->output.stride);
    th_attention_rows_product(p, block, m->scores, m->scores, m->stride, &m->v, output, m->output.stride, !fresh);
}

/* started: it has seen some keys. */
static void finish_block(const attention_plan *p, const forward_memory *m, const attention_item *item,
                         const attention_block *block, int64_t row, bool started)
{
    const th_attention *a = p->a;
    char *sum = m->sum + row * p->size;
    if (!started)
        memset(sum, 0, (size_t)(block->rows * p->size));
    p->kernels->attention_finish(block->rows, a->value_width, m->maximum + row * p->size, sum,
                                 m->output.data + row * m->output.stride * p->size, m->output.stride,
                                 th_attention_at(&a->o, item, block->query, 0, p->size), a->o.row, a->o.column,
                                 th_attention_at(&a->log_sum_exp, item, block->query, 0, p->size), a->log_sum_exp.row);
}

/* Brings in those of the keys start .. start + count - 1 that some of the queries see. */
static void load_stripe(const attention_plan *p, forward_memory *m, const attention_item *item, int64_t query,
                        int64_t past, int64_t start, int64_t count)
{
    int64_t least, most;
    if (!th_attention_seen(p, item, query, past - query, start, count, &least, &most))
        return;
    least = least / LANES * LANES;
    th_attention_pack(p, &m->k, &p->a->k, item, start, least, most);
    th_attention_load(p, &m->v, least, &p->a->v, item, start + least, most - least);
}

/* The queries query .. past - 1 of an item. */
static void forward_chunk(const forward_work *work, forward_memory *m, const attention_item *item, int64_t query,
                          int64_t past)
{
    const attention_plan *p = &work->plan;
    bool started[CHUNK / BLOCK_ROWS] = {false};
    int64_t start = 0;
    do { /* once even if there are no keys: finish_block writes what comes out then */
        const int64_t count = th_item_min(p->a->keys - start, STRIPE);
        load_stripe(p, m, item, query, past, start, count);
        for (int64_t t = query; t < past; t += BLOCK_ROWS) {
            const int64_t row = work->one_stripe ? 0 : t - query;
            bool *has_started = &started[row / BLOCK_ROWS];
            attention_block block;
            const bool seen = th_attention_block(p, item, t, th_item_min(past - t, BLOCK_ROWS), start, count, &block);
            if (start == 0)
                *has_started = false;
            if (seen)
                forward_block(p, m, item, &block, row, !*has_started);
            *has_started |= seen;
            if (start + count == p->a->keys)
                finish_block(p, m, item, &block, row, *has_started);
        }
        start += count;
    } while (start < p->a->keys);
}

static void forward_task(void *shared, int64_t index, int worker)
{
    const forward_work *work = shared;
    const th_attention *a = work->plan.a;
    const int64_t number = index / work->chunks * work->together, query = index % work->chunks * work->chunk;
    const int64_t end = th_item_min(number + work->together, work->plan.items);
    forward_memory m;
    take_memory(work, work->workspace + (size_t)worker * work->worker_bytes, &m);
    for (attention_item item = th_attention_item(a, number); item.number < end; th_attention_next_item(a, &item))
        forward_chunk(work, &m, &item, query, th_item_min(query + work->chunk, a->queries));
}

void th_attention_forward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                          void *workspace)
{
    forward_work work = make_work(machine, dtype, a, threads);
    work.workspace = workspace;
    th_parallel(threads, th_item_parts(work.plan.items, work.together) * work.chunks, forward_task, &work);
}
