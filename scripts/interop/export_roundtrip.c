/* export_roundtrip FOLDER MODEL EXPORT: creates a language model, exports it to EXPORT, reads tokens (B, T) and writes
 * logits. MODEL is gpt2, llama, or neighbors: a Llama whose rotary positions rotate neighboring elements, unlike
 * transformers' Llama. */
#include "driver.h"

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *folder = argv[1];
    const bool neighbors = strcmp(argv[2], "neighbors") == 0, gpt2 = strcmp(argv[2], "gpt2") == 0;
    th_language_model_options options = {
        .vocabulary = 37, .length = 20, .width = 24, .heads = 4, .layers = 2, .dropout = 0.2};
    if (!gpt2) {
        options.positions = TH_POSITIONS_NONE;
        options.untied = !neighbors;
        options.block = (th_transformer_block_options){
            .norm = TH_RMS_NORM,
            .gated = true,
            .activation = TH_SILU,
            .no_bias = !neighbors,
            .kv_heads = neighbors ? 4 : 2,
            .scores = {.rotary = true, .rotary_pairing = neighbors ? TH_ROTARY_NEIGHBORS : TH_ROTARY_HALVES}};
    }
    th_context *ctx = th_context_new(&(th_context_options){.seed = 5});
    th_module *model = th_language_model_new(ctx, &options);
    driver_check(ctx);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_fill_normal(p.tensor, 0.3, 0.3))
            driver_check(ctx);
    driver_write(ctx, folder, "logits", th_module_evaluate(model, driver_read(ctx, folder, "tokens")));
    if (th_language_model_export(model, argv[3], &(th_export_options){TH_END_TOKEN(36)}))
        driver_check(ctx);
    th_context_free(ctx);
}
