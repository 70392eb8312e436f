/* Reads parts of the blocks that TH_BLOCK_FORMATS lists. A part has 32 consecutive numbers. Number i of a part is
 *
 *     scale[i / 16] number[i] - least[i / 16]
 *
 * in float32. The product is exact, so the bits are those of ggml's reference, with and without fused multiply-add.
 * ggml-quants.c defines the formats. */
#ifndef TH_KERNELS_STORAGE_VECTOR_BLOCK_PARTS_H
#define TH_KERNELS_STORAGE_VECTOR_BLOCK_PARTS_H

#include "kernels/storage/block_formats.h"
#include "kernels/vector/float16.h"

enum { PART = 32, HALF_PART = PART / 2 };

/* The bytes of a part, and the same as words. */
typedef uint8_t part_bytes __attribute__((vector_size(PART), aligned(1), may_alias));
typedef uint16_t part_words __attribute__((vector_size(PART), aligned(1), may_alias));

typedef struct block_part {
    _Alignas(PART) int8_t number[PART];
    float scale[2], least[2]; /* of each half */
} block_part;

TH_INLINE float scale_at(const uint8_t *from)
{
    uint16_t scale;
    memcpy(&scale, from, sizeof scale);
    return float16_value(scale);
}

/* Returns the bits `mask` of 32 bytes, after a shift to the right. (A shift of words is one instruction, and the mask
 * removes the bits of the other byte.) */
TH_INLINE part_bytes bits_of(const uint8_t *from, int shift, uint8_t mask)
{
    return (part_bytes)(*(const part_words *)from >> (uint16_t)shift) & (mask - (part_bytes){0});
}

/* Moves bits to the left. They stay in their byte. */
TH_INLINE part_bytes moved(part_bytes bits, int shift)
{
    return (part_bytes)((part_words)bits << (uint16_t)shift);
}

/* Returns the lower 4 bits of 16 bytes, then their upper 4 bits. */
TH_INLINE part_bytes nibbles_of(const uint8_t *from)
{
    typedef uint8_t half_bytes __attribute__((vector_size(HALF_PART), aligned(1), may_alias));
    const half_bytes both = *(const half_bytes *)from, low = both & 15, high = both >> 4;
    part_bytes result;
    memcpy(&result, &low, sizeof low);
    memcpy((char *)&result + HALF_PART, &high, sizeof high);
    return result;
}

/* Returns bit i of 4 bytes, times 16, in byte i. */
TH_INLINE part_bytes fifth_bits(const uint8_t *bits)
{
    part_bytes result;
    for (int i = 0; i < 4; i++) { /* a byte is copied 8 times, and each copy keeps one bit */
        const uint64_t copies = bits[i] * UINT64_C(0x0101010101010101), kept = copies & UINT64_C(0x8040201008040201);
        const uint64_t any = (kept + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
        const uint64_t moved_bits = any << 4;
        memcpy((char *)&result + 8 * i, &moved_bits, sizeof moved_bits);
    }
    return result;
}

TH_INLINE void set_numbers(block_part *p, part_bytes numbers)
{
    memcpy(p->number, &numbers, sizeof numbers);
}

/* Sets the scales and least numbers of both halves. */
TH_INLINE void set_scales(block_part *p, float scale, float least)
{
    p->scale[0] = p->scale[1] = scale;
    p->least[0] = p->least[1] = least;
}

/* -- blocks of 32 numbers: scale, perhaps the least number, perhaps the fifth bits, and pairs of 4 bits -- */

TH_INLINE void read_q4_1(const uint8_t *block, int part, block_part *p)
{
    (void)part;
    set_numbers(p, nibbles_of(block + 4));
    set_scales(p, scale_at(block), -scale_at(block + 2));
}

TH_INLINE void read_q5_0(const uint8_t *block, int part, block_part *p)
{
    (void)part;
    set_numbers(p, (nibbles_of(block + 6) | fifth_bits(block + 2)) - 16);
    set_scales(p, scale_at(block), 0);
}

TH_INLINE void read_q5_1(const uint8_t *block, int part, block_part *p)
{
    (void)part;
    set_numbers(p, nibbles_of(block + 8) | fifth_bits(block + 4));
    set_scales(p, scale_at(block), -scale_at(block + 2));
}

/* Writes the numbers whose indices in ggml's table are in 16 bytes. */
TH_INLINE void look_up(const uint8_t *pair, int8_t *number)
{
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    for (int i = 0; i < HALF_PART; i++) {
        number[i] = values[pair[i] & 15];
        number[HALF_PART + i] = values[pair[i] >> 4];
    }
}

TH_INLINE void read_iq4_nl(const uint8_t *block, int part, block_part *p)
{
    (void)part;
    look_up(block + 2, p->number);
    set_scales(p, scale_at(block), 0);
}

/* -- blocks of 256 numbers: each part has one or two scales of few bits, which the scale of the block multiplies -- */

/* uint8 scales[16], of 4 bits, and least numbers; uint8 numbers[64], of 2 bits; float16 scale, least */
TH_INLINE void read_q2_k(const uint8_t *block, int part, block_part *p)
{
    const float scale = scale_at(block + 80), least = scale_at(block + 82);
    set_numbers(p, bits_of(block + 16 + part / 4 * PART, part % 4 * 2, 3));
    for (int half = 0; half < 2; half++) {
        p->scale[half] = scale * (float)(block[2 * part + half] & 15);
        p->least[half] = least * (float)(block[2 * part + half] >> 4);
    }
}

/* Returns scale i of 16, of 6 bits: 4 in the first 8 bytes, 2 in the last 4. */
TH_INLINE int scale_of_q3_k(const uint8_t *scales, int i)
{
    const int low = scales[i % 8] >> i / 8 * 4 & 15, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

/* uint8 third bits[32]; uint8 numbers[64], of 2 bits; uint8 scales[12]; float16 scale */
TH_INLINE void read_q3_k(const uint8_t *block, int part, block_part *p)
{
    const float scale = scale_at(block + 108);
    set_numbers(p, (bits_of(block + 32 + part / 4 * PART, part % 4 * 2, 3) | moved(bits_of(block, part, 1), 2)) - 4);
    for (int half = 0; half < 2; half++) {
        p->scale[half] = scale * (float)scale_of_q3_k(block + 96, 2 * part + half);
        p->least[half] = 0;
    }
}

/* Sets scale and least number of a part, of 6 bits each, from 12 bytes. */
TH_INLINE void set_scales_of_q4_k(const uint8_t *block, int part, block_part *p)
{
    const uint8_t *scales = block + 4;
    const int i = part % 4;
    const int scale = part < 4 ? scales[i] & 63 : (scales[8 + i] & 15) | (scales[i] >> 6) << 4;
    const int least = part < 4 ? scales[4 + i] & 63 : scales[8 + i] >> 4 | (scales[4 + i] >> 6) << 4;
    set_scales(p, scale_at(block) * (float)scale, scale_at(block + 2) * (float)least);
}

/* float16 scale, least; uint8 scales[12]; uint8 numbers[128], of 4 bits */
TH_INLINE void read_q4_k(const uint8_t *block, int part, block_part *p)
{
    set_numbers(p, bits_of(block + 16 + part / 2 * PART, part % 2 * 4, 15));
    set_scales_of_q4_k(block, part, p);
}

/* float16 scale, least; uint8 scales[12]; uint8 fifth bits[32]; uint8 numbers[128], of 4 bits */
TH_INLINE void read_q5_k(const uint8_t *block, int part, block_part *p)
{
    const part_bytes fifth = moved(bits_of(block + 16, part, 1), 4);
    set_numbers(p, bits_of(block + 48 + part / 2 * PART, part % 2 * 4, 15) | fifth);
    set_scales_of_q4_k(block, part, p);
}

/* uint8 numbers[128], 4 bits; uint8 numbers[64], 2 bits more; int8 scales[16]; float16 scale */
TH_INLINE void read_q6_k(const uint8_t *block, int part, block_part *p)
{
    const float scale = scale_at(block + 208);
    const part_bytes low = bits_of(block + part / 4 * 64 + part % 2 * PART, part % 4 / 2 * 4, 15);
    const part_bytes high = bits_of(block + 128 + part / 4 * PART, part % 4 * 2, 3);
    set_numbers(p, (low | moved(high, 4)) - 32);
    for (int half = 0; half < 2; half++) {
        p->scale[half] = scale * (float)(int8_t)block[192 + 2 * part + half];
        p->least[half] = 0;
    }
}

/* float16 scale; uint16 high bits of the scales; uint8 their low bits[4]; uint8 numbers[128], of 4 bits */
TH_INLINE void read_iq4_xs(const uint8_t *block, int part, block_part *p)
{
    const int high = (block[2] | block[3] << 8) >> 2 * part & 3, low = block[4 + part / 2] >> part % 2 * 4 & 15;
    look_up(block + 8 + HALF_PART * part, p->number);
    set_scales(p, scale_at(block) * (float)((low | high << 4) - 32), 0);
}

/* -- all formats -- */

#define READ(dtype, name, numbers)                                                                                     \
    case dtype:                                                                                                        \
        read_##name(block, part, p);                                                                                   \
        break;

/* Reads part `part` of a block. */
TH_INLINE void read_part(int dtype, const uint8_t *block, int part, block_part *p)
{
    switch (dtype) {
        TH_BLOCK_FORMATS(READ)
    default:
        break;
    }
}

#undef READ

#endif
