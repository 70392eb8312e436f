/* Index operands of gather, embedding and one_hot: int32 or int64 of any layout, converted to contiguous int64. */
#ifndef TH_OPS_SHARED_INDICES_H
#define TH_OPS_SHARED_INDICES_H

#include "tapehead/op.h"

/* For shape rules: computes the sizes and letters of a result that has a row of `length` elements for each index of the
 * last input. Returns the result's number of dimensions, or 0 with an error if these are too many. */
int th_indices_shape(th_call *call, int64_t length, char letter, int64_t *size, char *letters);

/* Copies input `input` of the call to index[numel], row-major. */
void th_indices_read(const th_call *call, int input, int64_t *index);

/* The .plan of operations whose last input is their indices. Its plan_size is sizeof(size_t). */
void th_indices_plan(const th_call *call, bool backward, void *plan);
/* Reads these indices into the memory that th_indices_plan reserved. */
int64_t *th_indices_of(const th_call *call);

/* Checks that all indices, read before, are in [0, limit). Otherwise returns false with TH_ERROR_INDEX; the message
 * names the first bad index ("indices[1, 3] = 9 is outside [0, 5)"). Forward calls it before it writes anything. */
bool th_indices_check(const th_call *call, int input, const char *name, int64_t limit, const int64_t *index);

#endif
