/* safetensors_weights FOLDER: loads given.safetensors into a model with a float32 part and a float64 part, and saves
 * the weights to returned.safetensors. */
#include <stdio.h>
#include <tapehead/models.h>

int main(int argc, char **argv)
{
    char given[4096], returned[4096];
    snprintf(given, sizeof given, "%s/given.safetensors", argc > 1 ? argv[1] : ".");
    snprintf(returned, sizeof returned, "%s/returned.safetensors", argc > 1 ? argv[1] : ".");
    th_context *ctx = th_context_new(NULL);
    th_module *model = th_module_new(ctx, sizeof(th_module), "pair", NULL);
    th_module_add(model, "single", th_dense_new(ctx, 5, 7, NULL));
    th_module *wide = th_module_add(model, "double", th_dense_new(ctx, 5, 7, NULL));
    const bool failed =
        th_module_cast(wide, TH_FLOAT64) || th_weights_load(model, given, NULL) || th_weights_save(model, returned);
    if (failed)
        fprintf(stderr, "%s\n", th_error_message(ctx));
    th_context_free(ctx);
    return failed;
}
