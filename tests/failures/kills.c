/* kills: what scripts/defects/failures.sh kills needs besides the examples.
 *
 *     kills save FILE STEPS     saves a checkpoint of a small model after this number of steps.
 *     kills verify FILE...      exits with 1 and a message unless every file is complete. Its name shows its format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"
#include "tapehead/tapehead.h"

enum { WIDTH = 4 };

static int save(const char *path, int steps)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    th_module *model = th_dense_new(ctx, WIDTH, WIDTH, NULL);
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 0.1});
    for (int i = 0; i < steps && th_error_code(ctx) == TH_OK; i++) {
        th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, WIDTH));
        if (th_backward(th_sum(th_module_forward(model, x), TH_ALL_AXES, NULL), NULL) || th_optimizer_step(adam))
            break;
        th_tensor_free(x);
        th_tape_clear(ctx);
    }
    const bool saved = th_checkpoint_save(path, &(th_checkpoint){.model = model, .optimizer = adam}) == TH_OK;
    if (!saved)
        fprintf(stderr, "kills: %s\n", th_error_message(ctx));
    th_context_free(ctx);
    return saved ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Whether a text file ends as it should, for formats that the library only writes. */
static bool text_ends_with(const char *path, const char *end)
{
    char last[16] = "";
    FILE *file = fopen(path, "rb");
    const bool read =
        file && fseek(file, -(long)strlen(end), SEEK_END) == 0 && fread(last, 1, strlen(end), file) == strlen(end);
    if (file)
        fclose(file);
    return read && strcmp(last, end) == 0;
}

static bool is_whole(th_context *ctx, const char *path)
{
    if (ends_with(path, "model.safetensors"))
        return th_safetensors_open(ctx, path) != NULL;
    if (ends_with(path, ".safetensors"))
        return th_checkpoint_verify(ctx, path) == TH_OK;
    if (ends_with(path, ".tokens"))
        return th_token_file_open(ctx, path, NULL) != NULL;
    if (ends_with(path, ".jsonl"))
        return th_json_log_series(ctx, path, "loss/train") != NULL;
    if (ends_with(path, "tokenizer.json"))
        return th_tokenizer_load(ctx, path) != NULL;
    if (ends_with(path, ".svg"))
        return text_ends_with(path, "</svg>\n");
    return true;
}

static int verify(int count, char **paths)
{
    bool good = true;
    for (int i = 0; i < count; i++) {
        th_context *ctx = th_context_new(&(th_context_options){.threads = 1});
        if (!is_whole(ctx, paths[i])) {
            fprintf(stderr, "kills: %s is not complete: %s\n", paths[i], th_error_message(ctx));
            good = false;
        }
        th_context_free(ctx);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "save") == 0)
        return save(argv[2], atoi(argv[3]));
    if (argc > 2 && strcmp(argv[1], "verify") == 0)
        return verify(argc - 2, argv + 2);
    fputs("usage: kills save FILE STEPS, or kills verify FILE...\n", stderr);
    return 2;
}
