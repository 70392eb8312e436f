/* A few rows times a matrix whose columns are contiguous in memory (a dense layer at one position, y = x W^T): what
 * counts is reading B once, so blocks of it are transposed in registers and used up there. The sums are the
 * micro-kernel's: one fused multiply-add per element and step of k, from 0, in order. */
#include "kernels/vector/product.h"
#include "kernels/vector/transpose.h"

enum { GROUPS = 2, FEW_AHEAD = 256 / (int)sizeof(real) /* elements: four cache lines */ };

/* sum[i] += a[i][step] * column[step] for `steps` steps. */
TH_INLINE void add_steps(int rows, int steps, const real *a, int64_t a_row, int64_t a_col, const vec *column, vec *sum)
{
    UNROLLED_FOR (int step = 0; step < steps; step++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[i] += (a[i * a_row + step * a_col] - (vec){0}) * column[step];
}

/* One register of columns of B over TH_REGISTER_LANES steps; lane j of the register is column j, or the last one there
 * is. */
TH_INLINE void multiply_square(int rows, const real *a, int64_t a_row, int64_t a_col, const real *b, int64_t b_column,
                               int64_t columns, vec *sum)
{
    vec square[TH_REGISTER_LANES];
    UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++) {
        const real *source = b + (j < columns ? j : columns - 1) * b_column;
        __builtin_prefetch(source + FEW_AHEAD);
        square[j] = *(const vec *)source;
    }
    transpose_registers(square);
    add_steps(rows, TH_REGISTER_LANES, a, a_row, a_col, square, sum);
}

/* The same for one step. */
TH_INLINE void multiply_step(int rows, const real *a, int64_t a_row, const real *b, int64_t b_column, int64_t columns,
                             vec *sum)
{
    real values[TH_REGISTER_LANES];
    for (int j = 0; j < TH_REGISTER_LANES; j++)
        values[j] = b[(j < columns ? j : columns - 1) * b_column];
    add_steps(rows, 1, a, a_row, 0, (const vec *)values, sum);
}

/* Two registers of columns: while the additions of one wait for each other, the other is transposed. */
TH_INLINE void multiply_columns(int rows, const th_product_block *block, int64_t j, int64_t columns)
{
    const real *a = block->a, *b = (const real *)block->b + j * block->b_panel;
    const int64_t left[GROUPS] = {columns, columns > TH_REGISTER_LANES ? columns - TH_REGISTER_LANES : 0};
    vec sum[GROUPS][TH_FEW_ROWS];
    UNROLLED_FOR (int g = 0; g < GROUPS; g++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[g][i] = (vec){0};
    int64_t step = 0;
    for (; step + TH_REGISTER_LANES <= block->k; step += TH_REGISTER_LANES)
        UNROLLED_FOR (int g = 0; g < GROUPS; g++)
            if (left[g] > 0)
                multiply_square(rows, a + step * block->a_col, block->a_row, block->a_col,
                                b + g * TH_REGISTER_LANES * block->b_panel + step, block->b_panel, left[g], sum[g]);
    for (; step < block->k; step++)
        UNROLLED_FOR (int g = 0; g < GROUPS; g++)
            if (left[g] > 0)
                multiply_step(rows, a + step * block->a_col, block->a_row,
                              b + g * TH_REGISTER_LANES * block->b_panel + step, block->b_panel, left[g], sum[g]);
    for (int i = 0; i < rows; i++) {
        real *c = (real *)block->c + i * block->c_row + j;
        const real *init = block->init ? (const real *)block->init + i * block->init_row + j : NULL;
        real chain[TILE_COLUMNS];
        for (int g = 0; g < GROUPS; g++)
            *(vec *)&chain[g * TH_REGISTER_LANES] = sum[g][i];
        for (int64_t x = 0; x < columns; x++)
            c[x] = init ? init[x] + chain[x] : chain[x];
    }
}

TH_INLINE void multiply_rows(int rows, const th_product_block *block)
{
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS)
        multiply_columns(rows, block, j, block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS);
}

/* The same with at most TH_FEW_ROWS rows, and B the other way round: element (k, j) is at b[k + j * b_panel]. */
void TH_KERNEL(product_few_rows)(const th_product_block *block)
{
    if (block->m == 1)
        multiply_rows(1, block);
    else if (block->m == 2)
        multiply_rows(2, block);
    else
        multiply_rows(3, block);
}
