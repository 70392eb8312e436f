/* Loads columns of the types that block_parts.h reads. First the raw numbers of a part of each column are copied, as
 * bytes. Then they are transposed, widened and scaled, in the same way for all types. */
#ifndef TH_KERNELS_PRODUCTS_VECTOR_LOAD_PARTS_H
#define TH_KERNELS_PRODUCTS_VECTOR_LOAD_PARTS_H

#include "kernels/products/vector/load_columns.h"
#include "kernels/storage/vector/block_parts.h"

#if TH_STORED

/* Sets the scales of the groups of a block of each column: factor times the integers at `offset` of each line, or factor
 * in blocks of 32 numbers. */
TH_INLINE void scale_groups(int groups, const column_set *integers, int64_t offset, vec factor,
                            float (*to)[TH_REGISTER_LANES])
{
    vec unit[BLOCK_GROUPS / 2];
    if (groups == BLOCK_GROUPS)
        load_units(integers, offset, 0, unit);
    UNROLLED_FOR (int i = 0; i < groups; i++) {
        const vec_int pair = (vec_int)unit[i / 2], scale = (i % 2 == 0 ? pair << 16 : pair) >> 16;
        vec_store(to[i], groups == BLOCK_GROUPS ? (vec)(factor * __builtin_convertvector(scale, vec)) : factor);
    }
}

/* Reads the scales of the block of each column that begins with part `part`. */
TH_INLINE void read_scales_of_block(int storage, int numbers, int64_t bytes, column_set *set, int64_t part)
{
    const int groups = numbers / HALF_PART;
    block_scales scales[TH_REGISTER_LANES];
    uint16_t factor[TH_REGISTER_LANES], least_factor[TH_REGISTER_LANES];
    column_set integers;
    for (int j = 0; j < TH_REGISTER_LANES; j++) {
        const uint8_t *block = (const uint8_t *)set->line[j] + part * PART / numbers * bytes;
        factor[j] = half_at(block + factor_at(storage));
        least_factor[j] = half_at(block + factor_at(storage) + (has_least(storage) ? 2 : 0));
        integers.line[j] = (const char *)&scales[j];
        if (groups == BLOCK_GROUPS)
            read_block_scales(storage, block, &scales[j]);
    }
    scale_groups(groups, &integers, offsetof(block_scales, scale), float16_lanes(factor), set->part_scale + 2 * part);
    if (has_least(storage))
        scale_groups(groups, &integers, offsetof(block_scales, least),
                     float16_lanes(least_factor) * vec_broadcast(least_factor_of(storage, 1)),
                     set->part_least + 2 * part);
    else
        memset(set->part_least + 2 * part, 0, (size_t)groups * sizeof *set->part_least);
}

#define READ(dtype, name, numbers)                                                                                     \
    static void part_scales_of_##name(column_set *set, int64_t parts)                                                  \
    {                                                                                                                  \
        for (int64_t part = 0; part < parts; part += (numbers) / PART)                                                 \
            read_scales_of_block(dtype, numbers, dtype##_BYTES, set, part);                                            \
    }                                                                                                                  \
    static void part_numbers_of_##name(const column_set *set, int64_t part, int64_t near, part_bytes *number)          \
    {                                                                                                                  \
        for (int j = 0; j < TH_REGISTER_LANES; j++) {                                                                  \
            const char *block = set->line[j] + part * PART / (numbers)*dtype##_BYTES;                                  \
            prefetch_near(set, j, near);                                                                               \
            number[j] = read_numbers(dtype, (const uint8_t *)block, (int)(part % ((numbers) / PART)));                 \
        }                                                                                                              \
    }

TH_BLOCK_FORMATS(READ)

#define SCALES_CASE(dtype, name, numbers)                                                                              \
    case dtype:                                                                                                        \
        part_scales_of_##name(set, parts);                                                                             \
        break;
#define NUMBERS_CASE(dtype, name, numbers)                                                                             \
    case dtype:                                                                                                        \
        part_numbers_of_##name(set, part, near, number);                                                               \
        break;

/* Reads the scales of all parts. */
static void read_part_scales(int storage, column_set *set, int64_t parts)
{
    switch (storage) {
        TH_BLOCK_FORMATS(SCALES_CASE)
    default:
        break;
    }
}

/* Reads the raw numbers of a part of each column. */
static void read_part_numbers(int storage, const column_set *set, int64_t part, int64_t near, part_bytes *number)
{
    switch (storage) {
        TH_BLOCK_FORMATS(NUMBERS_CASE)
    default: /* (not reached; else gcc would warn that `number` may be uninitialized) */
        __builtin_unreachable();
    }
}

/* Writes a part to the panel. */
TH_INLINE void use_part(int storage, const column_use *use, int64_t step)
{
    const vec offset = vec_broadcast(0x1p15F + (float)offset_of(storage));
    for (int g = 0; g < use->groups; g++) {
        const column_set *set = &use->set[g];
        part_bytes number[TH_REGISTER_LANES];
        column_set numbers;
        vec unit[2 * QUAD];
        read_part_numbers(storage, set, step / PART, use->near, number);
        for (int j = 0; j < TH_REGISTER_LANES; j++)
            numbers.line[j] = (const char *)&number[j];
        load_units(&numbers, 0, 0, unit);
        UNROLLED_FOR (int i = 0; i < 2 * QUAD; i++) {
            const vec scale = vec_load(set->part_scale[step / HALF_PART + i / QUAD]);
            const vec least = vec_load(set->part_least[step / HALF_PART + i / QUAD]);
            UNROLLED_FOR (int j = 0; j < 4; j++) {
                const vec raw = (vec)choose_bits(move_byte(unit[i], j), 0xff00, 0x47000000);
                use_column(use, g, step + 4 * i + j, vec_mul_add(raw - offset, scale, -least));
            }
        }
    }
}

#undef READ
#undef SCALES_CASE
#undef NUMBERS_CASE

#endif

#endif
