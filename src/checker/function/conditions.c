/* Conditions other than one backward of one forward (function.h). They compare gradients with those of one backward, so
 * they need no difference quotients. Forward ran at the current point before each of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checker/engine/limits.h"
#include "checker/function/function.h"
#include "tensor/format.h"
#include "tensor/splitmix.h"

/* The gradients of one backward, and those under another condition. */
typedef struct condition_arrays {
    double *cotangent, *other, *outputs; /* [rows] */
    double *expected, *changed;          /* [columns] */
} condition_arrays;

/* Returns the input of a column, and writes the number of the element in it. */
static const th_variable *variable_at(const th_run *run, int64_t column, int64_t *element)
{
    int i = 0;
    while (!run->variable[i].checked || column >= run->variable[i].first_column + run->variable[i].numel)
        i++;
    *element = column - run->variable[i].first_column;
    return &run->variable[i];
}

/* Compares `changed` with the expected gradients times a factor. Elements that are not finite are left out. */
static bool compare_gradients(th_run *run, const condition_arrays *c, double factor, const char *condition,
                              const char *explanation)
{
    const double *noise = run->engine.gradient_noise;
    const double largest = th_largest_magnitude(c->expected, run->engine.columns);
    for (int64_t k = 0; k < run->engine.columns; k++) {
        const double expected = factor * c->expected[k], changed = c->changed[k],
                     slack = fabs(factor) * (th_limits.conditions[run->engine.gradient_kind] * largest +
                                             (noise ? 2 * TH_ROUNDING_SAFETY * noise[k] : 0));
        if (!isfinite(expected) || fabs(changed - expected) <= slack)
            continue;
        int64_t element;
        const th_variable *x = variable_at(run, k, &element);
        return th_run_note(run, "%s, element %lld of the gradient of %s is %.6g instead of %.6g: %s", condition,
                           (long long)element, x->name, changed, expected, explanation);
    }
    return true;
}

static bool gradients_under(th_run *run, const double *cotangent, double *gradient)
{
    th_run_set_cotangent(run, cotangent);
    if (!th_run_backward(run, TH_BUFFER_NAN))
        return false;
    th_run_gradients(run, gradient);
    return true;
}

/* -- linearity in the gradients of the outputs -- */

static bool compute_scaled(th_run *run, condition_arrays *c, double factor)
{
    for (int64_t j = 0; j < run->engine.rows; j++)
        c->other[j] = factor * c->cotangent[j];
    return gradients_under(run, c->other, c->changed);
}

static const char *const not_linear = "backward is not linear in the gradients of the outputs";

/* Returns a power of 2: a multiplication by it is exact. A rule may lose digits in proportion to the factor, as the
 * exponential of a matrix does. The loss must remain less than th_limits.conditions. */
static double large_factor(const th_run *run)
{
    static const double factors[TH_KINDS] = {0x1p20, 0x1p10, 16, 16};
    return factors[run->engine.gradient_kind];
}

static bool check_scales(th_run *run, condition_arrays *c)
{
    const double large = -large_factor(run), small = run->engine.gradient_kind >= TH_KIND_FLOAT16 ? 0x1p-6 : 0x1p-20;
    return compute_scaled(run, c, large) &&
           compare_gradients(run, c, large, "with large gradients of the outputs", not_linear) &&
           compute_scaled(run, c, small) &&
           compare_gradients(run, c, small, "with small gradients of the outputs", not_linear) &&
           compute_scaled(run, c, 0) &&
           compare_gradients(run, c, 0, "with gradients of the outputs that are 0", not_linear);
}

/* -- linearity in the tangents -- */

/* Compares <cotangent, jvp(tangent)> with <gradient, tangent>, for tangents that are not unit vectors. */
static bool check_tangents(th_run *run, condition_arrays *c)
{
    const double *noise = run->engine.gradient_noise, factors[] = {1, -large_factor(run), 1 / large_factor(run), 0};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        double expected = 0, slack = 0, sum = 0;
        for (int64_t k = 0; k < run->engine.columns; k++) {
            c->changed[k] = factors[f] * th_random_coefficient(&run->engine.random);
            expected += c->expected[k] * c->changed[k];
            slack += fabs(c->changed[k]) * (th_limits.conditions[run->engine.gradient_kind] * fabs(c->expected[k]) +
                                            (noise ? 2 * TH_ROUNDING_SAFETY * noise[k] : 0));
        }
        th_run_set_tangent(run, c->changed);
        if (!th_run_jvp(run, c->other))
            return false;
        for (int64_t j = 0; j < run->engine.rows; j++)
            sum += c->cotangent[j] * c->other[j];
        if (isfinite(expected) && !(fabs(sum - expected) <= slack))
            return th_run_note(run,
                               "along a tangent with elements up to %g, a sum of derivatives is %.6g instead of %.6g: "
                               "jvp is not linear in the tangents",
                               fabs(factors[f]), sum, expected);
    }
    return true;
}

/* -- a function that accumulates -- */

static bool check_accumulation(th_run *run, condition_arrays *c)
{
    if (!run->function->accumulates)
        return true;
    run->start_gradient = th_largest_magnitude(c->expected, run->engine.columns);
    const double start = run->start_gradient;
    const bool good = gradients_under(run, c->cotangent, c->changed);
    run->start_gradient = 0;
    for (int64_t k = 0; k < run->engine.columns && good; k++)
        c->changed[k] -= start;
    return good && compare_gradients(run, c, 1, "added to gradients that are not 0",
                                     "backward overwrites them, although th_function.accumulates is set");
}

/* -- another forward before backward -- */

/* Reverses the elements of each floating input, so that they stay in the input's domain. */
static bool reverse_inputs(th_run *run)
{
    bool changed = false;
    for (int i = 0; i < run->function->n_inputs; i++) {
        const th_buffer *b = &run->in[i].buffer;
        for (int64_t e = 0; run->variable[i].checked && e < b->numel / 2; e++) {
            const double first = th_buffer_read(b, e), last = th_buffer_read(b, b->numel - 1 - e);
            th_buffer_write(b, e, last);
            th_buffer_write(b, b->numel - 1 - e, first);
            changed |= first != last;
        }
    }
    return changed;
}

/* The function may refuse the reversed inputs: then there is no second call. */
static bool run_another_forward(th_run *run)
{
    if (th_run_forward(run, TH_BUFFER_NAN) || !run->failed || run->no_memory)
        return run->mistake[0] == '\0';
    run->failed = false;
    run->mistake[0] = '\0';
    return true;
}

static bool check_another_forward(th_run *run, condition_arrays *c)
{
    unsigned char *in = th_run_save_blocks(run, run->in), *out = th_run_save_blocks(run, run->out);
    bool good = in && out;
    if (good && reverse_inputs(run))
        good = run_another_forward(run);
    th_run_restore_blocks(run->in, in);
    free(in);
    th_run_restore_blocks(run->out, out);
    free(out);
    return good && gradients_under(run, c->cotangent, c->changed) &&
           compare_gradients(run, c, 1, "after another forward at other inputs",
                             "backward uses values of the last forward instead of its arguments");
}

/* -- repeated operands -- */

/* Returns whether both inputs have one type, shape and range. */
static bool may_share(const th_run *run, int a, int b)
{
    const th_port *x = &run->function->inputs[a], *y = &run->function->inputs[b];
    bool same = x->dtype == y->dtype && x->ndim == y->ndim && x->strided == y->strided && x->low == y->low &&
                x->high == y->high && !x->values && !y->values;
    for (int d = 0; d < x->ndim && same; d++)
        same = x->size[d] == y->size[d];
    return same && th_is_checked_type(x->dtype);
}

/* Compares the outputs and gradients of equal inputs in two buffers with those of one buffer. */
static bool check_shared(th_run *run, condition_arrays *c, int a, int b)
{
    char condition[160];
    const char *const names[] = {run->function->inputs[a].name, run->function->inputs[b].name};
    condition[0] = '\0';
    th_append(condition, sizeof condition, "with the same memory as %s and as %s", names[0], names[1]);
    unsigned char *saved = th_run_save_blocks(run, run->in);
    bool good = saved != NULL;
    if (good)
        memcpy(run->in[b].block, run->in[a].block, run->in[a].bytes);
    good = good && th_run_forward(run, TH_BUFFER_NAN) && gradients_under(run, c->cotangent, c->expected);
    if (good)
        th_run_read_outputs(run, run->out, c->outputs);
    run->shared[0] = a;
    run->shared[1] = b;
    good = good && th_run_forward(run, TH_BUFFER_NAN) && gradients_under(run, c->cotangent, c->changed);
    run->shared[1] = run->shared[0];
    if (good)
        th_run_read_outputs(run, run->out, c->other);
    const double slack =
        th_limits.conditions[run->engine.gradient_kind] * th_largest_magnitude(c->outputs, run->engine.rows);
    for (int64_t j = 0; j < run->engine.rows && good && !run->not_deterministic; j++)
        if (isfinite(c->outputs[j]) && !(fabs(c->other[j] - c->outputs[j]) <= slack))
            good = th_run_note(run, "%s, output %lld is %.6g instead of %.6g", condition, (long long)j, c->other[j],
                               c->outputs[j]);
    good = good && compare_gradients(run, c, 1, condition, "the function does not support repeated operands");
    th_run_restore_blocks(run->in, saved);
    free(saved);
    return good && th_run_forward(run, TH_BUFFER_NAN);
}

static bool check_repeated_operands(th_run *run, condition_arrays *c)
{
    int pairs = 0;
    for (int a = 0; a < run->function->n_inputs; a++)
        for (int b = a + 1; b < run->function->n_inputs && pairs < 4; b++)
            if (may_share(run, a, b)) {
                pairs++;
                if (!check_shared(run, c, a, b))
                    return false;
            }
    return true;
}

/* -- random functions -- */

/* Returns whether some other seed changes the outputs. */
static bool check_seeds(th_run *run, condition_arrays *c)
{
    if (run->function->set_seed == NULL)
        return true;
    const uint64_t seed = run->seed;
    th_run_read_outputs(run, run->out, c->outputs);
    bool differs = false, good = true;
    for (int s = 0; s < 4 && good && !differs; s++) {
        run->seed = th_mix64(seed + (uint64_t)s);
        good = th_run_forward(run, TH_BUFFER_NAN);
        th_run_read_outputs(run, run->out, c->other);
        differs = good && memcmp(c->outputs, c->other, (size_t)run->engine.rows * sizeof *c->other) != 0;
    }
    run->seed = seed;
    if (good && !differs)
        return th_run_note(run, "set_seed does not change the outputs: five seeds gave the same ones");
    return good && th_run_forward(run, TH_BUFFER_NAN);
}

bool th_run_check_conditions(th_run *run)
{
    const int64_t rows = run->engine.rows, columns = run->engine.columns;
    double *memory = th_run_allocate(run, 3 * rows + 2 * columns);
    if (memory == NULL)
        return false;
    condition_arrays c = {.cotangent = memory,
                          .other = memory + rows,
                          .outputs = memory + 2 * rows,
                          .expected = memory + 3 * rows,
                          .changed = memory + 3 * rows + columns};
    for (int64_t j = 0; j < rows; j++)
        c.cotangent[j] = th_random_coefficient(&run->engine.random);
    const bool good = th_run_forward(run, TH_BUFFER_NAN) && gradients_under(run, c.cotangent, c.expected) &&
                      (run->function->backward ? check_scales : check_tangents)(run, &c) &&
                      check_accumulation(run, &c) && check_another_forward(run, &c) && check_seeds(run, &c) &&
                      (run->options.only_this_point || check_repeated_operands(run, &c));
    free(memory);
    return good;
}
