/* small_step STEPS [float64|bfloat16x3|bfloat16|muon] THREADS: trains a small language model for this many steps and
 * prints the result. With muon the optimizer is Muon, otherwise AdamW. instructions.sh counts its instructions; same_bits.sh and checksums.sh compare the result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/precision.h"

enum { VOCABULARY = 64, BATCH = 4, LENGTH = 16 };

int main(int argc, char **argv)
{
    const char *type = argc == 4 ? argv[2] : "float32";
    const bool float64 = strcmp(type, "float64") == 0, muon = strcmp(type, "muon") == 0;
    const int steps = argc > 1 ? atoi(argv[1]) : 0, threads = argc == 3 || argc == 4 ? atoi(argv[argc - 1]) : 0;
    th_precision precision = TH_PRECISION_FLOAT32;
    if (steps < 1 || threads < 1 || (!float64 && !muon && !find_precision(type, &precision))) {
        fprintf(stderr, "usage: small_step STEPS [float64|bfloat16x3|bfloat16|muon] THREADS\n");
        return 2;
    }
    th_context *ctx = th_context_new(&(th_context_options){
        .seed = 1, .threads = threads, .default_dtype = float64 ? TH_FLOAT64 : TH_FLOAT32, .precision = precision});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){VOCABULARY, LENGTH, .width = 32, .heads = 2, .layers = 2, .dropout = 0.1});
    th_optimizer *optimizer =
        muon ? th_muon_new(model, &(th_muon_options){.learning_rate = 0.02, .adam_learning_rate = 1e-3, .max_norm = 1})
             : th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-3, .weight_decay = 0.1, .max_norm = 1});
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, VOCABULARY);
    th_tensor *targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, VOCABULARY);
    double last = 0;
    for (int i = 0; i < steps && th_error_code(ctx) == TH_OK; i++) {
        th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
        last = th_item(loss);
        if (th_backward(loss, NULL) || th_optimizer_step(optimizer))
            break;
        th_tape_clear(ctx);
    }
    const bool failed = th_error_code(ctx) != TH_OK;
    if (failed)
        fprintf(stderr, "small_step: %s\n", th_error_message(ctx));
    else
        printf("loss=%.6f parameters_crc32c=%08x\n", last, (unsigned)th_module_crc32c(model));
    th_context_free(ctx);
    return failed;
}
