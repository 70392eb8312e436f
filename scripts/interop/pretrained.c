/* pretrained FOLDER MODEL DTYPE [EXPORT [FAMILY]]: runs a model that transformers saved. Reads tokens and targets (B, T); writes
 * logits (B, T, V), loss and the gradient of every parameter. Without a classifier, logits are the hidden states, and
 * loss is their cross entropy. With EXPORT, also exports the model to that folder, as FAMILY if it is given.
 * pretrained FOLDER MODEL options: reads config.json only. */
#include "driver.h"

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 6)
        return 2;
    const char *folder = argv[1];
    const bool only_options = strcmp(argv[3], "options") == 0;
    const bool wide = strcmp(argv[3], "float64") == 0;
    th_context *ctx = th_context_new(&(th_context_options){.default_dtype = wide ? TH_FLOAT64 : TH_FLOAT32});
    th_language_model_options read;
    if (only_options && th_pretrained_options(ctx, argv[2], &read))
        driver_check(ctx);
    if (only_options)
        return 0;
    th_module *model = th_language_model_from_pretrained(ctx, argv[2]);
    driver_check(ctx);
    th_set_training(ctx, false);
    th_tensor *tokens = driver_read(ctx, folder, "tokens"), *targets = driver_read(ctx, folder, "targets");
    driver_write(ctx, folder, "logits", th_module_forward(model, tokens));
    th_tape_clear(ctx);
    th_tensor *loss = th_language_model_options_of(model)->no_classifier
                          ? th_cross_entropy(th_module_forward(model, tokens), targets, NULL)
                          : th_language_model_loss(model, tokens, targets, NULL);
    driver_write(ctx, folder, "loss", loss);
    if (th_backward(loss, NULL))
        driver_check(ctx);
    driver_write_gradients(model, folder);
    const th_export_options options = {TH_END_TOKEN(0), .family = argc == 6 ? argv[5] : NULL};
    if (argc >= 5 && th_language_model_export(model, argv[4], &options))
        driver_check(ctx);
    th_context_free(ctx);
}
