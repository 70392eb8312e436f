/* Checkpoints of a group of processes: the bytes are those of one process, a run continues with any number of processes,
 * and every process reports the same error. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "folder.h"
#include "memory.h"
#include "processes.h"
#include "tapehead/models.h"

#include "context.h"

enum { SHARDS = 8, SECONDS = 20 };

static const int sizes[] = {1, 2, 3, 4, 5, 8};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* -- a model of several blocks -- */

typedef struct training {
    th_dtype dtype;
    bool mixed; /* a part of the model has the other type */
    bool sgd, muon, amsgrad, clip;
    bool averaged; /* each process has averages of the weights */
} training;

static const training trainings[] = {
    {.dtype = TH_FLOAT32},
    {.dtype = TH_FLOAT32, .mixed = true, .amsgrad = true, .clip = true, .averaged = true},
    {.dtype = TH_FLOAT64, .mixed = true, .sgd = true},
    {.dtype = TH_FLOAT64, .sgd = true, .clip = true},
    {.dtype = TH_FLOAT32, .mixed = true, .muon = true, .clip = true},
};
enum { TRAININGS = sizeof trainings / sizeof *trainings };

typedef struct model {
    th_module base;
    th_module *first, *wide;
    th_tensor *tied, *scale, *rare;
} model;

/* The weight of `first` has several chunks of the gradient norm, so a process can own a part of it. */
static model *model_new(th_context *c, const training *t)
{
    model *m = th_module_new(c, sizeof *m, "model", NULL);
    m->first = th_module_add(&m->base, "first", th_dense_new(c, 200, 210, NULL));
    m->tied = th_module_tie_parameter(&m->base, "tied", th_module_find_parameter(m->first, "weight"));
    m->scale = th_module_add_parameter(&m->base, "scale", TH_SHAPE(3));
    m->wide = th_module_add(&m->base, "wide", th_dense_new(c, 130, 130, NULL));
    m->rare = th_module_add_parameter(&m->base, "rare", TH_SHAPE(5));
    th_module_add_parameter(&m->base, "never", TH_SHAPE(7));
    th_module *frozen = th_module_add(&m->base, "frozen", th_dense_new(c, 4, 4, NULL));
    process_assert(th_fill(m->scale, 0.5) == TH_OK && th_module_freeze(frozen, true) == TH_OK);
    if (t->mixed)
        process_assert(th_module_cast(m->wide, t->dtype == TH_FLOAT32 ? TH_FLOAT64 : TH_FLOAT32) == TH_OK);
    return m;
}

static th_optimizer *optimizer_new(model *m, const training *t, int shards, th_group *group)
{
    const double max_norm = t->clip ? 0.3 : 0;
    if (t->sgd)
        return th_sgd_new(
            &m->base,
            &(th_sgd_options){
                .learning_rate = 0.1, .momentum = 0.9, .max_norm = max_norm, .shards = shards, .group = group});
    if (t->muon)
        return th_muon_new(&m->base, &(th_muon_options){.learning_rate = 0.02,
                                                        .adam_learning_rate = 0.01,
                                                        .max_norm = max_norm,
                                                        .shards = shards,
                                                        .group = group});
    return th_adam_new(
        &m->base,
        &(th_adam_options){
            .learning_rate = 0.01, .amsgrad = t->amsgrad, .max_norm = max_norm, .shards = shards, .group = group});
}

static th_tensor *mean_square(th_tensor *x, th_dtype dtype)
{
    return th_cast(th_mean(th_mul(x, x), TH_ALL_AXES, NULL), dtype);
}

/* Returns the loss of a shard, on random data. One parameter has a gradient only in shard 5, one in none. */
static th_tensor *loss_of(const model *m, int shard)
{
    th_context *c = m->base.ctx;
    const th_dtype dtype = th_dtype_of(m->scale);
    th_tensor *x = th_dropout(th_randn(c, dtype, TH_SHAPE(2, 200)), 0.3);
    th_tensor *loss = mean_square(th_module_forward(m->first, x), dtype);
    loss = th_add(loss, mean_square(th_module_find_parameter(m->wide, "weight"), dtype));
    loss = th_add(loss, mean_square(m->tied, dtype));
    loss = th_add(loss, mean_square(m->scale, dtype));
    return shard == 5 ? th_add(loss, th_sum(th_exp(m->rare), TH_ALL_AXES, NULL)) : loss;
}

/* Computes shards up to number `last`. Returns whether all went well. */
static bool run_shards(th_optimizer *o, const model *m, int last)
{
    th_context *c = m->base.ctx;
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c)) {
        if (shard.index > last)
            return true;
        th_step_begin(c);
        if (th_backward(loss_of(m, shard.index), NULL))
            return false;
    }
    return true;
}

static void step(th_optimizer *o, const model *m)
{
    if (!run_shards(o, m, SHARDS) || th_optimizer_step(o))
        fail_process("step: %s", th_error_message(m->base.ctx));
}

/* -- runs -- */

typedef struct run {
    const training *training;
    const char *from, *to; /* NULL: none */
    int steps, shards;
    double scale;        /* its first value */
    bool alone;          /* without a group */
    bool resume_in_loop; /* load in an unfinished loop over the shards */
    uint32_t *crcs;      /* shared: of every process's parameters, at the end */
    test_memory *memory; /* the allocator of this process; NULL: the usual one */
} run;

/* What a process trains. */
typedef struct own {
    th_context *ctx;
    th_group *group;
    model *model;
    th_optimizer *optimizer;
    th_weight_average *average; /* or NULL */
    int64_t position;
    th_checkpoint_number number;
    th_checkpoint checkpoint;
} own;

/* Rank 0 saves its configuration and numbers. Those of the other processes do not count, and are not valid here. */
static void own_begin(own *p, const th_transport *transport, const run *r)
{
    *p = (own){.position = 17};
    p->ctx =
        th_context_new(&(th_context_options){.seed = 7,
                                             .threads = 1,
                                             .default_dtype = r->training->dtype,
                                             .allocator = r->memory ? allocator_of(r->memory) : (th_allocator){0}});
    p->group = r->alone ? NULL : th_group_new(p->ctx, transport);
    p->model = model_new(p->ctx, r->training);
    if (r->scale > 0)
        process_assert(th_fill(p->model->scale, r->scale) == TH_OK);
    p->optimizer = optimizer_new(p->model, r->training, r->shards ? r->shards : SHARDS, p->group);
    if (r->training->averaged)
        p->average = th_weight_average_new(&p->model->base, &(th_weight_average_options){.decay = 0.7});
    process_assert(p->optimizer && (r->alone || th_group_set_timeout(p->group, SECONDS) == TH_OK));
    const bool counts = transport->rank == 0;
    p->number = (th_checkpoint_number){.name = counts ? "position" : NULL, .integer = &p->position};
    p->checkpoint = (th_checkpoint){.model = &p->model->base,
                                    .optimizer = p->optimizer,
                                    .average = p->average,
                                    .configuration = counts ? "{\"width\": 200}" : "\xff",
                                    .numbers = &p->number,
                                    .n_numbers = 1};
}

static void own_load(own *p, const char *path)
{
    th_checkpoint c = p->checkpoint;
    p->position = 0;
    const th_checkpoint_number number = {.name = "position", .integer = &p->position};
    c.numbers = &number;
    c.n_numbers = 1;
    if (th_checkpoint_load(path, &c))
        fail_process("%s", th_error_message(p->ctx));
    process_assert(p->position == 17);
}

static void own_step(own *p)
{
    step(p->optimizer, p->model);
    process_assert(p->average == NULL || th_weight_average_update(p->average) == TH_OK);
}

static void own_save(own *p, const char *path)
{
    if (th_checkpoint_save(path, &p->checkpoint))
        fail_process("%s", th_error_message(p->ctx));
}

static int train(const th_transport *transport, void *user)
{
    const run *r = user;
    own p;
    own_begin(&p, transport, r);
    if (r->resume_in_loop) { /* which does not begin with the first random numbers of its step */
        th_tensor_free(th_randn(p.ctx, TH_FLOAT32, TH_SHAPE(1)));
        process_assert(run_shards(p.optimizer, p.model, 3));
    }
    if (r->from)
        own_load(&p, r->from);
    while (th_step(p.ctx) < r->steps)
        own_step(&p);
    if (r->to)
        own_save(&p, r->to);
    r->crcs[transport->rank] = th_module_crc32c(&p.model->base);
    th_context_free(p.ctx);
    return 0;
}

/* Runs n processes, which must end with the same parameters. Returns their checksum. */
static uint32_t train_with(int n, run r)
{
    r.crcs = shared_memory(MAX_PROCESSES * sizeof *r.crcs);
    run_processes(n, train, &r);
    for (int rank = 1; rank < n; rank++)
        ck_assert_uint_eq(r.crcs[rank], r.crcs[0]);
    return r.crcs[0];
}

/* Runs three processes, which must succeed. */
static void run_three(process_function *function, void *user, process_result results[3])
{
    const int failed = run_until_failure(3, function, user, results);
    ck_assert_msg(failed == 3, "rank %d: status %d: %s", failed, results[failed % 3].status, results[failed % 3].text);
}

static void expect_same_texts(const process_result results[3])
{
    for (int rank = 1; rank < 3; rank++)
        ck_assert_str_eq(results[rank].text, results[0].text);
}

static char whole[256], half[256], other[256];

static void setup(void)
{
    make_folder();
    strcpy(whole, in_folder("whole"));
    strcpy(half, in_folder("half"));
    strcpy(other, in_folder("other"));
}

/* -- saving and resuming -- */

START_TEST(a_checkpoint_has_the_bytes_of_one_process)
{
    const run r = {.training = &trainings[_i], .steps = 2, .to = whole};
    run alone = r;
    alone.alone = true;
    const uint32_t crc = train_with(1, alone);
    for (int i = 0; i < SIZES; i++) {
        run shared = r;
        shared.to = other;
        ck_assert_uint_eq(train_with(sizes[i], shared), crc);
        expect_same_files(whole, other);
        ck_assert_int_eq(unlink(other), 0);
        ck_assert_int_eq(count_files(), 1);
    }
}
END_TEST

START_TEST(a_run_continues_with_any_number_of_processes)
{
    static const int resumed_with[] = {3, 1, 8};
    const run r = {.training = &trainings[_i], .steps = 4, .to = whole};
    const uint32_t crc = train_with(1, r);
    train_with(4, (run){.training = r.training, .steps = 2, .to = half});
    for (int i = 0; i < 3; i++) {
        const run resumed = {.training = r.training, .steps = 4, .from = half, .to = other, .scale = 0.25};
        ck_assert_uint_eq(train_with(resumed_with[i], resumed), crc);
        expect_same_files(whole, other);
    }
}
END_TEST

START_TEST(a_checkpoint_before_the_first_step_has_no_moments)
{
    run r = {.training = &trainings[0], .to = whole};
    train_with(1, r);
    r.to = other;
    train_with(3, r);
    expect_same_files(whole, other);
    r = (run){.training = &trainings[0], .steps = 2, .from = whole, .scale = 0.25};
    const uint32_t crc = train_with(1, (run){.training = &trainings[0], .steps = 2});
    ck_assert_uint_eq(train_with(5, r), crc);
}
END_TEST

/* Loading in a loop ends the loop, and restores the random numbers of the file. */
START_TEST(loading_ends_a_loop_over_shards)
{
    const uint32_t crc = train_with(1, (run){.training = &trainings[0], .steps = 2});
    train_with(1, (run){.training = &trainings[0], .steps = 1, .to = half});
    const run r = {.training = &trainings[0], .steps = 2, .from = half, .resume_in_loop = true};
    ck_assert_uint_eq(train_with(1, r), crc);
    ck_assert_uint_eq(train_with(2, r), crc);
}
END_TEST

/* -- memory -- */

/* Rank 0 takes one buffer, the others none. */
static int measure_save(const th_transport *transport, void *user)
{
    const run *r = user;
    own p;
    own_begin(&p, transport, r);
    step(p.optimizer, p.model);
    const size_t largest = 200 * 210 * th_dtype_size(r->training->dtype), live = th_memory(p.ctx).live;
    th_memory_reset_peak(p.ctx);
    own_save(&p, r->to);
    const size_t taken = th_memory(p.ctx).peak - live;
    process_assert(th_memory(p.ctx).live == live);
    process_assert(taken <= (transport->rank == 0 ? largest : 0) + 20000);
    process_assert(transport->rank > 0 || taken >= largest);
    th_context_free(p.ctx);
    return 0;
}

START_TEST(only_rank_0_takes_memory_and_for_one_moment)
{
    run_processes(3, measure_save, &(run){.training = &trainings[0], .to = whole});
}
END_TEST

/* -- the number of shards is an option -- */

static int load_with_other_shards(const th_transport *transport, void *user)
{
    const run *r = user;
    own p;
    own_begin(&p, transport, r);
    const uint32_t before = th_module_crc32c(&p.model->base);
    th_checkpoint c = p.checkpoint;
    c.n_numbers = 0;
    process_assert(th_checkpoint_load(r->from, &c) == TH_ERROR_FILE);
    process_print("%s", th_error_text(p.ctx));
    th_error_clear(p.ctx);
    process_assert(th_module_crc32c(&p.model->base) == before);
    c.other_options = true;
    process_assert(th_checkpoint_load(r->from, &c) == TH_OK && th_step(p.ctx) == 1);
    step(p.optimizer, p.model);
    th_context_free(p.ctx);
    return 0;
}

START_TEST(another_number_of_shards_is_another_option)
{
    static const int shards[][2] = {{8, 4}, {8, 1}, {1, 8}}; /* in the file, and here */
    process_result result;
    char words[128];
    for (int i = 0; i < 3; i++) {
        train_with(1, (run){.training = &trainings[0], .steps = 1, .shards = shards[i][0], .to = half});
        run r = {.training = &trainings[0], .shards = shards[i][1], .from = half};
        try_processes(1, load_with_other_shards, &r, SECONDS, &result);
        snprintf(words, sizeof words, "different option: shards of the optimizer is %d in the file and %d here",
                 shards[i][0], shards[i][1]);
        ck_assert_msg(result.status == 0 && strstr(result.text, words), "%s", result.text);
    }
}
END_TEST

/* A file with one shard has the bytes that earlier versions wrote: they had no shards. */
START_TEST(one_shard_is_not_named)
{
    size_t bytes;
    for (int shards = 1; shards <= 2; shards++) {
        train_with(1, (run){.training = &trainings[0], .steps = 1, .shards = shards, .to = half});
        char *text = read_bytes(half, &bytes);
        ck_assert((strstr(text + 8, "shards") != NULL) == (shards > 1));
        free(text);
    }
}
END_TEST

/* -- misuse: every process reports the same error, and the old file stays -- */

/* Mistakes of one process. */
typedef enum {
    PENDING_GRADIENT,
    UNFINISHED_LOOP,
    NO_MODEL,
    OTHER_MODEL,
    NO_PATH,
    NO_FOLDER,
    DEVICE_FULL,
    WRONG_NUMBERS,
    WRONG_TEXT,
    EARLIER_ERROR,
    OTHER_STEP,
    OTHER_OPTIMIZER
} mistake;

typedef struct misuse {
    mistake mistake;
    int rank;
    th_status status;
    const char *text;
} misuse;

static const misuse misuses[] = {
    {PENDING_GRADIENT, 2, TH_ERROR_STATE, "rank 2: checkpoint_save: scale has a gradient that no step has used yet"},
    {PENDING_GRADIENT, 0, TH_ERROR_STATE, "rank 0: checkpoint_save: scale has a gradient that no step has used yet"},
    {UNFINISHED_LOOP, 1, TH_ERROR_STATE, "rank 1: checkpoint_save: no step has completed the loop over shards yet"},
    {NO_MODEL, 1, TH_ERROR_ARGUMENT, "rank 1: checkpoint_save: the model is NULL"},
    {OTHER_MODEL, 2, TH_ERROR_ARGUMENT, "rank 2: checkpoint_save: the model belongs to another context than the opt"},
    {NO_PATH, 0, TH_ERROR_ARGUMENT, "rank 0: checkpoint_save: the path is NULL"},
    {NO_PATH, 1, TH_OK, ""},
    {NO_FOLDER, 0, TH_ERROR_FILE, "rank 0: checkpoint_save: /nowhere/file: No such file or directory"},
    {NO_FOLDER, 2, TH_OK, ""},
    {DEVICE_FULL, 0, TH_ERROR_FILE, "rank 0: checkpoint_save: /dev/full: No space left on device"},
    {WRONG_NUMBERS, 0, TH_ERROR_ARGUMENT, "rank 0: checkpoint_save: number 0 needs a unique name"},
    {WRONG_TEXT, 0, TH_ERROR_ARGUMENT, "rank 0: checkpoint_save: text 2 of the metadata is NULL, not UTF-8"},
    {EARLIER_ERROR, 1, TH_ERROR_SHAPE, "rank 1: reshape: "},
    {OTHER_STEP, 1, TH_ERROR_STATE,
     "checkpoint_save: the processes differ: the number of steps is 1 on rank 0, but 9 on rank 1"},
    {OTHER_OPTIMIZER, 2, TH_ERROR_STATE,
     "checkpoint_save: the processes differ: the number of moments is 10 on rank 0, but 0 on"},
};
enum { MISUSES = sizeof misuses / sizeof *misuses };

typedef struct misused {
    run run;
    misuse misuse;
} misused;

/* Makes the mistake in *c and *path, or in the state of p. */
static void make_mistake(mistake made, own *p, th_checkpoint *c, const char **path)
{
    if (made == PENDING_GRADIENT)
        process_assert(th_backward(th_sum(p->model->scale, TH_ALL_AXES, NULL), NULL) == TH_OK);
    if (made == UNFINISHED_LOOP)
        process_assert(run_shards(p->optimizer, p->model, 3));
    if (made == NO_MODEL)
        c->model = NULL;
    if (made == OTHER_MODEL)
        c->model = th_dense_new(th_context_new(NULL), 2, 2, NULL);
    if (made == NO_PATH)
        *path = NULL;
    if (made == NO_FOLDER)
        *path = "/nowhere/file";
    if (made == DEVICE_FULL)
        *path = "/dev/full";
    if (made == WRONG_NUMBERS)
        p->number.integer = NULL;
    if (made == WRONG_TEXT)
        c->configuration = "\xff";
    if (made == EARLIER_ERROR)
        process_assert(th_reshape(p->model->scale, TH_SHAPE(2)) == NULL);
    if (made == OTHER_STEP)
        th_set_step(p->ctx, 9);
    if (made == OTHER_OPTIMIZER)
        c->optimizer = optimizer_new(p->model, &trainings[0], SHARDS, p->group);
}

/* Saves with the mistake. Afterwards, without it, takes the next step and saves to `other`. */
static int save_wrongly(const th_transport *transport, void *user)
{
    const misused *all = user;
    const misuse *wrong = &all->misuse;
    own p;
    own_begin(&p, transport, &all->run);
    step(p.optimizer, p.model);
    th_checkpoint c = p.checkpoint;
    const char *path = all->run.to;
    if (transport->rank == wrong->rank)
        make_mistake(wrong->mistake, &p, &c, &path);
    process_assert(th_checkpoint_save(path, &c) == wrong->status);
    process_assert(th_error_code(p.ctx) == wrong->status);
    process_print("%s", th_error_message(p.ctx));
    th_error_clear(p.ctx);
    th_tape_clear(p.ctx);
    p.number.integer = &p.position;
    th_set_step(p.ctx, 1);
    step(p.optimizer, p.model);
    own_save(&p, other);
    if (c.model && c.model != &p.model->base)
        th_context_free(c.model->ctx);
    th_context_free(p.ctx);
    return 0;
}

START_TEST(every_process_reports_the_same_error)
{
    process_result results[3];
    const misused all = {.run = {.training = &trainings[0], .to = half}, .misuse = misuses[_i]};
    const char *text = all.misuse.text;
    train_with(1, (run){.training = &trainings[0], .steps = 2, .to = whole});
    write_bytes(half, "old", 3);
    run_three(save_wrongly, (void *)&all, results);
    expect_same_texts(results);
    ck_assert_msg(strncmp(results[0].text, text, strlen(text)) == 0, "%s", results[0].text);
    size_t bytes;
    free(read_bytes(half, &bytes));
    ck_assert((bytes == 3) == (all.misuse.status != TH_OK));
    expect_same_files(other, whole);
    ck_assert_int_eq(count_files(), 3);
}
END_TEST

/* -- the disk fills -- */

/* Rank 0 may write only `*limit` bytes. */
static int save_to_a_full_disk(const th_transport *transport, void *user)
{
    static const run r = {.training = &trainings[1]};
    const rlim_t *limit = user;
    own p;
    own_begin(&p, transport, &r);
    own_step(&p);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit full = {*limit, RLIM_INFINITY};
    process_assert(transport->rank > 0 || setrlimit(RLIMIT_FSIZE, &full) == 0);
    process_assert(th_checkpoint_save(half, &p.checkpoint) == TH_ERROR_FILE);
    process_print("%s", th_error_text(p.ctx));
    th_error_clear(p.ctx);
    const struct rlimit empty = {RLIM_INFINITY, RLIM_INFINITY};
    process_assert(transport->rank > 0 || setrlimit(RLIMIT_FSIZE, &empty) == 0);
    own_save(&p, other);
    th_context_free(p.ctx);
    return 0;
}

/* From no byte to the whole file without its last byte. */
START_TEST(a_full_disk_leaves_the_old_file)
{
    process_result results[3];
    char text[400];
    struct stat saved;
    train_with(1, (run){.training = &trainings[1], .steps = 1, .to = whole});
    ck_assert_int_eq(stat(whole, &saved), 0);
    write_bytes(half, "old", 3);
    snprintf(text, sizeof text, "rank 0: checkpoint_save: %s: File too large", half);
    for (int tenth = 0; tenth <= 10; tenth++) {
        rlim_t limit = (rlim_t)saved.st_size * (rlim_t)tenth / 10 - (tenth == 10);
        run_three(save_to_a_full_disk, &limit, results);
        expect_same_texts(results);
        ck_assert_str_eq(results[0].text, text);
        size_t bytes;
        free(read_bytes(half, &bytes));
        ck_assert_uint_eq(bytes, 3);
        expect_same_files(other, whole);
        ck_assert_int_eq(count_files(), 3);
    }
}
END_TEST

/* -- memory runs out in one process -- */

static int save_without_memory(const th_transport *transport, void *user)
{
    const int fails = *(const int *)user;
    test_memory memory = {0};
    const run r = {.training = &trainings[0], .memory = &memory};
    own p;
    own_begin(&p, transport, &r);
    step(p.optimizer, p.model);
    const size_t before = memory.bytes;
    char rank[16], text[200] = "";
    snprintf(rank, sizeof rank, "rank %d: ", fails);
    th_status status = TH_ERROR_MEMORY;
    int failures = -1;
    for (int after = 1; status == TH_ERROR_MEMORY; after++, failures++) {
        memory.fail_at = transport->rank == fails ? memory.calls + after : 0;
        status = th_checkpoint_save(whole, &p.checkpoint);
        memory.fail_at = 0;
        snprintf(text, sizeof text, "%s", th_error_message(p.ctx));
        process_assert(status == TH_OK || (strncmp(text, rank, strlen(rank)) == 0 && strstr(text, "out of memory")));
        process_assert(memory.bytes == before);
        th_error_clear(p.ctx);
    }
    process_assert(status == TH_OK && th_group_agree(p.group) == TH_OK);
    process_print("%d", failures);
    th_context_free(p.ctx);
    return 0;
}

/* Every allocation of a process fails in turn. Rank 0 has more of them. _i: the process. */
START_TEST(memory_may_run_out_in_one_process)
{
    process_result results[3];
    run_three(save_without_memory, &_i, results);
    expect_same_texts(results);
    ck_assert_int_eq(atoi(results[0].text), _i == 0 ? 7 : 3);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

/* -- processes that do not answer -- */

/* A transport that breaks after some exchanges. */
typedef struct breaking {
    th_transport transport;
    int left;
} breaking;

static const char *exchange_or_break(void *user, const th_message *send, int n_send, const th_message *receive,
                                     int n_receive, double seconds)
{
    breaking *b = user;
    if (b->left-- == 0)
        return "the network is down";
    return b->transport.exchange(b->transport.user, send, n_send, receive, n_receive, seconds);
}

/* The transport of rank 2 breaks after *user exchanges of the save. */
static int save_with_a_broken_transport(const th_transport *transport, void *user)
{
    static const run r = {.training = &trainings[0]};
    breaking b = {.transport = *transport, .left = INT32_MAX};
    th_transport t = *transport;
    if (transport->rank == 2) {
        t.exchange = exchange_or_break;
        t.user = &b;
    }
    own p;
    own_begin(&p, &t, &r);
    step(p.optimizer, p.model);
    b.left = *(const int *)user;
    process_assert(th_group_set_timeout(p.group, 0.2) == TH_OK);
    process_assert(th_checkpoint_save(whole, &p.checkpoint) == TH_ERROR_PROCESS);
    process_print("%s", th_error_text(p.ctx));
    th_context_free(p.ctx);
    return 0;
}

/* _i: the exchanges before the break. Two of them are the first agreement. */
START_TEST(a_process_that_does_not_answer_is_reported)
{
    process_result results[3];
    write_bytes(whole, "old", 3);
    run_three(save_with_a_broken_transport, &_i, results);
    ck_assert_str_eq(results[2].text, "checkpoint_save: rank 2 of 3: the network is down");
    for (int rank = 0; rank < 2; rank++)
        ck_assert_msg(strstr(results[rank].text, "has not answered for 0.2 seconds"), "%s", results[rank].text);
    size_t bytes;
    free(read_bytes(whole, &bytes));
    ck_assert_uint_eq(bytes, 3);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

static int call_different_functions(const th_transport *transport, void *user)
{
    (void)user;
    static const run r = {.training = &trainings[0]};
    own p;
    own_begin(&p, transport, &r);
    const th_status status = transport->rank == 1 ? th_group_agree(p.group) : th_checkpoint_save(whole, &p.checkpoint);
    process_assert(status == TH_ERROR_PROCESS);
    process_assert(strstr(th_error_text(p.ctx), "rank 0 calls checkpoint_save, but rank 1 calls group_agree"));
    th_error_clear(p.ctx);
    th_group_free(p.group);
    process_assert(th_checkpoint_save(whole, &p.checkpoint) == TH_ERROR_STATE);
    process_assert(strstr(th_error_text(p.ctx), "checkpoint_save: the group of adam has been freed"));
    th_context_free(p.ctx);
    return 0;
}

START_TEST(different_functions_and_freed_groups_are_errors)
{
    run_processes(3, call_different_functions, NULL);
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

/* -- two small models -- */

/* Makes a model of one parameter, and takes a step. */
static th_checkpoint small_new(th_context *c, th_group *group, int64_t size)
{
    th_module *m = th_module_new(c, sizeof *m, "small", NULL);
    th_tensor *v = th_module_add_parameter(m, "v", TH_SHAPE(size));
    th_checkpoint small = {.model = m};
    process_assert(th_fill(v, 1) == TH_OK);
    small.optimizer = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1, .shards = SHARDS, .group = group});
    for (th_shard shard = th_optimizer_shards(small.optimizer); th_shard_next(&shard); th_tape_clear(c))
        process_assert(th_backward(th_sum(th_mul(v, v), TH_ALL_AXES, NULL), NULL) == TH_OK);
    process_assert(th_optimizer_step(small.optimizer) == TH_OK);
    return small;
}

/* Rank 0 has all moments of the first model, and a part of the second one's. Then rank 1 saves another model than the
 * others, with as many moments. */
static int save_two_models(const th_transport *transport, void *user)
{
    char *const *paths = user;
    th_context *c = th_context_new(&(th_context_options){.seed = 7, .threads = 1});
    th_group *group = th_group_new(c, transport);
    process_assert(th_group_set_timeout(group, SECONDS) == TH_OK);
    const th_checkpoint first = small_new(c, group, 3), second = small_new(c, group, 40000);
    process_assert(th_checkpoint_save(paths[0], &first) == TH_OK);
    process_assert(th_checkpoint_save(paths[1], &second) == TH_OK);
    if (transport->size > 1) {
        process_assert(th_checkpoint_save(paths[1], transport->rank == 1 ? &first : &second) == TH_ERROR_STATE);
        process_assert(strstr(th_error_text(c), "the checksum of the sizes of the moments is "));
        th_error_clear(c);
    }
    process_assert(th_group_agree(group) == TH_OK);
    th_context_free(c);
    return 0;
}

START_TEST(a_process_may_have_all_moments_or_none)
{
    char more[256];
    strcpy(more, in_folder("more"));
    run_processes(1, save_two_models, (char *[]){whole, half});
    run_processes(3, save_two_models, (char *[]){other, more});
    expect_same_files(whole, other);
    expect_same_files(half, more);
    ck_assert_int_eq(count_files(), 4);
}
END_TEST

/* -- loading in one process -- */

/* Rank 1 loads another file, or one that does not exist. */
static int load_differently(const th_transport *transport, void *user)
{
    static const run r = {.training = &trainings[0]};
    const int way = *(const int *)user;
    own p;
    own_begin(&p, transport, &r);
    step(p.optimizer, p.model); /* the processes compare their parameters */
    p.checkpoint.n_numbers = 0;
    process_assert(th_checkpoint_load(half, &p.checkpoint) == TH_OK);
    step(p.optimizer, p.model);
    process_assert(th_checkpoint_load(half, &p.checkpoint) == TH_OK);
    th_status status = TH_OK;
    if (transport->rank == 1 && way == 0)
        status = th_checkpoint_load("/nowhere/file", &p.checkpoint);
    if (transport->rank == 1 && way == 1)
        status = th_checkpoint_load(other, &p.checkpoint);
    if (transport->rank == 1 && way == 2)
        status = th_weights_load(&p.model->base, other, NULL);
    process_assert(status == (transport->rank == 1 && way == 0 ? TH_ERROR_FILE : TH_OK));
    if (way == 0) {
        process_assert(th_group_agree(p.group) == TH_ERROR_FILE);
        process_assert(strstr(th_error_text(p.ctx), "rank 1: ") && strstr(th_error_text(p.ctx), "/nowhere/file"));
    } else {
        process_assert(run_shards(p.optimizer, p.model, SHARDS));
        process_assert(th_optimizer_step(p.optimizer) == TH_ERROR_STATE);
        process_assert(strstr(th_error_text(p.ctx), "the checksum of the parameters is "));
    }
    th_error_clear(p.ctx);
    own_load(&p, half);
    step(p.optimizer, p.model);
    th_context_free(p.ctx);
    return 0;
}

/* Averages of processes that were updated a different number of times. */
static int save_different_averages(const th_transport *transport, void *user)
{
    own p;
    own_begin(&p, transport, user);
    step(p.optimizer, p.model);
    for (int i = 0; i < 1 + (transport->rank == 1); i++)
        process_assert(th_weight_average_update(p.average) == TH_OK);
    process_assert(th_checkpoint_save(whole, &p.checkpoint) == TH_ERROR_STATE);
    process_print("%s", th_error_message(p.ctx));
    th_context_free(p.ctx);
    return 0;
}

START_TEST(different_averages_are_an_error)
{
    run r = {.training = &trainings[1]};
    process_result results[3];
    run_three(save_different_averages, &r, results);
    expect_same_texts(results);
    ck_assert_msg(strstr(results[0].text, "checksum of the averages of weights"), "%s", results[0].text);
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

START_TEST(processes_that_load_different_files_are_told_apart)
{
    train_with(1, (run){.training = &trainings[0], .steps = 1, .to = half});
    train_with(1, (run){.training = &trainings[0], .steps = 1, .scale = 0.25, .to = other});
    run_processes(3, load_differently, &_i);
}
END_TEST

/* -- a parameter that gets moments after the load -- */

/* A model with one parameter that is trained, and one of another type that is frozen. */
typedef struct grown {
    th_context *ctx;
    th_module *late;
    th_tensor *v;
    th_checkpoint checkpoint;
} grown;

static grown grown_new(const th_transport *transport, int local_steps)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 7, .threads = 1});
    th_group *group = transport->size > 1 ? th_group_new(c, transport) : NULL;
    th_module *m = th_module_new(c, sizeof *m, "model", NULL), *late = th_module_new(c, sizeof *late, "late", NULL);
    th_tensor *v = th_module_add_parameter(m, "v", TH_SHAPE(3));
    th_module_add_parameter(late, "long", TH_SHAPE(4000));
    th_module_add(m, "late", late);
    process_assert(th_module_cast(late, TH_FLOAT64) == TH_OK && th_module_freeze(late, true) == TH_OK);
    const th_adam_options options = {
        .learning_rate = 0.1, .shards = SHARDS, .group = group, .diloco = {.local_steps = local_steps}};
    return (grown){c, late, v, {.model = m, .optimizer = th_adam_new(m, &options)}};
}

static th_status grown_step(const grown *g)
{
    for (th_shard shard = th_optimizer_shards(g->checkpoint.optimizer); th_shard_next(&shard); th_tape_clear(g->ctx))
        process_assert(th_backward(th_sum(g->v, TH_ALL_AXES, NULL), NULL) == TH_OK);
    return th_optimizer_step(g->checkpoint.optimizer);
}

/* Loading allocates moments before the block of v has gradients, so the cast parameter gets a place in that block. */
static int cast_after_the_load(const th_transport *transport, void *user)
{
    const int local_steps = *(const int *)user;
    const grown saved = grown_new(transport, local_steps), g = grown_new(transport, local_steps);
    process_assert(grown_step(&saved) == TH_OK && th_checkpoint_save(half, &saved.checkpoint) == TH_OK);
    process_assert(th_checkpoint_load(half, &g.checkpoint) == TH_OK);
    process_assert(th_module_cast(g.late, TH_FLOAT32) == TH_OK && th_module_freeze(g.late, false) == TH_OK);
    if (transport->size > 1 || local_steps > 0) {
        process_assert(grown_step(&g) == TH_ERROR_STATE);
        process_assert(strstr(th_error_text(g.ctx), "moments cannot grow: cast it before the first step"));
        th_error_clear(g.ctx);
        process_assert(th_module_freeze(g.late, true) == TH_OK);
    }
    process_assert(grown_step(&saved) == TH_OK && grown_step(&g) == TH_OK);
    process_assert(th_get(g.v, TH_INDEX(2)) == th_get(saved.v, TH_INDEX(2)));
    th_context_free(saved.ctx);
    th_context_free(g.ctx);
    return 0;
}

/* _i: the number of local steps. */
START_TEST(moments_of_processes_or_local_steps_do_not_grow)
{
    run_processes(1, cast_after_the_load, &_i);
    run_processes(2, cast_after_the_load, &_i);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("checkpoints of groups", setup, remove_folder);
    tcase_add_loop_test(tests, a_checkpoint_has_the_bytes_of_one_process, 0, TRAININGS);
    tcase_add_loop_test(tests, a_run_continues_with_any_number_of_processes, 0, TRAININGS);
    tcase_add_test(tests, a_checkpoint_before_the_first_step_has_no_moments);
    tcase_add_test(tests, loading_ends_a_loop_over_shards);
    tcase_add_test(tests, only_rank_0_takes_memory_and_for_one_moment);
    tcase_add_test(tests, a_process_may_have_all_moments_or_none);
    tcase_add_test(tests, another_number_of_shards_is_another_option);
    tcase_add_test(tests, one_shard_is_not_named);
    tests = new_suite("errors", setup, remove_folder);
    tcase_add_loop_test(tests, every_process_reports_the_same_error, 0, MISUSES);
    tcase_add_test(tests, a_full_disk_leaves_the_old_file);
    tests = new_suite("memory", setup, remove_folder);
    tcase_add_loop_test(tests, memory_may_run_out_in_one_process, 0, 3);
    tcase_add_loop_test(tests, a_process_that_does_not_answer_is_reported, 0, 5);
    tcase_add_test(tests, different_functions_and_freed_groups_are_errors);
    tcase_add_test(tests, different_averages_are_an_error);
    tcase_add_loop_test(tests, processes_that_load_different_files_are_told_apart, 0, 3);
    tcase_add_loop_test(tests, moments_of_processes_or_local_steps_do_not_grow, 0, 2);
    return run_suites();
}
