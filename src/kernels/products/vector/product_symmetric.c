/* Completes symmetric products from their upper triangles, and transposes matrices. */
#include "kernels/products/vector/product.h"
#include "kernels/vector/registers.h"
#include "kernels/vector/transpose.h"

/* Returns (x + y ratio) factor: the sum has only one product, so that every compiler rounds it in the same way.
 * It calls vec_mul_add: the callers choose between two sums, and clang may move both additions behind the branches. */
TH_INLINE vec weighted_sum(vec x, vec y, real ratio, real factor)
{
    return vec_mul_add(y, vec_broadcast(ratio), x) * factor;
}

/* c = b a + c c, element by element, for `rows` rows of one register. */
TH_INLINE void combine_registers(int64_t stride, const real *a, const double weight[2], vec row[TH_REGISTER_LANES])
{
    const double b = weight[0], c = weight[1];
    const bool a_first = (b < 0 ? -b : b) > (c < 0 ? -c : c);
    const real factor = (real)(a_first ? b : c), ratio = (real)(a_first ? c / b : c != 0 ? b / c : 0);
    UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++) {
        const vec x = *(const vec *)(a + i * stride);
        row[i] = a_first ? weighted_sum(x, row[i], ratio, factor) : weighted_sum(row[i], x, ratio, factor);
    }
}

/* Mirrors a block on the diagonal: rows below it get the numbers above it. */
static void mirror_diagonal(real *block, int64_t stride)
{
    for (int i = 1; i < TH_REGISTER_LANES; i++)
        for (int j = 0; j < i; j++)
            block[i * stride + j] = block[j * stride + i];
}

/* Completes columns `first` to first + TILE_COLUMNS - 1 of a symmetric matrix C. Its numbers on and above the diagonal
 * are given. C becomes weight[0] A + weight[1] C, or remains C if A is NULL. Then the numbers above the diagonal
 * are also written below it, to rows `first` to first + TILE_COLUMNS - 1. A and C have rows of `stride` elements. */
void TH_KERNEL(product_mirror)(int64_t first, const void *matrix, const double *weight, void *result, int64_t stride)
{
    const real *a = matrix;
    real *c = result;
    for (int64_t j = first; j < first + TILE_COLUMNS; j += TH_REGISTER_LANES)
        for (int64_t i = 0; i <= j; i += TH_REGISTER_LANES) {
            real *block = c + i * stride + j;
            vec row[TH_REGISTER_LANES];
            UNROLLED_FOR (int r = 0; r < TH_REGISTER_LANES; r++)
                row[r] = *(const vec *)(block + r * stride);
            if (a) {
                combine_registers(stride, a + i * stride + j, weight, row);
                UNROLLED_FOR (int r = 0; r < TH_REGISTER_LANES; r++)
                    *(vec *)(block + r * stride) = row[r];
            }
            if (i == j) {
                mirror_diagonal(block, stride);
                continue;
            }
            transpose_registers(row);
            UNROLLED_FOR (int r = 0; r < TH_REGISTER_LANES; r++)
                *(vec *)(c + (j + r) * stride + i) = row[r];
        }
}

/* to = the transpose of `from`, times a number, for one register of rows and one of columns. */
TH_INLINE void transpose_block(const real *from, int64_t from_row, real times, real *to, int64_t to_row)
{
    vec row[TH_REGISTER_LANES];
    UNROLLED_FOR (int r = 0; r < TH_REGISTER_LANES; r++)
        row[r] = *(const vec *)(from + r * from_row) * times;
    transpose_registers(row);
    UNROLLED_FOR (int r = 0; r < TH_REGISTER_LANES; r++)
        *(vec *)(to + r * to_row) = row[r];
}

/* to (columns, rows) = factor times the transpose of `from` (rows, columns). The columns of both are contiguous. Blocks
 * of 16 x 16 elements read and write whole cache lines, although all rows may be in the same places of the cache. */
void TH_KERNEL(product_transpose)(int64_t rows, int64_t columns, const void *from, int64_t from_row, double factor,
                                  void *to, int64_t to_row)
{
    const real *x = from, times = (real)factor;
    real *y = to;
    const int64_t full_rows = rows / TH_REGISTER_LANES * TH_REGISTER_LANES;
    const int64_t full_columns = columns / TH_REGISTER_LANES * TH_REGISTER_LANES;
    for (int64_t j0 = 0; j0 < full_columns; j0 += TH_LANES)
        for (int64_t i0 = 0; i0 < full_rows; i0 += TH_LANES)
            for (int64_t j = j0; j < j0 + TH_LANES && j < full_columns; j += TH_REGISTER_LANES)
                for (int64_t i = i0; i < i0 + TH_LANES && i < full_rows; i += TH_REGISTER_LANES)
                    transpose_block(x + i * from_row + j, from_row, times, y + j * to_row + i, to_row);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < full_rows ? full_columns : 0; j < columns; j++)
            y[j * to_row + i] = x[i * from_row + j] * times;
}
