/* Multiply-adds and a triad with GCC's vector extensions. CMakeLists.txt compiles this file once for each instruction
 * set and sets TH_VECTOR_BYTES, BENCH_ISA and the flags. */
#include "probe_isa.h"

#define NAMED_(name, isa) name##_##isa
#define NAMED(name, isa) NAMED_(name, isa)

typedef float vector __attribute__((vector_size(TH_VECTOR_BYTES)));
/* SUMS independent sums: more than latency times units of any processor, fewer than its registers. */
enum { LANES = TH_VECTOR_BYTES / sizeof(float), SUMS = 12 };

double NAMED(fma_loop, BENCH_ISA)(int64_t rounds, float *sink)
{
    const vector factor = (vector){0} + 0.5F, addend = (vector){0} + 1;
    vector sum[SUMS];
    for (int j = 0; j < SUMS; j++) /* different values: the compiler would merge equal sums */
        sum[j] = (vector){0} + (float)j;
    for (int64_t i = 0; i < rounds; i++)
        for (int j = 0; j < SUMS; j++)
            sum[j] = sum[j] * factor + addend;
    for (int j = 1; j < SUMS; j++)
        sum[0] += sum[j];
    *sink = sum[0][0];
    return (double)(2 * LANES * SUMS) * (double)rounds;
}

void NAMED(triad, BENCH_ISA)(int64_t n, float *restrict a, const float *restrict b, const float *restrict c)
{
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] + 0.5F * c[i];
}
