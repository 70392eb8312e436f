/* The parameters that a rule updates as whole matrices (update_rule.h). By kind, these are the matrices of hidden layers:
 * the weights of dense layers and attention's projections, and the factors of adapters. The classifier of a whole
 * model is an exception. Embeddings, norms, biases and parameters of other modules are not matrices. A group of parameters can
 * decide otherwise.
 * The rows of a fused weight for query, key and value are three matrices. */
#ifndef TH_TRAINING_MATRICES_H
#define TH_TRAINING_MATRICES_H

#include "training/optimizer.h"

typedef struct th_matrix_work th_matrix_work;

/* Decides which parameters of o, all parameters of m, are matrices, and allocates o->matrices if the rule updates any.
 * groups [n_groups]. Errors: TH_ERROR_ARGUMENT if a group asks for what its rule or a parameter cannot do,
 * TH_ERROR_MEMORY. */
th_status th_matrices_init(th_optimizer *o, const th_module *m, const th_parameter_group *groups, int n_groups);
/* Frees o->matrices. */
void th_matrices_free(th_optimizer *o);

/* Allocates the memory that updates of all matrices with moments need. Errors: TH_ERROR_MEMORY. */
th_status th_matrices_reserve(th_optimizer *o);
/* Updates this process's matrices that are due, all of one shape together. */
void th_matrices_update(const th_optimizer *o, double gradient_scale);

#endif
