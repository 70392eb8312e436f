/* Arithmetic and elementary functions on registers (`vec`) and on 16 virtual lanes (`lanes`), for both element types.
 *
 * The elementary functions are our own, so that results do not depend on the version of libm. Every instance computes
 * the same operations in the same order. (Without fused multiply-add, float32 rounds once more.) */
#ifndef TH_KERNELS_VECTOR_VECTOR_MATH_H
#define TH_KERNELS_VECTOR_VECTOR_MATH_H

#include "kernels/vector/registers.h"
#if TH_REAL_BITS == 32
#include "kernels/vector/elementary_f32.h"
#else
#include "kernels/vector/elementary_f64.h"
#endif

TH_INLINE vec vec_sigmoid(vec x)
{
    vec sigmoid, complement;
    vec_sigmoid_pair(x, &sigmoid, &complement);
    return sigmoid;
}

/* -- 16 virtual lanes -- */

/* 16 virtual lanes: lane i is element i % TH_REGISTER_LANES of vecs[i / TH_REGISTER_LANES]. */
typedef struct lanes {
    vec vecs[TH_REGISTERS];
} lanes;

TH_INLINE lanes lanes_broadcast(real s)
{
    lanes x;
    for (int r = 0; r < TH_REGISTERS; r++)
        x.vecs[r] = vec_broadcast(s);
    return x;
}

TH_INLINE lanes lanes_load(const real *p)
{
    lanes x;
    for (int r = 0; r < TH_REGISTERS; r++)
        x.vecs[r] = vec_load(p + r * TH_REGISTER_LANES);
    return x;
}

TH_INLINE void lanes_store(real *p, lanes x)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        vec_store(p + r * TH_REGISTER_LANES, x.vecs[r]);
}

/* Loads and stores at the ends of rows. They are not inlined if `lanes` is many registers. Otherwise they would be most
 * of the code and of the compile time, because they are called at each end of each row. */
#if TH_VECTOR_BYTES * 8 < 8 * TH_REAL_BITS
#define TH_ROW_END __attribute__((unused, noinline)) static
#else
#define TH_ROW_END TH_INLINE
#endif

/* The first n elements of p, then `fill`; 0 <= n <= TH_LANES. */
TH_ROW_END lanes lanes_load_part(const real *p, int64_t n, real fill)
{
    lanes x = lanes_broadcast(fill);
    for (int r = 0; r < TH_REGISTERS; r++) {
        const int64_t rest = n - r * TH_REGISTER_LANES;
        if (rest >= TH_REGISTER_LANES)
            x.vecs[r] = vec_load(p + r * TH_REGISTER_LANES);
        else if (rest > 0)
            x.vecs[r] = vec_load_part(p + r * TH_REGISTER_LANES, rest, fill);
    }
    return x;
}

TH_ROW_END void lanes_store_part(real *p, int64_t n, lanes x)
{
    for (int r = 0; r < TH_REGISTERS; r++) {
        const int64_t rest = n - r * TH_REGISTER_LANES;
        if (rest >= TH_REGISTER_LANES)
            vec_store(p + r * TH_REGISTER_LANES, x.vecs[r]);
        else if (rest > 0)
            vec_store_part(p + r * TH_REGISTER_LANES, rest, x.vecs[r]);
    }
}

TH_INLINE lanes lanes_add(lanes a, lanes b)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] += b.vecs[r];
    return a;
}

TH_INLINE lanes lanes_sub(lanes a, lanes b)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] -= b.vecs[r];
    return a;
}

TH_INLINE lanes lanes_mul(lanes a, lanes b)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] *= b.vecs[r];
    return a;
}

/* a * b + c, as vec_mul_add. */
TH_INLINE lanes lanes_mul_add(lanes a, lanes b, lanes c)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        c.vecs[r] = vec_mul_add(a.vecs[r], b.vecs[r], c.vecs[r]);
    return c;
}

/* As vec_max. */
TH_INLINE lanes lanes_max(lanes a, lanes b)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] = vec_max(a.vecs[r], b.vecs[r]);
    return a;
}

/* As vec_maximum: NaN wins. */
TH_INLINE lanes lanes_maximum(lanes a, lanes b)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        a.vecs[r] = vec_maximum(a.vecs[r], b.vecs[r]);
    return a;
}

TH_INLINE lanes lanes_exp(lanes x)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        x.vecs[r] = vec_exp(x.vecs[r]);
    return x;
}

/* The sum of all lanes: lane i += lane i + 8, then + 4, + 2, + 1. */
TH_INLINE real lanes_sum(lanes x)
{
    for (int half = TH_REGISTERS / 2; half > 0; half /= 2)
        for (int r = 0; r < half; r++)
            x.vecs[r] += x.vecs[r + half];
    return vec_sum(x.vecs[0]);
}

/* The largest of all lanes; NaN wins. */
TH_INLINE real lanes_largest(lanes x)
{
    for (int half = TH_REGISTERS / 2; half > 0; half /= 2)
        for (int r = 0; r < half; r++)
            x.vecs[r] = vec_maximum(x.vecs[r], x.vecs[r + half]);
    return vec_largest(x.vecs[0]);
}

#endif
