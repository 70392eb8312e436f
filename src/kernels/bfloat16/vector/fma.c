/* Products of bfloat16 terms by fused multiply-adds, where the processor has nothing faster for them: for each group of
 * steps the even chain and the odd one of product.h, one after the other, of a tile of C as wide as float32's. Operands
 * are packed before (chain_panels.h), but for few rows (few_rows_fma.h). */
#include "kernels/bfloat16/vector/fma_few_rows.h"
#include "kernels/products/vector/product.h"

enum { CHAIN_PANEL_A = TH_PART_GROUP * TILE_ROWS, CHAIN_PANEL_B = TH_PART_GROUP * TILE_COLUMNS };

/* A tile of C, between two groups of steps. */
typedef struct chain_sums {
    _Alignas(TH_VECTOR_BYTES) float row[TILE_ROWS][TILE_COLUMNS];
} chain_sums;

/* sum = one chain over the even, or the odd, steps of a group. B is asked for a chain in advance. */
TH_INLINE void multiply_chain(int rows, int registers, const float *a, const float *b, vec sum[TILE_ROWS][2])
{
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            sum[i][j] = (vec){0};
    for (int step = 0; step < CHAIN_STEPS; step++) {
        vec columns[2];
        UNROLLED_FOR (int j = 0; j < registers; j++)
            columns[j] = vec_load(b + j * TH_REGISTER_LANES);
        UNROLLED_FOR (int j = 0; j < registers * TH_REGISTER_LANES; j += 16)
            __builtin_prefetch(b + CHAIN_STEPS * TILE_COLUMNS + j);
        UNROLLED_FOR (int i = 0; i < rows; i++)
            UNROLLED_FOR (int j = 0; j < registers; j++)
                sum[i][j] += vec_broadcast(a[i]) * columns[j];
        a += TILE_ROWS;
        b += TILE_COLUMNS;
    }
}

/* c = c + (even + odd) over one group of steps. */
TH_INLINE void add_group(int rows, int registers, const float *a, const float *b, chain_sums *c)
{
    chain_sums even;
    vec sum[TILE_ROWS][2];
    multiply_chain(rows, registers, a, b, sum);
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            vec_store(&even.row[i][j * TH_REGISTER_LANES], sum[i][j]);
    multiply_chain(rows, registers, a + CHAIN_STEPS * TILE_ROWS, b + CHAIN_STEPS * TILE_COLUMNS, sum);
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++) {
            real *at = &c->row[i][j * TH_REGISTER_LANES];
            vec_store(at, vec_load(at) + (vec_load(&even.row[i][j * TH_REGISTER_LANES]) + sum[i][j]));
        }
}

/* c += products of terms, of operands that have `terms` of them: of the first ones only, or of both. */
typedef void chain_function(int parts, bool both, const tile_operands *t, chain_sums *c);

TH_INLINE void multiply_groups(int rows, int registers, int parts, bool both, const tile_operands *t, chain_sums *c)
{
    static const struct {
        int a, b;
    } product[] = {{0, 0}, {0, CHAIN_PANEL_B}, {CHAIN_PANEL_A, 0}};
    const float *a = t->a, *b = t->b;
    for (int64_t step = 0; step < t->k; step += TH_PART_GROUP) {
        for (int i = 0; i < (both ? 3 : 1); i++)
            add_group(rows, registers, a + product[i].a, b + product[i].b, c);
        a += parts * CHAIN_PANEL_A;
        b += parts * CHAIN_PANEL_B;
    }
}

/* Defines chains_<rows>_<registers>: the numbers must be constants for the loops to disappear. */
#define CHAINS_OF(rows, registers)                                                                                     \
    static __attribute__((noinline)) void chains_##rows##_##registers(int parts, bool both, const tile_operands *t,    \
                                                                      chain_sums *c)                                   \
    {                                                                                                                  \
        multiply_groups(rows, registers, parts, both, t, c);                                                           \
    }                                                                                                                  \
    static chain_function chains_##rows##_##registers
#define CHAINS(rows)                                                                                                   \
    CHAINS_OF(rows, 1);                                                                                                \
    CHAINS_OF(rows, 2)

CHAINS(1);
CHAINS(2);
CHAINS(3);
CHAINS(4);
CHAINS(5);
CHAINS(6);
#if TH_VECTOR_BYTES == 64
CHAINS(7);
CHAINS(8);
CHAINS(9);
CHAINS(10);
CHAINS(11);
CHAINS(12);
#endif
#undef CHAINS_OF
#undef CHAINS

/* [rows - 1][one or two registers] */
static chain_function *const chain_functions[TILE_ROWS][2] = {
    {chains_1_1, chains_1_2},   {chains_2_1, chains_2_2},   {chains_3_1, chains_3_2},
    {chains_4_1, chains_4_2},   {chains_5_1, chains_5_2},   {chains_6_1, chains_6_2},
#if TH_VECTOR_BYTES == 64
    {chains_7_1, chains_7_2},   {chains_8_1, chains_8_2},   {chains_9_1, chains_9_2},
    {chains_10_1, chains_10_2}, {chains_11_1, chains_11_2}, {chains_12_1, chains_12_2},
#endif
};

static void load_sums(int64_t rows, const tile_operands *t, chain_sums *c)
{
    if (t->init == NULL || t->columns < TILE_COLUMNS)
        memset(c, 0, sizeof *c);
    if (t->init)
        for (int64_t i = 0; i < rows; i++) {
            const float *from = t->init + i * t->init_row;
            if (t->columns == TILE_COLUMNS)
                memcpy(c->row[i], from, sizeof c->row[i]);
            else
                memcpy(c->row[i], from, (size_t)t->columns * sizeof(real));
        }
}

static void store_sums(int64_t rows, const chain_sums *c, const tile_operands *t)
{
    for (int64_t i = 0; i < rows; i++) {
        float *to = t->c + i * t->c_row;
        if (t->columns == TILE_COLUMNS)
            memcpy(to, c->row[i], sizeof c->row[i]);
        else
            memcpy(to, c->row[i], (size_t)t->columns * sizeof(real));
    }
}

/* Whether any of the sums is NaN. Lanes past the last column have arbitrary values and do not count. */
static bool any_nan(int64_t rows, int64_t columns, const chain_sums *c)
{
    vec_int any = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += TH_REGISTER_LANES) {
            const real *at = &c->row[i][j];
            const vec x = columns - j < TH_REGISTER_LANES ? vec_load_part(at, columns - j, 0) : vec_load(at);
            any |= x != x;
        }
    return vec_any(any);
}

/* Computes elements that are NaN again, from the first terms. */
static __attribute__((noinline)) void mend_tile(chain_function *multiply, int64_t rows, const tile_operands *t,
                                                chain_sums *c)
{
    chain_sums first;
    load_sums(rows, t, &first);
    multiply(MAX_PARTS, false, t, &first);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < t->columns; j++)
            if (c->row[i][j] != c->row[i][j])
                c->row[i][j] = first.row[i][j];
}

TH_INLINE void chain_tile(int parts, int64_t rows, const tile_operands *t)
{
    chain_function *multiply = chain_functions[rows - 1][t->columns > TH_REGISTER_LANES];
    chain_sums c;
    load_sums(rows, t, &c);
    multiply(parts, parts > 1, t, &c);
    if (parts > 1 && any_nan(rows, t->columns, &c))
        mend_tile(multiply, rows, t, &c);
    store_sums(rows, &c, t);
}

TH_INLINE void multiply_fma(int parts, const th_product_block *block)
{
    tile_operands t = {.k = block->k, .c_row = block->c_row, .init_row = block->init_row};
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        t.b = (const float *)block->b + j / TILE_COLUMNS * block->b_panel;
        t.columns = block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS;
        for (int64_t i = 0; i < block->m; i += TILE_ROWS) {
            t.a = (const float *)block->a + i / TILE_ROWS * block->a_panel;
            t.c = (real *)block->c + i * block->c_row + j;
            t.init = block->init ? (const real *)block->init + i * block->init_row + j : NULL;
            chain_tile(parts, block->m - i < TILE_ROWS ? block->m - i : TILE_ROWS, &t);
        }
    }
}

static void few_rows(const th_product_block *block)
{
    multiply_in_state(few_rows_fma, block);
}

/* -- as a driver sees it -- */

TH_INLINE void pack_fma(int parts, bool of_a, const part_operand *operand)
{
    pack_parts(parts, of_a ? TILE_ROWS : TILE_COLUMNS, operand);
}

PART_KERNELS(1, pack_fma, multiply_fma, CHAIN_PANEL_A);
PART_KERNELS(2, pack_fma, multiply_fma, CHAIN_PANEL_A);

extern const th_product_kernels TH_KERNEL(product_fma)[MAX_PARTS];

/* [terms - 1] */
const th_product_kernels TH_KERNEL(product_fma)[MAX_PARTS] = {
    {"fma", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, TH_PART_GROUP, pack_a_1, pack_b_1, block_1, few_rows},
    {"fma", TILE_ROWS, TILE_COLUMNS, TH_PART_GROUP, 2 * TH_PART_GROUP, pack_a_2, pack_b_2, block_2, NULL},
};
