/* What the machine can do at most, measured: multiply-adds in registers, and memory bandwidth. */
#ifndef BENCH_MACHINE_LIMITS_H
#define BENCH_MACHINE_LIMITS_H

#include <stdint.h>

/* The instruction sets that a peak can be asked for. */
enum { LIMIT_BASELINE, LIMIT_AVX2, LIMIT_AVX512, LIMIT_BFLOAT16, LIMIT_COUNT };
extern const char *const limit_names[LIMIT_COUNT];

/* Multiply-add peak in GF/s with this many threads; 0 where the processor lacks it. */
double fma_gflops(int which, int threads);
/* Triad a = b + c / 2 over three arrays of n floats for each thread, in GB/s of the 12 bytes an element; 0 when memory
 * is out. */
double triad_gbs(int64_t n, int threads);

/* Floats of one array that three of them fit the second-level cache with, and that no cache holds. */
enum { L2_FLOATS = 1 << 15, DRAM_FLOATS = 1 << 25 };

#endif
