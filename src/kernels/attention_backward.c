/* The backward of attention (attention.h).
 *
 * With z = scale q kᵀ + mask, P = exp(z - log_sum_exp), M the dropout multipliers, and o = (P ∘ M) v:
 *
 *     dv = (P ∘ M)ᵀ do
 *     d(P ∘ M) = do vᵀ =: G
 *     dz_ts = P_ts (M_ts G_ts - sum_j P_tj M_tj G_tj) + P_ts dlse_t         (softmax's rule, and dlse/dz = P)
 *           = P_ts (M_ts G_ts - delta_t),   delta_t = o_t · do_t - dlse_t   (as sum_j P_tj M_tj v_j = o_t)
 *     dq = scale dz k,   dk = scale dzᵀ q,   dadditive = dz, summed along what it is broadcast over
 *
 * No running maximum is needed any more, so the keys are cut into smaller stretches than in the forward: all that a
 * stretch needs stays in a cache. For each stretch, and each block of queries that sees some of it, in order: compute P
 * and dz again, add to the stretch's dk and dv, and add its part of dq where that lies.
 *
 * A task is an item (a group of them, where they share k and v) with all its stretches, or several of those. When there
 * are few items, a few stretches of each are worked on at a time: the first of them adds to dq directly, the others
 * write their parts to the workspace, and these are added in the order of the stretches. Every sum has the same terms
 * in the same order in both cases. */
#include <string.h>

#include "kernels/attention_block.h"
#include "kernels/parallel.h"

enum {
    STRETCH = 256,        /* keys */
    MOST_TOGETHER = 16,   /* stretches of an item worked on at a time */
    TASKS_PER_THREAD = 2, /* that this aims at */
    MASK_CHUNK = 240      /* queries of a task of the additive mask's gradient */
};

typedef struct backward_memory {
    attention_copy q, o, o_gradient; /* (BLOCK_ROWS, D), (BLOCK_ROWS, Dv) twice */
    attention_copy k;                /* (STRETCH, D) */
    attention_panels k_panels, v_panels;
    attention_copy k_gradient, v_gradient; /* (STRETCH, D), (STRETCH, Dv) */
    attention_copy q_gradient;             /* (BLOCK_ROWS, D) */
    char *weights, *gradient;              /* (BLOCK_ROWS, STRETCH): scores and then P ∘ M; G and then dz */
    int64_t stride;
    char *log_sum_exp, *delta; /* (BLOCK_ROWS) */
} backward_memory;

typedef struct backward_work {
    attention_plan plan;
    char *workspace;
    size_t worker_bytes;
    int64_t group;     /* items that share k and v */
    int64_t groups;    /* of a task */
    int64_t stretches; /* of the keys */
    int64_t together;  /* worked on at a time */
    int64_t first;     /* of those that are */
    char *parts;       /* (items / group, together - 1, group, T, D): parts of dq */
    int64_t part_stride;
    int64_t owned_items, owned_queries, owned_keys; /* tasks of the additive mask's gradient: see below */
} backward_work;

static size_t take_memory(const attention_plan *p, void *workspace, backward_memory *m)
{
    attention_space space = {.base = workspace};
    const int64_t keys = th_item_min(p->a->keys, STRETCH), rows = th_item_min(p->a->queries, BLOCK_ROWS);
    m->stride = th_attention_stride(keys);
    m->q = th_attention_take_copy(p, &space, rows, p->a->width);
    m->o = th_attention_take_copy(p, &space, rows, p->a->value_width);
    m->o_gradient = th_attention_take_copy(p, &space, rows, p->a->value_width);
    m->k = th_attention_take_copy(p, &space, keys, p->a->width);
    m->k_panels = th_attention_take_panels(p, &space, keys, p->a->width);
    m->v_panels = th_attention_take_panels(p, &space, keys, p->a->value_width);
    m->k_gradient = th_attention_take_copy(p, &space, keys, p->a->width);
    m->v_gradient = th_attention_take_copy(p, &space, keys, p->a->value_width);
    m->q_gradient = th_attention_take_copy(p, &space, rows, p->a->width);
    m->weights = th_attention_take(&space, rows, m->stride, p->size);
    m->gradient = th_attention_take(&space, rows, m->stride, p->size);
    m->log_sum_exp = th_attention_take(&space, rows, 1, p->size);
    m->delta = th_attention_take(&space, rows, 1, p->size);
    return space.used;
}

static backward_work make_work(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    backward_work work = {.plan = th_attention_plan(machine, dtype, a), .group = 1, .together = 1};
    if (a->grouped && a->dims > 0 && a->size[a->dims - 1] > 0)
        work.group = a->size[a->dims - 1];
    work.stretches = th_item_parts(a->keys, STRETCH);
    work.part_stride = th_attention_stride(a->width);
    const int64_t tasks = work.plan.items / work.group, wanted = (int64_t)threads * TASKS_PER_THREAD;
    if (threads > 1 && tasks > 0 && tasks < wanted)
        work.together = th_item_min(th_item_min(th_item_parts(wanted, tasks), work.stretches), MOST_TOGETHER);
    work.groups = th_attention_items_of_task(
        tasks, 2.5 * (double)work.group * (double)a->queries * (double)a->keys * (double)(a->width + a->value_width),
        threads);
    backward_memory m;
    work.worker_bytes = take_memory(&work.plan, NULL, &m);
    return work;
}

static char *take_parts(const backward_work *work, attention_space *space)
{
    const th_attention *a = work->plan.a;
    int64_t rows;
    if (work->together < 2 || !a->wants_q)
        return NULL;
    if (__builtin_mul_overflow(work->plan.items * (work->together - 1), a->queries, &rows))
        rows = INT64_MAX;
    return th_attention_take(space, rows, work->part_stride, work->plan.size);
}

size_t th_attention_backward_workspace(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads)
{
    const backward_work work = make_work(machine, dtype, a, threads);
    attention_space space = {0};
    if (work.worker_bytes > (size_t)INT64_MAX)
        return SIZE_MAX;
    th_attention_take(&space, threads, (int64_t)work.worker_bytes, 1);
    take_parts(&work, &space);
    return space.used;
}

/* -- one block of queries against one stretch of keys -- */

/* Brings in what both passes below need of the queries, and computes P ∘ M and dz * factor (if something wants dz). */
static void block_gradient(const attention_plan *p, backward_memory *m, const attention_item *item,
                           const attention_block *block, double factor, bool wants_logits)
{
    const th_attention *a = p->a;
    const th_attention_array *lse = &a->log_sum_exp, *lse_gradient = &a->log_sum_exp_gradient;
    const int64_t query = block->query, count = block->rows;
    th_attention_load(p, &m->q, 0, &a->q, item, query, count);
    th_attention_load(p, &m->o_gradient, 0, &a->o_gradient, item, query, count);
    th_attention_scores(p, block, &m->q, &m->k_panels, m->weights, m->stride);
    p->kernels->product_copy(count, 1, th_attention_at(lse, item, query, 0, p->size), lse->row, 0, m->log_sum_exp, 1,
                             0);
    if (wants_logits) {
        const bool in_place = a->o.column == 1 && a->value_width % LANES == 0;
        if (!in_place)
            th_attention_load(p, &m->o, 0, &a->o, item, query, count);
        p->kernels->attention_delta(
            count, a->value_width, in_place ? th_attention_at(&a->o, item, query, 0, p->size) : m->o.data,
            in_place ? a->o.row : m->o.stride, m->o_gradient.data, m->o_gradient.stride,
            th_attention_at(lse_gradient, item, query, 0, p->size), lse_gradient->row, m->delta);
        th_attention_scores(p, block, &m->o_gradient, &m->v_panels, m->gradient, m->stride);
    }
    const th_attention_rows rows = th_attention_block_rows(p, item, block, m->weights, m->stride);
    p->kernels->attention_gradient(&rows, m->log_sum_exp, m->delta, factor, wants_logits ? m->gradient : NULL);
}

static void load_keys(const attention_plan *p, backward_memory *m, const attention_item *item, int64_t start,
                      int64_t count)
{
    th_attention_load(p, &m->k, 0, &p->a->k, item, start, count);
    th_attention_pack(p, &m->k_panels, &p->a->k, item, start, 0, count);
    th_attention_pack(p, &m->v_panels, &p->a->v, item, start, 0, count);
}

/* -- dq, dk, dv -- */

/* Where the dq of a stretch goes. */
typedef struct q_destination {
    char *data; /* (T, D) of the item; NULL: not wanted */
    int64_t row, column;
    bool add;
} q_destination;

static q_destination destination_of(const backward_work *work, const attention_item *item, int64_t stretch)
{
    const attention_plan *p = &work->plan;
    const th_attention *a = p->a;
    const int64_t number = stretch - work->first;
    q_destination to = {.data = th_attention_at(&a->q_gradient, item, 0, 0, p->size),
                        .row = a->q_gradient.row,
                        .column = a->q_gradient.column,
                        .add = a->add_q || stretch > 0};
    if (!to.data || number % work->together == 0)
        return to;
    const int64_t outer = item->number / work->group, member = item->number % work->group;
    const int64_t part = (outer * (work->together - 1) + number - 1) * work->group + member;
    return (q_destination){
        .data = work->parts + part * a->queries * work->part_stride * p->size, .row = work->part_stride, .column = 1};
}

/* A block that sees some of the stretch. */
static void visit_block(const attention_plan *p, backward_memory *m, const attention_item *item,
                        const attention_block *block, const q_destination *to)
{
    const th_attention *a = p->a;
    block_gradient(p, m, item, block, a->scale, a->q_gradient.data || a->k_gradient.data);
    if (to->data) {
        th_attention_rows_product(p, block, m->gradient, m->weights, m->stride, &m->k, m->q_gradient.data,
                                  m->q_gradient.stride, false);
        p->kernels->attention_store(block->rows, a->width, m->q_gradient.data, m->q_gradient.stride,
                                    to->data + block->query * to->row * p->size, to->row, to->column, to->add);
    }
    if (a->v_gradient.data)
        th_attention_columns_product(p, block, m->weights, m->weights, m->stride, &m->o_gradient, &m->v_gradient);
    if (a->k_gradient.data)
        th_attention_columns_product(p, block, m->gradient, m->weights, m->stride, &m->q, &m->k_gradient);
}

/* Writes or adds a stretch's sums. */
static void put_sums(const attention_plan *p, const attention_copy *sums, const th_attention_array *array,
                     const attention_item *item, int64_t start, int64_t count, bool add)
{
    if (array->data)
        p->kernels->attention_store(count, sums->width, sums->data, sums->stride,
                                    th_attention_at(array, item, start, 0, p->size), array->row, array->column, add);
}

/* One stretch of keys of a group of items, of which *owner is the first. */
static void backward_stretch(const backward_work *work, backward_memory *m, const attention_item *owner,
                             int64_t stretch)
{
    const attention_plan *p = &work->plan;
    const th_attention *a = p->a;
    const int64_t start = stretch * STRETCH, count = th_item_min(a->keys - start, STRETCH);
    memset(m->k_gradient.data, 0, (size_t)(count * m->k_gradient.stride * p->size));
    memset(m->v_gradient.data, 0, (size_t)(count * m->v_gradient.stride * p->size));
    bool loaded = false;
    const int64_t end = owner->number + work->group;
    for (attention_item item = *owner; item.number < end; th_attention_next_item(a, &item)) {
        const q_destination to = destination_of(work, &item, stretch);
        for (int64_t query = 0; query < a->queries; query += BLOCK_ROWS) {
            attention_block block;
            const int64_t rows = th_item_min(a->queries - query, BLOCK_ROWS);
            if (th_attention_block(p, &item, query, rows, start, count, &block)) {
                if (!loaded)
                    load_keys(p, m, owner, start, count);
                loaded = true;
                visit_block(p, m, &item, &block, &to);
            } else if (to.data && !to.add) {
                p->kernels->product_copy(rows, a->width, th_zero(p->size), 0, 0, to.data + query * to.row * p->size,
                                         to.row, to.column);
            }
        }
    }
    put_sums(p, &m->k_gradient, &a->k_gradient, owner, start, count, a->add_k);
    put_sums(p, &m->v_gradient, &a->v_gradient, owner, start, count, a->add_v);
}

/* All stretches of some groups of items. */
static void whole_task(void *shared, int64_t index, int worker)
{
    const backward_work *work = shared;
    const attention_plan *p = &work->plan;
    const int64_t first = index * work->groups * work->group,
                  end = th_item_min(first + work->groups * work->group, p->items);
    backward_memory m;
    take_memory(p, work->workspace + (size_t)worker * work->worker_bytes, &m);
    for (attention_item owner = th_attention_item(p->a, first); owner.number < end;) {
        for (int64_t stretch = 0; stretch < work->stretches; stretch++)
            backward_stretch(work, &m, &owner, stretch);
        for (int64_t i = 0; i < work->group; i++)
            th_attention_next_item(p->a, &owner);
    }
}

/* One of those worked on together. */
static void stretch_task(void *shared, int64_t index, int worker)
{
    const backward_work *work = shared;
    const int64_t stretch = work->first + index % work->together;
    const attention_item owner = th_attention_item(work->plan.a, index / work->together * work->group);
    backward_memory m;
    take_memory(&work->plan, work->workspace + (size_t)worker * work->worker_bytes, &m);
    if (stretch < work->stretches)
        backward_stretch(work, &m, &owner, stretch);
}

/* Adds the other parts of a block of dq to the first. */
static void combine_task(void *shared, int64_t index, int worker)
{
    (void)worker;
    const backward_work *work = shared;
    const attention_plan *p = &work->plan;
    const th_attention *a = p->a;
    const int64_t blocks = th_item_parts(a->queries, BLOCK_ROWS), query = index % blocks * BLOCK_ROWS;
    const attention_item item = th_attention_item(a, index / blocks);
    const int64_t rows = th_item_min(a->queries - query, BLOCK_ROWS);
    for (int64_t i = 1; i < work->together && work->first + i < work->stretches; i++) {
        attention_block block;
        const int64_t start = (work->first + i) * STRETCH;
        if (!th_attention_block(p, &item, query, rows, start, th_item_min(a->keys - start, STRETCH), &block))
            continue;
        const q_destination part = destination_of(work, &item, work->first + i);
        p->kernels->attention_store(rows, a->width, part.data + query * part.row * p->size, part.row,
                                    th_attention_at(&a->q_gradient, &item, query, 0, p->size), a->q_gradient.row,
                                    a->q_gradient.column, true);
    }
}

/* Without keys there is nothing to walk over. */
static void zero_queries_task(void *shared, int64_t index, int worker)
{
    (void)worker;
    const attention_plan *p = &((const backward_work *)shared)->plan;
    const th_attention_array *to = &p->a->q_gradient;
    const attention_item item = th_attention_item(p->a, index);
    p->kernels->product_copy(p->a->queries, p->a->width, th_zero(p->size), 0, 0,
                             th_attention_at(to, &item, 0, 0, p->size), to->row, to->column);
}

static void run_gradients(backward_work *work, int threads)
{
    const th_attention *a = work->plan.a;
    const int64_t outer = work->plan.items / work->group;
    if (work->stretches == 0 && a->q_gradient.data && !a->add_q)
        th_parallel(threads, work->plan.items, zero_queries_task, work);
    if (work->together < 2) {
        th_parallel(threads, th_item_parts(outer, work->groups), whole_task, work);
        return;
    }
    for (work->first = 0; work->first < work->stretches; work->first += work->together) {
        th_parallel(threads, outer * work->together, stretch_task, work);
        if (a->q_gradient.data)
            th_parallel(threads, work->plan.items * th_item_parts(a->queries, BLOCK_ROWS), combine_task, work);
    }
}

/* -- the gradient of the additive mask --
 *
 * A pass of its own, because it is cut differently: a task owns elements of the gradient, so it takes all items,
 * queries or keys that are summed up in them, in order. Where the mask is not broadcast along queries or keys, a task
 * owns a chunk of them. */

static bool sums_items(const th_attention *a, int d)
{
    return a->additive_gradient.item[d] == 0 && a->size[d] != 1;
}

/* One item's contribution for the queries query .. query_end - 1 and the keys key .. key_end - 1. */
static void add_mask_gradient(const attention_plan *p, backward_memory *m, const attention_item *item, int64_t query,
                              int64_t query_end, int64_t key, int64_t key_end)
{
    const th_attention_array *to = &p->a->additive_gradient;
    for (int64_t start = key; start < key_end; start += STRETCH) {
        const int64_t count = th_item_min(key_end - start, STRETCH);
        bool loaded = false;
        for (int64_t t = query; t < query_end; t += BLOCK_ROWS) {
            attention_block block;
            if (!th_attention_block(p, item, t, th_item_min(query_end - t, BLOCK_ROWS), start, count, &block))
                continue;
            if (!loaded)
                load_keys(p, m, item, start, count);
            loaded = true;
            block_gradient(p, m, item, &block, 1, true);
            p->kernels->attention_accumulate(block.rows, block.first, block.past, m->gradient, m->stride,
                                             th_attention_at(to, item, t, start, p->size), to->row, to->column);
        }
    }
}

static void mask_task(void *shared, int64_t index, int worker)
{
    const backward_work *work = shared;
    const attention_plan *p = &work->plan;
    const th_attention *a = p->a;
    const th_attention_array *to = &a->additive_gradient;
    backward_memory m;
    take_memory(p, work->workspace + (size_t)worker * work->worker_bytes, &m);
    const int64_t keys = work->owned_keys == 1 ? a->keys : STRETCH, key = index % work->owned_keys * keys;
    index /= work->owned_keys;
    const int64_t queries = work->owned_queries == 1 ? a->queries : MASK_CHUNK,
                  query = index % work->owned_queries * queries;
    index /= work->owned_queries;
    const int64_t key_end = th_item_min(key + keys, a->keys), query_end = th_item_min(query + queries, a->queries);

    /* the owned item, and all that are summed up in it */
    attention_item item = {.dims = a->dims};
    int64_t summed = 1;
    for (int d = a->dims - 1; d >= 0; d--) {
        if (sums_items(a, d)) {
            summed *= a->size[d];
            continue;
        }
        item.index[d] = index % a->size[d];
        index /= a->size[d];
    }
    if (!a->add_additive)
        p->kernels->product_copy(to->row ? query_end - query : 1, to->column ? key_end - key : 1, th_zero(p->size), 0,
                                 0, th_attention_at(to, &item, query, key, p->size), to->row, to->column);
    for (int64_t i = 0; i < summed; i++) {
        int64_t rest = i, number = 0, step = 1;
        for (int d = a->dims - 1; d >= 0; d--) {
            if (sums_items(a, d)) {
                item.index[d] = rest % a->size[d];
                rest /= a->size[d];
            }
            number += item.index[d] * step;
            step *= a->size[d];
        }
        item.number = number;
        add_mask_gradient(p, &m, &item, query, query_end, key, key_end);
    }
}

static void run_mask_gradient(backward_work *work, int threads)
{
    const th_attention *a = work->plan.a;
    work->owned_items = 1;
    for (int d = 0; d < a->dims; d++)
        work->owned_items *= sums_items(a, d) ? 1 : a->size[d];
    work->owned_queries = a->additive_gradient.row ? th_item_parts(a->queries, MASK_CHUNK) : 1;
    work->owned_keys = a->additive_gradient.column ? th_item_parts(a->keys, STRETCH) : 1;
    th_parallel(threads, work->owned_items * work->owned_queries * work->owned_keys, mask_task, work);
}

void th_attention_backward(const th_machine *machine, th_dtype dtype, const th_attention *a, int threads,
                           void *workspace)
{
    backward_work work = make_work(machine, dtype, a, threads);
    attention_space space = {.base = workspace};
    work.workspace = th_attention_take(&space, threads, (int64_t)work.worker_bytes, 1);
    work.parts = take_parts(&work, &space);
    if (a->q_gradient.data || a->k_gradient.data || a->v_gradient.data)
        run_gradients(&work, threads);
    if (a->additive_gradient.data)
        run_mask_gradient(&work, threads);
}
