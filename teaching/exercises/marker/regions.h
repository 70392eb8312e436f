/* The memory of a call: each array is copied to a region of memory that begins and ends far from its elements. The gaps
 * have a known number, so that the marker finds out whether an element of a gap was written. */
#ifndef TAPEHEAD_REGIONS_H
#define TAPEHEAD_REGIONS_H

#include "message.h"

/* An array of a call, and its region before and after the call. */
typedef struct region {
    message_array *m;
    const th_array *array;
    char *sent, *received;
    size_t bytes;
} region;

/* Runs the call on the regions that have data: reads `sent` and writes `received`. */
typedef void mark_exchange(const message_call *m, region *regions);

/* Runs a call by `exchange`, and copies the results to the arrays that the call may write. */
void call_on_regions(const th_call *c, bool backward, mark_exchange *exchange);

/* Returns the offsets of an array's elements from element [0, 0, ...]: the lowest, and the highest + 1. */
void extent_of(const th_array *a, int64_t *low, int64_t *high);

#endif
