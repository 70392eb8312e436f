/* Rotary positions on rows (th_rotary_parameters). Operand X is the row, DX the rotated row, which may be in the same
 * memory, SAVED the cosines and sines of its position. */
#include "kernels/rows/vector/row.h"

/* a b - c d; c d is rounded first. */
TH_INLINE lanes product_less_product(lanes a, lanes b, lanes c, lanes d)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] = vec_mul_add(a.vecs[r], b.vecs[r], -(c.vecs[r] * d.vecs[r]));
    return a;
}

/* Rotates the pairs i and i + half. table: cosines (half), then sines (half). */
TH_INLINE void rotate_halves(const real *x, real *y, const real *table, int64_t half, bool add)
{
    for (int64_t i = 0; i < half; i += TH_LANES) {
        const lanes a = row_load(x, i, half, 0), b = row_load(x + half, i, half, 0);
        const lanes cosine = row_load(table, i, half, 0), sine = row_load(table + half, i, half, 0);
        row_store_or_add(y, i, half, product_less_product(a, cosine, b, sine), add);
        row_store_or_add(y + half, i, half, lanes_mul_add(b, cosine, lanes_mul(a, sine)), add);
    }
}

/* Indices for vec_shuffle that exchange elements 2 i and 2 i + 1 of a register. */
#define SWAPPED_2 1, 0
#define SWAPPED_4 SWAPPED_2, 3, 2
#define SWAPPED_8 SWAPPED_4, 5, 4, 7, 6
#define SWAPPED_16 SWAPPED_8, 9, 8, 11, 10, 13, 12, 15, 14
#if TH_VECTOR_BYTES * 8 / TH_REAL_BITS == 16
#define SWAPPED SWAPPED_16
#elif TH_VECTOR_BYTES * 8 / TH_REAL_BITS == 8
#define SWAPPED SWAPPED_8
#elif TH_VECTOR_BYTES * 8 / TH_REAL_BITS == 4
#define SWAPPED SWAPPED_4
#else
#define SWAPPED SWAPPED_2
#endif

/* Exchanges elements 2 i and 2 i + 1. */
TH_INLINE lanes swap_neighbors(lanes x)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        x.vecs[r] = vec_shuffle(x.vecs[r], x.vecs[r], SWAPPED);
    return x;
}

/* Rotates the pairs 2 i and 2 i + 1. table: cosines (width), each twice, then sines (width), each twice with the first
 * negated. */
TH_INLINE void rotate_neighbors(const real *x, real *y, const real *table, int64_t width, bool add)
{
    for (int64_t i = 0; i < width; i += TH_LANES) {
        const lanes a = row_load(x, i, width, 0);
        const lanes cosine = row_load(table, i, width, 0), sine = row_load(table + width, i, width, 0);
        row_store_or_add(y, i, width, lanes_mul_add(a, cosine, lanes_mul(swap_neighbors(a), sine)), add);
    }
}

void TH_KERNEL(rotary)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const th_rotary_parameters parameters = *(const th_rotary_parameters *)rows.parameters;
    const int64_t width = parameters.width;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r), *table = row_at(&rows, TH_ROW_SAVED, r);
        real *y = row_at(&rows, TH_ROW_DX, r);
        if (parameters.neighbors)
            rotate_neighbors(x, y, table, width, rows.add);
        else
            rotate_halves(x, y, table, width / 2, rows.add);
        for (int64_t i = width; i < rows.length; i += TH_LANES)
            row_store_or_add(y, i, rows.length, row_load(x, i, rows.length, 0), rows.add);
    }
}
