/* The elementary functions of float64. Their errors over the whole range, compared with libm's long double (11 more
 * bits) and with numbers computed with 2400 bits. Special values. Their bits, which are the same on every processor
 * with fused multiply-add, with every compiler, and at every index of an array. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "instances.h"
#include "suite.h"

#ifndef FE_INVALID /* WebAssembly has no flags */
#define FE_INVALID 0
#define FE_DIVBYZERO 0
#define FE_OVERFLOW 0
#endif

/* -- numbers for tests -- */

/* A 64-bit linear congruential generator that mixes its low bits with its high bits. */
static uint64_t state = 1;
static uint64_t random_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 32;
}

static double uniform(double low, double high)
{
    return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53;
}

/* Returns the number that is `steps` floating-point numbers after x (towards 0 if negative). */
static double neighbor(double x, int64_t steps)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += steps;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns random bits: all exponents are equally likely, NaN and infinity included. */
static double any_number(void)
{
    const uint64_t bits = random_bits();
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns whether long double and its functions have more bits than double. Valgrind computes it in double. WebAssembly
 * has the bits, but expl of its C library is exp. */
static bool has_long_double(void)
{
    const volatile long double one = 1, little = 0x1p-60L;
    return one + little > one && expl(one) != (long double)exp((double)one);
}

/* |y - value| in units of the last place of value. An infinite y counts as 2^1024, the number after the largest. */
static double error_in_ulps(double y, long double value)
{
    if (isnan(value) || isnan(y))
        return isnan(value) && isnan(y) ? 0 : INFINITY;
    const long double limit = 0x1p1024L;
    const long double got = isinf(y) ? (y > 0 ? limit : -limit) : (long double)y;
    const long double wanted = value > limit ? limit : value < -limit ? -limit : value;
    int exponent = 0;
    (void)frexpl(wanted, &exponent);
    exponent = exponent < -1021 || wanted == 0 ? -1021 : exponent > 1024 ? 1024 : exponent;
    return (double)(fabsl(got - wanted) / ldexpl(1, exponent - 53));
}

/* -- accuracy -- */

/* x Φ(x) = x/2 erfc(a), a = -x sqrt(1/2). Corrects the rounding of a, which matters in the tail. */
static long double reference_gelu(long double x)
{
    const long double root = 0.707106781186547524400844362104849039L, root_low = 0x1.65f626cdd52bp-66L, a = -x * root;
    if (isinf(x))
        return x > 0 ? x : NAN; /* -inf * 0 */
    const long double rounding = fmal(-x, root, -a) - x * root_low, tail = erfcl(a);
    const long double slope = tail > 0 ? 1.128379167095512573896158903121545172L * expl(-a * a) / tail : 0;
    return x / 2 * tail * (1 - slope * rounding);
}

static long double reference_sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

static long double reference_silu(long double x)
{
    return x / (1 + expl(-x));
}

static long double reference_softplus(long double x)
{
    return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
}

typedef struct accuracy {
    const char *name;
    size_t entry; /* offset in th_kernels */
    long double (*reference)(long double);
    double low, high;
    double step; /* distance of the numbers where the algorithm switches; a quarter of the samples is close to one */
    double ulps; /* |error| in units of the last place ... */
    double absolute; /* ... or |error|, for products with a denormal factor */
} accuracy;

static const accuracy accuracies[] = {
    {ENTRY(exp), expl, -746, 710, M_LN2 / 2, 1, 0},
    {ENTRY(exp), expl, -1, 1, M_LN2 / 2, 1, 0},
    {ENTRY(log), logl, 0, DBL_MAX, M_SQRT1_2, 1, 0},
    {ENTRY(log), logl, 0.5, 2, 0x1p-40, 1, 0},
    {ENTRY(tanh), tanhl, -20, 20, M_LN2 / 4, 1, 0},
    {ENTRY(tanh), tanhl, -0.2, 0.2, M_LN2 / 4, 1, 0},
    {ENTRY(sin), sinl, -10, 10, M_PI_4, 1, 0},
    {ENTRY(sin), sinl, -1e7, 1e7, M_PI_4, 1, 0},
    {ENTRY(sin), sinl, -DBL_MAX, DBL_MAX, M_PI_4, 1, 0},
    {ENTRY(cos), cosl, -10, 10, M_PI_4, 1, 0},
    {ENTRY(cos), cosl, -1e7, 1e7, M_PI_4, 1, 0},
    {ENTRY(cos), cosl, -DBL_MAX, DBL_MAX, M_PI_4, 1, 0},
    {ENTRY(sigmoid), reference_sigmoid, -745, 40, M_LN2 / 2, 1, 0},
    {ENTRY(silu), reference_silu, -40, 40, M_LN2 / 2, 2, 800 * 0x1p-1074},
    {ENTRY(softplus), reference_softplus, -708, 40, M_LN2 / 2, 2, 0},
    {ENTRY(gelu), reference_gelu, -1, 1, 1, 2, 0},
    {ENTRY(gelu), reference_gelu, -39, 9, 1, 2, 48 * 0x1p-1074},
};

enum { SWEEP = 20000, MAX_STEPS = 1 << 21 };

static double sample(const accuracy *a, int i)
{
    if (i % 4 == 0)
        return any_number();
    if (i % 4 == 1) {
        const double any = ldexp(uniform(-2, 2), (int)uniform(-1074, 1024));
        if (any >= a->low && any <= a->high)
            return any;
    }
    if (i % 4 == 2) {
        const double max = fmin(a->high / a->step, MAX_STEPS), least = fmax(a->low / a->step, -MAX_STEPS);
        return neighbor((double)((long double)floor(uniform(least, max)) * (long double)a->step),
                        (int64_t)uniform(-3, 4));
    }
    return a->low + uniform(0, 1) * (a->high / 2 - a->low / 2) * 2;
}

START_TEST(test_accuracy)
{
    const accuracy *a = &accuracies[_i];
    static double x[SWEEP], y[ISAS][SWEEP];
    for (int i = 0; i < SWEEP; i++)
        x[i] = sample(a, i);
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        kernel_at(f64[isa], a->entry)(SWEEP, (void *const[]){y[isa], x}, NULL);
    for (int i = 0; i < SWEEP; i++) {
        const long double value = a->reference((long double)x[i]);
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            const double off = error_in_ulps(y[isa][i], value);
            ck_assert_msg(off <= a->ulps || fabsl((long double)y[isa][i] - value) <= (long double)a->absolute,
                          "%s(%a) = %a, not %La, by %g ulps on instruction set %d", a->name, x[i], y[isa][i], value,
                          off, isa);
        }
    }
}
END_TEST

static void pow_sample(int i, double *x, double *y)
{
    switch (i % 6) {
    case 0: /* anything */
        *x = any_number();
        *y = any_number();
        return;
    case 1: /* any base, moderate exponents */
        *x = any_number();
        *y = uniform(-3, 3);
        return;
    case 2: /* close to 1, with exponents that give results of every size */
        *x = 1 + uniform(-1, 1) * ldexp(1, -(int)uniform(0, 53));
        *y = *x == 1 ? 1 : uniform(-750, 750) / log(*x);
        return;
    case 3: /* whole numbers */
        *x = floor(uniform(-100, 100));
        *y = floor(uniform(-170, 170));
        return;
    case 4: /* results close to the limits: denormal, infinite */
        *x = ldexp(uniform(1, 2), (int)uniform(-1074, 1023));
        *y = (uniform(0, 1) < 0.5 ? uniform(-746, -700) : uniform(700, 712)) / log(*x);
        return;
    default:
        *x = uniform(0.5, 2);
        *y = uniform(-1074, 1024);
    }
}

/* musl's powl returns the wrong sign for a negative base and a large odd exponent. */
static long double reference_pow(double x, double p)
{
    const bool by_sign = x < 0 && floor(p) == p;
    const long double value = powl(by_sign ? -x : x, p);
    return by_sign && fmod(fabs(p), 2) == 1 ? -value : value;
}

START_TEST(test_pow_accuracy)
{
    static double x[SWEEP], p[SWEEP], y[ISAS][SWEEP];
    for (int i = 0; i < SWEEP; i++)
        pow_sample(i, &x[i], &p[i]);
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        f64[isa]->pow(SWEEP, (void *const[]){y[isa], x, p}, NULL);
    for (int i = 0; i < SWEEP; i++) {
        const long double value = reference_pow(x[i], p[i]);
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            const double off = error_in_ulps(y[isa][i], value);
            ck_assert_msg(off <= 1, "%a ^ %a = %a, not %La, by %g ulps on instruction set %d", x[i], p[i], y[isa][i],
                          value, off, isa);
        }
    }
}
END_TEST

/* Correctly rounded values of hard cases: close to multiples of π/2, where the argument reduction switches, at the
 * ends of the range, and where our error was largest. */
typedef struct exact {
    const char *name;
    size_t entry;
    double x, p, value; /* p: the exponent of pow */
} exact;

static const exact exacts[] = {
    // clang-format off (a table: one line an entry)
    {ENTRY(sin), 0x1.6ac5b262ca1ffp+849, 0, 0x1p+0},
    {ENTRY(sin), 0x1.0f0cf064dd592p+73, 0, -0x1.b453ab76bf397p-1},
    {ENTRY(sin), 0x1.fffffffffffffp+1023, 0, 0x1.452fc98b34e97p-8},
    {ENTRY(sin), 0x1p+1000, 0, -0x1.460b8ae1c886ep-3},
    {ENTRY(sin), 0x1.921fb54442d18p+0, 0, 0x1p+0},
    {ENTRY(sin), 0x1.921fb54442d19p+0, 0, 0x1p+0},
    {ENTRY(sin), 0x1.921fb54442d18p+1, 0, 0x1.1a62633145c07p-53},
    {ENTRY(sin), 0x1.2d97c7f3321d2p+2, 0, -0x1p+0},
    {ENTRY(sin), 0x1.2d97c7f3321d2p+1, 0, 0x1.6a09e667f3bcdp-1},
    {ENTRY(sin), 0x1.921fb54442d18p-1, 0, 0x1.6a09e667f3bccp-1},
    {ENTRY(sin), 0x1p+20, 0, 0x1.526ccb2fc8656p-2},
    {ENTRY(sin), 0x1.fffffffffffffp+19, 0, 0x1.526ccb2de52a8p-2},
    {ENTRY(sin), 0x1.6300000000000p+8, 0, -0x1.f9bd0307d1de3p-16},
    {ENTRY(sin), 0x1.fad38d3e37f3cp+19, 0, -0x1.f2bcce894f783p-1},
    {ENTRY(sin), -0x1.86a0000000000p+16, 0, -0x1.24daa9c527e96p-5},
    {ENTRY(sin), 0x1.87e92154ef7acp-665, 0, 0x1.87e92154ef7acp-665},
    {ENTRY(sin), 0x1.7f7ec53a8d491p+21, 0, -0x1.eacd7c60e9693p-33},
    {ENTRY(sin), 0x1.1475cc9eedf00p+4, 0, -0x1p+0},
    {ENTRY(sin), 0x1p+62, 0, -0x1.67e57355f0147p-1},
    {ENTRY(sin), 0x1.8000000000000p+501, 0, 0x1.f159e72f6ccd3p-1},
    {ENTRY(cos), 0x1.6ac5b262ca1ffp+849, 0, -0x1.14ae72e6ba22fp-61},
    {ENTRY(cos), 0x1.0f0cf064dd592p+73, 0, 0x1.0be2cef01c8f4p-1},
    {ENTRY(cos), 0x1.fffffffffffffp+1023, 0, -0x1.fffe62ecfab75p-1},
    {ENTRY(cos), 0x1p+1000, 0, 0x1.f9785160c8815p-1},
    {ENTRY(cos), 0x1.921fb54442d18p+0, 0, 0x1.1a62633145c07p-54},
    {ENTRY(cos), 0x1.921fb54442d19p+0, 0, -0x1.72cece675d1fdp-53},
    {ENTRY(cos), 0x1.921fb54442d18p+1, 0, -0x1p+0},
    {ENTRY(cos), 0x1.2d97c7f3321d2p+2, 0, -0x1.a79394c9e8a0ap-53},
    {ENTRY(cos), 0x1.2d97c7f3321d2p+1, 0, -0x1.6a09e667f3bccp-1},
    {ENTRY(cos), 0x1.921fb54442d18p-1, 0, 0x1.6a09e667f3bcdp-1},
    {ENTRY(cos), 0x1p+20, 0, 0x1.e33ada92fe2aep-1},
    {ENTRY(cos), 0x1.fffffffffffffp+19, 0, 0x1.e33ada9352c61p-1},
    {ENTRY(cos), 0x1.6300000000000p+8, 0, -0x1.fffffffc18e4cp-1},
    {ENTRY(cos), 0x1.fad38d3e37f3cp+19, 0, -0x1.cf1e26951aeccp-3},
    {ENTRY(cos), -0x1.86a0000000000p+16, 0, -0x1.ffac3841b3da7p-1},
    {ENTRY(cos), 0x1.87e92154ef7acp-665, 0, 0x1p+0},
    {ENTRY(cos), 0x1.7f7ec53a8d491p+21, 0, 0x1p+0},
    {ENTRY(cos), 0x1.1475cc9eedf00p+4, 0, -0x1.6111d218effa2p-49},
    {ENTRY(cos), 0x1p+62, 0, -0x1.6c2b1f820c708p-1},
    {ENTRY(cos), 0x1.8000000000000p+501, 0, 0x1.e663331954841p-3},
    {ENTRY(exp), 0x1.62e42fefa39efp-2, 0, 0x1.6a09e667f3bccp+0},
    {ENTRY(exp), 0x1.62e42fefa39f0p-2, 0, 0x1.6a09e667f3bcdp+0},
    {ENTRY(exp), -0x1.62e42fefa39efp-2, 0, 0x1.6a09e667f3bcdp-1},
    {ENTRY(exp), 0x1.0a2b23f3bab73p+0, 0, 0x1.6a09e667f3bccp+1},
    {ENTRY(exp), 0x1.62e42fefa39efp+9, 0, 0x1.fffffffffff2ap+1023},
    {ENTRY(exp), -0x1.6232bdd7abcd2p+9, 0, 0x1.000000000007cp-1022},
    {ENTRY(exp), -0x1.62673eab367a1p+9, 0, 0x0.a9dd17479339dp-1022},
    {ENTRY(exp), -0x1.74910d52d3051p+9, 0, 0x0.0000000000001p-1022},
    {ENTRY(exp), -0x1.7400000000000p+9, 0, 0x0.0000000000002p-1022},
    {ENTRY(exp), 0x1.56e1fc2f8f359p-997, 0, 0x1p+0},
    {ENTRY(exp), -0x1.70ef54646d497p-57, 0, 0x1p+0},
    {ENTRY(exp), 0x1p-1, 0, 0x1.a61298e1e069cp+0},
    {ENTRY(exp), 0x1p+0, 0, 0x1.5bf0a8b145769p+1},
    {ENTRY(exp), -0x1.2c00000000000p+5, 0, 0x1.dd5c566301ec8p-55},
    {ENTRY(exp), 0x1.8a209857a943cp-2, 0, 0x1.782e0c0a163fdp+0},
    {ENTRY(exp), -0x1.6267307992e0fp+9, 0, 0x0.a9efee6142643p-1022},
    {ENTRY(log), 0x1.0000000000001p+0, 0, 0x1.fffffffffffffp-53},
    {ENTRY(log), 0x1.fffffffffffffp-1, 0, -0x1p-53},
    {ENTRY(log), 0x0.0000000000001p-1022, 0, -0x1.74385446d71c3p+9},
    {ENTRY(log), 0x0.8000000000000p-1022, 0, -0x1.628b76e3a7b61p+9},
    {ENTRY(log), 0x1.fffffffffffffp+1023, 0, 0x1.62e42fefa39efp+9},
    {ENTRY(log), 0x1.6a09e667f3bcdp+0, 0, 0x1.62e42fefa39f0p-2},
    {ENTRY(log), 0x1.6a09e667f3bcep+0, 0, 0x1.62e42fefa39f3p-2},
    {ENTRY(log), 0x1.6a09e667f3bcdp-1, 0, -0x1.62e42fefa39eep-2},
    {ENTRY(log), 0x1.6a09e667f3bccp-1, 0, -0x1.62e42fefa39f1p-2},
    {ENTRY(log), 0x1p+1, 0, 0x1.62e42fefa39efp-1},
    {ENTRY(log), 0x1.4000000000000p+3, 0, 0x1.26bb1bbb55516p+1},
    {ENTRY(log), 0x1.67234f79b17dbp-1, 0, -0x1.6b2101db5ee9bp-2},
    {ENTRY(log), 0x1.028f5c28f5c29p+0, 0, 0x1.460d6ccca367cp-7},
    {ENTRY(log), 0x1.fae147ae147aep-1, 0, -0x1.495453e6fd4bcp-7},
    {ENTRY(log), 0x1.56e1fc2f8f359p-997, 0, -0x1.5963447f87fb5p+9},
    {ENTRY(tanh), 0x1.6cdc3d4134aeep-3, 0, 0x1.690c709836e6dp-3},
    {ENTRY(tanh), 0x1.199999999999ap-1, 0, 0x1.00442f6419203p-1},
    {ENTRY(tanh), 0x1.3000000000000p+4, 0, 0x1.fffffffffffffp-1},
    {ENTRY(tanh), -0x1.2800000000000p+4, 0, -0x1.ffffffffffffep-1},
    {ENTRY(tanh), 0x1.56e1fc2f8f359p-997, 0, 0x1.56e1fc2f8f359p-997},
    {ENTRY(tanh), 0x0.0000000000001p-1022, 0, 0x0.0000000000001p-1022},
    {ENTRY(tanh), 0x1.62e42fefa39efp-3, 0, 0x1.5f619980c4337p-3},
    {ENTRY(tanh), -0x1.0a2b23f3bab73p-1, 0, -0x1.e90df15b89be3p-2},
    {ENTRY(tanh), 0x1p+0, 0, 0x1.85efab514f394p-1},
    {ENTRY(tanh), 0x1.12e0be826d695p-30, 0, 0x1.12e0be826d695p-30},
    {ENTRY(gelu), 0x1p-1, 0, 0x1.62075e232ac77p-2},
    {ENTRY(gelu), -0x1p-1, 0, -0x1.3bf143b9aa712p-3},
    {ENTRY(gelu), 0x1.56e1fc2f8f359p-997, 0, 0x1.56e1fc2f8f359p-998},
    {ENTRY(gelu), -0x1.4000000000000p+2, 0, -0x1.80bcbae98063dp-20},
    {ENTRY(gelu), -0x1.4000000000000p+4, 0, -0x1.1876296f504b2p-290},
    {ENTRY(gelu), -0x1.2800000000000p+5, 0, -0x1.1bbe62e6f3e25p-989},
    {ENTRY(gelu), 0x1.8000000000000p+1, 0, 0x1.7f7b4cb426ddcp+1},
    {ENTRY(gelu), 0x1p+3, 0, 0x1.ffffffffffffap+2},
    {ENTRY(gelu), -0x1.47ae147ae147bp-7, 0, -0x1.4510c6ee53c40p-8},
    {ENTRY(gelu), 0x1.fab181b4c8600p-8, 0, 0x1.fdd1af19cd26ep-9},
    {ENTRY(pow), 0x1.00002a67c2e13p+0, -0x1.0b68db9ef6261p+28, 0x0.b899015fba8b5p-1022},
    {ENTRY(pow), 0x1.6d669a6ef4985p+0, 0x1.baf3feaceac12p+9, 0x1.b3cc1819daecbp+454},
    {ENTRY(pow), 0x1.8000000000000p+1, 0x1.4000000000000p+2, 0x1.e600000000000p+7},
    {ENTRY(pow), -0x1.8000000000000p+1, 0x1.4000000000000p+2, -0x1.e600000000000p+7},
    {ENTRY(pow), 0x1p+1, -0x1.0c80000000000p+10, 0x0.0000000000001p-1022},
    {ENTRY(pow), 0x1p+1, 0x1p-1, 0x1.6a09e667f3bcdp+0},
    {ENTRY(pow), 0x1p-1, 0x1.ff40000000000p+9, 0x0.b504f333f9de6p-1022},
    {ENTRY(pow), 0x1.0000000000001p+0, 0x1.bc16d674ec800p+59, 0x1.44a12826f5073p+320},
    {ENTRY(pow), 0x1.fffffffffffffp-1, -0x1.4d1120d7b1600p+62, 0x1.0502174a9c0efp+961},
    {ENTRY(pow), 0x0.0000000000001p-1022, 0x1.ff7ced916872bp-1, 0x0.0000000000002p-1022},
    {ENTRY(pow), 0x0.0000000000001p-1022, -0x1.e666666666666p-1, 0x1.3b2c47bff8272p+1020},
    {ENTRY(pow), 0x1.fffffffffffffp+1023, -0x1.0a3d70a3d70a4p+0, 0x0.000000000020ep-1022},
    {ENTRY(pow), 0x1.4000000000000p+3, 0x1.3400000000000p+8, 0x1.1ccf385ebc8a0p+1023},
    {ENTRY(pow), 0x1.4000000000000p+3, -0x1.4000000000000p+8, 0x0.00000000007e8p-1022},
    {ENTRY(pow), 0x1.ff7ced916872bp-1, 0x1.f400000000000p+9, 0x1.788526411ed72p-2},
    {ENTRY(pow), 0x1.ccccccccccccdp-1, 0x1.edd2f1a9fbe77p+6, 0x1.2d24abd025249p-19},
    {ENTRY(pow), -0x1.8000000000000p+0, 0x1.f480000000000p+9, -0x1.7625c0ce7e8f3p+585},
    {ENTRY(pow), 0x1.c000000000000p+2, -0x1.2c00000000000p+8, 0x1.bbb9b4e610170p-843},
    // clang-format on
};

START_TEST(test_exact_values)
{
    for (size_t i = 0; i < sizeof exacts / sizeof *exacts; i++) {
        const exact *e = &exacts[i];
        const double ulps = strcmp(e->name, "gelu") == 0 ? 2 : 1;
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            double x = e->x, p = e->p, y;
            kernel_at(f64[isa], e->entry)(1, (void *const[]){&y, &x, &p}, NULL);
            ck_assert_msg(error_in_ulps(y, (long double)e->value) <= ulps,
                          "%s(%a, %a) = %a, not %a, on instruction set %d", e->name, x, p, y, e->value, isa);
        }
    }
}
END_TEST

/* -- special values: exact, signs of zeros included -- */

static const exact specials[] = {
    {ENTRY(exp), 0.0, 0, 1},
    {ENTRY(exp), -0.0, 0, 1},
    {ENTRY(exp), 5e-324, 0, 1},
    {ENTRY(exp), INFINITY, 0, INFINITY},
    {ENTRY(exp), -INFINITY, 0, 0.0},
    {ENTRY(exp), 709.79, 0, INFINITY},
    {ENTRY(exp), DBL_MAX, 0, INFINITY},
    {ENTRY(exp), -745.14, 0, 0.0},
    {ENTRY(exp), -1000, 0, 0.0},
    {ENTRY(exp), -1418.3, 0, 0.0},
    {ENTRY(exp), -DBL_MAX, 0, 0.0},
    {ENTRY(exp), NAN, 0, NAN},
    {ENTRY(log), 1, 0, 0.0},
    {ENTRY(log), 0.0, 0, -INFINITY},
    {ENTRY(log), -0.0, 0, -INFINITY},
    {ENTRY(log), -5e-324, 0, NAN},
    {ENTRY(log), -1, 0, NAN},
    {ENTRY(log), -INFINITY, 0, NAN},
    {ENTRY(log), INFINITY, 0, INFINITY},
    {ENTRY(log), NAN, 0, NAN},
    {ENTRY(tanh), 0.0, 0, 0.0},
    {ENTRY(tanh), -0.0, 0, -0.0},
    {ENTRY(tanh), 5e-324, 0, 5e-324},
    {ENTRY(tanh), -5e-324, 0, -5e-324},
    {ENTRY(tanh), 1e-310, 0, 1e-310},
    {ENTRY(tanh), 22, 0, 1},
    {ENTRY(tanh), -30, 0, -1},
    {ENTRY(tanh), INFINITY, 0, 1},
    {ENTRY(tanh), -INFINITY, 0, -1},
    {ENTRY(tanh), NAN, 0, NAN},
    {ENTRY(sin), 0.0, 0, 0.0},
    {ENTRY(sin), -0.0, 0, -0.0},
    {ENTRY(sin), 5e-324, 0, 5e-324},
    {ENTRY(sin), -5e-324, 0, -5e-324},
    {ENTRY(sin), INFINITY, 0, NAN},
    {ENTRY(sin), -INFINITY, 0, NAN},
    {ENTRY(sin), NAN, 0, NAN},
    {ENTRY(cos), 0.0, 0, 1},
    {ENTRY(cos), -0.0, 0, 1},
    {ENTRY(cos), 5e-324, 0, 1},
    {ENTRY(cos), INFINITY, 0, NAN},
    {ENTRY(cos), -INFINITY, 0, NAN},
    {ENTRY(cos), NAN, 0, NAN},
    {ENTRY(sigmoid), 0.0, 0, 0.5},
    {ENTRY(sigmoid), 40, 0, 1},
    {ENTRY(sigmoid), INFINITY, 0, 1},
    {ENTRY(sigmoid), -INFINITY, 0, 0.0},
    {ENTRY(sigmoid), -1000, 0, 0.0},
    {ENTRY(sigmoid), NAN, 0, NAN},
    {ENTRY(gelu), 0.0, 0, 0.0},
    {ENTRY(gelu), -0.0, 0, -0.0},
    {ENTRY(gelu), 9, 0, 9},
    {ENTRY(gelu), DBL_MAX, 0, DBL_MAX},
    {ENTRY(gelu), -DBL_MAX, 0, -0.0},
    {ENTRY(gelu), INFINITY, 0, INFINITY},
    {ENTRY(gelu), NAN, 0, NAN},
    {ENTRY(silu), -0.0, 0, -0.0},
    {ENTRY(silu), INFINITY, 0, INFINITY},
    {ENTRY(silu), NAN, 0, NAN},
};

START_TEST(test_special_values)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const exact *s = &specials[i];
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            double x = s->x, y;
            kernel_at(f64[isa], s->entry)(1, (void *const[]){&y, &x}, NULL);
            ck_assert_msg(same(y, s->value), "%s(%a) = %a, not %a", s->name, x, y, s->value);
        }
    }
}
END_TEST

/* Odd and even functions are odd and even to the last bit. */
START_TEST(test_symmetry)
{
    static double x[SWEEP], minus[SWEEP], y[SWEEP], z[SWEEP];
    for (int i = 0; i < SWEEP; i++)
        minus[i] = -(x[i] = i % 2 ? any_number() : uniform(-50, 50));
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        f64[isa]->tanh(SWEEP, (void *const[]){y, x}, NULL);
        f64[isa]->tanh(SWEEP, (void *const[]){z, minus}, NULL);
        for (int i = 0; i < SWEEP; i++)
            ck_assert(same(y[i], -z[i]));
        f64[isa]->sin(SWEEP, (void *const[]){y, x}, NULL);
        f64[isa]->sin(SWEEP, (void *const[]){z, minus}, NULL);
        for (int i = 0; i < SWEEP; i++)
            ck_assert(same(y[i], -z[i]));
        f64[isa]->cos(SWEEP, (void *const[]){y, x}, NULL);
        f64[isa]->cos(SWEEP, (void *const[]){z, minus}, NULL);
        for (int i = 0; i < SWEEP; i++)
            ck_assert(same(y[i], z[i]));
    }
}
END_TEST

/* Annex F of the C standard, for every pair of its special numbers: libm's results are exact there. */
START_TEST(test_pow_special_values)
{
    const double values[] = {0.0,         0x1p-1074,  0x1p-1022, 0.25,       0.5,    1 - 0x1p-53, 1,
                             1 + 0x1p-52, 2,          3,         1023,       1024,   1075,        4503599627370495.5,
                             0x1p52 + 1,  0x1p53 - 1, 0x1p53,    0x1p53 + 2, 0x1p64, DBL_MAX,     INFINITY,
                             NAN};
    enum { COUNT = sizeof values / sizeof *values };
    for (int i = 0; i < 2 * COUNT; i++)
        for (int j = 0; j < 2 * COUNT; j++)
            for (int isa = 0; isa < ISAS && supported(isa); isa++) {
                double x = i % 2 ? -values[i / 2] : values[i / 2], p = j % 2 ? -values[j / 2] : values[j / 2], y;
                f64[isa]->pow(1, (void *const[]){&y, &x, &p}, NULL);
                const double value = pow(x, p);
                const bool exactly = value == 0 || !isfinite(value) || fabs(value) == 1;
                ck_assert_msg(same(y, value) || (!exactly && signbit(y) == signbit(value) &&
                                                 error_in_ulps(y, (long double)value) <= 1.5),
                              "%a ^ %a = %a, not %a", x, p, y, value);
            }
}
END_TEST

/* Intermediate results raise no invalid operation, division by zero or overflow, so that a program that traps these
 * does not stop. */
START_TEST(test_exceptions)
{
    const size_t entries[] = {offsetof(th_kernels, exp),  offsetof(th_kernels, log),    offsetof(th_kernels, tanh),
                              offsetof(th_kernels, sin),  offsetof(th_kernels, cos),    offsetof(th_kernels, pow),
                              offsetof(th_kernels, gelu), offsetof(th_kernels, sigmoid)};
    static double x[SWEEP], base[SWEEP], p[SWEEP], y[SWEEP];
    for (int i = 0; i < SWEEP; i++) {
        x[i] = i % 2 ? uniform(0, 50) : ldexp(uniform(1, 2), (int)uniform(-1074, 9));
        base[i] = uniform(0.1, 50);
        p[i] = uniform(-20, 20);
    }
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
            double *from = entries[e] == offsetof(th_kernels, pow) ? base : x;
            feclearexcept(FE_ALL_EXCEPT);
            kernel_at(f64[isa], entries[e])(SWEEP - 1, (void *const[]){y, from, p}, NULL);
            ck_assert_int_eq(fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW), 0);
        }
}
END_TEST

/* -- bits -- */

/* Returns a hash of the bits of y. All NaN count as the same. */
static uint64_t digest(int64_t n, const double *y)
{
    uint64_t sum = 14695981039346656037u; /* Fowler, Noll & Vo */
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0x7ff8000000000000;
        if (!isnan(y[i]))
            memcpy(&bits, &y[i], sizeof bits);
        for (int byte = 0; byte < 8; byte++)
            sum = (sum ^ (bits >> 8 * byte & 255)) * 1099511628211u;
    }
    return sum;
}

/* The recorded hashes of SWEEP numbers, with and without fused multiply-add. Every compiler and processor must give the
 * same. */
typedef struct bits {
    const char *name;
    size_t entry;
    uint64_t fused, baseline;
} bits;

static const bits all_bits[] = {
    {ENTRY(exp), 0xbd8b59af740a7694, 0xdbb3e29e665c330a},     {ENTRY(log), 0x0434b760dd83ef4c, 0xd3180a8bd0d264e8},
    {ENTRY(tanh), 0x85c724049c58a6be, 0x323fcf89489bb558},    {ENTRY(sin), 0x9bd81bbd34524164, 0x9bd81bbd34524164},
    {ENTRY(cos), 0xe18ad64b9b03691d, 0xe18ad64b9b03691d},     {ENTRY(pow), 0x38ad79b1de4e98d3, 0xd9c9700aea9b3144},
    {ENTRY(sigmoid), 0x5c6dfc482e4f6351, 0x725742e46573b07d}, {ENTRY(gelu), 0xb5c95e2f00ff4073, 0x2932c5f52e9c2c8d},
};

START_TEST(test_bits)
{
    const bits *b = &all_bits[_i];
    static double x[SWEEP], p[SWEEP], y[SWEEP];
    state = 1;
    for (int i = 0; i < SWEEP; i++) {
        x[i] = i % 2 ? any_number() : uniform(-30, 30);
        p[i] = i % 4 == 0 ? any_number() : uniform(-3, 3);
    }
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        th_elementwise_kernel *kernel = kernel_at(f64[isa], b->entry);
        kernel(SWEEP, (void *const[]){y, x, p}, NULL);
        const uint64_t wanted = th_isas[isa].fused ? b->fused : b->baseline, got = digest(SWEEP, y);
        ck_assert_msg(got == wanted, "%s on instruction set %d: 0x%016llx, not 0x%016llx", b->name, isa,
                      (unsigned long long)got, (unsigned long long)wanted);
        /* at every index, with every neighbor */
        for (int n = 1; n <= 40; n++) {
            double part[48];
            const int from = n * 37;
            for (int i = 0; i < 48; i++)
                part[i] = 77;
            kernel(n, (void *const[]){part, x + from, p + from}, NULL);
            for (int i = 0; i < 48; i++)
                ck_assert(i < n ? same(part[i], y[from + i]) : part[i] == 77);
        }
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("elementary_f64", NULL, NULL);
    if (has_long_double()) {
        tcase_add_loop_test(tests, test_accuracy, 0, sizeof accuracies / sizeof *accuracies);
        tcase_add_test(tests, test_pow_accuracy);
    } else {
        puts("skipped: test_accuracy and test_pow_accuracy need functions of long double with more bits than double");
    }
    tcase_add_test(tests, test_exact_values);
    tcase_add_test(tests, test_special_values);
    tcase_add_test(tests, test_symmetry);
    tcase_add_test(tests, test_pow_special_values);
    tcase_add_test(tests, test_exceptions);
    tcase_add_loop_test(tests, test_bits, 0, sizeof all_bits / sizeof *all_bits);
    return run_suites();
}
