/* Makes allocations, or creations of threads, fail on request, and counts them and the live blocks. */
#ifndef FAILURES_REFUSING_H
#define FAILURES_REFUSING_H

#include <stdbool.h>

/* The calls that are counted and refused. */
typedef enum refused_call { REFUSE_ALLOCATIONS, REFUSE_THREADS } refused_call;

/* From now on, refuses call `nth` of this kind, counted from 1, and all later ones too with forever. 0: none. */
void refuse(refused_call kind, long nth, bool forever);
/* Refuses nothing and counts nothing until the next refuse. */
void refuse_nothing(void);
/* Returns the number of calls since the last refuse. */
long calls_seen(void);

/* Returns the number of blocks and mappings that were allocated and not released. Always 0 under the sanitizers, which
 * report leaks themselves. */
long live_blocks(void);

#endif
