/* Measures how exact and how repeatable a function is (function.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checker/function/function.h"
#include "tensor/splitmix.h"

/* -- unwritten elements and determinism -- */

/* The same results three times: with NaN, with a finite number, and again with NaN in the memory before the call. Three
 * more times, if only the number in the memory seems to matter: a function that is not deterministic may look like that. */
enum { TH_REPEATS = 3, TH_MORE_REPEATS = 6 };
static const int fill_of[2] = {TH_BUFFER_NAN, TH_BUFFER_FINITE};

/* Returns whether an element is the same in every second result. */
static bool repeats_agree(unsigned char *const *copy, int repeats, size_t at, size_t size)
{
    for (int r = 2; r < repeats; r++)
        if (memcmp(copy[r] + at, copy[r - 2] + at, size) != 0)
            return false;
    return true;
}

/* Compares the results of one buffer. Sets *more if more results are needed. */
static bool compare_repeats(th_run *run, const char *function, const th_function_memory *memory,
                            unsigned char *const *copy, int repeats, bool *more)
{
    const th_buffer *b = &memory->buffer;
    const size_t size = th_dtype_size(b->dtype), start = TH_BUFFER_WALL;
    const bool output = memory >= run->out && memory < run->out + TH_MAX_PORTS;
    const char *name =
        output ? run->function->outputs[memory - run->out].name : run->function->inputs[memory - run->din].name;
    const char *what = output ? "" : "the gradient of ";
    /* Two equal results of runs with different bytes before the call: every element was written. */
    if (th_buffer_is_plain(b) && memcmp(copy[0] + start, copy[1] + start, memory->inner) == 0 &&
        memcmp(copy[0] + start, copy[2] + start, memory->inner) == 0)
        return true;
    for (int64_t e = 0; e < b->numel; e++) {
        const size_t at = (size_t)((const unsigned char *)th_buffer_element(b, e) - memory->block);
        if ((output || !run->function->accumulates) && th_bytes_are(copy[0] + at, size, fill_of[0]) &&
            th_bytes_are(copy[1] + at, size, fill_of[1]))
            return th_run_note(run, "%s does not write element %lld of %s%s", function, (long long)e, what, name);
        if (!repeats_agree(copy, repeats, at, size))
            run->not_deterministic = true;
        else if (memcmp(copy[0] + at, copy[1] + at, size) != 0 && repeats == TH_REPEATS)
            *more = true;
        else if (memcmp(copy[0] + at, copy[1] + at, size) != 0)
            return th_run_note(
                run, "element %lld of %s%s depends on the values that the memory had before %s: it %s", (long long)e,
                what, name, function,
                output ? "reads its output before it writes it"
                       : "probably adds to the gradient instead of overwriting it (see th_function.accumulates)");
    }
    return true;
}

/* Runs forward or backward a few times, and compares the results. */
static bool repeat(th_run *run, bool backward)
{
    th_function_memory *results = backward ? run->din : run->out;
    const int count = backward ? run->function->n_inputs : run->function->n_outputs;
    unsigned char *copy[TH_MAX_PORTS][TH_MORE_REPEATS];
    memset(copy, 0, sizeof copy);
    bool good = true, more = true;
    for (int r = 0; r < TH_MORE_REPEATS && good && more; r++) {
        good = backward ? th_run_backward(run, fill_of[r % 2]) : th_run_forward(run, fill_of[r % 2]);
        for (int i = 0; i < count && good; i++) {
            if (results[i].block == NULL)
                continue;
            copy[i][r] = (unsigned char *)malloc(results[i].bytes);
            good = copy[i][r] != NULL || th_run_out_of_memory(run);
            if (copy[i][r])
                memcpy(copy[i][r], results[i].block, results[i].bytes);
        }
        if (r + 1 != TH_REPEATS && r + 1 != TH_MORE_REPEATS)
            continue;
        more = false;
        for (int i = 0; i < count && good; i++)
            if (copy[i][0])
                good = compare_repeats(run, backward ? "backward" : "forward", &results[i], copy[i], r + 1, &more);
    }
    for (int i = 0; i < count; i++)
        for (int r = 0; r < TH_MORE_REPEATS; r++)
            free(copy[i][r]);
    return good;
}

/* -- the noise of outputs -- */

/* Third differences of values at equally spaced points cancel the smooth part of a function. Their mean square is 20
 * times the variance of the noise (Hamming 1973; More and Wild 2011). */
enum { TH_NOISE_POINTS = 8 };

static void move_all(th_run *run, const double *start, const double *direction, double t)
{
    for (int i = 0; i < run->function->n_inputs; i++) {
        th_variable *x = &run->variable[i];
        if (x->checked)
            run->engine.calls->move(&run->engine, x, 0, x->numel, start + x->first_column, direction + x->first_column,
                                    t);
    }
}

/* Adds to the noise of each output what its values at points p - 3 to p show. Point p is in row p % 4 of values[4][rows]. */
static void add_third_difference(th_engine *engine, const double *values, int p)
{
    const int64_t rows = engine->rows;
    const double *y[4];
    for (int i = 0; i < 4; i++)
        y[i] = values + (p + 1 + i) % 4 * rows;
    for (int64_t j = 0; j < rows; j++) {
        const double noise = fabs(y[3][j] - 3 * y[2][j] + 3 * y[1][j] - y[0][j]) / sqrt(20);
        if (noise > engine->noise[j] && isfinite(noise))
            engine->noise[j] = noise;
    }
}

/* Writes the values of the checked inputs, and a direction: a random sign times a fraction of each. */
static void choose_direction(th_run *run, double fraction, double *start, double *direction)
{
    for (int i = 0; i < run->function->n_inputs; i++)
        for (int64_t e = 0; run->variable[i].checked && e < run->variable[i].numel; e++) {
            *start = run->engine.calls->element(&run->engine, &run->variable[i], e);
            const double size = fraction * fmax(fabs(*start++), 0.25);
            *direction++ = th_splitmix64(&run->engine.random) & 1 ? size : -size;
        }
}

/* Runs the function at points that differ by a fraction of the inputs. The first point is at `first` times this distance. */
static bool measure_noise(th_run *run, double fraction, int first)
{
    th_engine *engine = &run->engine;
    const int64_t rows = engine->rows;
    double *start = th_run_allocate(run, 2 * engine->columns), *values = th_run_allocate(run, 4 * rows);
    double *direction = start ? start + engine->columns : NULL;
    bool good = start && values;
    if (good)
        choose_direction(run, fraction, start, direction);
    for (int p = 0; p < TH_NOISE_POINTS && good; p++) {
        move_all(run, start, direction, p + first);
        good = engine->calls->compute_output(engine, values + p % 4 * rows);
        if (good && p >= 3)
            add_third_difference(engine, values, p);
    }
    if (start && values)
        move_all(run, start, direction, 0);
    free(start);
    free(values);
    return good;
}

bool th_run_measure_noise(th_engine *engine)
{
    th_run *run = (th_run *)engine;
    if (engine->noise == NULL)
        engine->noise = th_run_allocate(run, engine->rows);
    if (engine->noise == NULL || engine->kind == TH_KIND_FLOAT64)
        return engine->noise != NULL;
    if (!measure_noise(run, (engine->kind == TH_KIND_FLOAT32 ? 1024 : 8) * engine->epsilon, -TH_NOISE_POINTS / 2))
        return false;
    for (int64_t j = 0; j < engine->rows; j++)
        if (isfinite(engine->base[j]))
            engine->noise[j] = fmax(engine->noise[j], engine->epsilon / 2 * fabs(engine->base[j]));
    return true;
}

/* All points are on one side of the inputs, where a kink at the inputs is not noise. Noise of a few outputs may be kinks
 * or jumps elsewhere. */
bool th_run_has_float32_noise(th_run *run)
{
    th_engine *engine = &run->engine;
    int64_t coarse = 0, fine = 0;
    for (double fraction = 0x1p-22; fraction <= 0x1p-17 && coarse == 0; fraction *= 32) {
        if (!measure_noise(run, fraction, 1))
            return false;
        fine = 0;
        for (int64_t j = 0; j < engine->rows; j++) {
            const bool is_coarse = engine->base[j] != 0 && engine->noise[j] > 0x1p-28 * fabs(engine->base[j]);
            coarse += is_coarse;
            fine += engine->noise[j] > 0 && !is_coarse;
        }
    }
    return 4 * coarse > fine;
}

/* -- repeated runs of a function that is not deterministic -- */

enum { TH_NOISY_RUNS = 6, TH_NOISY_RUNS_OF_MANY = 2, TH_MANY_NUMBERS = 1000000 };

static int noisy_runs(const th_engine *engine)
{
    return engine->rows + engine->columns > TH_MANY_NUMBERS ? TH_NOISY_RUNS_OF_MANY : TH_NOISY_RUNS;
}

static bool measure_repeated_outputs(th_run *run)
{
    th_engine *engine = &run->engine;
    double *values = th_run_allocate(run, engine->rows);
    engine->noise = th_run_allocate(run, engine->rows);
    bool good = values && engine->noise;
    for (int r = 0; r < noisy_runs(engine) && good; r++) {
        good = engine->calls->compute_output(engine, values);
        for (int64_t j = 0; j < engine->rows && good; j++)
            if (isfinite(values[j]) && isfinite(engine->base[j]))
                engine->noise[j] = fmax(engine->noise[j], fabs(values[j] - engine->base[j]));
    }
    free(values);
    return good;
}

/* -- the noise of gradients -- */

/* Multiplies the elements by 1 plus or minus the unit. Small elements change by the unit of a tenth of the largest. */
static void perturb(const th_buffer *b, double unit, uint64_t *random)
{
    double largest = 0;
    for (int64_t e = 0; e < b->numel; e += 1 + b->numel / 1000)
        largest = fmax(largest, fabs(th_buffer_read(b, e)));
    for (int64_t e = 0; e < b->numel && isfinite(largest); e++) {
        const double value = th_buffer_read(b, e), shift = unit * fmax(fabs(value), largest / 10);
        th_buffer_write(b, e, value + (th_splitmix64(random) & 1 ? shift : -shift));
    }
}

/* Runs backward a few times at inputs and cotangents whose last places change, and keeps the largest changes. */
static bool measure_gradient_noise(th_run *run, const double *cotangent)
{
    th_engine *engine = &run->engine;
    const int64_t columns = engine->columns;
    const double unit = run->gradient_epsilon;
    double *first = th_run_allocate(run, columns), *again = th_run_allocate(run, columns);
    engine->gradient_noise = th_run_allocate(run, columns);
    unsigned char *inputs = th_run_save_blocks(run, run->in);
    bool good = first && again && engine->gradient_noise && inputs;
    if (good)
        th_run_gradients(run, first);
    for (int r = 0; r < noisy_runs(engine) && good; r++) {
        for (int i = 0; i < run->function->n_inputs && unit > 0; i++)
            if (run->variable[i].checked)
                perturb(&run->in[i].buffer, unit, &engine->random);
        th_run_set_cotangent(run, cotangent);
        for (int k = 0; k < run->function->n_outputs && unit > 0; k++)
            if (run->dout[k].block)
                perturb(&run->dout[k].buffer, unit, &engine->random);
        good = th_run_forward(run, TH_BUFFER_NAN) && th_run_backward(run, TH_BUFFER_NAN);
        if (good)
            th_run_gradients(run, again);
        for (int64_t c = 0; c < columns && good; c++)
            if (isfinite(again[c]) && isfinite(first[c]))
                engine->gradient_noise[c] = fmax(engine->gradient_noise[c], fabs(again[c] - first[c]));
        th_run_restore_blocks(run->in, inputs);
    }
    free(inputs);
    free(first);
    free(again);
    return good;
}

bool th_run_measure(th_run *run)
{
    th_engine *engine = &run->engine;
    double *cotangent = th_run_allocate(run, engine->rows);
    bool good = cotangent != NULL && repeat(run, false);
    for (int64_t j = 0; j < engine->rows && good; j++)
        cotangent[j] = th_random_coefficient(&engine->random);
    if (good) {
        th_run_set_cotangent(run, cotangent);
        good = (run->function->backward ? repeat(run, true) : th_run_backward(run, TH_BUFFER_NAN));
    }
    if (good && run->function->reference)
        good = th_run_reference(run);
    if (good) {
        th_run_outputs(run, engine->base);
        th_engine_set_base(engine);
    }
    if (good && run->not_deterministic)
        good = measure_repeated_outputs(run);
    if (good && (run->not_deterministic || run->gradient_epsilon > 0))
        good = measure_gradient_noise(run, cotangent);
    free(cotangent);
    return good;
}
