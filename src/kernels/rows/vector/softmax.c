/* Softmax, log-softmax, log-sum-exp and masked softmax of rows, with their gradients. All are computed relative to the
 * largest element, so that any finite row is safe: x - max may overflow to -inf, whose exp is 0. */
#include "kernels/rows/vector/visible.h"

/* y = exp(x - shift) / sum exp(x - shift). Returns the sum. y may be x. The last lanes stay in registers: reading them
 * back after a partial store would stall the processor. */
TH_INLINE real softmax_row(int64_t n, const real *x, real shift, real *y)
{
    const lanes shifts = lanes_broadcast(shift);
    const int64_t whole = n / TH_LANES * TH_LANES;
    lanes sum = lanes_broadcast(0), last = sum;
    for (int64_t i = 0; i < whole; i += TH_LANES) {
        const lanes e = lanes_exp(lanes_sub(lanes_load(x + i), shifts));
        sum = lanes_add(sum, e);
        lanes_store(y + i, e);
    }
    if (whole < n) {
        last = lanes_exp(lanes_sub(lanes_load_part(x + whole, n - whole, (real)-INFINITY), shifts));
        sum = lanes_add(sum, last);
    }
    const real total = lanes_sum(sum);
    const lanes factor = lanes_broadcast(1 / total);
    for (int64_t i = 0; i < whole; i += TH_LANES)
        lanes_store(y + i, lanes_mul(lanes_load(y + i), factor));
    if (whole < n)
        lanes_store_part(y + whole, n - whole, lanes_mul(last, factor));
    return total;
}

/* y = softmax(x) */
void TH_KERNEL(softmax)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        softmax_row(n, x, row_largest(x, n), row_at(&rows, TH_ROW_Y, r));
    }
}

/* Returns y != 0 ? a : 0 for each lane. */
TH_INLINE lanes keep_where_not_0(lanes y, lanes a)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] = vec_keep(y.vecs[r] != (real)0, a.vecs[r]);
    return a;
}

/* dx = y (dy - sum dy y). masked: elements with y = 0 count as masked, and their dy does not matter, NaN included. */
TH_INLINE void softmax_gradient(const th_rows_block *block, bool masked)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *y = row_at(&rows, TH_ROW_Y, r), *dy = row_at(&rows, TH_ROW_DY, r);
        real *dx = row_at(&rows, TH_ROW_DX, r);
        lanes sum = lanes_broadcast(0);
        for (int64_t i = 0; i < n; i += TH_LANES) {
            const lanes weight = row_load(y, i, n, 0);
            lanes gradient = row_load(dy, i, n, 0);
            if (masked)
                gradient = keep_where_not_0(weight, gradient);
            sum = lanes_mul_add(weight, gradient, sum);
        }
        const lanes dot = lanes_broadcast(lanes_sum(sum));
        for (int64_t i = 0; i < n; i += TH_LANES) {
            const lanes weight = row_load(y, i, n, 0);
            lanes gradient = lanes_sub(row_load(dy, i, n, 0), dot);
            if (masked)
                gradient = keep_where_not_0(weight, gradient);
            row_store_or_add_product(dx, i, n, weight, gradient, rows.add);
        }
    }
}

void TH_KERNEL(softmax_backward)(const th_rows_block *rows)
{
    softmax_gradient(rows, false);
}

void TH_KERNEL(masked_softmax_backward)(const th_rows_block *rows)
{
    softmax_gradient(rows, true);
}

/* y = log softmax(x) */
void TH_KERNEL(log_softmax)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        real *y = row_at(&rows, TH_ROW_Y, r);
        const real largest = row_largest(x, n);
        const lanes shift = lanes_broadcast(largest), log_sum = lanes_broadcast(real_log(row_exp_sum(x, n, largest)));
        for (int64_t i = 0; i < n; i += TH_LANES)
            row_store(y, i, n, lanes_sub(lanes_sub(row_load(x, i, n, 0), shift), log_sum));
    }
}

/* dx = dy - exp(y) sum dy */
void TH_KERNEL(log_softmax_backward)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *y = row_at(&rows, TH_ROW_Y, r), *dy = row_at(&rows, TH_ROW_DY, r);
        real *dx = row_at(&rows, TH_ROW_DX, r);
        const lanes minus_sum = lanes_broadcast(-row_sum(dy, n));
        for (int64_t i = 0; i < n; i += TH_LANES) {
            const lanes softmax = lanes_exp(row_load(y, i, n, 0));
            row_store_or_add(dx, i, n, lanes_mul_add(softmax, minus_sum, row_load(dy, i, n, 0)), rows.add);
        }
    }
}

/* y = log sum exp(x), one number for each row */
void TH_KERNEL(log_sum_exp)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        const real largest = row_largest(x, n);
        const real shift = largest - largest == 0 ? largest : 0; /* exp and log give the right infinities */
        *row_at(&rows, TH_ROW_Y, r) = shift + real_log(row_exp_sum(x, n, shift));
    }
}

/* dx = dy exp(x - y); y and dy have one number for each row */
void TH_KERNEL(log_sum_exp_backward)(const th_rows_block *block)
{
    const th_rows_block rows = *block;
    const int64_t n = rows.length;
    for (int64_t r = 0; r < rows.count; r++) {
        const real *x = row_at(&rows, TH_ROW_X, r);
        real *dx = row_at(&rows, TH_ROW_DX, r);
        const real y = *row_at(&rows, TH_ROW_Y, r);
        if (y == (real)-INFINITY) {
            if (!rows.add)
                row_fill(dx, n, 0);
            continue;
        }
        const lanes shift = lanes_broadcast(y), factor = lanes_broadcast(*row_at(&rows, TH_ROW_DY, r));
        for (int64_t i = 0; i < n; i += TH_LANES)
            row_store_or_add_product(dx, i, n, lanes_exp(lanes_sub(row_load(x, i, n, 0), shift)), factor, rows.add);
    }
}

/* -- masked -- */

/* Softmax of one row; masked keys get 0. Blocks of lanes always start at multiples of 16 keys, not at the first visible
 * key. So the bits do not depend on the form in which a mask is given. */
void TH_KERNEL(masked_softmax)(int64_t n, const th_visible_row *row, const void *x, void *y)
{
    const real *from = x;
    real *to = y;
    const int64_t start = row->keys.first / TH_LANES * TH_LANES, end = row->keys.past;
    row_fill(to, start, 0);
    row_fill(to + end, n - end, 0);

    lanes largest = lanes_broadcast((real)-INFINITY), additive;
    for (int64_t i = start; i < end; i += TH_LANES) {
        lanes score = row_load(from, i, end, 0);
        const lane_mask visible = visible_lanes(row, i, is_at_edge(row, i), true, &additive);
        if (row->additive)
            score = lanes_add(score, additive);
        score = where_visible(visible, score, (real)-INFINITY);
        largest = lanes_max(score, largest);
        row_store(to, i, end, score);
    }
    const real sum = softmax_row(end - start, to + start, lanes_largest(largest), to + start);
    if (sum - sum == 0 && sum > 0)
        return;
    /* Without visible keys, all weights are 0. If a visible score is +inf or NaN, or all of them are -inf, visible keys
     * get NaN, as in softmax. */
    for (int64_t i = start; i < end; i += TH_LANES)
        row_store(to, i, end,
                  where_visible(visible_lanes(row, i, true, true, &additive), lanes_broadcast((real)NAN), 0));
}

/* visible[i] = key first + i of the row is visible. */
void TH_KERNEL(visible_keys)(int64_t first, int64_t n, const th_visible_row *row, bool *visible)
{
    for (int64_t i = 0; i < n; i++)
        visible[i] = is_visible(row, first + i);
}
