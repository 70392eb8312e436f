/* What happens inside attention: scores, mask, weights and their gradients, for each head. */
#ifndef TH_EXPORT_ATTENTION_H
#define TH_EXPORT_ATTENTION_H

#include "export/contribution.h"

/* Arrays with the shape (N, T, S) of the scores, valid until th_listing_end. dweights and dscores exist only after
 * backward. */
typedef struct th_attention_inside {
    bool given; /* the node is attention, or the softmax of a composed attention */
    double scale;
    int64_t heads;
    th_array scores;   /* S, with soft cap and ALiBi; with the additive mask if the pair is visible */
    th_array mask;     /* bool: the visible pairs; not given: nothing is hidden */
    th_array weights;  /* A = softmax of the visible scores */
    th_array dropped;  /* P, the weights after dropout; not given: without dropout */
    th_array dweights; /* dA */
    th_array dscores;  /* dS */
} th_attention_inside;

/* Looks inside a node: scaled_dot_product_attention runs as its composition; masked_softmax, and a softmax between two
 * matrix products, have these arrays on the tape. Errors: TH_ERROR_MEMORY. */
th_status th_attention_look_inside(th_attention_inside *inside, th_listing *listing,
                                   const th_contributions *contributions, int64_t node);

#endif
