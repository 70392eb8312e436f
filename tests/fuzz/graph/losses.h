/* The options of cross entropies, which the lines "cross_entropy" and "dense_cross_entropy" share. */
#ifndef TESTS_FUZZ_GRAPH_LOSSES_H
#define TESTS_FUZZ_GRAPH_LOSSES_H

#include "program.h"

/* Chooses the options of the line, appends its targets as an operand and declares the loss. */
bool decode_loss(decoder *d, line *l, int targets, const char *name);
/* Returns the options that decode_loss has chosen. */
th_cross_entropy_options loss_options(const line *l);

#endif
