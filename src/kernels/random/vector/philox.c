/* Random fills and dropout, from the words of Philox. */
#include "kernels/random/vector/philox.h"

enum {
    VALUES_PER_COUNTER = TH_REAL_BITS == 32 ? 4 : 2, /* 24 bits from one word, or 53 from two */
    VALUES = VALUES_PER_COUNTER * TH_PHILOX_COUNTERS
};

/* Computes numbers uniform on [0, 1) from 32 counters, starting with (block % 2^32, block / 2^32). */
TH_INLINE void uniform_values(const th_philox *random, uint64_t block, real values[VALUES])
{
    uint64_t low[TH_PHILOX_COUNTERS], high[TH_PHILOX_COUNTERS];
    for (uint64_t i = 0; i < TH_PHILOX_COUNTERS; i++) {
        low[i] = (block + i) & 0xffffffff;
        high[i] = (block + i) >> 32;
    }
    uint32_t words[TH_PHILOX_WORDS];
    philox_words(random, low, high, words);
    for (int i = 0; i < VALUES; i++) {
#if TH_REAL_BITS == 32
        values[i] = (float)(int32_t)(words[i] >> 8) * 0x1p-24f;
#else
        values[i] = (double)((int64_t)(words[2 * i] >> 5) << 26 | words[2 * i + 1] >> 6) * 0x1p-53;
#endif
    }
}

/* Replaces pairs of uniform numbers by independent standard normal ones (Box & Muller 1958). */
TH_INLINE void normal_values(real values[VALUES])
{
    real radius[VALUES / 2], angle[VALUES / 2];
    for (int i = 0; i < VALUES / 2; i++) {
        radius[i] = 1 - values[2 * i]; /* (0, 1] */
        angle[i] = (real)6.283185307179586 * values[2 * i + 1];
    }
    real first[VALUES / 2], second[VALUES / 2];
    for (int i = 0; i < VALUES / 2; i += TH_REGISTER_LANES) {
        const vec r = vec_sqrt((real)-2 * vec_log(vec_load(radius + i))), a = vec_load(angle + i);
        vec_store(first + i, r * vec_cos(a));
        vec_store(second + i, r * vec_sin(a));
    }
    for (int i = 0; i < VALUES / 2; i++) {
        values[2 * i] = first[i];
        values[2 * i + 1] = second[i];
    }
}

/* y[i] = offset + factor * value(first + i) for uniform or normal values. */
TH_INLINE void fill_random(int64_t n, real *y, int64_t first, const th_philox *random, bool normal, double offset,
                           double factor)
{
    const real shift = (real)offset, scale = (real)factor;
    int64_t block = first / VALUES_PER_COUNTER, skip = first % VALUES_PER_COUNTER;
    for (int64_t i = 0; i < n; block += TH_PHILOX_COUNTERS, skip = 0) {
        real values[VALUES];
        uniform_values(random, (uint64_t)block, values);
        if (normal)
            normal_values(values);
        for (int k = 0; k < VALUES; k++)
            values[k] = values[k] * scale + shift;
        const int64_t count = n - i < VALUES - skip ? n - i : VALUES - skip;
        memcpy(y + i, values + skip, (size_t)count * sizeof(real));
        i += count;
    }
}

/* y[i] = number first + i of the call, uniform on [low, high). With q = (first + i) / 4 (in float64 / 2), its counter
 * is (q % 2^32, the upper half of q). */
void TH_KERNEL(random_uniform)(int64_t n, void *y, int64_t first, const struct th_philox *random, double low,
                               double high)
{
    fill_random(n, y, first, random, false, low, high - low);
}

/* The same for the normal distribution. */
void TH_KERNEL(random_normal)(int64_t n, void *y, int64_t first, const struct th_philox *random, double mean,
                              double deviation)
{
    fill_random(n, y, first, random, true, mean, deviation);
}

/* Returns multiplier ? x * multiplier : 0, so that a dropped NaN becomes 0. */
TH_INLINE vec dropped(vec x, vec multiplier)
{
    return vec_keep(multiplier != (real)0, x * multiplier);
}

/* y = dropped(x), plus `residual` unless that is NULL. */
TH_INLINE void apply_dropout(int64_t n, const real *x, const real *multiplier, const real *residual, real *y)
{
    int64_t i = 0;
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        vec value = dropped(vec_load(x + i), vec_load(multiplier + i));
        if (residual)
            value = vec_load(residual + i) + value;
        vec_store(y + i, value);
    }
    if (i < n) {
        const int64_t rest = n - i;
        vec value = dropped(vec_load_part(x + i, rest, 0), vec_load_part(multiplier + i, rest, 0));
        if (residual)
            value = vec_load_part(residual + i, rest, 0) + value;
        vec_store_part(y + i, rest, value);
    }
}

/* y = dropout of x, plus `residual` unless that is NULL. All are (rows, columns) and contiguous. Their row 0 is row
 * first_row of the logical matrix (kernels/random/philox.h). */
void TH_KERNEL(dropout)(int64_t rows, int64_t columns, const void *x, const void *residual, void *y, int64_t first_row,
                        const struct th_dropout_mask *dropout)
{
    enum { PIECE = 1024 };
    const real *from = x, *residual_rows = residual;
    real *to = y, multiplier[PIECE];
    if (columns <= 0)
        return;
    const int64_t rows_at_once = columns < PIECE ? PIECE / columns : 1; /* rows processed together */
    for (int64_t row = 0; row < rows; row += rows_at_once) {
        const int64_t count = rows - row < rows_at_once ? rows - row : rows_at_once;
        for (int64_t column = 0; column < columns; column += PIECE) {
            const int64_t width = columns - column < PIECE ? columns - column : PIECE;
            dropout_multipliers(dropout, first_row + row, count, column, width, multiplier, width);
            /* If there are several rows, they are whole rows, which are contiguous. */
            const int64_t offset = row * columns + column;
            if (residual_rows)
                apply_dropout(count * width, from + offset, multiplier, residual_rows + offset, to + offset);
            else
                apply_dropout(count * width, from + offset, multiplier, NULL, to + offset);
        }
    }
}
