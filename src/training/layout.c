/* The parameters of an optimizer in the order of memory: see layout.h. */
#include "training/layout.h"

/* Block after block, by offset. */
void th_optimizer_sort(th_optimizer *o)
{
    int64_t placed = 0;
    if (o->sorted)
        return;
    for (int64_t i = 0; i < o->count; i++)
        o->parameters[i].entry->mark = &o->parameters[i];
    for (const th_parameter_block *block = o->ctx->parameter_blocks; block; block = block->next)
        for (th_parameter_entry *entry = block->first; entry; entry = entry->next)
            if (entry->mark) {
                o->layout[placed++] = entry->mark;
                entry->mark = NULL;
            }
    o->sorted = true;
}

bool th_next_run(const th_optimizer *o, bool due, int64_t *at, th_block_run *run)
{
    run->block = NULL;
    for (; *at < o->count; ++*at) {
        const th_optimizer_parameter *p = o->layout[*at];
        const bool included = due ? p->due : p->summed && p->entry->block->has_gradient;
        if (run->block && (!included || p->entry->block != run->block || p->entry->offset != run->end))
            return true;
        if (included && run->block == NULL)
            *run = (th_block_run){p->entry->block, p->entry->offset, p->entry->offset};
        if (included)
            run->end = p->entry->offset + p->entry->bytes;
    }
    return run->block != NULL;
}
