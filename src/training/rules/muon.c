/* Muon for whole matrices, and AdamW for all other parameters. tapehead/optimizer.h has the formulas, the options and their
 * ranges. kernels/products/orthogonalize.c computes the iteration, and kernels/elementwise/vector/optimizer.c computes
 * momentum and move. The rule adam_w updates the other parameters. */
#include <math.h>
#include <string.h>

#include "kernels/elementwise/optimizer_kernels.h"
#include "kernels/machine/parallel.h"
#include "kernels/products/orthogonalize.h"
#include "tensor/checked.h"
#include "training/chunks.h"
#include "training/create.h"
#include "training/rules/adam.h"

typedef struct muon_options {
    double momentum;
    bool nesterov;
    th_muon_adjustment adjustment;
    th_newton_schulz iteration;
    th_adam_rule_options adam_w; /* of the other parameters */
} muon_options;

static const char *full_name(const void *options)
{
    (void)options;
    return "muon";
}

static int moment_count(const void *options)
{
    (void)options;
    return 2;
}

/* The limits of AdamW. Those of the momentum are lower (kernels/elementwise/optimizer_kernels.h). */
static double largest_moment(int i, th_dtype dtype)
{
    return th_update_rule_adam_w.largest_moment(i, dtype);
}

static int save_options(const void *options, th_saved_option option[TH_MAX_RULE_OPTIONS])
{
    const muon_options *o = options;
    const double *first = o->iteration.coefficient[0];
    int n = 0;
    option[n++] = (th_saved_option){.name = "momentum", .value = o->momentum};
    option[n++] = (th_saved_option){.name = "nesterov", .value = o->nesterov};
    option[n++] = (th_saved_option){.name = "coefficient_a", .value = first[0]};
    option[n++] = (th_saved_option){.name = "coefficient_b", .value = first[1]};
    option[n++] = (th_saved_option){.name = "coefficient_c", .value = first[2]};
    option[n++] = (th_saved_option){.name = "polar_express", .value = o->iteration.normalizes_by_gram};
    option[n++] = (th_saved_option){.name = "newton_schulz_steps", .value = o->iteration.steps};
    option[n++] = (th_saved_option){.name = "newton_schulz_eps", .value = o->iteration.eps};
    option[n++] = (th_saved_option){.name = "adjustment", .value = o->adjustment};
    option[n++] = (th_saved_option){.name = "beta1", .value = o->adam_w.beta1};
    option[n++] = (th_saved_option){.name = "beta2", .value = o->adam_w.beta2};
    option[n++] = (th_saved_option){.name = "eps", .value = o->adam_w.eps};
    return n;
}

static bool keeps_zeros(const void *options)
{
    (void)options;
    return true;
}

/* -- AdamW -- */

static void update(const th_update *u, int64_t n, void *parameter, const void *gradient,
                   void *const moment[TH_MAX_MOMENTS])
{
    const muon_options *o = u->options;
    th_update adam_w = *u;
    adam_w.options = &o->adam_w;
    th_update_rule_adam_w.update(&adam_w, n, parameter, gradient, moment);
}

/* -- matrices -- */

static int64_t chunks_of_matrix(const th_matrices *m)
{
    return th_chunk_count(m->rows * m->columns);
}

/* Returns a chunk of all matrices, and its matrix in *matrix. */
static th_chunk chunk_at(const th_matrices *m, int64_t index, const th_matrix **matrix)
{
    const int64_t chunks = chunks_of_matrix(m);
    *matrix = &m->matrix[index / chunks];
    return th_chunk_at(m->rows * m->columns, th_dtype_size(m->dtype), index % chunks);
}

/* Replaces the gradient by the direction that will be made orthogonal. */
static void find_direction(void *shared, int64_t index, int worker)
{
    (void)worker;
    const th_matrix *matrix;
    const th_chunk c = chunk_at(shared, index, &matrix);
    const th_update *u = &matrix->update;
    const muon_options *o = u->options;
    const th_muon_update numbers = {
        .gradient_scale = u->gradient_scale, .momentum = o->momentum, .nesterov = o->nesterov};
    u->kernels->muon(c.count, (char *)matrix->gradient + c.at, (char *)matrix->moment[0] + c.at, &numbers);
}

static double adjustment(const muon_options *o, const th_matrices *m)
{
    const double rows = (double)m->rows, columns = (double)m->columns;
    return o->adjustment == TH_MUON_MATCH_RMS_ADAMW ? 0.2 * sqrt(fmax(rows, columns)) : sqrt(fmax(1, rows / columns));
}

/* SGD adds weight_decay theta to the gradient times its factor: the decay is AdamW's. */
static void move(void *shared, int64_t index, int worker)
{
    (void)worker;
    const th_matrices *m = shared;
    const th_matrix *matrix;
    const th_chunk c = chunk_at(m, index, &matrix);
    const th_update *u = &matrix->update;
    const th_sgd_update numbers = {.gradient_scale = adjustment(u->options, m),
                                   .weight_decay = u->weight_decay,
                                   .learning_rate = u->learning_rate};
    u->kernels->sgd(c.count, (char *)matrix->parameter + c.at, (char *)matrix->gradient + c.at, NULL, &numbers);
}

/* The scratch memory begins with the pointers to the matrices. */
static size_t bytes_of_pointers(const th_matrices *m)
{
    const size_t bytes = (size_t)m->count * sizeof(void *);
    return (bytes + 63) / 64 * 64;
}

static size_t scratch_bytes(const void *options, const th_matrices *m)
{
    (void)options;
    const size_t iteration = th_orthogonalize_scratch(m->machine, m->dtype, m->count, m->rows, m->columns, m->threads);
    return iteration > SIZE_MAX - bytes_of_pointers(m) ? SIZE_MAX : iteration + bytes_of_pointers(m);
}

static void update_matrices(const th_matrices *m)
{
    const int64_t chunks = m->count * chunks_of_matrix(m);
    const muon_options *o = m->matrix[0].update.options;
    void **direction = m->scratch;
    for (int64_t i = 0; i < m->count; i++)
        direction[i] = m->matrix[i].gradient;
    th_matrices shared = *m;
    th_parallel(m->threads, chunks, find_direction, &shared);
    th_orthogonalize(m->machine, m->dtype, &o->iteration, m->count, m->rows, m->columns, direction,
                     (char *)m->scratch + bytes_of_pointers(m), m->threads);
    th_parallel(m->threads, chunks, move, &shared);
}

const th_update_rule th_update_rule_muon = {
    .name = "muon",
    .options_size = sizeof(muon_options),
    .full_name = full_name,
    .moment_count = moment_count,
    .moment_names = {"exp_avg", "exp_avg_sq"},
    .largest_moment = largest_moment,
    .save_options = save_options,
    .keeps_zeros = keeps_zeros,
    .update = update,
    .update_matrices = update_matrices,
    .matrix_moments = 1,
    .matrix_moment_names = {"momentum_buffer"},
    .scratch_bytes = scratch_bytes,
};

/* -- options -- */

static bool has_coefficients(const th_muon_options *given)
{
    const double *c = given->coefficients;
    return c[0] != 0 || c[1] != 0 || c[2] != 0;
}

/* Returns the iteration. The options are in their ranges. */
static th_newton_schulz iteration_of(const th_muon_options *given)
{
    const bool polar = given->iteration == TH_MUON_POLAR_EXPRESS;
    const int steps = given->steps ? given->steps : polar ? 3 : 5;
    th_newton_schulz iteration = polar ? th_newton_schulz_polar_express(steps) : th_newton_schulz_jordan(steps);
    for (int step = 0; has_coefficients(given) && step < steps; step++)
        memcpy(iteration.coefficient[step], given->coefficients, sizeof given->coefficients);
    if (given->eps > 0)
        iteration.eps = given->eps;
    return iteration;
}

static muon_options complete(const th_muon_options *given)
{
    return (muon_options){
        .momentum = th_option_or(given->momentum, 0.95, given->no_momentum),
        .nesterov = !given->no_nesterov,
        .adjustment = given->adjustment,
        .iteration = iteration_of(given),
        .adam_w = {.beta1 = th_option_or(given->adam_beta1, 0.9, given->has_adam_betas && given->adam_beta1 == 0),
                   .beta2 = th_option_or(given->adam_beta2, 0.999, given->has_adam_betas && given->adam_beta2 == 0),
                   .eps = th_option_or(given->adam_eps, 1e-8, false),
                   .decoupled = true}};
}

static bool in_range(th_context *ctx, const char *option, double value, bool legal)
{
    return th_option_in_range(ctx, th_update_rule_muon.name, option, value, legal);
}

static bool not_negative(th_context *ctx, const char *option, double value)
{
    return in_range(ctx, option, value, value >= 0 && isfinite(value));
}

static bool below_1(th_context *ctx, const char *option, double value)
{
    return in_range(ctx, option, value, value >= 0 && value < 1);
}

/* Checks the options of the iteration. */
static bool iteration_is_legal(th_context *ctx, const th_muon_options *given)
{
    const bool polar = given->iteration == TH_MUON_POLAR_EXPRESS;
    bool legal =
        in_range(ctx, "iteration", given->iteration, polar || given->iteration == TH_MUON_JORDAN) &&
        in_range(ctx, "steps", given->steps, given->steps >= 0 && given->steps <= TH_MAX_NEWTON_SCHULZ_STEPS) &&
        not_negative(ctx, "eps", given->eps);
    for (int i = 0; legal && i < 3; i++)
        legal = in_range(ctx, "a coefficient", given->coefficients[i], isfinite(given->coefficients[i]));
    if (legal && polar && has_coefficients(given)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, th_update_rule_muon.name,
                "TH_MUON_POLAR_EXPRESS has its own coefficients: `coefficients` must be 0");
        return false;
    }
    return legal;
}

static bool is_legal(th_context *ctx, const th_muon_options *given)
{
    return below_1(ctx, "momentum", given->momentum) && iteration_is_legal(ctx, given) &&
           in_range(ctx, "adjustment", given->adjustment,
                    given->adjustment == TH_MUON_ORIGINAL || given->adjustment == TH_MUON_MATCH_RMS_ADAMW) &&
           not_negative(ctx, "adam_learning_rate", given->adam_learning_rate) &&
           below_1(ctx, "adam_beta1", given->adam_beta1) && below_1(ctx, "adam_beta2", given->adam_beta2) &&
           not_negative(ctx, "adam_eps", given->adam_eps) &&
           not_negative(ctx, "adam_weight_decay", given->adam_weight_decay);
}

th_optimizer *th_muon_new(th_module *m, const th_muon_options *options)
{
    const th_muon_options given = options ? *options : (th_muon_options){0};
    const double ratio = given.adam_learning_rate == 0 ? 1 : given.adam_learning_rate / given.learning_rate;
    const th_common_options common = {.learning_rate = given.learning_rate,
                                      .weight_decay = given.weight_decay,
                                      .max_norm = given.max_norm,
                                      .element_rate_factor = ratio,
                                      .element_weight_decay = given.adam_weight_decay,
                                      .groups = given.groups,
                                      .n_groups = given.n_groups,
                                      .shards = given.shards,
                                      .group = given.group,
                                      .diloco = given.diloco};
    const char *name = th_update_rule_muon.name;
    if (!th_common_options_legal(m, name, &common) || !is_legal(m->ctx, &given))
        return NULL;
    if (given.adam_learning_rate == 0 && given.adjustment == TH_MUON_ORIGINAL) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, name,
                "adam_learning_rate, the rate of the parameters that are not matrices, must be given: only with "
                "TH_MUON_MATCH_RMS_ADAMW can both rates be equal");
        return NULL;
    }
    const muon_options own = complete(&given);
    return th_optimizer_new(m, &th_update_rule_muon, &own, &common);
}
