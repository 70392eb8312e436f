/* The composition that a fused operation equals (th_op.composed), run in another context. */
#ifndef TH_EXPORT_COMPOSITION_H
#define TH_EXPORT_COMPOSITION_H

#include "export/contribution.h"

/* A composition that has run, and the listing of the context in which it ran. */
typedef struct th_composition {
    th_context *caller, *ctx;
    th_listing listing;
    th_contributions contributions;
} th_composition;

/* Runs the composition of a node forward on copies of its inputs, with the node's random numbers. Then runs it backward
 * from `gradient`, unless that is NULL. th_composition_end must follow, also after an error. The listing's context
 * keeps the error. */
th_status th_composition_run(th_composition *composition, const th_listing *listing, int64_t node,
                             const th_array *gradient);
void th_composition_end(th_composition *composition);

/* Writes what a fused node equals, such as "add(matmul(x0, transpose(x1)), x2)", with inputs x0, x1, ...; "" if its
 * operation has no composition. */
th_status th_composition_text(const th_listing *listing, int64_t node, char *text, size_t size);

#endif
