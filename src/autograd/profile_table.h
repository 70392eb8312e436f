/* What a profile keeps: the first events, with copies of all that they point to, and sums of all by operation and
 * phase. It knows no clock. */
#ifndef TH_AUTOGRAD_PROFILE_TABLE_H
#define TH_AUTOGRAD_PROFILE_TABLE_H

#include "autograd/profile.h"
#include "tensor/checked.h"

enum { TH_PROFILE_BUCKETS = 256 };

/* All calls of one operation in one phase. */
typedef struct th_profile_tally {
    const char *operation;
    th_profile_phase phase;
    int64_t calls, nanoseconds, multiply_adds, bytes;
} th_profile_tally;

typedef struct th_profile_table {
    th_pool events, tallies;
    int64_t max_events, dropped;
    bool incomplete; /* a tally found no memory */
    th_bump content;
    struct th_interned *bucket[TH_PROFILE_BUCKETS];
} th_profile_table;

typedef struct th_profile {
    int64_t begin, end; /* of th_profile_now */
    int64_t overhead;   /* nanoseconds that recording took */
    th_profile_table table;
} th_profile;

void th_profile_table_init(th_profile_table *table);
void th_profile_table_reset(th_profile_table *table, int64_t max_events);
void th_profile_table_destroy(th_context *ctx, th_profile_table *table);
/* Counts an event, and keeps it if there is room; shape: [event->n_shapes], bytes: of its operands. */
void th_profile_table_add(th_context *ctx, th_profile_table *table, const th_profile_event *event,
                          const th_profile_shape *shape, int64_t bytes);
/* The tally that `rank` others precede, in the order of falling time; NULL when there are no more. */
const th_profile_tally *th_profile_table_ranked(const th_profile_table *table, int64_t rank);

/* Work beyond what can be counted, which shapes alone may have, stays at the largest number. */
static inline int64_t th_sum_of_work(int64_t a, int64_t b)
{
    int64_t sum;
    return th_checked_add(a, b, &sum) ? sum : INT64_MAX;
}

#endif
