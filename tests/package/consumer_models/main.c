/* A program that uses the models library, in C and (main.cpp) in C++: a tokenizer encodes and decodes a text, and a
 * language model's weights go through a file. The one argument is the file. */
#include <stdio.h>
#include <string.h>
#include <tapehead/tapehead.h>

static th_context_options context_options;
static th_language_model_options model_options;
static th_token_list tokens;
static th_text decoded;

int main(int argc, char **argv)
{
    static const char text[] = "to be or not to be";
    if (argc != 2)
        return 2;
    context_options.seed = 7;
    th_context *ctx = th_context_new(&context_options);

    th_tokenizer *tokenizer = th_tokenizer_bytes_new(ctx);
    if (th_tokenizer_encode(tokenizer, text, strlen(text), &tokens) ||
        th_tokenizer_decode(tokenizer, tokens.token, tokens.count, &decoded))
        fprintf(stderr, "%s\n", th_error_message(ctx));
    const bool same_text = decoded.bytes != NULL && strcmp(decoded.bytes, text) == 0;

    model_options.vocabulary = th_tokenizer_size(tokenizer);
    model_options.length = 32;
    model_options.width = 16;
    model_options.heads = 2;
    model_options.layers = 1;
    th_module *saved = th_language_model_new(ctx, &model_options);
    th_module *loaded = th_language_model_new(ctx, &model_options);
    th_tensor *token = th_from_data(ctx, TH_INT32, TH_SHAPE(1, 4), tokens.token);
    const bool same_weights =
        !th_weights_save(saved, argv[1]) && !th_weights_load(loaded, argv[1], NULL) &&
        th_item(th_max(th_abs(th_sub(th_module_forward(saved, token), th_module_forward(loaded, token))), TH_ALL_AXES,
                       NULL)) == 0;

    printf("tapehead %s: %d tokens, the same text: %d, the same weights: %d %s\n", th_version(), (int)tokens.count,
           same_text, same_weights, th_error_message(ctx));
    th_token_list_free(&tokens);
    th_text_free(&decoded);
    th_tokenizer_free(tokenizer);
    th_context_free(ctx);
    return same_text && same_weights ? 0 : 1;
}
