/* Creates and frees groups, and runs exchanges. agreement.c agrees on errors. */
#include "processes/group.h"

#include "autograd/profile.h"
#include "tensor/attachment.h"
#include "tensor/error.h"
#include "tensor/memory.h"

static const double default_seconds = 1800;

static void release_group(th_context *ctx, void *object)
{
    th_group *g = object;
    if (g->transport.free)
        g->transport.free(g->transport.user);
    g->freed = true;
    th_quarantine(ctx, g, sizeof *g);
}

th_group *th_group_new(th_context *ctx, const th_transport *transport)
{
    const th_transport given = transport ? *transport : (th_transport){.size = 1};
    if (!th_usable_context(ctx, "group"))
        return NULL;
    if (given.error) {
        th_fail(ctx, TH_ERROR_STATE, "group", "%.600s", given.error);
        return NULL;
    }
    if (given.size < 1 || given.rank < 0 || given.rank >= given.size) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "group", "rank %d is outside a group of %d processes", given.rank, given.size);
        return NULL;
    }
    if (given.size > 1 && given.exchange == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "group", "the transport has no exchange function");
        return NULL;
    }
    th_group *g = th_allocate(ctx, sizeof *g);
    if (g == NULL || !th_attach_object(ctx, g, release_group)) {
        th_release(ctx, g, sizeof *g);
        th_fail_memory(ctx, "group", sizeof *g);
        return NULL;
    }
    *g = (th_group){.ctx = ctx, .transport = given, .timeout_seconds = default_seconds};
    return g;
}

void th_group_free(th_group *g)
{
    if (g == NULL || g->freed)
        return;
    th_detach_object(g->ctx, g);
    release_group(g->ctx, g);
}

int th_group_rank(const th_group *g)
{
    return g ? g->transport.rank : 0;
}

int th_group_size(const th_group *g)
{
    return g ? g->transport.size : 1;
}

th_status th_group_set_timeout(th_group *g, double seconds)
{
    if (g == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, "group_set_timeout", "the group is NULL");
    if (!(seconds > 0))
        return th_fail(g->ctx, TH_ERROR_ARGUMENT, "group_set_timeout", "the time must be positive; it is %g seconds",
                       seconds);
    g->timeout_seconds = seconds;
    return TH_OK;
}

void th_group_request_stop(th_group *g)
{
    if (g)
        g->stop_requested = true;
}

bool th_group_stop_requested(const th_group *g)
{
    return g && (th_group_is_shared(g) ? g->stop_agreed : g->stop_requested);
}

th_group_traffic th_group_traffic_so_far(const th_group *g)
{
    return g ? g->traffic : (th_group_traffic){0};
}

/* -- exchanges -- */

th_status th_group_exchange(th_group *g, const char *operation, const th_message *send, int n_send,
                            const th_message *receive, int n_receive)
{
    if (g->failed) {
        th_fail(g->ctx, TH_ERROR_PROCESS, operation, "an earlier exchange with the other processes failed");
        return TH_ERROR_PROCESS;
    }
    const int64_t start = th_nanoseconds_now();
    uint64_t bytes = 0;
    const char *problem =
        g->transport.exchange(g->transport.user, send, n_send, receive, n_receive, g->timeout_seconds);
    g->traffic.seconds += 1e-9 * (double)(th_nanoseconds_now() - start);
    g->traffic.exchanges++;
    for (int i = 0; i < n_send; i++)
        bytes += send[i].bytes;
    g->traffic.bytes_sent += bytes;
    for (int i = 0; i < n_receive; i++)
        bytes += receive[i].bytes;
    if (g->ctx->profiling)
        th_profile_exchange(g->ctx, operation, (int64_t)bytes, start);
    if (problem == NULL)
        return TH_OK;
    g->failed = true;
    th_fail(g->ctx, TH_ERROR_PROCESS, operation, "rank %d of %d: %.600s", g->transport.rank, g->transport.size,
            problem);
    return TH_ERROR_PROCESS;
}

/* Lists blocks first .. first + count - 1, modulo the number of processes, as one or two messages. Returns their
 * number. */
static int list_blocks(const th_group *g, char *all, size_t bytes, int first, int count, int peer, th_message list[2])
{
    const int size = g->transport.size, until_wrap = first + count <= size ? count : size - first;
    list[0] = (th_message){peer, all + (size_t)first * bytes, (size_t)until_wrap * bytes};
    list[1] = (th_message){peer, all, (size_t)(count - until_wrap) * bytes};
    return count > until_wrap ? 2 : 1;
}

/* The dissemination algorithm (Bruck et al. 1997): the number of blocks that each process has doubles in each round. A
 * process has its own block and the blocks of the ranks before it. */
th_status th_group_all_gather(th_group *g, const char *operation, void *all, size_t bytes)
{
    const int size = th_group_size(g), rank = th_group_rank(g);
    for (int blocks = 1; blocks < size && bytes > 0;) {
        const int count = blocks < size - blocks ? blocks : size - blocks;
        const int to = (rank + blocks) % size, from = (rank + size - blocks) % size;
        th_message send[2], receive[2];
        const int n_send = list_blocks(g, all, bytes, (rank + size - count + 1) % size, count, to, send);
        const int n_receive = list_blocks(g, all, bytes, (from + size - count + 1) % size, count, from, receive);
        if (th_group_exchange(g, operation, send, n_send, receive, n_receive) != TH_OK)
            return TH_ERROR_PROCESS;
        blocks += count;
    }
    return TH_OK;
}
