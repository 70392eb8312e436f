/* Saving, changing and restoring the mode in which operations run. */
#ifndef TH_TENSOR_MODE_H
#define TH_TENSOR_MODE_H

#include "private_api.h"
#include "tapehead/context.h"

/* A saved mode: training or evaluation, and the depth of th_no_grad_begin. */
typedef struct th_mode {
    bool training;
    int no_grad_depth;
} th_mode;

/* Switches the context to evaluation without recording. Returns the mode before, for th_mode_restore. */
TH_PRIVATE_API th_mode th_mode_evaluate(th_context *ctx);
/* Restores a saved mode. */
TH_PRIVATE_API void th_mode_restore(th_context *ctx, th_mode mode);

/* Calls stop(user) before each operation, forward or backward, until a call with NULL. If stop returns true, the
 * operation does not run, TH_ERROR_STATE is pending, and th_was_stopped returns true. stop must not use the context. */
TH_PRIVATE_API void th_set_stop(th_context *ctx, bool (*stop)(void *user), void *user);
/* Returns whether stop has returned true since the last th_set_stop. */
TH_PRIVATE_API bool th_was_stopped(const th_context *ctx);
/* Calls stop. Returns true with the error pending if the step must end. ctx->stop must not be NULL. */
bool th_poll_stop(th_context *ctx, const char *operation);

/* Sets whether transformer blocks recompute their values in backward, also those that were made without the option
 * recompute. */
TH_PRIVATE_API void th_recompute_blocks(th_context *ctx, bool recompute);

/* Returns true in a context that was created with shapes_only. */
TH_PRIVATE_API bool th_is_shapes_only(const th_context *ctx);

/* Sets whether modules are created without initializing their large weights, because these will be read. */
TH_PRIVATE_API void th_skip_initialization(th_context *ctx, bool skip);

/* Sets whether modules are created without memory for their matrices. th_parameter_allocate or th_parameter_lend
 * provides it later (tensor/parameter.h). */
TH_PRIVATE_API void th_defer_matrix_memory(th_context *ctx, bool defer);

#endif
