/* Batches of examples: see tapehead/batches.h. */
#include "tapehead/batches.h"

#include <stdlib.h>

#include "models/core/context.h"
#include "models/data/permutation.h"

static bool sorts(const th_batches *b)
{
    return b->lengths && b->window > 0;
}

/* Returns the number of examples in an epoch; 0 if a member is out of range. */
static int64_t epoch_count(const th_batches *b)
{
    if (b->count < 1 || b->batch < 1 || b->epoch < 0 || b->epoch == INT64_MAX || b->window < 0 ||
        b->window > INT64_MAX / 64 / b->batch || (sorts(b) && b->index % b->batch != 0))
        return 0;
    const int64_t count = b->drop_last ? b->count - b->count % b->batch : b->count;
    return b->index >= 0 && b->index < count ? count : 0;
}

/* Returns the example in this place of the epoch, before any sorting. */
static int64_t example_at(const th_batches *b, const th_permutation *order, int64_t place)
{
    return b->shuffle ? (int64_t)th_permutation_at(order, (uint64_t)place) : place;
}

/* -- windows that are sorted by length -- */

typedef struct sized_example {
    int64_t length, place, row;
} sized_example;

static int compare_lengths(const void *a, const void *b)
{
    const sized_example *x = a, *y = b;
    return x->length != y->length ? (x->length > y->length) - (x->length < y->length)
                                  : (x->place > y->place) - (x->place < y->place);
}

/* Returns which of the window's batches comes as number `number`. Only batches of full size change places. */
static int64_t batch_of_window(const th_batches *b, int64_t window, int64_t full, int64_t number)
{
    if (!b->shuffle || number >= full)
        return number;
    const uint64_t salt = 0x9e3779b97f4a7c15u * (uint64_t)(window + 1);
    const th_permutation order = th_permutation_make(b->seed ^ salt, (uint64_t)b->epoch, (uint64_t)full);
    return (int64_t)th_permutation_at(&order, (uint64_t)number);
}

/* Writes the next `size` rows. Returns false if memory runs out. */
static bool take_from_window(const th_batches *b, const th_permutation *order, int64_t count, int64_t size,
                             int64_t *rows)
{
    const int64_t in_window = b->window * b->batch, window = b->index / in_window, begin = window * in_window;
    const int64_t n = th_smaller(in_window, count - begin);
    sized_example *examples = malloc((size_t)n * sizeof *examples);
    if (examples == NULL)
        return false;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = example_at(b, order, begin + i);
        examples[i] = (sized_example){b->lengths[row], i, row};
    }
    qsort(examples, (size_t)n, sizeof *examples, compare_lengths);
    const int64_t first = batch_of_window(b, window, n / b->batch, (b->index - begin) / b->batch) * b->batch;
    for (int64_t i = 0; i < size; i++)
        rows[i] = examples[first + i].row;
    free(examples);
    return true;
}

int64_t th_batches_next(th_batches *b, int64_t *rows)
{
    if (b == NULL || rows == NULL || epoch_count(b) == 0)
        return 0;
    th_batches next = *b;
    const int64_t count = epoch_count(b);
    const th_permutation order = th_permutation_make(next.seed, (uint64_t)next.epoch, (uint64_t)next.count);
    const int64_t size = th_smaller(next.batch, count - next.index);
    if (sorts(&next)) {
        if (!take_from_window(&next, &order, count, size, rows))
            return 0;
    } else {
        for (int64_t i = 0; i < size; i++)
            rows[i] = example_at(&next, &order, next.index + i);
    }
    next.index += size;
    if (next.index == count) {
        next.epoch++;
        next.index = 0;
    }
    *b = next;
    return size;
}
