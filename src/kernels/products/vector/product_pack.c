/* Packs the operands of a matrix product into panels that the micro-kernel reads with constant strides, and copies
 * blocks of C that it cannot write directly. Nothing here computes. */
#include "kernels/products/vector/product.h"
#include "kernels/vector/transpose.h"

enum { PACK_AHEAD = 8 }; /* steps to prefetch ahead: each step may be on another page */

/* panel[step * width + i] = source[i * stride + step] for `count` rows i with k contiguous elements each. There are at
 * most as many rows as a register has elements. Always writes whole registers: the next step overwrites the excess, and
 * there is space for it after the end. */
static void pack_rows(int64_t k, int64_t count, const real *source, int64_t stride, real *panel, int64_t width)
{
    if (k < TH_REGISTER_LANES) {
        for (int64_t step = 0; step < k; step++)
            for (int64_t i = 0; i < TH_REGISTER_LANES; i++)
                panel[step * width + i] = source[(i < count ? i : count - 1) * stride + step];
        return;
    }
    for (int64_t step = 0; step < k; step += TH_REGISTER_LANES) {
        /* The last registers overlap the ones before. */
        const int64_t first = step + TH_REGISTER_LANES > k ? k - TH_REGISTER_LANES : step;
        vec row[TH_REGISTER_LANES];
        UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++)
            row[i] = *(const vec *)(source + (i < count ? i : count - 1) * stride + first);
        transpose_registers(row);
        UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++)
            *(vec *)(panel + (first + i) * width) = row[i];
    }
}

/* Packs a panel of `width` rows of k contiguous elements. Begins with the last rows: the earlier rows then overwrite
 * the excess of the later ones. */
static void pack_rows_panel(int64_t k, int64_t count, const real *source, int64_t stride, real *panel, int64_t width)
{
    for (int64_t i = (count - 1) / TH_REGISTER_LANES * TH_REGISTER_LANES; i >= 0; i -= TH_REGISTER_LANES)
        pack_rows(k, count - i < TH_REGISTER_LANES ? count - i : TH_REGISTER_LANES, source + i * stride, stride,
                  panel + i, width);
}

/* Packs A, m x k, into panels of TILE_ROWS rows: element (i, step) of panel p goes to panels[(p * k + step) * TILE_ROWS
 * + i]. `row` and `column` are strides. There must be space for one register after the last panel. */
void TH_KERNEL(product_pack_a)(int64_t m, int64_t k, const void *matrix, int64_t row, int64_t column, void *packed)
{
    const real *a = matrix;
    real *panels = packed;
    if (column == 1) {
        for (int64_t i = 0; i < m; i += TILE_ROWS)
            pack_rows_panel(k, m - i < TILE_ROWS ? m - i : TILE_ROWS, a + i * row, row, panels + i * k, TILE_ROWS);
        return;
    }
    const int64_t full = row == 1 ? m / TILE_ROWS * TILE_ROWS : 0;
    /* In the order of memory: this reads one page for each step, not one for each step and panel. */
    for (int64_t step = 0; step < k; step++) {
        for (int64_t i = 0; i < full; i += TILE_ROWS) {
            __builtin_prefetch(a + i + (step + PACK_AHEAD) * column);
            memcpy(panels + i * k + step * TILE_ROWS, a + i + step * column, TILE_ROWS * sizeof(real));
        }
        for (int64_t i = full; i < m; i++)
            panels[i / TILE_ROWS * TILE_ROWS * k + step * TILE_ROWS + i % TILE_ROWS] = a[i * row + step * column];
    }
}

/* Packs B, k x n, into panels of TILE_COLUMNS columns: element (step, j) of panel p goes to panels[p * stride + step *
 * TILE_COLUMNS + j]. There must be space for one register after the last panel. The last panel is filled with zeros or
 * copies of its last column; products with these are not stored. */
void TH_KERNEL(product_pack_b)(int64_t k, int64_t n, const void *matrix, int64_t row, int64_t column, void *packed,
                               int64_t stride)
{
    const real *b = matrix;
    real *panels = packed;
    if (row == 1 && column != 1) {
        for (int64_t j = 0; j < n; j += TILE_COLUMNS)
            pack_rows_panel(k, n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS, b + j * column, column,
                            panels + j / TILE_COLUMNS * stride, TILE_COLUMNS);
        return;
    }
    const int64_t full = column == 1 ? n / TILE_COLUMNS * TILE_COLUMNS : 0;
    for (int64_t step = 0; step < k; step++) {
        for (int64_t j = 0; j < full; j += TILE_COLUMNS) {
            __builtin_prefetch(b + (step + PACK_AHEAD) * row + j);
            __builtin_prefetch(b + (step + PACK_AHEAD) * row + j + TH_REGISTER_LANES);
            memcpy(panels + j / TILE_COLUMNS * stride + step * TILE_COLUMNS, b + step * row + j,
                   TILE_COLUMNS * sizeof(real));
        }
        for (int64_t j = full; j < n; j++)
            panels[j / TILE_COLUMNS * stride + step * TILE_COLUMNS + j % TILE_COLUMNS] = b[step * row + j * column];
        for (int64_t j = n; j % TILE_COLUMNS != 0; j++)
            panels[j / TILE_COLUMNS * stride + step * TILE_COLUMNS + j % TILE_COLUMNS] = 0;
    }
}

/* to = from, both (m, n) with any strides; a stride of 0 in `from` repeats an element. */
void TH_KERNEL(product_copy)(int64_t m, int64_t n, const void *from, int64_t from_row, int64_t from_column, void *to,
                             int64_t to_row, int64_t to_column)
{
    const real *x = from;
    real *y = to;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * to_row + j * to_column] = x[i * from_row + j * from_column];
}
