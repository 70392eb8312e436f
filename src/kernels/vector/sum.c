/* Sums of rows and of columns: the two loops that every sum over axes comes down to (tensor/sum.c). */
#include "kernels/vector/vector_math.h"

/* y[i] = sum of row i: lane l takes the elements l, l + 16, ..., the lanes are combined in a fixed order. */
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

/* y[j] = sum of column j, row after row from the first, which there is. */
void TH_KERNEL(sum_columns)(int64_t rows, int64_t n, const void *x, int64_t x_row, void *y)
{
    const real *from = x;
    real *to = y;
    int64_t j = 0;
    for (; j + 4 * TH_REGISTER_LANES <= n;
         j += 4 * TH_REGISTER_LANES) { /* four sums at a time hide what an addition takes */
        vec sum[4];
        for (int r = 0; r < 4; r++)
            sum[r] = vec_load(from + j + r * TH_REGISTER_LANES);
        for (int64_t i = 1; i < rows; i++)
            for (int r = 0; r < 4; r++)
                sum[r] += vec_load(from + i * x_row + j + r * TH_REGISTER_LANES);
        for (int r = 0; r < 4; r++)
            vec_store(to + j + r * TH_REGISTER_LANES, sum[r]);
    }
    for (; j + TH_REGISTER_LANES <= n; j += TH_REGISTER_LANES) {
        vec sum = vec_load(from + j);
        for (int64_t i = 1; i < rows; i++)
            sum += vec_load(from + i * x_row + j);
        vec_store(to + j, sum);
    }
    for (; j < n; j++) {
        real sum = from[j];
        for (int64_t i = 1; i < rows; i++)
            sum += from[i * x_row + j];
        to[j] = sum;
    }
}
