/* Multiply-adds and a triad in GCC vector extensions, compiled once for each instruction set: CMakeLists.txt sets
 * TH_VECTOR_BYTES, BENCH_ISA and the flags. */
#include "probe_isa.h"

#define NAMED_(name, isa) name##_##isa
#define NAMED(name, isa) NAMED_(name, isa)

typedef float vector __attribute__((vector_size(TH_VECTOR_BYTES)));
/* More chains than the latency times the units of any processor, fewer than its registers. */
enum { LANES = TH_VECTOR_BYTES / sizeof(float), CHAINS = 12 };

double NAMED(fma_chains, BENCH_ISA)(int64_t rounds, float *sink)
{
    const vector factor = (vector){0} + 0.5F, term = (vector){0} + 1;
    vector sum[CHAINS];
    for (int j = 0; j < CHAINS; j++) /* unlike each other: the compiler would make one of equal chains */
        sum[j] = (vector){0} + (float)j;
    for (int64_t i = 0; i < rounds; i++)
        for (int j = 0; j < CHAINS; j++)
            sum[j] = sum[j] * factor + term;
    for (int j = 1; j < CHAINS; j++)
        sum[0] += sum[j];
    *sink = sum[0][0];
    return (double)(2 * LANES * CHAINS) * (double)rounds;
}

void NAMED(triad, BENCH_ISA)(int64_t n, float *restrict a, const float *restrict b, const float *restrict c)
{
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] + 0.5F * c[i];
}
