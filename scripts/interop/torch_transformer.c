/* torch_transformer FOLDER KIND SETTINGS (see torch_modules.h): runs a module with PyTorch's weights. Reads the
 * operands and cotangent. Writes output, attention's weights if the setting weights is 1, and every gradient of
 * sum(output * cotangent). */
#include "driver.h"
#include "torch_modules.h"

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *folder = argv[1], *kind = argv[2], *settings = argv[3];
    th_context *ctx = th_context_new(NULL);
    th_set_training(ctx, setting(settings, "training") != 0);
    th_set_fusion(ctx, setting(settings, "fusion") != 0);
    th_tensor *operand[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        operand[i] = driver_read_optional(ctx, folder, operand_name[i]);
        if (operand[i] && i < LEAVES)
            th_set_requires_gradient(operand[i], true);
    }
    th_tensor *cotangent = driver_read(ctx, folder, "cotangent");
    th_module *m = torch_module_new(ctx, kind, settings, operand);
    driver_check(ctx);
    driver_read_parameters(m, folder, th_dtype_of(cotangent));

    th_tensor *weights = NULL;
    th_tensor *output = torch_module_run(m, kind, operand, setting(settings, "weights") != 0 ? &weights : NULL);
    driver_write(ctx, folder, "output", output);
    if (weights)
        driver_write(ctx, folder, "weights", weights);
    if (th_backward(output, &(th_backward_options){.cotangent = cotangent}))
        driver_check(ctx);
    driver_write_gradients(m, folder);
    for (int i = 0; i < LEAVES; i++) {
        char name[64];
        snprintf(name, sizeof name, "gradient.%s", operand_name[i]);
        if (operand[i])
            driver_write(ctx, folder, name, th_gradient(operand[i]));
    }
    driver_check(ctx);
    th_context_free(ctx);
}
