/* Products of bfloat16 parts with the processor's dot products of pairs, a tile of C at a time. The only instance of
 * this file is AVX-512 with BF16. A dot product is two fused multiply-adds, the upper product first; denormal operands
 * and results count as 0. dpbf16_panels.h pairs the steps so that the two belong to the same sum of product.h, even or
 * odd. Operands are packed first (dpbf16_panels.h), except for few rows (dpbf16_few_rows.h). */
#include "kernels/bfloat16/vector/dpbf16_few_rows.h"
#include "kernels/bfloat16/vector/part_tiles.h"

enum {
    SUM_ROWS = TILE_ROWS / 2, /* with 2 registers of columns and two sums (even, odd), 24 registers */
    SUM_REGISTERS = 2,
    B_AHEAD = 2 * GROUP_OF_B /* pairs of B to prefetch ahead: a panel does not stay in the L1 cache */
};

/* c += a b over one group of steps. */
TH_INLINE void add_group(int rows, int registers, const pair *a, const pair *b, sum_row *c)
{
    vec sum[2][SUM_ROWS][SUM_REGISTERS];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            sum[0][i][j] = sum[1][i][j] = (vec){0};
    for (int four = 0; four < GROUP_PAIRS / 2; four++) {
        UNROLLED_FOR (int odd = 0; odd < 2; odd++) {
            pairs columns[SUM_REGISTERS];
            UNROLLED_FOR (int j = 0; j < registers; j++)
                columns[j] = *(const pairs *)(b + odd * TILE_COLUMNS + j * TH_REGISTER_LANES);
            UNROLLED_FOR (int j = 0; j < registers; j++)
                __builtin_prefetch(b + B_AHEAD + odd * TILE_COLUMNS + j * TH_REGISTER_LANES);
            UNROLLED_FOR (int i = 0; i < rows; i++) {
                const pairs broadcast = a[i * GROUP_PAIRS + odd] - (pairs){0};
                UNROLLED_FOR (int j = 0; j < registers; j++)
                    sum[odd][i][j] = add_products(sum[odd][i][j], broadcast, columns[j]);
            }
        }
        a += 2;
        b += 2 * TILE_COLUMNS;
    }
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++) {
            float *at = &c[i][j * TH_REGISTER_LANES];
            vec_store(at, vec_load(at) + (sum[0][i][j] + sum[1][i][j]));
        }
}

typedef void dpbf16_function(const tile_operands *t, sum_row *c);

/* c += the products of operands with `parts` parts. */
TH_INLINE void add_groups(int parts, int rows, int registers, const tile_operands *t, sum_row *c)
{
    const pair *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        for (int product = 0; product < 2 * parts - 1; product++)
            add_group(rows, registers, a + (product == 2) * GROUP_OF_A, b + (product == 1) * GROUP_OF_B, c);
        a += parts * GROUP_OF_A;
        b += parts * GROUP_OF_B;
    }
}

#define DPBF16_TILES(rows)                                                                                             \
    static void dpbf16_1_##rows(const tile_operands *t, sum_row *c)                                                    \
    {                                                                                                                  \
        add_groups(1, rows, 2, t, c);                                                                                  \
    }                                                                                                                  \
    static void dpbf16_2_##rows(const tile_operands *t, sum_row *c)                                                    \
    {                                                                                                                  \
        add_groups(2, rows, 2, t, c);                                                                                  \
    }                                                                                                                  \
    static dpbf16_function dpbf16_1_##rows, dpbf16_2_##rows
DPBF16_TILES(1);
DPBF16_TILES(2);
DPBF16_TILES(3);
DPBF16_TILES(4);
DPBF16_TILES(5);
DPBF16_TILES(6);
#undef DPBF16_TILES

/* [parts - 1][rows - 1] */
static dpbf16_function *const dpbf16_functions[MAX_PARTS][SUM_ROWS] = {
    {dpbf16_1_1, dpbf16_1_2, dpbf16_1_3, dpbf16_1_4, dpbf16_1_5, dpbf16_1_6},
    {dpbf16_2_1, dpbf16_2_2, dpbf16_2_3, dpbf16_2_4, dpbf16_2_5, dpbf16_2_6},
};

/* c += the products of the first parts. The operands have two parts. */
static __attribute__((noinline)) void add_first_parts(int64_t rows, const tile_operands *t, sum_row *c)
{
    const pair *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        for (int64_t i = 0; i < rows; i++)
            add_group(1, SUM_REGISTERS, a + i * GROUP_PAIRS, b, c + i);
        a += MAX_PARTS * GROUP_OF_A;
        b += MAX_PARTS * GROUP_OF_B;
    }
}

TH_INLINE void add_dpbf16_tile(int parts, bool both, int64_t rows, const tile_operands *t, sum_row *c)
{
    if (parts == 2 && !both)
        add_first_parts(rows, t, c);
    else
        dpbf16_functions[parts - 1][rows - 1](t, c);
}

TH_INLINE void multiply_dpbf16(int parts, const th_product_block *block)
{
    multiply_tiles(parts, SUM_ROWS, GROUP_PAIRS, add_dpbf16_tile, block);
}

static void few_rows(const th_product_block *block)
{
    multiply_in_state(few_rows_dpbf16, block);
}

static void few_rows_stored(const th_product_block *block)
{
    multiply_in_state(few_rows_stored_dpbf16, block);
}

/* -- the functions of th_product_kernels -- */

PART_KERNELS(1, pack_dpbf16, multiply_dpbf16, GROUP_OF_A);
PART_KERNELS(2, pack_dpbf16, multiply_dpbf16, GROUP_OF_A);

extern const th_product_kernels TH_KERNEL(product_dpbf16)[MAX_PARTS];

/* [parts - 1] */
const th_product_kernels TH_KERNEL(product_dpbf16)[MAX_PARTS] = {
    {"avx512_bf16", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, GROUP_PAIRS, pack_a_1, pack_b_1, block_1, pack_a_1,
     few_rows, few_rows_stored},
    {"avx512_bf16", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, 2 * GROUP_PAIRS, pack_a_2, pack_b_2, block_2, NULL, NULL,
     NULL},
};
