/* head FOLDER MODEL DTYPE EXPORT: runs a model with a head that transformers saved. Reads tokens (B, T), lengths (B), possibly
 * types (B, T), and targets; writes logits, loss and the gradient of every parameter, and exports the model.
 * head FOLDER MODEL DTYPE EXPORT KIND NAME...: exports the model with a new head of this th_head_kind for these labels. */
#include "driver.h"

static void run(th_context *ctx, th_module *model, const char *folder, th_dtype dtype)
{
    th_tensor *tokens = driver_read(ctx, folder, "tokens"), *targets = driver_read(ctx, folder, "targets");
    const th_language_model_logits_options options = {.types = driver_read_optional(ctx, folder, "types"),
                                                      .lengths = driver_read(ctx, folder, "lengths")};
    const bool floating = th_dtype_of(targets) == TH_FLOAT32 || th_dtype_of(targets) == TH_FLOAT64;
    th_set_training(ctx, false);
    th_tensor *logits = th_language_model_logits(model, tokens, &options);
    driver_write(ctx, folder, "logits", logits);
    th_tensor *loss = th_head_loss(model, logits, floating ? th_cast(targets, dtype) : targets,
                                   &(th_cross_entropy_options){TH_IGNORE(-100)});
    driver_write(ctx, folder, "loss", loss);
    if (th_backward(loss, NULL))
        driver_check(ctx);
    driver_write_gradients(model, folder);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    const th_dtype dtype = strcmp(argv[3], "float64") == 0 ? TH_FLOAT64 : TH_FLOAT32;
    th_context *ctx = th_context_new(&(th_context_options){.default_dtype = dtype});
    const th_head_options head = {.kind = (th_head_kind)(argc > 5 ? atoi(argv[5]) : 0),
                                  .labels = argc - 6,
                                  .label_names = (const char *const *)&argv[6]};
    th_module *model = argc > 5 ? th_language_model_from_folder(ctx, argv[2], &(th_folder_load_options){.head = &head})
                                : th_language_model_from_pretrained(ctx, argv[2]);
    driver_check(ctx);
    if (argc == 5)
        run(ctx, model, argv[1], dtype);
    if (th_language_model_export(model, argv[4], NULL))
        driver_check(ctx);
    th_context_free(ctx);
}
