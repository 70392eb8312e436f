/* The parameters of an optimizer in the order of memory, and runs of adjacent ones. */
#ifndef TH_TRAINING_LAYOUT_H
#define TH_TRAINING_LAYOUT_H

#include "training/optimizer.h"

/* Brings o->layout up to date. */
void th_optimizer_sort(th_optimizer *o);

/* A run of parameters that are adjacent in a block: bytes begin to end - 1. */
typedef struct th_block_run {
    th_parameter_block *block;
    size_t begin, end;
} th_block_run;
/* Finds the next run of parameters of o whose gradients the loop sums, starting with o->layout[*at], which is then set
 * behind it. With `due`, only parameters that have a gradient in this step. Returns false at the end. */
bool th_next_run(const th_optimizer *o, bool due, int64_t *at, th_block_run *run);

#endif
