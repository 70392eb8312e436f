/* Creates the inputs that a sample describes. */
#include "checker/samples.h"

#include <float.h>
#include <math.h>

#include "autograd/tape.h"
#include "tensor/splitmix.h"

enum { MAX_KINKS = sizeof((th_sample_input){.n_kinks = 0}.kinks) / sizeof(double) };

/* Uniform on [0, 1). Does not use the random numbers of the context. */
static double next_uniform(uint64_t *state)
{
    return (double)(th_splitmix64(state) >> 11) * 0x1p-53;
}

static bool near_kink(const th_sample_input *input, double x)
{
    const double clearance = input->clearance > 0 ? input->clearance : 0.05;
    for (int i = 0; i < input->n_kinks; i++)
        if (fabs(x - input->kinks[i]) < clearance)
            return true;
    return false;
}

static double real_value(const th_sample_input *input, uint64_t *state)
{
    const bool default_range = input->low == 0 && input->high == 0;
    const double low = default_range ? -1 : input->low, high = default_range ? 1 : input->high;
    double x = low;
    for (int tries = 0; tries < 1000; tries++) {
        x = low + (high - low) * next_uniform(state);
        if (!near_kink(input, x))
            break;
    }
    return x;
}

/* Values a fixed distance apart, in random order. */
static void distinct_values(const th_sample_input *input, uint64_t *state, double *values, int64_t numel)
{
    const bool default_range = input->low == 0 && input->high == 0;
    const double low = default_range ? -1 : input->low, high = default_range ? 1 : input->high;
    for (int64_t i = 0; i < numel; i++)
        values[i] = low + (high - low) * ((double)i + 0.5) / (double)numel;
    for (int64_t i = numel - 1; i > 0; i--) {
        const int64_t j = (int64_t)(next_uniform(state) * (double)(i + 1));
        const double swap = values[i];
        values[i] = values[j];
        values[j] = swap;
    }
}

static void fill_real(const th_sample_input *input, uint64_t *state, const th_tensor_impl *t)
{
    const int64_t numel = th_tensor_numel(t);
    double *values = th_tensor_data(t); /* float64; the caller converts it to float32 if necessary */
    if (input->kind == TH_SAMPLE_DISTINCT) {
        distinct_values(input, state, values, numel);
        return;
    }
    for (int64_t i = 0; i < numel; i++)
        values[i] = real_value(input, state);
}

/* Writes the values of a new tensor: float64, bool or int64. */
static void fill_sample(const th_sample_input *input, uint64_t *state, const th_tensor_impl *t)
{
    const int64_t numel = th_tensor_numel(t);
    if (th_tensor_data(t) == NULL) /* shapes only, or no elements */
        return;
    if (t->dtype == TH_FLOAT64) {
        fill_real(input, state, t);
    } else if (t->dtype == TH_BOOL) {
        const double probability = input->high > 0 ? input->high : 0.5;
        for (int64_t i = 0; i < numel; i++)
            ((bool *)th_tensor_data(t))[i] = next_uniform(state) < probability;
    } else {
        for (int64_t i = 0; i < numel; i++)
            ((int64_t *)th_tensor_data(t))[i] =
                (int64_t)floor(input->low + (input->high - input->low) * next_uniform(state));
    }
}

static th_tensor *sample_input(th_context *ctx, const th_sample_input *input, th_dtype dtype, uint64_t *state)
{
    const th_dtype initial_dtype = input->kind == TH_SAMPLE_INDEX  ? TH_INT64
                                   : input->kind == TH_SAMPLE_BOOL ? TH_BOOL
                                                                   : TH_FLOAT64;
    th_tensor *t = th_empty(ctx, initial_dtype, input->shape);
    if (t == NULL)
        return NULL;
    fill_sample(input, state, th_tensor_impl_of(t));
    const th_dtype final_dtype = input->storage ? input->storage : dtype;
    if (initial_dtype != TH_FLOAT64 || final_dtype == TH_FLOAT64)
        return t;
    th_shape shape = input->shape;
    if (input->storage && shape.ndim > 0)
        shape.size[shape.ndim - 1] /= th_dtype_numbers(input->storage);
    th_tensor *narrowed = th_empty(ctx, final_dtype, shape);
    if (narrowed && th_copy_into(narrowed, t) != TH_OK) {
        th_tensor_free(narrowed);
        narrowed = NULL;
    }
    th_tensor_free(t);
    return narrowed;
}

th_status th_check_sample(th_context *ctx, const char *operation, const th_sample *sample)
{
    if (sample->n_inputs < 0 || sample->n_inputs > TH_MAX_SAMPLE_INPUTS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a sample has %d inputs; it must have 0 to %d inputs",
                       sample->n_inputs, (int)TH_MAX_SAMPLE_INPUTS);
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_sample_input *input = th_sample_input_at(sample, i);
        const double largest = input->kind == TH_SAMPLE_INDEX ? 0x1p53 : DBL_MAX / 4;
        if ((int)input->kind < TH_SAMPLE_REAL || (int)input->kind > TH_SAMPLE_ABSENT)
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "input %d of a sample has the kind %d, which is not one of TH_SAMPLE_*", i,
                           (int)input->kind);
        if (!(fabs(input->low) <= largest && fabs(input->high) <= largest))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "input %d of a sample ranges from %g to %g; the absolute value of both must be at most %g",
                           i, input->low, input->high, largest);
        if (input->storage && (input->kind != TH_SAMPLE_REAL || !th_is_storage_type(input->storage)))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "input %d of a sample has the type %d; only a TH_SAMPLE_REAL has a storage type", i,
                           (int)input->storage);
        if (input->n_kinks < 0 || input->n_kinks > MAX_KINKS)
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "input %d of a sample has %d kinks; it must have 0 to %d",
                           i, input->n_kinks, (int)MAX_KINKS);
    }
    return TH_OK;
}

th_status th_sample_inputs(th_context *ctx, const th_sample *sample, th_dtype dtype, uint64_t seed, th_tensor **inputs)
{
    if (!th_usable_context(ctx, "sample_inputs"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (sample == NULL || !th_is_floating(dtype) || (inputs == NULL && sample->n_inputs > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "sample_inputs",
                       "sample and inputs must not be NULL, and dtype must be a floating type");
    if (th_check_sample(ctx, "sample_inputs", sample) != TH_OK)
        return ctx->error;
    uint64_t state = th_splitmix64_start(seed);
    for (int i = 0; i < sample->n_inputs; i++)
        inputs[i] = NULL;
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_sample_input *input = th_sample_input_at(sample, i);
        if (input->kind == TH_SAMPLE_ABSENT)
            continue;
        inputs[i] = sample_input(ctx, input, dtype, &state);
        if (inputs[i] == NULL)
            return ctx->error;
    }
    return TH_OK;
}
