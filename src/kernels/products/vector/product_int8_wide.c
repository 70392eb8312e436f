/* Multiplies rounded rows of A by blocks of 256 numbers (product_int8.h). All sums within a block are integers, so they
 * are exact in any order. One row is multiplied by the blocks in place. For several rows a register of columns is
 * transposed first, so that a lane is a column. */
#include "kernels/products/product_int8.h"

#include "kernels/product_block.h"
#include "kernels/products/vector/int8_sums.h"
#include "kernels/products/vector/load_columns.h"
#include "kernels/storage/vector/block_parts.h"

#if TH_STORED

enum {
    WIDE_UNITS = TH_INT8_WIDE / 4,
    WIDE_PARTS = TH_INT8_WIDE / PART,
    WIDE_TILE_ROWS = TH_VECTOR_REGISTERS == 32 ? 8 : 4, /* rows of a tile: its sums stay in registers */
    WIDE_PANEL_ROWS = 4,                                /* fewer rows are multiplied one by one */
    WIDE_AHEAD_BYTES = 768                              /* of each column, prefetched before they are used */
};

typedef uint8_t raw_bytes __attribute__((vector_size(TH_VECTOR_BYTES), aligned(1), may_alias));

/* Whether the numbers without their offset are multiplied. They can be negative, but raw numbers would be too large. */
TH_INLINE bool is_signed(int storage)
{
    return storage == TH_IQ4_XS;
}

/* -- sums of products --
 *
 * partial_products multiplies bytes: lanes of 16 bits have sums of two products, or lanes of 32 bits sums of four. Some
 * of these vectors may be added. add_scaled multiplies them by a scale, which is twice in 32 bits. */

#if TH_VECTOR_BYTES > 16

/* Whether both groups of a part have the same scale. */
TH_INLINE bool has_part_scales(int storage)
{
    return storage == TH_Q4_K || storage == TH_Q5_K || storage == TH_IQ4_XS;
}

typedef int16_t vec_partial __attribute__((vector_size(TH_VECTOR_BYTES), may_alias));

TH_INLINE __m256i products_32(bool with_sign, part_bytes weight, part_bytes x)
{
    const __m256i w = (__m256i)(weight ^ (uint8_t)(with_sign ? 128 : 0));
    return with_sign ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8((__m256i)x, w))
                     : _mm256_maddubs_epi16(w, (__m256i)x);
}

TH_INLINE vec_partial partial_products(bool with_sign, raw_bytes weight, raw_bytes x)
{
#if TH_VECTOR_BYTES == 64
    if (!with_sign)
        return (vec_partial)_mm512_maddubs_epi16((__m512i)weight, (__m512i)x);
    const __m512i w = (__m512i)(weight ^ 128);
    const __m512i signed_x =
        _mm512_mask_sub_epi8((__m512i)x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), (__m512i)x);
    return (vec_partial)_mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x);
#else
    return (vec_partial)products_32(with_sign, weight, x);
#endif
}

TH_INLINE vec_int add_scaled(vec_int sum, vec_partial products, vec_int scale)
{
    return sum + sums_of_pairs((vec_int)products, scale);
}

/* *sum: numbers times scales. *least: x times least numbers, if the type has them. */
TH_INLINE void multiply_block(int storage, const uint8_t *block, const th_int8_wide *x, block_sum *sum,
                              block_sum *least)
{
    const __m256i of_groups = _mm256_loadu_si256((const __m256i *)x->sums);
    const __m256i both = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3,
                                          2, 3, 2, 3, 2, 3);
    block_scales scales;
    read_block_scales(storage, block, &scales);
    __m256i total = _mm256_setzero_si256();
    UNROLLED_FOR (int part = 0; part < WIDE_PARTS; part++) {
        const part_bytes numbers = *(const part_bytes *)(x->number + part * PART);
        const __m256i products = products_32(is_signed(storage), read_numbers(storage, block, part), numbers);
        int32_t pair;
        memcpy(&pair, scales.scale + 2 * part, sizeof pair);
        const __m256i scale = _mm256_set1_epi32(pair);
        total = _mm256_add_epi32(
            total, _mm256_madd_epi16(products, has_part_scales(storage) ? scale : _mm256_shuffle_epi8(scale, both)));
    }
    if (offset_of(storage) != 0 && !is_signed(storage)) {
        const __m256i sums = _mm256_madd_epi16(of_groups, _mm256_load_si256((const __m256i *)scales.scale));
        total = _mm256_sub_epi32(total, _mm256_mullo_epi32(sums, _mm256_set1_epi32(offset_of(storage))));
    }
    *sum = total;
    if (has_least(storage))
        *least = _mm256_madd_epi16(of_groups, _mm256_load_si256((const __m256i *)scales.least));
}

#else

typedef vec_int vec_partial;

TH_INLINE vec_int partial_products(bool with_sign, raw_bytes weight, raw_bytes x)
{
    typedef int8_t half __attribute__((vector_size(8)));
    typedef int16_t products __attribute__((vector_size(16)));
    const raw_bytes numbers = weight ^ (uint8_t)(with_sign ? 128 : 0);
    vec_int twos[2];
    UNROLLED_FOR (int i = 0; i < 2; i++) {
        half a, b;
        memcpy(&a, (const char *)&numbers + 8 * i, sizeof a);
        memcpy(&b, (const char *)&x + 8 * i, sizeof b);
        const vec_int pair = (vec_int)(__builtin_convertvector(a, products) * __builtin_convertvector(b, products));
        twos[i] = (pair << 16 >> 16) + (pair >> 16);
    }
    return vec_shuffle(twos[0], twos[1], 0, 2, 4, 6) + vec_shuffle(twos[0], twos[1], 1, 3, 5, 7);
}

TH_INLINE vec_int add_scaled(vec_int sum, vec_int products, vec_int scale)
{
    return sum + products * (scale >> 16);
}

TH_INLINE void multiply_block(int storage, const uint8_t *block, const th_int8_wide *x, block_sum *sum,
                              block_sum *least)
{
    block_scales scales;
    read_block_scales(storage, block, &scales);
    const int offset = is_signed(storage) ? 0 : offset_of(storage);
    vec_int total = {0};
    *sum = *least = 0;
    UNROLLED_FOR (int part = 0; part < WIDE_PARTS; part++) {
        const part_bytes numbers = read_numbers(storage, block, part);
        for (int g = 2 * part; g < 2 * part + 2; g++) {
            const raw_bytes weight = *(const raw_bytes *)((const char *)&numbers + g % 2 * HALF_PART);
            const raw_bytes of_x = *(const raw_bytes *)(x->number + g * HALF_PART);
            total += partial_products(is_signed(storage), weight, of_x) * scales.scale[g];
            *sum -= offset * scales.scale[g] * x->sums[g];
            if (has_least(storage))
                *least += scales.least[g] * x->sums[g];
        }
    }
    *sum += total[0] + total[1] + total[2] + total[3];
}

#endif

/* -- one row -- */

/* Multiplies one row by some columns. */
TH_INLINE void one_row(int storage, int64_t bytes, const th_int8_product *p, int64_t row, int64_t j, int64_t apart,
                       int64_t columns)
{
    const int64_t blocks = p->k / TH_INT8_WIDE;
    const th_int8_wide *a = (const th_int8_wide *)p->a + row;
    const uint8_t *line[TH_REGISTER_LANES];
    vec sum = {0};
    for (int64_t s = 0; s < TH_REGISTER_LANES; s++)
        line[s] = (const uint8_t *)p->b + (j + (s < columns ? s : columns - 1) * apart) * p->b_bytes;
    for (int64_t b = 0; b < blocks; b++) {
        block_sum total[TH_REGISTER_LANES], least[TH_REGISTER_LANES];
        uint16_t factor[TH_REGISTER_LANES], least_factor[TH_REGISTER_LANES];
        for (int s = 0; s < TH_REGISTER_LANES; s++) { /* long before a register loads them: it waits for these stores */
            factor[s] = half_at(line[s] + b * bytes + factor_at(storage));
            least_factor[s] = half_at(line[s] + b * bytes + factor_at(storage) + (has_least(storage) ? 2 : 0));
        }
        for (int s = 0; s < TH_REGISTER_LANES; s++) {
            const uint8_t *block = line[s] + b * bytes;
            for (int64_t at = 0; at < bytes; at += 64)
                __builtin_prefetch(block + WIDE_AHEAD_BYTES + at);
            multiply_block(storage, block, a + b * p->m, total + s, least + s);
        }
        sum = add_integers(sum, a[b * p->m].scale, float16_lanes(factor), sums_of_columns(total));
        if (has_least(storage))
            sum = add_integers(sum, -a[b * p->m].scale, float16_lanes(least_factor), sums_of_columns(least));
    }
    write_columns(p, row, j, apart, columns, sum);
}

/* -- several rows -- */

/* A block of a register of columns. */
typedef struct wide_panel {
    raw_bytes number[WIDE_UNITS];   /* four numbers of each column */
    vec_int scale[BLOCK_GROUPS];    /* of each group, twice in 32 bits */
    vec_int pair[BLOCK_GROUPS / 2]; /* the scales, or least numbers, of two groups */
    vec factor, least_factor;
    int offset; /* of the numbers */
    bool with_least;
} wide_panel;

/* The same of one column. */
typedef struct wide_column {
    uint8_t number[TH_INT8_WIDE];
    block_scales scales;
} wide_column;

TH_INLINE void load_wide_column(int storage, const uint8_t *block, wide_column *to)
{
    UNROLLED_FOR (int part = 0; part < WIDE_PARTS; part++)
        *(part_bytes *)(to->number + part * PART) = read_numbers(storage, block, part);
    read_block_scales(storage, block, &to->scales);
}

static void transpose_panel(const column_set *set, wide_panel *to)
{
    vec unit[2 * QUAD];
    for (int at = 0; at < TH_INT8_WIDE / PART; at++) {
        load_units(set, at * PART, 0, unit);
        memcpy(to->number + 2 * QUAD * at, unit, sizeof unit);
    }
    load_units(set, offsetof(wide_column, scales.scale), 0, unit);
    UNROLLED_FOR (int i = 0; i < 2 * QUAD; i++) {
        const vec_int pair = (vec_int)unit[i];
        to->scale[2 * i] = (pair & 0xffff) | pair << 16;
        to->scale[2 * i + 1] = (pair >> 16 & 0xffff) | (pair & -0x10000);
    }
    if (to->with_least)
        load_units(set, offsetof(wide_column, scales.least), 0, unit);
    memcpy(to->pair, unit, sizeof unit);
}

/* Loads one block of some columns. The last column fills the register. */
TH_INLINE void load_panel(int storage, const uint8_t *block, int64_t line_bytes, int64_t columns, wide_panel *to)
{
    wide_column column[TH_REGISTER_LANES];
    column_set set;
    uint16_t factor[TH_REGISTER_LANES], least_factor[TH_REGISTER_LANES];
    for (int j = 0; j < TH_REGISTER_LANES; j++) {
        const uint8_t *from = block + (j < columns ? j : columns - 1) * line_bytes;
        load_wide_column(storage, from, &column[j]);
        set.line[j] = (const char *)&column[j];
        factor[j] = half_at(from + factor_at(storage));
        least_factor[j] = half_at(from + factor_at(storage) + (has_least(storage) ? 2 : 0));
    }
    to->offset = is_signed(storage) ? 0 : offset_of(storage);
    to->with_least = has_least(storage);
    transpose_panel(&set, to);
    to->factor = float16_lanes(factor);
    to->least_factor = float16_lanes(least_factor);
}

/* Adds the products of `rows` rows and a panel. units: of partial products that are added. */
TH_INLINE void add_wide_rows(int rows, int units, bool with_sign, const wide_panel *w, const th_int8_wide *a, vec *sum)
{
    vec_int total[WIDE_TILE_ROWS], other[WIDE_TILE_ROWS];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        total[i] = other[i] = (vec_int){0};
    for (int unit = 0; unit < WIDE_UNITS; unit += units) {
        vec_partial products[WIDE_TILE_ROWS];
        UNROLLED_FOR (int u = 0; u < units; u++)
            UNROLLED_FOR (int i = 0; i < rows; i++) {
                const raw_bytes x = (raw_bytes)four_bytes(a[i].number + 4 * (unit + u));
                const vec_partial more = partial_products(with_sign, w->number[unit + u], x);
                products[i] = (vec_partial)in_order((vec_int)(u == 0 ? more : (vec_partial)(products[i] + more)));
            }
        UNROLLED_FOR (int i = 0; i < rows; i++)
            total[i] = add_scaled(total[i], products[i], w->scale[unit / 4]);
    }
    for (int pair = 0; pair < BLOCK_GROUPS / 2 && (w->offset != 0 || w->with_least); pair++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            other[i] += sums_of_pairs(w->pair[pair], four_bytes(a[i].sums + 2 * pair));
    UNROLLED_FOR (int i = 0; i < rows; i++) {
        sum[i] = add_integers(sum[i], a[i].scale, w->factor, total[i] - w->offset * other[i]);
        if (w->with_least)
            sum[i] = add_integers(sum[i], -a[i].scale, w->least_factor, other[i]);
    }
}

/* Adds the products of all rows and a panel. */
TH_INLINE void add_wide_panel(int units, bool with_sign, const wide_panel *w, const th_int8_wide *a, int64_t rows,
                              vec *sum)
{
    int64_t row = 0;
    for (; row + WIDE_TILE_ROWS <= rows; row += WIDE_TILE_ROWS)
        add_wide_rows(WIDE_TILE_ROWS, units, with_sign, w, a + row, sum + row);
    for (; row < rows; row++)
        add_wide_rows(1, units, with_sign, w, a + row, sum + row);
}

typedef void panel_function(const wide_panel *w, const th_int8_wide *a, int64_t rows, vec *sum);

#define PANEL(name, units, with_sign)                                                                                  \
    static void multiply_panel_##name(const wide_panel *w, const th_int8_wide *a, int64_t rows, vec *sum)              \
    {                                                                                                                  \
        add_wide_panel(units, with_sign, w, a, rows, sum);                                                             \
    }

PANEL(4, 4, false)
PANEL(signed, TH_VECTOR_BYTES > 16 ? 1 : 4, true)
#if TH_VECTOR_BYTES > 16
PANEL(2, 2, false)
PANEL(8, 8, false)
#endif

/* Returns the function that adds as many partial products as possible: their scale is the same, and 16 bits hold
 * them. */
TH_INLINE panel_function *find_panel_function(int storage)
{
    if (is_signed(storage))
        return multiply_panel_signed;
#if TH_VECTOR_BYTES > 16
    if (storage == TH_Q4_K || storage == TH_Q6_K)
        return storage == TH_Q4_K ? multiply_panel_8 : multiply_panel_2;
#endif
    return multiply_panel_4;
}

/* Multiplies all rows by a register of columns. */
TH_INLINE void all_rows(int storage, int64_t bytes, const th_int8_product *p, int64_t j, int64_t columns)
{
    const int64_t blocks = p->k / TH_INT8_WIDE;
    vec sum[TH_INT8_MOST_ROWS];
    for (int64_t i = 0; i < p->m; i++)
        sum[i] = (vec){0};
    for (int64_t b = 0; b < blocks; b++) {
        wide_panel panel;
        load_panel(storage, (const uint8_t *)p->b + j * p->b_bytes + b * bytes, p->b_bytes, columns, &panel);
        find_panel_function(storage)(&panel, (const th_int8_wide *)p->a + b * p->m, p->m, sum);
    }
    for (int64_t i = 0; i < p->m; i++)
        write_columns(p, i, j, 1, columns, sum[i]);
}

TH_INLINE void multiply_wide(int storage, int64_t bytes, const th_int8_product *p)
{
    if (p->m >= WIDE_PANEL_ROWS) {
        for (int64_t j = 0; j < p->n; j += TH_REGISTER_LANES)
            all_rows(storage, bytes, p, j, p->n - j < TH_REGISTER_LANES ? p->n - j : TH_REGISTER_LANES);
        return;
    }
    multiply_single_rows(one_row, storage, bytes, p);
}

#define WIDE(dtype, name, numbers)                                                                                     \
    static __attribute__((noinline)) void multiply_wide_##name(const th_int8_product *p)                               \
    {                                                                                                                  \
        multiply_wide(dtype, dtype##_BYTES, p);                                                                        \
    }

TH_FORMATS_OF_256(WIDE)

#define WIDE_CASE(dtype, name, numbers)                                                                                \
    case dtype:                                                                                                        \
        multiply_wide_##name(p);                                                                                       \
        break;

#endif

/* Multiplies by a B with this storage type, whose blocks have 256 numbers. p->a: th_int8_wide. Float32 only. */
void TH_KERNEL(product_int8_wide)(int storage, const th_int8_product *p)
{
#if TH_STORED
    switch (storage) {
        TH_FORMATS_OF_256(WIDE_CASE)
    default:
        break;
    }
#else
    (void)storage, (void)p;
#endif
}
