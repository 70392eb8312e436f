/* Elementary functions of float64. Every error is below 1 unit in the last place of the result over the whole range,
 * including denormal arguments and results.
 *
 * Where one rounding is too much, a number is represented as the sum of two (Dekker 1971). So this file alone is
 * compiled without contraction of a * b + c: fused operations are explicit, and every compiler produces the same
 * bits. */
#include "kernels/vector/elementary_f64.h"

#include "kernels/wide.h"

typedef uint64_t vec_bits __attribute__((vector_size(TH_VECTOR_BYTES), aligned(8), may_alias));

#define ROUND 0x1.8p52 /* adding it leaves the nearest integer in the low bits */

#define LN2_HIGH 0x1.62e42fefa38p-1 /* ln 2, shortened: its multiples by up to 2^11 are exact */
#define LN2_LOW 0x1.ef35793c7673p-45

/* The number high + low, where low is small beside high. */
typedef struct pair {
    vec high, low;
} pair;

/* a + b, exactly. The exponent of b must not be larger than the exponent of a, unless a is 0. */
TH_INLINE pair sum_in_order(vec a, vec b)
{
    const vec high = a + b;
    return (pair){high, (a - high) + b};
}

/* a + b, exactly (Knuth). */
TH_INLINE pair sum_exactly(vec a, vec b)
{
    const vec high = a + b, b_part = high - a;
    return (pair){high, (a - (high - b_part)) + (b - b_part)};
}

/* a b - product, where product is a b rounded. Exact with fused multiply-add, else within 2^-106 a b. */
TH_INLINE vec product_error(vec a, vec b, vec product)
{
#if TH_FUSED
    return vec_mul_add(a, b, -product);
#else
    const vec_int upper = vec_int_broadcast(-0x8000000); /* 26 bits of the significand */
    const vec a_high = (vec)((vec_int)a & upper), b_high = (vec)((vec_int)b & upper);
    const vec a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

TH_INLINE pair multiply(vec a, vec b)
{
    const vec product = a * b;
    return (pair){product, product_error(a, b, product)};
}

/* a / b, except for a rounding error in the last bit of `low`. */
TH_INLINE pair divide(pair a, pair b)
{
    const vec reciprocal = 1.0 / b.high, quotient = a.high * reciprocal;
    const pair product = multiply(quotient, b.high);
    const vec rest = ((a.high - product.high) - product.low) + (a.low - quotient * b.low);
    return (pair){quotient, rest * reciprocal};
}

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1), n > 2. The even and the odd powers after c[0] are summed separately. This
 * takes little more than half the time of one sum, in which each step waits for the one before. */
TH_INLINE vec polynomial(vec x, int n, const double *c)
{
    const vec square = x * x;
    vec sum = vec_broadcast(c[n - 1]), other = vec_broadcast(c[n - 2]);
    for (int i = n - 3; i > 0; i--) {
        const vec next = vec_mul_add(sum, square, vec_broadcast(c[i]));
        sum = other;
        other = next;
    }
    return vec_mul_add(vec_mul_add(sum, x, other), x, vec_broadcast(c[0]));
}

/* -- powers of e -- */

/* Returns e^r - 1 - r and stores r and n, for |x| < 1420: x + low = n ln 2 + r, |r| <= ln(2) / 2, and n is an
 * integer. */
TH_INLINE vec exp_reduced(vec x, vec low, vec *n, vec *r)
{
    static const double c[] = {
        0.5,
        0x1.5555555555555p-3,
        0x1.5555555555555p-5,
        0x1.11111111110bap-7,
        0x1.6c16c16c16a93p-10,
        0x1.a01a01a39dcc7p-13,
        0x1.a01a01a2ba739p-16,
        0x1.71de1ae5f8713p-19,
        0x1.27e4e7ca3c102p-22,
        0x1.af1dd9b1b8f5cp-26,
        0x1.1f5abac4d5ac4p-29,
    }; /* of (e^r - 1 - r) / r² */
    *n = vec_mul_add(x, vec_broadcast(0x1.71547652b82fep+0), vec_broadcast(ROUND)) - ROUND;
    const vec high = vec_mul_add(*n, vec_broadcast(-LN2_HIGH), x); /* exact */
    const pair rest = sum_in_order(high, vec_mul_add(*n, vec_broadcast(-LN2_LOW), low));
    *r = rest.high;
    return vec_mul_add(*r * *r, polynomial(*r, sizeof c / sizeof *c, c), rest.low);
}

/* e^(x + low) = (high + low) 2^n */
TH_INLINE pair exp_pair(vec x, vec low, vec *n)
{
    vec r;
    const vec beyond = exp_reduced(x, low, n, &r);
    const pair sum = sum_in_order(vec_broadcast(1), r);
    return (pair){sum.high, sum.low + beyond};
}

/* 2^n from n + ROUND, -1022 <= n <= 1023; 0 for n = -1023. */
TH_INLINE vec power_of_2(vec n_rounded)
{
    return (vec)(((vec_bits)n_rounded << 52) + 0x3ff0000000000000);
}

/* x 2^n for -2046 <= n <= 2046, in two steps because the result may be denormal or infinite; 0 for n = -2046. */
TH_INLINE vec scale_power(vec x, vec n)
{
    const vec half = n * 0.5 + ROUND;
    return x * power_of_2(half) * power_of_2(n - (half - ROUND) + ROUND);
}

/* From 710 on e^x is infinite. At -1418.2 n is -2046, and both powers of 2 are exactly 0. So exp(-inf), which is
 * frequent in masks and at the ends of rows, avoids denormal numbers, which are slow. */
TH_INLINE vec clamp_exponent(vec x)
{
    return vec_clamp(x, -1418.2, 710.0);
}

vec vec_exp(vec x)
{
    vec n;
    const pair e = exp_pair(clamp_exponent(x), vec_broadcast(0), &n);
    return scale_power(e.high + e.low, n);
}

/* 1 / (1 + e) and e / (1 + e) with e = exp(-|x|). */
void vec_sigmoid_pair(vec x, vec *sigmoid, vec *complement)
{
    vec n;
    pair e = exp_pair(clamp_exponent(-vec_abs(x)), vec_broadcast(0), &n);
    e = sum_in_order(e.high, e.low);
    e = (pair){scale_power(e.high, n), scale_power(e.low, n)};
    pair divisor = sum_in_order(vec_broadcast(1), e.high);
    divisor.low += e.low;
    const pair inverse = divide((pair){vec_broadcast(1), vec_broadcast(0)}, divisor);
    const vec large = inverse.high + inverse.low;
    const pair product = multiply(e.high, inverse.high);
    const vec small = product.high + (product.low + vec_mul_add(e.high, inverse.low, e.low * inverse.high));
    const vec_int negative = x < 0.0;
    *sigmoid = vec_select(negative, small, large);
    *complement = vec_select(negative, large, small);
}

/* tanh x = E / (E + 2) with E = exp(2|x|) - 1, which keeps its digits near 0. */
vec vec_tanh(vec x)
{
    vec n, r;
    const vec argument = vec_min(vec_broadcast(44), vec_abs(x) * 2.0); /* from 19.07 tanh x is 1 */
    const vec beyond = exp_reduced(argument, vec_broadcast(0), &n, &r), power = power_of_2(n + ROUND);
    const pair near_0 = sum_in_order(r, beyond);
    const pair sum = sum_in_order(power - 1.0, near_0.high * power);
    const pair e = {sum.high, vec_mul_add(near_0.low, power, sum.low)};
    const pair divisor = sum_exactly(e.high, vec_broadcast(2));
    const pair quotient = divide(e, (pair){divisor.high, divisor.low + e.low});
    return vec_with_sign(quotient.high + quotient.low, x);
}

/* φ(x) = exp(-x²/2) / sqrt(2π). The upper tail is φ(z) times Mills' ratio G(t) / (z + 5/4) with t = (z - 11/2) / (z +
 * 11/2). G is nearly constant, a polynomial fitted for 0 <= z <= 40. */
void vec_normal(vec x, vec *cumulative, vec *density)
{
    static const double c[] = {
        -0.30454784811505314,    0.16025256563733062,     -0.0458704114958969,    -0.02035373174034744,
        0.042262204456321492,    -0.036876936787470178,   0.022259091994732645,   -0.0097268085263803421,
        0.0027806491352587643,   -0.0002380636924377025,  -0.0002044433435220312, 9.4265329654436405e-05,
        -2.8346918245665466e-06, -1.1048637844828823e-05, 2.7135125468395557e-06, 1.0220489887678711e-06,
        -5.3148500241565699e-07, -9.0799946912803635e-08, 8.3939362393005895e-08, 1.0775834499804134e-08,
        -1.0101030497143134e-08, -1.6619115030304154e-09, 3.5564480012788947e-10,
    };
    const vec z = vec_min(vec_broadcast(40), vec_abs(x));
    const pair square = multiply(z, z);
    vec n;
    const pair e = exp_pair(square.high * -0.5, square.low * -0.5, &n);
    const pair sum = sum_in_order(e.high, e.low);
    pair d = multiply(sum.high, vec_broadcast(0x1.9884533d43651p-2));
    d.low += vec_mul_add(sum.low, vec_broadcast(0x1.9884533d43651p-2), sum.high * -0x1.cbc0d30ebfd15p-56);
    *density = scale_power(d.high + d.low, n);

    const vec t = (z - 5.5) / (z + 5.5);
    const pair beyond = multiply(t, polynomial(t, sizeof c / sizeof *c, c));
    pair g = sum_in_order(vec_broadcast(0x1.30afa5852dc94p+0), beyond.high);
    g.low += beyond.low - 0x1.17e80320c9f4ep-55;
    pair product = multiply(g.high, d.high);
    product.low += vec_mul_add(g.high, d.low, g.low * d.high);
    const pair quotient = divide(product, sum_exactly(z, vec_broadcast(1.25)));
    const pair tail = {scale_power(quotient.high, n), scale_power(quotient.low, n)};
    const pair rest = sum_in_order(vec_broadcast(1), -tail.high);
    *cumulative = vec_select(x < 0.0, tail.high + tail.low, rest.high + (rest.low - tail.low));
}

/* -- logarithms -- */

/* x = 2^power m with m in [sqrt(1/2), sqrt(2)), for 0 < x < ∞. */
TH_INLINE vec split_logarithm(vec x, vec *power)
{
    const vec_int small = x < 0x1p-1022;
    const vec normal = vec_select(small, x * 0x1p54, x);
    const uint64_t root = 0x3fe6a09e667f3bcd, bias = 1024;
    const vec_bits e = ((vec_bits)normal - root + (bias << 52)) >> 52; /* power + bias, which is positive */
    *power = (vec)(e | 0x4330000000000000) - (0x1p52 + 1024 + vec_keep(small, vec_broadcast(54)));
    return (vec)((vec_bits)normal - ((e - bias) << 52));
}

/* ln(1 + f) = f - f²/2 + s (f²/2 + R(s²)), s = f / (2 + f) (Sun's fdlibm). -inf at 0, NaN below. */
vec vec_log(vec x)
{
    static const double c[] = {
        6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
        1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
    };
    vec power;
    const vec f = split_logarithm(vec_abs(x), &power) - 1.0; /* (the result is replaced if x < 0) */
    const vec s = f / (f + 2.0), z = s * s, half = f * f * 0.5;
    const vec series = polynomial(z, sizeof c / sizeof *c, c) * z;
    const vec low = vec_mul_add(s, half + series, power * LN2_LOW);
    vec y = power * LN2_HIGH - ((half - low) - f);
    y = vec_select(x == INFINITY, x, y);
    y = vec_select(x == 0.0, vec_broadcast(-INFINITY), y);
    return vec_select(x >= 0.0, y, vec_broadcast(NAN));
}

/* ln x, for 0 < x < ∞, accurate to 2^-64. The series of 2 artanh(s), where s = (m - 1) / (m + 1), is 2 s (1 + z/3 + z²
 * Q(z)) with z = s². */
TH_INLINE pair log_pair(vec x)
{
    static const double c[] = {
        0x1.999999999999ap-3, 0x1.2492492492521p-3, 0x1.c71c71c6eaa10p-4, 0x1.745d177a9606ap-4,
        0x1.3b1395d218a2bp-4, 0x1.1118c7e4c2e2fp-4, 0x1.df7cc8e2bc427p-5, 0x1.e02e701c89a81p-5,
    }; /* of Q */
    vec power;
    const vec m = split_logarithm(x, &power);
    const pair s = divide((pair){m - 1.0, vec_broadcast(0)}, sum_in_order(vec_broadcast(1), m));
    pair z = multiply(s.high, s.high);
    z.low = vec_mul_add(s.high + s.high, s.low, z.low);
    pair sum = sum_in_order(vec_broadcast(0x1.5555555555555p-2), polynomial(z.high, sizeof c / sizeof *c, c) * z.high);
    sum.low += 0x1.5555555555555p-56;
    pair t = multiply(z.high, sum.high);
    t.low += vec_mul_add(z.high, sum.low, z.low * sum.high);
    const pair twice = {s.high + s.high, s.low + s.low};
    const pair rest = multiply(twice.high, t.high);
    const pair near_1 = sum_in_order(twice.high, rest.high);
    const vec near_1_low = near_1.low + (twice.low + (rest.low + vec_mul_add(twice.high, t.low, twice.low * t.high)));
    const pair log = sum_in_order(power * LN2_HIGH, near_1.high);
    return sum_in_order(log.high, log.low + vec_mul_add(power, vec_broadcast(LN2_LOW), near_1_low));
}

/* |a| rounded to an integer. */
TH_INLINE vec round_magnitude(vec a)
{
    const vec magnitude = vec_abs(a);
    return vec_select(magnitude < 0x1p52, (magnitude + 0x1p52) - 0x1p52, magnitude);
}

vec vec_pow(vec x, vec y)
{
    const vec base = vec_abs(x);
    pair l = log_pair(base);
    l.high = vec_select(base == 0.0, vec_broadcast(-INFINITY), l.high);
    l.high = vec_select(base == INFINITY, base, l.high);
    /* if |y| > 2^65, the power is 0, 1 or infinite, as with 2^65 */
    const vec factor = vec_clamp(y, -0x1p65, 0x1p65);
    const pair product = multiply(factor, l.high);
    const vec_int in_range = vec_abs(product.high) < 1500.0;
    const vec low = vec_keep(in_range, vec_mul_add(factor, l.low, product.low));
    vec n;
    const pair e = exp_pair(clamp_exponent(product.high), low, &n);
    vec power = scale_power(e.high + e.low, n);

    const vec_int whole = round_magnitude(y) == vec_abs(y);
    const vec_int odd = whole & (round_magnitude(y * 0.5) != vec_abs(y * 0.5));
    power = (vec)((vec_int)power | (odd & (vec_int)x & vec_sign_bit()));
    const vec_int no_power = (x < 0.0) & (base < INFINITY) & ~whole;
    const vec_int invalid = no_power | (x != x) | (y != y);
    power = vec_select(invalid, vec_broadcast(NAN), power);
    return vec_select((y == 0.0) | (x == 1.0), vec_broadcast(1), power);
}

/* -- circular functions -- */

/* From this angle on, angles are reduced one at a time. */
#define LARGE_ANGLE 0x1p20

/* x = (quadrant + 4 j + high + low) π/2 with |high + low| <= 1/2, for LARGE_ANGLE <= |x| < ∞. Multiplies the relevant
 * bits of 2/π by the 53 bits of x, as an integer modulo 2^128 in units of 2^-126 quadrants (Payne & Hanek 1983). */
static void reduce_large_angle(double x, double *high, double *low, int64_t *quadrant)
{
    static const uint64_t two_over_pi[] = {
        0, /* before the binary point */
        0xa2f9836e4e441529,
        0xfc2757d1f534ddc0,
        0xdb6295993c439041,
        0xfe5163abdebbc561,
        0xb7246e3a424dd2e0,
        0x06492eea09d1921c,
        0xfe1deb1cb129a73e,
        0xe88235f52ebb4484,
        0xe99c7026b45f7e41,
        0x3991d639835339f4,
        0x9c845f8bbdf9283b,
        0x1ff897ffde05980f,
        0xef2f118b5a0a6d1f,
        0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b,
        0x3d0739f78a5292ea,
        0x6bfb5fb11f8d5d08,
        0x56033046fc7b6bab,
    };
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;
    /* x = mantissa 2^e; the first e - 2 bits of 2/π would contribute multiples of 4 quadrants */
    const int at = (int)(bits >> 52 & 2047) - 1075 - 2 + 64;
    uint64_t word[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t *from = two_over_pi + at / 64 + i;
        word[i] = at % 64 == 0 ? from[0] : from[0] << at % 64 | from[1] >> (64 - at % 64);
    }
    /* the integer is upper 2^64 + lower */
    const uint64_t last = th_high_product(mantissa, word[2]);
    uint64_t lower = mantissa * word[1] + last;
    uint64_t upper = mantissa * word[0] + th_high_product(mantissa, word[1]) + (lower < last);
    const uint64_t nearest = (upper + ((uint64_t)1 << 61)) >> 62;
    upper -= nearest << 62;
    const bool below = upper >> 63, negative = bits >> 63;
    if (below) {
        lower = -lower;
        upper = ~upper + (lower == 0);
    }
    const uint64_t part = ((uint64_t)1 << 42) - 1;
    const double first = (double)(int64_t)(upper >> 20) * 0x1p-42,
                 second = (double)(int64_t)((upper << 22 | lower >> 42) & part) * 0x1p-84,
                 third = (double)(int64_t)(lower & part) * 0x1p-126;
    const double leading = first + second, trailing = ((first - leading) + second) + third;
    const double sign = below == negative ? 1 : -1;
    *high = sign * (leading + trailing);
    *low = sign * ((leading - (leading + trailing)) + trailing);
    *quadrant = (int64_t)((negative ? 4 - nearest : nearest) & 3);
}

/* x = (quadrant + 4 j) π/2 + r with |r| <= π/4. Returns r, exact to 2^-60 of itself, and the quadrant modulo 4. For
 * infinite x r is NaN. */
TH_INLINE pair reduce_angle(vec x, vec_int *quadrant)
{
    /* π/2 is split in four, and multiples of the first three parts are exact */
    const vec shifted = x * 0x1.45f306dc9c883p-1 + ROUND, n = shifted - ROUND;
    pair r = sum_exactly(x - n * 0x1.921fb544p+0, n * -0x1.0b4611a6p-34);
    const pair next = sum_exactly(r.high, n * -0x1.3198a2ep-69);
    r = sum_exactly(next.high, (r.low + next.low) - n * 0x1.b839a252049c1p-104);
    *quadrant = (vec_int)shifted & 3;

    const vec_int large = vec_abs(x) >= LARGE_ANGLE;
    if (vec_any(large)) {
        pair turns = {vec_broadcast(NAN), vec_broadcast(NAN)};
        for (int i = 0; i < TH_REGISTER_LANES; i++)
            if (large[i] && x[i] - x[i] == 0) {
                double high, low;
                int64_t whole;
                reduce_large_angle(x[i], &high, &low, &whole);
                turns.high[i] = high;
                turns.low[i] = low;
                (*quadrant)[i] = whole;
            }
        pair angle = multiply(turns.high, vec_broadcast(0x1.921fb54442d18p+0));
        angle.low += vec_mul_add(turns.low, vec_broadcast(0x1.921fb54442d18p+0), turns.high * 0x1.1a62633145c07p-54);
        angle = sum_in_order(angle.high, angle.low);
        r = (pair){vec_select(large, angle.high, r.high), vec_select(large, angle.low, r.low)};
    }
    return r;
}

/* sin(x + quarters π/2) (Sun's fdlibm). */
static vec sin_of_quarters(vec x, real_int quarters)
{
    static const double sine[] = {
        -1.66666666666666324348e-01, 8.33333333332248946124e-03,  -1.98412698298579493134e-04,
        2.75573137070700676789e-06,  -2.50507602534068634195e-08, 1.58969099521155010221e-10,
    };
    static const double cosine[] = {
        4.16666666666666019037e-02,  -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09,  -1.13596475577881948265e-11,
    };
    vec_int quadrant;
    const pair r = reduce_angle(x, &quadrant);
    const vec z = r.high * r.high, cube = z * r.high;
    const vec sine_rest = polynomial(z, 5, sine + 1) * cube;
    const vec s = r.high - (((r.low * 0.5 - sine_rest) * z - r.low) - cube * sine[0]);
    const vec half = z * 0.5, max = 1.0 - half;
    const vec cosine_rest = polynomial(z, 6, cosine) * z * z - r.high * r.low;
    const vec c = max + (((1.0 - max) - half) + cosine_rest);
    quadrant += quarters;
    const vec value = vec_select((quadrant & 1) != 0, c, s);
    return (vec)((vec_int)value ^ ((quadrant & 2) << 62));
}

/* -0 stays -0. */
vec vec_sin(vec x)
{
    return vec_select(x == 0.0, x, sin_of_quarters(x, 0));
}

vec vec_cos(vec x)
{
    return sin_of_quarters(x, 1);
}
