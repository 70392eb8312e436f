/* Index operands, int32 or int64 of any layout, as plain int64: what gather, embedding and one_hot start with. */
#ifndef TH_OPS_SHARED_INDICES_H
#define TH_OPS_SHARED_INDICES_H

#include "tapehead/op.h"

/* Of a shape rule: the sizes and letters of a result that has a row of `length` elements in place of each index of the
 * last input. Returns its number of dimensions; 0, with the error, when those are too many. */
int th_indices_shape(th_call *call, int64_t length, char letter, int64_t *size, char *letters);

/* Input `input` of the call, row-major, into index[numel]. */
void th_indices_read(const th_call *call, int input, int64_t *index);

/* The .plan (of sizeof(size_t) bytes) of operations whose last input is their indices, and those, read into the memory
 * that it has reserved. */
void th_indices_plan(const th_call *call, bool backward, void *plan);
int64_t *th_indices_of(const th_call *call);

/* Checks that all of them (just read) lie in [0, limit). If not: TH_ERROR_INDEX naming the first that does not, by
 * `name` and position ("indices[1, 3] = 9 is outside [0, 5)"), and false. Of a forward, before it writes anything. */
bool th_indices_check(const th_call *call, int input, const char *name, int64_t limit, const int64_t *index);

#endif
