/* Copies and releases the only arrays of th_score_options: the factors of LongRoPE. */
#include "nn/score_options.h"

#include <string.h>

#include "autograd/tape.h"
#include "tensor/context.h"
#include "tensor/memory.h"

static size_t factor_bytes(const th_rotary_scaling *scaling)
{
    return 2 * (size_t)scaling->n_factors * sizeof(double);
}

static void clear_factors(th_rotary_scaling *scaling)
{
    scaling->short_factor = scaling->long_factor = NULL;
    scaling->n_factors = 0;
}

th_status th_score_options_own_arrays(th_context *ctx, th_score_options *options, const char *operation)
{
    th_rotary_scaling *scaling = &options->rotary_scaling;
    const bool has_factors =
        scaling->short_factor && scaling->long_factor && scaling->n_factors > 0 && scaling->n_factors <= INT32_MAX;
    if (!options->rotary || scaling->kind != TH_ROTARY_LONGROPE || !has_factors) {
        clear_factors(scaling);
        return TH_OK;
    }
    const size_t bytes = factor_bytes(scaling), bytes_each = bytes / 2;
    double *copy = th_allocate(ctx, bytes);
    if (copy == NULL) {
        clear_factors(scaling);
        return th_fail_memory(ctx, operation, bytes);
    }
    memcpy(copy, scaling->short_factor, bytes_each);
    memcpy(copy + scaling->n_factors, scaling->long_factor, bytes_each);
    scaling->short_factor = copy;
    scaling->long_factor = copy + scaling->n_factors;
    return TH_OK;
}

bool th_score_factors_copy_to_tape(th_context *ctx, th_rotary_scaling *scaling, const char *operation)
{
    if (scaling->n_factors == 0 || th_failed(ctx))
        return !th_failed(ctx);
    th_tape *tape = th_tape_of(ctx, operation);
    double *copy = tape ? th_bump_allocate(ctx, &tape->records, factor_bytes(scaling)) : NULL;
    if (copy == NULL) {
        th_fail_memory(ctx, operation, factor_bytes(scaling));
        return false;
    }
    memcpy(copy, scaling->short_factor, factor_bytes(scaling)); /* the long factors follow the short ones */
    scaling->short_factor = copy;
    scaling->long_factor = copy + scaling->n_factors;
    return true;
}

void th_score_options_release(th_context *ctx, th_score_options *options)
{
    th_rotary_scaling *scaling = &options->rotary_scaling;
    th_release(ctx, (void *)(uintptr_t)scaling->short_factor, factor_bytes(scaling));
    clear_factors(scaling);
}
