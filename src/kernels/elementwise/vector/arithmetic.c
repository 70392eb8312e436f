/* Elementwise arithmetic and its gradients. Gradient kernels read dy, then the saved inputs, then y. Some operations
 * use another operation's kernel for a gradient: mul uses mul, sub uses neg for b, div uses div for a. */
#include "kernels/elementwise/vector/elementwise.h"

ELEMENTWISE_KERNEL(add, 2, 0)
{
    return v[0] + v[1];
}

ELEMENTWISE_KERNEL(sub, 2, 0)
{
    return v[0] - v[1];
}

ELEMENTWISE_KERNEL(mul, 2, 0)
{
    return v[0] * v[1];
}

ELEMENTWISE_KERNEL(div, 2, 0)
{
    return v[0] / v[1];
}

/* db: d(a/b)/db = -a/b² = -y/b */
ELEMENTWISE_KERNEL(div_backward, 3, 0)
{
    const vec dy = v[0], b = v[1], y = v[2];
    return -dy * (y / b);
}

ELEMENTWISE_KERNEL(neg, 1, 0)
{
    return -v[0];
}

/* y = x * number */
ELEMENTWISE_KERNEL(scale, 1, 1)
{
    return v[0] * v[1];
}

/* y = x + number */
ELEMENTWISE_KERNEL(add_scalar, 1, 1)
{
    return v[0] + v[1];
}

/* y = a + (b - a) number */
ELEMENTWISE_KERNEL(lerp, 2, 1)
{
    return v[0] + (v[1] - v[0]) * v[2];
}

/* NaN if either is NaN, also in minimum. */
ELEMENTWISE_KERNEL(maximum, 2, 0)
{
    return vec_maximum(v[0], v[1]);
}

ELEMENTWISE_KERNEL(minimum, 2, 0)
{
    return vec_minimum(v[0], v[1]);
}

/* da of maximum, and db of minimum: dy where a > b, dy / 2 where a = b, else 0. If a or b is NaN: dy, as in PyTorch. */
ELEMENTWISE_KERNEL(maximum_backward, 3, 0)
{
    const vec dy = v[0], a = v[1], b = v[2];
    return vec_keep(~(a < b), vec_select(a == b, dy * (real)0.5, dy));
}

/* da of minimum, and db of maximum: dy where a < b, dy / 2 where a = b, else 0. */
ELEMENTWISE_KERNEL(minimum_backward, 3, 0)
{
    const vec dy = v[0], a = v[1], b = v[2];
    return vec_keep(~(a > b), vec_select(a == b, dy * (real)0.5, dy));
}

ELEMENTWISE_KERNEL(clamp, 1, 2)
{
    const vec x = v[0], low = v[1], high = v[2];
    return vec_min(high, vec_max(low, x));
}

ELEMENTWISE_KERNEL(clamp_backward, 2, 2)
{
    const vec dy = v[0], x = v[1], low = v[2], high = v[3];
    return vec_keep((x >= low) & (x <= high), dy);
}

ELEMENTWISE_KERNEL(abs, 1, 0)
{
    return vec_abs(v[0]);
}

/* dy sign(x): 0 at 0, NaN at NaN */
ELEMENTWISE_KERNEL(abs_backward, 2, 0)
{
    const vec dy = v[0], x = v[1];
    const vec slope = vec_with_sign(vec_keep(x != (real)0, vec_broadcast(1)), x);
    return dy * vec_select(x == x, slope, x);
}

/* y = condition ? a : b. A plain loop, which compilers vectorize. */
ELEMENTWISE_LOOP(where, 3, 0)
{
    (void)parameters;
    real *y = operands[0];
    const bool *condition = operands[1];
    const real *a = operands[2], *b = operands[3];
    for (int64_t i = 0; i < n; i++)
        y[i] = condition[i] ? a[i] : b[i];
}

/* y = condition ? 0 : x; keep_if (masking.c) is the opposite. */
ELEMENTWISE_LOOP(keep_unless, 2, 0)
{
    (void)parameters;
    real *y = operands[0];
    const real *x = operands[1];
    const bool *condition = operands[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = condition[i] ? 0 : x[i];
}
