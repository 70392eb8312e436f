/* Layer norm and RMS norm of rows, with their gradients (th_norm_parameters). Saved numbers of a row: mean and 1 / std;
 * for RMS norm only 1 / root mean square. Sums stay in float32's range for |x| up to 1e17 (row_square_sum). */
#include "kernels/rows/vector/row.h"

TH_INLINE lanes weight_or_1(const real *weight, int64_t i, int64_t n)
{
    return weight ? row_load(weight, i, n, 0) : lanes_broadcast(1);
}

/* Rows summed together, so that they do not wait for each other's sums: as many as the registers allow. */
enum { ROWS_AT_ONCE = TH_REGISTERS == 1 ? 3 : TH_REGISTERS == 2 ? 2 : 1 };

/* result[r] = sum x[r], with the same bits as for each row alone. */
TH_INLINE void row_sums(int count, const real *const x[ROWS_AT_ONCE], int64_t n, real result[ROWS_AT_ONCE])
{
    lanes sum[ROWS_AT_ONCE];
    for (int r = 0; r < count; r++)
        sum[r] = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES)
        for (int r = 0; r < count; r++)
            sum[r] = lanes_add(sum[r], row_load(x[r], i, n, 0));
    for (int r = 0; r < count; r++)
        result[r] = lanes_sum(sum[r]);
}

/* result[r] = row_square_sum of x[r], with the same bits as for each row alone. */
TH_INLINE void row_square_sums(int count, const real *const x[ROWS_AT_ONCE], int64_t n, const real mean[ROWS_AT_ONCE],
                               real factor, real result[ROWS_AT_ONCE])
{
    const lanes factors = lanes_broadcast(factor);
    lanes sum[ROWS_AT_ONCE];
    for (int r = 0; r < count; r++)
        sum[r] = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES)
        for (int r = 0; r < count; r++) {
            const lanes d = lanes_sub(row_load(x[r], i, n, mean[r]), lanes_broadcast(mean[r]));
            sum[r] = lanes_mul_add(d, lanes_mul(d, factors), sum[r]);
        }
    for (int r = 0; r < count; r++)
        result[r] = lanes_sum(sum[r]);
}

TH_INLINE void write_norm(bool centered, const real *x, int64_t n, real mean, real scale, const real *weight,
                          const real *bias, real *y)
{
    const lanes means = lanes_broadcast(mean), scales = lanes_broadcast(scale);
    for (int64_t i = 0; i < n; i += TH_LANES) {
        lanes value = row_load(x, i, n, 0);
        if (centered)
            value = lanes_sub(value, means);
        value = lanes_mul(value, scales);
        if (bias)
            value = lanes_mul_add(value, weight_or_1(weight, i, n), row_load(bias, i, n, 0));
        else if (weight)
            value = lanes_mul(value, row_load(weight, i, n, 0));
        row_store(y, i, n, value);
    }
}

/* Normalizes `count` rows from row `first` on. */
TH_INLINE void norm_few_rows(int count, bool centered, const th_rows_block *rows, const th_norm_parameters *parameters,
                             int64_t first)
{
    const int64_t n = rows->length;
    const real *x[ROWS_AT_ONCE];
    real mean[ROWS_AT_ONCE] = {0}, variance[ROWS_AT_ONCE];
    for (int r = 0; r < count; r++)
        x[r] = row_at(rows, TH_ROW_X, first + r);
    if (centered)
        row_sums(count, x, n, mean);
    for (int r = 0; r < count; r++)
        mean[r] /= (real)n;
    row_square_sums(count, x, n, mean, 1 / (real)n, variance);
    for (int r = 0; r < count; r++) {
        const real scale = 1 / vec_sqrt(vec_broadcast(variance[r] + (real)parameters->eps))[0];
        if (rows->operand[TH_ROW_SAVED]) {
            real *saved = row_at(rows, TH_ROW_SAVED, first + r);
            saved[0] = centered ? mean[r] : scale;
            if (centered)
                saved[1] = scale;
        }
        if (rows->operand[TH_ROW_Y])
            write_norm(centered, x[r], n, mean[r], scale, parameters->weight, parameters->bias,
                       row_at(rows, TH_ROW_Y, first + r));
    }
}

/* y = (x - mean) scale weight + bias. centered: layer norm; otherwise RMS norm, with mean 0. y and saved may be
 * NULL. */
TH_INLINE void norm_rows(bool centered, th_rows_block rows)
{
    const th_norm_parameters parameters = *(const th_norm_parameters *)rows.parameters;
    int64_t r = 0;
    for (; r + ROWS_AT_ONCE <= rows.count; r += ROWS_AT_ONCE)
        norm_few_rows(ROWS_AT_ONCE, centered, &rows, &parameters, r);
    for (; r < rows.count; r++)
        norm_few_rows(1, centered, &rows, &parameters, r);
}

void TH_KERNEL(layer_norm)(const th_rows_block *rows)
{
    norm_rows(true, *rows);
}

void TH_KERNEL(rms_norm)(const th_rows_block *rows)
{
    norm_rows(false, *rows);
}

static bool is_zero_row(const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += TH_LANES) {
        const lanes value = row_load(x, i, n, 0);
        for (int r = 0; r < TH_REGISTERS; r++)
            if (vec_any(value.vecs[r] != (real)0))
                return false;
    }
    return true;
}

/* Returns the row of sums (groups, length) that collects the block's rows. Clears it for the first block of a group. */
TH_INLINE real *sum_of_group(const th_rows_block *rows, void *sums, int64_t group)
{
    if (!sums)
        return NULL;
    real *sum = (real *)sums + rows->first / group * rows->length;
    if (rows->first % group == 0)
        row_fill(sum, rows->length, 0);
    return sum;
}

/* Computes the gradients. With h = (x - mean) scale and g = dy weight:
 *
 *     dx = scale (g - mean(g) - h mean(g h)), without mean(g) if not centered
 *     dweight += dy h,  dbias += dy, row by row in order
 *
 * Rows whose dy is exactly 0 do not take part. dx may be NULL. */
TH_INLINE void norm_gradient(bool centered, th_rows_block rows)
{
    const th_norm_parameters parameters = *(const th_norm_parameters *)rows.parameters;
    const real *weight = parameters.weight;
    real *dweight = sum_of_group(&rows, parameters.dweight, parameters.group),
         *dbias = sum_of_group(&rows, parameters.dbias, parameters.group);
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r), *dy = row_at(&rows, TH_ROW_DY, r),
                   *saved = row_at(&rows, TH_ROW_SAVED, r);
        real *dx = rows.operand[TH_ROW_DX] ? row_at(&rows, TH_ROW_DX, r) : NULL;
        if (is_zero_row(dy, n)) {
            if (dx && !rows.add)
                row_fill(dx, n, 0);
            continue;
        }
        const real mean = centered ? saved[0] : 0, scale = saved[centered ? 1 : 0];
        const lanes means = lanes_broadcast(mean), scales = lanes_broadcast(scale);
        lanes sum_g = lanes_broadcast(0), sum_gh = lanes_broadcast(0);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            const lanes d = row_load(dy, i, n, 0);
            lanes h = row_load(x, i, n, mean);
            if (centered)
                h = lanes_sub(h, means);
            h = lanes_mul(h, scales);
            const lanes w = weight_or_1(weight, i, n);
            if (centered)
                sum_g = lanes_mul_add(d, w, sum_g);
            sum_gh = lanes_mul_add(lanes_mul(d, w), h, sum_gh);
            if (dweight)
                row_store(dweight, i, n, lanes_mul_add(d, h, row_load(dweight, i, n, 0)));
            if (dbias)
                row_store_or_add(dbias, i, n, d, true);
        }
        if (!dx)
            continue;
        const lanes minus_mean_g = lanes_broadcast(-lanes_sum(sum_g) / (real)n),
                    minus_mean_gh = lanes_broadcast(-lanes_sum(sum_gh) / (real)n);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            lanes h = row_load(x, i, n, mean);
            if (centered)
                h = lanes_sub(h, means);
            h = lanes_mul(h, scales);
            const lanes minus_means = lanes_mul_add(h, minus_mean_gh, minus_mean_g); /* -(mean(g) + h mean(g h)) */
            const lanes result = lanes_mul_add(row_load(dy, i, n, 0), weight_or_1(weight, i, n), minus_means);
            row_store_or_add_product(dx, i, n, result, scales, rows.add);
        }
    }
}

void TH_KERNEL(layer_norm_backward)(const th_rows_block *rows)
{
    norm_gradient(true, *rows);
}

void TH_KERNEL(rms_norm_backward)(const th_rows_block *rows)
{
    norm_gradient(false, *rows);
}
