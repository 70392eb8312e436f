/* The global norm of gradients: sqrt(sum g^2) over all parameters that have a gradient. */
#ifndef TH_TRAINING_GRADIENT_NORM_H
#define TH_TRAINING_GRADIENT_NORM_H

#include "tensor/gradient_buffer.h"
#include "tensor/tensor.h"
#include "training/optimizer.h"

/* The gradients of an optimizer's parameters, or of a module's if optimizer is NULL. module also gives names for
 * messages; with an optimizer it may be NULL. */
typedef struct th_gradient_list {
    const th_optimizer *optimizer;
    const th_module *module;
} th_gradient_list;

/* -- one gradient, in chunks of TH_NORM_CHUNK elements. The functions handle chunks first to end - 1 -- */
int64_t th_norm_chunks(const th_tensor_impl *t);
/* Computes the sum of squares of each chunk, sums [end - first]. */
void th_sum_squares(const th_tensor_impl *t, int64_t first, int64_t end, double *sums);
/* The same in units of a number: of (|g| / unit)^2, for squares that would overflow. */
void th_sum_scaled_squares(const th_tensor_impl *t, int64_t first, int64_t end, double unit, double *sums);
/* The first element that is not finite; or element -1 and the largest absolute value. */
typedef struct th_gradient_extreme {
    int64_t element;
    double value;
} th_gradient_extreme;
th_gradient_extreme th_find_extreme(const th_tensor_impl *t, int64_t first, int64_t end);
/* Sets TH_ERROR_VALUE for that element of the gradient of t. m gives the name; it may be NULL. differences: the numbers
 * are the differences of an outer step (shared/outer_step.h). */
th_status th_fail_non_finite(const th_tensor_impl *t, const char *operation, const th_module *m, bool differences,
                             th_gradient_extreme found);

/* -- all gradients -- */
/* Sets *norm. If an element is not finite, returns TH_ERROR_VALUE with the name of the parameter. */
th_status th_global_norm(const th_gradient_list *list, const char *operation, double *norm);
/* Multiplies all gradients of the list by factor. */
void th_scale_gradients(const th_gradient_list *list, double factor);

#endif
