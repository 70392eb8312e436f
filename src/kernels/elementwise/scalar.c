/* Elementary functions of single numbers (scalar.h): kernels on arrays of one element. */
#include "kernels/elementwise/scalar.h"

#include <stddef.h>

#include "kernels/kernels.h"

extern const th_kernels th_kernels_f64_baseline;

double th_scalar_sin(double x)
{
    double y;
    th_kernels_f64_baseline.sin(1, (void *const[]){&y, &x}, NULL);
    return y;
}

double th_scalar_cos(double x)
{
    double y;
    th_kernels_f64_baseline.cos(1, (void *const[]){&y, &x}, NULL);
    return y;
}

double th_scalar_pow(double x, double y)
{
    double power;
    th_kernels_f64_baseline.pow(1, (void *const[]){&power, &x, &y}, NULL);
    return power;
}
