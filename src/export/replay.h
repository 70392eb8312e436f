/* Runs a recorded tape again in float64, from copies of its leaves, with the recorded attributes and random numbers.
 * Central differences (L(x + h) - L(x - h)) / 2h of that function are accurate to many digits, whatever the type of the
 * tape. The original tensors do not change. */
#ifndef TH_EXPORT_REPLAY_H
#define TH_EXPORT_REPLAY_H

#include "export/contribution.h"

typedef struct th_replay {
    th_listing *listing;
    const th_contributions *contributions;
    th_array *value;    /* [tensors] in float64 if the tensor is floating */
    bool *node_depends; /* [nodes] in th_replay_difference: the node depends on the tensor */
    int64_t *affected;  /* [tensors] in th_replay_difference: 1 if the tensor depends on the perturbed one */
    int64_t work_left;  /* units of work that are left, each about a nanosecond */
    bool valid;         /* the tape has run, and gave the recorded loss: no leaf was changed since */
    size_t bytes[3];
} th_replay;

/* Copies the leaves and runs all nodes, unless that alone exceeds the budget. work: the budget of all differences. It
 * is compared with sizes, never with time, so that a page does not depend on the machine. th_replay_end must follow,
 * also after an error. Errors: TH_ERROR_MEMORY. */
th_status th_replay_begin(th_replay *replay, th_listing *listing, const th_contributions *contributions, int64_t work);
void th_replay_end(th_replay *replay);

/* Computes dL/dx of every element of a tensor by central differences into *difference: float64, of the tensor's shape.
 * L is the tensor from which backward started, or the sum of its elements times the cotangent. Sets *computed to false
 * for a tensor without a gradient, for a view, and if the budget is used up. */
th_status th_replay_difference(th_replay *replay, int64_t tensor, th_array *difference, bool *computed);

#endif
