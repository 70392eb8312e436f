/* The mode of a context: training, recording, fusion, precision, default type. */
#include "tensor/mode.h"

#include "kernels/dtype.h"
#include "tensor/context_struct.h"
#include "tensor/error.h"

void th_set_training(th_context *ctx, bool training)
{
    if (ctx)
        ctx->training = training;
}

bool th_is_training(const th_context *ctx)
{
    return ctx && ctx->training;
}

void th_no_grad_begin(th_context *ctx)
{
    if (ctx)
        ctx->no_grad_depth++;
}

void th_no_grad_end(th_context *ctx)
{
    if (ctx && ctx->no_grad_depth > 0)
        ctx->no_grad_depth--;
}

bool th_is_recording(const th_context *ctx)
{
    return ctx && ctx->no_grad_depth == 0;
}

void th_set_fusion(th_context *ctx, bool fusion)
{
    if (ctx)
        ctx->fusion = fusion;
}

bool th_has_fusion(const th_context *ctx)
{
    return ctx && ctx->fusion;
}

th_status th_set_precision(th_context *ctx, th_precision precision)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (!th_machine_set_precision(&ctx->machine, precision))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "set_precision", "the precision must be " TH_PRECISIONS "; it is %d",
                       (int)precision);
    return TH_OK;
}

th_precision th_precision_of(const th_context *ctx)
{
    return ctx ? ctx->machine.precision : TH_PRECISION_FLOAT32;
}

void th_keep_values(th_context *ctx, bool keep)
{
    if (ctx)
        ctx->keep_values = keep;
}

th_status th_set_default_dtype(th_context *ctx, th_dtype dtype)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (!th_is_floating(dtype))
        return th_fail(ctx, TH_ERROR_TYPE, "set_default_dtype", "the default type must be float32 or float64, not %s",
                       th_dtype_name(dtype));
    ctx->default_dtype = dtype;
    return TH_OK;
}

th_dtype th_default_dtype(const th_context *ctx)
{
    return ctx ? ctx->default_dtype : TH_FLOAT32;
}

th_mode th_mode_evaluate(th_context *ctx)
{
    const th_mode previous = {ctx->training, ctx->no_grad_depth++};
    ctx->training = false;
    return previous;
}

void th_mode_restore(th_context *ctx, th_mode mode)
{
    ctx->training = mode.training;
    ctx->no_grad_depth = mode.no_grad_depth;
}

void th_set_stop(th_context *ctx, bool (*stop)(void *user), void *user)
{
    ctx->stop = stop;
    ctx->stop_user = user;
    ctx->stopped = false;
}

bool th_was_stopped(const th_context *ctx)
{
    return ctx->stopped;
}

bool th_poll_stop(th_context *ctx, const char *operation)
{
    if (!ctx->stop(ctx->stop_user))
        return false;
    ctx->stopped = true;
    th_fail(ctx, TH_ERROR_STATE, operation, "the program stopped this step");
    return true;
}

void th_recompute_blocks(th_context *ctx, bool recompute)
{
    ctx->recompute_blocks = recompute;
}

bool th_is_shapes_only(const th_context *ctx)
{
    return ctx->options.shapes_only;
}

void th_skip_initialization(th_context *ctx, bool skip)
{
    ctx->skip_initialization = skip;
}

void th_defer_matrix_memory(th_context *ctx, bool defer)
{
    ctx->defer_matrix_memory = defer;
}
