/* Elementary functions on a register of float32 numbers, inlined into the loops. */
#ifndef TH_KERNELS_VECTOR_ELEMENTARY_F32_H
#define TH_KERNELS_VECTOR_ELEMENTARY_F32_H

#include "kernels/vector/registers.h"

/* Returns r and n with x = n ln 2 + r and |r| <= ln(2) / 2, for |x| < 2^21. r is exact except for its last one or two
 * bits. ln 2 is split in two, and the first part is so short that n times it is exact. */
TH_INLINE vec vec_split_power(vec x, vec_int *n)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */
    const vec shifted = x * 1.44269504f + round;
    const vec whole = shifted - round;
    const vec rest = x - whole * 0.693359375f;
    *n = (vec_int)shifted - 0x4b400000;
    return rest + whole * 2.12194440e-4f;
}

/* exp(r) - 1 for |r| <= 0.37 (Moshier, Cephes). */
TH_INLINE vec vec_expm1_near_0(vec r)
{
    vec p = vec_broadcast(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * (r * r) + r;
}

/* 2^n for -126 <= n <= 127; 0 for n = -127. */
TH_INLINE vec vec_power_of_2(vec_int n)
{
    return (vec)((n + 127) << 23);
}

/* x 2^n for -252 <= n <= 254, in two steps because the result may be denormal or infinite; 0 for n = -253 and -254. */
TH_INLINE vec vec_scale_power(vec x, vec_int n)
{
    const vec_int half = n >> 1;
    return x * vec_power_of_2(half) * vec_power_of_2(n - half);
}

/* e^x, with relative error below 9e-8 if the result is normal. */
TH_INLINE vec vec_exp(vec x)
{
    /* From 89 on the result is infinite. At -176 n is -254, and both powers of 2 are exactly 0. So exp(-inf), which is
     * frequent in masks and at the ends of rows, avoids denormal numbers, which are slow. */
    vec_int n;
    const vec r = vec_split_power(vec_clamp(x, -176.0f, 89.0f), &n);
    return vec_scale_power(vec_expm1_near_0(r) + 1.0f, n);
}

/* ln x (Moshier, Cephes): -inf at 0, NaN below. */
TH_INLINE vec vec_log(vec x)
{
    const vec magnitude = vec_abs(x); /* (the result is replaced if x < 0) */
    const vec_int small = magnitude < 1.17549435e-38f;
    const vec normal = vec_select(small, magnitude * 33554432.0f, magnitude); /* 2^25 */
    /* x = 2^e m with m in [sqrt(1/2), sqrt(2)) */
    const vec_int e = ((vec_int)normal - 0x3f3504f3) >> 23;
    const vec f = (vec)((vec_int)normal - (e << 23)) - 1.0f;
    const vec power = __builtin_convertvector(e - (small & 25), vec);
    vec p = vec_broadcast(7.0376836292e-2f);
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f - 0.5f;
    const vec low = power * -2.12194440e-4f + f;
    const vec sum = p * (f * f) + low;
    vec y = power * 0.693359375f + sum;
    y = vec_select(x == INFINITY, x, y);
    y = vec_select(x == 0.0f, vec_broadcast(-INFINITY), y);
    return vec_select(x >= 0.0f, y, vec_broadcast(NAN));
}

/* tanh x = E / (E + 2) with E = exp(2|x|) - 1, which keeps its digits near 0. */
TH_INLINE vec vec_tanh(vec x)
{
    vec_int n;
    const vec r = vec_split_power(vec_min(vec_broadcast(20.0f), vec_abs(x) * 2.0f), &n); /* from 9.02 tanh x is 1 */
    const vec power = vec_power_of_2(n);
    const vec e = vec_expm1_near_0(r) * power + (power - 1.0f);
    return vec_with_sign(e / (e + 2.0f), x);
}

/* sigmoid(x) = 1 / (1 + exp(-x)) and 1 - sigmoid(x), both accurate where they are small. */
TH_INLINE void vec_sigmoid_pair(vec x, vec *sigmoid, vec *complement)
{
    const vec e = vec_exp(-vec_abs(x));
    const vec large = 1.0f / (e + 1.0f), small = e * large;
    const vec_int negative = x < 0.0f;
    *sigmoid = vec_select(negative, small, large);
    *complement = vec_select(negative, large, small);
}

/* The standard normal distribution: density(x) = exp(-x²/2) / sqrt(2π), cumulative(x) = ∫ density from -∞ to x.
 *
 * The upper tail is density(z) times Mills' ratio. That is a polynomial in (z - 3) / (z + 3), fitted for 0 <= z <=
 * 14.6; for larger z the density is 0. The relative error of both is below 4e-7, also in the lower tail. */
TH_INLINE void vec_normal(vec x, vec *cumulative, vec *density)
{
    const vec z = vec_min(vec_broadcast(16.0f), vec_abs(x));
    /* z² = h² + (z - h)(z + h), where h has so few digits that h² is exact */
    const vec h = (vec)((vec_int)z & ~(real_int)0xfff);
    vec_int n;
    vec r = vec_split_power(h * h * -0.5f, &n);
    r = r + (z - h) * (z + h) * -0.5f;
    *density = vec_scale_power((vec_expm1_near_0(r) + 1.0f) * 0.398942280f, n);
    const vec t = (z - 3.0f) / (z + 3.0f);
    vec p = vec_broadcast(1.330086675e-4f);
    p = p * t + 2.880371562e-4f;
    p = p * t - 8.495436097e-4f;
    p = p * t - 2.4645035795e-3f;
    p = p * t + 7.2801332066e-3f;
    p = p * t + 1.53704347342e-2f;
    p = p * t - 1.158394589831e-1f;
    p = p * t + 3.088793779064e-1f;
    p = p * t - 5.173746450038e-1f;
    p = p * t + 3.045902965400e-1f;
    const vec tail = p * *density;
    *cumulative = vec_select(x < 0.0f, tail, 1.0f - tail);
}

/* The same lanes in float64, where float32 has too few digits. Arguments are pointers: gcc prints a note if a function has arguments
 * that are wider than a register. */
typedef double wide __attribute__((vector_size(2 * TH_VECTOR_BYTES)));
typedef int64_t wide_int __attribute__((vector_size(2 * TH_VECTOR_BYTES)));
typedef uint64_t wide_bits __attribute__((vector_size(2 * TH_VECTOR_BYTES)));

TH_INLINE wide vec_widen(vec x)
{
    return __builtin_convertvector(x, wide);
}

/* Sets the lanes of the mask to the value. */
TH_INLINE void wide_set(wide *x, const wide_int *mask, double value)
{
    *x = (wide)((*mask & (wide_int)(value - (wide){0})) | (~*mask & (wide_int)*x));
}

/* From this angle on, angles are reduced one at a time. */
#define TH_LARGE_ANGLE 16777216.0f

/* x = (quadrant + 4 j) π/2 + r with |r| <= π/4, for TH_LARGE_ANGLE <= |x| < ∞. Multiplies the relevant bits of 2/π by
 * the 24 bits of x, as an integer modulo 2^64 in units of 2^-62 quadrants (Payne & Hanek 1983). */
static inline float reduce_large_angle(float x, int32_t *quadrant)
{
    static const uint32_t two_over_pi[7] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                            0xdb629599, 0x3c439041, 0xfe5163ab};
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t mantissa = (bits & 0x7fffff) | 0x800000;
    /* x = mantissa 2^e; the first e - 2 bits of 2/π would contribute multiples of 4 quadrants */
    const int skip = (int)(bits >> 23 & 255) - 150 - 2;
    uint64_t word[3];
    for (int i = 0; i < 3; i++) {
        /* bit offset in 32 zeros followed by the table */
        const int at = skip + 32 + 32 * i, index = at / 32, shift = at % 32;
        const uint64_t high = index == 0 ? 0 : two_over_pi[index - 1];
        const uint64_t pair = high << 32 | two_over_pi[index];
        word[i] = pair >> (32 - shift) & 0xffffffff;
    }
    const uint64_t product = (mantissa * word[0] << 32) + mantissa * word[1] + (mantissa * word[2] >> 32);
    const uint64_t nearest = (product + ((uint64_t)1 << 61)) >> 62;
    const double rest = (double)(int64_t)(product - (nearest << 62)) * 0x1.921fb54442d18p-62;
    const bool negative = bits >> 31;
    *quadrant = (int32_t)(negative ? (4 - nearest) & 3 : nearest & 3);
    return (float)(negative ? -rest : rest);
}

/* The same for a register: returns r, and the quadrant modulo 4. For infinite x, r is NaN. */
TH_INLINE vec vec_reduce_angle(vec x, vec_int *quadrant)
{
    /* in float64; π/2 is split in three, and multiples of the first two parts are exact */
    const wide angle = vec_widen(x);
    const double round = 0x1.8p52;
    const wide n = (angle * 0.63661977236758134 + round) - round;
    wide rest = angle - n * 0x1.921fb54p+0;
    rest = rest - n * 0x1.10b461p-30;
    rest = rest - n * 0x1.a62633145c06ep-58;
    vec r = __builtin_convertvector(rest, vec);
    const wide fours = (n * 0.25 + round) - round;
    const vec modulo = __builtin_convertvector(n - fours * 4.0, vec); /* -2 .. 2 */
    vec_int q = (vec_int)(modulo + 12582912.0f) & 3;

    const vec_int large = vec_abs(x) >= TH_LARGE_ANGLE;
    if (vec_any(large))
        for (int i = 0; i < TH_REGISTER_LANES; i++) {
            if (!large[i])
                continue;
            int32_t part = 0;
            r[i] = x[i] - x[i] == 0.0f ? reduce_large_angle(x[i], &part) : NAN;
            q[i] = part;
        }
    *quadrant = q;
    return r;
}

/* sin(r + quadrant π/2) for |r| <= π/4 (Moshier, Cephes). */
TH_INLINE vec vec_sin_reduced(vec r, vec_int quadrant)
{
    const vec z = r * r;
    vec s = z * -1.9515295891e-4f + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * (z * r) + r;
    vec c = z * 2.443315711809948e-5f - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * (z * z) + (1.0f - z * 0.5f);
    const vec value = vec_select((quadrant & 1) != 0, c, s);
    return (vec)((vec_int)value ^ ((quadrant & 2) << 30));
}

/* Absolute error below 1e-7 for every finite x; -0 stays -0. */
TH_INLINE vec vec_sin(vec x)
{
    vec_int quadrant;
    const vec r = vec_reduce_angle(x, &quadrant);
    return vec_select(x == 0.0f, x, vec_sin_reduced(r, quadrant));
}

TH_INLINE vec vec_cos(vec x)
{
    vec_int quadrant;
    const vec r = vec_reduce_angle(x, &quadrant);
    return vec_sin_reduced(r, quadrant + 1);
}

/* ln x of a normal number, relative error below 1e-11: the series of 2 artanh((m - 1) / (m + 1)). */
TH_INLINE wide wide_log(const wide *of)
{
    const wide x = *of;
    const wide_int e = ((wide_int)x - 0x3fe6a09e667f3bcd) >> 52;
    const wide m = (wide)((wide_int)x - (e << 52));
    const double round = 0x1.8p52;
    const wide power = (wide)(e + 0x4338000000000000) - round;
    const wide s = (m - 1.0) / (m + 1.0), z = s * s;
    wide p = z * (2.0 / 15) + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    const wide high = power * 0.693147180559945309 + (s + s);
    return p * (s * z) + high;
}

/* e^x for |x| <= 160, relative error below 1e-11. */
TH_INLINE wide wide_exp(const wide *of)
{
    const wide x = *of;
    const double round = 0x1.8p52;
    const wide shifted = x * 1.44269504088896341 + round;
    const wide r = x - (shifted - round) * 0.693147180559945309;
    wide p = r * (1.0 / 3628800) + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return (wide)((wide_bits)p + ((wide_bits)shifted << 52));
}

/* |a| rounded to an integer. */
TH_INLINE vec vec_round_magnitude(vec a)
{
    const vec magnitude = vec_abs(a);
    return vec_select(magnitude < 8388608.0f, (magnitude + 8388608.0f) - 8388608.0f, magnitude);
}

/* x^y as C's pow defines it, including special cases. The error is the rounding of the result. */
TH_INLINE vec vec_pow(vec x, vec y)
{
    const vec magnitude = vec_abs(x);
    const wide base = vec_widen(magnitude);
    const wide_int zero = base == 0.0, infinite = base == (double)INFINITY;
    wide l = wide_log(&base);
    wide_set(&l, &zero, -(double)INFINITY);
    wide_set(&l, &infinite, (double)INFINITY);
    wide t = vec_widen(y) * l;
    const wide_int large = t > 160.0, small = t < -160.0;
    wide_set(&t, &large, 160.0);
    wide_set(&t, &small, -160.0);
    vec power = __builtin_convertvector(wide_exp(&t), vec);
    power = vec_select(magnitude == 1.0f, vec_broadcast(1.0f), power);

    const vec_int whole = vec_round_magnitude(y) == vec_abs(y);
    const vec_int odd = whole & (vec_round_magnitude(y * 0.5f) != vec_abs(y * 0.5f));
    power = (vec)((vec_int)power | (odd & (vec_int)x & vec_sign_bit()));
    const vec_int no_power = (x < 0.0f) & (magnitude < INFINITY) & ~whole;
    const vec_int invalid = no_power | (x != x) | (y != y);
    power = vec_select(invalid, vec_broadcast(NAN), power);
    return vec_select((y == 0.0f) | (x == 1.0f), vec_broadcast(1.0f), power);
}

#endif
