/* Tests of groups of processes: agreement, and what every process reports when one of them fails or differs. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "openblas.h"
#include "processes.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(NULL);
    ck_assert_ptr_nonnull(ctx);
}

/* -- groups in one process -- */

START_TEST(groups_of_one_process_exchange_nothing)
{
    th_group *group = th_group_new(ctx, NULL);
    ck_assert_int_eq(th_group_rank(group), 0);
    ck_assert_int_eq(th_group_size(group), 1);
    ck_assert_int_eq(th_group_agree(group), TH_OK);
    ck_assert(!th_group_stop_requested(group));
    th_group_request_stop(group);
    ck_assert(th_group_stop_requested(group));
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_optimizer *adam = th_adam_new(m, &(th_adam_options){.learning_rate = 1, .shards = 2, .group = group});
    for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard); th_tape_clear(ctx))
        ck_assert_int_eq(
            th_backward(th_sum(th_module_forward(m, th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 2))), TH_ALL_AXES, NULL),
                        NULL),
            TH_OK);
    ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
    ck_assert_uint_eq(th_group_traffic_so_far(group).exchanges, 0);
}
END_TEST

START_TEST(a_group_without_memory_is_an_error)
{
    test_memory memory = {0};
    th_context *other = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    int failures = 0;
    for (int64_t call = 1;; call++) {
        memory.fail_at = memory.calls + call;
        th_group *group = th_group_new(other, NULL);
        const bool failed = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        ck_assert_int_eq(group == NULL, failed);
        ck_assert_int_eq(th_error_code(other), failed ? TH_ERROR_MEMORY : TH_OK);
        th_error_clear(other);
        th_group_free(group);
        if (!failed)
            break;
        failures++;
    }
    ck_assert_int_gt(failures, 0);
    th_context_free(other);
    ck_assert_uint_eq(memory.bytes, 0);
}
END_TEST

START_TEST(null_groups_are_groups_of_one)
{
    ck_assert_int_eq(th_group_rank(NULL), 0);
    ck_assert_int_eq(th_group_size(NULL), 1);
    ck_assert(!th_group_stop_requested(NULL));
    ck_assert_uint_eq(th_group_traffic_so_far(NULL).bytes_sent, 0);
    th_group_request_stop(NULL);
    th_group_free(NULL);
    ck_assert_int_eq(th_group_agree(NULL), TH_OK);
    ck_assert_int_ne(th_group_set_timeout(NULL, 1), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "the group is NULL");
}
END_TEST

static const char *no_exchange(void *user, const th_message *send, int n_send, const th_message *receive, int n_receive,
                               double seconds)
{
    (void)user, (void)send, (void)n_send, (void)receive, (void)n_receive, (void)seconds;
    return "the network is down";
}

START_TEST(wrong_transports_are_refused)
{
    ck_assert_ptr_null(th_group_new(ctx, &(th_transport){.rank = 0, .size = 0}));
    expect_error(TH_ERROR_ARGUMENT, "rank 0 is outside a group of 0 processes");
    ck_assert_ptr_null(th_group_new(ctx, &(th_transport){.rank = 2, .size = 2, .exchange = no_exchange}));
    expect_error(TH_ERROR_ARGUMENT, "rank 2 is outside a group of 2 processes");
    ck_assert_ptr_null(th_group_new(ctx, &(th_transport){.rank = -1, .size = 2, .exchange = no_exchange}));
    expect_error(TH_ERROR_ARGUMENT, "rank -1");
    ck_assert_ptr_null(th_group_new(ctx, &(th_transport){.size = 2}));
    expect_error(TH_ERROR_ARGUMENT, "no exchange function");
    ck_assert_ptr_null(th_group_new(ctx, &(th_transport){.size = 1, .error = "the cable is missing"}));
    expect_error(TH_ERROR_STATE, "group: the cable is missing");
    th_group *group = th_group_new(ctx, &(th_transport){.size = 2, .exchange = no_exchange});
    ck_assert_int_ne(th_group_set_timeout(group, 0), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "must be positive");
    ck_assert_int_ne(th_group_set_timeout(group, NAN), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "must be positive");
    ck_assert_int_eq(th_group_set_timeout(group, INFINITY), TH_OK);
}
END_TEST

START_TEST(a_failing_transport_is_an_error_of_the_group)
{
    th_group *group = th_group_new(ctx, &(th_transport){.size = 2, .exchange = no_exchange});
    ck_assert_int_eq(th_group_agree(group), TH_ERROR_PROCESS);
    expect_error(TH_ERROR_PROCESS, "group_agree: rank 0 of 2: the network is down");
    ck_assert_int_eq(th_group_agree(group), TH_ERROR_PROCESS);
    expect_error(TH_ERROR_PROCESS, "an earlier exchange");
    th_group_free(group);
    ck_assert_int_eq(th_group_agree(group), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "the group has been freed");
}
END_TEST

static int frees;
static void count_free(void *user)
{
    frees += user == &frees;
}

START_TEST(the_context_frees_a_group_once)
{
    const th_transport t = {.size = 2, .exchange = no_exchange, .free = count_free, .user = &frees};
    th_context *other = th_context_new(NULL);
    th_group_free(th_group_new(other, &t));
    ck_assert_int_eq(frees, 1);
    ck_assert_ptr_nonnull(th_group_new(other, &t));
    th_context_free(other);
    ck_assert_int_eq(frees, 2);
}
END_TEST

START_TEST(optimizers_refuse_shards_and_groups_that_do_not_fit)
{
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_context *other = th_context_new(NULL);
    th_group *group = th_group_new(ctx, &(th_transport){.size = 4, .exchange = no_exchange});
    th_group *foreign = th_group_new(other, NULL), *freed = th_group_new(ctx, NULL);
    th_group_free(freed);
    ck_assert_ptr_null(th_adam_new(m, &(th_adam_options){.learning_rate = 1, .shards = -1}));
    expect_error(TH_ERROR_ARGUMENT, "a step has 1 to 65536 shards, not -1");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 65537}));
    expect_error(TH_ERROR_ARGUMENT, "not 65537");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .group = group}));
    expect_error(TH_ERROR_ARGUMENT, "4 processes cannot share a step of 1 shard: .shards must be at least 4");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .group = foreign}));
    expect_error(TH_ERROR_ARGUMENT, "the group belongs to another context");
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .group = freed}));
    expect_error(TH_ERROR_ARGUMENT, "the group has been freed");
    th_context_free(other);
}
END_TEST

/* -- misuse of the loop -- */

static void backward(th_module *m)
{
    th_tensor *x = th_ones(m->ctx, TH_FLOAT32, TH_SHAPE(1, 2));
    ck_assert_int_eq(th_backward(th_sum(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tensor_free(x);
}

START_TEST(a_step_needs_all_shards)
{
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 3});
    const uint32_t before = th_module_crc32c(m);
    backward(m);
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "the step has 3 shards: compute them in a loop over th_optimizer_shards");
    th_shard shard = th_optimizer_shards(o);
    for (int i = 0; i < 2; i++) {
        ck_assert(th_shard_next(&shard));
        backward(m);
    }
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "shard 1 has not been computed; this process computes shards 0 to 2 of 3");
    ck_assert(!th_shard_next(&shard));
    expect_error(TH_ERROR_STATE, "another loop over the shards, or a step, began in this loop");
    ck_assert_uint_eq(th_module_crc32c(m), before);
    ck_assert(!th_shard_next(NULL));
    ck_assert(!th_shard_next(&(th_shard){0}));
    ck_assert_int_eq(th_optimizer_shards(NULL).count, 0);
    expect_error(TH_ERROR_ARGUMENT, "the optimizer is NULL");
    for (shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(ctx)) {
        backward(m);
        shard.weight = shard.index == 0 ? 0 : -0.0;
    }
    ck_assert_int_eq(th_optimizer_step(o), TH_ERROR_VALUE);
    expect_error(TH_ERROR_VALUE, "the sum of the shards' weights is 0");
    ck_assert_uint_eq(th_module_crc32c(m), before);
}
END_TEST

START_TEST(shards_draw_different_numbers_and_a_repeated_loop_the_same)
{
    double drawn[2][4], plain;
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 4});
    for (int loop = 0; loop < 2; loop++)
        for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(ctx)) {
            backward(m);
            th_step_begin(ctx);
            drawn[loop][shard.index] = th_item(th_randn(ctx, TH_FLOAT64, TH_SCALAR));
        }
    for (int i = 0; i < 4; i++) {
        ck_assert_double_eq(drawn[0][i], drawn[1][i]);
        for (int j = 0; j < i; j++)
            ck_assert_double_ne(drawn[0][i], drawn[0][j]);
    }
    plain = th_item(th_randn(ctx, TH_FLOAT64, TH_SCALAR));
    ck_assert_double_eq(plain, drawn[0][0]); /* shard 0 has the numbers of a step without shards */
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
}
END_TEST

START_TEST(open_nodes_take_one_gradient_for_each_level)
{
    enum { ELEMENTS = 1 << 16 };
    size_t peak[2] = {0};
    for (int i = 0; i < 2; i++) {
        th_context *c = th_context_new(NULL);
        th_module *m = th_module_new(c, sizeof *m, "vector", NULL);
        th_tensor *v = th_module_add_parameter(m, "v", TH_SHAPE(ELEMENTS));
        th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = i ? 8 : 1});
        for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c))
            ck_assert_int_eq(th_backward(th_sum(v, TH_ALL_AXES, NULL), NULL), TH_OK);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        peak[i] = th_memory(c).peak;
        th_context_free(c);
    }
    ck_assert_uint_ge(peak[1] - peak[0], 3 * 4 * (size_t)ELEMENTS);
    ck_assert_uint_le(peak[1] - peak[0], 3 * 4 * (size_t)ELEMENTS + 4096);
}
END_TEST

/* -- several processes: all report the same -- */

typedef struct {
    th_status status;
    char message[400];
    bool changed; /* a parameter */
} report;

/* A way in which one process, 1 of 3, differs from the others. */
typedef struct difference {
    const char *expected; /* in the message of every process */
    th_status status;
    int shards;
    int64_t width, step;
    uint64_t seed;
    double rate;
    float element; /* of its weights */
    int fails;     /* in this shard; -1: none */
    int infinite;  /* gradient, in this shard; -1 */
    bool forgets;  /* the loop */
    bool draws;    /* random numbers before it */
    bool openblas; /* computes products with OpenBLAS, as without fused multiply-add */
    bool bfloat16; /* has this precision of products */
    double max_norm;
    bool frozen;
    bool extra; /* module before the model */
} difference;

static const difference usual = {
    .shards = 6, .width = 3, .seed = 5, .rate = 0.5, .element = 1, .fails = -1, .infinite = -1};
enum { MOST = 6 };

typedef struct {
    difference of_1;
    report *report; /* shared; [3] */
} comparison;

static th_tensor *loss_of(th_module *m, const difference *d, int shard)
{
    th_tensor *x = th_ones(m->ctx, TH_FLOAT32, TH_SHAPE(1, shard == d->fails ? d->width + 1 : d->width));
    th_tensor *y = th_sum(th_module_forward(m, x), TH_ALL_AXES, NULL);
    return shard == d->infinite ? th_scale(y, INFINITY) : y;
}

static th_status one_step(th_optimizer *o, th_module *m, const difference *d)
{
    for (th_shard shard = th_optimizer_shards(o); !d->forgets && th_shard_next(&shard);) {
        th_step_begin(m->ctx);
        if (th_backward(loss_of(m, d, shard.index), NULL))
            break;
        th_tape_clear(m->ctx);
    }
    return th_optimizer_step(o);
}

static int differ(const th_transport *transport, void *user)
{
    const comparison *all = user;
    const difference *d = transport->rank == 1 ? &all->of_1 : &usual;
    process_assert(setenv("TAPEHEAD_GEMM", d->openblas ? "openblas" : "native", 1) == 0);
    th_context *c = th_context_new(&(th_context_options){.seed = 5, .threads = 1});
    th_group *group = th_group_new(c, transport);
    if (d->extra)
        th_dense_new(c, 100, 100, NULL);
    th_module *m = th_dense_new(c, d->width, 2, NULL);
    process_assert(th_set(th_module_find_parameter(m, "weight"), TH_INDEX(0, 0), (double)d->element) == TH_OK);
    if (d->frozen)
        th_set_requires_gradient(th_module_find_parameter(m, "bias"), false);
    th_optimizer *o = th_sgd_new(
        m, &(th_sgd_options){.learning_rate = d->rate, .max_norm = d->max_norm, .shards = d->shards, .group = group});
    process_assert(o && th_group_set_timeout(group, 20) == TH_OK);
    th_set_seed(c, d->seed);
    th_set_step(c, d->step);
    process_assert(th_set_precision(c, d->bfloat16 ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32) == TH_OK);
    const uint32_t before = th_module_crc32c(m);
    report *r = &all->report[transport->rank];
    if (d->draws)
        th_tensor_free(th_randn(c, TH_FLOAT32, TH_SHAPE(1)));
    r->status = one_step(o, m, d);
    snprintf(r->message, sizeof r->message, "%s", th_error_message(c));
    r->changed = th_module_crc32c(m) != before;
    /* After the error is cleared, the next step is possible, unless the processes still differ. */
    th_error_clear(c);
    th_tape_clear(c);
    if (all->of_1.fails >= 0 || all->of_1.infinite >= 0 || all->of_1.forgets) {
        process_assert(one_step(o, m, &usual) == TH_OK);
        process_assert(th_module_crc32c(m) != before);
    }
    th_context_free(c);
    return 0;
}

static const difference differences[] = {
    {.expected = "the number of shards is 6 on rank 0, but 5 on rank 1", .status = TH_ERROR_STATE, .shards = 5},
    {.expected = "the number of parameters is 8 on rank 0, but 10 on rank 1", .status = TH_ERROR_STATE, .width = 4},
    {.expected = "the number of steps is 0 on rank 0, but 9 on rank 1", .status = TH_ERROR_STATE, .step = 9},
    {.expected = "the seed is 5 on rank 0, but 6 on rank 1", .status = TH_ERROR_STATE, .seed = 6},
    {.expected = "the learning rate is 0.5 on rank 0, but 0.25 on rank 1", .status = TH_ERROR_STATE, .rate = 0.25},
    {.expected = "the checksum of the random calls before the step is ", .status = TH_ERROR_STATE, .draws = true},
    {.expected =
         "the backend of products (0: native kernels with fused multiply-add, 1: OpenBLAS) is 0 on rank 0, but 1 on",
     .status = TH_ERROR_STATE,
     .openblas = true},
    {.expected = "the precision of products is 0 on rank 0, but 2 on rank 1",
     .status = TH_ERROR_STATE,
     .bfloat16 = true},
    {.expected = "the checksum of the optimizer's options is ", .status = TH_ERROR_STATE, .max_norm = 3},
    {.expected = "the checksum of the parameters is ", .status = TH_ERROR_STATE, .element = 2},
    {.expected = "the number of parameters that are not frozen is 8 on rank 0, but 6 on rank 1",
     .status = TH_ERROR_STATE,
     .frozen = true},
    {.expected = "the checksum of the layout of the parameters in memory is ", .status = TH_ERROR_STATE, .extra = true},
    {.expected = "rank 1: dense: the last axis of x must match the weight's inputs: x is (1, 4)",
     .status = TH_ERROR_SHAPE,
     .fails = 2},
    {.expected = "rank 1: dense: ", .status = TH_ERROR_SHAPE, .fails = 3},
    {.expected = "optimizer_step: the gradient of weight is inf at [0, 0]; no parameter was changed",
     .status = TH_ERROR_VALUE,
     .infinite = 3},
    {.expected = "rank 1: optimizer_step: shard 2 has not been computed; this process computes shards 2 to 3 of 6",
     .status = TH_ERROR_STATE,
     .forgets = true},
};
enum { DIFFERENCES = sizeof differences / sizeof *differences };

static int freeze_another(const th_transport *transport, void *user)
{
    (void)user;
    th_context *c = th_context_new(&(th_context_options){.threads = 1});
    th_module *m = th_dense_new(c, 1, 2, NULL); /* weight and bias have the same size */
    th_tensor *frozen = th_module_find_parameter(m, transport->rank ? "bias" : "weight");
    th_set_requires_gradient(frozen, false);
    th_group *group = th_group_new(c, transport);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 4, .group = group});
    process_assert(one_step(o, m, &(difference){.width = 1, .fails = -1, .infinite = -1}) == TH_ERROR_STATE);
    process_assert(strstr(th_error_message(c), "the checksum of the layout of the parameters in memory is "));
    th_context_free(c);
    return 0;
}

/* Process 1 has another option of a group of parameters. */
static int change_a_group(const th_transport *transport, void *user)
{
    const bool other = transport->rank == 1, factor = *(const bool *)user;
    th_context *c = th_context_new(&(th_context_options){.threads = 1});
    th_module *m = th_dense_new(c, 3, 2, NULL);
    th_group *group = th_group_new(c, transport);
    const th_parameter_group groups[] = {{.pattern = "bias",
                                          .learning_rate_factor = factor && other ? 0.5 : 1,
                                          .weight_decay = !factor && other ? 0.25 : 0}};
    th_optimizer *o = th_sgd_new(
        m, &(th_sgd_options){.learning_rate = 1, .shards = 2, .group = group, .groups = groups, .n_groups = 1});
    process_assert(o != NULL && th_group_set_timeout(group, 20) == TH_OK);
    process_assert(one_step(o, m, &usual) == TH_ERROR_STATE);
    process_assert(strstr(th_error_message(c), "the checksum of the optimizer's options is "));
    th_context_free(c);
    return 0;
}

START_TEST(processes_have_the_same_groups_of_parameters)
{
    bool factor = _i != 0;
    run_processes(2, change_a_group, &factor);
}
END_TEST

START_TEST(processes_freeze_the_same_parameters)
{
    run_processes(2, freeze_another, NULL);
}
END_TEST

START_TEST(every_process_reports_the_same_error)
{
    const difference *d = &differences[_i];
    if (d->openblas && !there_is_openblas())
        return;
    comparison c = {*d, shared_memory(3 * sizeof *c.report)};
    c.of_1.shards = d->shards ? d->shards : usual.shards;
    c.of_1.width = d->width ? d->width : usual.width;
    c.of_1.seed = d->seed ? d->seed : usual.seed;
    c.of_1.rate = d->rate > 0 ? d->rate : usual.rate;
    c.of_1.element = d->element > 0 ? d->element : usual.element;
    c.of_1.fails = d->fails ? d->fails : -1;
    c.of_1.infinite = d->infinite ? d->infinite : -1;
    run_processes(3, differ, &c);
    for (int rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(c.report[rank].status, d->status);
        ck_assert_msg(strstr(c.report[rank].message, d->expected), "rank %d: \"%s\" does not contain \"%s\"", rank,
                      c.report[rank].message, d->expected);
        ck_assert_str_eq(c.report[rank].message, c.report[0].message);
        ck_assert(!c.report[rank].changed);
    }
}
END_TEST

/* -- agreement -- */

static int agree_in_turn(const th_transport *transport, void *user)
{
    (void)user;
    th_context *c = th_context_new(NULL);
    th_group *group = th_group_new(c, transport);
    process_assert(th_group_agree(group) == TH_OK && !th_group_stop_requested(group));
    for (int turn = 0; turn < transport->size; turn++) {
        char expected[100];
        if (turn == transport->rank)
            th_matmul(th_ones(c, TH_FLOAT32, TH_SHAPE(1, 2)), th_ones(c, TH_FLOAT32, TH_SHAPE(3, 4)));
        snprintf(expected, sizeof expected, "rank %d: matmul: ", turn);
        process_assert(th_group_agree(group) == TH_ERROR_SHAPE);
        process_assert(strncmp(th_error_message(c), expected, strlen(expected)) == 0);
        process_assert(strstr(th_error_message(c), "test_group.c:") != NULL);
        char once[400];
        snprintf(once, sizeof once, "%s", th_error_message(c));
        process_assert(th_group_agree(group) == TH_ERROR_SHAPE); /* a pending error that all have: not prefixed again */
        process_assert(strcmp(th_error_message(c), once) == 0);
        th_error_clear(c);
    }
    if (transport->rank == transport->size - 1)
        th_group_request_stop(group);
    process_assert(th_group_agree(group) == TH_OK && th_group_stop_requested(group));
    process_assert(th_group_traffic_so_far(group).bytes_sent > 0);
    th_context_free(c);
    return 0;
}

START_TEST(processes_agree_on_errors_and_on_the_end)
{
    static const int sizes[] = {2, 3, 5, 8};
    run_processes(sizes[_i], agree_in_turn, NULL);
}
END_TEST

/* -- options of modules -- */

/* How the model of process 1 differs: in these options of a language model, or in one of these settings. */
typedef struct other_model {
    const char *expected;
    th_language_model_options options;
    bool evaluation, pinned, no_fusion; /* of the context; of layers.1; of the context */
} other_model;

#define SIZES .vocabulary = 8, .length = 4, .width = 4, .heads = 2, .layers = 2
static const other_model other_models[] = {
    {.expected = "the dropout of transformer_block layers.0 is 0 on rank 0, but 0.5 on rank 1",
     .options = {SIZES, .block = {.dropout = 0.5}}},
    {.expected = "the options.embedding_dropout of language_model is 0 on rank 0, but 0.25 on rank 1",
     .options = {SIZES, .embedding_dropout = 0.25}},
    {.expected = "the dropout of multi_head_attention layers.0.self_attn is 0 on rank 0, but 0.5 on rank 1",
     .options = {SIZES, .block = {.attention_dropout = 0.5}}},
    {.expected = "the scores.window of multi_head_attention layers.0.self_attn is 0 on rank 0, but 2 on rank 1",
     .options = {SIZES, .block = {.scores = {.window = 2}}}},
    {.expected = "the activation of transformer_block layers.0 is 0 on rank 0, but 2 on rank 1",
     .options = {SIZES, .block = {.activation = TH_RELU}}},
    {.expected = "the eps of layer_norm layers.0.norm1 is 1.0000000000000001e-05 on rank 0, but 0.001",
     .options = {SIZES, .block = {.eps = 1e-3}}},
    {.expected = "the options.logit_soft_cap of language_model is 0 on rank 0, but 30 on rank 1",
     .options = {SIZES, .logit_soft_cap = 30}},
    {.expected = "the evaluation of transformer_block layers.1 is 0 on rank 0, but 1 on rank 1",
     .options = {SIZES},
     .pinned = true},
    {.expected = "the training mode is 1 on rank 0, but 0 on rank 1", .options = {SIZES}, .evaluation = true},
    {.expected = "the fusion is 1 on rank 0, but 0 on rank 1", .options = {SIZES}, .no_fusion = true},
};
enum { OTHER_MODELS = sizeof other_models / sizeof *other_models };

/* Makes a step of the usual model in process 0, and of the other one in process 1. */
static int train_another_model(const th_transport *transport, void *user)
{
    const other_model *other = user, usual_model = {.options = {SIZES}};
    const other_model *own = transport->rank == 1 ? other : &usual_model;
    th_context *c = th_context_new(&(th_context_options){.seed = 5, .threads = 1});
    th_group *group = th_group_new(c, transport);
    th_module *m = th_language_model_new(c, &own->options);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1, .shards = 2, .group = group});
    th_set_training(c, !own->evaluation);
    th_set_fusion(c, !own->no_fusion);
    if (own->pinned)
        th_module_pin_evaluation(th_module_find(m, "layers.1"), true);
    process_assert(o && th_group_set_timeout(group, 20) == TH_OK);
    const uint32_t before = th_module_crc32c(m);
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard);) {
        th_tensor *tokens = th_zeros(c, TH_INT32, TH_SHAPE(1, 4));
        process_assert(th_backward(th_language_model_loss(m, tokens, tokens, NULL), NULL) == TH_OK);
        th_tape_clear(c);
    }
    process_assert(th_optimizer_step(o) == TH_ERROR_STATE);
    process_assert(strstr(th_error_message(c), other->expected) != NULL);
    process_assert(th_module_crc32c(m) == before);
    th_context_free(c);
    return 0;
}

START_TEST(processes_with_other_options_of_a_model_are_an_error)
{
    other_model other = other_models[_i];
    run_processes(2, train_another_model, &other);
}
END_TEST

static int call_different_functions(const th_transport *transport, void *user)
{
    (void)user;
    th_context *c = th_context_new(NULL);
    th_group *group = th_group_new(c, transport);
    th_module *m = th_dense_new(c, 3, 2, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 2, .group = group});
    const th_status status = transport->rank == 0 ? one_step(o, m, &usual) : th_group_agree(group);
    process_assert(status == TH_ERROR_PROCESS);
    process_assert(strstr(th_error_message(c), "rank 0 calls optimizer_step, but rank 1 calls group_agree"));
    th_context_free(c);
    return 0;
}

START_TEST(different_collective_functions_are_an_error)
{
    run_processes(2, call_different_functions, NULL);
}
END_TEST

static int wait_for_a_stuck_process(const th_transport *transport, void *user)
{
    (void)user;
    th_context *c = th_context_new(NULL);
    th_group *group = th_group_new(c, transport);
    process_assert(th_group_set_timeout(group, 0.3) == TH_OK);
    if (transport->rank == 1)
        return 0;
    process_assert(th_group_agree(group) == TH_ERROR_PROCESS);
    process_print("%s", th_error_message(c));
    th_context_free(c);
    return 0;
}

START_TEST(a_process_that_does_not_answer_is_reported)
{
    process_result results[2];
    try_processes(2, wait_for_a_stuck_process, NULL, 20, results);
    ck_assert_int_eq(results[0].status, 0);
    ck_assert_msg(strstr(results[0].text, "rank 1"), "%s", results[0].text);
}
END_TEST

/* -- the profile -- */

static int profile_a_step(const th_transport *transport, void *user)
{
    (void)user;
    th_context *c = th_context_new(&(th_context_options){.threads = 1});
    th_group *group = th_group_new(c, transport);
    th_module *m = th_dense_new(c, 3, 2, NULL);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 2, .group = group});
    process_assert(th_profile_begin(c, NULL) == TH_OK && one_step(o, m, &usual) == TH_OK && th_profile_end(c) == TH_OK);
    th_profile_entry entry;
    int64_t exchanges = 0;
    double total = 0, exchanged = 0;
    for (int64_t i = 0; th_profile_entry_at(c, i, &entry) == TH_OK; i++) {
        total += entry.share;
        if (entry.phase == TH_PROFILE_EXCHANGE) {
            exchanges += entry.calls;
            exchanged += entry.milliseconds;
        }
    }
    const th_group_traffic traffic = th_group_traffic_so_far(group);
    process_assert(exchanges == (int64_t)traffic.exchanges &&
                   exchanges >= 4); /* agreement, gradients, norm, parameters */
    process_assert(fabs(exchanged - 1e3 * traffic.seconds) <= 0.1 * exchanged + 0.1);
    process_assert(total < 1.0001);
    th_error_clear(c);
    th_context_free(c);
    return 0;
}

START_TEST(the_profile_shows_exchanges_separately)
{
    run_processes(2, profile_a_step, NULL);
}
END_TEST

/* -- the state of the optimizer is shared -- */

enum { WIDTH = 256 };

static int measure_moments(const th_transport *transport, void *user)
{
    size_t *taken = user;
    th_context *c = th_context_new(&(th_context_options){.threads = 1});
    th_group *group = th_group_new(c, transport);
    th_module *m = th_dense_new(c, WIDTH, WIDTH, NULL);
    th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 1, .shards = 4, .group = group});
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c)) {
        th_step_begin(c);
        process_assert(
            th_backward(th_sum(th_module_forward(m, th_ones(c, TH_FLOAT32, TH_SHAPE(1, WIDTH))), TH_ALL_AXES, NULL),
                        NULL) == TH_OK);
    }
    th_memory_reset_peak(c);
    const size_t before = th_memory(c).live;
    process_assert(th_optimizer_step(o) == TH_OK);
    th_optimizer *copy = th_adam_new(m, &(th_adam_options){.learning_rate = 1, .shards = 4, .group = group});
    process_assert(copy != NULL);
    taken[transport->rank] = th_memory(c).live - before;
    th_context_free(c);
    return 0;
}

START_TEST(each_process_has_its_part_of_the_moments)
{
    size_t *taken = shared_memory(4 * sizeof *taken);
    run_processes(4, measure_moments, taken);
    const size_t gradient = sizeof(float) * WIDTH * WIDTH, moments = 2 * gradient;
    for (int rank = 0; rank < 4; rank++) { /* and the received gradients of its part, from 3 processes */
        ck_assert_uint_ge(taken[rank], moments / 4 + 3 * gradient / 4 - 1024);
        ck_assert_uint_le(taken[rank], moments / 4 + 3 * (gradient / 4 + (64 << 10)) + (16 << 10));
    }
}
END_TEST

int main(void)
{
    TCase *one = new_suite("groups of one process", setup, close_context);
    tcase_add_test(one, groups_of_one_process_exchange_nothing);
    tcase_add_test(one, a_group_without_memory_is_an_error);
    tcase_add_test(one, null_groups_are_groups_of_one);
    tcase_add_test(one, wrong_transports_are_refused);
    tcase_add_test(one, a_failing_transport_is_an_error_of_the_group);
    tcase_add_test(one, the_context_frees_a_group_once);
    tcase_add_test(one, optimizers_refuse_shards_and_groups_that_do_not_fit);
    tcase_add_test(one, a_step_needs_all_shards);
    tcase_add_test(one, shards_draw_different_numbers_and_a_repeated_loop_the_same);
    tcase_add_test(one, open_nodes_take_one_gradient_for_each_level);
    TCase *several = new_suite("groups of several processes", NULL, NULL);
    tcase_add_loop_test(several, processes_have_the_same_groups_of_parameters, 0, 2);
    tcase_add_test(several, processes_freeze_the_same_parameters);
    tcase_add_loop_test(several, every_process_reports_the_same_error, 0, DIFFERENCES);
    tcase_add_loop_test(several, processes_with_other_options_of_a_model_are_an_error, 0, OTHER_MODELS);
    tcase_add_loop_test(several, processes_agree_on_errors_and_on_the_end, 0, 4);
    tcase_add_test(several, different_collective_functions_are_an_error);
    tcase_add_test(several, a_process_that_does_not_answer_is_reported);
    tcase_add_test(several, the_profile_shows_exchanges_separately);
    tcase_add_test(several, each_process_has_its_part_of_the_moments);
    return run_suites();
}
