/* The forward of attention (attention.h). A task is a chunk of queries of one head, or several small heads. It visits
 * each block of keys in which its queries see any key. There it packs the keys, copies the values, and processes its
 * queries in blocks. Very few queries (a step of generation) read keys and values in place:
 *
 *     S = cap(scale Q Kᵀ) + alibi + mask;   weights = exp(S - maximum);   output = output factor + dropout(weights) V
 *
 * maximum is the largest score of the row so far. factor = exp(previous maximum - maximum) rescales the earlier sum. At
 * the end O = output / sum of weights, and log_sum_exp = maximum + log(sum). */
#include <string.h>

#include "kernels/attention/attention_tile.h"
#include "kernels/machine/parallel.h"
#include "kernels/product_block.h"

enum {
    KEY_BLOCK = 1024, /* keys between two changes of the running maximum */
    CHUNK = 10,       /* max blocks of queries of a task, if there are several blocks of keys */
    MIN_CHUNK = 2,    /* min blocks, even if that makes few tasks: packing keys must pay */
    TASKS_PER_THREAD = 4
};

typedef struct forward_memory {
    attention_copy q;        /* (query_block, D) */
    attention_operand k;     /* (KEY_BLOCK, D) */
    attention_copy v;        /* (KEY_BLOCK, Dv) */
    attention_buffer scores; /* (query_block, KEY_BLOCK): Q Kᵀ, then S, then the weights after dropout */
    attention_copy output;   /* (output_rows, Dv) */
    char *maximum, *sum;     /* (output_rows) */
} forward_memory;

typedef struct forward_work {
    attention_problem problem;
    char *workspace;
    size_t worker_bytes;
    int64_t chunk_queries; /* queries that share packed keys */
    int64_t chunks_of_head;
    int64_t heads_of_task; /* 1 if heads are divided */
    bool keys_in_place, values_in_place;
    bool one_key_block;  /* a block of queries is finished before the next begins */
    int64_t output_rows; /* queries whose output is in the workspace: one block if it is finished before the next
                              begins, otherwise a chunk */
} forward_work;

static size_t reserve_memory(const forward_work *work, void *workspace, forward_memory *m)
{
    const attention_problem *p = &work->problem;
    attention_space space = {.base = workspace};
    const int64_t keys = th_smaller(p->a->keys, KEY_BLOCK), rows = th_smaller(p->a->queries, p->query_block);
    m->q = th_attention_reserve_copy(p, &space, rows, p->a->width, AS_LEFT);
    m->k = th_attention_reserve_keys(p, &space, keys, p->a->width);
    m->v = th_attention_reserve_copy(p, &space, keys, p->a->value_width, AS_RIGHT);
    m->scores = th_attention_reserve_buffer(p, &space, rows, keys, false);
    m->output = th_attention_reserve_copy(p, &space, work->output_rows, p->a->value_width, 0);
    m->maximum = th_attention_reserve(&space, work->output_rows, 1, p->size);
    m->sum = th_attention_reserve(&space, work->output_rows, 1, p->size);
    return space.used;
}

/* Returns the number of queries of a chunk. A chunk has all queries of a head, unless the tasks would be too few or
 * there are several blocks of keys. No bit depends on it. */
static int64_t queries_of_chunk(const attention_problem *p, int threads, int64_t max)
{
    const int64_t query_blocks = th_ceil_div(p->a->queries, p->query_block);
    int64_t chunk = th_smaller(query_blocks, max);
    if (threads > 1 && p->heads > 0 && p->heads < (int64_t)threads * TASKS_PER_THREAD) {
        const int64_t tasks = th_ceil_div((int64_t)threads * TASKS_PER_THREAD, p->heads);
        chunk = th_smaller(chunk, th_larger(th_ceil_div(query_blocks, tasks), MIN_CHUNK));
    }
    return chunk * p->query_block;
}

/* Decides whether keys are read in place. Packing them would take longer than multiplying them by few queries. No bit
 * depends on it. */
static bool reads_keys_in_place(const attention_problem *p)
{
    return !p->has_parts && p->a->queries <= TH_STREAM_ROWS && p->a->width > 0 && p->a->k.column == 1;
}

/* The same for values. Every loaded row of them must be visible to the query. */
static bool reads_values_in_place(const attention_problem *p)
{
    const th_attention *a = p->a;
    return !p->has_parts && a->queries == 1 && a->value_width > 0 && a->value_width % LANES == 0 && a->v.column == 1 &&
           !a->keep.data && !a->additive.data;
}

static forward_work plan_work(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    forward_work work = {.problem = th_attention_problem(machine, dtype, a), .one_key_block = a->keys <= KEY_BLOCK};
    work.keys_in_place = reads_keys_in_place(&work.problem);
    work.values_in_place = reads_values_in_place(&work.problem);
    work.chunk_queries = queries_of_chunk(&work.problem, threads, work.one_key_block ? INT64_MAX : CHUNK);
    work.chunks_of_head = work.chunk_queries > 0 ? th_ceil_div(a->queries, work.chunk_queries) : 0;
    work.heads_of_task = 1;
    if (work.chunks_of_head == 1)
        work.heads_of_task = th_attention_heads_of_task(
            work.problem.heads, (double)a->queries * (double)a->keys * (double)(a->width + a->value_width), threads);
    work.output_rows = work.one_key_block ? th_smaller(a->queries, work.problem.query_block) : work.chunk_queries;
    forward_memory m;
    work.worker_bytes = reserve_memory(&work, NULL, &m);
    return work;
}

size_t th_attention_forward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    size_t bytes;
    return __builtin_mul_overflow(plan_work(machine, dtype, a, threads).worker_bytes, (size_t)threads, &bytes)
               ? SIZE_MAX
               : bytes;
}

/* Computes one tile, whose keys and values are loaded. row: where the tile's queries begin in m->output, m->maximum and
 * m->sum. fresh: these three are not initialized yet. */
static void forward_tile(const forward_work *work, forward_memory *m, const attention_head *head,
                         const attention_tile *tile, int64_t row, bool fresh)
{
    const attention_problem *p = &work->problem;
    char *output = m->output.data + row * m->output.stride * p->size;
    th_attention_load(p, &m->q, 0, &p->a->q, head, tile->query, tile->rows);
    if (work->keys_in_place)
        th_attention_pairs_product_in_place(p, tile, &m->q, head, &m->scores);
    else
        th_attention_pairs_product(p, tile, &m->q, &m->k, &m->scores);
    const th_attention_rows rows = th_attention_tile_rows(p, head, tile, &m->scores);
    p->kernels->attention_softmax(&rows, fresh, m->maximum + row * p->size, m->sum + row * p->size, p->a->value_width,
                                  output, m->output.stride);
    th_attention_rows_product(p, tile, &m->scores, &m->scores, &m->v, output, m->output.stride, !fresh);
}

/* Writes o and log_sum_exp of a tile's queries. started: the queries have had visible keys. */
static void finish_queries(const attention_problem *p, const forward_memory *m, const attention_head *head,
                           const attention_tile *tile, int64_t row, bool started)
{
    const th_attention *a = p->a;
    char *sum = m->sum + row * p->size;
    if (!started)
        memset(sum, 0, (size_t)(tile->rows * p->size));
    p->kernels->attention_finish(tile->rows, a->value_width, m->maximum + row * p->size, sum,
                                 m->output.data + row * m->output.stride * p->size, m->output.stride,
                                 th_attention_at(&a->o, head, tile->query, 0, p->size), a->o.row, a->o.column,
                                 th_attention_at(&a->log_sum_exp, head, tile->query, 0, p->size), a->log_sum_exp.row);
}

/* Loads the keys among start .. start + count - 1 that some of the queries see. */
static void load_keys(const forward_work *work, forward_memory *m, const attention_head *head, int64_t query,
                      int64_t past, int64_t start, int64_t count)
{
    const attention_problem *p = &work->problem;
    int64_t from, to;
    if (work->values_in_place)
        m->v = th_attention_in_place(p, &p->a->v, head, start, p->a->value_width);
    if (work->keys_in_place && work->values_in_place)
        return;
    if (!th_attention_visible(p, head, query, past - query, start, count, &from, &to))
        return;
    from = from / p->key_step * p->key_step;
    if (!work->keys_in_place)
        th_attention_pack(p, &m->k, p->a->width, &p->a->k, head, start, from, to);
    if (!work->values_in_place)
        th_attention_load(p, &m->v, from, &p->a->v, head, start + from, to - from);
}

/* Computes the queries query .. past - 1 of a head. */
static void forward_chunk(const forward_work *work, forward_memory *m, const attention_head *head, int64_t query,
                          int64_t past)
{
    const attention_problem *p = &work->problem;
    bool started[CHUNK] = {false};
    int64_t start = 0;
    do { /* once even without keys: finish_queries must write the result */
        const int64_t count = th_smaller(p->a->keys - start, KEY_BLOCK);
        load_keys(work, m, head, query, past, start, count);
        for (int64_t t = query; t < past; t += p->query_block) {
            const int64_t row = work->one_key_block ? 0 : t - query;
            bool *has_started = &started[row / p->query_block];
            attention_tile tile;
            const bool visible =
                th_attention_make_tile(p, head, t, th_smaller(past - t, p->query_block), start, count, &tile);
            if (start == 0)
                *has_started = false;
            if (visible)
                forward_tile(work, m, head, &tile, row, !*has_started);
            *has_started |= visible;
            if (start + count == p->a->keys)
                finish_queries(p, m, head, &tile, row, *has_started);
        }
        start += count;
    } while (start < p->a->keys);
}

static void forward_task(void *shared, int64_t index, int worker)
{
    const forward_work *work = shared;
    const th_attention *a = work->problem.a;
    const int64_t number = index / work->chunks_of_head * work->heads_of_task,
                  query = index % work->chunks_of_head * work->chunk_queries;
    const int64_t end = th_smaller(number + work->heads_of_task, work->problem.heads);
    forward_memory m;
    reserve_memory(work, work->workspace + (size_t)worker * work->worker_bytes, &m);
    for (attention_head head = th_attention_head_at(a, number); head.number < end; th_attention_next_head(a, &head))
        forward_chunk(work, &m, &head, query, th_smaller(query + work->chunk_queries, a->queries));
}

void th_attention_forward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                          void *workspace)
{
    forward_work work = plan_work(machine, dtype, a, threads);
    work.workspace = workspace;
    th_parallel(threads, th_ceil_div(work.problem.heads, work.heads_of_task) * work.chunks_of_head, forward_task,
                &work);
}
