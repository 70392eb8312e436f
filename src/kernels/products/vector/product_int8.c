/* Multiplies rounded rows of A by stored blocks of 32 numbers (product_int8.h). The sum of a block is an integer, so it is
 * exact in any order. One to three rows are multiplied by the blocks in place. For more rows a block of some columns is
 * widened to 16 bits and transposed first, so that a lane is a column. */
#include "kernels/products/product_int8.h"

#include "kernels/product_block.h"
#include "kernels/products/vector/int8_sums.h"
#include "kernels/products/vector/load_columns.h"
#include "kernels/storage/vector/block_parts.h"

#if TH_STORED

enum {
    INT8_PAIRS = TH_BLOCK_NUMBERS / 2,                  /* of numbers that lie in one 32-bit lane */
    INT8_TILE_ROWS = TH_VECTOR_REGISTERS == 32 ? 8 : 4, /* rows of a tile: its sums stay in registers */
    INT8_PANEL_ROWS = 4,                                /* fewer rows are multiplied one by one */
    INT8_AHEAD_BYTES = 768                              /* of each column, prefetched before they are used */
};

/* The even or the odd numbers of a block, as 16 bits. */
typedef int16_t half_numbers __attribute__((vector_size(TH_BLOCK_NUMBERS), aligned(2), may_alias));

/* Returns the numbers of a block, without their offset. */
TH_INLINE part_bytes int8_numbers(int storage, const uint8_t *block)
{
    if (storage == TH_Q8_0)
        return *(const part_bytes *)(block + sizeof(uint16_t));
    if (storage == TH_Q4_0)
        return nibbles_of(block + sizeof(uint16_t)) - 8;
    return read_numbers(storage, block, 0) - (uint8_t)offset_of(storage);
}

/* -- one row -- */

/* The integers of one block and one column, times 256. They fit in 32 bits. Fewer shifts are needed than without the
 * factor. */
TH_INLINE block_sum multiply_int8_block(part_bytes weight, const th_int8_block *x)
{
    const half_numbers even = (half_numbers)weight << 8, odd = (half_numbers)weight & -256;
    const half_numbers *numbers = (const half_numbers *)x->number;
#if TH_VECTOR_BYTES > 16
    return _mm256_add_epi32(_mm256_madd_epi16((__m256i)even, (__m256i)numbers[0]),
                            _mm256_madd_epi16((__m256i)odd, (__m256i)numbers[1]));
#else
    vec_int w[2][2], n[2][2], total = {0};
    memcpy(w[0], &even, sizeof even);
    memcpy(w[1], &odd, sizeof odd);
    memcpy(n, numbers, sizeof n);
    UNROLLED_FOR (int i = 0; i < 2; i++)
        total += sums_of_pairs(w[i][0], n[i][0]) + sums_of_pairs(w[i][1], n[i][1]);
    return total[0] + total[1] + total[2] + total[3];
#endif
}

/* Multiplies one row by some columns. */
TH_INLINE void int8_row(int storage, int64_t bytes, const th_int8_product *p, int64_t row, int64_t j, int64_t apart,
                        int64_t columns)
{
    const int64_t blocks = p->k / TH_BLOCK_NUMBERS;
    const th_int8_block *a = (const th_int8_block *)p->a + row;
    const uint8_t *line[TH_REGISTER_LANES];
    vec sum = {0};
    for (int64_t s = 0; s < TH_REGISTER_LANES; s++)
        line[s] = (const uint8_t *)p->b + (j + (s < columns ? s : columns - 1) * apart) * p->b_bytes;
    for (int64_t b = 0; b < blocks; b++) {
        block_sum total[TH_REGISTER_LANES];
        uint16_t factor[TH_REGISTER_LANES], least[TH_REGISTER_LANES];
        for (int s = 0; s < TH_REGISTER_LANES; s++) { /* long before a register loads them: it waits for these stores */
            factor[s] = half_at(line[s] + b * bytes);
            least[s] = half_at(line[s] + b * bytes + (has_least(storage) ? 2 : 0));
        }
        UNROLLED_FOR (int s = 0; s < TH_REGISTER_LANES; s++) {
            __builtin_prefetch(line[s] + b * bytes + INT8_AHEAD_BYTES);
            total[s] = multiply_int8_block(int8_numbers(storage, line[s] + b * bytes), a + b * p->m);
        }
        sum = add_integers(sum, a[b * p->m].scale, float16_lanes(factor), sums_of_columns(total) >> 8);
        if (has_least(storage)) /* the file has the negative least number */
            sum = add_integers(sum, a[b * p->m].scale, float16_lanes(least), a[b * p->m].sum - (vec_int){0});
    }
    write_columns(p, row, j, apart, columns, sum);
}

/* -- several rows -- */

/* A block of two registers of columns. */
typedef struct int8_panel {
    vec_int pair[INT8_PAIRS][GROUPS]; /* numbers 0 and 2, 4 and 6, ..., then 1 and 3, ... */
    vec factor[GROUPS], least[GROUPS];
} int8_panel;

/* Loads a block of one register of columns. */
TH_INLINE void load_int8_columns(int storage, const column_set *set, int64_t offset, int group, int8_panel *to)
{
    typedef int16_t words __attribute__((vector_size(TH_VECTOR_BYTES), may_alias));
    uint16_t factor[TH_REGISTER_LANES], least[TH_REGISTER_LANES];
    column_set numbers;
    part_bytes copy[TH_REGISTER_LANES];
    vec unit[2 * QUAD];
    UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++) {
        const uint8_t *block = (const uint8_t *)set->line[j] + offset;
        factor[j] = half_at(block);
        least[j] = half_at(block + (has_least(storage) ? 2 : 0));
        if (storage != TH_Q8_0) {
            copy[j] = int8_numbers(storage, block);
            numbers.line[j] = (const char *)&copy[j];
        }
    }
    if (storage == TH_Q8_0)
        load_units(set, offset + (int64_t)sizeof(uint16_t), 0, unit);
    else
        load_units(&numbers, 0, 0, unit);
    UNROLLED_FOR (int i = 0; i < 2 * QUAD; i++) {
        to->pair[i][group] = (vec_int)((words)unit[i] << 8 >> 8);
        to->pair[INT8_PAIRS / 2 + i][group] = (vec_int)((words)unit[i] >> 8);
    }
    to->factor[group] = float16_lanes(factor);
    to->least[group] = float16_lanes(least);
}

/* Adds the products of `rows` rows and a panel. */
TH_INLINE void add_int8_rows(int rows, bool with_least, const int8_panel *w, const th_int8_block *a, vec (*sum)[GROUPS])
{
    vec_int total[INT8_TILE_ROWS][GROUPS];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int g = 0; g < GROUPS; g++)
            total[i][g] = (vec_int){0};
    __asm__("" : "+r"(w)); /* otherwise compilers load the panel before the loop over rows, and spill it */
    UNROLLED_FOR (int pair = 0; pair < INT8_PAIRS; pair++)
        UNROLLED_FOR (int i = 0; i < rows; i++) {
            const vec_int x = four_bytes(a[i].number + 2 * pair);
            UNROLLED_FOR (int g = 0; g < GROUPS; g++)
                total[i][g] = in_order(total[i][g] + sums_of_pairs(w->pair[pair][g], x));
        }
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
            sum[i][g] = add_integers(sum[i][g], a[i].scale, w->factor[g], total[i][g]);
            if (with_least) /* the file has the negative least number */
                sum[i][g] = add_integers(sum[i][g], a[i].scale, w->least[g], a[i].sum - (vec_int){0});
        }
}

/* Adds the products of all rows and a panel. */
TH_INLINE void add_int8_panel(bool with_least, const int8_panel *w, const th_int8_block *a, int64_t rows,
                              vec (*sum)[GROUPS])
{
    int64_t row = 0;
    for (; row + INT8_TILE_ROWS <= rows; row += INT8_TILE_ROWS)
        add_int8_rows(INT8_TILE_ROWS, with_least, w, a + row, sum + row);
    for (; row + 2 <= rows; row += 2)
        add_int8_rows(2, with_least, w, a + row, sum + row);
    if (row < rows)
        add_int8_rows(1, with_least, w, a + row, sum + row);
}

static __attribute__((noinline)) void add_plain_panel(const int8_panel *w, const th_int8_block *a, int64_t rows,
                                                      vec (*sum)[GROUPS])
{
    add_int8_panel(false, w, a, rows, sum);
}

static __attribute__((noinline)) void add_least_panel(const int8_panel *w, const th_int8_block *a, int64_t rows,
                                                      vec (*sum)[GROUPS])
{
    add_int8_panel(true, w, a, rows, sum);
}

/* Multiplies all rows by at most a panel of columns. */
TH_INLINE void int8_columns(int storage, int64_t bytes, const th_int8_product *p, int64_t j, int64_t columns)
{
    const int64_t blocks = p->k / TH_BLOCK_NUMBERS;
    vec sum[TH_INT8_MOST_ROWS][GROUPS];
    column_set set[GROUPS];
    int8_panel panel;
    for (int64_t i = 0; i < p->m; i++)
        UNROLLED_FOR (int g = 0; g < GROUPS; g++)
            sum[i][g] = (vec){0};
    for (int64_t s = 0; s < TILE_COLUMNS; s++) /* the last column fills the panel */
        set[s / TH_REGISTER_LANES].line[s % TH_REGISTER_LANES] =
            (const char *)p->b + (j + (s < columns ? s : columns - 1)) * p->b_bytes;
    for (int64_t b = 0; b < blocks; b++) {
        /* The next panel, in the order of memory: as many bytes as this block of all columns has. */
        const char *next = set[0].line[0] + TILE_COLUMNS * (p->b_bytes + b * bytes);
        for (int64_t at = 0; at < TILE_COLUMNS * bytes; at += 64)
            __builtin_prefetch(next + at);
        for (int g = 0; g < GROUPS; g++)
            load_int8_columns(storage, &set[g], b * bytes, g, &panel);
        (has_least(storage) ? add_least_panel : add_plain_panel)(&panel, (const th_int8_block *)p->a + b * p->m, p->m,
                                                                 sum);
    }
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t s = 0; s < columns; s += TH_REGISTER_LANES)
            write_columns(p, i, j + s, 1, columns - s < TH_REGISTER_LANES ? columns - s : TH_REGISTER_LANES,
                          sum[i][s / TH_REGISTER_LANES]);
}

TH_INLINE void multiply_int8(int storage, int64_t bytes, const th_int8_product *p)
{
    if (p->m >= INT8_PANEL_ROWS) {
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS)
            int8_columns(storage, bytes, p, j, p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS);
        return;
    }
    multiply_single_rows(int8_row, storage, bytes, p);
}

#define INT8(dtype, name, bytes)                                                                                       \
    static __attribute__((noinline)) void multiply_int8_##name(const th_int8_product *p)                               \
    {                                                                                                                  \
        multiply_int8(dtype, bytes, p);                                                                                \
    }
#define INT8_OF_32(dtype, name, numbers) INT8(dtype, name, dtype##_BYTES)

INT8(TH_Q8_0, q8_0, sizeof(th_q8_0))
INT8(TH_Q4_0, q4_0, sizeof(th_q4_0))
TH_FORMATS_OF_32(INT8_OF_32)

#define INT8_CASE(dtype, name, numbers)                                                                                \
    case dtype:                                                                                                        \
        multiply_int8_##name(p);                                                                                       \
        break;

#endif

/* Multiplies by a B with this storage type, whose blocks have 32 numbers. p->a: th_int8_block. Float32 only. */
void TH_KERNEL(product_int8)(int storage, const th_int8_product *p)
{
#if TH_STORED
    switch (storage) {
        INT8_CASE(TH_Q8_0, q8_0, 32)
        INT8_CASE(TH_Q4_0, q4_0, 32)
        TH_FORMATS_OF_32(INT8_CASE)
    default:
        break;
    }
#else
    (void)storage, (void)p;
#endif
}
