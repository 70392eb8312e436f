/* Elementwise powers, exponentials, logarithms, roots and trigonometric functions, and their gradients. */
#include "kernels/elementwise/vector/elementwise.h"

ELEMENTWISE_KERNEL(exp, 1, 0)
{
    return vec_exp(v[0]);
}

ELEMENTWISE_KERNEL(log, 1, 0)
{
    return vec_log(v[0]);
}

ELEMENTWISE_KERNEL(sqrt, 1, 0)
{
    return vec_sqrt(v[0]);
}

/* dy / (2 y): infinite at 0 */
ELEMENTWISE_KERNEL(sqrt_backward, 2, 0)
{
    const vec dy = v[0], y = v[1];
    return dy / (y + y);
}

ELEMENTWISE_KERNEL(rsqrt, 1, 0)
{
    return vec_rsqrt(v[0]);
}

/* -dy y³ / 2 */
ELEMENTWISE_KERNEL(rsqrt_backward, 2, 0)
{
    const vec dy = v[0], y = v[1];
    return dy * (real)-0.5 * (y * y * y);
}

ELEMENTWISE_KERNEL(sin, 1, 0)
{
    return vec_sin(v[0]);
}

ELEMENTWISE_KERNEL(sin_backward, 2, 0)
{
    const vec dy = v[0], x = v[1];
    return dy * vec_cos(x);
}

ELEMENTWISE_KERNEL(cos, 1, 0)
{
    return vec_cos(v[0]);
}

ELEMENTWISE_KERNEL(cos_backward, 2, 0)
{
    const vec dy = v[0], x = v[1];
    return -dy * vec_sin(x);
}

ELEMENTWISE_KERNEL(pow, 2, 0)
{
    return vec_pow(v[0], v[1]);
}

/* da = dy b a^(b - 1), 0 where b = 0 */
ELEMENTWISE_KERNEL(pow_backward_base, 3, 0)
{
    const vec dy = v[0], a = v[1], b = v[2];
    return vec_keep(b != (real)0, dy * (b * vec_pow(a, b - (real)1)));
}

/* db = dy y ln a, 0 where a = 0 and b >= 0 */
ELEMENTWISE_KERNEL(pow_backward_exponent, 4, 0)
{
    const vec dy = v[0], a = v[1], b = v[2], y = v[3];
    return vec_keep(~((a == (real)0) & (b >= (real)0)), dy * (y * vec_log(a)));
}

TH_INLINE vec square(const vec *v)
{
    return v[0] * v[0];
}

TH_INLINE vec square_backward(const vec *v)
{
    const vec dy = v[0], x = v[1];
    return dy * (x + x);
}

/* y = x^number */
ELEMENTWISE_LOOP(pow_scalar, 1, 1)
{
    if (*(const double *)parameters == 2)
        run_elementwise(n, operands, 1, 0, NULL, square);
    else
        run_elementwise(n, operands, 1, 1, parameters, register_pow);
}

ELEMENTWISE_LOOP(pow_scalar_backward, 2, 1)
{
    if (*(const double *)parameters == 2)
        run_elementwise(n, operands, 2, 0, NULL, square_backward);
    else
        run_elementwise(n, operands, 2, 1, parameters, register_pow_backward_base);
}
