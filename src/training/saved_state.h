/* The state of an optimizer as checkpoints save it: the rule, options by name, and step counts of each parameter.
 * saved_tensors.h lists the moments. */
#ifndef TH_TRAINING_SAVED_STATE_H
#define TH_TRAINING_SAVED_STATE_H

#include "private_api.h"
#include "training/optimizer.h"

enum { TH_MAX_SAVED_OPTIONS = TH_MAX_RULE_OPTIONS + 5 };

/* Sets the name of the rule, when the options are complete. */
void th_optimizer_name_rule(th_optimizer *o);
/* Returns the name of the rule, with the options that decide which moments it has: "sgd", "adam_w amsgrad",
 * "adam of 4 workers" (with local steps), ... */
TH_PRIVATE_API const char *th_optimizer_rule_name(const th_optimizer *o);
/* Lists max_norm, the options of the rule, shards, and the options of local steps. The weight decay belongs to the groups,
 * so it is not among them. Returns their number. */
TH_PRIVATE_API int th_optimizer_saved_options(const th_optimizer *o, th_saved_option option[TH_MAX_SAVED_OPTIONS]);

/* Returns the index of a parameter in o; -1 if o does not have it. The search begins at *hint, which is then set behind
 * the parameter, so looking up all parameters in the module's order takes linear time. */
TH_PRIVATE_API int64_t th_optimizer_index(const th_optimizer *o, const th_tensor_impl *parameter, int64_t *hint);
/* Sets how often parameter p was updated (th_saved_updates). If it is 0, the moments become 0. */
TH_PRIVATE_API void th_optimizer_set_steps(th_optimizer *o, int64_t p, int64_t steps);
/* Ends an unfinished loop over shards, and forgets the local steps since the last outer step, because the state of another
 * step is loaded. */
TH_PRIVATE_API void th_optimizer_forget_loop(th_optimizer *o);
/* Returns whether a loop over shards has begun that no step has completed. */
TH_PRIVATE_API bool th_optimizer_in_loop(const th_optimizer *o);

#endif
