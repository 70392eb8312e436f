/* The threads of a context, and the description of what it runs on. */
#include "kernels/machine/team.h"
#include "tensor/context_struct.h"
#include "tensor/error.h"

#ifdef __clang__
#define TH_COMPILER __VERSION__ /* names clang itself */
#else
#define TH_COMPILER "gcc " __VERSION__
#endif

int th_threads(const th_context *ctx)
{
    return ctx ? ctx->threads : 0;
}

th_status th_set_threads(th_context *ctx, int threads)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (threads < 1 || threads > TH_MAX_THREADS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "set_threads", "threads must be 1 to %d, not %d", (int)TH_MAX_THREADS,
                       threads);
    ctx->threads = threads;
    return TH_OK;
}

int th_team_size(const th_context *ctx)
{
    return ctx ? th_team_threads(ctx->threads) : 0;
}

const char *th_version(void)
{
    return TAPEHEAD_VERSION; /* given by the build */
}

const char *th_build_info(th_context *ctx)
{
    if (ctx == NULL)
        return "";
    const int used =
        snprintf(ctx->build_info, sizeof ctx->build_info, "tapehead %s compiler=%s ", th_version(), TH_COMPILER);
    th_machine machine = ctx->machine;
    machine.threads = ctx->threads;
    if (used > 0 && (size_t)used < sizeof ctx->build_info)
        th_machine_describe(&machine, ctx->build_info + used, sizeof ctx->build_info - (size_t)used);
    return ctx->build_info;
}
