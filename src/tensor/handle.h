/* The bits of a handle (tensor/handle.c). */
#ifndef TH_TENSOR_HANDLE_H
#define TH_TENSOR_HANDLE_H

#include <stdint.h>

/* From the top: the context's number, whether it is an owned tensor's, which one. Of the step's tensors, those that the
 * context has made are counted through; of an owned one it is how many tensors its body had been before, and which
 * body. */
enum {
    TH_HANDLE_CONTEXT_BITS = 22,
    TH_HANDLE_WHICH_BITS = 41,
    TH_HANDLE_IMPL_BITS = 24,
    /* A context's number begins with a 1: then no address of a program looks like a handle. */
    TH_HANDLE_FIRST_CONTEXT = 1 << (TH_HANDLE_CONTEXT_BITS - 1),
    TH_HANDLE_LAST_CONTEXT = (1 << TH_HANDLE_CONTEXT_BITS) - 1
};
_Static_assert(TH_HANDLE_CONTEXT_BITS + 1 + TH_HANDLE_WHICH_BITS == 64 && sizeof(uintptr_t) == 8,
               "handles have 64 bits");

#endif
