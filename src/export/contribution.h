/* What each node adds to the gradients of its inputs. Backward accumulates these contributions in one buffer, so they
 * no longer exist after it. Here each node's backward runs again alone, from the kept gradients of its outputs. */
#ifndef TH_EXPORT_CONTRIBUTION_H
#define TH_EXPORT_CONTRIBUTION_H

#include "export/listing.h"

/* How backward combines a contribution with the gradient. */
typedef enum th_how {
    TH_HOW_NONE,      /* no gradient is wanted for this input, or no gradient reached the node */
    TH_HOW_WRITTEN,   /* the first contribution to these elements */
    TH_HOW_ADDED,     /* to what later nodes have contributed */
    TH_HOW_PASSED_ON, /* the output's gradient itself (th_op.identity_gradients), as the first contribution */
    TH_HOW_VIEW       /* the node is a view: its gradient is a part of the input's gradient */
} th_how;

typedef struct th_contribution {
    th_how how;
    uint32_t summed;   /* bits 1 << d of the axes of output 0 over which it was summed, because the input broadcasts */
    th_array gradient; /* of the input's shape and type */
} th_contribution;

typedef struct th_contributions {
    th_contribution *list; /* [listing->operands], one for each operand; the entries of outputs are unused */
    int64_t *order;        /* [listing->nodes] the place of a node in backward, from 0; -1: backward skipped it */
    int64_t *start; /* [listing->tensors] 1 if backward started at this tensor (th_backward's argument), else 0 */
    size_t bytes[3];
} th_contributions;

/* Computes all contributions, valid until th_listing_end. The contributions to a tensor and to its views sum up to its
 * gradient, in the order of backward. Exception: the gradient of a leaf that was not empty before backward. A pass
 * restricted by th_backward_options.wrt is not distinguished from a full one. th_contributions_end must follow, also
 * after an error. Errors: TH_ERROR_MEMORY; TH_ERROR_STATE if a saved value was changed since. */
th_status th_contributions_begin(th_contributions *all, th_listing *listing);
void th_contributions_end(th_contributions *all, const th_listing *listing);

/* Returns the contribution of a node to its input i. */
static inline const th_contribution *th_contribution_of(const th_contributions *all, const th_listing *listing,
                                                        int64_t node, int i)
{
    return &all->list[listing->first_operand[node] + i];
}

#endif
