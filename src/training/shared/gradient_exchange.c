/* The exchange of gradients and parameters: see gradient_exchange.h. */
#include "training/shared/gradient_exchange.h"

#include <string.h>

#include "kernels/machine/parallel.h"
#include "processes/group.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "training/layout.h"
#include "training/moments.h"

enum {
    STAGING = 32 << 20,     /* bytes of received gradients that wait for their sum */
    LEAST_PIECE = 64 << 10, /* bytes of one message, and a multiple of whole chunks of every type */
    CHUNK = 1 << 13         /* elements of one task */
};

/* Adjacent due parameters of one owner: bytes begin to end - 1 of a block. */
typedef struct span {
    th_parameter_block *block;
    size_t begin, end;
} span;

/* The next bytes of an owner's part that travel. */
typedef struct cursor {
    int64_t span;
    size_t at;
} cursor;

struct th_gradient_exchange {
    int rank, size;
    int shards;           /* of the tree; with local steps each process has one sum, as of one shard */
    int *first_node;      /* [size + 1] */
    th_shard_node *nodes; /* [first_node[size]]: of all processes, in order */
    size_t piece;         /* bytes of a message */
    char *staging;        /* pieces of the nodes of other processes, in the order of nodes */
    size_t staging_bytes;
    int64_t *first_span; /* [size + 1]: the spans of each owner */
    span *spans;
    int64_t capacity; /* of spans */
    cursor *cursors;  /* [size] */
    th_message *send, *receive;
    int64_t messages; /* capacity of each list */
};

/* -- memory -- */

static int64_t count_blocks(const th_optimizer *o)
{
    int64_t blocks = 0;
    for (const th_moments *m = o->moments; m; m = m->next)
        blocks++;
    return blocks;
}

static int count_nodes(const th_gradient_exchange *x, int rank)
{
    th_shard_node nodes[TH_MAX_SHARD_NODES];
    return th_shard_nodes(th_shard_first(x->shards, rank, x->size), th_shard_first(x->shards, rank + 1, x->size),
                          nodes);
}

static void list_nodes(th_gradient_exchange *x)
{
    for (int rank = 0; rank < x->size; rank++) {
        th_shard_node nodes[TH_MAX_SHARD_NODES];
        const int n = th_shard_nodes(th_shard_first(x->shards, rank, x->size),
                                     th_shard_first(x->shards, rank + 1, x->size), nodes);
        memcpy(x->nodes + x->first_node[rank], nodes, (size_t)n * sizeof *nodes);
    }
}

void th_gradient_exchange_free(th_context *ctx, th_gradient_exchange *x)
{
    if (x == NULL)
        return;
    const size_t size = (size_t)x->size;
    if (x->first_node)
        th_release(ctx, x->nodes, (size_t)x->first_node[size] * sizeof *x->nodes);
    th_release(ctx, x->first_node, (size + 1) * sizeof *x->first_node);
    th_release_numbers(ctx, x->staging, x->staging_bytes);
    th_release(ctx, x->first_span, (size + 1) * sizeof *x->first_span);
    th_release(ctx, x->spans, (size_t)x->capacity * sizeof *x->spans);
    th_release(ctx, x->cursors, size * sizeof *x->cursors);
    th_release(ctx, x->send, (size_t)x->messages * sizeof *x->send);
    th_release(ctx, x->receive, (size_t)x->messages * sizeof *x->receive);
    th_release(ctx, x, sizeof *x);
}

/* Allocates the lists. Returns false, without an error, if memory runs out. */
static bool allocate_lists(th_gradient_exchange *x, const th_optimizer *o)
{
    th_context *ctx = o->ctx;
    const size_t size = (size_t)x->size;
    x->first_node = th_allocate(ctx, (size + 1) * sizeof *x->first_node);
    if (x->first_node == NULL)
        return false;
    x->first_node[0] = 0;
    int most = 1;
    for (int rank = 0; rank < x->size; rank++) {
        const int n = count_nodes(x, rank);
        x->first_node[rank + 1] = x->first_node[rank] + n;
        most = n > most ? n : most;
    }
    const int64_t nodes = x->first_node[size], spans = o->count + x->size * count_blocks(o);
    const int64_t pieces = (int64_t)most * x->size > nodes ? (int64_t)most * x->size : nodes;
    const int64_t messages = pieces > spans * x->size ? pieces : spans * x->size;
    x->nodes = th_allocate(ctx, (size_t)nodes * sizeof *x->nodes);
    x->first_span = th_allocate(ctx, (size + 1) * sizeof *x->first_span);
    x->cursors = th_allocate(ctx, size * sizeof *x->cursors);
    x->spans = th_allocate(ctx, (size_t)spans * sizeof *x->spans);
    x->capacity = x->spans ? spans : 0;
    x->send = th_allocate(ctx, (size_t)messages * sizeof *x->send);
    x->receive = th_allocate(ctx, (size_t)messages * sizeof *x->receive);
    x->messages = messages;
    return x->nodes && x->first_span && x->cursors && x->spans && x->send && x->receive;
}

/* Returns the bytes of a message: all that a process owns of a block, unless the pieces of all nodes would then not fit
 * into the staging memory. */
static size_t choose_piece(const th_optimizer *o, size_t nodes)
{
    size_t largest = 1;
    for (const th_moments *m = o->moments; m; m = m->next)
        for (int rank = 0; rank < o->shards.processes; rank++)
            largest = m->cut[rank + 1] - m->cut[rank] > largest ? m->cut[rank + 1] - m->cut[rank] : largest;
    const size_t fits = STAGING / nodes / LEAST_PIECE * LEAST_PIECE;
    const size_t all = (largest + LEAST_PIECE - 1) / LEAST_PIECE * LEAST_PIECE;
    return fits < LEAST_PIECE ? LEAST_PIECE : all < fits ? all : fits;
}

th_gradient_exchange *th_gradient_exchange_new(th_optimizer *o)
{
    th_context *ctx = o->ctx;
    th_gradient_exchange *x = th_allocate(ctx, sizeof *x);
    if (x == NULL) {
        th_fail_memory(ctx, o->rule->name, sizeof *x);
        return NULL;
    }
    *x = (th_gradient_exchange){.rank = o->shards.rank,
                                .size = o->shards.processes,
                                .shards = o->diloco.local_steps > 0 ? o->shards.processes : o->shards.count};
    if (!allocate_lists(x, o)) {
        th_gradient_exchange_free(ctx, x);
        th_fail_memory(ctx, o->rule->name, sizeof *x);
        return NULL;
    }
    list_nodes(x);
    const size_t nodes = (size_t)x->first_node[x->size];
    const size_t others = nodes - (size_t)(x->first_node[x->rank + 1] - x->first_node[x->rank]);
    x->piece = choose_piece(o, nodes);
    x->staging_bytes = others * x->piece;
    void *staging;
    if (th_allocate_numbers(ctx, x->staging_bytes, &staging, o->rule->name) != TH_OK) {
        x->staging_bytes = 0;
        th_gradient_exchange_free(ctx, x);
        return NULL;
    }
    x->staging = staging;
    return x;
}

/* -- spans -- */

/* Lists the due bytes of every owner, in the order of memory. */
static void list_spans(th_gradient_exchange *x, const th_optimizer *o)
{
    int64_t n = 0;
    for (int owner = 0; owner < x->size; owner++) {
        th_block_run r;
        x->first_span[owner] = n;
        x->cursors[owner] = (cursor){n, 0};
        for (int64_t at = 0; th_next_run(o, true, &at, &r);) {
            const th_moments *m = o->moments;
            while (m->block != r.block)
                m = m->next;
            const size_t begin = r.begin > m->cut[owner] ? r.begin : m->cut[owner];
            const size_t end = r.end < m->cut[owner + 1] ? r.end : m->cut[owner + 1];
            if (begin < end)
                x->spans[n++] = (span){r.block, begin, end};
        }
    }
    x->first_span[x->size] = n;
}

/* Returns the next piece of an owner's part, and moves the cursor behind it; empty at the end. */
static span next_piece(th_gradient_exchange *x, int owner)
{
    cursor *c = &x->cursors[owner];
    if (c->span == x->first_span[owner + 1])
        return (span){0};
    const span *s = &x->spans[c->span];
    const size_t begin = s->begin + c->at, left = s->end - begin, bytes = left < x->piece ? left : x->piece;
    c->at += bytes;
    if (bytes == left)
        *c = (cursor){c->span + 1, 0};
    return (span){s->block, begin, begin + bytes};
}

/* -- gradients -- */

/* Returns the sum of one of this process's nodes: the last one is in the block's own gradient. */
static char *own_node(const th_optimizer *o, const th_parameter_block *block, int node)
{
    return node < o->shards.n_open ? th_shards_node_gradient(o, block, node) : block->gradient;
}

/* Returns where the piece of a node is: received, or this process's own. */
static char *node_piece(const th_gradient_exchange *x, const th_optimizer *o, const span *piece, int node)
{
    const int own = x->first_node[x->rank], own_end = x->first_node[x->rank + 1];
    if (node >= own && node < own_end)
        return own_node(o, piece->block, node - own) + piece->begin;
    return x->staging + (size_t)(node < own ? node : node - (own_end - own)) * x->piece;
}

/* The sum of a piece over all nodes. */
typedef struct tree_sum {
    const th_gradient_exchange *x;
    const th_optimizer *o;
    const th_kernels *kernels;
    span piece;
    size_t element;
    int64_t numel;
} tree_sum;

/* Adds the nodes within shards first to first + count - 1, from *node on, for `n` elements at byte `at` of the piece.
 * Writes sums over the left operand, or to `to` if it is not NULL. Returns where the result is. */
static char *add_nodes(const tree_sum *s, int first, int count, int *node, size_t at, int64_t n, char *to)
{
    const th_shard_node *next = &s->x->nodes[*node];
    const int end = first + count < s->x->shards ? first + count : s->x->shards;
    if (next->first == first && next->first + next->count == end)
        return node_piece(s->x, s->o, &s->piece, (*node)++) + at;
    const int half = count / 2;
    if (first + half >= end)
        return add_nodes(s, first, half, node, at, n, to);
    char *a = add_nodes(s, first, half, node, at, n, NULL);
    char *b = add_nodes(s, first + half, half, node, at, n, NULL);
    char *sum = to ? to : a;
    s->kernels->add(n, (void *[]){sum, a, b}, NULL);
    return sum;
}

static void sum_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const tree_sum *s = shared;
    const int64_t first = index * CHUNK, n = s->numel - first < CHUNK ? s->numel - first : CHUNK;
    const size_t at = (size_t)first * s->element;
    char *to = s->piece.block->gradient + s->piece.begin + at;
    int node = 0, count = 1;
    while (count < s->x->shards)
        count *= 2;
    char *sum = add_nodes(s, 0, count, &node, at, n, to);
    if (sum != to)
        memcpy(to, sum, (size_t)n * s->element);
}

/* Sends and receives one piece of each owner's part. *own is this process's piece, or empty. Returns
 * false if nothing is left to send or to receive. */
static bool list_pieces(th_gradient_exchange *x, const th_optimizer *o, span *own, int *n_send, int *n_receive)
{
    *n_send = *n_receive = 0;
    *own = next_piece(x, x->rank);
    for (int i = 1; i < x->size; i++) {
        const int peer = (x->rank + i) % x->size; /* so that not all send to one process at the same time */
        const span piece = next_piece(x, peer);
        for (int node = 0; piece.block && node < x->first_node[x->rank + 1] - x->first_node[x->rank]; node++)
            x->send[(*n_send)++] =
                (th_message){peer, own_node(o, piece.block, node) + piece.begin, piece.end - piece.begin};
        for (int node = x->first_node[peer]; own->block && node < x->first_node[peer + 1]; node++)
            x->receive[(*n_receive)++] = (th_message){peer, node_piece(x, o, own, node), own->end - own->begin};
    }
    return *n_send + *n_receive > 0;
}

th_status th_gradient_exchange_sum(th_gradient_exchange *x, const th_optimizer *o)
{
    span own;
    int n_send, n_receive;
    list_spans(x, o);
    while (list_pieces(x, o, &own, &n_send, &n_receive)) {
        if (th_group_exchange(o->group, "optimizer_step", x->send, n_send, x->receive, n_receive) != TH_OK)
            return TH_ERROR_PROCESS;
        if (own.block == NULL)
            continue;
        tree_sum s = {.x = x, .o = o, .piece = own, .element = th_dtype_size(own.block->dtype)};
        s.kernels = th_context_kernels(o->ctx, own.block->dtype);
        s.numel = (int64_t)((own.end - own.begin) / s.element);
        th_parallel(o->ctx->threads, (s.numel + CHUNK - 1) / CHUNK, sum_chunk, &s);
    }
    return TH_OK;
}

/* -- parameters -- */

th_status th_gradient_exchange_parameters(th_gradient_exchange *x, const th_optimizer *o)
{
    int n_send = 0, n_receive = 0;
    for (int i = 1; i < x->size; i++) {
        const int peer = (x->rank + i) % x->size;
        for (int64_t s = x->first_span[x->rank]; s < x->first_span[x->rank + 1]; s++)
            x->send[n_send++] =
                (th_message){peer, x->spans[s].block->data + x->spans[s].begin, x->spans[s].end - x->spans[s].begin};
        for (int64_t s = x->first_span[peer]; s < x->first_span[peer + 1]; s++)
            x->receive[n_receive++] =
                (th_message){peer, x->spans[s].block->data + x->spans[s].begin, x->spans[s].end - x->spans[s].begin};
    }
    if (n_send + n_receive == 0)
        return TH_OK;
    return th_group_exchange(o->group, "optimizer_step", x->send, n_send, x->receive, n_receive);
}
