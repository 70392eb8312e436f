/* The bits of a handle. From the most significant bit: the number of the context, one bit that is set for an owned
 * tensor, and which tensor it is.
 *
 * Which step tensor: the number of step tensors that the context created before it.
 * Which owned tensor: how many tensors its implementation had before, and the index of the implementation. */
#ifndef TH_TENSOR_HANDLE_BITS_H
#define TH_TENSOR_HANDLE_BITS_H

#include <stdint.h>

enum {
    TH_HANDLE_CONTEXT_BITS = 22,
    TH_HANDLE_WHICH_BITS = 41,
    TH_HANDLE_IMPL_BITS = 24,
    /* A context's number begins with a 1 bit, so that no address of a program looks like a handle. */
    TH_HANDLE_FIRST_CONTEXT = 1 << (TH_HANDLE_CONTEXT_BITS - 1),
    TH_HANDLE_LAST_CONTEXT = (1 << TH_HANDLE_CONTEXT_BITS) - 1
};
_Static_assert(TH_HANDLE_CONTEXT_BITS + 1 + TH_HANDLE_WHICH_BITS == 64 && sizeof(uintptr_t) == 8,
               "handles have 64 bits");

#endif
