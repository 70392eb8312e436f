/* Multiply-adds in registers and triads on a team of threads, with the widest instructions that the processor has. */
#include "machine_limits.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "measure.h"
#include "probe_isa.h"

const char *const limit_names[LIMIT_COUNT] = {"baseline", "avx2", "avx512", "bfloat16"};
enum { TRIES = 5 };

static bool has(int which)
{
#ifdef __x86_64__
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    const bool bfloat16 = avx512 && __builtin_cpu_supports("avx512bf16");
#else
    const bool avx2 = false, avx512 = false, bfloat16 = false;
#endif
    return (bool[LIMIT_COUNT]){true, avx2, avx512, bfloat16}[which];
}

double fma_gflops(int which, int threads)
{
#ifdef __x86_64__
    fma_chains *const chains[LIMIT_COUNT] = {fma_chains_baseline, fma_chains_avx2, fma_chains_avx512,
                                             fma_chains_bfloat16};
#else
    fma_chains *const chains[LIMIT_COUNT] = {fma_chains_baseline};
#endif
    double best = 0;
    for (int i = 0; i < TRIES && has(which); i++) {
        double work = 0;
        const double start = now();
#pragma omp parallel num_threads(threads) reduction(+ : work)
        {
            float sink;
            work += chains[which](4000000, &sink);
        }
        best = fmax(best, work / (now() - start) * 1e-9);
    }
    return best;
}

static triad *widest_triad(void)
{
#ifdef __x86_64__
    return has(LIMIT_AVX512) ? triad_avx512 : has(LIMIT_AVX2) ? triad_avx2 : triad_baseline;
#else
    return triad_baseline;
#endif
}

double triad_gbs(int64_t n, int threads)
{
    triad *const run = widest_triad();
    const int64_t repeat = n < DRAM_FLOATS ? 4 * DRAM_FLOATS / n : 2;
    double best = 0;
    bool out_of_memory = false;
#pragma omp parallel num_threads(threads)
    {
        float *const a = aligned_alloc(64, 3 * (size_t)n * sizeof *a);
        if (a == NULL) {
#pragma omp atomic write
            out_of_memory = true;
        }
        for (int64_t i = 0; a && i < 3 * n; i++) /* each thread's pages are touched by it first */
            a[i] = 1;
        for (int i = 0; i < TRIES; i++) {
#pragma omp barrier
            const double start = now();
            for (int64_t r = 0; a && r < repeat; r++)
                run(n, a, a + n, a + 2 * n);
#pragma omp barrier
#pragma omp master
            best = fmax(best, 12.0 * (double)n * (double)repeat * threads / (now() - start) * 1e-9);
        }
        free(a);
    }
    return out_of_memory ? 0 : best;
}
