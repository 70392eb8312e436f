/* Computes a gradient: d(x^2)/dx = 6 at x = 3. */
#include <stdio.h>

#include <tapehead/core.h>

int main(void)
{
    th_context *ctx = th_context_new(NULL);
    th_tensor *x = th_from_data(ctx, TH_FLOAT32, TH_SCALAR, (float[]){3});
    th_set_requires_gradient(x, true);
    th_backward(th_mul(x, x), NULL);
    const double gradient = th_item(th_gradient(x));
    printf("tapehead %s: %g\n", th_version(), gradient);
    th_context_free(ctx);
    return gradient != 6;
}
