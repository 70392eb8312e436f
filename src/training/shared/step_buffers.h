/* The buffers for the messages of steps that several processes compute, and the owners of the chunks whose squares they
 * sum. */
#ifndef TH_TRAINING_SHARED_STEP_BUFFERS_H
#define TH_TRAINING_SHARED_STEP_BUFFERS_H

#include "training/shared/gradient_exchange.h"

typedef struct th_step_buffers {
    unsigned char *due; /* [processes][parameters] */
    size_t due_bytes;
    th_weighted_loss *losses; /* [shards] */
    /* A block of numbers of each process: the weights and losses of its shards, then the sums of its chunks. */
    double *block; /* [processes][block_numbers] */
    int64_t block_numbers;
    int64_t *filled; /* [processes]: how many sums are in each block */
    th_gradient_exchange *exchange;
} th_step_buffers;

/* Allocates o->buffers, unless there are any. Errors: TH_ERROR_MEMORY. */
th_status th_step_buffers_reserve(th_optimizer *o);
/* Frees them. The processes then compare their parameters again at the next step. */
void th_step_buffers_free(th_optimizer *o);

/* Returns the largest number of shards that a process has. */
int64_t th_most_shards(const th_optimizer *o);
/* Finds the owner of chunk `first` of a parameter's gradient. Returns the end of the chunks that follow it and have the
 * same owner. */
int64_t th_chunks_of_owner(const th_optimizer *o, const th_optimizer_parameter *p, int64_t first, int *owner);

#endif
