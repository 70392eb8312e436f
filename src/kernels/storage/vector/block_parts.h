/* Reads the blocks that TH_BLOCK_FORMATS lists: their numbers in parts of 32, and the scales of each group of 16 numbers.
 * Number i of a block is
 *
 *     (factor scale[i / 16]) (raw[i] - offset) - least_factor least[i / 16]
 *
 * in float32. Only the last operation rounds, so the bits are those of ggml's reference, with and without fused
 * multiply-add. ggml-quants.c defines the formats. */
#ifndef TH_KERNELS_STORAGE_VECTOR_BLOCK_PARTS_H
#define TH_KERNELS_STORAGE_VECTOR_BLOCK_PARTS_H

#include "kernels/storage/block_formats.h"
#include "kernels/vector/float16.h"
#include "kernels/vector/registers.h"

enum { PART = 32, HALF_PART = PART / 2, BLOCK_GROUPS = 16 /* at most, of 16 numbers each */ };

/* The bytes of a part, and the same as words. */
typedef uint8_t part_bytes __attribute__((vector_size(PART), aligned(1), may_alias));
typedef uint16_t part_words __attribute__((vector_size(PART), aligned(1), may_alias));

/* The integer scales of the groups of a block. A block of 32 numbers has ones. */
typedef struct block_scales {
    _Alignas(PART) int16_t scale[BLOCK_GROUPS], least[BLOCK_GROUPS];
} block_scales;

/* Returns what is subtracted from the raw numbers of a type. */
TH_INLINE int offset_of(int dtype)
{
    return dtype == TH_IQ4_NL || dtype == TH_IQ4_XS ? 128
           : dtype == TH_Q6_K                       ? 32
           : dtype == TH_Q5_0                       ? 16
           : dtype == TH_Q3_K                       ? 4
                                                    : 0;
}

/* Whether the numbers of a type have a least number. */
TH_INLINE bool has_least(int dtype)
{
    return dtype == TH_Q4_1 || dtype == TH_Q5_1 || dtype == TH_Q2_K || dtype == TH_Q4_K || dtype == TH_Q5_K;
}

/* Returns the offset of the float16 factor in a block. least_factor, if there is one, follows it. */
TH_INLINE int factor_at(int dtype)
{
    return dtype == TH_Q2_K ? 80 : dtype == TH_Q3_K ? 108 : dtype == TH_Q6_K ? 208 : 0;
}

TH_INLINE uint16_t half_at(const uint8_t *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return half;
}

/* In blocks of 32 numbers the file has the negative least number. */
TH_INLINE float least_factor_of(int dtype, float stored)
{
    return dtype == TH_Q4_1 || dtype == TH_Q5_1 ? -stored : stored;
}

/* Returns the bits `mask` of 32 bytes, after a shift to the right, or to the left if it is negative. (A shift of words is
 * one instruction, and the mask removes the bits of the other byte.) */
TH_INLINE part_bytes bits_of(const uint8_t *from, int shift, uint8_t mask)
{
    const part_words words = *(const part_words *)from;
    return (part_bytes)(shift < 0 ? words << (uint16_t)-shift : words >> (uint16_t)shift) & (mask - (part_bytes){0});
}

/* Returns the lower 4 bits of 16 bytes, then their upper 4 bits. */
TH_INLINE part_bytes nibbles_of(const uint8_t *from)
{
#if TH_VECTOR_BYTES > 16
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)from));
    return (part_bytes)_mm256_srlv_epi32(both, _mm256_set_epi32(4, 4, 4, 4, 0, 0, 0, 0)) & 15;
#else
    typedef uint8_t half_bytes __attribute__((vector_size(HALF_PART), aligned(1), may_alias));
    const half_bytes both = *(const half_bytes *)from, low = both & 15, high = both >> 4;
    part_bytes result;
    memcpy(&result, &low, sizeof low);
    memcpy((char *)&result + HALF_PART, &high, sizeof high);
    return result;
#endif
}

/* Returns bit i of 4 bytes, times 16, in byte i. */
TH_INLINE part_bytes fifth_bits(const uint8_t *bits)
{
    typedef uint64_t part_longs __attribute__((vector_size(PART)));
    const uint64_t copies = UINT64_C(0x0101010101010101); /* of a byte; each copy keeps one bit */
    const part_longs bytes = {bits[0] * copies, bits[1] * copies, bits[2] * copies, bits[3] * copies};
    const part_bytes bit = (part_bytes)(UINT64_C(0x8040201008040201) - (part_longs){0});
    return (part_bytes)(((part_bytes)bytes & bit) == bit) & 16;
}

/* Returns 128 more than the numbers whose indices in ggml's table are in 16 bytes. */
TH_INLINE part_bytes look_up(const uint8_t *pair)
{
    static const uint8_t values[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
    const part_bytes index = nibbles_of(pair);
#if TH_VECTOR_BYTES > 16
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)values));
    return (part_bytes)_mm256_shuffle_epi8(table, (__m256i)index);
#else
    part_bytes number;
    for (int i = 0; i < PART; i++)
        number[i] = values[index[i]];
    return number;
#endif
}

/* -- raw numbers -- */

/* Returns the raw numbers of part `part` of a block. */
TH_INLINE part_bytes read_numbers(int dtype, const uint8_t *block, int part)
{
    const int quarter = part / 4, within = part % 4;
    switch (dtype) {
    case TH_Q4_1: /* float16 factor, least; uint8 numbers[16], of 4 bits */
        return nibbles_of(block + 4);
    case TH_Q5_0: /* float16 factor; uint8 fifth bits[4]; uint8 numbers[16], of 4 bits */
        return nibbles_of(block + 6) | fifth_bits(block + 2);
    case TH_Q5_1: /* float16 factor, least; uint8 fifth bits[4]; uint8 numbers[16], of 4 bits */
        return nibbles_of(block + 8) | fifth_bits(block + 4);
    case TH_IQ4_NL: /* float16 factor; uint8 numbers[16], of 4 bits */
        return look_up(block + 2);
    case TH_Q2_K: /* uint8 scales[16], of 4 bits, and least numbers; uint8 numbers[64], of 2 bits; float16 factors[2] */
        return bits_of(block + 16 + quarter * PART, within * 2, 3);
    case TH_Q3_K: /* uint8 third bits[32]; uint8 numbers[64], of 2 bits; uint8 scales[12]; float16 factor */
        return bits_of(block + 32 + quarter * PART, within * 2, 3) | bits_of(block, part - 2, 1 << 2);
    case TH_Q4_K: /* float16 factors[2]; uint8 scales[12]; uint8 numbers[128], of 4 bits */
        return bits_of(block + 16 + part / 2 * PART, part % 2 * 4, 15);
    case TH_Q5_K: /* float16 factors[2]; uint8 scales[12]; uint8 fifth bits[32]; uint8 numbers[128], of 4 bits */
        return bits_of(block + 48 + part / 2 * PART, part % 2 * 4, 15) | bits_of(block + 16, part - 4, 1 << 4);
    case TH_Q6_K: /* uint8 numbers[128], of 4 bits; uint8 numbers[64], of 2 bits more; int8 scales[16]; float16 factor */
        return bits_of(block + quarter * 64 + part % 2 * PART, within / 2 * 4, 15) |
               bits_of(block + 128 + quarter * PART, within * 2 - 4, 3 << 4);
    default: /* TH_IQ4_XS: float16 factor; uint16 high bits of the scales; uint8 scales[4]; uint8 numbers[128] */
        return look_up(block + 8 + HALF_PART * part);
    }
}

#if TH_REAL_BITS == 32

/* Returns one byte for each lane. (gcc 12 widens bytes one by one.) */
TH_INLINE vec_int widened_bytes(const uint8_t *from)
{
#if TH_VECTOR_BYTES == 64
    return (vec_int)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif TH_VECTOR_BYTES == 32
    return (vec_int)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    typedef uint8_t lane_bytes __attribute__((vector_size(TH_REGISTER_LANES), aligned(1), may_alias));
    return __builtin_convertvector(*(const lane_bytes *)from, vec_int);
#endif
}

#endif

/* -- scales -- */

typedef uint8_t group_row __attribute__((vector_size(BLOCK_GROUPS), aligned(1), may_alias));
typedef int16_t group_words __attribute__((vector_size(2 * BLOCK_GROUPS), aligned(2), may_alias));

/* Sets the scales of 16 groups. */
TH_INLINE void set_groups(int16_t *groups, group_row bytes)
{
    *(group_words *)groups = __builtin_convertvector(bytes, group_words);
}

/* Sets the scales of 16 groups, those of both groups of a part from one byte. */
TH_INLINE void set_parts(int16_t *groups, uint32_t low, uint32_t high)
{
    typedef uint64_t two_words __attribute__((vector_size(BLOCK_GROUPS)));
    const group_row bytes = (group_row)(two_words){low | (uint64_t)high << 32, 0};
    set_groups(groups, vec_shuffle(bytes, bytes, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7));
}

/* 12 bytes have 8 scales and least numbers, of 6 bits each. */
TH_INLINE void read_scales_of_q4_k(const uint8_t *bytes, block_scales *to)
{
    const uint32_t two = 0x03030303, four = 0x0f0f0f0f, six = 0x3f3f3f3f;
    uint32_t word[3];
    memcpy(word, bytes, sizeof word);
    set_parts(to->scale, word[0] & six, (word[2] & four) | (word[0] >> 6 & two) << 4);
    set_parts(to->least, word[1] & six, (word[2] >> 4 & four) | (word[1] >> 6 & two) << 4);
}

/* 12 bytes have 16 scales of 6 bits: 4 bits in the first 8, 2 in the others. */
TH_INLINE void read_scales_of_q3_k(const uint8_t *bytes, block_scales *to)
{
    uint32_t word[3], scale[4];
    memcpy(word, bytes, sizeof word);
    for (int i = 0; i < 4; i++)
        scale[i] = (word[i % 2] >> i / 2 * 4 & 0x0f0f0f0f) | (word[2] >> 2 * i & 0x03030303) << 4;
    group_row all;
    memcpy(&all, scale, sizeof all);
    set_groups(to->scale, all);
    *(group_words *)to->scale -= 32;
}

TH_INLINE void read_scales_of_iq4_xs(const uint8_t *block, block_scales *to)
{
    for (int part = 0; part < BLOCK_GROUPS / 2; part++) {
        const int high = half_at(block + 2) >> 2 * part & 3, low = block[4 + part / 2] >> part % 2 * 4 & 15;
        to->scale[2 * part] = to->scale[2 * part + 1] = (int16_t)((low | high << 4) - 32);
    }
}

/* Reads the integer scales of a block. Sets `least` only if the type has it. */
TH_INLINE void read_block_scales(int dtype, const uint8_t *block, block_scales *to)
{
    const group_row *bytes = (const group_row *)block;
    switch (dtype) {
    case TH_Q2_K:
        set_groups(to->scale, *bytes & 15);
        set_groups(to->least, *bytes >> 4);
        break;
    case TH_Q3_K:
        read_scales_of_q3_k(block + 96, to);
        break;
    case TH_Q4_K:
    case TH_Q5_K:
        read_scales_of_q4_k(block + 4, to);
        break;
    case TH_Q6_K: {
        typedef int8_t signed_bytes __attribute__((vector_size(BLOCK_GROUPS), aligned(1), may_alias));
        *(group_words *)to->scale = __builtin_convertvector(*(const signed_bytes *)(block + 192), group_words);
        break;
    }
    case TH_IQ4_XS:
        read_scales_of_iq4_xs(block, to);
        break;
    default:
        for (int i = 0; i < PART / HALF_PART; i++)
            to->scale[i] = to->least[i] = 1;
        break;
    }
}

/* -- parts in float32 -- */

/* The scales and least numbers of all groups of a block. */
typedef struct float_scales {
    float scale[BLOCK_GROUPS], least[BLOCK_GROUPS];
} float_scales;

TH_INLINE void read_float_scales(int dtype, const uint8_t *block, int groups, float_scales *to)
{
    const float factor = float16_value(half_at(block + factor_at(dtype)));
    const float least =
        has_least(dtype) ? least_factor_of(dtype, float16_value(half_at(block + factor_at(dtype) + 2))) : 0;
    block_scales scales;
    read_block_scales(dtype, block, &scales);
    for (int i = 0; i < groups; i++) {
        to->scale[i] = factor * (float)scales.scale[i];
        to->least[i] = has_least(dtype) ? least * (float)scales.least[i] : 0;
    }
}

#endif
