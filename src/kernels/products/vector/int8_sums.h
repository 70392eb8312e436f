/* Shared by the products of rounded rows by blocks of 32 and of 256 numbers: sums of integers, and their way into C. */
#ifndef TH_KERNELS_PRODUCTS_VECTOR_INT8_SUMS_H
#define TH_KERNELS_PRODUCTS_VECTOR_INT8_SUMS_H

#include "kernels/product_block.h"
#include "kernels/products/product_int8.h"
#include "kernels/vector/registers.h"

#if TH_REAL_BITS == 32

/* Lane i is the sum of two products of 16 bits. */
TH_INLINE vec_int sums_of_pairs(vec_int a, vec_int b)
{
#if TH_VECTOR_BYTES == 64
    return (vec_int)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif TH_VECTOR_BYTES == 32
    return (vec_int)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined __SSE2__
    return (vec_int)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

/* Four bytes in each lane. */
TH_INLINE vec_int four_bytes(const void *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return four - (vec_int){0};
}

/* Keeps the order of additions: compilers would compute all products first, which are too many for the registers. */
TH_INLINE vec_int in_order(vec_int x)
{
#ifdef __aarch64__
    __asm__("" : "+w"(x));
#elif TH_FUSED && defined __x86_64__
    __asm__("" : "+v"(x));
#endif
    return x;
}

#if TH_VECTOR_BYTES > 16

/* The integers of one block and one column, whose lanes must be added. */
typedef __m256i block_sum;

/* Lane j is the sum of the lanes of x[j]. */
TH_INLINE __m256i sums_of_8(const block_sum *x)
{
    const __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
    const __m256i high = _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
}

/* Lane j is the sum of column j. */
TH_INLINE vec_int sums_of_columns(const block_sum *column)
{
#if TH_VECTOR_BYTES == 64
    return (vec_int)_mm512_inserti64x4(_mm512_castsi256_si512(sums_of_8(column)), sums_of_8(column + 8), 1);
#else
    return (vec_int)sums_of_8(column);
#endif
}

#else

typedef int32_t block_sum;

TH_INLINE vec_int sums_of_columns(const block_sum *column)
{
    return *(const vec_int *)column;
}

#endif

/* Adds the integers of one block to the sum of a row. */
TH_INLINE vec add_integers(vec sum, real scale, vec factor, vec_int total)
{
    return vec_mul_add(vec_rounded(vec_broadcast(scale) * factor), __builtin_convertvector(total, vec), sum);
}

/* c = init + sum of some columns: column j, and the others at this distance. */
TH_INLINE void write_columns(const th_int8_product *p, int64_t row, int64_t j, int64_t apart, int64_t columns, vec sum)
{
    real *c = p->c + row * p->c_row + j * p->c_col;
    const real *init = p->init ? p->init + row * p->init_row + j * p->init_col : NULL;
    if (columns == TH_REGISTER_LANES && apart * p->c_col == 1 && (init == NULL || p->init_col == 1)) {
        vec_store(c, init ? (vec)(vec_load(init) + sum) : sum);
        return;
    }
    for (int64_t s = 0; s < columns; s++)
        c[s * apart * p->c_col] = init ? init[s * apart * p->init_col] + sum[s] : sum[s];
}

/* Multiplies one row by some columns: column j, and the others at this distance. */
typedef void int8_row_function(int storage, int64_t bytes, const th_int8_product *p, int64_t row, int64_t j,
                               int64_t apart, int64_t columns);

/* Multiplies the rows one by one, by columns that are far apart (th_columns_apart), and by the last columns. */
TH_INLINE void multiply_single_rows(int8_row_function *multiply_row, int storage, int64_t bytes,
                                    const th_int8_product *p)
{
    const int64_t apart = th_columns_apart(p->n, TH_REGISTER_LANES), end = apart * TH_REGISTER_LANES;
    const int64_t rest = (p->n - end + TH_REGISTER_LANES - 1) / TH_REGISTER_LANES;
    for (int64_t tile = 0; tile < apart + rest; tile++) {
        const int64_t j = tile < apart ? tile : end + (tile - apart) * TH_REGISTER_LANES;
        const int64_t left = tile < apart ? TH_REGISTER_LANES : p->n - j;
        for (int64_t row = 0; row < p->m; row++)
            multiply_row(storage, bytes, p, row, j, tile < apart ? apart : 1,
                         left < TH_REGISTER_LANES ? left : TH_REGISTER_LANES);
    }
}

#endif

#endif
