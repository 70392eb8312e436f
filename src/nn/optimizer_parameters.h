/* Tells optimizers when parameters are freed, or move to memory of another type. */
#ifndef TH_NN_OPTIMIZER_PARAMETERS_H
#define TH_NN_OPTIMIZER_PARAMETERS_H

#include "tapehead/optimizer.h"
#include "tensor/parameter.h"

/* Removes a parameter from all optimizers. Called before the parameter is freed. */
void th_optimizers_forget_parameter(th_context *ctx, const th_tensor_impl *parameter);
/* Removes a module, which optimizers use for names. Called before the module is freed. */
void th_optimizers_forget_module(th_context *ctx, const th_module *module);

/* Allocates memory for the moments of all parameters that have a successor (tensor/parameter.h) of a floating type, which
 * they will move to. Only this part of the move can fail. */
th_status th_optimizers_reserve(th_context *ctx, const char *operation);
/* Moves the moments to the reserved memory, with conversion. */
void th_optimizers_move(th_context *ctx);
/* Frees the reserved memory instead. Called before the successors are freed. */
void th_optimizers_unreserve(th_context *ctx);

#endif
