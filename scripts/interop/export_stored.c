/* export_stored FOLDER MODEL STORED TYPE EXPORT FAMILY BYTES: loads a model that transformers saved. Its weights are stored as
 * STORED (float32, or a storage type). Reads tokens (B, T) and writes logits. Exports the model to EXPORT as FAMILY. Its
 * weights there have TYPE, in files of at most BYTES (0: one file). */
#include "driver.h"

static th_dtype type_of(const char *name)
{
    for (int i = 0; i < TH_DTYPE_COUNT; i++)
        if (strcmp(name, th_dtype_name((th_dtype)i)) == 0)
            return (th_dtype)i;
    fprintf(stderr, "there is no type %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return 2;
    th_context *ctx = th_context_new(NULL);
    const th_folder_load_options loading = {.frozen = true, .type = type_of(argv[3])};
    th_module *model = th_language_model_from_folder(ctx, argv[2], &loading);
    driver_check(ctx);
    driver_write(ctx, argv[1], "logits", th_module_evaluate(model, driver_read(ctx, argv[1], "tokens")));
    const th_export_options exporting = {TH_END_TOKEN(0), .family = argv[6], .type = type_of(argv[4]),
                                         .shard_bytes = strtoll(argv[7], NULL, 10)};
    if (th_language_model_export(model, argv[5], &exporting))
        driver_check(ctx);
    th_context_free(ctx);
}
