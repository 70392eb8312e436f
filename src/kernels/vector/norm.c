/* Layer norm and RMS norm on rows, with their gradients.
 * Row sums are formed in float32's own range: safe for |x| up to 1e17 (row_square_sum). */
#include "kernels/vector/row.h"

/* What is kept of a row: layer norm 2 numbers (mean, 1 / std), RMS norm 1 (1 / root mean square). */
TH_INLINE int64_t kept_numbers(bool centred)
{
    return centred ? 2 : 1;
}

TH_INLINE lanes weight_or_1(const real *weight, int64_t i, int64_t n)
{
    return weight ? row_load(weight, i, n, 0) : lanes_broadcast(1);
}

/* y = (x - mean) scale weight + bias; centred: layer norm, else RMS norm, whose mean is 0. */
TH_INLINE void norm_rows(bool centred, int64_t rows, int64_t n, double eps, const real *x, int64_t x_row,
                         const real *weight, const real *bias, real *y, int64_t y_row, real *kept)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *from = x + r * x_row;
        const real mean = centred ? row_sum(from, n) / (real)n : 0;
        const real variance = row_square_sum(from, n, mean, 1 / (real)n);
        const real scale = 1 / vec_sqrt(vec_broadcast(variance + (real)eps))[0];
        if (kept) {
            kept[kept_numbers(centred) * r] = centred ? mean : scale;
            if (centred)
                kept[2 * r + 1] = scale;
        }
        if (!y)
            continue;
        const lanes means = lanes_broadcast(mean), scales = lanes_broadcast(scale);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            lanes value = row_load(from, i, n, 0);
            if (centred)
                value = lanes_sub(value, means);
            value = lanes_mul(value, scales);
            if (bias)
                value = lanes_mul_add(value, weight_or_1(weight, i, n), row_load(bias, i, n, 0));
            else if (weight)
                value = lanes_mul(value, row_load(weight, i, n, 0));
            row_store(y + r * y_row, i, n, value);
        }
    }
}

void TH_KERNEL(layer_norm)(int64_t rows, int64_t n, double eps, const void *x, int64_t x_row, const void *weight,
                           const void *bias, void *y, int64_t y_row, void *kept)
{
    norm_rows(true, rows, n, eps, x, x_row, weight, bias, y, y_row, kept);
}

void TH_KERNEL(rms_norm)(int64_t rows, int64_t n, double eps, const void *x, int64_t x_row, const void *weight,
                         const void *bias, void *y, int64_t y_row, void *kept)
{
    norm_rows(false, rows, n, eps, x, x_row, weight, bias, y, y_row, kept);
}

static bool all_zero(const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += TH_LANES) {
        const lanes value = row_load(x, i, n, 0);
        for (int r = 0; r < TH_REGISTERS; r++)
            if (vec_any(value.part[r] != (real)0))
                return false;
    }
    return true;
}

/* With h = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - h mean(g h)), the middle term only when
 * centred; dweight += sum over rows of dy h, dbias += sum over rows of dy. Rows whose dy is exactly 0 take no part. */
TH_INLINE void norm_gradient(bool centred, int64_t rows, int64_t n, const real *x, int64_t x_row, const real *kept,
                             const real *weight, const real *dy, int64_t dy_row, real *dx, int64_t dx_row, bool add,
                             real *dweight, real *dbias)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *from = x + r * x_row, *gradient = dy + r * dy_row;
        real *to = dx ? dx + r * dx_row : NULL;
        if (all_zero(gradient, n)) {
            if (to && !add)
                row_fill(to, n, 0);
            continue;
        }
        const real mean = centred ? kept[2 * r] : 0, scale = kept[kept_numbers(centred) * r + (centred ? 1 : 0)];
        const lanes means = lanes_broadcast(mean), scales = lanes_broadcast(scale);
        lanes sum_g = lanes_broadcast(0), sum_gh = lanes_broadcast(0);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            const lanes d = row_load(gradient, i, n, 0);
            lanes h = row_load(from, i, n, mean);
            if (centred)
                h = lanes_sub(h, means);
            h = lanes_mul(h, scales);
            const lanes w = weight_or_1(weight, i, n);
            if (centred)
                sum_g = lanes_mul_add(d, w, sum_g);
            sum_gh = lanes_mul_add(lanes_mul(d, w), h, sum_gh);
            if (dweight)
                row_store(dweight, i, n, lanes_mul_add(d, h, row_load(dweight, i, n, 0)));
            if (dbias)
                row_put(dbias, i, n, d, true);
        }
        if (!to)
            continue;
        const lanes minus_mean_g = lanes_broadcast(-lanes_sum(sum_g) / (real)n),
                    minus_mean_gh = lanes_broadcast(-lanes_sum(sum_gh) / (real)n);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            lanes h = row_load(from, i, n, mean);
            if (centred)
                h = lanes_sub(h, means);
            h = lanes_mul(h, scales);
            const lanes along =
                lanes_mul_add(h, minus_mean_gh, minus_mean_g); /* what the normalisation takes out of g */
            const lanes rest = lanes_mul_add(row_load(gradient, i, n, 0), weight_or_1(weight, i, n), along);
            row_put_product(to, i, n, rest, scales, add);
        }
    }
}

void TH_KERNEL(layer_norm_backward)(int64_t rows, int64_t n, const void *x, int64_t x_row, const void *kept,
                                    const void *weight, const void *dy, int64_t dy_row, void *dx, int64_t dx_row,
                                    bool add, void *dweight, void *dbias)
{
    norm_gradient(true, rows, n, x, x_row, kept, weight, dy, dy_row, dx, dx_row, add, dweight, dbias);
}

void TH_KERNEL(rms_norm_backward)(int64_t rows, int64_t n, const void *x, int64_t x_row, const void *kept,
                                  const void *weight, const void *dy, int64_t dy_row, void *dx, int64_t dx_row,
                                  bool add, void *dweight, void *dbias)
{
    norm_gradient(false, rows, n, x, x_row, kept, weight, dy, dy_row, dx, dx_row, add, dweight, dbias);
}
