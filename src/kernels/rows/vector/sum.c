/* Sums of rows and of columns. tensor/sum.c reduces every sum over axes to these two loops. */
#include "kernels/vector/vector_math.h"

/* y[i] = sum of row i. Lane l adds the elements l, l + 16, ...; the lanes are combined in a fixed order. */
void TH_KERNEL(sum_rows)(int64_t rows, int64_t n, const void *x, int64_t x_row, void *y)
{
    real *to = y;
    for (int64_t i = 0; i < rows; i++) {
        const real *from = (const real *)x + i * x_row;
        lanes sum = lanes_broadcast(0);
        int64_t j = 0;
        for (; j + TH_LANES <= n; j += TH_LANES)
            sum = lanes_add(sum, lanes_load(from + j));
        if (j < n)
            sum = lanes_add(sum, lanes_load_part(from + j, n - j, 0));
        to[i] = lanes_sum(sum);
    }
}

/* y[j] += the sum of column j over `rows` rows, in order. */
TH_INLINE void add_column_sums(int rows, int64_t n, const real *from, int64_t row, real *to)
{
    int64_t j = 0;
    for (; j + TH_REGISTER_LANES <= n; j += TH_REGISTER_LANES) {
        vec sum = vec_load(to + j);
        for (int i = 0; i < rows; i++)
            sum += vec_load(from + i * row + j);
        vec_store(to + j, sum);
    }
    for (; j < n; j++) {
        real sum = to[j];
        for (int i = 0; i < rows; i++)
            sum += from[i * row + j];
        to[j] = sum;
    }
}

/* y[j] = sum of column j, row by row; rows >= 1. Eight rows are read together, in the order of memory. */
void TH_KERNEL(sum_columns)(int64_t rows, int64_t n, const void *x, int64_t x_row, void *y)
{
    const real *from = x;
    memcpy(y, from, (size_t)n * sizeof(real));
    int64_t i = 1;
    for (; i + 8 <= rows; i += 8)
        add_column_sums(8, n, from + i * x_row, x_row, y);
    for (; i < rows; i++)
        add_column_sums(1, n, from + i * x_row, x_row, y);
}
