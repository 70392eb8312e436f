/* The parts of the probe that are compiled once for each instruction set (probe_isa.c), and those that only one has. */
#ifndef BENCH_PROBE_ISA_H
#define BENCH_PROBE_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Runs chains of multiply-adds in registers and returns the floating-point operations done; *sink gets a result. */
typedef double fma_chains(int64_t rounds, float *sink);
/* a = b + c / 2, all (n). */
typedef void triad(int64_t n, float *restrict a, const float *restrict b, const float *restrict c);

fma_chains fma_chains_baseline, fma_chains_avx2, fma_chains_avx512;
triad triad_baseline, triad_avx2, triad_avx512;
/* Dot products of bfloat16 pairs (AVX512_BF16): two multiply-adds a lane. */
fma_chains fma_chains_dots;

/* Tile products (AMX) with operands in registers, and loaded from the first-level cache; only on a processor that has
 * them, after tile_products_permitted, which asks the kernel once a process. Absent where the compiler has none. */
fma_chains tile_products_registers, tile_products_l1;
bool tile_products_permitted(void);

#endif
