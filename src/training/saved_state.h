/* The state of an optimizer as checkpoints save it: the rule, options by name, and step counts of each parameter.
 * saved_tensors.h lists the moments. */
#ifndef TH_TRAINING_SAVED_STATE_H
#define TH_TRAINING_SAVED_STATE_H

#include "private_api.h"
#include "training/optimizer.h"

enum { TH_MAX_SAVED_OPTIONS = 12 };

/* An option that affects the result of a step. */
typedef struct th_saved_option {
    const char *name;
    double value;         /* a bool is 0 or 1 */
    bool newer;           /* files of older versions do not have the option: they mean the default value, and */
    double default_value; /* a file with this value does not name the option, so that its bytes stay the same */
} th_saved_option;

/* Sets the name of the rule, when the options are complete. */
void th_optimizer_name_rule(th_optimizer *o);
/* Returns the name of the rule, with the options that decide which moments it has: "sgd", "adam_w amsgrad",
 * "adam of 4 workers" (with local steps), ... */
TH_PRIVATE_API const char *th_optimizer_rule_name(const th_optimizer *o);
/* Lists max_norm, the options of the rule, shards, and the options of local steps. Weight decay is not among them: it belongs to the groups. Returns
 * their number. */
TH_PRIVATE_API int th_optimizer_saved_options(const th_optimizer *o, th_saved_option option[TH_MAX_SAVED_OPTIONS]);
/* Returns PyTorch's name of moment i: "exp_avg", ... */
const char *th_optimizer_moment_name(const th_optimizer *o, int i);

/* Returns the index of a parameter in o; -1 if o does not have it. The search begins at *hint, which is then set behind
 * the parameter, so looking up all parameters in the module's order takes linear time. */
TH_PRIVATE_API int64_t th_optimizer_index(const th_optimizer *o, const th_tensor_impl *parameter, int64_t *hint);
/* Returns moment i of parameter p, in the shape of the parameter. data is NULL before the first step. If several processes
 * share the moments, data has only this process's part (th_moment_part_of). */
th_array th_optimizer_moment(const th_optimizer *o, int64_t p, int i);
/* Sets how often parameter p was updated (th_saved_updates). If it is 0, the moments become 0. */
TH_PRIVATE_API void th_optimizer_set_steps(th_optimizer *o, int64_t p, int64_t steps);
/* Ends an unfinished loop over shards, and forgets the local steps since the last outer step, because the state of another
 * step is loaded. */
TH_PRIVATE_API void th_optimizer_forget_loop(th_optimizer *o);
/* Returns whether a loop over shards has begun that no step has completed. */
TH_PRIVATE_API bool th_optimizer_in_loop(const th_optimizer *o);

#endif
