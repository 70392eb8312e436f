/* The subcommand export: a folder for transformers or sentence-transformers, or a GGUF file for llama.cpp. */
#include "encoder.h"
#include "shared/system.h"

static void write_gguf(const encoder *e, const char *path, th_dtype type)
{
    const th_gguf_export_options options = {
        .type = type, .tokenizer = e->tokenizer, .sentence = e->task == TASK_EMBED ? &e->sentences : NULL};
    require_ok(e->ctx, th_language_model_export_gguf(e->model, path, &options));
    print_written(path);
}

static void write_folder(encoder *e, const char *folder, th_dtype type)
{
    save_encoder(e, folder, type);
    print_written(path_in(folder, "config.json"));
    print_written(path_in(folder, "model.safetensors"));
}

int export(int argc, char **argv)
{
    const char *words[2] = {NULL}, *type = "float32", *gguf = NULL;
    bool force = false;
    const program_option options[] = {
        {"gguf", "write this file for llama.cpp, instead of a folder", .text = &gguf},
        {"type", "of weights: float32, float16 or bfloat16; with --gguf also q8_0 or q4_0", .text = &type},
        {"force", "replace a model that is there", .flag = &force},
        {0}};
    const int count = parse_options_and_words(
        argc, argv, PROGRAM,
        "encoder export RUN FOLDER\n"
        "encoder export RUN --gguf FILE\n"
        "Writes the best model of a run for transformers, or for sentence-transformers if it has no\n"
        "head. With --gguf, writes one file with the model, its tokenizer and its pooling.",
        options, words, 2);
    if (count != (gguf ? 1 : 2))
        refuse(PROGRAM, "export needs a run, and a folder to write or --gguf FILE", "");
    const th_dtype wanted = parse_export_type(type, gguf != NULL);
    if (!force && access(gguf ? gguf : path_in(words[1], "config.json"), F_OK) == 0)
        refuse(PROGRAM, "there is a model already (--force replaces it): ", gguf ? gguf : words[1]);
    encoder e = open_for_use(words[0], &(model_use)DEFAULT_USE);
    if (gguf)
        write_gguf(&e, gguf, wanted);
    else
        write_folder(&e, words[1], wanted);
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}
