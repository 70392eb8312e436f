/* Reductions of rows other than sums: maximum, its index, variance. */
#include "kernels/rows/vector/row.h"

/* Returns the maximum; NaN if an element is NaN. */
TH_INLINE real row_maximum(const real *x, int64_t n)
{
    lanes largest = lanes_broadcast((real)-INFINITY);
    for (int64_t i = 0; i < n; i += TH_LANES)
        largest = lanes_maximum(row_load(x, i, n, (real)-INFINITY), largest);
    return lanes_largest(largest);
}

/* Returns whether x counts as the maximum of its row. If the maximum is NaN, the NaN elements count. */
TH_INLINE bool is_largest(real x, real largest)
{
    return x == largest || (x != x && largest != largest);
}

/* y = max(x), one number for each row */
void TH_KERNEL(row_max)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    for (int64_t r = 0; r < rows.count; r++)
        *row_at(&rows, TH_ROW_Y, r) = row_maximum(row_at(&rows, TH_ROW_X, r), rows.length);
}

/* dx = dy / k for the k elements of x that equal y, else 0; y and dy have one number for each row */
void TH_KERNEL(row_max_backward)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        real *dx = row_at(&rows, TH_ROW_DX, r);
        const real largest = *row_at(&rows, TH_ROW_Y, r);
        int64_t count = 0;
        for (int64_t j = 0; j < n; j++)
            count += is_largest(x[j], largest);
        const real share = *row_at(&rows, TH_ROW_DY, r) / (real)count;
        for (int64_t j = 0; j < n; j++) {
            const real gradient = is_largest(x[j], largest) ? share : 0;
            dx[j] = rows.add ? dx[j] + gradient : gradient;
        }
    }
}

/* y = the index of the first maximum, one int64 for each row */
void TH_KERNEL(row_argmax)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        const real largest = row_maximum(x, n);
        int64_t j = 0;
        while (j < n - 1 && !is_largest(x[j], largest))
            j++;
        ((int64_t *)rows.operand[TH_ROW_Y])[r * rows.stride[TH_ROW_Y]] = j;
    }
}

/* Returns n - correction, or 0 if that is negative. The correction is the kernels' parameter. */
TH_INLINE double variance_divisor(const th_rows_block *rows)
{
    const double divisor = (double)rows->length - *(const double *)rows->parameters;
    return divisor > 0 ? divisor : 0;
}

/* y = sum (x - mean)² / divisor, one number for each row; NaN for an empty row. If the divisor is 0, the result is as
 * in NumPy: infinite, or NaN if all elements are equal. */
void TH_KERNEL(row_variance)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    const double divisor = variance_divisor(&rows);
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        real *y = row_at(&rows, TH_ROW_Y, r);
        const real mean = row_sum(x, n) / (real)n;
        if (n == 0)
            *y = (real)NAN;
        else if (divisor > 0)
            *y = row_square_sum(x, n, mean, (real)(1 / divisor));
        else
            *y = row_square_sum(x, n, mean, 1) / (real)0;
    }
}

/* dx = dy 2 (x - mean) / divisor; dy has one number for each row */
void TH_KERNEL(row_variance_backward)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    const double divisor = variance_divisor(&rows);
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        real *dx = row_at(&rows, TH_ROW_DX, r);
        const lanes mean = lanes_broadcast(row_sum(x, n) / (real)n);
        const lanes factor = lanes_broadcast(*row_at(&rows, TH_ROW_DY, r) * (real)(2 / divisor));
        for (int64_t i = 0; i < n; i += TH_LANES)
            row_store_or_add_product(dx, i, n, lanes_sub(row_load(x, i, n, 0), mean), factor, rows.add);
    }
}
