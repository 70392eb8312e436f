/* Holds what somebody wants to read against what a file of tensors has, before anything is read. */
#ifndef TH_IO_STORED_MATCH_H
#define TH_IO_STORED_MATCH_H

#include "tapehead/safetensors.h"

/* Of a tensor of the file that is not among those wanted: true when it may be there all the same. */
typedef bool th_passed_over(const char *name, void *user);

/* TH_OK if every tensor wanted is in the file, with its shape and of a type that can be read, and nothing else is that
 * is not passed over (NULL: nothing is). Otherwise one TH_ERROR_FILE, "<operation>: <place>: 2 tensors are missing: a,
 * b; 1 is unexpected: c; 1 has another shape: d is (2, 3) in the file, (3, 3) here": all of them, as far as a sentence
 * has room. wanted is sorted by name on the way. */
th_status th_stored_match(th_context *ctx, const char *operation, const char *place, const th_safetensors *file,
                          th_named_tensor *wanted, int64_t count, th_passed_over *passed_over, void *user);

#endif
