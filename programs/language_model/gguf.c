/* GGUF files, which llama.cpp reads too: the option --gguf of the subcommand export writes one, and export reads
 * one. */

#include "shared/system.h"
#include "tuning.h"

void open_gguf(trainer *t, const char *path, th_text *jinja, int64_t *begin)
{
    *t = (trainer){.ctx = th_context_new(NULL)};
    t->model =
        th_language_model_from_gguf(t->ctx, path, &(th_gguf_load_options){.stored = true, .no_mapping = no_mapping});
    require_no_error(t);
    t->tokenizer = th_tokenizer_from_gguf(t->ctx, path);
    require_no_error(t);
    require_ok(t, th_gguf_begin_token(t->ctx, path, begin));
    require_ok(t, th_gguf_end_token(t->ctx, path, &chosen.end_token));
    require_ok(t, th_gguf_chat_template(t->ctx, path, jinja));
}

/* Writes the adapters of a run of tune, without their model. */
static void write_adapters(const trainer *t, const char *path)
{
    if (t->run == NULL || chosen.lora == 0)
        refuse(PROGRAM, "--adapter needs a run of tune with adapters, not ", t->run ? t->run : "a model");
    require_ok(t, th_lora_export_gguf(t->model, path, NULL));
}

/* Writes model, tokenizer and chat template. `source` is the run, the folder or the file that they come from. */
static void write_model(trainer *t, const char *source, const char *path, th_dtype dtype)
{
    if (t->run && chosen.lora > 0)
        merge_adapters(t);
    th_text jinja = {0};
    require_ok(t, th_chat_template_text(t->ctx, chat_template_folder(t), &jinja));
    const int64_t begin = find_begin_token(t, chat_template_folder(t));
    const th_gguf_export_options export_options = {.type = dtype,
                                                   .tokenizer = t->tokenizer,
                                                   .chat_template = jinja.bytes,
                                                   .end_token = chosen.end_token,
                                                   .has_end_token = chosen.end_token >= 0,
                                                   .begin_token = begin,
                                                   .has_begin_token = begin >= 0,
                                                   .source = is_gguf(source) ? source : NULL};
    require_ok(t, th_language_model_export_gguf(t->model, path, &export_options));
    th_text_free(&jinja);
}

static int export_file(int argc, char **argv)
{
    const char *path = NULL, *type = "float32", *run = NULL;
    bool use_newest = false, force = false, adapter = false;
    const program_option options[] = {
        {"gguf", "the file to write", .text = &path},
        {"type", "of matrices: float32, float16, bfloat16, q8_0 or q4_0 (default: float32)", .text = &type},
        {"adapter", "only the adapters of tune, in F32, for llama.cpp's --lora", .flag = &adapter},
        {"last", "the newest checkpoint, instead of the best", .flag = &use_newest},
        {"force", "replace a file that is there, when the new one is complete", .flag = &force},
        NO_MAPPING_OPTION,
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "language_model export RUN --gguf FILE [OPTION...]\n"
                                "Writes model, tokenizer and chat template as a GGUF file, which llama.cpp\n"
                                "reads. RUN is the folder of a run, or of a model of transformers.",
                                options, &run, 1) < 1)
        refuse(PROGRAM, "export needs the folder of a run or a model", "");
    if (path == NULL || path[0] == 0)
        refuse(PROGRAM, "--gguf needs a file", "");
    if (!force && access(path, F_OK) == 0)
        refuse(PROGRAM, "there is a file already (--force replaces it): ", path);
    const th_dtype dtype = parse_export_type(type, true);
    trainer t;
    open_model(&t, run, &(model_use){.use_newest = use_newest}, false);
    protect_sources(run, path);
    if (adapter)
        write_adapters(&t, path);
    else
        write_model(&t, run, path, dtype);
    print_written(path);
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}

int export(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--gguf") == 0 || strncmp(argv[i], "--gguf=", 7) == 0)
            return export_file(argc, argv);
    return export_folder(argc, argv);
}
