/* The data of a profile: the first events, with copies of everything that they point to. Also the sums of all events by
 * operation and phase. profile.c measures and adds events; profile_print.c reads the sums. */
#ifndef TH_AUTOGRAD_PROFILE_TABLE_H
#define TH_AUTOGRAD_PROFILE_TABLE_H

#include "tapehead/profile.h"
#include "tensor/checked.h"
#include "tensor/context.h"

/* The shape of one operand. Equal ones are stored once; they are compared by all bytes, including padding. */
typedef struct th_profile_shape {
    int64_t size[TH_MAX_DIMS];
    char axes[TH_MAX_DIMS + 1];
    bool given, output;
    uint8_t dtype, ndim;
} th_profile_shape;

/* One call. Everything that it points to belongs to the table, because the tape may have been cleared. */
typedef struct th_profile_event {
    const char *operation, *path, *file; /* path "" outside modules; file NULL if unknown */
    const th_profile_shape *shape;       /* [n_shapes]: inputs, then outputs */
    int n_shapes, line;
    th_profile_phase phase;
    int64_t start, duration; /* nanoseconds; start is relative to the profile's */
    int64_t multiply_adds;
} th_profile_event;

/* The sums of all calls of one operation in one phase. */
typedef struct th_profile_tally {
    const char *operation;
    th_profile_phase phase;
    int64_t calls, nanoseconds, multiply_adds, bytes;
} th_profile_tally;

enum { TH_PROFILE_BUCKETS = 256 };

typedef struct th_profile_table {
    th_pool events, tallies;
    int64_t max_events, dropped;
    bool incomplete; /* memory for a tally ran out */
    th_bump content; /* copies of names, paths, files and shapes, each stored once */
    struct th_interned *bucket[TH_PROFILE_BUCKETS];
} th_profile_table;

void th_profile_table_init(th_profile_table *table);
void th_profile_table_reset(th_profile_table *table, int64_t max_events);
void th_profile_table_destroy(th_context *ctx, th_profile_table *table);
/* Adds an event to its tally, and stores it if there is memory. shape: [event->n_shapes]; bytes: of its operands. */
void th_profile_table_add(th_context *ctx, th_profile_table *table, const th_profile_event *event,
                          const th_profile_shape *shape, int64_t bytes);
/* Returns the tally with this rank in the order of decreasing time; NULL if rank is too large. */
const th_profile_tally *th_profile_tally_at_rank(const th_profile_table *table, int64_t rank);

/* Adds two counts of work; an overflow, which a shapes-only context can cause, gives INT64_MAX. */
static inline int64_t th_add_work(int64_t a, int64_t b)
{
    int64_t sum;
    return th_checked_add(a, b, &sum) ? sum : INT64_MAX;
}

#endif
