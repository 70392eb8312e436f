/* Kernels that keep masked numbers, such as NaN and infinity, out of matrix products. A factor of 0 is not enough,
 * because 0 * NaN is NaN. */
#include "kernels/elementwise/vector/elementwise.h"

/* y = keep ? x : 0 */
ELEMENTWISE_LOOP(keep_if, 2, 0)
{
    (void)parameters;
    real *y = operands[0];
    const real *x = operands[1];
    const bool *keep = operands[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = keep[i] ? x[i] : 0;
}

/* y = x where x is finite, else 0. parameters points to a bool *. Sets this bool if an element is not finite. */
void TH_KERNEL(finite_part)(int64_t n, void *const *operands, const void *parameters)
{
    bool *found_non_finite = *(bool *const *)parameters;
    real *y = operands[0];
    const real *x = operands[1];
    real_int any = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool bad = non_finite(x[i]);
        any |= bad;
        y[i] = bad ? 0 : x[i];
    }
    if (any)
        __atomic_store_n(found_non_finite, true, __ATOMIC_RELAXED); /* other threads may write it too */
}

/* c (m, n) += a (m, k) b (k, n), only for the elements of b that are not finite and only where keep (m, k) is true. So
 * NaN and infinity do not reach an element of c if they are masked for it. */
void TH_KERNEL(add_non_finite)(int64_t m, int64_t k, int64_t n, const void *a, int64_t a_row, int64_t a_column,
                               const bool *keep, int64_t keep_row, int64_t keep_column, const void *b, int64_t b_row,
                               int64_t b_column, void *c, int64_t c_row, int64_t c_column)
{
    for (int64_t step = 0; step < k; step++) {
        for (int64_t j = 0; j < n; j++) {
            const real factor = ((const real *)b)[step * b_row + j * b_column];
            if (!non_finite(factor))
                continue;
            for (int64_t i = 0; i < m; i++)
                if (keep[i * keep_row + step * keep_column])
                    ((real *)c)[i * c_row + j * c_column] += ((const real *)a)[i * a_row + step * a_column] * factor;
        }
    }
}

/* Sets idle[i] to whether all of row i of a (rows, a_columns) is 0, and row i of b (rows, b_columns) has a NaN or an
 * infinity. Sets *found if there is such a row. Rows of 0 are rare: the loop usually stops at a row's first element. */
void TH_KERNEL(idle_rows)(int64_t rows, int64_t a_columns, const void *a, int64_t a_row, int64_t a_column,
                          int64_t b_columns, const void *b, int64_t b_row, int64_t b_column, bool *idle, bool *found)
{
    for (int64_t i = 0; i < rows; i++) {
        const real *x = (const real *)a + i * a_row, *y = (const real *)b + i * b_row;
        int64_t j = 0;
        while (j < a_columns && x[j * a_column] == 0)
            j++;
        idle[i] = false;
        if (j < a_columns)
            continue;
        real sum = 0; /* adds 0 for each finite element and NaN for each other one */
        for (j = 0; j < b_columns; j++)
            sum += y[j * b_column] - y[j * b_column];
        idle[i] = sum != 0;
        *found |= idle[i];
    }
}
