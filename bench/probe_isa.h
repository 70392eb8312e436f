/* The loops that measure peaks: one for each instruction set (probe_isa.c), and those for AVX512_BF16 and AMX. */
#ifndef BENCH_PROBE_ISA_H
#define BENCH_PROBE_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Runs independent multiply-adds in registers and returns the number of floating-point operations; stores a result in
 * *sink, so that the compiler keeps the loop. */
typedef double fma_loop(int64_t rounds, float *sink);
/* a = b + c / 2, all (n). */
typedef void triad(int64_t n, float *restrict a, const float *restrict b, const float *restrict c);

fma_loop fma_loop_baseline, fma_loop_avx2, fma_loop_avx512, fma_loop_neon;
triad triad_baseline, triad_avx2, triad_avx512, triad_neon;
/* Dot products of bfloat16 pairs (AVX512_BF16): two multiply-adds for each lane. */
fma_loop dpbf16_loop;

/* Tile products (AMX) with operands in registers, and with operands loaded from the first-level cache. Call them only
 * if the processor supports AMX and amx_permitted, which asks the kernel, has returned true. Not defined if the
 * compiler does not support AMX. */
fma_loop amx_loop_registers, amx_loop_l1;
bool amx_permitted(void);

#endif
