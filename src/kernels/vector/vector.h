/* The element type, the vector type and the names of one instance of the vector kernels. Every file in a vector/ folder
 * includes it.
 *
 * Those files are compiled once for each element type and instruction set. All instances compute on TH_LANES virtual
 * lanes, one or more registers (`lanes`), so that sums are the same additions in the same order everywhere. The build
 * defines:
 *
 *     TH_REAL_BITS           32 or 64
 *     TH_VECTOR_BYTES        of a register: 16, 32 or 64
 *     TH_VECTOR_REGISTERS    of the processor: 16 or 32
 *     TH_FUSED               1 if the instruction set has fused multiply-add, otherwise 0
 *     TH_INSTANCE            such as f32_avx512 */
#ifndef TH_KERNELS_VECTOR_VECTOR_H
#define TH_KERNELS_VECTOR_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#if defined __clang__ && defined __powerpc64__ /* masks are vectors of integers here; clang warns that they will be */
#pragma clang diagnostic ignored "-Wdeprecated-altivec-src-compat"
#endif

#if TH_REAL_BITS == 32
typedef float real;
typedef int32_t real_int; /* an integer as wide as an element, for comparison masks and exponents */
#else
typedef double real;
typedef int64_t real_int;
#endif

enum {
    TH_LANES = 16,
    TH_REGISTER_LANES = TH_VECTOR_BYTES / (int)sizeof(real), /* elements in one register */
    TH_REGISTERS = TH_LANES / TH_REGISTER_LANES              /* registers that make TH_LANES lanes */
};

/* One register. Unaligned and may_alias: kernels read and write plain arrays through it. */
typedef real vec __attribute__((vector_size(TH_VECTOR_BYTES), aligned(TH_REAL_BITS / 8), may_alias));
typedef real_int vec_int __attribute__((vector_size(TH_VECTOR_BYTES), aligned(TH_REAL_BITS / 8), may_alias));

#define TH_INLINE static inline __attribute__((always_inline))

/* A loop with a constant number of iterations that must be unrolled, so that its array of vectors stays in
 * registers. LONG_UNROLLED_FOR: a loop whose body is too long for clang to unroll it completely. */
#ifdef __clang__
#define UNROLLED_FOR _Pragma("clang loop unroll(full)") for
#define LONG_UNROLLED_FOR for
#else
#define UNROLLED_FOR _Pragma("GCC unroll 16") for
#define LONG_UNROLLED_FOR UNROLLED_FOR
#endif

/* vec_shuffle(a, b, indices...): element i of the result is element indices[i] of a and b together. The result has as
 * many elements as a. (gcc has __builtin_shufflevector from version 12 on. The older function wants integers as wide as
 * the elements.) */
#if defined __GNUC__ && !defined __clang__ && __GNUC__ < 12
#define vec_shuffle(a, b, ...)                                                                                         \
    __builtin_shuffle(a, b, (__typeof__(_Generic((a), vec : (vec_int){0}, default : (a)))){__VA_ARGS__})
#else
#define vec_shuffle __builtin_shufflevector
#endif

#define TH_PASTE_(a, b) a##_##b
#define TH_PASTE(a, b) TH_PASTE_(a, b)
/* The name of `name` in this instance: th_exp_f32_avx2 for TH_KERNEL(exp). */
#define TH_KERNEL(name) TH_PASTE(th_##name, TH_INSTANCE)

/* Whether x is NaN or infinite. */
TH_INLINE bool non_finite(real x)
{
    return x - x != 0;
}

#define KERNEL(name, ...) void TH_KERNEL(name)(__VA_ARGS__);
#include "kernels.def"
#undef KERNEL

#endif
