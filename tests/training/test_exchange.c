/* Every message of one process of a group in a step, and its bytes; the sums; the memory. The
 * test is the transport, and computes what the other processes would send. */
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

enum {
    CHUNK = 1 << 14,    /* elements that are never divided */
    UNIT = 64 << 10,    /* bytes: messages of a piece are multiples of it */
    STAGING = 32 << 20, /* bytes of received gradients */
    MOST_PROCESSES = 16,
    MOST_SHARDS = 112
};

/* -- gradients -- */

/* Element i of a shard's gradient: integers of 24 bits, so that sums are rounded and their order shows. */
static float gradient_of(int shard, int64_t i)
{
    const uint32_t mixed = ((uint32_t)shard + 1) * UINT32_C(2654435761) ^ (uint32_t)i * UINT32_C(0x9E3779B1);
    return (float)(int32_t)(mixed >> 8) - 0x1p23F;
}

/* Returns the sum of shards first to first + count - 1, those below `end` only. count is a power of two. */
static float tree_sum(int first, int count, int end, int64_t i)
{
    if (count == 1)
        return gradient_of(first, i);
    const float left = tree_sum(first, count / 2, end, i);
    return first + count / 2 >= end ? left : left + tree_sum(first + count / 2, count / 2, end, i);
}

/* -- what a step exchanges -- */

typedef struct {
    int first, count;
} node;

typedef struct {
    int rank, size, shards;
    int64_t elements;
    float *v;
    int64_t cut[MOST_PROCESSES + 1];      /* the first element of each process's part */
    int first_node[MOST_PROCESSES + 1];   /* of each process */
    node node[MOST_PROCESSES * 8];        /* the largest subtrees of each process's shards */
    int64_t piece;                        /* elements */
    int exchanges, rounds, pieces, phase; /* of the current step; phase 0: nothing is compared */
    int failing;                          /* the exchange that fails; 0: none */
} exchange_plan;

static int first_shard(const exchange_plan *p, int rank)
{
    return p->shards * rank / p->size;
}

static void list_nodes(exchange_plan *p)
{
    int n = 0;
    for (int rank = 0; rank < p->size; rank++) {
        p->first_node[rank] = n;
        for (int at = first_shard(p, rank); at < first_shard(p, rank + 1); at += p->node[n++].count) {
            int count = 1;
            while (at % (2 * count) == 0 && at + 2 * count <= first_shard(p, rank + 1))
                count *= 2;
            p->node[n] = (node){at, count};
        }
    }
    p->first_node[p->size] = n;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static exchange_plan plan_of(int rank, int size, int shards, int64_t elements)
{
    exchange_plan p = {.rank = rank, .size = size, .shards = shards, .elements = elements};
    int64_t largest = 0;
    list_nodes(&p);
    for (int r = 1; r <= size; r++) {
        const int64_t target = elements * r / size, before = target / CHUNK * CHUNK;
        const int64_t after = least(before + CHUNK, elements);
        p.cut[r] = r == size || target - before > after - target ? after : before;
        largest = p.cut[r] - p.cut[r - 1] > largest ? p.cut[r] - p.cut[r - 1] : largest;
    }
    const int64_t fits = STAGING / p.first_node[size] / UNIT, all = (largest * 4 + UNIT - 1) / UNIT;
    p.piece = least(all, fits) * UNIT / 4;
    p.pieces = (int)((largest + p.piece - 1) / p.piece);
    for (int have = 1; have < size; have *= 2)
        p.rounds++;
    return p;
}

/* Returns how many elements piece number k of a process's part has, and its first element. */
static int64_t piece_at(const exchange_plan *p, int rank, int k, int64_t *first)
{
    *first = p->cut[rank] + k * p->piece;
    const int64_t left = p->cut[rank + 1] - *first;
    return left < 0 ? 0 : least(left, p->piece);
}

/* Checks the gradients that piece k sends, and fills in those that it receives. */
static void exchange_gradients(const exchange_plan *p, int k, const th_message *send, int n_send,
                               const th_message *receive, int n_receive)
{
    int64_t first;
    int sent = 0, received = 0;
    for (int i = 1; i < p->size; i++) {
        const int peer = (p->rank + i) % p->size;
        const int64_t theirs = piece_at(p, peer, k, &first);
        for (int n = p->first_node[p->rank]; theirs > 0 && n < p->first_node[p->rank + 1]; n++, sent++) {
            ck_assert_int_lt(sent, n_send);
            ck_assert_int_eq(send[sent].peer, peer);
            ck_assert_uint_eq(send[sent].bytes, (size_t)theirs * 4);
            const float *sum = send[sent].data;
            for (int64_t e = 0; e < theirs; e += e + 101 < theirs ? 101 : 1)
                ck_assert_float_eq(sum[e], tree_sum(p->node[n].first, p->node[n].count, p->shards, first + e));
        }
        const int64_t own = piece_at(p, p->rank, k, &first);
        for (int n = p->first_node[peer]; own > 0 && n < p->first_node[peer + 1]; n++, received++) {
            ck_assert_int_lt(received, n_receive);
            ck_assert_int_eq(receive[received].peer, peer);
            ck_assert_uint_eq(receive[received].bytes, (size_t)own * 4);
            float *sum = receive[received].data;
            for (int64_t e = 0; e < own; e++)
                sum[e] = tree_sum(p->node[n].first, p->node[n].count, p->shards, first + e);
        }
    }
    ck_assert_int_eq(sent, n_send);
    ck_assert_int_eq(received, n_receive);
}

/* Checks that this process sends its part of v to the others; the others send their ranks. */
static void exchange_parameters(const exchange_plan *p, const th_message *send, int n_send, const th_message *receive,
                                int n_receive)
{
    int sent = 0, received = 0;
    for (int i = 1; i < p->size; i++) {
        const int peer = (p->rank + i) % p->size;
        const int64_t own = p->cut[p->rank + 1] - p->cut[p->rank], theirs = p->cut[peer + 1] - p->cut[peer];
        if (own > 0) {
            ck_assert_int_eq(send[sent].peer, peer);
            ck_assert_ptr_eq(send[sent].data, p->v + p->cut[p->rank]);
            ck_assert_uint_eq(send[sent++].bytes, (size_t)own * 4);
        }
        if (theirs > 0) {
            ck_assert_int_eq(receive[received].peer, peer);
            ck_assert_ptr_eq(receive[received].data, p->v + p->cut[peer]);
            ck_assert_uint_eq(receive[received].bytes, (size_t)theirs * 4);
            for (int64_t e = p->cut[peer]; e < p->cut[peer + 1]; e++)
                p->v[e] = (float)peer;
            received++;
        }
    }
    ck_assert_int_eq(sent, n_send);
    ck_assert_int_eq(received, n_receive);
}

/* Fills the received blocks with this process's own, as if all processes had sent the same, and with zeros behind them. */
static void echo(const th_message *send, int n_send, const th_message *receive, int n_receive)
{
    size_t used = 0;
    for (int i = 0, s = 0; i < n_receive; i++) {
        memset(receive[i].data, 0, receive[i].bytes);
        for (size_t done = 0; done < receive[i].bytes && s < n_send;) {
            const size_t wanted = receive[i].bytes - done, left = send[s].bytes - used,
                         n = wanted < left ? wanted : left;
            memcpy((char *)receive[i].data + done, (const char *)send[s].data + used, n);
            done += n;
            used += n;
            if (used == send[s].bytes) {
                s++;
                used = 0;
            }
        }
    }
}

/* Returns the bytes that every process sends for the norm: the weight and the loss of its shards, and sums of its chunks. */
static size_t norm_bytes(const exchange_plan *p)
{
    int64_t most = 0;
    for (int r = 0; r < p->size; r++) {
        const int64_t chunks = (p->cut[r + 1] - p->cut[r] + CHUNK - 1) / CHUNK;
        most = chunks > most ? chunks : most;
    }
    const int64_t numbers = 2 * ((p->shards + p->size - 1) / p->size) + most;
    return (size_t)(numbers < 4 ? 4 : numbers) * sizeof(double);
}

/* A step is an agreement, the gradients, their norm, and the parameters. */
static const char *exchange(void *user, const th_message *send, int n_send, const th_message *receive, int n_receive,
                            double seconds)
{
    (void)seconds;
    exchange_plan *p = user;
    const int at = p->exchanges++ - p->rounds;
    if (p->failing > 0 && p->exchanges == p->failing)
        return "the network is down";
    if (p->phase > 0 && at == p->pieces)
        ck_assert_uint_eq(send[0].bytes, norm_bytes(p));
    if (p->phase == 0 || at < 0 || (at >= p->pieces && at < p->pieces + p->rounds))
        echo(send, n_send, receive, n_receive);
    else if (at < p->pieces)
        exchange_gradients(p, at, send, n_send, receive, n_receive);
    else
        exchange_parameters(p, send, n_send, receive, n_receive);
    return NULL;
}

/* -- a step -- */

static void compute_shards(th_optimizer *o, th_tensor *v, int64_t elements, bool zeros)
{
    th_context *c = th_context_of(v);
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c)) {
        th_tensor *g = th_zeros(c, TH_FLOAT32, TH_SHAPE(elements));
        ck_assert_ptr_nonnull(g);
        float *number = th_data(g);
        for (int64_t i = 0; i < elements && !zeros; i++)
            number[i] = gradient_of(shard.index, i);
        ck_assert_int_eq(th_backward(v, &(th_backward_options){.cotangent = g}), TH_OK);
        th_tensor_free(g);
    }
}

static const struct {
    int size, shards;
    int64_t elements;
} groups[] = {{3, 3, 1008},       {3, 7, 5 * CHUNK + 48}, {5, 15, 9 * CHUNK}, {7, 21, 48}, {6, 23, 33 * CHUNK + 16},
              {16, 112, 2883568}, {16, 16, 17 * CHUNK}};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Compares two steps of one process; in the first one the others are only echoes. */
static void compare_steps(int rank, int size, int shards, int64_t elements)
{
    exchange_plan p = plan_of(rank, size, shards, elements);
    const th_transport transport = {.rank = rank, .size = size, .exchange = exchange, .user = &p};
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_module *m = th_module_new(c, sizeof *m, "vector", NULL);
    th_tensor *v = th_module_add_parameter(m, "v", TH_SHAPE(elements));
    th_group *group = th_group_new(c, &transport);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = shards, .group = group});
    ck_assert_msg(o != NULL, "%s", th_error_message(c));
    for (p.phase = 0; p.phase < 2; p.phase++) {
        compute_shards(o, v, elements, p.phase == 0);
        p.v = th_data(v);
        memset(p.v, 0, (size_t)elements * 4);
        p.exchanges = 0;
        ck_assert_msg(th_optimizer_step(o) == TH_OK, "%s", th_error_message(c));
    }
    ck_assert_int_eq(p.exchanges, 2 * p.rounds + p.pieces + 1);
    int count = 1;
    while (count < shards)
        count *= 2;
    const float rate = (float)(1 / (double)th_group_size(group) / (shards / size));
    int64_t wrong = 0;
    for (int r = 0; r < size; r++)
        for (int64_t i = p.cut[r]; i < p.cut[r + 1]; i++)
            if (r != rank || shards % size == 0)
                wrong += p.v[i] != (r != rank ? (float)r : 0 - tree_sum(0, count, shards, i) * rate);
    ck_assert_int_eq(wrong, 0);
    const size_t live = th_memory(c).live;
    p.phase = 0;
    for (int i = 0; i < 2; i++) { /* a freed optimizer leaves nothing: another one takes its memory */
        th_optimizer_free(o);
        o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = shards, .group = group});
        compute_shards(o, v, elements, true);
        ck_assert_msg(th_optimizer_step(o) == TH_OK, "%s", th_error_message(c));
    }
    ck_assert_uint_eq(th_memory(c).live, live);
    th_context_free(c);
    ck_assert_uint_eq(memory.bytes, 0);
}

START_TEST(a_process_exchanges_and_adds_its_part)
{
    const int size = groups[_i].size, shards = groups[_i].shards;
    const int64_t elements = groups[_i].elements;
    for (int rank = elements > 100 * CHUNK ? 7 : 0; rank < size; rank += size / 2)
        compare_steps(rank, size, shards, elements);
}
END_TEST

/* Makes a first step in which one call of the allocator fails, and repeats it. Returns whether there was such a call.
 * *live: the bytes in use after the step. */
static bool fail_at(int64_t call, int shards, int64_t elements, size_t *live)
{
    exchange_plan p = plan_of(0, 3, shards, elements);
    const th_transport transport = {.rank = 0, .size = 3, .exchange = exchange, .user = &p};
    test_memory memory = {0};
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_module *m = th_module_new(c, sizeof *m, "vector", NULL);
    th_tensor *v = th_module_add_parameter(m, "v", TH_SHAPE(elements));
    th_optimizer *o = th_sgd_new(
        m,
        &(th_sgd_options){.learning_rate = 1, .momentum = 0.5, .shards = shards, .group = th_group_new(c, &transport)});
    compute_shards(o, v, elements, false);
    memory.fail_at = memory.calls + call;
    const th_status status = th_optimizer_step(o);
    const bool failed = memory.calls >= memory.fail_at;
    memory.fail_at = 0;
    ck_assert_int_eq(status, failed ? TH_ERROR_MEMORY : TH_OK);
    ck_assert_int_eq(th_step(c), failed ? 0 : 1);
    if (failed) {
        ck_assert_msg(strstr(th_error_message(c), "rank 0: ") == th_error_message(c), "%s", th_error_message(c));
        th_error_clear(c);
        ck_assert_double_eq(th_get(v, TH_INDEX(0)), 0);
        p.phase = 1;
        p.exchanges = -p.rounds; /* the first agreement of a group compares the options of modules, too */
        compute_shards(o, v, elements, false);
        p.v = th_data(v);
        ck_assert_msg(th_optimizer_step(o) == TH_OK, "%s", th_error_message(c));
    }
    *live = th_memory(c).live;
    th_context_free(c);
    ck_assert_uint_eq(memory.bytes, 0);
    return failed;
}

START_TEST(a_step_without_memory_can_be_repeated)
{
    int64_t calls = 1;
    size_t live, expected;
    ck_assert(!fail_at(INT64_MAX / 2, 100, 3 * CHUNK, &expected));
    for (; fail_at(calls, 100, 3 * CHUNK, &live); calls++)
        ck_assert_uint_eq(live, expected);
    ck_assert_int_gt(calls, 3);
}
END_TEST

/* Makes a step in which an exchange fails. Returns whether there was such an exchange. */
static bool fail_in(int exchange_number, bool local)
{
    exchange_plan p = plan_of(1, 3, 6, 3 * CHUNK);
    const th_transport transport = {.rank = 1, .size = 3, .exchange = exchange, .user = &p};
    th_context *c = th_context_new(&(th_context_options){.threads = 1});
    th_module *m = th_module_new(c, sizeof *m, "vector", NULL);
    th_tensor *v = th_module_add_parameter(m, "v", TH_SHAPE(3 * CHUNK));
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1,
                                                      .shards = 6,
                                                      .group = th_group_new(c, &transport),
                                                      .diloco = {.local_steps = local}});
    compute_shards(o, v, 3 * CHUNK, false);
    p.failing = exchange_number;
    const th_status status = th_optimizer_step(o);
    const bool failed = p.exchanges >= exchange_number;
    ck_assert_int_eq(status, failed ? TH_ERROR_PROCESS : TH_OK);
    ck_assert_int_eq(p.exchanges, failed ? exchange_number : exchange_number - 1);
    if (failed)
        ck_assert_msg(strstr(th_error_message(c), "rank 1 of 3: the network is down"), "%s", th_error_message(c));
    th_error_clear(c);
    compute_shards(o, v, 3 * CHUNK, false);
    p.failing = 0;
    ck_assert_int_eq(th_optimizer_step(o), failed ? TH_ERROR_PROCESS : TH_OK);
    ck_assert(!failed || strstr(th_error_message(c), "an earlier exchange with the other processes failed"));
    th_context_free(c);
    return failed;
}

START_TEST(a_step_ends_with_the_exchange_that_fails)
{
    int number = 1;
    while (fail_in(number, _i != 0))
        number++;
    ck_assert_int_ge(number, 2 + 2 + 1 + 2 + 1);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("exchange", NULL, NULL);
    tcase_add_test(tests, a_step_without_memory_can_be_repeated);
    tcase_add_loop_test(tests, a_step_ends_with_the_exchange_that_fails, 0, 2);
    tcase_add_loop_test(tests, a_process_exchanges_and_adds_its_part, 0, GROUPS);
    return run_suites();
}
