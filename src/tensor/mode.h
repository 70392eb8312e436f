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

/* Returns true in a context that was created with shapes_only. */
TH_PRIVATE_API bool th_is_shapes_only(const th_context *ctx);

/* Says whether the large weights of the modules that are created now will be read: then they are not initialized. */
TH_PRIVATE_API void th_weights_follow(th_context *ctx, bool follow);

/* Says whether the matrices of the modules that are created now have no memory until th_parameter_place or
 * th_parameter_lend gives it to them (tensor/parameter.h). */
TH_PRIVATE_API void th_matrices_absent(th_context *ctx, bool absent);

#endif
