/* How processes share a step. A step has the same order in all cases (step.c); this table has what differs. Its three rows are
 * in alone.c, together.c and local.c. */
#ifndef TH_TRAINING_SHARED_SHARING_H
#define TH_TRAINING_SHARED_SHARING_H

#include "training/optimizer.h"

typedef struct th_sharing {
    /* Allocates memory, before any process waits for another. */
    th_status (*reserve)(th_optimizer *o);
    /* Sums the gradients of all shards that the update uses. Fails if a gradient is not finite. Called even if an error is
     * pending, so that the other processes learn of it; it then returns the error. */
    th_status (*sum_gradients)(th_optimizer *o, th_step_sums *sums);
    /* Gives updated parameters to the other processes. */
    th_status (*distribute)(th_optimizer *o);
    /* Called when the step is complete, and counts. An error is an error of what follows it. */
    th_status (*after_step)(th_optimizer *o);
} th_sharing;

extern const th_sharing th_sharing_alone;    /* one process */
extern const th_sharing th_sharing_together; /* all processes compute each step together */
extern const th_sharing th_sharing_local;    /* each process takes local steps, then all take an outer step */

/* A function of the table that has nothing to do. */
th_status th_share_nothing(th_optimizer *o);
/* Sums the gradients of this process's shards. */
th_status th_sum_own_gradients(th_optimizer *o, th_step_sums *sums);

#endif
