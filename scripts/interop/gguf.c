/* gguf FOLDER export MODEL FILE TYPE ARCHITECTURE: writes a model that transformers saved as a GGUF file, with its tokenizer
 * if it has one. TYPE is the type of matrices: float32, float16, bfloat16, q8_0 or q4_0.
 * gguf FOLDER read FILE [stored]: reads tokens (B, T) and prompt (1, T), runs the model in a GGUF file, and writes logits
 * (B, T, V) and greedy (1, 24), the tokens that the model generates. If FOLDER has bytes, a text, also writes ids, its
 * tokens.
 * gguf FOLDER ids FILE: reads bytes, texts one after another, and lengths, their bytes. Writes ids, and counts, the tokens
 * of each text; -1: it has a byte without a token. It needs no model. */
#include "driver.h"

static th_dtype type_of(const char *name)
{
    static const th_dtype types[] = {TH_FLOAT32, TH_FLOAT16, TH_BFLOAT16, TH_Q8_0, TH_Q4_0};
    for (int i = 0; i < 5; i++)
        if (strcmp(th_dtype_name(types[i]), name) == 0)
            return types[i];
    exit(2);
}

static bool has_tokenizer(const char *folder)
{
    char path[MAX_DRIVER_PATH];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

static void export_model(th_context *ctx, char **argv)
{
    th_module *model = th_language_model_from_pretrained(ctx, argv[0]);
    th_gguf_export_options options = {.type = type_of(argv[2]), .architecture = argv[3], .name = "random"};
    driver_check(ctx);
    if (has_tokenizer(argv[0]))
        options.tokenizer = th_tokenizer_load(ctx, argv[0]);
    driver_check(ctx);
    if (th_language_model_export_gguf(model, argv[1], &options))
        driver_check(ctx);
}

/* Writes the tokens of the texts. lengths: their bytes; NULL: there is one text. */
static void write_ids(th_context *ctx, const char *folder, const char *path, th_tensor *bytes, th_tensor *lengths)
{
    th_tokenizer *tokenizer = th_tokenizer_from_gguf(ctx, path);
    th_token_list list = {0};
    driver_check(ctx);
    const int64_t size = th_numel(bytes), texts = lengths ? th_numel(lengths) : 1;
    char *text = malloc((size_t)size + 1);
    int32_t *counts = malloc((size_t)texts * sizeof *counts);
    if (text == NULL || counts == NULL)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < size; i++)
        text[i] = (char)(int)th_get(bytes, TH_INDEX(i));
    size_t at = 0;
    for (int64_t i = 0; i < texts; i++) {
        const size_t length = (size_t)(lengths ? th_get(lengths, TH_INDEX(i)) : (double)size), before = list.count;
        const th_status status = th_tokenizer_encode(tokenizer, text + at, length, &list);
        counts[i] = status == TH_OK ? (int32_t)(list.count - before) : -1;
        if (status == TH_ERROR_VALUE && lengths)
            th_error_clear(ctx);
        driver_check(ctx);
        at += length;
    }
    driver_write(ctx, folder, "ids", th_from_data(ctx, TH_INT32, TH_SHAPE((int64_t)list.count), list.token));
    driver_write(ctx, folder, "counts", th_from_data(ctx, TH_INT32, TH_SHAPE(texts), counts));
    th_token_list_free(&list);
    free(text);
    free(counts);
}

static void run_model(th_context *ctx, const char *folder, const char *path, bool stored)
{
    th_module *model = th_language_model_from_gguf(ctx, path, &(th_gguf_load_options){.stored = stored});
    driver_check(ctx);
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    driver_write(ctx, folder, "logits", th_module_forward(model, driver_read(ctx, folder, "tokens")));
    th_generated result = {0};
    if (th_generate(model, &(th_generate_options){.prompts = driver_read(ctx, folder, "prompt"), .max_new_tokens = 24},
                    &result))
        driver_check(ctx);
    driver_write(ctx, folder, "greedy", result.tokens);
    th_no_grad_end(ctx);
    th_tensor *bytes = driver_read_optional(ctx, folder, "bytes");
    if (bytes)
        write_ids(ctx, folder, path, bytes, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    th_context *ctx = th_context_new(NULL);
    if (strcmp(argv[2], "export") == 0 && argc == 7)
        export_model(ctx, argv + 3);
    else if (strcmp(argv[2], "read") == 0)
        run_model(ctx, argv[1], argv[3], argc == 5);
    else if (strcmp(argv[2], "ids") == 0)
        write_ids(ctx, argv[1], argv[3], driver_read(ctx, argv[1], "bytes"), driver_read(ctx, argv[1], "lengths"));
    else
        return 2;
    th_context_free(ctx);
}
