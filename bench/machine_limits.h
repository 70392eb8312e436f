/* Measures the limits of the machine: the peak of multiply-adds, the memory bandwidth, the round trip of a cache line. */
#ifndef BENCH_MACHINE_LIMITS_H
#define BENCH_MACHINE_LIMITS_H

#include <stdint.h>

/* The peaks: float32 multiply-adds in each instruction set (NEON on AArch64, the others on x86-64); bfloat16 dot products (AVX512_BF16); bfloat16 tile
 * products (AMX) with operands in registers, and with operands loaded from the first-level cache. */
enum { LIMIT_NEON, LIMIT_BASELINE, LIMIT_AVX2, LIMIT_AVX512, LIMIT_DPBF16, LIMIT_AMX, LIMIT_AMX_L1, LIMIT_COUNT };
extern const char *const limit_names[LIMIT_COUNT];

/* Returns a multiply-add peak in GF/s; 0 if the processor, kernel or compiler does not support it. */
double fma_gflops(int which, int threads);
/* Returns the bandwidth in GB/s of the triad a = b + c / 2, with three arrays of n floats for each thread. Counts 12
 * bytes for each element. Returns 0 if memory is exhausted. */
double triad_gbs(int64_t n, int threads);

/* Returns the seconds from a write on one processor until that processor sees another one's reply; 0 if this process may
 * use one processor only. */
double round_trip_seconds(void);

/* Floats in one array: three small arrays fit in the second-level cache, a large array fits in no cache. */
enum { L2_FLOATS = 1 << 15, DRAM_FLOATS = 1 << 25 };

#endif
