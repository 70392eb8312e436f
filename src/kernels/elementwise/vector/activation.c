/* Elementwise activation functions and their gradients. */
#include "kernels/elementwise/vector/elementwise.h"

ELEMENTWISE_KERNEL(tanh, 1, 0)
{
    return vec_tanh(v[0]);
}

/* dy (1 - y²) */
ELEMENTWISE_KERNEL(tanh_backward, 2, 0)
{
    const vec dy = v[0], y = v[1];
    return dy * ((real)1 - y * y);
}

ELEMENTWISE_KERNEL(sigmoid, 1, 0)
{
    return vec_sigmoid(v[0]);
}

/* dy y (1 - y) */
ELEMENTWISE_KERNEL(sigmoid_backward, 2, 0)
{
    const vec dy = v[0], y = v[1];
    return dy * (y * ((real)1 - y));
}

/* max(x, 0) + log(1 + e^-|x|). With u = 1 + e rounded, log(1 + e) is log(u) e / (u - 1), or e if u is 1 (Kahan). */
ELEMENTWISE_KERNEL(softplus, 1, 0)
{
    const vec x = v[0], e = vec_exp(-vec_abs(x)), u = e + (real)1, rounded = u - (real)1;
    const vec_int small = rounded == (real)0;
    const vec logarithm = vec_log(u) * (e / vec_select(small, u, rounded));
    return vec_keep(~(x <= (real)0), x) + vec_select(small, e, logarithm);
}

/* dy sigmoid(x) */
ELEMENTWISE_KERNEL(softplus_backward, 2, 0)
{
    return v[0] * vec_sigmoid(v[1]);
}

/* NaN stays NaN. */
ELEMENTWISE_KERNEL(relu, 1, 0)
{
    return vec_keep(~(v[0] <= (real)0), v[0]);
}

ELEMENTWISE_KERNEL(relu_backward, 2, 0)
{
    const vec dy = v[0], y = v[1];
    return vec_keep(~(y <= (real)0), dy);
}

/* max(x, 0)². NaN stays NaN. */
ELEMENTWISE_KERNEL(relu_squared, 1, 0)
{
    const vec positive = vec_keep(~(v[0] <= (real)0), v[0]);
    return positive * positive;
}

/* dy 2 sqrt(y) */
ELEMENTWISE_KERNEL(relu_squared_backward, 2, 0)
{
    const vec dy = v[0], y = v[1];
    return dy * ((real)2 * vec_sqrt(y));
}

/* x Φ(x) */
ELEMENTWISE_KERNEL(gelu, 1, 0)
{
    vec cumulative, density;
    vec_normal(v[0], &cumulative, &density);
    return v[0] * cumulative;
}

/* dy (Φ(x) + x φ(x)) */
ELEMENTWISE_KERNEL(gelu_backward, 2, 0)
{
    const vec dy = v[0], x = v[1];
    vec cumulative, density;
    vec_normal(x, &cumulative, &density);
    return dy * (cumulative + x * density);
}

/* x/2 (1 + tanh u) = x sigmoid(2 u), 2 u = 2 sqrt(2/π) (x + 0.044715 x³) */
#define GELU_LINEAR ((real)1.5957691216057308)
#define GELU_CUBIC ((real)0.071354816272600248)

ELEMENTWISE_KERNEL(gelu_tanh, 1, 0)
{
    const vec x = v[0];
    return x / ((real)1 + vec_exp(-x * (x * x * GELU_CUBIC + GELU_LINEAR)));
}

/* dy (s + x s (1 - s) d(2u)/dx), s = sigmoid(2u); where |x| > 16, s is 0 or 1 and the second term is 0 */
ELEMENTWISE_KERNEL(gelu_tanh_backward, 2, 0)
{
    const vec dy = v[0], x = vec_clamp(v[1], -16, 16);
    const vec square = x * x;
    vec s, one_minus_s;
    vec_sigmoid_pair(x * (square * GELU_CUBIC + GELU_LINEAR), &s, &one_minus_s);
    return dy * (s + x * s * one_minus_s * (square * (3 * GELU_CUBIC) + GELU_LINEAR));
}

/* x sigmoid(x) */
ELEMENTWISE_KERNEL(silu, 1, 0)
{
    return v[0] * vec_sigmoid(v[0]);
}

/* dy (s + x s (1 - s)) */
ELEMENTWISE_KERNEL(silu_backward, 2, 0)
{
    const vec dy = v[0], x = v[1];
    vec s, one_minus_s;
    vec_sigmoid_pair(x, &s, &one_minus_s);
    return dy * (s + x * s * one_minus_s);
}
