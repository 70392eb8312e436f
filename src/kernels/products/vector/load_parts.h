/* Loads columns of the types that block_parts.h reads. First the raw numbers of a part of each column are copied, as
 * bytes. Then they are transposed, widened and scaled, in the same way for all types. */
#ifndef TH_KERNELS_PRODUCTS_VECTOR_LOAD_PARTS_H
#define TH_KERNELS_PRODUCTS_VECTOR_LOAD_PARTS_H

#include "kernels/products/vector/load_columns.h"
#include "kernels/storage/vector/block_parts.h"

#if TH_STORED

#define READ(dtype, name, numbers)                                                                                     \
    static void part_scales_of_##name(column_set *set, int64_t parts)                                                  \
    {                                                                                                                  \
        for (int j = 0; j < TH_REGISTER_LANES; j++)                                                                    \
            for (int64_t part = 0; part < parts; part += (numbers) / PART) {                                           \
                float_scales of;                                                                                       \
                const char *block = set->line[j] + part * PART / (numbers)*dtype##_BYTES;                              \
                read_float_scales(dtype, (const uint8_t *)block, (numbers) / HALF_PART, &of);                          \
                for (int64_t g = 0; g < (numbers) / HALF_PART; g++) {                                                  \
                    set->part_scale[2 * part + g][j] = of.scale[g];                                                    \
                    set->part_least[2 * part + g][j] = of.least[g];                                                    \
                }                                                                                                      \
            }                                                                                                          \
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
