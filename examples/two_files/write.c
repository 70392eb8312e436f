/* A program with both libraries in Tapehead's two files (scripts/amalgamate.sh --models). It continues a text with the model in a
 * GGUF file. Without arguments a small language model first learns a sentence, and becomes the file sentence.gguf.
 *
 *     cc -O2 write.c tapehead.c -ljansson -lutf8proc -lm -lpthread -o write
 *     ./write
 *     ./write MODEL.gguf "Once upon a time" */
#include "tapehead.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 100, NEW_TOKENS = 24 };
static const char sentence[] = "a tensor remembers its past, and a tape remembers its tensors.";

/* Learns the sentence, and writes the model and its tokenizer to the file. Errors stay in the context. */
static void learn(th_context *ctx, const char *path)
{
    th_tokenizer *tokenizer = th_tokenizer_train(ctx, sentence, strlen(sentence), &(th_bpe_options){.vocabulary = 270});
    th_token_list list = {0};
    if (!tokenizer || th_tokenizer_encode(tokenizer, sentence, strlen(sentence), &list))
        return;
    const int64_t length = (int64_t)list.count - 1;
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 270, .length = 64, .width = 32, .heads = 2, .layers = 1});
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-2});
    double last = 0;
    for (int step = 0; step < STEPS && !th_error_code(ctx); step++) {
        th_step_begin(ctx);
        th_tensor *tokens = th_from_data(ctx, TH_INT32, TH_SHAPE(1, length), list.token);
        th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(1, length), list.token + 1); /* the next tokens */
        th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
        if (th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK)
            last = th_item(loss);
        th_tape_clear(ctx);
    }
    th_token_list_free(&list);
    if (th_language_model_export_gguf(model, path, &(th_gguf_export_options){.tokenizer = tokenizer}) == TH_OK)
        printf("loss=%.6f parameters_crc32c=%08x\nwrote: %s\n", last, (unsigned)th_module_crc32c(model), path);
}

static th_tokenizer *tokenizer;

/* Prints a token as soon as it is generated. */
static bool print_token(void *user, int64_t sequence, int64_t token)
{
    size_t bytes = 0;
    const char *text = th_tokenizer_bytes(tokenizer, token, &bytes);
    (void)user;
    (void)sequence;
    return text && fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
}

/* Continues the prompt with the model in the file. */
static void write_text(th_context *ctx, const char *path, const char *prompt)
{
    th_module *model = th_language_model_from_gguf(ctx, path, &(th_gguf_load_options){.stored = true});
    tokenizer = th_tokenizer_from_gguf(ctx, path);
    th_token_list list = {0};
    if (!model || !tokenizer || th_tokenizer_encode_document(tokenizer, prompt, strlen(prompt), &list))
        return;
    th_step_begin(ctx);
    printf("%s", prompt);
    th_tensor *tokens = th_from_data(ctx, TH_INT32, TH_SHAPE(1, (int64_t)list.count), list.token);
    th_generated text;
    if (th_generate(model, &(th_generate_options){.prompts = tokens, .max_new_tokens = NEW_TOKENS, .emit = print_token},
                    &text) == TH_OK)
        putchar('\n');
    th_tape_clear(ctx);
    th_token_list_free(&list);
}

int main(int argc, char **argv)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    const char *path = argc > 1 ? argv[1] : "sentence.gguf";
    if (argc < 2)
        learn(ctx, path);
    write_text(ctx, path, argc > 2 ? argv[2] : "a tensor");
    const bool failed = th_error_code(ctx) != TH_OK;
    if (failed)
        fprintf(stderr, "%s\n", th_error_message(ctx));
    th_context_free(ctx);
    return failed;
}
