/* Elementwise powers, exponentials, logarithms, roots and circular functions, and their gradients. */
#include "kernels/vector/map.h"

TH_INLINE vec exponential(const vec *v)
{
    return vec_exp(v[0]);
}

void TH_KERNEL(exp)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, exponential);
}

TH_INLINE vec logarithm(const vec *v)
{
    return vec_log(v[0]);
}

void TH_KERNEL(log)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, logarithm);
}

TH_INLINE vec root(const vec *v)
{
    return vec_sqrt(v[0]);
}

void TH_KERNEL(sqrt)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, root);
}

/* dy / (2 y): infinite at 0 */
TH_INLINE vec root_backward(const vec *v)
{
    const vec dy = v[0], y = v[1];
    return dy / (y + y);
}

void TH_KERNEL(sqrt_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, root_backward);
}

TH_INLINE vec reciprocal_root(const vec *v)
{
    return vec_rsqrt(v[0]);
}

void TH_KERNEL(rsqrt)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, reciprocal_root);
}

/* -dy y³ / 2 */
TH_INLINE vec reciprocal_root_backward(const vec *v)
{
    const vec dy = v[0], y = v[1];
    return dy * (real)-0.5 * (y * y * y);
}

void TH_KERNEL(rsqrt_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, reciprocal_root_backward);
}

TH_INLINE vec sine(const vec *v)
{
    return vec_sin(v[0]);
}

void TH_KERNEL(sin)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, sine);
}

TH_INLINE vec sine_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    return dy * vec_cos(x);
}

void TH_KERNEL(sin_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, sine_backward);
}

TH_INLINE vec cosine(const vec *v)
{
    return vec_cos(v[0]);
}

void TH_KERNEL(cos)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, cosine);
}

TH_INLINE vec cosine_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    return -dy * vec_sin(x);
}

void TH_KERNEL(cos_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, cosine_backward);
}

TH_INLINE vec power(const vec *v)
{
    return vec_pow(v[0], v[1]);
}

void TH_KERNEL(pow)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, power);
}

/* da = dy b a^(b - 1), 0 where b = 0 */
TH_INLINE vec power_backward_base(const vec *v)
{
    const vec dy = v[0], a = v[1], b = v[2];
    return vec_keep(b != (real)0, dy * (b * vec_pow(a, b - (real)1)));
}

void TH_KERNEL(pow_backward_base)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 3, 0, NULL, power_backward_base);
}

/* db = dy y ln a, 0 where a = 0 and b >= 0 */
TH_INLINE vec power_backward_exponent(const vec *v)
{
    const vec dy = v[0], a = v[1], b = v[2], y = v[3];
    return vec_keep(~((a == (real)0) & (b >= (real)0)), dy * (y * vec_log(a)));
}

void TH_KERNEL(pow_backward_exponent)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 4, 0, NULL, power_backward_exponent);
}

TH_INLINE vec square(const vec *v)
{
    return v[0] * v[0];
}

void TH_KERNEL(pow_scalar)(int64_t n, void *const *operands, const void *parameters)
{
    const double *exponent = parameters;
    if (*exponent == 2)
        th_map(n, operands, 1, 0, NULL, square);
    else
        th_map(n, operands, 1, 1, exponent, power);
}

TH_INLINE vec square_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    return dy * (x + x);
}

void TH_KERNEL(pow_scalar_backward)(int64_t n, void *const *operands, const void *parameters)
{
    const double *exponent = parameters;
    if (*exponent == 2)
        th_map(n, operands, 2, 0, NULL, square_backward);
    else
        th_map(n, operands, 2, 1, exponent, power_backward_base);
}
