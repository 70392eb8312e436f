/* The gradients of the additive mask, dS, and of ALiBi's slopes, -|key - position| dS. Both are summed along the
 * dimensions along which mask or slopes are broadcast.
 *
 * These passes divide the work differently from the gradients of q, k and v. A task owns elements of the gradient: it
 * computes all heads, queries and keys that are summed in them, in order. If the mask is not broadcast along queries or
 * keys, a task owns a chunk of them. Slopes are broadcast along both. */
#include "kernels/attention/attention_backward.h"
#include "kernels/machine/parallel.h"

enum { MASK_CHUNK = 5 }; /* blocks of queries of a task */

typedef struct mask_work {
    attention_problem problem;
    char *workspace;
    size_t worker_bytes;
    const th_attention_array *gradient;
    bool add;
    bool of_slopes; /* the gradient is of the slopes, otherwise of the mask */
    /* Sizes of the leading dimensions. The owned dimensions are divided among tasks, and each task sums over the summed
     * ones. A dimension of one kind has size 1 in the other array. */
    int64_t owned[TH_ATTENTION_DIMS], summed[TH_ATTENTION_DIMS];
    int64_t owned_heads, summed_heads, query_chunks, key_chunks;
} mask_work;

/* Adds one head's contribution for the queries query .. query_end - 1 and the keys key .. key_end - 1; for a slope, to
 * *sum. */
static void add_head_gradient(const mask_work *work, backward_memory *m, const attention_head *head, int64_t query,
                              int64_t query_end, int64_t key, int64_t key_end, double *sum)
{
    const attention_problem *p = &work->problem;
    const th_attention_array *to = work->gradient;
    for (int64_t start = key; start < key_end; start += KEY_BLOCK) {
        const int64_t count = th_smaller(key_end - start, KEY_BLOCK);
        bool loaded = false;
        for (int64_t t = query; t < query_end; t += p->query_block) {
            attention_tile tile;
            if (!th_attention_make_tile(p, head, t, th_smaller(query_end - t, p->query_block), start, count, &tile))
                continue;
            if (!loaded)
                th_attention_load_keys(p, m, head, start, count);
            loaded = true;
            th_attention_tile_gradient(p, m, head, &tile, false, true);
            if (work->of_slopes)
                p->kernels->attention_slope_gradient(tile.rows, tile.begin, tile.end, tile.position,
                                                     m->pair_gradient.data, m->pair_gradient.stride, sum);
            else
                p->kernels->attention_accumulate(tile.rows, tile.keys, m->pair_gradient.data, m->pair_gradient.stride,
                                                 th_attention_at(to, head, t, start, p->size), to->row, to->column);
        }
    }
}

/* Returns the head at index number `owned` of the owned dimensions and `summed` of the summed ones. */
static attention_head head_of(const mask_work *work, int64_t owned, int64_t summed)
{
    const th_attention *a = work->problem.a;
    int64_t index[TH_ATTENTION_DIMS];
    attention_head head = {.dims = a->dims};
    th_index_at(a->dims, work->owned, owned, head.index);
    th_index_at(a->dims, work->summed, summed, index);
    for (int d = 0; d < a->dims; d++) {
        head.index[d] += index[d];
        head.number = head.number * a->size[d] + head.index[d];
    }
    return head;
}

static void mask_task(void *shared, int64_t index, int worker)
{
    const mask_work *work = shared;
    const attention_problem *p = &work->problem;
    const th_attention *a = p->a;
    const th_attention_array *to = work->gradient;
    backward_memory m;
    th_attention_reserve_backward(p, work->workspace + (size_t)worker * work->worker_bytes, &m);
    const int64_t key = index % work->key_chunks * KEY_BLOCK, rest = index / work->key_chunks;
    const int64_t chunk = MASK_CHUNK * p->query_block, query = rest % work->query_chunks * chunk,
                  owned = rest / work->query_chunks;
    const int64_t key_end = work->key_chunks == 1 ? a->keys : th_smaller(key + KEY_BLOCK, a->keys);
    const int64_t query_end = work->query_chunks == 1 ? a->queries : th_smaller(query + chunk, a->queries);
    const attention_head first = head_of(work, owned, 0);
    double sum = 0;
    if (!work->add)
        p->kernels->product_copy(to->row ? query_end - query : 1, to->column ? key_end - key : 1, th_zero(p->size), 0,
                                 0, th_attention_at(to, &first, query, key, p->size), to->row, to->column);
    for (int64_t i = 0; i < work->summed_heads; i++) {
        const attention_head head = head_of(work, owned, i);
        add_head_gradient(work, &m, &head, query, query_end, key, key_end, &sum);
    }
    if (work->of_slopes)
        p->kernels->attention_add_number(sum, th_attention_at(to, &first, 0, 0, p->size));
}

static void compute_mask_gradient(const attention_problem *p, const th_attention_array *to, bool add, bool of_slopes,
                                  int threads, void *workspace, size_t worker_bytes)
{
    const th_attention *a = p->a;
    mask_work work = {.problem = *p,
                      .workspace = workspace,
                      .worker_bytes = worker_bytes,
                      .gradient = to,
                      .add = add,
                      .of_slopes = of_slopes,
                      .owned_heads = 1,
                      .summed_heads = 1,
                      .query_chunks = to->row ? th_ceil_div(a->queries, MASK_CHUNK * p->query_block) : 1,
                      .key_chunks = to->column ? th_ceil_div(a->keys, KEY_BLOCK) : 1};
    for (int d = 0; d < a->dims; d++) {
        const bool sums = to->leading[d] == 0 && a->size[d] != 1;
        work.owned[d] = sums ? 1 : a->size[d];
        work.summed[d] = sums ? th_larger(a->size[d], 1) : 1;
        work.owned_heads *= work.owned[d];
        work.summed_heads *= sums ? a->size[d] : 1;
    }
    th_parallel(threads, work.owned_heads * work.query_chunks * work.key_chunks, mask_task, &work);
}

void th_attention_mask_gradient(const attention_problem *p, int threads, void *workspace, size_t worker_bytes)
{
    const th_attention *a = p->a;
    if (a->additive_gradient.data)
        compute_mask_gradient(p, &a->additive_gradient, a->add_additive, false, threads, workspace, worker_bytes);
    if (a->alibi_gradient.data)
        compute_mask_gradient(p, &a->alibi_gradient, a->add_alibi, true, threads, workspace, worker_bytes);
}
