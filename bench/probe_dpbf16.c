/* The peak of bfloat16 dot products (AVX512_BF16), with intrinsics: GCC's vector extensions do not support bfloat16. */
#include <immintrin.h>

#include "probe_isa.h"

enum { LANES = 16, SUMS = 12 };

double dpbf16_loop(int64_t rounds, float *sink)
{
    const __m512 half = _mm512_set1_ps(0.5F);
    const __m512bh factor = _mm512_cvtne2ps_pbh(half, half);
    __m512 sum[SUMS];
    for (int j = 0; j < SUMS; j++)
        sum[j] = _mm512_set1_ps((float)j); /* different values: the compiler would merge equal sums */
    for (int64_t i = 0; i < rounds; i++)
        for (int j = 0; j < SUMS; j++)
            sum[j] = _mm512_dpbf16_ps(sum[j], factor, factor);
    for (int j = 1; j < SUMS; j++)
        sum[0] = _mm512_add_ps(sum[0], sum[j]);
    *sink = _mm512_cvtss_f32(sum[0]);
    return (double)(4 * LANES * SUMS) * (double)rounds;
}
