/* The parts of the probe that are compiled once for each instruction set (probe_isa.c). */
#ifndef BENCH_PROBE_ISA_H
#define BENCH_PROBE_ISA_H

#include <stdint.h>

/* Runs chains of multiply-adds in registers and returns the floating-point operations done; *sink gets a result. */
typedef double fma_chains(int64_t rounds, float *sink);
/* a = b + c / 2, all (n). */
typedef void triad(int64_t n, float *restrict a, const float *restrict b, const float *restrict c);

fma_chains fma_chains_baseline, fma_chains_avx2, fma_chains_avx512;
triad triad_baseline, triad_avx2, triad_avx512;
/* bfloat16 dot products (AVX512_BF16): two multiply-adds a lane. Absent where the compiler has none. */
fma_chains fma_chains_bfloat16;

#endif
