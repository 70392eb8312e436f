/* Elementwise activation functions and their gradients. */
#include "kernels/vector/map.h"

TH_INLINE vec hyperbolic_tangent(const vec *v)
{
    return vec_tanh(v[0]);
}

void TH_KERNEL(tanh)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, hyperbolic_tangent);
}

/* dy (1 - y²) */
TH_INLINE vec hyperbolic_tangent_backward(const vec *v)
{
    const vec dy = v[0], y = v[1];
    return dy * ((real)1 - y * y);
}

void TH_KERNEL(tanh_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, hyperbolic_tangent_backward);
}

TH_INLINE vec sigmoid(const vec *v)
{
    return vec_sigmoid(v[0]);
}

void TH_KERNEL(sigmoid)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, sigmoid);
}

/* dy y (1 - y) */
TH_INLINE vec sigmoid_backward(const vec *v)
{
    const vec dy = v[0], y = v[1];
    return dy * (y * ((real)1 - y));
}

void TH_KERNEL(sigmoid_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, sigmoid_backward);
}

/* NaN stays NaN. */
TH_INLINE vec rectify(const vec *v)
{
    return vec_keep(~(v[0] <= (real)0), v[0]);
}

void TH_KERNEL(relu)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, rectify);
}

TH_INLINE vec rectify_backward(const vec *v)
{
    const vec dy = v[0], y = v[1];
    return vec_keep(~(y <= (real)0), dy);
}

void TH_KERNEL(relu_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, rectify_backward);
}

/* x Φ(x) */
TH_INLINE vec gelu(const vec *v)
{
    vec cumulative, density;
    vec_normal(v[0], &cumulative, &density);
    return v[0] * cumulative;
}

void TH_KERNEL(gelu)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, gelu);
}

/* dy (Φ(x) + x φ(x)) */
TH_INLINE vec gelu_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    vec cumulative, density;
    vec_normal(x, &cumulative, &density);
    return dy * (cumulative + x * density);
}

void TH_KERNEL(gelu_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, gelu_backward);
}

/* x/2 (1 + tanh u) = x sigmoid(2 u), 2 u = 2 sqrt(2/π) (x + 0.044715 x³) */
#define GELU_LINEAR ((real)1.5957691216057308)
#define GELU_CUBIC ((real)0.071354816272600248)

TH_INLINE vec gelu_tanh(const vec *v)
{
    const vec x = v[0];
    return x / ((real)1 + vec_exp(-x * (x * x * GELU_CUBIC + GELU_LINEAR)));
}

void TH_KERNEL(gelu_tanh)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, gelu_tanh);
}

/* dy (s + x s (1 - s) d(2u)/dx), s = sigmoid(2u); where |x| > 16, s is 0 or 1 and the second term is 0 */
TH_INLINE vec gelu_tanh_backward(const vec *v)
{
    const vec dy = v[0], x = vec_clamp(v[1], -16, 16);
    const vec square = x * x;
    vec s, rest;
    vec_sigmoid_pair(x * (square * GELU_CUBIC + GELU_LINEAR), &s, &rest);
    return dy * (s + x * s * rest * (square * (3 * GELU_CUBIC) + GELU_LINEAR));
}

void TH_KERNEL(gelu_tanh_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, gelu_tanh_backward);
}

/* x sigmoid(x) */
TH_INLINE vec silu(const vec *v)
{
    return v[0] * vec_sigmoid(v[0]);
}

void TH_KERNEL(silu)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, silu);
}

/* dy (s + x s (1 - s)) */
TH_INLINE vec silu_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    vec s, rest;
    vec_sigmoid_pair(x, &s, &rest);
    return dy * (s + x * s * rest);
}

void TH_KERNEL(silu_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, silu_backward);
}
