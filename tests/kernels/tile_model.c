/* See tile_model.h. */
#include "tile_model.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"

enum { GROUP = 32, MAX_PARTS = 2 };

/* -- one number -- */

float bfloat16_value(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float flushed(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

float flushing_fma(float a, float b, float c)
{
    a = flushed(a);
    b = flushed(b);
    c = flushed(c);
    const float y = fmaf(a, b, c);
    if (!(fabsf(y) <= FLT_MIN))
        return y;
    /* Below FLT_MIN a float has fewer than 24 bits. So y may have been rounded up to FLT_MIN although its value with 24
     * bits is below. This is so below the middle of FLT_MIN and its neighbor of 24 bits (the middle itself is rounded
     * to even: up). A double decides: within its last bit of the middle, no a b + c of two bfloat16 numbers and a
     * normal float exists. */
    const double middle = 0x1p-126 - 0x1p-151;
    return fabs(fma(a, b, c)) < middle ? copysignf(0, y) : y;
}

float flushing_add(float a, float b)
{
    return flushed(flushed(a) + flushed(b)); /* sums of floats below FLT_MIN are exact */
}

float tile_dot(float c, const uint16_t *a, const uint16_t *b, int steps)
{
    float even = 0, odd = 0;
    for (int k = 0; k < steps; k += 2) {
        even = flushing_fma(bfloat16_value(a[k]), bfloat16_value(b[k]), even);
        odd = flushing_fma(bfloat16_value(a[k + 1]), bfloat16_value(b[k + 1]), odd);
    }
    return flushing_add(c, flushing_add(even, odd));
}

/* -- parts -- */

static uint16_t rounded(float x)
{
    const uint32_t bits = bits_of(x);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000), truncated = (uint16_t)(bits >> 16);
    if (isnan(x))
        return truncated | 0x40; /* quiet */
    if (isinf(x))
        return truncated;
    if (fabsf(x) < FLT_MIN)
        return sign;
    /* x = fraction * 2^exponent, 0.5 <= |fraction| < 1: its first 8 bits as an integer, rounded to nearest. */
    int exponent;
    const double eight = nearbyint(ldexp(frexp(x, &exponent), 8));
    const double nearest = ldexp(eight, exponent - 8);
    if (fabs(nearest) > (double)FLT_MAX)
        return truncated;
    return (uint16_t)(bits_of((float)nearest) >> 16);
}

uint16_t model_part(float x, int part)
{
    const uint16_t first = rounded(x);
    if (part == 0)
        return first;
    return isfinite(x) ? rounded(x - bfloat16_value(first)) : 0; /* the difference is exact */
}

/* -- whole products -- */

/* The operands of one product of a batch: element (i, k) of part t is at (t rows + i) steps + k. */
typedef struct parts_of {
    uint16_t *parts; /* (parts, rows, steps) */
    int64_t rows, steps;
} parts_of;

static parts_of split(const float *x, int64_t rows, int64_t row, int64_t k, int64_t step, int parts)
{
    parts_of s = {.rows = rows, .steps = (k + GROUP - 1) / GROUP * GROUP};
    s.parts = calloc((size_t)(parts * rows * s.steps) + 1, sizeof *s.parts);
    ck_assert_ptr_nonnull(s.parts);
    for (int t = 0; t < parts; t++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t l = 0; l < k; l++)
                s.parts[(t * rows + i) * s.steps + l] = model_part(x[i * row + l * step], t);
    return s;
}

static const uint16_t *part(const parts_of *s, int t, int64_t row, int64_t step)
{
    return s->parts + (t * s->rows + row) * s->steps + step;
}

/* One block of steps of one element. */
static float block(float c, const parts_of *a, const parts_of *b, int64_t i, int64_t j, int64_t begin, int64_t end,
                   int parts)
{
    for (int64_t k = begin; k < end; k += GROUP) {
        c = tile_dot(c, part(a, 0, i, k), part(b, 0, j, k), GROUP);
        if (parts == MAX_PARTS) {
            c = tile_dot(c, part(a, 0, i, k), part(b, 1, j, k), GROUP);
            c = tile_dot(c, part(a, 1, i, k), part(b, 0, j, k), GROUP);
        }
    }
    return c;
}

static float element(float c, const parts_of *a, const parts_of *b, int64_t i, int64_t j, int parts)
{
    for (int64_t k = 0; k < a->steps; k += TH_PRODUCT_BLOCK) {
        const int64_t end = k + TH_PRODUCT_BLOCK < a->steps ? k + TH_PRODUCT_BLOCK : a->steps;
        const float before = c;
        c = block(before, a, b, i, j, k, end, parts);
        if (parts == MAX_PARTS && isnan(c))
            c = block(before, a, b, i, j, k, end, 1);
    }
    return c;
}

static float first_of_sum(const th_product *p, const float *c, int64_t i, int64_t j)
{
    if (p->add)
        return *c;
    const float *bias = p->bias, *residual = p->residual;
    if (bias && residual)
        return bias[j] + residual[i * p->residual_row + j];
    return bias ? bias[j] : residual ? residual[i * p->residual_row + j] : 0;
}

static void one_product(const th_product *p, const float *a, const float *b, float *c, int parts)
{
    parts_of split_a = split(a, p->m, p->a_row, p->k, p->a_col, parts),
             split_b = split(b, p->n, p->b_col, p->k, p->b_row, parts);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float *to = c + i * p->c_row + j * p->c_col;
            *to = element(first_of_sum(p, to, i, j), &split_a, &split_b, i, j, parts);
        }
    free(split_a.parts);
    free(split_b.parts);
}

static void batch(const th_product *p, int dim, const float *a, const float *b, float *c, int parts)
{
    if (dim == TH_PRODUCT_BATCH_DIMS || dim == p->batch_dims) {
        one_product(p, a, b, c, parts);
        return;
    }
    for (int64_t i = 0; i < p->batch[dim]; i++)
        batch(p, dim + 1, a + i * p->a_batch[dim], b + i * p->b_batch[dim], c + i * p->c_batch[dim], parts);
}

void model_product(const th_product *product, int parts)
{
    batch(product, 0, product->a, product->b, product->c, parts);
}
