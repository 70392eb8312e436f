/* The bits of a handle. From the most significant bit: the number of the context, one bit that is set for an owned
 * tensor, and the number of the tensor.
 *
 * Number of a step tensor: how many step tensors the context created before it.
 * Number of an owned tensor: how many tensors its implementation had before, and the index of the implementation.
 *
 * With 64 bits no two tensors of a process get the same handle in practice. With 32 bits, as in WebAssembly, the
 * numbers are reused sooner. Then a stale handle is recognized
 *     if it is a step tensor's:  until its context has created 2^24 (16.7 million) more step tensors;
 *     if it is an owned one's:   always: a context has at most 2^14 (16384) owned tensors at once, and reuses the
 *                                implementation of each 2^10 times;
 *     if it is an object's (attachment.h):  until its context has created 2^25 more of them;
 *     if its context was freed:  until 64 more contexts have been created. At most 64 exist at once. */
#ifndef TH_TENSOR_HANDLE_BITS_H
#define TH_TENSOR_HANDLE_BITS_H

#include <stdint.h>

/* 64 or 32; a test compiles the handles of a 64-bit processor with 32. */
#ifndef TH_HANDLE_BITS
#if UINTPTR_MAX == UINT32_MAX
#define TH_HANDLE_BITS 32
#else
#define TH_HANDLE_BITS 64
#endif
#endif

enum {
#if TH_HANDLE_BITS == 64
    TH_HANDLE_CONTEXT_BITS = 22,
    TH_HANDLE_TENSOR_BITS = 41,
    TH_HANDLE_IMPL_BITS = 24,
#else
    TH_HANDLE_CONTEXT_BITS = 7,
    TH_HANDLE_TENSOR_BITS = 24,
    TH_HANDLE_IMPL_BITS = 14,
#endif
    /* A context's number begins with a 1 bit, so that no address of a program looks like a handle. (The memory of a
     * program in WebAssembly must be at most 2 GiB for that, which is emscripten's default.) */
    TH_HANDLE_FIRST_CONTEXT = 1 << (TH_HANDLE_CONTEXT_BITS - 1),
    TH_HANDLE_LAST_CONTEXT = (1 << TH_HANDLE_CONTEXT_BITS) - 1
};
_Static_assert(TH_HANDLE_CONTEXT_BITS + 1 + TH_HANDLE_TENSOR_BITS == TH_HANDLE_BITS &&
                   TH_HANDLE_BITS <= 8 * sizeof(uintptr_t),
               "a handle has TH_HANDLE_BITS bits");

#endif
