/* The state of the processor's floating-point unit: rounding, denormal numbers, traps and flags. Sums of bfloat16 parts
 * are defined for one state (bfloat16/vector/part_kernels.h), and a user may have set another.
 *
 * Functions between two changes of the state must not be inlined. Otherwise the compiler could move arithmetic to where
 * the state is another one. */
#ifndef TH_KERNELS_VECTOR_FLOAT_STATE_H
#define TH_KERNELS_VECTOR_FLOAT_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined __x86_64__ || defined __i386__
#include <xmmintrin.h>

typedef uint32_t th_float_state; /* MXCSR */

/* No traps, no flags, rounding to nearest. With TH_FLOAT_FLUSH, denormal operands and results are 0. */
#define TH_FLOAT_USUAL ((th_float_state)0x1f80)
#define TH_FLOAT_FLUSH ((th_float_state)0x9fc0)

static inline th_float_state th_float_state_get(void)
{
    return _mm_getcsr();
}

static inline void th_float_state_set(th_float_state state)
{
    _mm_setcsr(state);
}

#elif defined __aarch64__

typedef uint64_t th_float_state; /* FPCR, and in the upper half FPSR, which has the flags */

#define TH_FLOAT_USUAL ((th_float_state)0)
#define TH_FLOAT_FLUSH ((th_float_state)1 << 24)

static inline th_float_state th_float_state_get(void)
{
    uint64_t control, flags;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(flags) : : "memory");
    return control | flags << 32;
}

static inline void th_float_state_set(th_float_state state)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(state & 0xffffffff), "r"(state >> 32) : "memory");
}

/* Returns whether a result has been denormal since the flags were last set. `results` points to what was computed. */
static inline bool th_float_underflowed(const void *results)
{
    uint64_t flags;
    __asm__ volatile("mrs %0, fpsr" : "=r"(flags) : "r"(results) : "memory");
    return flags >> 3 & 1;
}

#elif defined __riscv || defined __powerpc64__ /* neither has a state in which denormal numbers are 0 */

typedef uint64_t th_float_state; /* fcsr of RISC-V, FPSCR of POWER */

#define TH_FLOAT_USUAL ((th_float_state)0)
#define TH_FLOAT_FLUSH TH_FLOAT_USUAL

static inline th_float_state th_float_state_get(void)
{
    th_float_state state;
#ifdef __riscv
    __asm__ volatile("frcsr %0" : "=r"(state) : : "memory");
#else
    double bits;
    __asm__ volatile("mffs %0" : "=f"(bits) : : "memory");
    memcpy(&state, &bits, sizeof state);
#endif
    return state;
}

static inline void th_float_state_set(th_float_state state)
{
#ifdef __riscv
    __asm__ volatile("fscsr %0" : : "r"(state) : "memory");
#else
    double bits;
    memcpy(&bits, &state, sizeof bits);
    __asm__ volatile("mtfsf 255, %0" : : "f"(bits) : "memory");
#endif
}

#else /* WebAssembly: it rounds to nearest, has no traps and no flags, and keeps denormal numbers */

typedef uint32_t th_float_state;

#define TH_FLOAT_USUAL ((th_float_state)0)
#define TH_FLOAT_FLUSH ((th_float_state)0)

static inline th_float_state th_float_state_get(void)
{
    return TH_FLOAT_USUAL;
}

static inline void th_float_state_set(th_float_state state)
{
    (void)state;
}

#endif

#endif
