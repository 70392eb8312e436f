/* Allocates the buffers of steps: see step_buffers.h. */
#include "training/shared/step_buffers.h"

#include <string.h>

#include "tensor/error.h"
#include "training/gradient_norm.h"
#include "training/moments.h"

int64_t th_most_shards(const th_optimizer *o)
{
    return (o->shards.count + o->shards.processes - 1) / o->shards.processes;
}

static int owner_of(const th_moments *m, int processes, size_t offset)
{
    int low = 0, high = processes - 1; /* cut[low] <= offset < cut[high + 1] */
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (m->cut[middle] <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int64_t th_chunks_of_owner(const th_optimizer *o, const th_optimizer_parameter *p, int64_t first, int *owner)
{
    const size_t chunk = TH_NORM_CHUNK * th_dtype_size(p->tensor->dtype);
    const int64_t chunks = th_norm_chunks(p->tensor);
    *owner = owner_of(p->moments, o->shards.processes, p->entry->offset + (size_t)first * chunk);
    const size_t end = p->moments->cut[*owner + 1];
    if (end >= p->entry->offset + p->entry->bytes)
        return chunks;
    const int64_t next = (int64_t)((end - p->entry->offset + chunk - 1) / chunk);
    return next < chunks ? next : chunks;
}

/* Returns the largest number of chunks that a process owns. */
static int64_t most_chunks(const th_optimizer *o, int64_t *filled)
{
    int64_t most = 0;
    memset(filled, 0, (size_t)o->shards.processes * sizeof *filled);
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        int owner;
        for (int64_t first = 0, end; p->moments && first < th_norm_chunks(p->tensor); first = end) {
            end = th_chunks_of_owner(o, p, first, &owner);
            filled[owner] += end - first;
            most = filled[owner] > most ? filled[owner] : most;
        }
    }
    return most;
}

void th_step_buffers_free(th_optimizer *o)
{
    th_step_buffers *s = o->buffers;
    const size_t processes = (size_t)o->shards.processes;
    if (s == NULL)
        return;
    th_gradient_exchange_free(o->ctx, s->exchange);
    th_release(o->ctx, s->block, processes * (size_t)s->block_numbers * sizeof *s->block);
    th_release(o->ctx, s->filled, processes * sizeof *s->filled);
    th_release(o->ctx, s->losses, (size_t)o->shards.count * sizeof *s->losses);
    th_release(o->ctx, s->due, s->due_bytes);
    th_release(o->ctx, s, sizeof *s);
    o->buffers = NULL;
    o->compared = false;
}

static th_status reserve(th_optimizer *o, th_step_buffers *s)
{
    th_context *ctx = o->ctx;
    const size_t processes = (size_t)o->shards.processes;
    s->due_bytes = processes * (size_t)o->count;
    s->due = th_allocate(ctx, s->due_bytes);
    s->losses = th_allocate(ctx, (size_t)o->shards.count * sizeof *s->losses);
    s->filled = th_allocate(ctx, processes * sizeof *s->filled);
    if (s->due == NULL || s->losses == NULL || s->filled == NULL)
        return th_fail_memory(ctx, "optimizer_step", s->due_bytes);
    s->block_numbers = 2 * th_most_shards(o) + most_chunks(o, s->filled);
    if (s->block_numbers < 4) /* an extreme */
        s->block_numbers = 4;
    const size_t bytes = processes * (size_t)s->block_numbers * sizeof *s->block;
    s->block = th_allocate(ctx, bytes);
    if (s->block == NULL)
        return th_fail_memory(ctx, "optimizer_step", bytes);
    memset(s->block, 0, bytes); /* all of it is sent */
    s->exchange = th_gradient_exchange_new(o);
    return s->exchange ? TH_OK : ctx->error;
}

th_status th_step_buffers_reserve(th_optimizer *o)
{
    if (o->buffers)
        return TH_OK;
    o->buffers = th_allocate(o->ctx, sizeof *o->buffers);
    if (o->buffers == NULL)
        return th_fail_memory(o->ctx, "optimizer_step", sizeof *o->buffers);
    *o->buffers = (th_step_buffers){.due = NULL};
    if (reserve(o, o->buffers) != TH_OK)
        th_step_buffers_free(o);
    return o->ctx->error;
}
