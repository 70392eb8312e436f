/* What the processes of a group agree on before the parameters change. */
#ifndef TH_TRAINING_SHARED_AGREEMENT_H
#define TH_TRAINING_SHARED_AGREEMENT_H

#include "training/optimizer.h"

/* Collective: the processes compare their errors, steps, shards, seeds, learning rates and layouts of the parameters.
 * Before the first step, and before the first one after parameters were read from a file, they also compare their
 * parameters. With local steps they always compare the parameters from which these began. */
th_status th_agree_on_step(th_optimizer *o);
/* Collective, after th_agree_on_step: the processes agree on which parameters are due: those that are due in any
 * process. In the others, their gradients become zero. */
th_status th_gather_due(th_optimizer *o);

#endif
