/* What the machine can do at most, measured: multiply-adds and memory bandwidth. */
#ifndef BENCH_MACHINE_LIMITS_H
#define BENCH_MACHINE_LIMITS_H

#include <stdint.h>

/* What a peak can be asked for: multiply-adds of float32 in three instruction sets, of bfloat16 as dot products and as
 * tile products, those with operands in registers and loaded from the first-level cache. */
enum { LIMIT_BASELINE, LIMIT_AVX2, LIMIT_AVX512, LIMIT_DOTS, LIMIT_TILES, LIMIT_TILES_L1, LIMIT_COUNT };
extern const char *const limit_names[LIMIT_COUNT];

/* Multiply-add peak in GF/s with this many threads; 0 where processor, kernel or compiler lack it. */
double fma_gflops(int which, int threads);
/* Triad a = b + c / 2 over three arrays of n floats for each thread, in GB/s of the 12 bytes an element; 0 when memory
 * is out. */
double triad_gbs(int64_t n, int threads);

/* Floats of one array that three of them fit the second-level cache with, and that no cache holds. */
enum { L2_FLOATS = 1 << 15, DRAM_FLOATS = 1 << 25 };

#endif
