/* The subcommand export: a folder for transformers, or a folder of adapters for PEFT. gguf.c: a file for llama.cpp. */
#include <ctype.h>
#include <string.h>

#include "checkpoints.h"
#include "shared/system.h"
#include "tuning.h"

/* Returns the bytes that a word like 5GB or 1.5MB says, with transformers' units. Ends the program for another word. */
static int64_t parse_size(const char *word)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    char *unit = NULL;
    const double number = isdigit((unsigned char)*word) ? strtod(word, &unit) : 0;
    for (size_t i = 0; unit && i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0 && number * units[i].bytes >= 1 && number * units[i].bytes < 0x1p62)
            return (int64_t)(number * units[i].bytes);
    refuse(PROGRAM, "--max-shard-size takes a number and a unit, such as 500MB or 5GB (KB, MB, GB, TB), not ", word);
    return 0;
}

/* Prints the path of the file of weights, or of the index of several files. Only one of these exists. */
static void print_weights(const char *folder)
{
    const char *index = path_in(folder, "model.safetensors.index.json");
    print_written(access(index, F_OK) == 0 ? index : path_in(folder, "model.safetensors"));
}

/* The library replaces an older model when all files are complete. */
static void export_model(trainer *t, const char *folder, const chat_files *files, th_export_options export_options)
{
    export_options.end_token = chosen.end_token;
    export_options.has_end_token = chosen.end_token >= 0;
    export_options.tokenizer = t->tokenizer;
    export_options.files = files->file;
    export_options.n_files = files->count;
    if (chosen.lora > 0)
        merge_adapters(t);
    require_ok(t, th_language_model_export(t->model, folder, &export_options));
    write_tool_template(t, folder, files);
    print_written(path_in(folder, "config.json"));
    print_weights(folder);
    print_written(path_in(folder, "tokenizer.json"));
    const bool has_template = access(path_in(folder, "chat_template.jinja"), F_OK) == 0;
    if (has_template)
        print_written(path_in(folder, "chat_template.jinja"));
    print_next(program_path, PROGRAM, (const char *const[]){has_template ? "chat" : "sample", as_word(folder), NULL});
}

static void export_adapter(trainer *t, const char *folder, const char *family)
{
    if (chosen.lora == 0)
        refuse(PROGRAM, "--adapter needs a run of tune with adapters; this run trained whole weights: ", t->run);
    require_ok(t, th_lora_save(t->model, folder, &(th_lora_save_options){.base_model = chosen.from, .family = family}));
    print_written(path_in(folder, "adapter_config.json"));
    print_written(path_in(folder, "adapter_model.safetensors"));
}

/* Ends the program if the folder has the name of a GGUF file: the user has forgotten --gguf. */
static void refuse_file_name(const char *folder)
{
    if (is_gguf_name(folder))
        refuse(PROGRAM, "a GGUF file needs the option --gguf: export RUN --gguf ", folder);
}

static void export_gguf(const char *path, const char *folder, th_export_options export_options)
{
    trainer t;
    th_text jinja = {0};
    chat_files files;
    export_options.has_begin_token = true;
    open_gguf(&t, path, &jinja, &export_options.begin_token);
    protect_sources(path, folder);
    make_gguf_chat_files(&t, &jinja, export_options.begin_token, &files);
    export_model(&t, folder, &files, export_options);
    free_chat_files(&files);
    th_context_free(t.ctx);
}

static void export_run(const char *run, const char *checkpoint, const char *folder, bool adapter,
                       th_export_options export_options)
{
    trainer t = {.run = run, .ctx = th_context_new(NULL)};
    chat_files files = {.count = 0};
    open_run(&t, run, checkpoint, true);
    protect_sources(run, folder);
    if (chosen.average > 0)
        fprintf(stderr, PROGRAM ": exports averaged weights (--average %g)\n", chosen.average);
    if (adapter) {
        export_adapter(&t, folder, export_options.family);
    } else {
        read_chat_files(&t, &files);
        export_options.begin_token = find_begin_token(&t, run);
        export_options.has_begin_token = export_options.begin_token >= 0;
        export_model(&t, folder, &files, export_options);
    }
    free_chat_files(&files);
    th_context_free(t.ctx);
}

int export_folder(int argc, char **argv)
{
    const char *family = NULL, *type = "float32", *shard_size = NULL, *words[2] = {NULL};
    bool use_newest = false, force = false, adapter = false;
    const program_option options[] = {
        {"adapter", "only the adapters of tune, for PEFT; the model stays in its folder", .flag = &adapter},
        {"family", "the model_type of transformers to write (default: one that has the model's options)",
         .text = &family},
        {"type", "of weights: float32, float16 or bfloat16", .text = &type},
        {"max-shard-size", "several files of weights of at most this size, such as 5GB (default: one file)",
         .text = &shard_size},
        {"last", "the newest checkpoint, instead of the best", .flag = &use_newest},
        {"force", "replace a model that is there, when the new one is complete", .flag = &force},
        NO_MAPPING_OPTION,
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "language_model export RUN FOLDER [OPTION...]\n"
                                "Writes model, tokenizer and chat template for Hugging Face transformers:\n"
                                "AutoModelForCausalLM.from_pretrained(FOLDER) reads them. RUN is the folder\n"
                                "of a run, or a GGUF file. export RUN --gguf FILE writes one file for llama.cpp.",
                                options, words, 2) < 2)
        refuse(PROGRAM, "export needs the folder of a run, or a GGUF file, and a folder to write; or --gguf FILE", "");
    const th_export_options export_options = {.family = family,
                                              .type = parse_export_type(type, false),
                                              .shard_bytes = shard_size ? parse_size(shard_size) : 0};
    refuse_file_name(words[1]);
    if (has_checkpoint(words[1]))
        refuse(PROGRAM, "this is the folder of a run; export needs another folder to write: ", words[1]);
    if (!force && access(path_in(words[1], adapter ? "adapter_config.json" : "config.json"), F_OK) == 0)
        refuse(PROGRAM, "there is a model already (--force replaces it): ", words[1]);
    if (is_model_folder(words[0]) && !is_gguf(words[0]))
        refuse(PROGRAM, "this is a model of transformers already: ", words[0]);
    if (!is_gguf(words[0]))
        export_run(words[0], use_newest ? NEWEST_CHECKPOINT : "best.safetensors", words[1], adapter, export_options);
    else if (adapter || use_newest)
        refuse(PROGRAM, "--adapter and --last are for runs; this is a GGUF file: ", words[0]);
    else
        export_gguf(words[0], words[1], export_options);
    return EXIT_SUCCESS;
}
