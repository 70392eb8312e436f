/* Local steps and outer steps: DiLoCo (Douillard et al. 2023). Every process updates all parameters with its own
 * gradients. After H such steps, the outer step joins the parameters of all processes (tapehead/optimizer.h has the
 * formula). It exchanges differences of parameters as a usual step exchanges gradients: in their memory, and summed by
 * their owners (shared_step.h). */
#ifndef TH_TRAINING_SHARED_OUTER_STEP_H
#define TH_TRAINING_SHARED_OUTER_STEP_H

#include "training/optimizer.h"

/* Returns whether the optimizer takes local steps. */
static inline bool th_steps_are_local(const th_optimizer *o)
{
    return o->diloco.local_steps > 0;
}
/* Returns whether the outer step follows the current step. */
static inline bool th_outer_step_follows(const th_optimizer *o)
{
    return th_steps_are_local(o) && o->local_steps + 1 == o->diloco.local_steps;
}

/* Returns whether all local steps have been taken. */
static inline bool th_outer_step_is_due(const th_optimizer *o)
{
    return th_steps_are_local(o) && o->local_steps == o->diloco.local_steps;
}

/* Saves the parameters from which the next outer step begins, unless a local step has changed them. Needs the moments. */
void th_outer_step_start(const th_optimizer *o);
/* Collective: takes the outer step. Errors: TH_ERROR_PROCESS; TH_ERROR_VALUE if a sum of differences is not finite: then
 * the parameters are again those that th_outer_step_start saved. */
th_status th_outer_step(th_optimizer *o);
/* Begins again with no local step. */
void th_outer_step_forget(th_optimizer *o);

#endif
