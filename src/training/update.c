/* Applies the update rule to all parameters that have a gradient: this process's part of them. Adjacent parameters are one
 * run of elements, in tasks of equal size; a matrix may be one whole (update_rule.h). */
#include "kernels/machine/parallel.h"
#include "training/moments.h"

enum { CHUNK = 1 << 14 }; /* elements of one task; independent of the number of threads */

/* Parameters that are adjacent in memory and have the same options and step count: this process's part of them. */
typedef struct run {
    const th_optimizer *optimizer;
    const th_moments *moments;
    size_t begin; /* the offset in the block */
    int64_t numel;
    size_t element;
    th_update update;
} run;

static void update_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const run *r = shared;
    const th_parameter_block *block = r->moments->block;
    const int64_t first = index * CHUNK;
    const int64_t n = r->numel - first < CHUNK ? r->numel - first : CHUNK;
    const size_t offset = r->begin + (size_t)first * r->element;
    void *moment[TH_MAX_MOMENTS] = {NULL};
    for (int i = 0; i < r->optimizer->n_moments; i++)
        moment[i] = (char *)r->moments->moment[i] + (offset - r->moments->begin);
    r->optimizer->rule->update(&r->update, n, block->data + offset, block->gradient + offset, moment);
}

/* Returns whether next can be updated together with the parameter before it. The update also runs over the gap between
 * them, which holds zeros. */
static bool continues(const th_optimizer *o, const th_optimizer_parameter *before, const th_optimizer_parameter *next)
{
    return next->due && !th_updates_matrix(o, next->tensor) && next->entry->block == before->entry->block &&
           next->entry->offset == before->entry->offset + before->entry->bytes && next->group == before->group &&
           next->steps == before->steps && o->rule->keeps_zeros(o->options);
}

/* Returns what is the same for all elements of a parameter. */
static th_update update_of(const th_optimizer *o, const th_optimizer_parameter *p, double gradient_scale)
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
             .update = update_of(o, first, gradient_scale)};
    th_parallel(o->ctx->threads, (r.numel + CHUNK - 1) / CHUNK, update_chunk, &r);
}

/* Updates a whole matrix, if it is in this process's part. */
static void update_matrix(const th_optimizer *o, const th_optimizer_parameter *p, double gradient_scale)
{
    const size_t offset = p->entry->offset;
    const th_moments *m = p->moments;
    if (offset < m->begin || offset + p->entry->bytes > m->end)
        return;
    const th_update update = update_of(o, p, gradient_scale);
    th_matrix matrix = {.rows = p->tensor->size[0],
                        .columns = p->tensor->size[1],
                        .parameter = m->block->data + offset,
                        .gradient = m->block->gradient + offset,
                        .scratch = o->scratch,
                        .threads = o->ctx->threads};
    for (int i = 0; i < o->n_moments; i++)
        matrix.moment[i] = (char *)m->moment[i] + (offset - m->begin);
    o->rule->update_matrix(&update, &matrix);
}

th_status th_update_reserve(th_optimizer *o)
{
    size_t most = o->scratch_bytes;
    for (int64_t i = 0; i < o->count && o->rule->scratch_bytes; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        const th_tensor_impl *t = p->tensor;
        if (p->moments == NULL || !th_updates_matrix(o, t))
            continue;
        const size_t bytes = o->rule->scratch_bytes(o->options, t->dtype, t->size[0], t->size[1]);
        most = bytes > most ? bytes : most;
    }
    if (most == o->scratch_bytes)
        return TH_OK;
    void *scratch;
    if (th_allocate_numbers(o->ctx, most, &scratch, o->rule->name) != TH_OK)
        return o->ctx->error;
    th_release_numbers(o->ctx, o->scratch, o->scratch_bytes);
    o->scratch = scratch;
    o->scratch_bytes = most;
    return TH_OK;
}

void th_update_parameters(const th_optimizer *o, double gradient_scale)
{
    for (int64_t i = 0; i < o->count;) {
        const th_optimizer_parameter *first = o->layout[i++], *last = first;
        if (!first->due)
            continue;
        if (th_updates_matrix(o, first->tensor)) {
            update_matrix(o, first, gradient_scale);
            continue;
        }
        while (i < o->count && continues(o, last, o->layout[i]))
            last = o->layout[i++];
        update_run(o, first, last, gradient_scale);
    }
}
