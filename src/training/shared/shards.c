/* The loop over the shards of a step, and the sums of their gradients. The open nodes are like the digits 1 of a binary
 * counter: an even shard opens a node, and an odd shard is added to the last open node. */
#include "training/shared/shards.h"

#include <math.h>
#include <string.h>

#include "autograd/gradient.h"
#include "kernels/machine/parallel.h"
#include "processes/group.h"
#include "tensor/random_state.h"
#include "training/chunks.h"
#include "training/gradient_norm.h"
#include "training/layout.h"
#include "training/moments.h"

/* -- state -- */

th_status th_shards_init(th_optimizer *o, int shards, th_group *group)
{
    th_context *ctx = o->ctx;
    const int count = shards ? shards : 1, size = th_group_size(group), rank = th_group_rank(group);
    if (count < 1 || count > TH_MAX_SHARDS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, o->rule->name, "a step has 1 to %d shards, not %d", (int)TH_MAX_SHARDS,
                       shards);
    if (group && (group->freed || group->ctx != ctx))
        return th_fail(ctx, TH_ERROR_ARGUMENT, o->rule->name, "the group %s",
                       group->freed ? "has been freed" : "belongs to another context");
    if (size > count)
        return th_fail(ctx, TH_ERROR_ARGUMENT, o->rule->name,
                       "%d processes cannot share a step of %d shard%s: .shards must be at least %d", size, count,
                       count == 1 ? "" : "s", size);
    if (o->diloco.local_steps > 0 && count % size != 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, o->rule->name,
                       "with local steps, each process has as many shards as the others: .shards must be a multiple "
                       "of %d, not %d",
                       size, count);
    th_shard_state *s = &o->shards;
    *s = (th_shard_state){.rank = rank,
                          .processes = size,
                          .count = count,
                          .first = th_shard_first(count, rank, size),
                          .end = th_shard_first(count, rank + 1, size)};
    s->next = s->first;
    const size_t bytes = (size_t)(s->end - s->first) * sizeof *s->losses;
    s->losses = th_allocate(ctx, bytes);
    if (s->losses == NULL)
        return th_fail_memory(ctx, o->rule->name, bytes);
    o->group = group;
    return TH_OK;
}

static void free_sums(th_optimizer *o)
{
    while (o->shards.sums) {
        th_shard_sums *sums = o->shards.sums;
        o->shards.sums = sums->next;
        while (sums->n_allocated > 0)
            th_release_numbers(o->ctx, sums->node_gradient[--sums->n_allocated], sums->bytes);
        th_release(o->ctx, sums, sizeof *sums);
    }
}

void th_shards_free(th_optimizer *o)
{
    free_sums(o);
    th_release(o->ctx, o->shards.losses, (size_t)(o->shards.end - o->shards.first) * sizeof *o->shards.losses);
    o->shards.losses = NULL;
}

void th_shards_end_loop(th_optimizer *o)
{
    if (o->shards.loop_begun)
        th_random_begin_shard(o->ctx, 0, o->shards.random_calls);
    o->shards.next = o->shards.first;
    o->shards.n_open = 0;
    o->shards.loop_begun = false;
}

void th_shards_discard_sums(th_optimizer *o)
{
    free_sums(o);
    o->shards.next = o->shards.first;
    o->shards.n_open = 0;
}

/* -- memory of open nodes -- */

static th_shard_sums *find_sums(const th_optimizer *o, const th_parameter_block *block)
{
    th_shard_sums *sums = o->shards.sums;
    while (sums && sums->block != block)
        sums = sums->next;
    return sums;
}

char *th_shards_node_gradient(const th_optimizer *o, const th_parameter_block *block, int index)
{
    return find_sums(o, block)->node_gradient[index];
}

/* Ensures that the block has memory for one more open node. */
static th_status ensure_node_memory(th_optimizer *o, th_parameter_block *block)
{
    th_context *ctx = o->ctx;
    th_shard_sums *sums = find_sums(o, block);
    if (sums == NULL) {
        sums = th_allocate(ctx, sizeof *sums);
        if (sums == NULL)
            return th_fail_memory(ctx, o->rule->name, sizeof *sums);
        *sums = (th_shard_sums){.block = block, .bytes = block->gradient_bytes, .next = o->shards.sums};
        o->shards.sums = sums;
    }
    if (o->shards.n_open < sums->n_allocated)
        return TH_OK;
    if (th_allocate_numbers(ctx, sums->bytes, &sums->node_gradient[sums->n_allocated], o->rule->name) != TH_OK)
        return ctx->error;
    if (sums->node_gradient[sums->n_allocated])
        memset(sums->node_gradient[sums->n_allocated], 0, sums->bytes);
    sums->n_allocated++;
    return TH_OK;
}

/* -- sums -- */

enum { CURRENT = -1 }; /* the current shard's gradients, as the index of a node */

/* to = a + b, or to = b if a is NULL */
typedef struct addition {
    const th_kernels *kernels;
    size_t element;
    int64_t numel;
    char *to, *a, *b;
} addition;

static void add_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const addition *work = shared;
    const th_chunk c = th_chunk_at(work->numel, work->element, index);
    if (work->a)
        work->kernels->add(c.count, (void *[]){work->to + c.at, work->a + c.at, work->b + c.at}, NULL);
    else
        memcpy(work->to + c.at, work->b + c.at, (size_t)c.count * work->element);
}

/* Returns the gradient of an open node, or of the current shard if node is CURRENT. */
static char *gradient_of(const th_optimizer *o, const th_parameter_block *block, int node)
{
    return node == CURRENT ? block->gradient : th_shards_node_gradient(o, block, node);
}

/* Computes to = a + b for the gradients of all blocks, or to = b if copy. Each is the index of an open node, or
 * CURRENT. */
static void add_gradients(const th_optimizer *o, int to, int a, int b, bool copy)
{
    th_block_run r;
    for (int64_t at = 0; th_next_run(o, false, &at, &r);) {
        if (r.block->gradient == NULL)
            continue;
        const size_t element = th_dtype_size(r.block->dtype);
        addition work = {.kernels = th_context_kernels(o->ctx, r.block->dtype),
                         .element = element,
                         .numel = (int64_t)((r.end - r.begin) / element),
                         .to = gradient_of(o, r.block, to) + r.begin,
                         .a = copy ? NULL : gradient_of(o, r.block, a) + r.begin,
                         .b = gradient_of(o, r.block, b) + r.begin};
        th_parallel(o->ctx->threads, th_chunk_count(work.numel), add_chunk, &work);
    }
}

/* -- one shard -- */

/* Completes the gradients of a shard: a parameter that the shard did not use gets a gradient of zeros. A step of one
 * shard sums nothing, and treats frozen parameters as a step without a loop does. */
static th_status complete_gradients(th_optimizer *o)
{
    const bool has_loop = o->shards.count > 1;
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        if (has_loop && p->tensor->requires_gradient != p->summed)
            return th_fail(o->ctx, TH_ERROR_STATE, "shard_next", "a parameter was %s in the loop over the shards",
                           p->summed ? "frozen" : "unfrozen");
        if (th_has_gradient(p->tensor))
            p->due = true;
        else if (has_loop && p->summed && th_gradient_zero(p->tensor) != TH_OK)
            return o->ctx->error;
    }
    return TH_OK;
}

/* Empties the gradients of all parameters, or of those that no shard has used. */
static void empty_gradients(const th_optimizer *o, bool all)
{
    for (int64_t i = 0; i < o->count; i++)
        if (all || !o->parameters[i].due)
            th_gradient_empty(o->parameters[i].tensor);
}

/* Copies the current gradients to a new open node. */
static th_status open_node(th_optimizer *o)
{
    th_shard_state *s = &o->shards;
    th_block_run r;
    for (int64_t at = 0; th_next_run(o, false, &at, &r);)
        if (ensure_node_memory(o, r.block) != TH_OK)
            return o->ctx->error;
    add_gradients(o, s->n_open, 0, CURRENT, true);
    s->open[s->n_open++] = (th_shard_node){s->next, 1};
    return TH_OK;
}

/* Adds the current gradients to the last open node. Then adds the last two open nodes while they are siblings. */
static void add_shard_to_open_nodes(th_optimizer *o)
{
    th_shard_state *s = &o->shards;
    add_gradients(o, s->n_open - 1, s->n_open - 1, CURRENT, false);
    s->open[s->n_open - 1].count = 2;
    for (; s->n_open > 1 && th_shards_are_siblings(s->open[s->n_open - 2], s->open[s->n_open - 1]); s->n_open--) {
        add_gradients(o, s->n_open - 2, s->n_open - 2, s->n_open - 1, false);
        s->open[s->n_open - 2].count *= 2;
    }
}

/* Adds the last open node to the gradients of the last shard while the two are siblings. */
static void add_open_nodes_to_last(th_optimizer *o)
{
    th_shard_state *s = &o->shards;
    th_shard_node last = {s->next, 1};
    for (; s->n_open > 0 && th_shards_are_siblings(s->open[s->n_open - 1], last); s->n_open--) {
        add_gradients(o, CURRENT, s->n_open - 1, CURRENT, false);
        last = (th_shard_node){s->open[s->n_open - 1].first, 2 * last.count};
    }
}

static th_status add_shard(th_optimizer *o)
{
    th_shard_state *s = &o->shards;
    if (complete_gradients(o) != TH_OK)
        return o->ctx->error;
    th_optimizer_sort(o);
    const bool last = s->next == s->end - 1;
    if (last)
        add_open_nodes_to_last(o);
    else if (s->n_open > 0 && th_shards_are_siblings(s->open[s->n_open - 1], (th_shard_node){s->next, 1}))
        add_shard_to_open_nodes(o);
    else if (open_node(o) != TH_OK)
        return o->ctx->error;
    empty_gradients(o, !last);
    s->next++;
    return TH_OK;
}

/* Allocates memory for as many open nodes as a step of this process has at a time. */
static th_status reserve_node_memory(th_optimizer *o)
{
    th_shard_state *s = &o->shards;
    th_block_run r;
    for (int shards = s->end - s->first; shards > 1; shards = (shards + 1) / 2, s->n_open++)
        for (int64_t at = 0; th_next_run(o, false, &at, &r);)
            if (ensure_node_memory(o, r.block) != TH_OK)
                return o->ctx->error;
    return TH_OK;
}

th_status th_optimizer_reserve(th_optimizer *o)
{
    if (!th_optimizer_usable(o, "optimizer_reserve") || th_moments_ensure(o) != TH_OK)
        return o ? o->ctx->error : TH_ERROR_ARGUMENT;
    th_shards_end_loop(o);
    th_optimizer_sort(o);
    for (int64_t i = 0; i < o->count; i++) {
        o->parameters[i].summed = o->parameters[i].tensor->requires_gradient;
        if (o->parameters[i].summed && th_gradient_zero(o->parameters[i].tensor) != TH_OK)
            return o->ctx->error;
    }
    (void)reserve_node_memory(o);
    o->shards.n_open = 0;
    empty_gradients(o, true);
    return o->ctx->error;
}

/* -- the loop -- */

th_shard th_optimizer_shards(th_optimizer *o)
{
    if (!th_optimizer_usable(o, "optimizer_shards"))
        return (th_shard){0};
    th_shard_state *s = &o->shards;
    th_shards_end_loop(o); /* ends an unfinished loop */
    memcpy(s->random_calls, o->ctx->calls, sizeof s->random_calls);
    s->loop_begun = true;
    for (int64_t i = 0; i < o->count; i++) {
        o->parameters[i].due = false;
        o->parameters[i].summed = o->parameters[i].tensor->requires_gradient;
    }
    empty_gradients(o, true);
    return (th_shard){.index = s->first - 1, .count = s->count, .optimizer = o, .end = s->end};
}

/* Adds the shard that the program has computed: its gradients, weight and loss. */
static bool finish_shard(th_optimizer *o, const th_shard *shard)
{
    th_shard_state *s = &o->shards;
    if (!s->loop_begun || shard->index != s->next) {
        th_fail(o->ctx, TH_ERROR_STATE, "shard_next",
                "another loop over the shards, or a step, began in this loop, or a parameter was freed or cast");
        return false;
    }
    s->losses[shard->index - s->first] = (th_weighted_loss){shard->weight, shard->loss};
    return add_shard(o) == TH_OK;
}

bool th_shard_next(th_shard *shard)
{
    th_optimizer *o = shard ? shard->optimizer : NULL;
    if (o == NULL || !th_optimizer_usable(o, "shard_next") || th_failed(o->ctx))
        return false;
    const th_shard_state *s = &o->shards;
    if (shard->index >= s->end) /* the loop has ended before */
        return false;
    if (shard->index >= s->first && !finish_shard(o, shard))
        return false;
    shard->index++;
    shard->weight = 1;
    shard->loss = 0;
    const bool more = shard->index < shard->end;
    if (more || s->count > 1)
        th_random_begin_shard(o->ctx, more ? shard->index : 0, s->random_calls);
    return more;
}

/* -- the step -- */

th_status th_shards_check_complete(const th_optimizer *o)
{
    const th_shard_state *s = &o->shards;
    if (s->loop_begun && s->next < s->end)
        return th_fail(o->ctx, TH_ERROR_STATE, "optimizer_step",
                       "shard %d has not been computed; this process computes shards %d to %d of %d", s->next, s->first,
                       s->end - 1, s->count);
    if (!s->loop_begun && s->count > 1)
        return th_fail(o->ctx, TH_ERROR_STATE, "optimizer_step",
                       "the step has %d shards: compute them in a loop over th_optimizer_shards", s->count);
    return TH_OK;
}

void th_shards_mark_due(th_optimizer *o)
{
    const bool loop_begun = o->shards.loop_begun;
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        p->due = (p->due || !loop_begun) && th_has_gradient(p->tensor);
    }
    if (!loop_begun)
        o->shards.losses[0] = (th_weighted_loss){.weight = 1};
}

void th_shards_add_open_nodes(th_optimizer *o)
{
    for (; o->shards.n_open > 0; o->shards.n_open--)
        add_gradients(o, CURRENT, o->shards.n_open - 1, CURRENT, false);
}

/* The smallest sum of the shards' weights. With smaller ones, the factor 1 / weight would overflow in float32. */
static const double least_weight = 1e-18;

th_status th_shards_sum_losses(const th_optimizer *o, const th_weighted_loss *losses, int count, th_step_sums *sums)
{
    sums->weight = sums->loss = 0;
    for (int i = 0; i < count; i++) {
        sums->weight += losses[i].weight;
        sums->loss += losses[i].loss;
    }
    if (sums->weight >= least_weight && isfinite(sums->weight))
        return TH_OK;
    return th_fail(o->ctx, TH_ERROR_VALUE, "optimizer_step",
                   "the sum of the shards' weights is %g; it must be finite, and at least %g", sums->weight,
                   least_weight);
}
