/* Applies the update rule to all parameters that have a gradient: this process's part of them. Adjacent parameters are one
 * run of elements, in tasks of equal size. matrices.c updates whole matrices. */
#include "kernels/machine/parallel.h"
#include "training/chunks.h"
#include "training/matrices.h"
#include "training/moments.h"

/* Parameters that are adjacent in memory and have the same options and step count: this process's part of them. */
typedef struct run {
    const th_optimizer *optimizer;
    const th_moments *moments;
    size_t begin; /* the offset in the block */
    int64_t numel;
    size_t element;
    char *moment[TH_MAX_MOMENTS];
    th_update update;
} run;

static void update_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const run *r = shared;
    const th_parameter_block *block = r->moments->block;
    const th_chunk chunk = th_chunk_at(r->numel, r->element, index);
    const size_t offset = r->begin + chunk.at;
    void *moment[TH_MAX_MOMENTS] = {NULL};
    for (int i = 0; i < r->optimizer->n_moments; i++)
        moment[i] = r->moment[i] + chunk.at;
    r->optimizer->rule->update(&r->update, chunk.count, block->data + offset, block->gradient + offset, moment);
}

/* Returns whether next can be updated together with the parameter before it. The update also runs over the gap between
 * them, which holds zeros. */
static bool continues(const th_optimizer *o, const th_optimizer_parameter *before, const th_optimizer_parameter *next)
{
    return next->due && !next->parts && next->entry->block == before->entry->block &&
           next->entry->offset == before->entry->offset + before->entry->bytes && next->group == before->group &&
           next->steps == before->steps && o->rule->keeps_zeros(o->options);
}

th_update th_update_of(const th_optimizer *o, const th_optimizer_parameter *p, double gradient_scale)
{
    const th_optimizer_group *g = &o->groups[p->group];
    return (th_update){.dtype = p->tensor->dtype,
                       .kernels = th_context_kernels(o->ctx, p->tensor->dtype),
                       .options = o->options,
                       .learning_rate = o->learning_rate * g->learning_rate_factor,
                       .weight_decay = g->weight_decay,
                       .gradient_scale = gradient_scale,
                       .steps = p->steps};
}

/* Updates parameters first to last, which are adjacent. */
static void update_run(const th_optimizer *o, const th_optimizer_parameter *first, const th_optimizer_parameter *last,
                       double gradient_scale)
{
    const size_t element = th_dtype_size(first->tensor->dtype);
    const th_moments *m = first->moments;
    const size_t end_of_run = last->entry->offset + (size_t)th_tensor_numel(last->tensor) * element;
    const size_t begin = first->entry->offset > m->begin ? first->entry->offset : m->begin;
    const size_t end = end_of_run < m->end ? end_of_run : m->end;
    if (begin >= end)
        return;
    run r = {.optimizer = o,
             .moments = m,
             .begin = begin,
             .numel = (int64_t)((end - begin) / element),
             .element = element,
             .update = th_update_of(o, first, gradient_scale)};
    for (int i = 0; i < o->n_moments; i++)
        r.moment[i] = (char *)m->moment[i] + th_moment_offset(m, i, begin);
    th_parallel(o->ctx->threads, th_chunk_count(r.numel), update_chunk, &r);
}

void th_update_parameters(const th_optimizer *o, double gradient_scale)
{
    for (int64_t i = 0; i < o->count;) {
        const th_optimizer_parameter *first = o->layout[i++], *last = first;
        if (!first->due || first->parts)
            continue;
        while (i < o->count && continues(o, last, o->layout[i]))
            last = o->layout[i++];
        update_run(o, first, last, gradient_scale);
    }
    th_matrices_update(o, gradient_scale);
}
