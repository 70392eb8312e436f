/* What modules tell the optimisers that use their parameters. */
#ifndef TH_NN_OPTIMIZER_H
#define TH_NN_OPTIMIZER_H

#include "tapehead/optimizer.h"
#include "tensor/parameter.h"

/* The parameter is about to be freed; the module with this name tree is. */
void th_optimizers_forget_parameter(th_context *ctx, const th_body *parameter);
void th_optimizers_forget_module(th_context *ctx, const struct th_module *module);

/* A parameter is about to move to another place and type: first room for its moments (the only part that can fail),
 * then the moments follow. */
th_status th_optimizers_reserve(th_context *ctx, const th_body *parameter, const th_parameter_entry *to);
void th_optimizers_move(th_context *ctx, const th_body *parameter, th_parameter_entry *to);

#endif
