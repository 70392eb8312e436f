/* What modules tell the optimizers that use their parameters. */
#ifndef TH_NN_OPTIMIZER_H
#define TH_NN_OPTIMIZER_H

#include "tapehead/optimizer.h"
#include "tensor/parameter.h"

/* The parameter is about to be freed; the module with this name tree is. */
void th_optimizers_forget_parameter(th_context *ctx, const th_tensor_impl *parameter);
void th_optimizers_forget_module(th_context *ctx, const struct th_module *module);

/* Parameters with a successor (tensor/parameter.h) are about to move there: first room for their moments, the only part
 * that can fail; then either the moments follow, or that room is given back before the successors are. */
th_status th_optimizers_reserve(th_context *ctx);
void th_optimizers_move(th_context *ctx);
void th_optimizers_unreserve(th_context *ctx);

#endif
