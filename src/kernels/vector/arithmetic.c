/* Elementwise arithmetic and its gradients: contiguous operands, destination first, shapes are the caller's business.
 */
#include "kernels/vector/map.h"

TH_INLINE vec add(const vec *v)
{
    return v[0] + v[1];
}

void TH_KERNEL(add)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, add);
}

TH_INLINE vec subtract(const vec *v)
{
    return v[0] - v[1];
}

void TH_KERNEL(sub)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, subtract);
}

TH_INLINE vec multiply(const vec *v)
{
    return v[0] * v[1];
}

void TH_KERNEL(mul)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, multiply);
}

TH_INLINE vec divide(const vec *v)
{
    return v[0] / v[1];
}

void TH_KERNEL(div)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, divide);
}

/* d(a/b)/db = -a/b² = -y/b */
TH_INLINE vec divide_backward(const vec *v)
{
    const vec dy = v[0], y = v[1], b = v[2];
    return -dy * (y / b);
}

void TH_KERNEL(div_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 3, 0, NULL, divide_backward);
}

TH_INLINE vec negate(const vec *v)
{
    return -v[0];
}

void TH_KERNEL(neg)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, negate);
}

void TH_KERNEL(scale)(int64_t n, void *const *operands, const void *parameters)
{
    th_map(n, operands, 1, 1, parameters, multiply);
}

void TH_KERNEL(add_scalar)(int64_t n, void *const *operands, const void *parameters)
{
    th_map(n, operands, 1, 1, parameters, add);
}

/* y += x: y is its own first source. */
void TH_KERNEL(accumulate)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, (void *const[]){operands[0], operands[0], operands[1]}, 2, 0, NULL, add);
}

TH_INLINE vec maximum(const vec *v)
{
    return vec_maximum(v[0], v[1]);
}

void TH_KERNEL(maximum)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, maximum);
}

TH_INLINE vec minimum(const vec *v)
{
    return vec_minimum(v[0], v[1]);
}

void TH_KERNEL(minimum)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, minimum);
}

/* dy where a is the one taken, half of it where a = b; with a NaN among them all of it, as in PyTorch. */
TH_INLINE vec maximum_backward(const vec *v)
{
    const vec dy = v[0], a = v[1], b = v[2];
    return vec_keep(~(a < b), vec_select(a == b, dy * (real)0.5, dy));
}

void TH_KERNEL(maximum_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 3, 0, NULL, maximum_backward);
}

TH_INLINE vec minimum_backward(const vec *v)
{
    const vec dy = v[0], a = v[1], b = v[2];
    return vec_keep(~(a > b), vec_select(a == b, dy * (real)0.5, dy));
}

void TH_KERNEL(minimum_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 3, 0, NULL, minimum_backward);
}

/* numbers: low, high */
TH_INLINE vec clamp(const vec *v)
{
    return vec_min(v[2], vec_max(v[1], v[0]));
}

void TH_KERNEL(clamp)(int64_t n, void *const *operands, const void *parameters)
{
    th_map(n, operands, 1, 2, parameters, clamp);
}

TH_INLINE vec clamp_backward(const vec *v)
{
    const vec dy = v[0], x = v[1], low = v[2], high = v[3];
    return vec_keep((x >= low) & (x <= high), dy);
}

void TH_KERNEL(clamp_backward)(int64_t n, void *const *operands, const void *parameters)
{
    th_map(n, operands, 2, 2, parameters, clamp_backward);
}

TH_INLINE vec absolute(const vec *v)
{
    return vec_abs(v[0]);
}

void TH_KERNEL(abs)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 1, 0, NULL, absolute);
}

/* dy sign(x), 0 at 0; NaN at NaN */
TH_INLINE vec absolute_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    const vec slope = vec_with_sign(vec_keep(x != (real)0, vec_broadcast(1)), x);
    return dy * vec_select(x == x, slope, x);
}

void TH_KERNEL(abs_backward)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    th_map(n, operands, 2, 0, NULL, absolute_backward);
}

/* The two that read a condition move elements only: plain loops, which compilers turn into vectors. */
void TH_KERNEL(where)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    real *y = operands[0];
    const bool *condition = operands[1];
    const real *a = operands[2], *b = operands[3];
    for (int64_t i = 0; i < n; i++)
        y[i] = condition[i] ? a[i] : b[i];
}

void TH_KERNEL(keep_unless)(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    real *y = operands[0];
    const real *x = operands[1];
    const bool *condition = operands[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = condition[i] ? 0 : x[i];
}
