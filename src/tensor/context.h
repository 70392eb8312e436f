/* The whole context: includes its structure and the headers of its functions. */
#ifndef TH_TENSOR_CONTEXT_H
#define TH_TENSOR_CONTEXT_H

#include "tensor/attachment.h"
#include "tensor/context_struct.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/mode.h"
#include "tensor/random_state.h"

/* Returns the kernels for a floating type on the context's machine. */
static inline const th_kernels *th_context_kernels(const th_context *ctx, th_dtype dtype)
{
    return th_kernels_for(&ctx->machine, dtype);
}

#endif
