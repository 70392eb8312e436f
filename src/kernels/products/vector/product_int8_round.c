/* Rounds rows of A to blocks of int8 numbers (product_int8.h). */
#include "kernels/products/product_int8.h"
#include "kernels/vector/vector_math.h"

#if TH_REAL_BITS == 32

/* Rounds n numbers to one scale. */
TH_INLINE void round_to_int8(int n, const real *x, int32_t *number, real *scale)
{
    const real magic = 0x1.8p23F; /* added to a small number, leaves it rounded in the lowest bits */
    vec largest = {0};
    UNROLLED_FOR (int i = 0; i < n; i += TH_REGISTER_LANES)
        largest = vec_maximum(largest, vec_abs(vec_load(x + i)));
    const real most = vec_largest(largest);
    const bool is_zero = most < 0x1p-118F;
    const real inverse = is_zero ? 0 : 127 / most;
    *scale = non_finite(most) ? most - most : is_zero ? 0 : most / 127;
    const vec_int usual = vec_int_broadcast(non_finite(most) ? 0 : -1);
    UNROLLED_FOR (int i = 0; i < n; i += TH_REGISTER_LANES) {
        const vec multiple = vec_rounded(vec_load(x + i) * vec_broadcast(inverse));
        *(vec_int *)(number + i) = ((vec_int)(multiple + vec_broadcast(magic)) - (vec_int)vec_broadcast(magic)) & usual;
    }
}

/* Returns n numbers of a row, copied if they are not contiguous. */
TH_INLINE const real *contiguous(int n, const real *from, int64_t column, real *copy)
{
    if (column == 1)
        return from;
    for (int j = 0; j < n; j++)
        copy[j] = from[j * column];
    return copy;
}

#endif

/* Rounds m rows of k numbers to blocks of 32, (k / 32, m). Float32 only. */
void TH_KERNEL(product_int8_round)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column,
                                   th_int8_block *blocks)
{
#if TH_REAL_BITS == 32
    for (int64_t i = 0; i < m; i++)
        for (int64_t b = 0; b < k / TH_BLOCK_NUMBERS; b++) {
            const real *from = (const real *)a + i * row + b * TH_BLOCK_NUMBERS * column;
            th_int8_block *to = blocks + b * m + i;
            real copy[TH_BLOCK_NUMBERS];
            int32_t number[TH_BLOCK_NUMBERS], sum = 0;
            round_to_int8(TH_BLOCK_NUMBERS, contiguous(TH_BLOCK_NUMBERS, from, column, copy), number, &to->scale);
            for (int j = 0; j < TH_BLOCK_NUMBERS; j++)
                sum += number[j];
            for (int j = 0; j < TH_BLOCK_NUMBERS / 2; j++) {
                to->number[j] = (int16_t)number[2 * j];
                to->number[TH_BLOCK_NUMBERS / 2 + j] = (int16_t)number[2 * j + 1];
            }
            to->sum = sum;
        }
#else
    (void)m, (void)k, (void)a, (void)row, (void)column, (void)blocks;
#endif
}

/* Rounds m rows of k numbers to blocks of 256, (k / 256, m). Float32 only. */
void TH_KERNEL(product_int8_round_wide)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column,
                                        th_int8_wide *blocks)
{
#if TH_REAL_BITS == 32
    for (int64_t i = 0; i < m; i++)
        for (int64_t b = 0; b < k / TH_INT8_WIDE; b++) {
            const real *from = (const real *)a + i * row + b * TH_INT8_WIDE * column;
            th_int8_wide *to = blocks + b * m + i;
            real copy[TH_INT8_WIDE];
            int32_t number[TH_INT8_WIDE];
            round_to_int8(TH_INT8_WIDE, contiguous(TH_INT8_WIDE, from, column, copy), number, &to->scale);
            for (int j = 0; j < TH_INT8_WIDE; j++)
                to->number[j] = (int8_t)number[j];
            for (int g = 0; g < TH_INT8_GROUPS; g++) {
                int sum = 0;
                for (int j = 0; j < TH_INT8_WIDE / TH_INT8_GROUPS; j++)
                    sum += to->number[g * TH_INT8_WIDE / TH_INT8_GROUPS + j];
                to->sums[g] = (int16_t)sum;
            }
        }
#else
    (void)m, (void)k, (void)a, (void)row, (void)column, (void)blocks;
#endif
}
