/* Loads numbers of storage types as this instance's floating type. Numbers of 16 bits, q8_0 and q4_0 are exact in
 * float32 and in float64, and the others are computed in float32. So all instances give the same values. Plain loops:
 * the compiler vectorizes them. */
#include "kernels/storage/vector/block_parts.h"
#include "kernels/vector/vector.h"

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

/* Loads half a part: its raw numbers, of one group. */
TH_INLINE void load_group(int dtype, const uint8_t *raw, float scale, float least, real *restrict to)
{
#if TH_REAL_BITS == 32
    UNROLLED_FOR (int i = 0; i < HALF_PART; i += TH_REGISTER_LANES) {
        const vec number = __builtin_convertvector(widened_bytes(raw + i) - offset_of(dtype), vec);
        vec_store(to + i, vec_mul_add(number, vec_broadcast(scale), -vec_broadcast(least)));
    }
#else
    for (int i = 0; i < HALF_PART; i++)
        to[i] = (real)(scale * (float)(raw[i] - offset_of(dtype)) - least);
#endif
}

/* Loads numbers first .. first + n - 1 of a row of blocks, whole parts. */
TH_INLINE void load_parts(int dtype, int64_t block_parts, int64_t block_bytes, int64_t first, int64_t n,
                          const uint8_t *row, real *restrict to)
{
    float_scales scales;
    for (int64_t at = first / PART; at < (first + n) / PART; at++, to += PART) {
        const uint8_t *block = row + at / block_parts * block_bytes;
        const int part = (int)(at % block_parts);
        if (at == first / PART || part == 0)
            read_float_scales(dtype, block, 2 * (int)block_parts, &scales);
        const part_bytes raw = read_numbers(dtype, block, part);
        uint8_t number[PART];
        memcpy(number, &raw, sizeof number);
        for (int half = 0; half < 2; half++)
            load_group(dtype, number + half * HALF_PART, scales.scale[2 * part + half], scales.least[2 * part + half],
                       to + half * HALF_PART);
    }
}

#define LOAD(dtype, name, numbers)                                                                                     \
    case dtype:                                                                                                        \
        load_parts(dtype, (numbers) / PART, dtype##_BYTES, first, n, row, to);                                         \
        break;

/* Loads numbers first .. first + n - 1 of a row of a th_dtype. In types with blocks, both are multiples of 32. */
void TH_KERNEL(storage_load)(int64_t n, int dtype, const void *row, int64_t first, void *to)
{
    switch (dtype) {
    case TH_BFLOAT16:
        load_bfloat16(n, (const uint16_t *)row + first, to);
        break;
    case TH_FLOAT16:
        load_float16(n, (const uint16_t *)row + first, to);
        break;
    case TH_Q8_0:
        load_q8_0(n / TH_BLOCK_NUMBERS, (const th_q8_0 *)row + first / TH_BLOCK_NUMBERS, to);
        break;
    case TH_Q4_0:
        load_q4_0(n / TH_BLOCK_NUMBERS, (const th_q4_0 *)row + first / TH_BLOCK_NUMBERS, to);
        break;
#ifndef TAPEHEAD_NO_STORAGE_TYPES /* a macro of the two files (docs/two-files.md) */
        TH_BLOCK_FORMATS(LOAD)
#endif
    default:
        break;
    }
}
