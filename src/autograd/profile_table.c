/* Stores the events of a profile: see profile_table.h. If memory runs out, events are dropped and training
 * continues. */
#include "autograd/profile_table.h"

#include <string.h>

/* A name, path, file or shape, stored once. */
typedef struct th_interned {
    struct th_interned *next; /* in the same bucket */
    size_t bytes;
    _Alignas(16) char content[];
} th_interned;

void th_profile_table_init(th_profile_table *table)
{
    memset(table, 0, sizeof *table);
    th_pool_init(&table->events, sizeof(th_profile_event));
    th_pool_init(&table->tallies, sizeof(th_profile_tally));
}

void th_profile_table_reset(th_profile_table *table, int64_t max_events)
{
    th_pool_reset(&table->events);
    th_pool_reset(&table->tallies);
    th_bump_reset(&table->content);
    memset(table->bucket, 0, sizeof table->bucket);
    table->max_events = max_events;
    table->dropped = 0;
    table->incomplete = false;
}

void th_profile_table_destroy(th_context *ctx, th_profile_table *table)
{
    th_pool_destroy(ctx, &table->events);
    th_pool_destroy(ctx, &table->tallies);
    th_bump_destroy(ctx, &table->content);
}

/* -- adding -- */

/* FNV-1a, over words instead of bytes because it runs for every call. */
static uint64_t hash_of(const char *content, size_t bytes)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    while (bytes > 0) {
        uint64_t word = 0;
        const size_t taken = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, content, taken);
        hash = (hash ^ word) * UINT64_C(1099511628211);
        content += taken;
        bytes -= taken;
    }
    return hash ^ hash >> 32 ^ hash >> 48;
}

/* Returns the table's copy of these bytes; NULL if memory runs out. */
static const void *intern(th_context *ctx, th_profile_table *table, const void *content, size_t bytes)
{
    th_interned **bucket = &table->bucket[hash_of(content, bytes) % TH_PROFILE_BUCKETS];
    for (const th_interned *known = *bucket; known; known = known->next)
        if (known->bytes == bytes && memcmp(known->content, content, bytes) == 0)
            return known->content;
    th_interned *added = th_bump_allocate(ctx, &table->content, sizeof *added + bytes);
    if (added == NULL)
        return NULL;
    added->next = *bucket;
    added->bytes = bytes;
    memcpy(added->content, content, bytes);
    *bucket = added;
    return added->content;
}

static const char *intern_text(th_context *ctx, th_profile_table *table, const char *text)
{
    return intern(ctx, table, text, strlen(text) + 1);
}

/* Returns the tally of an operation (an interned name) in a phase, a new one at first; NULL if memory runs out. */
static th_profile_tally *tally_of(th_context *ctx, th_profile_table *table, const char *operation,
                                  th_profile_phase phase)
{
    th_pool *tallies = &table->tallies;
    for (int64_t i = 0; i < tallies->count; i++) {
        th_profile_tally *known = th_pool_at(tallies, i);
        if (known->operation == operation && known->phase == phase)
            return known;
    }
    th_profile_tally *added = th_pool_new(ctx, tallies);
    if (added)
        *added = (th_profile_tally){.operation = operation, .phase = phase};
    return added;
}

/* Stores a copy of the event and of all that it points to. operation: its interned name. */
static void store_event(th_context *ctx, th_profile_table *table, const char *operation, const th_profile_event *event,
                        const th_profile_shape *shape)
{
    th_profile_event copy = *event;
    copy.operation = operation;
    copy.path = intern_text(ctx, table, event->path);
    copy.file = event->file ? intern_text(ctx, table, event->file) : NULL;
    copy.shape = event->n_shapes ? intern(ctx, table, shape, (size_t)event->n_shapes * sizeof *shape) : NULL;
    const bool complete = copy.path && (copy.file || !event->file) && (copy.shape || !event->n_shapes);
    th_profile_event *slot = complete ? th_pool_new(ctx, &table->events) : NULL;
    if (slot)
        *slot = copy;
    else
        table->dropped++;
}

void th_profile_table_add(th_context *ctx, th_profile_table *table, const th_profile_event *event,
                          const th_profile_shape *shape, int64_t bytes)
{
    const char *operation = intern_text(ctx, table, event->operation);
    th_profile_tally *tally = operation ? tally_of(ctx, table, operation, event->phase) : NULL;
    if (tally == NULL) {
        table->incomplete = true;
        table->dropped++;
        return;
    }
    tally->calls++;
    tally->nanoseconds += event->duration;
    tally->multiply_adds = th_add_work(tally->multiply_adds, event->multiply_adds);
    tally->bytes += bytes;
    if (table->events.count < table->max_events)
        store_event(ctx, table, operation, event, shape);
    else
        table->dropped++;
}

/* -- ranking -- */

/* Orders tallies by decreasing time, then by their first call. */
static bool precedes(const th_pool *tallies, int64_t i, int64_t j)
{
    const th_profile_tally *a = th_pool_at(tallies, i), *b = th_pool_at(tallies, j);
    return a->nanoseconds > b->nanoseconds || (a->nanoseconds == b->nanoseconds && i < j);
}

/* Counts the tallies that precede each one, because the table may still grow and is not sorted. */
const th_profile_tally *th_profile_tally_at_rank(const th_profile_table *table, int64_t rank)
{
    const th_pool *tallies = &table->tallies;
    for (int64_t i = 0; i < tallies->count; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < tallies->count; j++)
            before += precedes(tallies, j, i);
        if (before == rank)
            return th_pool_at(tallies, i);
    }
    return NULL;
}
