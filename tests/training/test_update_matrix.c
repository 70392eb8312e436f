/* Tests rules that update whole matrices, with a rule that only this test has: each row of a matrix moves by a gradient of norm
 * 1, with momentum. Parameters with another number of axes move by their gradient. */
#include <math.h>
#include <string.h>

#include "kernels/elementwise/optimizer_kernels.h"
#include "kernels/machine/parallel.h"
#include "processes.h"
#include "tapehead/tapehead.h"
#include "training/create.h"
#include "training/moments.h"

#include "context.h"

/* -- the rule -- */

typedef struct row_options {
    double momentum;
} row_options;

static const char *full_name(const void *options)
{
    (void)options;
    return "rows";
}

static int moment_count(const void *options)
{
    (void)options;
    return 1;
}

static double largest_moment(int i, th_dtype dtype)
{
    (void)i;
    (void)dtype;
    return 1e30;
}

static int save_options(const void *options, th_saved_option option[TH_MAX_RULE_OPTIONS])
{
    const row_options *o = options;
    option[0] = (th_saved_option){.name = "momentum", .value = o->momentum};
    return 1;
}

static bool keeps_zeros(const void *options)
{
    (void)options;
    return true;
}

static void update(const th_update *u, int64_t n, void *parameter, const void *gradient,
                   void *const moment[TH_MAX_MOMENTS])
{
    (void)moment;
    const th_sgd_update numbers = {.gradient_scale = u->gradient_scale, .learning_rate = u->learning_rate};
    u->kernels->sgd(n, parameter, gradient, NULL, &numbers);
}

/* `row` counts the rows of all matrices. */
static void measure_row(void *shared, int64_t row, int worker)
{
    (void)worker;
    const th_matrices *m = shared;
    const float *g = (const float *)m->matrix[row / m->rows].gradient + row % m->rows * m->columns;
    double sum = 0;
    for (int64_t i = 0; i < m->columns; i++)
        sum += (double)g[i] * (double)g[i];
    ((double *)m->scratch)[row] = sqrt(sum);
}

static void update_row(void *shared, int64_t row, int worker)
{
    (void)worker;
    const th_matrices *m = shared;
    const th_matrix *matrix = &m->matrix[row / m->rows];
    const row_options *o = matrix->update.options;
    const double norm = ((const double *)m->scratch)[row];
    const int64_t first = row % m->rows * m->columns;
    float *p = (float *)matrix->parameter + first, *b = (float *)matrix->moment[0] + first;
    const float *g = (const float *)matrix->gradient + first;
    for (int64_t i = 0; i < m->columns; i++) {
        b[i] = (float)(o->momentum * (double)b[i] + (double)g[i] / norm);
        p[i] -= (float)(matrix->update.learning_rate * (double)b[i]);
    }
}

static void update_matrices(const th_matrices *m)
{
    th_matrices shared = *m;
    th_parallel(m->threads, m->count * m->rows, measure_row, &shared);
    th_parallel(m->threads, m->count * m->rows, update_row, &shared);
}

static size_t scratch_bytes(const void *options, const th_matrices *m)
{
    (void)options;
    return (size_t)(m->count * m->rows) * sizeof(double);
}

static const th_update_rule rule = {
    .name = "rows",
    .options_size = sizeof(row_options),
    .full_name = full_name,
    .moment_count = moment_count,
    .moment_names = {"row_buffer"},
    .largest_moment = largest_moment,
    .save_options = save_options,
    .keeps_zeros = keeps_zeros,
    .update = update,
    .update_matrices = update_matrices,
    .matrix_moments = 1,
    .matrix_moment_names = {"row_buffer"},
    .scratch_bytes = scratch_bytes,
};

/* -- training -- */

enum { PARAMETERS = 4, STEPS = 3, SHARDS = 4, ROWS = 130, COLUMNS = 300, LARGEST = ROWS * COLUMNS };
static const double rate = 0.25, momentum = 0.5;

/* The matrix "large" has several chunks of the gradient norm, so that processes could cut it. */
static const char *const names[PARAMETERS] = {"bias", "large", "small", "cube"};
static const int64_t sizes[PARAMETERS] = {11, LARGEST, 120, 8};

static th_module *model_new(th_context *c)
{
    const th_shape shapes[PARAMETERS] = {TH_SHAPE(11), TH_SHAPE(ROWS, COLUMNS), TH_SHAPE(3, 40), TH_SHAPE(2, 2, 2)};
    th_module *m = th_module_new(c, sizeof *m, "model", NULL);
    for (int i = 0; i < PARAMETERS; i++)
        process_assert(th_fill(th_module_add_parameter(m, names[i], shapes[i]), 1) == TH_OK);
    return m;
}

/* The gradient of a shard. Sums of a few such numbers are exact in float32. */
static double gradient_at(int step, int shard, int64_t i)
{
    return (double)((i * 7 + shard * 3 + step) % 17) - 8.25;
}

static void run_shard(const th_module *m, int step, int shard)
{
    static float g[LARGEST];
    for (int i = 0; i < PARAMETERS; i++) {
        th_tensor *p = th_module_find_parameter((th_module *)m, names[i]);
        for (int64_t k = 0; k < sizes[i]; k++)
            g[k] = (float)gradient_at(step, shard, k);
        th_tensor *cotangent = th_from_data(m->ctx, TH_FLOAT32, th_shape_of(p), g);
        process_assert(th_backward(p, &(th_backward_options){.cotangent = cotangent}) == TH_OK);
        th_tensor_free(cotangent);
    }
}

typedef struct run {
    int threads;
    bool local;
    uint32_t *crc; /* shared; [MAX_PROCESSES] */
    float *values; /* shared; [PARAMETERS][LARGEST]: the parameters of rank 0 */
} run;

static int train(const th_transport *transport, void *user)
{
    const run *r = user;
    th_context *c = th_context_new(&(th_context_options){.seed = 1, .threads = r->threads});
    th_module *m = model_new(c);
    const th_parameter_group groups[] = {{.pattern = "large", .muon = TH_MUON_ALWAYS},
                                         {.pattern = "small", .muon = TH_MUON_ALWAYS}};
    const th_common_options common = {.learning_rate = rate,
                                      .element_rate_factor = 1,
                                      .groups = groups,
                                      .n_groups = 2,
                                      .shards = SHARDS,
                                      .group = transport->size > 1 ? th_group_new(c, transport) : NULL,
                                      .diloco = {.local_steps = r->local ? STEPS : 0}};
    process_assert(th_common_options_legal(m, rule.name, &common));
    th_optimizer *o = th_optimizer_new(m, &rule, &(row_options){momentum}, &common);
    for (int step = 0; step < STEPS; step++) {
        for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c))
            run_shard(m, step, shard.index);
        if (th_optimizer_step(o))
            fail_process("%s", th_error_message(c));
    }
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        const th_moment_part part = th_moment_part_of(p, 0);
        if (p->tensor->ndim == 2)
            process_assert(part.begin == part.end || part.end - part.begin == (size_t)sizes[i] * sizeof(float));
    }
    r->crc[transport->rank] = th_module_crc32c(m);
    for (int i = 0; i < PARAMETERS && transport->rank == 0; i++)
        process_assert(th_copy_out(th_module_find_parameter(m, names[i]), r->values + i * LARGEST,
                                   (size_t)sizes[i] * sizeof(float)) == TH_OK);
    th_context_free(c);
    return 0;
}

static run run_of(int threads, bool local)
{
    return (run){threads, local, shared_memory(MAX_PROCESSES * sizeof(uint32_t)),
                 shared_memory(PARAMETERS * LARGEST * sizeof(float))};
}

/* The mean gradient of a step. */
static double mean_gradient(int step, int64_t i)
{
    double sum = 0;
    for (int shard = 0; shard < SHARDS; shard++)
        sum += gradient_at(step, shard, i);
    return sum / SHARDS;
}

/* Returns what element i of a matrix with this many columns (0: no matrix) is after all steps. */
static double expected(int64_t i, int64_t columns)
{
    double value = 1, b = 0;
    for (int step = 0; step < STEPS; step++) {
        double sum = 0;
        for (int64_t k = 0; k < columns; k++)
            sum += pow(mean_gradient(step, i / columns * columns + k), 2);
        b = momentum * b + mean_gradient(step, i) / sqrt(sum);
        value -= rate * (columns ? b : mean_gradient(step, i));
    }
    return value;
}

START_TEST(matrices_are_updated_whole)
{
    static const int64_t columns[PARAMETERS] = {0, COLUMNS, 40, 0};
    run r = run_of(3, false);
    run_processes(1, train, &r);
    for (int p = 0; p < PARAMETERS; p++)
        for (int64_t i = 0; i < sizes[p]; i += 1 + sizes[p] / 500)
            ck_assert_double_eq_tol((double)r.values[p * LARGEST + i], expected(i, columns[p]), 1e-5);
}
END_TEST

START_TEST(threads_and_processes_give_the_same_bits)
{
    static const int counts[] = {1, 2, 3, 4};
    run r = run_of(1, false);
    run_processes(1, train, &r);
    const uint32_t alone = r.crc[0];
    r.threads = 2;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        run_processes(counts[i], train, &r);
        for (int rank = 0; rank < counts[i]; rank++)
            ck_assert_uint_eq(r.crc[rank], alone);
    }
}
END_TEST

START_TEST(workers_with_local_steps_update_all_matrices)
{
    run r = run_of(2, true);
    run_processes(2, train, &r);
    const uint32_t two = r.crc[0];
    ck_assert_uint_eq(r.crc[1], two);
    r.threads = 1;
    run_processes(2, train, &r);
    ck_assert_uint_eq(r.crc[0], two);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("updates of matrices", NULL, NULL);
    tcase_add_test(tests, matrices_are_updated_whole);
    tcase_add_test(tests, threads_and_processes_give_the_same_bits);
    tcase_add_test(tests, workers_with_local_steps_update_all_matrices);
    return run_suites();
}
