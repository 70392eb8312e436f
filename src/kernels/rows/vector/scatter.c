/* Adding at indexed positions: the backward of gather and embedding. Elements are added one after another, in the
 * order of the indices, so that repeated indices always give the same bits. The caller has checked the indices. */
#include "kernels/vector/vector.h"

/* to[index[j * index_stride] * to_stride] += from[j * from_stride] for j = 0 .. n-1 */
void TH_KERNEL(scatter_add)(int64_t n, const int64_t *index, int64_t index_stride, const void *from,
                            int64_t from_stride, void *to, int64_t to_stride)
{
    const real *x = from;
    real *y = to;
    for (int64_t j = 0; j < n; j++)
        y[index[j * index_stride] * to_stride] += x[j * from_stride];
}

/* Row index[i] of to += row i of from, for i = 0 .. rows-1; rows of `columns` elements, any strides. */
void TH_KERNEL(add_rows)(int64_t rows, const int64_t *index, int64_t columns, const void *from, int64_t from_row,
                         int64_t from_column, void *to, int64_t to_row, int64_t to_column)
{
    for (int64_t i = 0; i < rows; i++) {
        const real *x = (const real *)from + i * from_row;
        real *y = (real *)to + index[i] * to_row;
        if (from_column == 1 && to_column == 1) {
            for (int64_t j = 0; j < columns; j++)
                y[j] += x[j];
        } else {
            for (int64_t j = 0; j < columns; j++)
                y[j * to_column] += x[j * from_column];
        }
    }
}
