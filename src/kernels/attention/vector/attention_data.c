/* Loads and stores rows of attention's operands from and to strided memory, and computes products that leave out masked
 * pairs. Rows of buffers are whole lanes, filled with zeros. */
#include "kernels/products/vector/product.h"
#include "kernels/rows/vector/visible.h"

/* Returns whether rows are whole lanes of contiguous elements. If the compiler knows this, short rows are cheap. */
static bool fills_lanes(int64_t columns, int64_t stride)
{
    return stride == 1 && columns % TH_LANES == 0;
}

/* Elements i .. i + 15 of a row of n elements with this stride; 0 after the end. */
TH_INLINE lanes load_strided(const real *x, int64_t stride, int64_t i, int64_t n, bool whole)
{
    if (whole)
        return lanes_load(x + i);
    if (stride == 1)
        return row_load(x, i, n, 0);
    real part[TH_LANES];
    for (int j = 0; j < TH_LANES; j++)
        part[j] = i + j < n ? x[(i + j) * stride] : 0;
    return lanes_load(part);
}

TH_INLINE void store_strided(real *x, int64_t stride, int64_t i, int64_t n, lanes value, bool whole)
{
    if (whole) {
        lanes_store(x + i, value);
        return;
    }
    if (stride == 1) {
        row_store(x, i, n, value);
        return;
    }
    real part[TH_LANES];
    lanes_store(part, value);
    for (int j = 0; j < TH_LANES && i + j < n; j++)
        x[(i + j) * stride] = part[j];
}

TH_INLINE bool load_rows(int64_t rows, int64_t columns, const real *from, int64_t from_row, int64_t from_column,
                         real *to, int64_t to_row, bool whole)
{
    vec_int bad = {0}; /* x - x is 0, or NaN, which has bits set */
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i += TH_LANES) {
            const lanes x = load_strided(from + r * from_row, from_column, i, columns, whole);
            lanes_store(to + r * to_row + i, x);
            for (int v = 0; v < TH_REGISTERS; v++)
                bad |= (vec_int)(x.vecs[v] - x.vecs[v]);
        }
    return !vec_any(bad);
}

/* to (rows, columns), rows to_row apart, = from. *finite: no element is infinite or NaN. */
void TH_KERNEL(attention_load)(int64_t rows, int64_t columns, const void *from, int64_t from_row, int64_t from_column,
                               void *to, int64_t to_row, bool *finite)
{
    if (fills_lanes(columns, from_column))
        *finite = load_rows(rows, columns, from, from_row, from_column, to, to_row, true);
    else
        *finite = load_rows(rows, columns, from, from_row, from_column, to, to_row, false);
}

TH_INLINE bool finite_rows(int64_t rows, int64_t columns, const real *from, int64_t from_row, int64_t from_column,
                           bool whole)
{
    vec_int bad = {0}; /* as in load_rows */
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i += TH_LANES) {
            const lanes x = load_strided(from + r * from_row, from_column, i, columns, whole);
            for (int v = 0; v < TH_REGISTERS; v++)
                bad |= (vec_int)(x.vecs[v] - x.vecs[v]);
        }
    return !vec_any(bad);
}

/* Sets *finite to whether all elements of from (rows, columns) are finite. */
void TH_KERNEL(attention_is_finite)(int64_t rows, int64_t columns, const void *from, int64_t from_row,
                                    int64_t from_column, bool *finite)
{
    if (fills_lanes(columns, from_column))
        *finite = finite_rows(rows, columns, from, from_row, from_column, true);
    else
        *finite = finite_rows(rows, columns, from, from_row, from_column, false);
}

TH_INLINE void store_rows(int64_t rows, int64_t columns, const real *from, int64_t from_row, real *to, int64_t to_row,
                          int64_t to_column, bool add, bool whole)
{
    const lanes zero = lanes_broadcast(0);
    for (int64_t r = 0; r < rows; r++) {
        real *x = to + r * to_row;
        for (int64_t i = 0; i < columns; i += TH_LANES) {
            const lanes value = lanes_add(lanes_load(from + r * from_row + i), zero);
            store_strided(x, to_column, i, columns,
                          add ? lanes_add(load_strided(x, to_column, i, columns, whole), value) : value, whole);
        }
    }
}

/* to (rows, columns) = from; add: += from. Writes 0 instead of -0, because the sign of a sum of zeros depends on the
 * number of masked elements. */
void TH_KERNEL(attention_store)(int64_t rows, int64_t columns, const void *from, int64_t from_row, void *to,
                                int64_t to_row, int64_t to_column, bool add)
{
    if (!fills_lanes(columns, to_column))
        store_rows(rows, columns, from, from_row, to, to_row, to_column, add, false);
    else if (add)
        store_rows(rows, columns, from, from_row, to, to_row, to_column, true, true);
    else
        store_rows(rows, columns, from, from_row, to, to_row, to_column, false, true);
}

TH_INLINE void divide_rows(int64_t rows, int64_t width, const real *from, int64_t from_row, const real *factor, real *o,
                           int64_t o_row, int64_t o_column, bool whole)
{
    const lanes zero = lanes_broadcast(0);
    for (int64_t r = 0; r < rows; r++) {
        const lanes f = lanes_broadcast(factor[r]);
        for (int64_t i = 0; i < width; i += TH_LANES) /* (0 is added as in attention_store) */
            store_strided(o + r * o_row, o_column, i, width,
                          factor[r] == 0 ? zero : lanes_mul_add(lanes_load(from + r * from_row + i), f, zero), whole);
    }
}

/* o (rows, width) = output / sum, log_sum_exp (rows), or NULL, = maximum + log sum. A sum of 0 belongs to a row without
 * keys. */
void TH_KERNEL(attention_finish)(int64_t rows, int64_t width, const void *maximum, const void *sum, const void *output,
                                 int64_t output_row, void *o, int64_t o_row, int64_t o_column, void *log_sum_exp,
                                 int64_t log_sum_exp_row)
{
    for (int64_t first = 0; first < rows; first += TH_LANES) {
        const lanes sums = row_load(sum, first, rows, 1), largest = row_load(maximum, first, rows, 0);
        lanes factors, logs;
        for (int v = 0; v < TH_REGISTERS; v++) {
            const vec_int without_keys = sums.vecs[v] == vec_broadcast(0);
            const vec lse = largest.vecs[v] + vec_log(sums.vecs[v]);
            logs.vecs[v] = vec_select(without_keys, vec_broadcast((real)-INFINITY), lse);
            factors.vecs[v] = vec_select(without_keys, vec_broadcast(0), (real)1 / sums.vecs[v]);
        }
        if (log_sum_exp)
            store_strided(log_sum_exp, log_sum_exp_row, first, rows, logs, false);
        real factor[TH_LANES];
        lanes_store(factor, factors);
        const int64_t count = rows - first < TH_LANES ? rows - first : TH_LANES;
        const real *from = (const real *)output + first * output_row;
        real *to = (real *)o + first * o_row;
        if (fills_lanes(width, o_column))
            divide_rows(count, width, from, output_row, factor, to, o_row, o_column, true);
        else
            divide_rows(count, width, from, output_row, factor, to, o_row, o_column, false);
    }
}

/* delta (rows) = sum over width of o * o_gradient, minus the gradient of the log-sum-exp, which may be NULL. */
void TH_KERNEL(attention_delta)(int64_t rows, int64_t width, const void *o, int64_t o_row, const void *o_gradient,
                                int64_t o_gradient_row, const void *log_sum_exp_gradient,
                                int64_t log_sum_exp_gradient_row, void *delta)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *x = (const real *)o + r * o_row, *y = (const real *)o_gradient + r * o_gradient_row;
        lanes sum = lanes_broadcast(0);
        for (int64_t i = 0; i < width; i += TH_LANES)
            sum = lanes_mul_add(lanes_load(x + i), lanes_load(y + i), sum);
        const real log_sum_exp_term =
            log_sum_exp_gradient ? ((const real *)log_sum_exp_gradient)[r * log_sum_exp_gradient_row] : 0;
        ((real *)delta)[r] = lanes_sum(sum) - log_sum_exp_term;
    }
}

/* Returns whether a weight marks a masked pair (-0). */
TH_INLINE bool is_masked(const real *weight)
{
    const real masked = (real)-0.0;
    return memcmp(weight, &masked, sizeof masked) == 0;
}

/* Like product_block, but leaves masked elements out of the sums: B's numbers there do not count, even if they are NaN.
 * B has contiguous rows of whole lanes. weights has the shape and the strides of A. If all numbers are finite, the bits
 * are those of product_block, up to the sign of zeros. */
void TH_KERNEL(attention_visible_product)(const th_product_block *block, const void *weights)
{
    for (int64_t i = 0; i < block->m; i++)
        for (int64_t j = 0; j < block->n; j += TH_LANES) {
            lanes sum = lanes_broadcast(0);
            for (int64_t k = 0; k < block->k; k++) {
                const int64_t at = i * block->a_row + k * block->a_col;
                if (is_masked((const real *)weights + at))
                    continue;
                const lanes a = lanes_broadcast(((const real *)block->a)[at]);
                sum = lanes_mul_add(a, lanes_load((const real *)block->b + k * block->b_row + j), sum);
            }
            if (block->init)
                sum = lanes_add(lanes_load((const real *)block->init + i * block->init_row + j), sum);
            lanes_store((real *)block->c + i * block->c_row + j, sum);
        }
}

/* Adds to C the products a b whose b is not finite, unless their pair is masked. */
void TH_KERNEL(attention_add_non_finite)(const th_product_block *block, const void *weights)
{
    for (int64_t k = 0; k < block->k; k++)
        for (int64_t j = 0; j < block->n; j++) {
            const real factor = ((const real *)block->b)[k * block->b_row + j];
            if (!non_finite(factor))
                continue;
            for (int64_t i = 0; i < block->m; i++) {
                const int64_t at = i * block->a_row + k * block->a_col;
                if (!is_masked((const real *)weights + at))
                    ((real *)block->c)[i * block->c_row + j] += ((const real *)block->a)[at] * factor;
            }
        }
}

/* to (rows, columns) += from, in each row r only for the columns keys[r]. Strides of 0 in `to` sum up. */
void TH_KERNEL(attention_accumulate)(int64_t rows, const th_key_range *keys, const void *from, int64_t from_row,
                                     void *to, int64_t to_row, int64_t to_column)
{
    for (int64_t r = 0; r < rows; r++) {
        const real *x = (const real *)from + r * from_row;
        real *y = (real *)to + r * to_row;
        for (int64_t i = keys[r].first; i < keys[r].past; i++)
            y[i * to_column] += x[i];
    }
}

/* *sum -= |column - position[r]| from over the columns begin .. end - 1, multiples of TH_LANES, of each row r. */
void TH_KERNEL(attention_slope_gradient)(int64_t rows, int64_t begin, int64_t end, const int64_t *position,
                                         const void *from, int64_t from_row, double *sum)
{
    for (int64_t r = 0; r < rows; r++) {
        lanes total = lanes_broadcast(0);
        for (int64_t i = begin; i < end; i += TH_LANES)
            total =
                lanes_mul_add(lanes_distance(i, position[r]), lanes_load((const real *)from + r * from_row + i), total);
        *sum -= (double)lanes_sum(total);
    }
}

/* *to += number */
void TH_KERNEL(attention_add_number)(double number, void *to)
{
    *(real *)to += (real)number;
}
