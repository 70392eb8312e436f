/* Measures the peak of multiply-adds in each instruction set of the processor, the triad's bandwidth in the widest one,
 * and the round trip of a cache line, on a team of threads. */
#include "machine_limits.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "measure.h"
#include "probe_isa.h"

const char *const limit_names[LIMIT_COUNT] = {"neon", "baseline", "avx2", "avx512", "dpbf16", "amx", "amx_l1"};
enum { TRIES = 5, ROUNDS = 4000000 };

#ifdef BENCH_AMX
/* Asks the kernel for permission, which holds for all threads of the process. */
static bool has_amx(void)
{
    enum { LEAF = 7, BFLOAT16_BIT = 22, TILE_BIT = 24 };
    unsigned a, b, c, d;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && d >> BFLOAT16_BIT & 1 && d >> TILE_BIT & 1 && amx_permitted();
}
#endif

/* Returns the loop for this instruction set, or NULL if the processor, kernel or compiler does not support it. */
static fma_loop *loop_for(int which)
{
#ifdef __x86_64__
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    switch (which) {
    case LIMIT_AVX2:
        return avx2 ? fma_loop_avx2 : NULL;
    case LIMIT_AVX512:
        return avx512 ? fma_loop_avx512 : NULL;
    case LIMIT_DPBF16:
        return avx512 && __builtin_cpu_supports("avx512bf16") ? dpbf16_loop : NULL;
#ifdef BENCH_AMX
    case LIMIT_AMX:
        return has_amx() ? amx_loop_registers : NULL;
    case LIMIT_AMX_L1:
        return has_amx() ? amx_loop_l1 : NULL;
#endif
    case LIMIT_BASELINE:
        return fma_loop_baseline;
    default:
        return NULL;
    }
#else
    return which == LIMIT_NEON ? fma_loop_neon : NULL;
#endif
}

double fma_gflops(int which, int threads)
{
    fma_loop *const loop = loop_for(which);
    const int64_t rounds = which < LIMIT_AMX ? ROUNDS : ROUNDS / 16; /* a tile product takes 16 cycles */
    double best = 0;
    for (int i = 0; i < TRIES && loop; i++) {
        double work = 0;
        const double start = now();
#pragma omp parallel num_threads(threads) reduction(+ : work)
        {
            float sink;
            work += loop(rounds, &sink);
        }
        best = fmax(best, work / (now() - start) * 1e-9);
    }
    return best;
}

static triad *widest_triad(void)
{
#ifdef __x86_64__
    return loop_for(LIMIT_AVX512) ? triad_avx512 : loop_for(LIMIT_AVX2) ? triad_avx2 : triad_baseline;
#else
    return triad_neon;
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
        for (int64_t i = 0; a && i < 3 * n; i++) /* each thread writes first to its own pages */
            a[i] = 1;
        for (int i = 0; i < TRIES; i++) {
#pragma omp barrier
            const double start = now();
            for (int64_t r = 0; a && r < repeat; r++)
                run(n, a, a + n, a + 2 * n);
#pragma omp barrier
            if (omp_get_thread_num() == 0)
                best = fmax(best, 12.0 * (double)n * (double)repeat * threads / (now() - start) * 1e-9);
        }
        free(a);
    }
    return out_of_memory ? 0 : best;
}

/* -- the round trip of a cache line -- */

static bool pin(size_t processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static double round_trip_between(size_t a, size_t b, const cpu_set_t *all)
{
    enum { TRIPS = 5000 };
    static _Alignas(128) _Atomic int turn;
    double seconds = 0;
    atomic_store(&turn, 0);
#pragma omp parallel num_threads(2)
    {
        const int me = omp_get_thread_num();
        pin(me ? b : a);
#pragma omp barrier
        const double start = now();
        for (int i = 0; i < TRIPS; i++) {
            while (atomic_load_explicit(&turn, memory_order_acquire) != me)
                ;
            atomic_store_explicit(&turn, 1 - me, memory_order_release);
        }
        if (me == 0)
            seconds = now() - start;
        sched_setaffinity(0, sizeof *all, all);
    }
    return seconds / (double)TRIPS;
}

double round_trip_seconds(void)
{
    enum { MEETINGS = 100 }; /* short and many: on a busy machine both threads must run at the same time */
    cpu_set_t mask;
    size_t pair[2];
    int found = 0;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (size_t i = 0; i < CPU_SETSIZE && found < 2; i++)
            if (CPU_ISSET(i, &mask))
                pair[found++] = i;
    if (found < 2)
        return 0;
    double best = 1e300;
    for (int i = 0; i < MEETINGS; i++)
        best = fmin(best, round_trip_between(pair[0], pair[1], &mask));
    return best;
}
