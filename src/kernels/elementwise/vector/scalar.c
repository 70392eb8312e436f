/* Elementary functions of single numbers (scalar.h): those of registers, compiled once without fused
 * multiply-add. */
#include "kernels/elementwise/scalar.h"

#include "kernels/vector/elementary_f64.h"

double th_scalar_sin(double x)
{
    return vec_sin(vec_broadcast(x))[0];
}

double th_scalar_cos(double x)
{
    return vec_cos(vec_broadcast(x))[0];
}

double th_scalar_log(double x)
{
    return vec_log(vec_broadcast(x))[0];
}

double th_scalar_pow(double x, double y)
{
    return vec_pow(vec_broadcast(x), vec_broadcast(y))[0];
}
