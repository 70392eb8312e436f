/* Loads columns of B, one register of columns at a time. The steps of k of a column are contiguous in memory. Squares
 * are transposed in registers, so that a lane is a column. In float32, B may have a storage type. Then units of 32
 * bits, which hold 1 to 8 numbers, are transposed, and each step is widened when it is used. Every number has the value
 * that storage_load computes. */
#ifndef TH_KERNELS_PRODUCTS_VECTOR_LOAD_COLUMNS_H
#define TH_KERNELS_PRODUCTS_VECTOR_LOAD_COLUMNS_H

#include "kernels/products/product.h"
#include "kernels/products/vector/product.h"
#include "kernels/vector/registers.h"
#include "kernels/vector/transpose.h"
#include "tapehead/base.h"

enum {
    PLAIN = -1,                           /* numbers of this instance's type; otherwise a storage type */
    PLAIN_STEPS = 64 / (int)sizeof(real), /* steps of a plain chunk: a cache line of each column */
    CHUNK_STEPS = 32,                     /* of a chunk with a storage type */
    GROUPS = 2,                           /* registers of columns that are loaded together: a panel */
    MOST_BLOCKS = TH_PRODUCT_BLOCK / TH_BLOCK_NUMBERS
};

/* A register of columns. Lanes after the last column repeat it. */
typedef struct column_set {
    const char *line[TH_REGISTER_LANES]; /* the first step of each column */
#if TH_STORED
    uint16_t scale[MOST_BLOCKS][TH_REGISTER_LANES]; /* of each block of 32 steps */
    /* Of each 16 steps, for load_parts.h. */
    float part_scale[2 * MOST_BLOCKS][TH_REGISTER_LANES], part_least[2 * MOST_BLOCKS][TH_REGISTER_LANES];
#endif
} column_set;

/* What to do with loaded steps: add their products to sums, or write them to a panel. */
typedef struct column_use {
    int groups;            /* registers of columns */
    const column_set *set; /* [groups] */
    int rows;              /* of the sums; 0: write to the panel */
    const real *a;
    int64_t a_row, a_col;
    vec (*sum)[TILE_ROWS]; /* [groups][rows] */
    real *panel;           /* (steps, TILE_COLUMNS) */
    int64_t panel_step;    /* the first step of the panel */
    int64_t near;          /* bytes from the first step of each column to a cache line to prefetch; 0: none */
} column_use;

/* Prefetches a cache line of a column. Call it between the loads of the columns. Before or after all of them, memory
 * was read at three quarters of the speed. */
TH_INLINE void prefetch_near(const column_set *set, int j, int64_t near)
{
    if (near != 0)
        __builtin_prefetch(set->line[j] + near);
}

TH_INLINE void use_column(const column_use *use, int g, int64_t step, vec column)
{
    if (use->rows == 0)
        *(vec *)(use->panel + (step - use->panel_step) * TILE_COLUMNS + g * TH_REGISTER_LANES) = column;
    UNROLLED_FOR (int i = 0; i < use->rows; i++)
        use->sum[g][i] += (use->a[i * use->a_row + step * use->a_col] - (vec){0}) * column;
}

/* -- units -- */

typedef real quad __attribute__((vector_size(16), aligned(TH_REAL_BITS / 8), may_alias));

/* 16 bytes of every QUAD-th column from `first` on. */
TH_INLINE vec load_quads(const column_set *set, int first, int64_t offset, int64_t near)
{
    UNROLLED_FOR (int j = first; j < TH_REGISTER_LANES; j += QUAD)
        prefetch_near(set, j, near);
#if TH_VECTOR_BYTES == 64
    typedef __m128i sixteen_bytes;
    const __m512i a = _mm512_castsi128_si512(_mm_loadu_si128((const sixteen_bytes *)(set->line[first] + offset)));
    const __m512i b = _mm512_mask_broadcast_i32x4(
        a, 0x00f0, _mm_loadu_si128((const sixteen_bytes *)(set->line[first + QUAD] + offset)));
    const __m512i c = _mm512_mask_broadcast_i32x4(
        b, 0x0f00, _mm_loadu_si128((const sixteen_bytes *)(set->line[first + 2 * QUAD] + offset)));
    return (vec)_mm512_mask_broadcast_i32x4(
        c, 0xf000, _mm_loadu_si128((const sixteen_bytes *)(set->line[first + 3 * QUAD] + offset)));
#elif TH_VECTOR_BYTES == 32
    const __m128i *low = (const __m128i *)(set->line[first] + offset);
    const __m128i *high = (const __m128i *)(set->line[first + QUAD] + offset);
    return (vec)_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
#else
    return *(const vec *)(set->line[first] + offset);
#endif
}

/* Loads QUAD units of each column. Lane j of unit[s] is unit s of column j. */
TH_INLINE void load_quad_units(const column_set *set, int64_t offset, int64_t near, vec *unit)
{
    UNROLLED_FOR (int s = 0; s < QUAD; s++)
        unit[s] = load_quads(set, s, offset, near);
    transpose_quads(unit, QUAD);
}

#if TH_VECTOR_BYTES == 64

/* Loads `units` units of each column, 2 QUAD or 4 QUAD. */
TH_INLINE void load_more_units(const column_set *set, int64_t offset, int64_t near, int units, vec *unit)
{
    UNROLLED_FOR (int j = 0; j < 2 * QUAD; j++) {
        const int first = j / QUAD * 2 * QUAD + j % QUAD;
        prefetch_near(set, first, near);
        prefetch_near(set, first + QUAD, near);
        UNROLLED_FOR (int half = 0; half < units / (2 * QUAD); half++) {
            const __m256i *low = (const __m256i *)(set->line[first] + offset) + half;
            const __m256i *high = (const __m256i *)(set->line[first + QUAD] + offset) + half;
            unit[half * 2 * QUAD + j] =
                (vec)_mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(low)), _mm256_loadu_si256(high), 1);
        }
    }
    transpose_quads(unit, units);
    UNROLLED_FOR (int half = 0; half < units; half += 2 * QUAD)
        UNROLLED_FOR (int s = 0; s < QUAD; s++)
            swap_quads(&unit[half + s], &unit[half + QUAD + s]);
}

#endif

/* Loads 2 QUAD units of each column. */
TH_INLINE void load_units(const column_set *set, int64_t offset, int64_t near, vec *unit)
{
#if TH_VECTOR_BYTES == 64
    load_more_units(set, offset, near, 2 * QUAD, unit);
#else
    load_quad_units(set, offset, near, unit);
    load_quad_units(set, offset + 16, 0, unit + QUAD);
#endif
}

/* Units of two registers of columns. Their steps alternate, because the additions of one sum wait for each other. */
typedef vec column_units[GROUPS][2 * QUAD];

#if TH_VECTOR_BYTES == 64

/* Loads a whole cache line of each column in one register of columns, then the next register. If the columns are a
 * multiple of 4096 bytes apart, their lines compete for 8 places in the cache, so half a line would not stay there. */
TH_INLINE void use_plain_chunk(const column_use *use, int64_t step)
{
    UNROLLED_FOR (int g = 0; g < use->groups; g++) {
        vec unit[PLAIN_STEPS];
        load_more_units(&use->set[g], step * (int64_t)sizeof(real), use->near, PLAIN_STEPS, unit);
        UNROLLED_FOR (int i = 0; i < PLAIN_STEPS; i++)
            use_column(use, g, step + i, unit[i]);
    }
}

#else

TH_INLINE void use_plain_chunk(const column_use *use, int64_t step)
{
    UNROLLED_FOR (int part = 0; part < PLAIN_STEPS; part += 2 * QUAD) {
        column_units unit;
        UNROLLED_FOR (int g = 0; g < use->groups; g++)
            load_units(&use->set[g], (step + part) * (int64_t)sizeof(real), part == 0 ? use->near : 0, unit[g]);
        UNROLLED_FOR (int i = 0; i < 2 * QUAD; i++)
            UNROLLED_FOR (int g = 0; g < use->groups; g++)
                use_column(use, g, step + part + i, unit[g][i]);
    }
}

#endif

#if TH_STORED

/* -- numbers of 16 bits -- */

typedef uint32_t vec_bits __attribute__((vector_size(TH_VECTOR_BYTES), aligned(4), may_alias));

/* The float16 numbers in the low halves of the lanes. */
TH_INLINE vec float16_values(vec_bits number)
{
#if TH_VECTOR_BYTES == 64
    return (vec)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)number));
#elif TH_VECTOR_BYTES == 32
    const __m256i twice = _mm256_packus_epi32((__m256i)number, (__m256i)number);
    return (vec)_mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(twice, 0x08)));
#else
    const vec_bits rest = number & 0x7fff, shifted = rest << 13;
    const vec denormal = (vec)(shifted | 113u << 23) - (vec)((vec_bits){0} + (113u << 23));
    const vec_bits is_special = (vec_bits)(rest >= 0x7c00), is_nan = (vec_bits)(rest > 0x7c00);
    const vec_bits normal = shifted + (112u << 23);
    const vec_bits special = shifted | 0x7f800000 | (is_nan & 0x400000);
    const vec_bits is_denormal = (vec_bits)(rest < 0x400);
    const vec_bits finite = (is_denormal & (vec_bits)denormal) | (~is_denormal & normal);
    return (vec)((number & 0x8000) << 16 | (is_special & special) | (~is_special & finite));
#endif
}

/* One float16 number for each lane. */
TH_INLINE vec float16_lanes(const uint16_t *number)
{
    typedef uint16_t halves __attribute__((vector_size(TH_VECTOR_BYTES / 2), aligned(2), may_alias));
    return float16_values(__builtin_convertvector(*(const halves *)number, vec_bits));
}

TH_INLINE vec half_values(int storage, vec_bits number)
{
    return storage == TH_BFLOAT16 ? (vec)(number << 16) : float16_values(number & 0xffff);
}

/* Number `which` of a pair. */
TH_INLINE vec half_of(int storage, vec pair, int which)
{
    const vec_bits bits = (vec_bits)pair;
    if (which == 0)
        return half_values(storage, bits);
    return storage == TH_BFLOAT16 ? (vec)(bits & 0xffff0000) : float16_values(bits >> 16);
}

#if TH_VECTOR_BYTES == 64

/* Whole cache lines, as in use_plain_chunk. */
TH_INLINE void use_half_chunk(int storage, const column_use *use, int64_t step)
{
    UNROLLED_FOR (int g = 0; g < use->groups; g++) {
        vec unit[CHUNK_STEPS / 2];
        load_more_units(&use->set[g], 2 * step, use->near, CHUNK_STEPS / 2, unit);
        UNROLLED_FOR (int i = 0; i < CHUNK_STEPS; i++)
            use_column(use, g, step + i, half_of(storage, unit[i / 2], i % 2));
    }
}

#else

TH_INLINE void use_half_chunk(int storage, const column_use *use, int64_t step)
{
    UNROLLED_FOR (int part = 0; part < CHUNK_STEPS; part += 4 * QUAD) {
        column_units unit;
        UNROLLED_FOR (int g = 0; g < use->groups; g++)
            load_units(&use->set[g], 2 * (step + part), part == 0 ? use->near : 0, unit[g]);
        UNROLLED_FOR (int i = 0; i < 4 * QUAD; i++)
            UNROLLED_FOR (int g = 0; g < use->groups; g++)
                use_column(use, g, step + part + i, half_of(storage, unit[g][i / 2], i % 2));
    }
}

#endif

/* Whether block_parts.h reads the type (load_parts.h). */
TH_INLINE bool has_parts(int storage)
{
    return storage != PLAIN && storage > TH_Q4_0;
}

/* -- blocks --
 *
 * A number of a block, moved to bits 8 to 15 (or 12 to 15) of a unit, is made the fraction of a float: 2^15 + number
 * (or 2^11 + number). The weight is scale times the number without this offset. It is exact. Fused multiply-add
 * computes it in one operation, because scale times the offset is exact too, with 24 bits at most. That would give
 * other zeros, or NaN, if the scale is negative, zero or not finite. */

/* (x & mask) ^ bits */
TH_INLINE vec_bits choose_bits(vec_bits x, uint32_t mask, uint32_t bits)
{
#if TH_VECTOR_BYTES == 64
    return (vec_bits)_mm512_ternarylogic_epi32((__m512i)x, _mm512_set1_epi32((int)mask), _mm512_set1_epi32((int)bits),
                                               0x6a);
#else
    return (x & mask) ^ bits;
#endif
}

/* The scales of one block of each column. */
TH_INLINE vec scales_at(const column_set *set, int64_t step)
{
    return float16_lanes(set->scale[step / TH_BLOCK_NUMBERS]);
}

static const float q8_0_offset = 0x1p15F + 128, q4_0_offsets[2] = {0x1p15F + 8, 0x1p11F + 8};

/* Moves byte j of each unit to bits 8 to 15. */
TH_INLINE vec_bits move_byte(vec unit, int j)
{
    const vec_bits four = (vec_bits)unit;
    return j == 0 ? four << 8 : j == 1 ? four : j == 2 ? four >> 8 : four >> 16;
}

/* usual: fused multiply-add gives the exact weight for all columns, as all scales are positive and finite. */
TH_INLINE void use_q8_0_chunk(bool usual, const column_use *use, int64_t step)
{
    column_units unit;
    vec scale[GROUPS], shift[GROUPS];
    UNROLLED_FOR (int g = 0; g < use->groups; g++) {
        load_units(&use->set[g], step / TH_BLOCK_NUMBERS * (int64_t)sizeof(th_q8_0) + 2, use->near, unit[g]);
        scale[g] = scales_at(&use->set[g], step);
        shift[g] = vec_rounded(scale[g] * vec_broadcast(-q8_0_offset));
    }
    UNROLLED_FOR (int i = 0; i < 2 * QUAD; i++)
        UNROLLED_FOR (int j = 0; j < 4; j++) {
            UNROLLED_FOR (int g = 0; g < use->groups; g++) {
                const vec number = (vec)choose_bits(move_byte(unit[g][i], j), 0xff00, 0x47000000 | 0x8000);
                const vec weight = usual ? vec_mul_add(number, scale[g], shift[g])
                                         : vec_rounded((number - vec_broadcast(q8_0_offset)) * scale[g]);
                use_column(use, g, step + 4 * i + j, weight);
            }
        }
}

/* The scale of most blocks of TH_Q4_0 is negative for some columns of a panel, so none is treated as usual. */
TH_INLINE void use_q4_0_chunk(const column_use *use, int64_t step)
{
    vec unit[GROUPS][QUAD], scale[GROUPS];
    UNROLLED_FOR (int g = 0; g < use->groups; g++) {
        load_quad_units(&use->set[g], step / TH_BLOCK_NUMBERS * (int64_t)sizeof(th_q4_0) + 2, use->near, unit[g]);
        scale[g] = scales_at(&use->set[g], step);
    }
    UNROLLED_FOR (int high = 0; high < 2; high++)
        UNROLLED_FOR (int i = 0; i < QUAD; i++)
            UNROLLED_FOR (int j = 0; j < 4; j++) {
                const int at = TH_BLOCK_NUMBERS / 2 * high + 4 * i + j;
                UNROLLED_FOR (int g = 0; g < use->groups; g++) {
                    const vec number = (vec)choose_bits(move_byte(unit[g][i], j), high ? 0xf000 : 0x0f00,
                                                        high ? 0x45000000 : 0x47000000);
                    use_column(use, g, step + at, vec_rounded((number - vec_broadcast(q4_0_offsets[high])) * scale[g]));
                }
            }
}

/* Reads the scales of `blocks` blocks. Returns whether all are positive and finite. (Without the empty statements
 * compilers collect the scales in registers, with shuffles, which already limit the speed.) */
TH_INLINE bool read_scales(column_set *set, int64_t blocks, int64_t block_bytes)
{
    uint32_t largest = 0;
    for (int64_t b = 0; b < blocks; b++)
        UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++) {
            uint16_t scale;
            memcpy(&scale, set->line[j] + b * block_bytes, sizeof scale);
            set->scale[b][j] = scale;
            const uint32_t less = scale - 1u;
            largest = less > largest ? less : largest;
            __asm__ volatile("" ::: "memory");
        }
    return TH_FUSED && largest < 0x7bff;
}

#endif

/* -- any type -- */

TH_INLINE int64_t chunk_steps(int storage)
{
    return storage == PLAIN ? PLAIN_STEPS : CHUNK_STEPS;
}

/* Returns the bytes of these steps of a column: whole blocks. */
TH_INLINE int64_t steps_bytes(int storage, int64_t steps)
{
    return storage == PLAIN     ? steps * (int64_t)sizeof(real)
           : storage == TH_Q8_0 ? steps / TH_BLOCK_NUMBERS * (int64_t)sizeof(th_q8_0)
           : storage == TH_Q4_0 ? steps / TH_BLOCK_NUMBERS * (int64_t)sizeof(th_q4_0)
#if TH_STORED
           : has_parts(storage)
               ? steps * (int64_t)th_dtype_size((th_dtype)storage) / th_dtype_numbers((th_dtype)storage)
#endif
               : steps * 2;
}

/* Uses all steps of a chunk, in order. usual: what prepare_columns returned for all groups. */
TH_INLINE void use_chunk(int storage, bool usual, const column_use *use, int64_t step)
{
    if (storage == PLAIN)
        use_plain_chunk(use, step);
#if TH_STORED
    else if (storage == TH_Q8_0)
        use_q8_0_chunk(usual, use, step);
    else if (storage == TH_Q4_0)
        use_q4_0_chunk(use, step);
    else
        use_half_chunk(storage, use, step);
#endif
    (void)usual;
}

/* Uses one step. Blocks have no step outside a chunk. */
TH_INLINE void use_step(int storage, const column_use *use, int64_t step)
{
    UNROLLED_FOR (int g = 0; g < use->groups; g++) {
        const column_set *set = &use->set[g];
        if (storage == PLAIN) {
            real column[TH_REGISTER_LANES];
            for (int j = 0; j < TH_REGISTER_LANES; j++)
                column[j] = *(const real *)(set->line[j] + step * (int64_t)sizeof(real));
            use_column(use, g, step, *(const vec *)column);
        }
#if TH_STORED
        else {
            uint32_t column[TH_REGISTER_LANES];
            for (int j = 0; j < TH_REGISTER_LANES; j++)
                column[j] = *(const uint16_t *)(set->line[j] + 2 * step);
            use_column(use, g, step, half_values(storage, *(const vec_bits *)column));
        }
#endif
    }
}

/* Sets the lines of `columns` columns, and reads the scales of blocks. */
TH_INLINE bool prepare_columns(int storage, column_set *set, const char *base, int64_t line_bytes, int64_t columns,
                               int64_t steps)
{
    if (columns >= TH_REGISTER_LANES)
        for (int64_t j = 0; j < TH_REGISTER_LANES; j++)
            set->line[j] = base + j * line_bytes;
    else
        for (int64_t j = 0; j < TH_REGISTER_LANES; j++)
            set->line[j] = base + (j < columns ? j : columns - 1) * line_bytes;
#if TH_STORED
    if (storage == TH_Q8_0 || storage == TH_Q4_0)
        return read_scales(set, steps / TH_BLOCK_NUMBERS,
                           (int64_t)(storage == TH_Q8_0 ? sizeof(th_q8_0) : sizeof(th_q4_0))) ||
               storage == TH_Q4_0;
#endif
    (void)storage, (void)steps;
    return true;
}

#endif
