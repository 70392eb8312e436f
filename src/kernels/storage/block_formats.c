/* Unpacks blocks: see block_formats.h. ggml-quants.c defines the formats. */
#include "kernels/storage/block_formats.h"

#include <stddef.h>
#include <string.h>

/* Returns a float16 number. */
static float half_at(const uint8_t *bytes)
{
    const uint32_t sign = (uint32_t)(bytes[1] >> 7), rest = (uint32_t)(bytes[0] | (bytes[1] & 0x7f) << 8);
    const uint32_t bits = sign << 31 | (rest >= 0x7c00 ? 0x7f800000 | rest << 13 : (rest << 13) + (112u << 23));
    const float denormal = (float)(int32_t)rest * 0x1p-24F;
    float number;
    memcpy(&number, &bits, sizeof number);
    return rest >= 0x400 ? number : sign ? -denormal : denormal;
}

/* -- blocks of 32 numbers: scale, perhaps the least number, perhaps the fifth bits, and pairs of 4 bits -- */

/* Returns bits 0 to 3 of number i. */
static int low_bits(const uint8_t *pair, int i)
{
    return i < 16 ? pair[i] & 15 : pair[i - 16] >> 4;
}

static int fifth_bit(const uint8_t *bits, int i)
{
    return (bits[i / 8] >> i % 8 & 1) << 4;
}

static void unpack_q4_1(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    (void)part;
    const float scale = half_at(block), least = half_at(block + 2);
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scale * (float)low_bits(block + 4, i) + least;
}

static void unpack_q5_0(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    (void)part;
    const float scale = half_at(block);
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scale * (float)((low_bits(block + 6, i) | fifth_bit(block + 2, i)) - 16);
}

static void unpack_q5_1(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    (void)part;
    const float scale = half_at(block), least = half_at(block + 2);
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scale * (float)(low_bits(block + 8, i) | fifth_bit(block + 4, i)) + least;
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void unpack_iq4_nl(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    (void)part;
    const float scale = half_at(block);
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scale * (float)iq4_values[low_bits(block + 2, i)];
}

/* -- blocks of 256 numbers: each part has one or two scales of few bits, which the scale of the block multiplies -- */

/* uint8 scales[16], of 4 bits, and least numbers; uint8 numbers[64], of 2 bits; float16 scale, least */
static void unpack_q2_k(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    const uint8_t *numbers = block + 16 + part / 4 * 32;
    const float scale = half_at(block + 80), least = half_at(block + 82);
    for (int i = 0; i < TH_BLOCK_PART; i++) {
        const int scales = block[2 * part + i / 16];
        number[i] =
            scale * (float)(scales & 15) * (float)(numbers[i] >> part % 4 * 2 & 3) - least * (float)(scales >> 4);
    }
}

/* Returns scale i of 16, of 6 bits: 4 in the first 8 bytes, 2 in the last 4. */
static int scale_of_q3_k(const uint8_t *scales, int i)
{
    const int low = scales[i % 8] >> i / 8 * 4 & 15, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

/* uint8 third bits[32]; uint8 numbers[64], of 2 bits; uint8 scales[12]; float16 scale */
static void unpack_q3_k(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    const uint8_t *numbers = block + 32 + part / 4 * 32;
    const float scale = half_at(block + 108);
    for (int i = 0; i < TH_BLOCK_PART; i++) {
        const int low = numbers[i] >> part % 4 * 2 & 3, missing = block[i] >> part & 1 ? 0 : 4;
        number[i] = scale * (float)scale_of_q3_k(block + 96, 2 * part + i / 16) * (float)(low - missing);
    }
}

/* Reads scale and least number of a part, of 6 bits each, from 12 bytes. */
static void read_q4_k_scales(const uint8_t *scales, int part, int *scale, int *least)
{
    const int i = part % 4;
    *scale = part < 4 ? scales[i] & 63 : (scales[8 + i] & 15) | (scales[i] >> 6) << 4;
    *least = part < 4 ? scales[4 + i] & 63 : scales[8 + i] >> 4 | (scales[4 + i] >> 6) << 4;
}

/* float16 scale, least; uint8 scales[12]; uint8 numbers[128], of 4 bits */
static void unpack_q4_k(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    int scale, least;
    read_q4_k_scales(block + 4, part, &scale, &least);
    const uint8_t *numbers = block + 16 + part / 2 * 32;
    const float scaled = half_at(block) * (float)scale, offset = half_at(block + 2) * (float)least;
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scaled * (float)(numbers[i] >> part % 2 * 4 & 15) - offset;
}

/* float16 scale, least; uint8 scales[12]; uint8 fifth bits[32]; uint8 numbers[128], of 4 bits */
static void unpack_q5_k(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    int scale, least;
    read_q4_k_scales(block + 4, part, &scale, &least);
    const uint8_t *fifth = block + 16, *numbers = block + 48 + part / 2 * 32;
    const float scaled = half_at(block) * (float)scale, offset = half_at(block + 2) * (float)least;
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scaled * (float)((numbers[i] >> part % 2 * 4 & 15) | (fifth[i] >> part & 1) << 4) - offset;
}

/* uint8 numbers[128], 4 bits; uint8 numbers[64], 2 bits more; int8 scales[16]; float16 scale */
static void unpack_q6_k(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    const uint8_t *low = block + part / 4 * 64 + part % 2 * 32, *high = block + 128 + part / 4 * 32;
    const float scale = half_at(block + 208);
    for (int i = 0; i < TH_BLOCK_PART; i++) {
        const int bits = (low[i] >> part % 4 / 2 * 4 & 15) | (high[i] >> part % 4 * 2 & 3) << 4;
        number[i] = scale * (float)(int8_t)block[192 + 2 * part + i / 16] * (float)(bits - 32);
    }
}

/* float16 scale; uint16 high bits of the scales; uint8 their low bits[4]; uint8 numbers[128], of 4 bits */
static void unpack_iq4_xs(const uint8_t *block, int part, float number[TH_BLOCK_PART])
{
    const int high = (block[2] | block[3] << 8) >> 2 * part & 3, low = block[4 + part / 2] >> part % 2 * 4 & 15;
    const float scale = half_at(block) * (float)((low | high << 4) - 32);
    for (int i = 0; i < TH_BLOCK_PART; i++)
        number[i] = scale * (float)iq4_values[low_bits(block + 8 + 16 * part, i)];
}

static const th_block_format formats[] = {
    {"Q4_1", 32, 20, 0, 2, unpack_q4_1},     {"Q5_0", 32, 22, 0, 1, unpack_q5_0},
    {"Q5_1", 32, 24, 0, 2, unpack_q5_1},     {"IQ4_NL", 32, 18, 0, 1, unpack_iq4_nl},
    {"Q2_K", 256, 84, 80, 2, unpack_q2_k},   {"Q3_K", 256, 110, 108, 1, unpack_q3_k},
    {"Q4_K", 256, 144, 0, 2, unpack_q4_k},   {"Q5_K", 256, 176, 0, 2, unpack_q5_k},
    {"Q6_K", 256, 210, 208, 1, unpack_q6_k}, {"IQ4_XS", 256, 136, 0, 1, unpack_iq4_xs},
};

const th_block_format *th_block_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return &formats[i];
    return NULL;
}

void th_block_format_unpack(const th_block_format *format, int64_t blocks, const void *from, float *to)
{
    const uint8_t *block = from;
    for (int64_t b = 0; b < blocks; b++, block += format->bytes)
        for (int part = 0; part < format->numbers / TH_BLOCK_PART; part++, to += TH_BLOCK_PART)
            format->unpack(block, part, to);
}
