/* Losses: cross entropy of rows of logits, and the elementwise kernels of the mean squared error. */
#include "kernels/elementwise/vector/elementwise.h"
#include "kernels/rows/vector/row.h"

/* a * b + c, fused if the processor has an instruction for it. */
TH_INLINE double double_mul_add(double a, double b, double c)
{
#if TH_FUSED
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* loss = log sum exp(x) - (1 - smoothing) x[target] - smoothing mean(x). It is computed relative to the largest logit
 * m: log sum exp(x) = m + log(sum), where sum = sum exp(x - m). A loss is a double, because m - x[target] can be twice
 * the largest float. target < 0: the row does not count. saved: (rows, 2) for m and 1 / sum, or NULL. */
void TH_KERNEL(cross_entropy)(int64_t rows, int64_t n, double smoothing, const int64_t *target, const void *x,
                              int64_t x_row, double *loss, void *saved)
{
    const lanes half = lanes_broadcast((real)0.5), share = lanes_broadcast((real)(2 * smoothing / (double)n));
    for (int64_t r = 0; r < rows; r++) {
        const real *from = (const real *)x + r * x_row;
        if (target[r] < 0) {
            loss[r] = 0;
            if (saved)
                ((real *)saved)[2 * r] = ((real *)saved)[2 * r + 1] = 0;
            continue;
        }
        const real largest = row_largest(from, n);
        const real sum = row_exp_sum(from, n, largest);
        double result = (double)real_log(sum);
        if (smoothing < 1)
            result = double_mul_add(1 - smoothing, (double)largest - (double)from[target[r]], result);
        if (smoothing > 0) {
            /* smoothing / n sum (m - x); m and x are halved, so that no difference overflows */
            const lanes half_largest = lanes_mul(lanes_broadcast(largest), half);
            lanes smoothing_sum = lanes_broadcast(0);
            for (int64_t i = 0; i < n; i += TH_LANES) {
                const lanes half_difference = lanes_sub(half_largest, lanes_mul(row_load(from, i, n, largest), half));
                smoothing_sum = lanes_mul_add(half_difference, share, smoothing_sum);
            }
            result += (double)lanes_sum(smoothing_sum);
        }
        loss[r] = result;
        if (saved) {
            ((real *)saved)[2 * r] = largest;
            ((real *)saved)[2 * r + 1] = 1 / sum;
        }
    }
}

/* dx = factor (softmax(x) - share), minus at_target at the target; 0 for rows that do not count. add: dx += instead. */
void TH_KERNEL(cross_entropy_backward)(int64_t rows, int64_t n, double factor, double share, double at_target,
                                       const int64_t *target, const void *x, int64_t x_row, const void *saved, void *dx,
                                       int64_t dx_row, bool add)
{
    const lanes factors = lanes_broadcast((real)factor), minus_share = lanes_broadcast(-(real)share);
    for (int64_t r = 0; r < rows; r++) {
        const real *from = (const real *)x + r * x_row;
        real *to = (real *)dx + r * dx_row;
        if (target[r] < 0) {
            if (!add)
                row_fill(to, n, 0);
            continue;
        }
        const lanes largest = lanes_broadcast(((const real *)saved)[2 * r]),
                    scale = lanes_broadcast(((const real *)saved)[2 * r + 1]);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            const lanes e = lanes_exp(lanes_sub(row_load(from, i, n, 0), largest));
            row_store_or_add_product(to, i, n, lanes_mul_add(e, scale, minus_share), factors, add);
        }
        to[target[r]] -= (real)at_target;
    }
}

/* y = x / number */
ELEMENTWISE_KERNEL(divide_by, 1, 1)
{
    return v[0] / v[1];
}

/* y = (a - b)² */
ELEMENTWISE_KERNEL(squared_difference, 2, 0)
{
    const vec difference = v[0] - v[1];
    return difference * difference;
}

/* y = (a - b) number */
ELEMENTWISE_KERNEL(scaled_difference, 2, 1)
{
    return (v[0] - v[1]) * v[2];
}
