/* Splits registers of float32 numbers into bfloat16 parts (product.h) with the processor's conversion instruction
 * (AVX-512 with BF16). The paths that multiply pairs of bfloat16 numbers (dpbf16, amx) use it to pack their operands.
 * The instruction makes some large numbers infinite. For these, this file uses bfloat16.h, which does the same with
 * integer arithmetic. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_BFLOAT16_REGISTERS_H
#define TH_KERNELS_BFLOAT16_VECTOR_BFLOAT16_REGISTERS_H

#include <immintrin.h>

#include "kernels/bfloat16/vector/bfloat16.h"
#include "kernels/bfloat16/vector/part_kernels.h"

enum { PART_LANES = 16 /* float32 numbers in a register */ };

/* The first `count` lanes. */
TH_INLINE __mmask16 first_lanes(int64_t count)
{
    return (__mmask16)(count >= PART_LANES ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/* The parts of any 32 numbers, infinite ones and NaN included: word i of part[t] is from low[i], word 16 + i from
 * high[i]. */
static __attribute__((noinline)) void split_unusual(__m512 low, __m512 high, __m512i part[MAX_PARTS])
{
    uint32_t x[2 * PART_LANES];
    uint16_t split[MAX_PARTS][2 * PART_LANES];
    _mm512_storeu_ps(x, low);
    _mm512_storeu_ps(x + PART_LANES, high);
    for (int i = 0; i < 2 * PART_LANES; i++) {
        const uint32_t first = round_to_bfloat16(x[i]);
        split[0][i] = (uint16_t)(first >> 16);
        split[1][i] = (uint16_t)(second_part(x[i], first) >> 16);
    }
    memcpy(part, split, sizeof split);
}

/* The first parts in this order: rounded to nearest, denormals to 0, NaN quiet. Some numbers become infinite although
 * product.h truncates them. */
TH_INLINE __m512i first_parts(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Which of 32 bfloat16 numbers are infinite or NaN. If any is, split_unusual splits all 32. */
TH_INLINE __mmask32 unusual_mask(__m512i numbers)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    return _mm512_cmpeq_epi16_mask(_mm512_and_si512(numbers, exponent), exponent);
}

/* 16 of 32 bfloat16 numbers as float32 numbers, beginning with number `first`. */
TH_INLINE __m512 widen(__m512i numbers, int first)
{
    typedef int32_t indices __attribute__((vector_size(64)));
    const indices lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (__m512)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, (__m512i)((lane + first) << 16), numbers);
}

/* The second parts of numbers whose first parts are usual. */
TH_INLINE __m512i second_parts(__m512 low, __m512 high, __m512i first)
{
    return first_parts(_mm512_sub_ps(low, widen(first, 0)), _mm512_sub_ps(high, widen(first, PART_LANES)));
}

/* One or two parts of 32 numbers: word i of part[t] is from low[i], word 16 + i from high[i]. */
TH_INLINE void split_in_order(int parts, __m512 low, __m512 high, __m512i part[MAX_PARTS])
{
    part[0] = first_parts(low, high);
    if (__builtin_expect(unusual_mask(part[0]) != 0, 0))
        split_unusual(low, high, part);
    else if (parts == 2)
        part[1] = second_parts(low, high, part[0]);
}

/* Pairs: words i and 16 + i become the lower and the upper half of lane i. */
TH_INLINE __m512i pair_up(__m512i words)
{
    typedef uint16_t halves __attribute__((vector_size(64)));
    const halves all = (halves)words;
    return (__m512i)vec_shuffle(all, all, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26,
                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* Like second_parts, for first parts in pairs. The second parts are in pairs, too. */
TH_INLINE __m512i second_parts_of_pairs(__m512 low, __m512 high, __m512i first)
{
    const __m512i upper_half = _mm512_set1_epi32((int)0xffff0000);
    return pair_up(first_parts(_mm512_sub_ps(low, (__m512)_mm512_slli_epi32(first, 16)),
                               _mm512_sub_ps(high, (__m512)_mm512_and_si512(first, upper_half))));
}

/* One or two parts of 32 numbers, in pairs: the lower half of lane i of part[t] is from low[i], the upper half from
 * high[i]. */
TH_INLINE void split_in_pairs(int parts, __m512 low, __m512 high, __m512i part[MAX_PARTS])
{
    const __m512i first = first_parts(low, high);
    part[0] = pair_up(first);
    if (__builtin_expect(unusual_mask(first) != 0, 0)) {
        split_unusual(low, high, part);
        part[0] = pair_up(part[0]);
        part[1] = pair_up(part[1]);
    } else if (parts == 2) {
        part[1] = second_parts_of_pairs(low, high, part[0]);
    }
}

#endif
