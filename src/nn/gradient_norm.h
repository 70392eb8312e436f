/* The global norm of gradients: sqrt(sum g^2) over all parameters that have a gradient. */
#ifndef TH_NN_GRADIENT_NORM_H
#define TH_NN_GRADIENT_NORM_H

#include "nn/optimizer_state.h"
#include "tensor/gradient_buffer.h"
#include "tensor/tensor.h"

/* The gradients of an optimizer's parameters, or of a module's if optimizer is NULL. module also gives names for
 * messages; with an optimizer it may be NULL. */
typedef struct th_gradient_list {
    const th_optimizer *optimizer;
    const th_module *module;
} th_gradient_list;

static inline bool th_has_gradient(const th_tensor_impl *t)
{
    return t->requires_gradient && th_gradient_buffer_complete(t->gradient);
}

/* Sets *norm. If an element is not finite, returns TH_ERROR_VALUE with the name of the parameter. */
th_status th_global_norm(const th_gradient_list *list, const char *operation, double *norm);
/* Multiplies all gradients of the list by factor. */
void th_scale_gradients(const th_gradient_list *list, double factor);

#endif
