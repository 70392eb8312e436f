/* The options of cross entropies: see losses.h. */
#include "losses.h"

#include <stdio.h>

bool decode_loss(decoder *d, line *l, int targets, const char *name)
{
    l->n[0] = chance(d, 2);
    d->p->value[targets].ignored = l->n[0];
    add_operand(d, targets);
    l->x[0] = chance(d, 3) ? 0.25 : 0;
    l->x[1] = chance(d, 3) ? 7 : 0;
    snprintf(l->label, LABEL, "%s%s, smoothing %g, normalizer %g", name, l->n[0] ? ", ignore -100" : "", l->x[0],
             l->x[1]);
    value *loss = add_output(d, REAL, (shape){0});
    if (loss)
        loss->tracks = 0;
    return loss;
}

th_cross_entropy_options loss_options(const line *l)
{
    return (th_cross_entropy_options){
        .ignore = l->n[0], .ignore_index = l->n[0] ? -100 : 0, .label_smoothing = l->x[0], .normalizer = l->x[1]};
}
