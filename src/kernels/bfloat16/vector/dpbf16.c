/* Products of bfloat16 terms by the processor's dot products of pairs (AVX-512 with BF16, the only instance of this
 * file), a tile of C at a time. A dot product is two fused multiply-adds, the upper product first, with denormal
 * numbers taken and given as 0: two links of one of product.h's chains, where dot_panels.h has paired the steps so.
 * Operands are packed before (dot_panels.h), but for few rows (few_rows_dpbf16.h). */
#include "kernels/bfloat16/vector/dpbf16_few_rows.h"
#include "kernels/vector/registers.h"

enum {
    DOT_ROWS = TILE_ROWS / 2, /* with 2 registers of columns and two chains, 24 registers */
    DOT_REGISTERS = 2,
    B_AHEAD = 2 * GROUP_OF_B /* pairs of B that are asked for in advance: a panel does not stay in the L1 cache */
};

typedef vec dot_sums[DOT_ROWS][DOT_REGISTERS] __attribute__((aligned(TH_VECTOR_BYTES)));

typedef struct dpbf16_tile {
    const pair *a, *b;
    int64_t k;
} dpbf16_tile;

/* c += a b over one group of steps. */
TH_INLINE void add_dots(int rows, int registers, const pair *a, const pair *b, vec (*c)[DOT_REGISTERS])
{
    vec chain[2][DOT_ROWS][DOT_REGISTERS];
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            chain[0][i][j] = chain[1][i][j] = (vec){0};
    for (int quad = 0; quad < GROUP_PAIRS / 2; quad++) {
        UNROLLED_FOR (int odd = 0; odd < 2; odd++) {
            pairs columns[DOT_REGISTERS];
            UNROLLED_FOR (int j = 0; j < registers; j++)
                columns[j] = *(const pairs *)(b + odd * TILE_COLUMNS + j * TH_REGISTER_LANES);
            UNROLLED_FOR (int j = 0; j < registers; j++)
                __builtin_prefetch(b + B_AHEAD + odd * TILE_COLUMNS + j * TH_REGISTER_LANES);
            UNROLLED_FOR (int i = 0; i < rows; i++) {
                const pairs broadcast = a[i * GROUP_PAIRS + odd] - (pairs){0};
                UNROLLED_FOR (int j = 0; j < registers; j++)
                    chain[odd][i][j] = add_products(chain[odd][i][j], broadcast, columns[j]);
            }
        }
        a += 2;
        b += 2 * TILE_COLUMNS;
    }
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            c[i][j] = c[i][j] + (chain[0][i][j] + chain[1][i][j]);
}

typedef void dpbf16_function(const dpbf16_tile *t, vec (*c)[DOT_REGISTERS]);

/* c += the products of terms, of operands that have `terms` of them. */
TH_INLINE void add_groups(int parts, int rows, int registers, const dpbf16_tile *t, vec (*c)[DOT_REGISTERS])
{
    const pair *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        for (int product = 0; product < 2 * parts - 1; product++)
            add_dots(rows, registers, a + (product == 2) * GROUP_OF_A, b + (product == 1) * GROUP_OF_B, c);
        a += parts * GROUP_OF_A;
        b += parts * GROUP_OF_B;
    }
}

#define DOTS(rows)                                                                                                     \
    static void dots_1_##rows(const dpbf16_tile *t, vec(*c)[DOT_REGISTERS])                                            \
    {                                                                                                                  \
        add_groups(1, rows, 2, t, c);                                                                                  \
    }                                                                                                                  \
    static void dots_2_##rows(const dpbf16_tile *t, vec(*c)[DOT_REGISTERS])                                            \
    {                                                                                                                  \
        add_groups(2, rows, 2, t, c);                                                                                  \
    }                                                                                                                  \
    static dpbf16_function dots_1_##rows, dots_2_##rows
DOTS(1);
DOTS(2);
DOTS(3);
DOTS(4);
DOTS(5);
DOTS(6);
#undef DOTS

/* [terms - 1][rows - 1] */
static dpbf16_function *const dots[MAX_PARTS][DOT_ROWS] = {
    {dots_1_1, dots_1_2, dots_1_3, dots_1_4, dots_1_5, dots_1_6},
    {dots_2_1, dots_2_2, dots_2_3, dots_2_4, dots_2_5, dots_2_6},
};

/* The first term of both, where they have two. */
static __attribute__((noinline)) void add_first_parts(const dpbf16_tile *t, vec (*c)[DOT_REGISTERS])
{
    const pair *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        for (int i = 0; i < DOT_ROWS; i++)
            add_dots(1, DOT_REGISTERS, a + i * GROUP_PAIRS, b, c + i);
        a += MAX_PARTS * GROUP_OF_A;
        b += MAX_PARTS * GROUP_OF_B;
    }
}

/* The part of C that one tile computes. */
typedef struct dot_place {
    int64_t rows, columns;
    float *c;
    int64_t c_row;
    const float *init;
    int64_t init_row;
} dot_place;

TH_INLINE dot_place place_at(const th_product_block *block, int64_t row, int64_t column, int64_t columns)
{
    return (dot_place){.rows = th_smaller(block->m - row, DOT_ROWS),
                       .columns = columns,
                       .c = (float *)block->c + row * block->c_row + column,
                       .c_row = block->c_row,
                       .init = block->init ? (const float *)block->init + row * block->init_row + column : NULL,
                       .init_row = block->init_row};
}

static void load_init(const dot_place *p, dot_sums c)
{
    for (int64_t i = 0; i < p->rows; i++) {
        const float *from = p->init + i * p->init_row;
        if (!p->init)
            c[i][0] = c[i][1] = (vec){0};
        else if (p->columns == TILE_COLUMNS)
            memcpy(c[i], from, sizeof c[i]);
        else
            memcpy(c[i], from, (size_t)p->columns * sizeof(float));
    }
}

static void store_c(const dot_place *p, dot_sums c)
{
    for (int64_t i = 0; i < p->rows; i++) {
        float *to = p->c + i * p->c_row;
        if (p->columns == TILE_COLUMNS)
            memcpy(to, c[i], sizeof c[i]);
        else
            memcpy(to, c[i], (size_t)p->columns * sizeof(float));
    }
}

/* Whether any of the sums is NaN. Lanes past the last column have arbitrary values and do not count. */
static bool any_nan_sum(int64_t rows, int64_t columns, dot_sums c)
{
    __mmask16 found = 0;
    for (int64_t i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < DOT_REGISTERS; j++) {
            const __mmask16 stored = first_lanes(columns - j * TH_REGISTER_LANES);
            found |= _mm512_mask_cmp_ps_mask(stored, (__m512)c[i][j], (__m512)c[i][j], _CMP_UNORD_Q);
        }
    return found != 0;
}

/* Computes elements that are NaN again, from the first terms. */
static __attribute__((noinline)) void mend(const dpbf16_tile *t, const dot_place *p, dot_sums c)
{
    dot_sums first;
    load_init(p, first);
    add_first_parts(t, first);
    for (int64_t i = 0; i < p->rows; i++)
        for (int j = 0; j < DOT_REGISTERS; j++)
            c[i][j] = vec_select(c[i][j] != c[i][j], first[i][j], c[i][j]);
}

TH_INLINE void multiply_dpbf16(int parts, const th_product_block *block)
{
    dot_sums c = {0};
    dpbf16_tile t = {.k = block->k};
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        t.b = (const pair *)block->b + j / TILE_COLUMNS * block->b_panel;
        const int64_t columns = th_smaller(block->n - j, TILE_COLUMNS);
        for (int64_t i = 0; i < block->m; i += DOT_ROWS) {
            const dot_place p = place_at(block, i, j, columns);
            t.a = a_of_rows(block, i, 0);
            load_init(&p, c);
            dots[parts - 1][p.rows - 1](&t, c);
            if (parts == 2 && any_nan_sum(p.rows, p.columns, c))
                mend(&t, &p, c);
            store_c(&p, c);
        }
    }
}

static void few_rows(const th_product_block *block)
{
    multiply_in_state(few_rows_dpbf16, block);
}

/* -- as a driver sees it -- */

PART_KERNELS(1, pack_dpbf16, multiply_dpbf16, GROUP_OF_A);
PART_KERNELS(2, pack_dpbf16, multiply_dpbf16, GROUP_OF_A);

extern const th_product_kernels TH_KERNEL(product_dpbf16)[MAX_PARTS];

/* [terms - 1] */
const th_product_kernels TH_KERNEL(product_dpbf16)[MAX_PARTS] = {
    {"avx512_bf16", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, GROUP_PAIRS, pack_a_1, pack_b_1, block_1, few_rows},
    {"avx512_bf16", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, 2 * GROUP_PAIRS, pack_a_2, pack_b_2, block_2, NULL},
};
