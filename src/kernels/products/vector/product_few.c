/* Multiplies few rows by a matrix whose columns are contiguous (a dense layer at a few positions, y = x Wᵀ). The time
 * to read B limits the speed, so B is read once: squares of it are transposed in registers and used at once. Each sum
 * is the micro-kernel's: one fused multiply-add for each step of k, from 0, in order. */
#include "kernels/products/vector/product.h"
#include "kernels/vector/transpose.h"

enum {
    COLUMN_GROUPS = 2, /* registers of columns that are computed together, */
    GROUPED_ROWS = 3   /* up to this many rows: with more rows the sums do not wait for each other */
};

/* sum[i] += a[i][step] * column[step] for `steps` steps. A single row may have any stride; several rows are packed. */
TH_INLINE void add_steps(int rows, int steps, const real *a, int64_t a_col, const vec *column, vec *sum)
{
    UNROLLED_FOR (int step = 0; step < steps; step++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[i] += (a[i + step * (rows == 1 ? a_col : TILE_ROWS)] - (vec){0}) * column[step];
}

/* Multiplies one register of columns of B over TH_REGISTER_LANES steps. Lane j of the register is column j; lanes after
 * the last column repeat it. Prefetches the elements that are `ahead` elements further, into the second-level cache
 * because they are a whole panel. */
TH_INLINE void multiply_square(int rows, const real *a, int64_t a_col, const real *b, int64_t b_column, int64_t columns,
                               int64_t ahead, vec *sum)
{
    vec square[TH_REGISTER_LANES];
    UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++) {
        const real *source = b + (j < columns ? j : columns - 1) * b_column;
        __builtin_prefetch(source + ahead, 0, 2);
        square[j] = *(const vec *)source;
    }
    transpose_registers(square);
    add_steps(rows, TH_REGISTER_LANES, a, a_col, square, sum);
}

/* The same for one step. */
TH_INLINE void multiply_step(int rows, const real *a, const real *b, int64_t b_column, int64_t columns, vec *sum)
{
    real values[TH_REGISTER_LANES];
    for (int j = 0; j < TH_REGISTER_LANES; j++)
        values[j] = b[(j < columns ? j : columns - 1) * b_column];
    add_steps(rows, 1, a, 0, (const vec *)values, sum);
}

/* Multiplies `groups` registers of columns. While the additions for one register wait for each other, another is
 * transposed. */
TH_INLINE void multiply_columns(int rows, int groups, const th_product_block *block, const real *a, int64_t row,
                                int64_t j, int64_t columns, int64_t ahead)
{
    const real *b = (const real *)block->b + j * block->b_panel;
    vec sum[COLUMN_GROUPS][TILE_ROWS];
    UNROLLED_FOR (int g = 0; g < groups; g++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[g][i] = (vec){0};
    int64_t step = 0;
    for (; step + TH_REGISTER_LANES <= block->k; step += TH_REGISTER_LANES)
        UNROLLED_FOR (int g = 0; g < groups; g++)
            if (columns > g * TH_REGISTER_LANES)
                multiply_square(rows, a + step * block->a_col, block->a_col,
                                b + g * TH_REGISTER_LANES * block->b_panel + step, block->b_panel,
                                columns - g * TH_REGISTER_LANES, ahead, sum[g]);
    for (; step < block->k; step++)
        UNROLLED_FOR (int g = 0; g < groups; g++)
            if (columns > g * TH_REGISTER_LANES)
                multiply_step(rows, a + step * block->a_col, b + g * TH_REGISTER_LANES * block->b_panel + step,
                              block->b_panel, columns - g * TH_REGISTER_LANES, sum[g]);
    for (int i = 0; i < rows; i++) {
        real *c = (real *)block->c + (row + i) * block->c_row + j;
        const real *init = block->init ? (const real *)block->init + (row + i) * block->init_row + j : NULL;
        real total[TILE_COLUMNS];
        for (int g = 0; g < groups; g++)
            *(vec *)&total[g * TH_REGISTER_LANES] = sum[g][i];
        for (int64_t x = 0; x < columns; x++)
            c[x] = init ? init[x] + total[x] : total[x];
    }
}

/* Computes `rows` rows of C from `row`, and at most TILE_COLUMNS columns from j. */
TH_INLINE void multiply_rows(int rows, const th_product_block *block, const real *a, int64_t row, int64_t j,
                             int64_t columns, int64_t ahead)
{
    if (rows <= GROUPED_ROWS) {
        multiply_columns(rows, COLUMN_GROUPS, block, a, row, j, columns, ahead);
        return;
    }
    for (int64_t first = 0; first < columns; first += TH_REGISTER_LANES)
        multiply_columns(rows, 1, block, a, row, j + first,
                         columns - first < TH_REGISTER_LANES ? columns - first : TH_REGISTER_LANES, ahead);
}

typedef void rows_function(const th_product_block *block, const real *a, int64_t row, int64_t j, int64_t columns,
                           int64_t ahead);

/* Defines rows_<rows>. The number must be a constant so that the loops are unrolled. */
#define ROWS(rows)                                                                                                     \
    static void rows_##rows(const th_product_block *block, const real *a, int64_t row, int64_t j, int64_t columns,     \
                            int64_t ahead)                                                                             \
    {                                                                                                                  \
        multiply_rows(rows, block, a, row, j, columns, ahead);                                                         \
    }

ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)
ROWS(5)
ROWS(6)
#if TH_VECTOR_REGISTERS == 32
ROWS(7)
ROWS(8)
ROWS(9)
ROWS(10)
ROWS(11)
ROWS(12)
#endif

static rows_function *const rows_functions[TILE_ROWS] = {
    rows_1, rows_2, rows_3, rows_4,  rows_5,  rows_6,
#if TH_VECTOR_REGISTERS == 32
    rows_7, rows_8, rows_9, rows_10, rows_11, rows_12,
#endif
};

/* Like product_block, with at most TH_FEW_ROWS rows and B transposed: element (k, j) is at b[k + j * b_panel]. A is
 * packed unless it is one row. B is read from memory only for the first panel of A; for the second one its columns are
 * in the cache. */
void TH_KERNEL(product_few_rows)(const th_product_block *block)
{
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        const int64_t ahead = /* to the next panel, or to this task's first panel in the next block of k */
            j + TILE_COLUMNS < block->n ? TILE_COLUMNS * block->b_panel : block->k - j * block->b_panel;
        for (int64_t row = 0; row < block->m; row += TILE_ROWS) {
            const int64_t rows = block->m - row < TILE_ROWS ? block->m - row : TILE_ROWS;
            const real *a = (const real *)block->a + row / TILE_ROWS * block->a_panel;
            rows_functions[rows - 1](block, a, row, j, block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS,
                                     ahead);
        }
    }
}
