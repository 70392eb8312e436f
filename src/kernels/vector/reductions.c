/* Reductions of rows that are not plain sums: largest element, its index, variance. */
#include "kernels/vector/row.h"

/* The largest element; NaN wins. */
TH_INLINE real row_maximum(const real *x, int64_t n)
{
    lanes largest = lanes_broadcast((real)-INFINITY);
    for (int64_t i = 0; i < n; i += TH_LANES)
        largest = lanes_maximum(row_load(x, i, n, (real)-INFINITY), largest);
    return lanes_largest(largest);
}

/* Whether x counts as the largest element of its row: where that is NaN, the NaN elements do. */
TH_INLINE bool is_largest(real x, real largest)
{
    return x == largest || (x != x && largest != largest);
}

void TH_KERNEL(row_max)(int64_t rows, int64_t n, const void *x, int64_t x_row, void *y, int64_t y_row)
{
    for (int64_t r = 0; r < rows; r++)
        ((real *)y)[r * y_row] = row_maximum((const real *)x + r * x_row, n);
}

void TH_KERNEL(row_max_backward)(int64_t rows, int64_t n, const void *x, int64_t x_row, const void *y, int64_t y_row,
                                 const void *dy, int64_t dy_row, void *dx, int64_t dx_row, bool add)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *from = (const real *)x + r * x_row;
        real *to = (real *)dx + r * dx_row;
        const real largest = ((const real *)y)[r * y_row];
        int64_t count = 0;
        for (int64_t j = 0; j < n; j++)
            count += is_largest(from[j], largest);
        const real share = ((const real *)dy)[r * dy_row] / (real)count;
        for (int64_t j = 0; j < n; j++) {
            const real part = is_largest(from[j], largest) ? share : 0;
            to[j] = add ? to[j] + part : part;
        }
    }
}

/* The index of the first of the largest. */
void TH_KERNEL(row_argmax)(int64_t rows, int64_t n, const void *x, int64_t x_row, int64_t *y, int64_t y_row)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *from = (const real *)x + r * x_row;
        const real largest = row_maximum(from, n);
        int64_t j = 0;
        while (j < n - 1 && !is_largest(from[j], largest))
            j++;
        y[r * y_row] = j;
    }
}

/* sum (x - mean)² / divisor; of nothing: NaN. divisor 0: infinite, or NaN where all are equal. */
void TH_KERNEL(row_variance)(int64_t rows, int64_t n, double divisor, const void *x, int64_t x_row, void *y,
                             int64_t y_row)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *from = (const real *)x + r * x_row;
        real *to = (real *)y + r * y_row;
        const real mean = row_sum(from, n) / (real)n;
        if (n == 0)
            *to = (real)NAN;
        else if (divisor > 0)
            *to = row_square_sum(from, n, mean, (real)(1 / divisor));
        else
            *to = row_square_sum(from, n, mean, 1) / (real)0;
    }
}

/* dx = dy 2 (x - mean) / divisor */
void TH_KERNEL(row_variance_backward)(int64_t rows, int64_t n, double divisor, const void *x, int64_t x_row,
                                      const void *dy, int64_t dy_row, void *dx, int64_t dx_row, bool add)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *from = (const real *)x + r * x_row;
        real *to = (real *)dx + r * dx_row;
        const lanes mean = lanes_broadcast(row_sum(from, n) / (real)n);
        const lanes factor = lanes_broadcast(((const real *)dy)[r * dy_row] * (real)(2 / divisor));
        for (int64_t i = 0; i < n; i += TH_LANES)
            row_put_product(to, i, n, lanes_sub(row_load(from, i, n, 0), mean), factor, add);
    }
}
