/* The outer step of DiLoCo (Douillard et al. 2023). It follows H local steps, in which every process updates all parameters
 * with its own gradients, and joins the parameters of all processes (tapehead/optimizer.h has the formula). It exchanges
 * differences of parameters as a usual step exchanges gradients: in their memory, and summed by their owners
 * (gradient_exchange.h). */
#ifndef TH_TRAINING_SHARED_OUTER_STEP_H
#define TH_TRAINING_SHARED_OUTER_STEP_H

#include "training/optimizer.h"

/* Saves the parameters from which the next outer step begins, unless a local step has changed them. Needs the moments. */
void th_outer_step_start(const th_optimizer *o);
/* Collective: takes the outer step. Errors: TH_ERROR_PROCESS; TH_ERROR_VALUE if a sum of differences is not finite: then
 * the parameters are again those that th_outer_step_start saved. */
th_status th_outer_step(th_optimizer *o);

#endif
