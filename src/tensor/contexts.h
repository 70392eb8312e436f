/* The live contexts of the process. No context is freed while a thread holds TH_LOCK_CONTEXTS
 * (kernels/machine/locks.h). A thread that uses a context which another thread may free must hold the lock. */
#ifndef TH_TENSOR_CONTEXTS_H
#define TH_TENSOR_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tapehead/base.h"

/* Registers ctx and gives it a number that no other live context has. Returns false when too many contexts live. */
bool th_contexts_add(th_context *ctx);
/* Unregisters ctx, before it is freed. */
void th_contexts_remove(th_context *ctx);
/* Returns the context with this number; NULL when it was freed. */
th_context *th_contexts_find(uint32_t number);

#endif
