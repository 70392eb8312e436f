/* The micro-kernel of matrix products: a tile of C in registers, with one fused multiply-add for each element and step
 * of k, from 0, in order. Edges of C run the same loop with fewer rows or registers. */
#include "kernels/products/vector/product.h"

/* A tile with at most this many rows is 4 registers wide: with 2 registers its additions would wait for each other. */
enum { WIDE_ROWS = 3 };

enum {
    TILE_AHEAD = 16, /* steps of B to prefetch ahead: a panel does not stay in the L1 cache */
    LINE_ELEMENTS = 64 / sizeof(real)
};

typedef void tile_function(const tile_operands *operands);

/* sum = A B. Rows are addressed from the first row of each group of three, so that addresses take few registers. */
TH_INLINE void multiply_tile(int rows, int registers, int64_t k, const real *a, int64_t a_row, int64_t a_col,
                             const real *b, int64_t b_row, vec sum[TILE_ROWS][4])
{
    const real *group[4] = {a, a + 3 * a_row, a + 6 * a_row, a + 9 * a_row};
    UNROLLED_FOR (int i = 0; i < rows; i++)
        UNROLLED_FOR (int j = 0; j < registers; j++)
            sum[i][j] = (vec){0};
    for (int64_t step = 0; step < k; step++) {
        vec columns[4];
        UNROLLED_FOR (int j = 0; j < registers; j++)
            columns[j] = *(const vec *)(b + j * TH_REGISTER_LANES);
        UNROLLED_FOR (int j = 0; j < registers * TH_REGISTER_LANES; j += LINE_ELEMENTS)
            __builtin_prefetch(b + TILE_AHEAD * b_row + j);
        UNROLLED_FOR (int i = 0; i < rows; i++) {
            const vec broadcast = group[i / 3][i % 3 * a_row] - (vec){0}; /* x - 0 is x; x + 0 is not, for -0 */
            UNROLLED_FOR (int j = 0; j < registers; j++)
                sum[i][j] += broadcast * columns[j];
        }
        b += b_row;
        UNROLLED_FOR (int g = 0; g < (rows + 2) / 3; g++)
            group[g] += a_col;
    }
}

#ifdef __aarch64__
/* The same for a full tile of packed panels. NEON can multiply by one element of a register. So one load reads the
 * numbers of several rows. */
TH_INLINE void multiply_packed_tile(int64_t k, const real *a, const real *b, vec sum[TILE_ROWS][4])
{
    UNROLLED_FOR (int i = 0; i < TILE_ROWS; i++)
        UNROLLED_FOR (int j = 0; j < 2; j++)
            sum[i][j] = (vec){0};
    for (int64_t step = 0; step < k; step++) {
        const vec columns[2] = {*(const vec *)b, *(const vec *)(b + TH_REGISTER_LANES)};
        __builtin_prefetch(b + TILE_AHEAD * TILE_COLUMNS);
        UNROLLED_FOR (int first = 0; first < TILE_ROWS; first += TH_REGISTER_LANES) {
            const vec rows = *(const vec *)(a + first);
            UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++)
                UNROLLED_FOR (int j = 0; j < 2; j++)
                    sum[first + i][j] += (rows[i] - (vec){0}) * columns[j];
        }
        a += TILE_ROWS;
        b += TILE_COLUMNS;
    }
}
#endif

/* A tile with any strides of A. */
TH_INLINE void compute_tile(int rows, int registers, const tile_operands *t)
{
    vec sum[TILE_ROWS][4];
    multiply_tile(rows, registers, t->k, t->a, t->a_row, t->a_col, t->b, t->b_row, sum);
    store(rows, registers, sum, t);
}

/* The full tile of packed panels: every stride is a constant, and C is prefetched for the store. A test disassembles it
 * (tests/kernels/fused_multiply_add.sh). */
static __attribute__((noinline)) void TH_KERNEL(tile_packed)(const tile_operands *t)
{
    for (int i = 0; i < TILE_ROWS; i++) {
        __builtin_prefetch(t->c + i * t->c_row, 1);
        __builtin_prefetch(t->c + i * t->c_row + TH_REGISTER_LANES, 1);
    }
    vec sum[TILE_ROWS][4];
#ifdef __aarch64__
    multiply_packed_tile(t->k, t->a, t->b, sum);
#else
    multiply_tile(TILE_ROWS, 2, t->k, t->a, 1, TILE_ROWS, t->b, TILE_COLUMNS, sum);
#endif
    store(TILE_ROWS, 2, sum, t);
}

/* Defines tile_<rows>_<registers>. The numbers must be constants so that the loops are unrolled. */
#define TILE(rows, registers)                                                                                          \
    static void tile_##rows##_##registers(const tile_operands *t)                                                      \
    {                                                                                                                  \
        compute_tile(rows, registers, t);                                                                              \
    }                                                                                                                  \
    static tile_function tile_##rows##_##registers
#define TILES(rows)                                                                                                    \
    TILE(rows, 1);                                                                                                     \
    TILE(rows, 2)

TILES(1);
TILES(2);
TILES(3);
TILES(4);
TILES(5);
TILES(6);
TILE(1, 4);
TILE(2, 4);
TILE(3, 4);
#if TH_VECTOR_REGISTERS == 32
TILES(7);
TILES(8);
TILES(9);
TILES(10);
TILES(11);
TILES(12);
#endif

/* [rows - 1][one or two registers] */
static tile_function *const tiles[TILE_ROWS][2] = {
    {tile_1_1, tile_1_2},   {tile_2_1, tile_2_2},   {tile_3_1, tile_3_2},
    {tile_4_1, tile_4_2},   {tile_5_1, tile_5_2},   {tile_6_1, tile_6_2},
#if TH_VECTOR_REGISTERS == 32
    {tile_7_1, tile_7_2},   {tile_8_1, tile_8_2},   {tile_9_1, tile_9_2},
    {tile_10_1, tile_10_2}, {tile_11_1, tile_11_2}, {tile_12_1, tile_12_2},
#endif
};
static tile_function *const wide_tiles[WIDE_ROWS] = {tile_1_4, tile_2_4, tile_3_4};

/* Multiplies all rows of A by one panel of B, or by two panels in place. A tile of one row takes as long as a tile of
 * four. So the last rows are divided into two tiles of about the same size, if A's layout permits it. */
static void multiply_panel(const th_product_block *block, tile_operands *t, const real *b, int64_t j, int64_t columns)
{
    const bool in_place = block->a_panel == TILE_ROWS * block->a_row;
    const bool packed =
        block->a_row == 1 && block->a_col == TILE_ROWS && t->b_row == TILE_COLUMNS && columns == TILE_COLUMNS;
    t->b = b;
    t->columns = columns;
    for (int64_t i = 0, rows; i < block->m; i += rows) {
        const int64_t rows_left = block->m - i;
        rows = rows_left < TILE_ROWS                                            ? rows_left
               : in_place && rows_left > TILE_ROWS && rows_left < 2 * TILE_ROWS ? (rows_left + 1) / 2
                                                                                : TILE_ROWS;
        rows = rows < TILE_ROWS ? rows : TILE_ROWS;
        t->a = (const real *)block->a + i / TILE_ROWS * block->a_panel + i % TILE_ROWS * block->a_row;
        t->c = (real *)block->c + i * block->c_row + j;
        t->init = block->init ? (const real *)block->init + i * block->init_row + j : NULL;
        if (packed && rows == TILE_ROWS)
            TH_KERNEL(tile_packed)(t);
        else if (columns > TILE_COLUMNS)
            wide_tiles[rows - 1](t);
        else
            tiles[rows - 1][columns > TH_REGISTER_LANES](t);
    }
}

/* Computes a block of C (product_block.h). */
void TH_KERNEL(product_block)(const th_product_block *block)
{
    const real *b = block->b;
    tile_operands t = {.k = block->k,
                       .a_row = block->a_row,
                       .a_col = block->a_col,
                       .b_row = block->b_row,
                       .c_row = block->c_row,
                       .init_row = block->init_row};
    const int64_t full = block->n - (block->b_rest ? block->n % TILE_COLUMNS : 0);
    int64_t j = 0;
    if (block->m <= WIDE_ROWS && block->b_panel == TILE_COLUMNS)
        for (; full - j >= WIDE_COLUMNS; j += WIDE_COLUMNS)
            multiply_panel(block, &t, b + j, j, WIDE_COLUMNS);
    for (; j < full; j += TILE_COLUMNS)
        multiply_panel(block, &t, b + j / TILE_COLUMNS * block->b_panel, j,
                       full - j < TILE_COLUMNS ? full - j : TILE_COLUMNS);
    t.b_row = TILE_COLUMNS;
    if (j < block->n)
        multiply_panel(block, &t, block->b_rest, j, block->n - j);
}
