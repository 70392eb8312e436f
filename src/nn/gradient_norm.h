/* The global norm of gradients: sqrt(sum g^2) over all parameters that have one. */
#ifndef TH_NN_GRADIENT_NORM_H
#define TH_NN_GRADIENT_NORM_H

#include "nn/optimizer_state.h"
#include "tensor/gradient_buffer.h"
#include "tensor/tensor.h"

/* Whose gradients: an optimizer's, or, where that is NULL, a module's. module gives the names too, and may be NULL
 * beside an optimizer. */
typedef struct th_gradient_list {
    const th_optimizer *optimizer;
    const th_module *module;
} th_gradient_list;

static inline bool th_has_gradient(const th_tensor_impl *t)
{
    return t->requires_gradient && th_gradient_buffer_complete(t->gradient);
}

/* TH_ERROR_VALUE, with the name of the parameter, when an element is not finite. */
th_status th_global_norm(const th_gradient_list *list, const char *operation, double *norm);
void th_scale_gradients(const th_gradient_list *list, double factor);

#endif
