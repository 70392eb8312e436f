/* An optimizer as a checkpoint sees it: its rule and numbers by name, and of each parameter what steps have left. */
#ifndef TH_NN_OPTIMIZER_SAVED_H
#define TH_NN_OPTIMIZER_SAVED_H

#include "nn/optimizer_state.h"
#include "private_api.h"

enum { TH_MAX_SAVED_OPTIONS = 8 };

/* An option that changes what a step computes. */
typedef struct th_saved_option {
    const char *name;
    double value; /* true is 1 */
} th_saved_option;

/* The rule with what decides on its moments: "sgd", "adam", "adam_w", "adam_w amsgrad", ... */
TH_PRIVATE_API const char *th_optimizer_rule_name(const th_optimizer *o);
/* Those of the rule and max_norm, without weight decay, which is the groups'; returns how many. */
TH_PRIVATE_API int th_optimizer_saved_options(const th_optimizer *o, th_saved_option option[TH_MAX_SAVED_OPTIONS]);
/* As PyTorch calls it: "exp_avg", ... */
TH_PRIVATE_API const char *th_optimizer_moment_name(const th_optimizer *o, int i);

/* The index of a parameter's, beginning the search at *hint, which moves behind it; -1: it has none. (Whoever asks in
 * the module's order finds each at once.) */
TH_PRIVATE_API int64_t th_optimizer_index(const th_optimizer *o, const th_tensor_impl *parameter, int64_t *hint);
/* Moment i of parameter p, as an array of its shape; without data before the first step. */
TH_PRIVATE_API th_array th_optimizer_moment(const th_optimizer *o, int64_t p, int i);
/* The parameter has taken so many steps; after none its moments are zeros. */
TH_PRIVATE_API void th_optimizer_set_steps(th_optimizer *o, int64_t p, int64_t steps);

#endif
