/* A user's program: one dense layer learns y = 3 x - 1. Prints the result; fails if it is far off. */
#include <math.h>
#include <stdio.h>
#include <tapehead/tapehead.h>

enum { POINTS = 32, STEPS = 400 };

int main(void)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    th_module *line = th_dense_new(ctx, 1, 1, NULL);
    th_optimizer *adam = th_adam_new(line, &(th_adam_options){.learning_rate = 0.05});
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(POINTS, 1), -1, 1); /* (POINTS, 1) */
    th_tensor *y = th_keep(th_add_scalar(th_scale(x, 3), -1));
    for (int step = 0; step < STEPS; step++) {
        th_tensor *loss = th_mse(th_module_forward(line, x), y);
        if (th_backward(loss, NULL) || th_optimizer_step(adam))
            break;
        th_tape_clear(ctx);
    }
    const double weight = th_item(th_module_find_parameter(line, "weight"));
    const double bias = th_item(th_module_find_parameter(line, "bias"));
    const bool learnt = th_error_code(ctx) == TH_OK && fabs(weight - 3) < 0.05 && fabs(bias + 1) < 0.05;
    printf("%s: y = %.3f x %+.3f %s\n", th_build_info(ctx), weight, bias, th_error_message(ctx));
    th_context_free(ctx);
    return learnt ? 0 : 1;
}
