/* decode TOKENS PRECISION: generates this many tokens with a small model of random weights, one sequence, one thread.
 * decode_instructions.sh counts its instructions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

int main(int argc, char **argv)
{
    const int64_t tokens = argc == 3 ? atoi(argv[1]) : 0;
    const bool reduced = argc == 3 && strcmp(argv[2], "bfloat16") == 0;
    if (tokens < 1 || (!reduced && strcmp(argv[2], "float32") != 0)) {
        fprintf(stderr, "usage: decode TOKENS float32|bfloat16\n");
        return 2;
    }
    th_context *ctx = th_context_new(&(th_context_options){
        .seed = 1, .threads = 1, .precision = reduced ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 300, .length = 32, .width = 192, .heads = 3, .layers = 1});
    th_tensor *prompt = th_zeros(ctx, TH_INT32, TH_SHAPE(1, 2));
    const th_status status =
        th_generate(model, &(th_generate_options){.prompts = prompt, .max_new_tokens = tokens}, NULL);
    if (status)
        fprintf(stderr, "decode: %s\n", th_error_message(ctx));
    th_context_free(ctx);
    return status != TH_OK;
}
