/* The backward of attention (attention.h).
 *
 * docs/attention-backward.md derives the gradient, with the letters of ops/scaled_dot_product_attention.c. Here A =
 * exp(S - log_sum_exp) is recomputed, and dlse is the gradient of the log-sum-exp:
 *
 *     dV = Pᵀ dO,   dP = dO Vᵀ
 *     dS = A (M dP - delta),   delta_t = O_t · dO_t - dlse_t
 *     dX = dS cap'(X),   dQ = scale dX K,   dK = scale dXᵀ Q
 *     dadditive = dS,   dslope = -|key - position| dS    (attention_mask_gradient.c sums them where they broadcast)
 *
 * The log-sum-exp is known, so no running maximum is needed. Blocks of keys are smaller than in the forward, so that
 * all operands of one block stay in a cache. A task takes the blocks of keys in order. For each, it takes the blocks of
 * queries that see some of these keys, in order. It recomputes A and dS, adds to dK and dV of the keys, and adds to dQ.
 *
 * A task is one head (or a group of heads that share k and v) with all its blocks of keys, or several heads. With few
 * heads, several blocks of keys of each head are computed at the same time. The first of them adds to dQ directly. The
 * others write their dQ to the workspace; afterwards these are added to dQ in the order of the keys. So the order of
 * every sum is the same in both cases. */
#include <string.h>

#include "kernels/attention/attention_backward.h"
#include "kernels/machine/parallel.h"

enum {
    MAX_CONCURRENT_BLOCKS = 16, /* blocks of keys of a head computed at the same time */
    TASKS_PER_THREAD = 2        /* wanted */
};

typedef struct backward_work {
    attention_problem problem;
    char *workspace;
    size_t worker_bytes;
    int64_t group_size; /* heads that share k and v */
    int64_t groups_of_task;
    int64_t key_blocks;        /* of a head */
    int64_t concurrent_blocks; /* computed at the same time */
    int64_t first_block;       /* the first of those */
    char *partial_dq; /* (heads / group_size, concurrent_blocks - 1, group_size, T, D): dQ of the other blocks */
    int64_t partial_stride;
} backward_work;

static backward_work plan_work(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    backward_work work = {.problem = th_attention_problem(machine, dtype, a), .group_size = 1, .concurrent_blocks = 1};
    if (a->grouped && a->dims > 0 && a->size[a->dims - 1] > 0)
        work.group_size = a->size[a->dims - 1];
    work.key_blocks = th_ceil_div(a->keys, KEY_BLOCK);
    work.partial_stride = th_attention_stride(a->width);
    const int64_t tasks = work.problem.heads / work.group_size, wanted = (int64_t)threads * TASKS_PER_THREAD;
    if (threads > 1 && tasks > 0 && tasks < wanted)
        work.concurrent_blocks =
            th_smaller(th_smaller(th_ceil_div(wanted, tasks), work.key_blocks), MAX_CONCURRENT_BLOCKS);
    work.groups_of_task = th_attention_heads_of_task(tasks,
                                                     2.5 * (double)work.group_size * (double)a->queries *
                                                         (double)a->keys * (double)(a->width + a->value_width),
                                                     threads);
    backward_memory m;
    work.worker_bytes = th_attention_reserve_backward(&work.problem, NULL, &m);
    return work;
}

static char *reserve_partial_dq(const backward_work *work, attention_space *space)
{
    const th_attention *a = work->problem.a;
    int64_t rows;
    if (work->concurrent_blocks < 2 || !a->wants_q)
        return NULL;
    if (__builtin_mul_overflow(work->problem.heads * (work->concurrent_blocks - 1), a->queries, &rows))
        rows = INT64_MAX;
    return th_attention_reserve(space, rows, work->partial_stride, work->problem.size);
}

size_t th_attention_backward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    const backward_work work = plan_work(machine, dtype, a, threads);
    attention_space space = {0};
    if (work.worker_bytes > SIZE_MAX / 2)
        return SIZE_MAX;
    th_attention_reserve(&space, threads, (int64_t)work.worker_bytes, 1);
    reserve_partial_dq(&work, &space);
    return space.used;
}

/* -- dQ, dK, dV -- */

/* Where a block of keys writes its dQ. */
typedef struct q_destination {
    char *data; /* (T, D) of the head; NULL: dQ is not computed */
    int64_t row, column;
    bool add;
} q_destination;

static q_destination destination_of(const backward_work *work, const attention_head *head, int64_t key_block)
{
    const attention_problem *p = &work->problem;
    const th_attention *a = p->a;
    const int64_t number = key_block - work->first_block;
    q_destination to = {.data = th_attention_at(&a->q_gradient, head, 0, 0, p->size),
                        .row = a->q_gradient.row,
                        .column = a->q_gradient.column,
                        .add = a->add_q || key_block > 0};
    if (!to.data || number % work->concurrent_blocks == 0)
        return to;
    const int64_t outer = head->number / work->group_size, member = head->number % work->group_size;
    const int64_t part = (outer * (work->concurrent_blocks - 1) + number - 1) * work->group_size + member;
    return (q_destination){.data = work->partial_dq + part * a->queries * work->partial_stride * p->size,
                           .row = work->partial_stride,
                           .column = 1};
}

static void backward_tile(const attention_problem *p, backward_memory *m, const attention_head *head,
                          const attention_tile *tile, const q_destination *to)
{
    const th_attention *a = p->a;
    th_attention_tile_gradient(p, m, head, tile, true, a->q_gradient.data || a->k_gradient.data);
    if (to->data) {
        th_attention_rows_product(p, tile, &m->pair_gradient, &m->weights, &m->k, m->q_gradient.data,
                                  m->q_gradient.stride, false);
        p->kernels->attention_store(tile->rows, a->width, m->q_gradient.data, m->q_gradient.stride,
                                    to->data + tile->query * to->row * p->size, to->row, to->column, to->add);
    }
    if (a->v_gradient.data)
        th_attention_columns_product(p, tile, &m->weights, &m->weights, &m->o_gradient, &m->v_gradient);
    if (a->k_gradient.data)
        th_attention_columns_product(p, tile, &m->pair_gradient, &m->weights, &m->q, &m->k_gradient);
}

/* Stores or adds the sums of a block of keys. */
static void store_sums(const attention_problem *p, const attention_copy *sums, const th_attention_array *array,
                       const attention_head *head, int64_t start, int64_t count, bool add)
{
    if (array->data)
        p->kernels->attention_store(count, sums->width, sums->data, sums->stride,
                                    th_attention_at(array, head, start, 0, p->size), array->row, array->column, add);
}

/* Computes the gradients of one block of keys, for the heads of a group. *owner is the first head. */
static void backward_keys(const backward_work *work, backward_memory *m, const attention_head *owner, int64_t key_block)
{
    const attention_problem *p = &work->problem;
    const th_attention *a = p->a;
    const int64_t start = key_block * KEY_BLOCK, count = th_smaller(a->keys - start, KEY_BLOCK);
    memset(m->k_gradient.data, 0, (size_t)(count * m->k_gradient.stride * p->size));
    memset(m->v_gradient.data, 0, (size_t)(count * m->v_gradient.stride * p->size));
    bool loaded = false;
    const int64_t end = owner->number + work->group_size;
    for (attention_head head = *owner; head.number < end; th_attention_next_head(a, &head)) {
        const q_destination to = destination_of(work, &head, key_block);
        for (int64_t query = 0; query < a->queries; query += p->query_block) {
            attention_tile tile;
            const int64_t rows = th_smaller(a->queries - query, p->query_block);
            if (th_attention_make_tile(p, &head, query, rows, start, count, &tile)) {
                if (!loaded)
                    th_attention_load_keys(p, m, owner, start, count);
                loaded = true;
                backward_tile(p, m, &head, &tile, &to);
            } else if (to.data && !to.add) {
                p->kernels->product_copy(rows, a->width, th_zero(p->size), 0, 0, to.data + query * to.row * p->size,
                                         to.row, to.column);
            }
        }
    }
    store_sums(p, &m->k_gradient, &a->k_gradient, owner, start, count, a->add_k);
    store_sums(p, &m->v_gradient, &a->v_gradient, owner, start, count, a->add_v);
}

/* Computes all blocks of keys for some groups of heads. */
static void groups_task(void *shared, int64_t index, int worker)
{
    const backward_work *work = shared;
    const attention_problem *p = &work->problem;
    const int64_t first = index * work->groups_of_task * work->group_size,
                  end = th_smaller(first + work->groups_of_task * work->group_size, p->heads);
    backward_memory m;
    th_attention_reserve_backward(p, work->workspace + (size_t)worker * work->worker_bytes, &m);
    for (attention_head owner = th_attention_head_at(p->a, first); owner.number < end;) {
        for (int64_t key_block = 0; key_block < work->key_blocks; key_block++)
            backward_keys(work, &m, &owner, key_block);
        for (int64_t i = 0; i < work->group_size; i++)
            th_attention_next_head(p->a, &owner);
    }
}

/* Computes one of several blocks of keys that are computed at the same time. */
static void key_block_task(void *shared, int64_t index, int worker)
{
    const backward_work *work = shared;
    const int64_t key_block = work->first_block + index % work->concurrent_blocks;
    const attention_head owner =
        th_attention_head_at(work->problem.a, index / work->concurrent_blocks * work->group_size);
    backward_memory m;
    th_attention_reserve_backward(&work->problem, work->workspace + (size_t)worker * work->worker_bytes, &m);
    if (key_block < work->key_blocks)
        backward_keys(work, &m, &owner, key_block);
}

/* Adds the partial dQ of the concurrent blocks after the first one to dQ. */
static void add_partial_dq_task(void *shared, int64_t index, int worker)
{
    (void)worker;
    const backward_work *work = shared;
    const attention_problem *p = &work->problem;
    const th_attention *a = p->a;
    const int64_t query_blocks = th_ceil_div(a->queries, p->query_block), query = index % query_blocks * p->query_block;
    const attention_head head = th_attention_head_at(a, index / query_blocks);
    const int64_t rows = th_smaller(a->queries - query, p->query_block);
    for (int64_t i = 1; i < work->concurrent_blocks && work->first_block + i < work->key_blocks; i++) {
        attention_tile tile;
        const int64_t start = (work->first_block + i) * KEY_BLOCK;
        if (!th_attention_make_tile(p, &head, query, rows, start, th_smaller(a->keys - start, KEY_BLOCK), &tile))
            continue;
        const q_destination part = destination_of(work, &head, work->first_block + i);
        p->kernels->attention_store(rows, a->width, part.data + query * part.row * p->size, part.row,
                                    th_attention_at(&a->q_gradient, &head, query, 0, p->size), a->q_gradient.row,
                                    a->q_gradient.column, true);
    }
}

/* Zeroes dQ in a problem without keys. */
static void zero_dq_task(void *shared, int64_t index, int worker)
{
    (void)worker;
    const attention_problem *p = &((const backward_work *)shared)->problem;
    const th_attention_array *to = &p->a->q_gradient;
    const attention_head head = th_attention_head_at(p->a, index);
    p->kernels->product_copy(p->a->queries, p->a->width, th_zero(p->size), 0, 0,
                             th_attention_at(to, &head, 0, 0, p->size), to->row, to->column);
}

static void compute_qkv_gradients(backward_work *work, int threads)
{
    const th_attention *a = work->problem.a;
    const int64_t outer = work->problem.heads / work->group_size;
    if (work->key_blocks == 0 && a->q_gradient.data && !a->add_q)
        th_parallel(threads, work->problem.heads, zero_dq_task, work);
    if (work->concurrent_blocks < 2) {
        th_parallel(threads, th_ceil_div(outer, work->groups_of_task), groups_task, work);
        return;
    }
    for (work->first_block = 0; work->first_block < work->key_blocks; work->first_block += work->concurrent_blocks) {
        th_parallel(threads, outer * work->concurrent_blocks, key_block_task, work);
        if (a->q_gradient.data)
            th_parallel(threads, work->problem.heads * th_ceil_div(a->queries, work->problem.query_block),
                        add_partial_dq_task, work);
    }
}

void th_attention_backward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                           void *workspace)
{
    backward_work work = plan_work(machine, dtype, a, threads);
    attention_space space = {.base = workspace};
    work.workspace = th_attention_reserve(&space, threads, (int64_t)work.worker_bytes, 1);
    work.partial_dq = reserve_partial_dq(&work, &space);
    if (a->q_gradient.data || a->k_gradient.data || a->v_gradient.data)
        compute_qkv_gradients(&work, threads);
    if (a->additive_gradient.data || a->alibi_gradient.data)
        th_attention_mask_gradient(&work.problem, threads, work.workspace, work.worker_bytes);
}
