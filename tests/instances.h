/* The tables of kernels, one for each element type and instruction set, for tests that compare them. */
#ifndef TESTS_INSTANCES_H
#define TESTS_INSTANCES_H

#include <stdbool.h>

#include "kernels/kernels.h"

extern const th_kernels th_kernels_f32_baseline, th_kernels_f32_avx2, th_kernels_f32_avx512;
extern const th_kernels th_kernels_f64_baseline, th_kernels_f64_avx2, th_kernels_f64_avx512;

enum { BASELINE, AVX2, AVX512, ISAS };
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_baseline, &th_kernels_f32_avx2, &th_kernels_f32_avx512};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_baseline, &th_kernels_f64_avx2, &th_kernels_f64_avx512};

/* Whether this processor has the instruction set. */
static inline bool supported(int isa)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return isa == BASELINE || (isa == AVX2 ? avx2 : avx512);
}

#endif
