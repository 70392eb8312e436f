/* Batches of examples: which examples are in the next batch, shuffled by a seed. The program has the examples, in arrays,
 * tensors or files, and takes those with these numbers.
 *
 *     th_batches batches = {.count = n, .batch = 16, .shuffle = true, .seed = 1};
 *     int64_t rows[16];
 *     while (batches.epoch < 3) {
 *         const int64_t size = th_batches_next(&batches, rows);
 *         ...                                              the examples rows[0] .. rows[size - 1]
 *     }
 *
 * The numbers are functions of the options and the position. A checkpoint saves the position, .epoch and .index, and a
 * program that sets both continues with the same batches. */
#ifndef TAPEHEAD_BATCHES_H
#define TAPEHEAD_BATCHES_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef struct th_batches {
    int64_t count;  /* of examples; at least 1 */
    int64_t batch;  /* examples in a batch; at least 1 */
    bool shuffle;   /* another order in each epoch; otherwise 0, 1, 2 ... */
    bool drop_last; /* an epoch ends before a batch that would be smaller than the others */
    uint64_t seed;
    /* Batches with examples of similar lengths need little padding. The examples of `window` batches, in their order, are
     * sorted by length. With shuffle the batches of a window come in a random order. NULL or 0: no sorting. */
    const int64_t *lengths; /* [count] */
    int64_t window;
    int64_t epoch, index; /* the position: the epoch, and how many of its examples have been returned. At the end of an
                             epoch the next one begins, with .index 0 */
} th_batches;

/* Writes the numbers of the next batch's examples to rows [batch], and moves on. Returns how many there are; less than
 * `batch` only at the end of an epoch. Returns 0 and changes nothing if a member is out of range, and if memory for sorting
 * a window runs out. With drop_last, `count` must be at least `batch`; with a window, .index must be a multiple of it. */
TH_API int64_t th_batches_next(th_batches *batches, int64_t *rows);

TH_END_DECLS

#endif
