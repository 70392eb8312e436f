/* Multiplies few rows by a matrix whose columns are contiguous (a dense layer at a few positions, y = x Wᵀ). Bringing B
 * to the registers limits the speed, so nothing of B is transposed or packed. A lane is a row of A instead: the packed
 * rows stay in a cache, and each number of B is broadcast from where it is. Each sum is the micro-kernel's: one fused
 * multiply-add for each step of a block of k, from 0, in order. */
#include "kernels/products/product.h"
#include "kernels/products/vector/product.h"
#include "kernels/vector/transpose.h"

enum {
    FEW_COLUMNS = TILE_ROWS, /* of a tile with 2 registers of rows, */
    FEW_COLUMNS_1 = 8,       /* or with one: so many sums do not wait for each other */
    FEW_MOST_COLUMNS = 12,
    FEW_GROUP =
        TH_REGISTER_LANES == 16 ? 48 : 24, /* columns of C that are stored together: whole tiles and registers */
    FEW_BLOCKS = TH_FEW_STEPS / TH_PRODUCT_BLOCK,
    FEW_LINE = 64 / (int)sizeof(real) /* steps in a cache line */
};

typedef real few_totals[FEW_GROUP][TILE_COLUMNS]; /* sums of a block of k */

/* What a tile computes: a block of k, for some columns and a panel of rows. */
typedef struct lane_tile {
    int64_t k;
    const real *rows;            /* (k, TILE_COLUMNS): a panel of A */
    const real *b;               /* (columns, k) */
    int64_t b_column;            /* from one column to the next */
    const real *next;            /* (columns, k): the numbers of B that the next tile reads */
    real (*total)[TILE_COLUMNS]; /* (columns, TILE_COLUMNS) */
} lane_tile;

/* sum += steps `first` to `end` - 1 */
TH_INLINE void few_steps(int columns, int registers, const lane_tile *t, int64_t first, int64_t end,
                         vec sum[FEW_MOST_COLUMNS][2])
{
    for (int64_t step = first; step < end; step++) {
        vec row[2];
        UNROLLED_FOR (int r = 0; r < registers; r++)
            row[r] = *(const vec *)(t->rows + step * TILE_COLUMNS + r * TH_REGISTER_LANES);
        UNROLLED_FOR (int j = 0; j < columns; j++) {
            const vec broadcast = t->b[j * t->b_column + step] - (vec){0};
            UNROLLED_FOR (int r = 0; r < registers; r++)
                sum[j][r] += row[r] * broadcast;
        }
    }
}

/* Meanwhile prefetches the numbers of the next tile, in the order of memory: in the order of their use, memory is read
 * more slowly. */
TH_INLINE void compute_few_tile(int columns, int registers, const lane_tile *tile)
{
    const lane_tile t = *tile;
    const real *line = t.next;
    int64_t lines = 0;
    vec sum[FEW_MOST_COLUMNS][2];
    UNROLLED_FOR (int j = 0; j < columns; j++)
        UNROLLED_FOR (int r = 0; r < registers; r++)
            sum[j][r] = (vec){0};
    for (int64_t step = 0; step < t.k; step += FEW_LINE) {
        for (int j = 0; j < columns; j++) {
            __builtin_prefetch(line + lines, 0, 2);
            lines += FEW_LINE;
            if (lines >= t.k) {
                line += t.b_column;
                lines = 0;
            }
        }
        few_steps(columns, registers, &t, step, t.k - step < FEW_LINE ? t.k : step + FEW_LINE, sum);
    }
    UNROLLED_FOR (int j = 0; j < columns; j++)
        UNROLLED_FOR (int r = 0; r < registers; r++)
            *(vec *)(t.total[j] + r * TH_REGISTER_LANES) = sum[j][r];
}

typedef void few_function(const lane_tile *tile);

/* Defines few_<name>_<registers>. The numbers must be constants so that the loops are unrolled. */
#define FEW(name, columns, registers)                                                                                  \
    static void few_##name##_##registers(const lane_tile *tile)                                                        \
    {                                                                                                                  \
        compute_few_tile(columns, registers, tile);                                                                    \
    }

FEW(one, 1, 1)
FEW(one, 1, 2)
FEW(all, FEW_COLUMNS_1, 1)
FEW(all, FEW_COLUMNS, 2)

/* Computes the totals of all blocks of k, for some columns of B and one panel of rows. Reads B in the order of memory.
 */
static void few_panel(int registers, int64_t columns, int64_t k, const real *rows, const real *b, int64_t b_column,
                      few_totals *total)
{
    const int64_t width = registers == 1 ? FEW_COLUMNS_1 : FEW_COLUMNS, whole = columns / width * width;
    for (int64_t j = 0; j < columns; j += j < whole ? width : 1)
        for (int64_t step = 0; step < k; step += TH_PRODUCT_BLOCK) {
            const real *column = b + j * b_column;
            const lane_tile t = {.k = k - step < TH_PRODUCT_BLOCK ? k - step : TH_PRODUCT_BLOCK,
                                 .rows = rows + step * TILE_COLUMNS,
                                 .b = column + step,
                                 .b_column = b_column,
                                 .next = k - step > TH_PRODUCT_BLOCK ? column + step + TH_PRODUCT_BLOCK
                                                                     : column + width * b_column,
                                 .total = total[step / TH_PRODUCT_BLOCK] + j};
            if (j < whole)
                (registers == 1 ? few_all_1 : few_all_2)(&t);
            else
                (registers == 1 ? few_one_1 : few_one_2)(&t);
        }
}

/* Where a part of C begins: C = init + totals. */
typedef struct few_result {
    real *c;
    int64_t c_row;
    const real *init; /* or NULL */
    int64_t init_row;
} few_result;

/* Stores some rows and less than a register of columns. total[block] has them from row `row` and column `column` on. */
static void store_few_columns(int64_t rows, int64_t columns, int64_t blocks, few_totals *total, int64_t row,
                              int64_t column, const few_result *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            real sum = total[0][column + j][row + i];
            sum = to->init ? to->init[i * to->init_row + j] + sum : sum;
            for (int64_t b = 1; b < blocks; b++)
                sum += total[b][column + j][row + i];
            to->c[i * to->c_row + j] = sum;
        }
}

/* Stores at most a register of rows and a register of columns. */
static void store_few_square(int64_t rows, int64_t blocks, few_totals *total, int64_t row, int64_t column,
                             const few_result *to)
{
    vec sum[TH_REGISTER_LANES], square[TH_REGISTER_LANES];
    for (int64_t b = 0; b < blocks; b++) {
        UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++)
            square[j] = *(const vec *)(total[b][column + j] + row);
        transpose_registers(square);
        for (int64_t i = 0; i < rows; i++)
            sum[i] = b > 0      ? (vec)(sum[i] + square[i])
                     : to->init ? (vec)(*(const vec *)(to->init + i * to->init_row) + square[i])
                                : square[i];
    }
    for (int64_t i = 0; i < rows; i++)
        *(vec *)(to->c + i * to->c_row) = sum[i];
}

/* Packs A for product_few_rows, in panels of 2 registers of rows: element (i, step) of panel p is at panels[(p * k +
 * step) * TILE_COLUMNS + i]. There must be space for one register after the last panel. */
void TH_KERNEL(product_pack_few)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    TH_KERNEL(product_pack_b)(k, m, a, column, row, panels, k * TILE_COLUMNS);
}

/* Like product_block, with at most TH_FEW_STEPS steps, and B transposed: element (k, j) is at b[k + j * b_panel]. A is
 * packed by product_pack_few. */
void TH_KERNEL(product_few_rows)(const th_product_block *block)
{
    const int64_t blocks = (block->k + TH_PRODUCT_BLOCK - 1) / TH_PRODUCT_BLOCK;
    few_totals total[FEW_BLOCKS];
    for (int64_t j = 0; j < block->n; j += FEW_GROUP) {
        const int64_t columns = block->n - j < FEW_GROUP ? block->n - j : FEW_GROUP;
        for (int64_t i = 0; i < block->m; i += TILE_COLUMNS) {
            const int64_t rows = block->m - i < TILE_COLUMNS ? block->m - i : TILE_COLUMNS;
            few_panel(rows <= TH_REGISTER_LANES ? 1 : 2, columns, block->k, (const real *)block->a + i * block->k,
                      (const real *)block->b + j * block->b_panel, block->b_panel, total);
            for (int64_t row = 0; row < rows; row += TH_REGISTER_LANES)
                for (int64_t column = 0; column < columns; column += TH_REGISTER_LANES) {
                    const int64_t rows_left = rows - row < TH_REGISTER_LANES ? rows - row : TH_REGISTER_LANES;
                    const few_result to = {.c = (real *)block->c + (i + row) * block->c_row + j + column,
                                           .c_row = block->c_row,
                                           .init = block->init ? (const real *)block->init +
                                                                     (i + row) * block->init_row + j + column
                                                               : NULL,
                                           .init_row = block->init_row};
                    if (columns - column < TH_REGISTER_LANES)
                        store_few_columns(rows_left, columns - column, blocks, total, row, column, &to);
                    else
                        store_few_square(rows_left, blocks, total, row, column, &to);
                }
        }
    }
}
