/* The check of one_pass.h. */
#include "export/one_pass.h"

#include <inttypes.h>

th_status th_one_pass(th_context *ctx, const char *operation)
{
    const th_tape_passes *passes = &ctx->tape->passes;
    if (passes->count > 1)
        return th_fail(ctx, TH_ERROR_STATE, operation,
                       "%" PRId64 " backward passes ran through this tape, but the gradients must be those of one",
                       passes->count);
    if (passes->added)
        return th_fail(ctx, TH_ERROR_STATE, operation,
                       "backward added to gradients that leaves had before it; empty them before (th_empty_gradient)");
    return TH_OK;
}
