/* Tests of local steps and outer steps (DiLoCo): the formula, the same bits as workers that one process simulates,
 * traffic, memory, and errors. */
#include <math.h>
#include <string.h>

#include "processes.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* -- one worker: the formula -- */

enum { ELEMENTS = 5 };

static th_module *vector_new(th_context *c)
{
    th_module *m = th_module_new(c, sizeof *m, "vector", NULL);
    th_module_add_parameter(m, "v", TH_SHAPE(ELEMENTS));
    return m;
}

/* Gives v the gradient 1, 2, ... times a factor. */
static th_status backward(th_module *m, double factor)
{
    float g[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        g[i] = (float)(factor * (i + 1));
    th_tensor *cotangent = th_from_data(m->ctx, TH_FLOAT32, TH_SHAPE(ELEMENTS), g);
    const th_status status =
        th_backward(th_module_find_parameter(m, "v"), &(th_backward_options){.cotangent = cotangent});
    th_tensor_free(cotangent);
    return status;
}

static th_status step_of_vector(th_optimizer *o, th_module *m, double factor)
{
    const th_status status = backward(m, factor);
    return status ? status : th_optimizer_step(o);
}

/* Powers of two, so that no operation rounds. */
START_TEST(one_worker_follows_the_formula)
{
    const th_diloco_options options[] = {
        {.local_steps = 2, .learning_rate = 0.5, .momentum = 0.5},
        {.local_steps = 2, .learning_rate = 0.25, .no_momentum = true},
        {.local_steps = 1, .learning_rate = 1, .no_momentum = true},
    };
    const th_diloco_options *d = &options[_i];
    th_module *m = vector_new(ctx);
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.5, .diloco = *d});
    float theta = 0, start = 0, velocity = 0;
    for (int step = 1; step <= 6; step++) {
        ck_assert_int_eq(step_of_vector(sgd, m, step), TH_OK);
        theta -= 0.5F * (float)step;
        if (step % d->local_steps == 0) {
            const float delta = start - theta, momentum = (float)d->momentum;
            velocity = momentum * velocity + delta;
            start -= (float)d->learning_rate * (delta + momentum * velocity);
            theta = start;
        }
        for (int i = 0; i < ELEMENTS; i++)
            ck_assert_double_eq(th_get(th_module_find_parameter(m, "v"), TH_INDEX(i)), theta * (float)(i + 1));
    }
}
END_TEST

START_TEST(defaults_are_those_of_the_paper)
{
    uint32_t crc[2];
    for (int i = 0; i < 2; i++) {
        th_module *m = vector_new(ctx);
        const th_diloco_options given = {.local_steps = 2}, full = {2, 0.7, 0.9, false};
        th_optimizer *o = th_adam_new(m, &(th_adam_options){.learning_rate = 0.1, .diloco = i ? full : given});
        for (int step = 0; step < 5; step++)
            ck_assert_int_eq(step_of_vector(o, m, 1), TH_OK);
        crc[i] = th_module_crc32c(m);
        ck_assert_double_ne(th_get(th_module_find_parameter(m, "v"), TH_INDEX(0)), 0);
    }
    ck_assert_uint_eq(crc[0], crc[1]);
}
END_TEST

START_TEST(wrong_options_are_refused)
{
    th_module *m = vector_new(ctx);
    const th_diloco_options wrong[] = {{.local_steps = -1},
                                       {.local_steps = 1, .learning_rate = -1},
                                       {.local_steps = 1, .learning_rate = INFINITY},
                                       {.local_steps = 1, .momentum = 1},
                                       {.local_steps = 1, .momentum = NAN}};
    static const char *const words[] = {"diloco.local_steps = -1", "diloco.learning_rate = -1",
                                        "diloco.learning_rate = inf", "diloco.momentum = 1", "diloco.momentum = nan"};
    for (int i = 0; i < 5; i++) {
        assert_error(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .diloco = wrong[i]}), TH_ERROR_ARGUMENT,
                     words[i]);
        assert_error(th_adam_w_new(m, &(th_adam_options){.learning_rate = 1, .diloco = wrong[i]}), TH_ERROR_ARGUMENT,
                     words[i]);
    }
}
END_TEST

static const char *no_exchange(void *user, const th_message *send, int n_send, const th_message *receive, int n_receive,
                               double seconds)
{
    (void)user, (void)send, (void)n_send, (void)receive, (void)n_receive, (void)seconds;
    return "the network is down";
}

START_TEST(workers_have_equally_many_shards)
{
    th_module *m = vector_new(ctx);
    th_group *group = th_group_new(ctx, &(th_transport){.size = 3, .exchange = no_exchange});
    const th_diloco_options local = {.local_steps = 2};
    assert_error(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 4, .group = group, .diloco = local}),
                 TH_ERROR_ARGUMENT, ".shards must be a multiple of 3, not 4");
    ck_assert_ptr_nonnull(
        th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 6, .group = group, .diloco = local}));
}
END_TEST

START_TEST(a_module_is_cast_before_the_first_local_step)
{
    th_module *m = vector_new(ctx);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .diloco = {.local_steps = 2}});
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT32), TH_OK);
    ck_assert_int_eq(step_of_vector(o, m, 1), TH_OK);
    expect_status(th_module_cast(m, TH_FLOAT64), TH_ERROR_STATE, "cast the module before the first step");
}
END_TEST

/* -- several workers: a model of several blocks, with parameters that only some shards use -- */

enum { EXTRA = 40000, STEPS = 7, MOST_WORKERS = 4 };

typedef struct {
    int shards_per_worker, threads;
    th_dtype dtype;
    bool sgd, clip, frozen, no_momentum;
    int local_steps;
} training;

typedef struct {
    th_module base;
    th_module *decoder;
    th_tensor *extra, *rare;
} model;

static th_context *context_new(const training *t)
{
    return th_context_new(&(th_context_options){
        .seed = 7, .threads = t->threads ? t->threads : 1, .default_dtype = t->dtype ? t->dtype : TH_FLOAT32});
}

static model *model_new(th_context *c, bool frozen)
{
    model *m = th_module_new(c, sizeof *m, "model", NULL);
    const th_language_model_options options = {
        .vocabulary = 16, .length = 6, .width = 16, .heads = 2, .layers = 2, .dropout = 0.2};
    m->decoder = th_module_add(&m->base, "decoder", th_language_model_new(c, &options));
    m->extra = th_module_add_parameter(&m->base, "extra", TH_SHAPE(EXTRA));
    m->rare = th_module_add_parameter(&m->base, "rare", TH_SHAPE(3));
    process_assert(th_fill_normal(m->extra, 0, 1) == TH_OK);
    if (frozen)
        process_assert(th_module_freeze(th_module_find(m->decoder, "layers.0"), true) == TH_OK);
    return m;
}

/* Returns the loss of a shard, of random tokens. Only shard 1 uses `rare`, and only in the first three steps. */
static th_tensor *loss_of(model *m, int shard)
{
    th_context *c = m->base.ctx;
    th_tensor *text = th_random_integers(c, TH_INT32, TH_SHAPE(2, 7), 0, 16);
    th_tensor *loss = th_language_model_loss(m->decoder, th_slice(text, 1, 0, 6, 1), th_slice(text, 1, 1, 7, 1), NULL);
    loss = th_add(loss, th_mean(th_mul(th_dropout(m->extra, 0.5), m->extra), TH_ALL_AXES, NULL));
    return shard == 1 && th_step(c) < 3 ? th_add(loss, th_sum(th_exp(m->rare), TH_ALL_AXES, NULL)) : loss;
}

static th_optimizer *optimizer_new(model *m, const training *t, int shards, th_group *group, int local_steps)
{
    const double max_norm = t->clip ? 0.3 : 0;
    const th_diloco_options diloco = {.local_steps = local_steps, .no_momentum = t->no_momentum};
    if (t->sgd)
        return th_sgd_new(&m->base, &(th_sgd_options){.learning_rate = 0.1,
                                                      .momentum = 0.9,
                                                      .max_norm = max_norm,
                                                      .shards = shards,
                                                      .group = group,
                                                      .diloco = diloco});
    return th_adam_w_new(&m->base, &(th_adam_options){.learning_rate = 1e-2,
                                                      .weight_decay = 0.1,
                                                      .amsgrad = t->clip,
                                                      .max_norm = max_norm,
                                                      .shards = shards,
                                                      .group = group,
                                                      .diloco = diloco});
}

/* Computes shards first to end - 1 of a step. */
static void run_shards(th_optimizer *o, model *m, int first, int end)
{
    th_context *c = m->base.ctx;
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c)) {
        shard.weight = shard.index >= first && shard.index < end ? 1 : 0;
        if (shard.weight == 0)
            continue;
        th_step_begin(c);
        th_tensor *loss = loss_of(m, shard.index);
        shard.loss = th_item(loss);
        if (th_backward(loss, NULL))
            break;
    }
}

/* What a worker ends with. */
typedef struct {
    uint32_t crc;
    double norm, loss;
} outcome;

static outcome outcome_of(const model *m, const th_optimizer *o)
{
    return (outcome){th_module_crc32c(&m->base), th_optimizer_gradient_norm(o), th_optimizer_loss(o)};
}

typedef struct {
    training training;
    int workers;
    outcome *outcome; /* shared; [MAX_PROCESSES] */
    th_group_traffic *traffic;
} run;

/* One of the workers. */
static int train(const th_transport *transport, void *user)
{
    const run *r = user;
    const training *t = &r->training;
    th_context *c = context_new(t);
    th_group *group = th_group_new(c, transport);
    model *m = model_new(c, t->frozen);
    const int shards = t->shards_per_worker * r->workers, first = t->shards_per_worker * transport->rank;
    th_optimizer *o = optimizer_new(m, t, shards, group, t->local_steps);
    size_t allocations = 0;
    for (int step = 1; step <= STEPS; step++) {
        run_shards(o, m, first, first + t->shards_per_worker);
        if (th_optimizer_step(o))
            fail_process("step %d: %s", step, th_error_message(c));
        if (step == (t->local_steps ? t->local_steps : 1))
            allocations = th_memory(c).allocations;
    }
    process_assert(th_memory(c).allocations == allocations);
    r->outcome[transport->rank] = outcome_of(m, o);
    r->traffic[transport->rank] = th_group_traffic_so_far(group);
    th_context_free(c);
    return 0;
}

/* -- the reference: one process computes the workers one after another, each in its own context -- */

enum { MOST_PARAMETERS = 64 };

typedef struct {
    th_context *ctx;
    model *model;
    th_optimizer *optimizer;
    bool changed[MOST_PARAMETERS]; /* since the last outer step */
} worker;

/* Marks the parameters that have a gradient. */
static void mark_changed(worker *w)
{
    int i = 0;
    for (th_parameter_iterator p = th_module_parameters(&w->model->base); th_parameter_next(&p); i++)
        w->changed[i] |= th_gradient(p.tensor) != NULL;
    process_assert(i <= MOST_PARAMETERS);
}

/* A step of one worker: the shards of other workers have no gradients. */
static void step_alone(worker *w, int first, int end)
{
    run_shards(w->optimizer, w->model, first, end);
    mark_changed(w);
    process_assert(th_optimizer_step(w->optimizer) == TH_OK);
}

static double number_at(const void *numbers, th_dtype dtype, int64_t i)
{
    return dtype == TH_FLOAT64 ? ((const double *)numbers)[i] : (double)((const float *)numbers)[i];
}

/* Sets the gradient of parameter `to` to its difference from parameter `from` of another context. */
static void set_difference(th_tensor *to, th_tensor *from)
{
    static union {
        float single[EXTRA];
        double full[EXTRA];
    } start, theta;
    const th_dtype dtype = th_dtype_of(to);
    const int64_t n = th_numel(to);
    const size_t bytes = (size_t)n * th_dtype_size(dtype);
    process_assert(n <= EXTRA && th_copy_out(to, &start, bytes) == TH_OK && th_copy_out(from, &theta, bytes) == TH_OK);
    for (int64_t i = 0; i < n; i++) {
        const double difference = number_at(&start, dtype, i) - number_at(&theta, dtype, i);
        if (dtype == TH_FLOAT64)
            start.full[i] = difference;
        else
            start.single[i] = (float)difference;
    }
    th_shape shape = {.ndim = th_ndim(to)};
    for (int d = 0; d < shape.ndim; d++)
        shape.size[d] = th_size(to, d);
    th_tensor *cotangent = th_from_data(th_context_of(to), dtype, shape, &start);
    process_assert(th_backward(to, &(th_backward_options){.cotangent = cotangent}) == TH_OK);
    th_tensor_free(cotangent);
}

/* A plain step of SGD whose shards are the workers, with the differences as gradients. */
static void join(worker *workers, int n, th_module *outer, th_optimizer *sgd)
{
    for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(outer->ctx)) {
        const worker *w = &workers[shard.index];
        int i = 0;
        th_parameter_iterator from = th_module_parameters(&w->model->base);
        for (th_parameter_iterator to = th_module_parameters(outer); th_parameter_next(&to); i++) {
            (void)th_parameter_next(&from);
            if (w->changed[i])
                set_difference(to.tensor, from.tensor);
        }
    }
    process_assert(th_optimizer_step(sgd) == TH_OK);
    for (int r = 0; r < n; r++) {
        th_parameter_iterator to = th_module_parameters(&workers[r].model->base);
        for (th_parameter_iterator from = th_module_parameters(outer); th_parameter_next(&from);) {
            static double numbers[EXTRA];
            const size_t bytes = (size_t)th_numel(from.tensor) * th_dtype_size(th_dtype_of(from.tensor));
            (void)th_parameter_next(&to);
            process_assert(th_copy_out(from.tensor, numbers, bytes) == TH_OK &&
                           th_copy_in(to.tensor, numbers, bytes) == TH_OK);
        }
        memset(workers[r].changed, 0, sizeof workers[r].changed);
    }
}

static int simulate(const th_transport *transport, void *user)
{
    (void)transport;
    const run *r = user;
    const training *t = &r->training;
    worker workers[MOST_WORKERS] = {{0}};
    for (int i = 0; i < r->workers; i++) {
        workers[i].ctx = context_new(t);
        workers[i].model = model_new(workers[i].ctx, t->frozen);
        workers[i].optimizer = optimizer_new(workers[i].model, t, t->shards_per_worker * r->workers, NULL, 0);
    }
    th_context *c = context_new(t);
    model *outer = model_new(c, t->frozen);
    const double momentum = t->no_momentum ? 0 : 0.9;
    th_optimizer *sgd = th_sgd_new(
        &outer->base,
        &(th_sgd_options){.learning_rate = 0.7, .momentum = momentum, .nesterov = momentum > 0, .shards = r->workers});
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < r->workers; i++)
            step_alone(&workers[i], t->shards_per_worker * i, t->shards_per_worker * (i + 1));
        if (step % t->local_steps == 0)
            join(workers, r->workers, &outer->base, sgd);
    }
    for (int i = 0; i < r->workers; i++) {
        r->outcome[i] = outcome_of(workers[i].model, workers[i].optimizer);
        th_context_free(workers[i].ctx);
    }
    th_context_free(c);
    return 0;
}

static run run_of(training t, int workers)
{
    return (run){t, workers, shared_memory(MAX_PROCESSES * sizeof(outcome)),
                 shared_memory(MAX_PROCESSES * sizeof(th_group_traffic))};
}

START_TEST(workers_have_the_bits_of_simulated_ones)
{
    static const training trainings[] = {
        {.shards_per_worker = 1, .local_steps = 1},
        {.shards_per_worker = 1, .local_steps = 3, .threads = 2, .clip = true},
        {.shards_per_worker = 1, .local_steps = 3, .dtype = TH_FLOAT64, .frozen = true},
        {.shards_per_worker = 2, .local_steps = 3, .sgd = true, .clip = true},
        {.shards_per_worker = 1, .local_steps = 2, .no_momentum = true},
    };
    for (int workers = 1; workers <= MOST_WORKERS; workers++) {
        run alone = run_of(trainings[_i], workers), together = run_of(trainings[_i], workers);
        alone.training.threads = 1;
        run_processes(1, simulate, &alone);
        run_processes(workers, train, &together);
        for (int r = 0; r < workers; r++) {
            ck_assert_uint_eq(together.outcome[r].crc, alone.outcome[r].crc);
            ck_assert_double_eq(together.outcome[r].norm, alone.outcome[r].norm);
            ck_assert_double_eq(together.outcome[r].loss, alone.outcome[r].loss);
        }
        if (workers > 1 && STEPS % trainings[_i].local_steps != 0)
            ck_assert_uint_ne(together.outcome[0].crc, together.outcome[1].crc);
    }
}
END_TEST

START_TEST(workers_send_fewer_bytes)
{
    enum { WORKERS = 3 };
    run each = run_of((training){.shards_per_worker = 1, .local_steps = 1}, WORKERS);
    run seventh = run_of((training){.shards_per_worker = 1, .local_steps = STEPS}, WORKERS);
    run usual = run_of((training){.shards_per_worker = 1, .local_steps = 0}, WORKERS);
    run_processes(WORKERS, train, &each);
    run_processes(WORKERS, train, &seventh);
    run_processes(WORKERS, train, &usual);
    for (int r = 0; r < WORKERS; r++) {
        const uint64_t bytes = seventh.traffic[r].bytes_sent;
        ck_assert_uint_gt(bytes, EXTRA * sizeof(float));
        ck_assert_uint_le(bytes * STEPS, usual.traffic[r].bytes_sent + usual.traffic[r].bytes_sent / 100);
        ck_assert_uint_ge(bytes * STEPS, usual.traffic[r].bytes_sent - usual.traffic[r].bytes_sent / 100);
        ck_assert_uint_eq(each.traffic[r].bytes_sent, usual.traffic[r].bytes_sent);
    }
}
END_TEST

/* -- memory -- */

static size_t live_after_two_steps(bool shapes_only, const th_transport *transport, int local_steps)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 7, .threads = 1, .shapes_only = shapes_only});
    const training t = {.shards_per_worker = 1};
    model *m = model_new(c, false);
    th_group *group = th_group_new(c, transport);
    th_optimizer *o = optimizer_new(m, &t, transport->size, group, local_steps);
    for (int step = 0; step < 2; step++) {
        run_shards(o, m, 0, transport->size);
        if (th_optimizer_step(o))
            fail_process("%s", th_error_message(c));
    }
    const size_t live = th_memory(c).live;
    th_context_free(c);
    return live;
}

static int compare_memory(const th_transport *transport, void *user)
{
    (void)user;
    const size_t local = live_after_two_steps(false, transport, 2), usual = live_after_two_steps(false, transport, 0);
    process_assert(live_after_two_steps(true, transport, 2) == local);
    process_assert(live_after_two_steps(true, transport, 0) == usual);
    /* besides, a copy of the parameters, all moments instead of a part, and a part of the velocity */
    const size_t parameter = EXTRA * sizeof(float), size = (size_t)transport->size;
    process_assert(local - usual > parameter * (1 + 2 * (size - 1) / size));
    return 0;
}

START_TEST(a_forecast_counts_what_outer_steps_keep)
{
    run_processes(1, compare_memory, NULL);
    run_processes(2, compare_memory, NULL);
}
END_TEST

/* -- errors -- */

/* One of three workers with a vector. */
typedef struct {
    th_context *ctx;
    th_group *group;
    th_module *m;
    th_tensor *v;
    th_optimizer *o;
    int rank;
} member;

static member member_new(const th_transport *transport, int local_steps)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 7, .threads = 1});
    th_group *group = th_group_new(c, transport);
    process_assert(th_group_set_timeout(group, 20) == TH_OK);
    th_module *m = vector_new(c);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1,
                                                      .momentum = 0.5,
                                                      .shards = transport->size,
                                                      .group = group,
                                                      .diloco = {.local_steps = local_steps}});
    return (member){c, group, m, th_module_find_parameter(m, "v"), o, transport->rank};
}

static th_status member_step(const member *w, double gradient)
{
    for (th_shard shard = th_optimizer_shards(w->o); th_shard_next(&shard); th_tape_clear(w->ctx))
        if (backward(w->m, gradient))
            break;
    return th_optimizer_step(w->o);
}

/* Checks the error, and clears it. */
static void expect_worker_error(const member *w, th_status status, const char *words)
{
    if (th_error_code(w->ctx) != status || strstr(th_error_message(w->ctx), words) == NULL)
        fail_process("rank %d: code %d, %s", w->rank, (int)th_error_code(w->ctx), th_error_message(w->ctx));
    th_error_clear(w->ctx);
}

/* Each function below is a worker. It returns what v[0] is in the end, which must be the same in all workers. */

static double without_errors(const member *w)
{
    for (int step = 0; step < 4; step++)
        process_assert(member_step(w, w->rank + 1) == TH_OK);
    return th_get(w->v, TH_INDEX(0));
}

/* Rank 1 waits in its first step until the others take their second one, with the outer step. */
static double one_fails_in_the_first_local_step(const member *w)
{
    if (w->rank != 1)
        process_assert(member_step(w, w->rank + 1) == TH_OK);
    const double before = th_get(w->v, TH_INDEX(0));
    process_assert(member_step(w, w->rank == 1 ? (double)INFINITY : w->rank + 1) == TH_ERROR_VALUE);
    expect_worker_error(w, TH_ERROR_VALUE, "rank 1: optimizer_step: the gradient of v is inf at [0]; no parameter");
    process_assert(th_get(w->v, TH_INDEX(0)) == before && th_step(w->ctx) == (w->rank == 1 ? 0 : 1));
    while (th_step(w->ctx) < 4)
        process_assert(member_step(w, w->rank + 1) == TH_OK);
    return th_get(w->v, TH_INDEX(0));
}

static double one_fails_in_the_last_local_step(const member *w)
{
    process_assert(member_step(w, w->rank + 1) == TH_OK);
    const double before = th_get(w->v, TH_INDEX(0));
    process_assert(member_step(w, w->rank == 2 ? (double)NAN : w->rank + 1) == TH_ERROR_VALUE);
    expect_worker_error(w, TH_ERROR_VALUE, "rank 2: ");
    process_assert(th_get(w->v, TH_INDEX(0)) == before && th_step(w->ctx) == 1);
    for (int step = 1; step < 4; step++)
        process_assert(member_step(w, w->rank + 1) == TH_OK);
    return th_get(w->v, TH_INDEX(0));
}

/* An error that the forward of a worker had reaches the others, too. */
static double one_has_an_error_of_its_own(const member *w)
{
    if (w->rank == 2)
        process_assert(th_reshape(w->v, TH_SHAPE(7)) == NULL);
    else
        process_assert(member_step(w, 1) == TH_OK);
    process_assert(member_step(w, 1) == TH_ERROR_SHAPE);
    expect_worker_error(w, TH_ERROR_SHAPE, "rank 2: reshape: ");
    return 0;
}

static double differences_are_not_finite(const member *w)
{
    process_assert(member_step(w, w->rank + 1) == TH_OK && member_step(w, w->rank + 1) == TH_OK);
    const double start = th_get(w->v, TH_INDEX(0));
    process_assert(member_step(w, w->rank + 1) == TH_OK);
    process_assert(th_optimizer_set_learning_rate(w->o, 1e38) == TH_OK);
    process_assert(member_step(w, w->rank + 1) == TH_ERROR_VALUE);
    expect_worker_error(w, TH_ERROR_VALUE, "the sum of the differences of v is inf at [0]");
    process_assert(th_get(w->v, TH_INDEX(0)) == start && th_step(w->ctx) == 4);
    process_assert(th_optimizer_set_learning_rate(w->o, 1) == TH_OK);
    process_assert(member_step(w, w->rank + 1) == TH_OK && member_step(w, w->rank + 1) == TH_OK);
    process_assert(th_get(w->v, TH_INDEX(0)) < start);
    return th_get(w->v, TH_INDEX(0));
}

static double one_begins_with_other_parameters(const member *w)
{
    process_assert(member_step(w, 1) == TH_OK && member_step(w, 1) == TH_OK);
    if (w->rank == 1)
        process_assert(th_set(w->v, TH_INDEX(4), 8) == TH_OK);
    process_assert(member_step(w, 1) == TH_OK && member_step(w, 1) == TH_ERROR_STATE);
    expect_worker_error(w, TH_ERROR_STATE, "the processes differ: the checksum of the parameters");
    return 0;
}

static double the_numbers_of_local_steps_differ(const member *w)
{
    th_optimizer *o = th_sgd_new(
        w->m, &(th_sgd_options){
                  .learning_rate = 1, .shards = 3, .group = w->group, .diloco = {.local_steps = w->rank == 2 ? 1 : 2}});
    member changed = *w;
    changed.o = o;
    if (w->rank != 2)
        process_assert(member_step(&changed, 1) == TH_OK);
    process_assert(member_step(&changed, 1) == TH_ERROR_STATE);
    expect_worker_error(w, TH_ERROR_STATE, "the processes differ: ");
    return 0;
}

static double one_requests_the_end(const member *w)
{
    if (w->rank == 0)
        th_group_request_stop(w->group);
    process_assert(member_step(w, 1) == TH_OK && !th_group_stop_requested(w->group));
    process_assert(member_step(w, 1) == TH_OK && th_group_stop_requested(w->group));
    return 0;
}

/* The outer step joins a parameter that a local step has changed, though it is frozen now. */
static double a_parameter_is_frozen_between(const member *w)
{
    process_assert(member_step(w, w->rank + 1) == TH_OK);
    process_assert(th_module_freeze(w->m, true) == TH_OK);
    for (th_shard shard = th_optimizer_shards(w->o); th_shard_next(&shard);)
        ;
    process_assert(th_optimizer_step(w->o) == TH_OK);
    process_assert(th_get(w->v, TH_INDEX(0)) != 0);
    return th_get(w->v, TH_INDEX(0));
}

typedef struct {
    double (*play_worker)(const member *w);
    double *result; /* shared; [MAX_PROCESSES] */
} scene;

static int play(const th_transport *transport, void *user)
{
    const scene *s = user;
    const member w = member_new(transport, 2);
    s->result[transport->rank] = s->play_worker(&w);
    process_assert(th_error_code(w.ctx) == TH_OK);
    th_context_free(w.ctx);
    return 0;
}

/* Returns the common result of three workers. */
static double play_all(double (*play_worker)(const member *w))
{
    scene s = {play_worker, shared_memory(MAX_PROCESSES * sizeof *s.result)};
    run_processes(3, play, &s);
    ck_assert_double_eq(s.result[0], s.result[1]);
    ck_assert_double_eq(s.result[0], s.result[2]);
    return s.result[0];
}

START_TEST(steps_after_an_error_have_the_same_bits)
{
    const double expected = play_all(without_errors);
    ck_assert_double_ne(expected, 0);
    ck_assert_double_eq(play_all(one_fails_in_the_first_local_step), expected);
    ck_assert_double_eq(play_all(one_fails_in_the_last_local_step), expected);
}
END_TEST

START_TEST(all_workers_report_an_error_of_the_outer_step)
{
    (void)play_all(one_has_an_error_of_its_own);
    (void)play_all(differences_are_not_finite);
    (void)play_all(one_begins_with_other_parameters);
    (void)play_all(the_numbers_of_local_steps_differ);
}
END_TEST

START_TEST(a_request_to_stop_arrives_with_the_outer_step)
{
    (void)play_all(one_requests_the_end);
}
END_TEST

START_TEST(a_parameter_frozen_between_outer_steps_is_joined)
{
    (void)play_all(a_parameter_is_frozen_between);
}
END_TEST

int main(void)
{
    TCase *one = new_suite("local steps of one process", setup, close_context);
    tcase_add_loop_test(one, one_worker_follows_the_formula, 0, 3);
    tcase_add_test(one, defaults_are_those_of_the_paper);
    tcase_add_test(one, wrong_options_are_refused);
    tcase_add_test(one, workers_have_equally_many_shards);
    tcase_add_test(one, a_module_is_cast_before_the_first_local_step);
    TCase *several = new_suite("local steps of several processes", NULL, NULL);
    tcase_add_loop_test(several, workers_have_the_bits_of_simulated_ones, 0, 5);
    tcase_add_test(several, workers_send_fewer_bytes);
    tcase_add_test(several, a_forecast_counts_what_outer_steps_keep);
    tcase_add_test(several, steps_after_an_error_have_the_same_bits);
    tcase_add_test(several, all_workers_report_an_error_of_the_outer_step);
    tcase_add_test(several, a_request_to_stop_arrives_with_the_outer_step);
    tcase_add_test(several, a_parameter_frozen_between_outer_steps_is_joined);
    return run_suites();
}
