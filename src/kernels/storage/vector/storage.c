/* Loads numbers of storage types as this instance's floating type. Every number is exact in float32 and in float64, so
 * all instances give the same values. Plain loops: the compiler vectorizes them. */
#include "kernels/vector/float16.h"
#include "kernels/vector/vector.h"
#include "tapehead/base.h"

TH_INLINE void load_bfloat16(int64_t n, const uint16_t *restrict from, real *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (real)float_of_bits((uint32_t)from[i] << 16);
}

TH_INLINE void load_float16(int64_t n, const uint16_t *restrict from, real *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (real)float16_value(from[i]);
}

TH_INLINE void load_q8_0(int64_t blocks, const th_q8_0 *restrict from, real *restrict to)
{
    for (int64_t b = 0; b < blocks; b++) {
        const real scale = (real)float16_value(from[b].scale);
        for (int i = 0; i < TH_BLOCK_NUMBERS; i++)
            to[b * TH_BLOCK_NUMBERS + i] = scale * (real)from[b].number[i];
    }
}

TH_INLINE void load_q4_0(int64_t blocks, const th_q4_0 *restrict from, real *restrict to)
{
    for (int64_t b = 0; b < blocks; b++) {
        const real scale = (real)float16_value(from[b].scale);
        real *low = to + b * TH_BLOCK_NUMBERS, *high = low + TH_BLOCK_NUMBERS / 2;
        for (int i = 0; i < TH_BLOCK_NUMBERS / 2; i++) {
            low[i] = scale * (real)((from[b].pair[i] & 15) - 8);
            high[i] = scale * (real)((from[b].pair[i] >> 4) - 8);
        }
    }
}

/* Loads n numbers, whole blocks of a th_dtype. */
void TH_KERNEL(storage_load)(int64_t n, int dtype, const void *from, void *to)
{
    if (dtype == TH_BFLOAT16)
        load_bfloat16(n, from, to);
    else if (dtype == TH_FLOAT16)
        load_float16(n, from, to);
    else if (dtype == TH_Q8_0)
        load_q8_0(n / TH_BLOCK_NUMBERS, from, to);
    else
        load_q4_0(n / TH_BLOCK_NUMBERS, from, to);
}
