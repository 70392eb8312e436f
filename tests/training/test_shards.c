/* Tests of steps in shards: the order of the sums, the same bits with any number of processes, and misuse. */
#include <float.h>
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

/* -- one process: the order of the sums -- */

enum { ELEMENTS = 5, MOST_SHARDS = 13 };

/* Returns gradient element i of a shard: numbers of very different sizes, so that the order of additions shows. */
static float gradient_of(int shard, int i)
{
    return ldexpf(1 + (float)((shard * 37 + i * 11) % 29) / 29, (shard * 7 + i) % 23) *
           ((shard + i) % 3 ? 1.0F : -1.0F);
}

/* Returns the sum of shards first to first + size - 1 of count, as the header defines it. size is a power of two. */
static float tree_sum(int first, int size, int count, int i)
{
    if (size == 1)
        return gradient_of(first, i);
    const float left = tree_sum(first, size / 2, count, i);
    return first + size / 2 >= count ? left : left + tree_sum(first + size / 2, size / 2, count, i);
}

static th_module *vector_new(void)
{
    th_module *m = th_module_new(ctx, sizeof *m, "vector", NULL);
    th_module_add_parameter(m, "v", TH_SHAPE(ELEMENTS));
    return m;
}

/* Gives parameter v the gradient of a shard. */
static void set_gradient(th_module *m, int shard)
{
    float g[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        g[i] = gradient_of(shard, i);
    th_tensor *cotangent = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(ELEMENTS), g);
    ck_assert_int_eq(th_backward(th_module_find_parameter(m, "v"), &(th_backward_options){.cotangent = cotangent}),
                     TH_OK);
    th_tensor_free(cotangent);
}

START_TEST(gradients_of_shards_are_summed_in_a_tree)
{
    for (int count = 1; count <= MOST_SHARDS; count++) {
        th_module *m = vector_new();
        th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = count});
        int visited = 0;
        for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); visited++) {
            ck_assert_int_eq(shard.index, visited);
            ck_assert_int_eq(shard.count, count);
            set_gradient(m, shard.index);
            shard.loss = shard.index;
            shard.weight = 0.5;
            th_tape_clear(ctx);
        }
        ck_assert_int_eq(visited, count);
        ck_assert_int_eq(th_optimizer_step(sgd), TH_OK);
        float v[ELEMENTS];
        ck_assert_int_eq(th_copy_out(th_module_find_parameter(m, "v"), v, sizeof v), TH_OK);
        for (int i = 0; i < ELEMENTS; i++) {
            const float rate = (float)(1 / (0.5 * count)), sum = tree_sum(0, 16, count, i);
            ck_assert_float_eq(v[i], 0 - sum * rate);
        }
        ck_assert_double_eq(th_optimizer_loss(sgd), (count - 1) * count / 2.0 / (0.5 * count));
        th_module_free(m);
    }
}
END_TEST

START_TEST(a_shard_that_does_not_use_a_parameter_adds_zeros)
{
    th_module *m = vector_new();
    th_tensor *rare = th_module_add_parameter(m, "rare", TH_SHAPE(3)),
              *never = th_module_add_parameter(m, "never", TH_SHAPE(2));
    th_set_requires_gradient(never, true);
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .momentum = 0.5, .shards = 4});
    for (int step = 0; step < 2; step++) {
        for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(ctx)) {
            set_gradient(m, shard.index);
            if (shard.index == 1)
                ck_assert_int_eq(th_backward(th_sum(rare, TH_ALL_AXES, NULL), NULL), TH_OK);
        }
        ck_assert_int_eq(th_optimizer_step(sgd), TH_OK);
    }
    ck_assert_double_eq(th_get(rare, TH_INDEX(2)), -0.25 - 1.5 * 0.25);
    ck_assert_double_eq(th_get(never, TH_INDEX(0)), 0);
    ck_assert_ptr_null(th_gradient(never));
}
END_TEST

/* Runs a loop of four shards over a small and a large parameter, which are in different blocks. Unfreezes or freezes
 * the large one in shard 2. */
static void freeze_in_loop(bool frozen)
{
    th_module *m = vector_new();
    th_tensor *large = th_module_add_parameter(m, "large", TH_SHAPE(100000));
    th_set_requires_gradient(large, frozen);
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 4});
    for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(ctx)) {
        set_gradient(m, shard.index);
        if (shard.index == 2)
            th_set_requires_gradient(large, !frozen);
        if (th_requires_gradient(large))
            ck_assert_int_eq(th_backward(th_sum(large, TH_ALL_AXES, NULL), NULL), TH_OK);
    }
    expect_error(TH_ERROR_STATE,
                 frozen ? "a parameter was frozen in the loop" : "a parameter was unfrozen in the loop");
    expect_status(th_optimizer_step(sgd), TH_ERROR_STATE, "shard 2 has not been computed");
    ck_assert_double_eq(th_get(large, TH_INDEX(0)), 0);
}

START_TEST(parameters_stay_frozen_or_trained_in_a_loop)
{
    freeze_in_loop(_i != 0);
}
END_TEST

START_TEST(a_gradient_emptied_after_the_loop_is_not_used)
{
    th_module *m = vector_new(), *child = th_module_add(m, "child", vector_new());
    th_tensor *emptied = th_module_add_parameter(m, "emptied", TH_SHAPE(2)), *v = th_module_find_parameter(child, "v");
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .momentum = 0.5, .shards = _i});
    for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(ctx)) {
        set_gradient(m, shard.index);
        ck_assert_int_eq(th_backward(th_add(th_sum(v, TH_ALL_AXES, NULL), th_sum(emptied, TH_ALL_AXES, NULL)), NULL),
                         TH_OK);
    }
    ck_assert_int_eq(th_module_freeze(child, true), TH_OK);
    th_empty_gradient(emptied);
    ck_assert_int_eq(th_optimizer_step(sgd), TH_OK);
    ck_assert_double_eq(th_get(v, TH_INDEX(0)), 0);
    ck_assert_double_eq(th_get(emptied, TH_INDEX(0)), 0);
    ck_assert_double_ne(th_get(th_module_find_parameter(m, "v"), TH_INDEX(0)), 0);
}
END_TEST

START_TEST(a_loop_ends_only_if_its_own_parameters_are_cast_or_freed)
{
    th_module *m = vector_new(), *own = th_module_add(m, "own", vector_new());
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 3});
    for (int step = 0; step < 3; step++) {
        for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(ctx)) {
            set_gradient(m, shard.index);
            th_module *other = vector_new();
            th_tape_clear(ctx);
            ck_assert_int_eq(th_module_cast(step == 1 && shard.index == 1 ? own : other, TH_FLOAT64), TH_OK);
            th_module_free(step == 2 && shard.index == 1 ? own : other);
        }
        if (step > 0)
            expect_error(TH_ERROR_STATE, "began in this loop, or a parameter was freed or cast");
        ck_assert_int_eq(th_optimizer_step(sgd), step == 0 ? TH_OK : TH_ERROR_STATE);
        th_error_clear(ctx);
    }
}
END_TEST

START_TEST(a_rejected_step_keeps_the_loss)
{
    th_module *m = vector_new();
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 2});
    for (int step = 0; step < 2; step++) {
        for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(ctx)) {
            th_tensor *v = th_module_find_parameter(m, "v");
            ck_assert_int_eq(th_backward(th_scale(th_sum(v, TH_ALL_AXES, NULL), step ? INFINITY : 1), NULL), TH_OK);
            shard.loss = 1 + step;
        }
        ck_assert_int_eq(th_optimizer_step(sgd), step ? TH_ERROR_VALUE : TH_OK);
        th_error_clear(ctx);
        ck_assert_double_eq(th_optimizer_loss(sgd), 1);
        ck_assert_double_eq(th_optimizer_gradient_norm(sgd), sqrt(ELEMENTS));
    }
}
END_TEST

/* Runs a step of two shards that have gradient 2^exponent, or -0.0, and half of a weight. */
static th_status step_with_weight(th_module *m, th_optimizer *sgd, double weight, int exponent)
{
    const double g[ELEMENTS] = {ldexp(1, exponent), -0.0};
    for (th_shard shard = th_optimizer_shards(sgd); th_shard_next(&shard); th_tape_clear(ctx)) {
        th_tensor *cotangent = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(ELEMENTS), g);
        ck_assert_int_eq(th_backward(th_module_find_parameter(m, "v"), &(th_backward_options){.cotangent = cotangent}),
                         TH_OK);
        th_tensor_free(cotangent);
        shard.weight = weight / 2;
    }
    return th_optimizer_step(sgd);
}

START_TEST(weights_may_be_small_and_large_but_not_tiny)
{
    th_module *m = vector_new();
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    th_tensor *v = th_module_find_parameter(m, "v");
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .max_norm = 1, .shards = 2});
    ck_assert_int_eq(step_with_weight(m, sgd, 0x1p-59, -59), TH_OK);
    ck_assert_double_eq(th_optimizer_gradient_norm(sgd), 2);
    ck_assert_double_eq(th_get(v, TH_INDEX(0)), -1);
    ck_assert_int_eq(step_with_weight(m, sgd, 0x1p-50, 1000), TH_OK);
    ck_assert_double_eq(th_optimizer_gradient_norm(sgd), DBL_MAX);
    ck_assert_double_eq(th_optimizer_loss(sgd), 0);
    ck_assert_double_eq_tol(th_get(v, TH_INDEX(0)), -2, 1e-9);
    ck_assert_int_eq(th_set(v, TH_INDEX(0), 0), TH_OK);
    ck_assert_int_eq(step_with_weight(m, sgd, 0x1p1000, 999), TH_OK);
    ck_assert_double_eq(th_get(v, TH_INDEX(0)), -1);
    static const double wrong[] = {0x1p-60, 0x1p-140, -1, 0, NAN, INFINITY};
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++)
        expect_status(step_with_weight(m, sgd, wrong[i], 0), TH_ERROR_VALUE, "the sum of the shards' weights is ");
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_double_eq(th_get(v, TH_INDEX(i)), i ? 0 : -1);
}
END_TEST

START_TEST(nothing_happens_behind_the_last_shard)
{
    th_module *m = vector_new();
    th_optimizer *sgd = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .shards = 2});
    th_shard shard = th_optimizer_shards(sgd);
    while (th_shard_next(&shard))
        set_gradient(m, shard.index);
    for (int i = 0; i < 1000; i++)
        ck_assert(!th_shard_next(&shard));
    ck_assert_int_eq(th_optimizer_step(sgd), TH_OK);
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_float_eq((float)th_get(th_module_find_parameter(m, "v"), TH_INDEX(i)), 0 - tree_sum(0, 2, 2, i) / 2);
}
END_TEST

/* -- several processes: a model of several blocks, with parameters that only some shards use -- */

enum { EXTRA = 40000, STEPS = 3 };

typedef struct {
    int shards, threads;
    th_dtype dtype;
    bool sgd, clip, frozen;
} training;

typedef struct {
    th_module base;
    th_module *decoder;
    th_tensor *extra, *rare;
} model;

static th_module *model_new(th_context *c, bool frozen)
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
    return &m->base;
}

/* Returns the loss of a shard, of random tokens. */
static th_tensor *loss_of(th_module *base, int shard)
{
    const model *m = (const model *)base;
    th_tensor *text = th_random_integers(base->ctx, TH_INT32, TH_SHAPE(2, 7), 0, 16);
    th_tensor *loss = th_language_model_loss(m->decoder, th_slice(text, 1, 0, 6, 1), th_slice(text, 1, 1, 7, 1), NULL);
    loss = th_add(loss, th_mean(th_mul(th_dropout(m->extra, 0.5), m->extra), TH_ALL_AXES, NULL));
    return shard == 5 ? th_add(loss, th_sum(th_exp(m->rare), TH_ALL_AXES, NULL)) : loss;
}

static th_optimizer *optimizer_new(th_module *m, const training *t, th_group *group)
{
    const double max_norm = t->clip ? 0.3 : 0;
    if (t->sgd)
        return th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1,
                                               .momentum = 0.9,
                                               .nesterov = true,
                                               .max_norm = max_norm,
                                               .shards = t->shards,
                                               .group = group});
    return th_adam_w_new(m, &(th_adam_options){.learning_rate = 1e-2,
                                               .weight_decay = 0.1,
                                               .amsgrad = t->clip,
                                               .max_norm = max_norm,
                                               .shards = t->shards,
                                               .group = group});
}

static th_status run_shards(th_optimizer *o, th_module *m)
{
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(m->ctx)) {
        th_step_begin(m->ctx);
        th_tensor *loss = loss_of(m, shard.index);
        shard.loss = th_item(loss);
        if (th_backward(loss, NULL))
            break;
    }
    return th_optimizer_step(o);
}

/* What a run ends with. */
typedef struct {
    uint32_t crc;
    double norm, loss;
} outcome;

typedef struct {
    training training;
    outcome *outcome; /* shared; [MAX_PROCESSES] */
} run;

static int train(const th_transport *transport, void *user)
{
    const run *r = user;
    th_context *c = th_context_new(
        &(th_context_options){.seed = 7, .threads = r->training.threads, .default_dtype = r->training.dtype});
    th_group *group = transport->size > 1 ? th_group_new(c, transport) : NULL;
    th_module *m = model_new(c, r->training.frozen);
    th_optimizer *o = optimizer_new(m, &r->training, group);
    size_t allocations = 0;
    for (int step = 0; step < STEPS; step++) {
        if (run_shards(o, m))
            fail_process("step %d: %s", step, th_error_message(c));
        if (step == 0)
            allocations = th_memory(c).allocations;
    }
    process_assert(th_memory(c).allocations == allocations);
    r->outcome[transport->rank] = (outcome){th_module_crc32c(m), th_optimizer_gradient_norm(o), th_optimizer_loss(o)};
    th_context_free(c);
    return 0;
}

static void expect_same_bits(training t)
{
    static const int counts[] = {2, 3, 4, 5, 8};
    run r = {t, shared_memory(MAX_PROCESSES * sizeof *r.outcome)};
    run_processes(1, train, &r);
    const outcome alone = r.outcome[0];
    for (int i = 0; i < (int)(sizeof counts / sizeof *counts) && counts[i] <= t.shards; i++) {
        run_processes(counts[i], train, &r);
        for (int rank = 0; rank < counts[i]; rank++) {
            ck_assert_uint_eq(r.outcome[rank].crc, alone.crc);
            ck_assert_double_eq(r.outcome[rank].norm, alone.norm);
            ck_assert_double_eq(r.outcome[rank].loss, alone.loss);
        }
    }
}

START_TEST(processes_share_a_step_with_the_same_bits)
{
    static const training trainings[] = {
        {.shards = 8, .threads = 1, .dtype = TH_FLOAT32},
        {.shards = 8, .threads = 2, .dtype = TH_FLOAT32, .clip = true},
        {.shards = 8, .threads = 1, .dtype = TH_FLOAT64, .sgd = true, .clip = true},
        {.shards = 11, .threads = 1, .dtype = TH_FLOAT32, .clip = true, .frozen = true},
        {.shards = 6, .threads = 1, .dtype = TH_FLOAT64},
    };
    expect_same_bits(trainings[_i]);
}
END_TEST

/* -- gradients whose squares overflow, and gradients that are not finite, in the parts of several processes -- */

/* The gradient of three parameters is `size`, with up to two other elements. */
typedef struct {
    double size;
    struct {
        int parameter; /* 0: none; 1 to 3 */
        int64_t element;
        double number;
    } other[2];
} extremes;

typedef struct {
    extremes of;
    struct {
        th_status status;
        char message[400];
        double norm, last; /* last: an element of the last parameter after the step */
    } * result;            /* shared; [MAX_PROCESSES] */
} extremes_run;

enum { FIRST = 20000, SECOND = 70000, THIRD = 7 };

static th_status step_of_extremes(const extremes *e, th_optimizer *o, th_module *m)
{
    static const int64_t sizes[] = {FIRST, SECOND, THIRD};
    static const char *const names[] = {"first", "second", "third"};
    static double number[SECOND];
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(m->ctx))
        for (int k = 0; k < 3; k++) {
            for (int64_t i = 0; i < sizes[k]; i++)
                number[i] = shard.index == 1 ? e->size : 0;
            for (int i = 0; i < 2 && shard.index == 1; i++)
                if (e->other[i].parameter == k + 1)
                    number[e->other[i].element] = e->other[i].number;
            th_tensor *g = th_from_data(m->ctx, TH_FLOAT64, TH_SHAPE(sizes[k]), number);
            process_assert(th_backward(th_module_find_parameter(m, names[k]), &(th_backward_options){.cotangent = g}) ==
                           TH_OK);
            th_tensor_free(g);
        }
    return th_optimizer_step(o);
}

static int step_with_extremes(const th_transport *transport, void *user)
{
    const extremes_run *r = user;
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .default_dtype = TH_FLOAT64});
    th_group *group = transport->size > 1 ? th_group_new(c, transport) : NULL;
    th_module *m = th_module_new(c, sizeof *m, "extremes", NULL);
    th_module_add_parameter(m, "first", TH_SHAPE(FIRST));
    th_module_add_parameter(m, "second", TH_SHAPE(SECOND));
    th_tensor *last = th_module_add_parameter(m, "third", TH_SHAPE(THIRD));
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .max_norm = 1, .shards = 5, .group = group});
    r->result[transport->rank].status = step_of_extremes(&r->of, o, m);
    snprintf(r->result[transport->rank].message, 400, "%s", th_error_message(c));
    th_error_clear(c);
    r->result[transport->rank].norm = th_optimizer_gradient_norm(o);
    r->result[transport->rank].last = th_get(last, TH_INDEX(THIRD - 1));
    th_context_free(c);
    return 0;
}

START_TEST(extreme_gradients_are_treated_as_by_one_process)
{
    static const extremes cases[] = {
        {1e200, {{0}}},
        {1e200, {{2, 69999, -3e250}}},
        {1e-200, {{1, 16384, 1e300}}},
        {1, {{2, 60000, INFINITY}}},
        {1, {{1, 3, -INFINITY}, {2, 69999, NAN}}},
        {1, {{3, 6, INFINITY}, {2, 20000, NAN}}},
        {1e200, {{2, 69999, NAN}, {2, 16384, INFINITY}}},
    };
    extremes_run alone = {cases[_i], shared_memory(MAX_PROCESSES * sizeof *alone.result)},
                 together = {cases[_i], shared_memory(MAX_PROCESSES * sizeof *alone.result)};
    run_processes(1, step_with_extremes, &alone);
    ck_assert_int_eq(alone.result[0].status, _i < 3 ? TH_OK : TH_ERROR_VALUE);
    for (int n = 2; n <= 5; n += _i == 0 ? 1 : 3) {
        run_processes(n, step_with_extremes, &together);
        for (int rank = 0; rank < n; rank++) {
            ck_assert_int_eq(together.result[rank].status, alone.result[0].status);
            ck_assert_str_eq(together.result[rank].message, alone.result[0].message);
            ck_assert_double_eq(together.result[rank].norm, alone.result[0].norm);
            ck_assert_double_eq(together.result[rank].last, alone.result[0].last);
        }
    }
}
END_TEST

int main(void)
{
    TCase *sums = new_suite("sums of shards", setup, close_context);
    tcase_add_test(sums, gradients_of_shards_are_summed_in_a_tree);
    tcase_add_test(sums, a_shard_that_does_not_use_a_parameter_adds_zeros);
    tcase_add_loop_test(sums, parameters_stay_frozen_or_trained_in_a_loop, 0, 2);
    tcase_add_loop_test(sums, a_gradient_emptied_after_the_loop_is_not_used, 1, 6);
    tcase_add_test(sums, a_loop_ends_only_if_its_own_parameters_are_cast_or_freed);
    tcase_add_test(sums, a_rejected_step_keeps_the_loss);
    tcase_add_test(sums, weights_may_be_small_and_large_but_not_tiny);
    tcase_add_test(sums, nothing_happens_behind_the_last_shard);
    TCase *processes = new_suite("shards of processes", NULL, NULL);
    tcase_add_loop_test(processes, processes_share_a_step_with_the_same_bits, 0, 5);
    tcase_add_loop_test(processes, extreme_gradients_are_treated_as_by_one_process, 0, 7);
    return run_suites();
}
