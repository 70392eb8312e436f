/* The outer step of DiLoCo: see outer_step.h. */
#include "training/shared/outer_step.h"

#include <string.h>

#include "autograd/gradient.h"
#include "kernels/elementwise/optimizer_kernels.h"
#include "kernels/machine/parallel.h"
#include "training/chunks.h"
#include "training/layout.h"
#include "training/moments.h"
#include "training/shared/agreement.h"
#include "training/shared/shared_norm.h"
#include "training/shared/step_buffers.h"

/* Adjacent numbers of a block. */
typedef struct range {
    const th_optimizer *optimizer;
    const th_kernels *kernels;
    size_t element;
    int64_t numel;
    char *start, *parameters, *differences;
    char *velocity; /* NULL: none */
} range;

/* Returns bytes begin to end - 1 of a block; those that this process owns, if `owned`. */
static range range_of(const th_optimizer *o, const th_block_run *run, bool owned)
{
    const th_moments *m = o->moments;
    while (m->block != run->block)
        m = m->next;
    const size_t first = owned ? m->cut[o->shards.rank] : 0, last = owned ? m->cut[o->shards.rank + 1] : m->bytes;
    const size_t begin = run->begin > first ? run->begin : first, end = run->end < last ? run->end : last;
    range r = {.optimizer = o,
               .kernels = th_context_kernels(o->ctx, run->block->dtype),
               .element = th_dtype_size(run->block->dtype)};
    if (begin >= end)
        return r;
    r.numel = (int64_t)((end - begin) / r.element);
    r.start = (char *)m->start + begin;
    r.parameters = run->block->data + begin;
    r.differences = run->block->gradient + begin;
    r.velocity = owned && m->velocity ? (char *)m->velocity + (begin - first) : NULL;
    return r;
}

/* Calls function for chunks of all due parameters; of those that this process owns, if `owned`. */
static void visit_due(const th_optimizer *o, bool owned, void (*function)(void *range, int64_t index, int worker))
{
    th_block_run run;
    for (int64_t at = 0; th_next_run(o, true, &at, &run);) {
        range r = range_of(o, &run, owned);
        th_parallel(o->ctx->threads, th_chunk_count(r.numel), function, &r);
    }
}

static void subtract_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const range *r = shared;
    const th_chunk c = th_chunk_at(r->numel, r->element, index);
    r->kernels->sub(c.count, (void *[]){r->differences + c.at, r->start + c.at, r->parameters + c.at}, NULL);
}

static void restore_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const range *r = shared;
    const th_chunk c = th_chunk_at(r->numel, r->element, index);
    memcpy(r->parameters + c.at, r->start + c.at, (size_t)c.count * r->element);
}

static void update_chunk(void *shared, int64_t index, int worker)
{
    restore_chunk(shared, index, worker);
    const range *r = shared;
    const th_diloco_options *options = &r->optimizer->diloco;
    const th_sgd_update update = {.gradient_scale = 1.0 / r->optimizer->shards.processes,
                                  .momentum = options->momentum,
                                  .nesterov = true,
                                  .learning_rate = options->learning_rate};
    const th_chunk c = th_chunk_at(r->numel, r->element, index);
    r->kernels->sgd(c.count, r->parameters + c.at, r->differences + c.at, r->velocity ? r->velocity + c.at : NULL,
                    &update);
}

void th_outer_step_start(const th_optimizer *o)
{
    for (const th_moments *m = o->moments; m && o->local_steps == 0; m = m->next)
        if (m->start)
            memcpy(m->start, m->block->data, m->bytes);
}

/* The parameters that take part are due: those that a local step of any process has changed. The memory of their
 * gradients is free. */
static th_status join_parameters(th_optimizer *o)
{
    double norm;
    const th_weighted_loss *losses;
    visit_due(o, false, subtract_chunk);
    if (th_gradient_exchange_sum(o->buffers->exchange, o) != TH_OK)
        return TH_ERROR_PROCESS;
    if (th_shared_norm(o, true, &norm, &losses) != TH_OK) {
        visit_due(o, false, restore_chunk);
        return o->ctx->error;
    }
    visit_due(o, true, update_chunk);
    return th_gradient_exchange_parameters(o->buffers->exchange, o);
}

th_status th_outer_step(th_optimizer *o)
{
    if (o->ctx->options.shapes_only) {
        th_forget_local_steps(o);
        return TH_OK;
    }
    for (int64_t i = 0; i < o->count; i++)
        o->parameters[i].due = o->parameters[i].changed;
    if (th_gather_due(o) == TH_OK)
        (void)join_parameters(o);
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        if (!p->due)
            continue;
        p->outer++;
        th_storage_mark_changed(p->tensor->storage);
        th_storage_mark_changed(p->tensor->gradient->memory);
        th_gradient_empty(p->tensor);
    }
    th_forget_local_steps(o);
    return o->ctx->error;
}
