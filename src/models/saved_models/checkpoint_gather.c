/* Gathers moments: see checkpoint_gather.h. */
#include "models/saved_models/checkpoint_gather.h"

#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"

static th_moment_part part_of_rank(const th_gathering *g, const th_saved_moment *m, int rank)
{
    return th_saved_tensor_part_of_rank(g->optimizer, m->parameter, m->tensor, rank);
}

/* The parts of all processes are the whole moment. */
static size_t bytes_of(const th_gathering *g, const th_saved_moment *m)
{
    size_t bytes = 0;
    for (int rank = 0; rank < th_group_size(g->group); rank++) {
        const th_moment_part part = part_of_rank(g, m, rank);
        bytes += part.end - part.begin;
    }
    return bytes;
}

/* Returns the size of the largest moment that rank 0 does not have alone. */
static size_t largest_shared_bytes(const th_gathering *g, const th_saved_moment *moments, int64_t count)
{
    size_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const th_moment_part part = part_of_rank(g, &moments[i], 0);
        const size_t bytes = bytes_of(g, &moments[i]);
        if (part.end - part.begin < bytes && bytes > largest)
            largest = bytes;
    }
    return largest;
}

th_status th_gathering_begin(th_gathering *g, const th_optimizer *o, const th_saved_moment *moments, int64_t count,
                             const char *operation)
{
    th_context *ctx = o->ctx;
    th_group *group = o->group;
    *g = (th_gathering){.optimizer = o, .group = group, .operation = operation};
    const size_t messages = (size_t)th_group_size(group) * sizeof *g->received;
    const size_t bytes = largest_shared_bytes(g, moments, count);
    if (th_group_rank(group) > 0 || bytes == 0)
        return TH_OK;
    g->received = th_allocate(ctx, messages);
    if (g->received == NULL)
        return th_fail_memory(ctx, operation, messages);
    void *buffer;
    const th_status status = th_allocate_numbers(ctx, bytes, &buffer, operation);
    if (status != TH_OK)
        return status;
    g->buffer = buffer;
    g->buffer_bytes = bytes;
    return TH_OK;
}

void th_gathering_end(th_gathering *g)
{
    if (g->group == NULL)
        return;
    th_context *ctx = g->group->ctx;
    if (g->buffer)
        th_release_numbers(ctx, g->buffer, g->buffer_bytes);
    th_release(ctx, g->received, (size_t)th_group_size(g->group) * sizeof *g->received);
    *g = (th_gathering){0};
}

uint32_t th_gathering_crc32c(const th_gathering *g, const th_saved_moment *m, uint32_t crc)
{
    for (int rank = 0; rank < th_group_size(g->group); rank++) {
        const th_moment_part part = part_of_rank(g, m, rank);
        const uint64_t bounds[2] = {part.begin, part.end};
        crc = th_crc32c(crc, bounds, sizeof bounds);
    }
    return crc;
}

th_status th_gather_moment(const th_gathering *g, const th_saved_moment *m, void **data)
{
    const int rank = th_group_rank(g->group), size = th_group_size(g->group);
    const th_moment_part own_part = th_saved_tensor_part(g->optimizer, m->parameter, m->tensor);
    const size_t own_bytes = own_part.end - own_part.begin;
    *data = own_part.data;
    if (rank > 0 && own_bytes > 0)
        return th_group_exchange(g->group, g->operation, &(th_message){0, own_part.data, own_bytes}, 1, NULL, 0);
    if (rank > 0 || own_bytes == bytes_of(g, m))
        return TH_OK;
    if (own_bytes > 0)
        memcpy(g->buffer + own_part.begin, own_part.data, own_bytes);
    int n = 0;
    for (int peer = 1; peer < size; peer++) {
        const th_moment_part part = part_of_rank(g, m, peer);
        if (part.begin < part.end)
            g->received[n++] = (th_message){peer, g->buffer + part.begin, part.end - part.begin};
    }
    *data = g->buffer;
    return th_group_exchange(g->group, g->operation, NULL, 0, g->received, n);
}
