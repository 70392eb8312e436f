/* The folder of a run: creates, locks, replaces and opens it. */
#include <errno.h>
#include <string.h>

#include "checkpoints.h"
#include "cleanup.h"
#include "processes.h"
#include "shared/system.h"
#include "trainer.h"

void require_no_error(const trainer *t)
{
    if (th_error_code(t->ctx) != TH_OK)
        give_up(PROGRAM, th_error_text(t->ctx));
}

void require_ok(const trainer *t, th_status status)
{
    if (status != TH_OK)
        give_up(PROGRAM, th_error_text(t->ctx));
}

/* -- processes -- */

void join_group(trainer *t, const th_context_options *options)
{
    t->ctx = th_context_new(options);
    t->group = join_processes(PROGRAM, t->ctx);
}

bool is_first_process(const trainer *t)
{
    return th_group_rank(t->group) == 0;
}

void agree_on_errors(const trainer *t)
{
    if (th_group_agree(t->group) != TH_OK)
        give_up_together(PROGRAM, t->ctx, th_error_text(t->ctx));
}

void wait_for_first(const trainer *t)
{
    enum { SECONDS = 1800 };                        /* the default of groups */
    (void)th_group_set_timeout(t->group, INFINITY); /* a large text takes long */
    agree_on_errors(t);
    (void)th_group_set_timeout(t->group, SECONDS);
}

/* -- files -- */

void read_file(const trainer *t, const char *path, th_text *text)
{
    enum { MAX_BYTES = 64 << 20 };
    char problem[400];
    require_ok(t, th_file_read(t->ctx, path, MAX_BYTES + 1, text));
    if (text->count <= MAX_BYTES)
        return;
    snprintf(problem, sizeof problem, "%.300s has more than 64 MiB", path);
    give_up(PROGRAM, problem);
}

/* Removes the files in the folder that match the pattern. (The name of the folder, such as "run[1]", is not a
 * pattern.) */
static void remove_files(const char *folder, const char *pattern)
{
    DIR *directory = opendir(folder);
    for (struct dirent *file; directory && (file = readdir(directory)) != NULL;)
        if (fnmatch(pattern, file->d_name, FNM_PERIOD) == 0)
            unlinkat(dirfd(directory), file->d_name, 0);
    if (directory)
        closedir(directory);
}

/* The files of a run before its first checkpoint. They are removed if the program ends early. */
static struct new_run_files {
    const char *run;       /* NULL: there is nothing to remove */
    int folder;            /* a descriptor; -1 until this process may change its files */
    bool folder_is_new;    /* this process created the folder */
    bool has_replaced_run; /* the new tokens have replaced an old run */
    char events[256];      /* the name of the event log; "" before there is one */
} new_run;

#define WITH_UNFINISHED(name) name, name UNFINISHED

static void remove_list(int folder, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        unlinkat(folder, names[i], 0);
}

/* Removes the files of the first evaluation: logs, pictures, samples, the first model. It calls only functions that a
 * signal handler may call, and follows no link. */
static void remove_evaluation(void)
{
    static const char *const files[] = {WITH_UNFINISHED("best.safetensors"),
                                        WITH_UNFINISHED(NEXT_CHECKPOINT),
                                        WITH_UNFINISHED(NEWEST_CHECKPOINT),
                                        WITH_UNFINISHED("curves.svg"),
                                        WITH_UNFINISHED("log.jsonl"),
                                        WITH_UNFINISHED("command.txt"),
                                        "config.json",
                                        "text.tokens",
                                        new_run.events};
    static const char *const sample[] = {"step_0000000.txt"};
    const int samples = openat(new_run.folder, "samples", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (samples >= 0) {
        remove_list(samples, sample, 1);
        close(samples);
        unlinkat(new_run.folder, "samples", AT_REMOVEDIR); /* fails if it has other files */
    }
    remove_list(new_run.folder, files, sizeof files / sizeof *files);
}

/* Removes the files that begin_run writes. It calls only functions that a signal handler may call. */
static void remove_first_files(void)
{
    static const char *const tokens[] = {WITH_UNFINISHED(NEXT_TOKENS)};
    static const char *const run_files[] = {WITH_UNFINISHED("tokenizer.json"),
                                            WITH_UNFINISHED("vocab.json"),
                                            WITH_UNFINISHED("merges.txt"),
                                            WITH_UNFINISHED("tokenizer_config.json"),
                                            WITH_UNFINISHED("special_tokens_map.json"),
                                            WITH_UNFINISHED("generation_config.json"),
                                            WITH_UNFINISHED("chat_template.jinja"),
                                            WITH_UNFINISHED("command.txt"),
                                            WITH_UNFINISHED("config.json"),
                                            "text.tokens"};
    remove_list(new_run.folder, tokens, sizeof tokens / sizeof *tokens);
    if (new_run.folder_is_new)
        remove_list(new_run.folder, run_files, sizeof run_files / sizeof *run_files);
    if (new_run.folder_is_new)
        rmdir(new_run.run); /* fails if the folder has other files */
}

static void remove_new_run(void)
{
    if (new_run.run == NULL)
        return;
    if (new_run.has_replaced_run)
        remove_evaluation();
    remove_first_files();
    new_run.run = NULL;
}

/* Creates the folder. A signal that arrives afterwards removes it. Returns false on an error. */
static bool make_new_folder(const char *run)
{
    sigset_t old_signals;
    block_signals(&old_signals);
    const bool created = mkdir(run, 0777) == 0;
    if (created)
        new_run = (struct new_run_files){.run = run, .folder = -1, .folder_is_new = true};
    restore_signals(&old_signals);
    return created;
}

void create_run_folder(const char *run, bool force)
{
    struct stat status;
    const bool exists = stat(run, &status) == 0;
    /* From the first evaluation on, training catches the first signal itself. */
    register_cleanup(remove_new_run, remove_new_run);
    if (exists && !S_ISDIR(status.st_mode))
        refuse(PROGRAM, "the last word is the folder of the run, but this is a file: ", run);
    const bool created = !exists && make_new_folder(run);
    if (!exists && !created && errno != EEXIST) {
        char problem[200];
        snprintf(problem, sizeof problem, "this folder cannot be created (%.100s): ", strerror(errno));
        refuse(PROGRAM, problem, run);
    }
    lock_run(run); /* before the checks: the process that had the lock may have written a run */
    if (access(path_in(run, "config.json"), F_OK) == 0 && access(path_in(run, "text.tokens"), F_OK) != 0)
        refuse(PROGRAM, "this folder contains something other than a run: ", run);
    if (!force && has_checkpoint(run))
        refuse(PROGRAM, "there is a run already (resume it, or --force replaces it): ", run);
    new_run.run = run;
    new_run.folder = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* (The names begin with a time: the last one is new.) */
void note_event_log(const char *run)
{
    DIR *directory = new_run.run ? opendir(run) : NULL;
    for (struct dirent *file; directory && (file = readdir(directory)) != NULL;)
        if (fnmatch("events.out.tfevents.*", file->d_name, 0) == 0 && strcmp(file->d_name, new_run.events) > 0)
            snprintf(new_run.events, sizeof new_run.events, "%s", file->d_name);
    if (directory)
        closedir(directory);
}

void keep_run_files(void)
{
    new_run.run = NULL;
}

static void remove_old_run(const char *run)
{
    /* config.json marks the files as a run's, so it is removed last. */
    static const char *const files[] = {
        "*.safetensors", "*.safetensors.damaged", "events.out.tfevents.*", "log.jsonl",
        "curves.svg",    "command.txt",           "config.json",           "text.tokens"};
    if (access(path_in(run, "config.json"), F_OK) != 0)
        return;
    struct stat samples;
    if (lstat(path_in(run, "samples"), &samples) == 0 && S_ISDIR(samples.st_mode))
        remove_files(path_in(run, "samples"), "step_*.txt");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        remove_files(run, files[i]);
}

void replace_run(const char *run)
{
    remove_old_run(run);
    if (rename(path_in(run, NEXT_TOKENS), path_in(run, "text.tokens")) != 0)
        give_up_file(path_in(run, "text.tokens"), "written");
    new_run.has_replaced_run = true;
}

/* Sets the options of the model in the folder, which must be a decoder. */
static void read_pretrained_options(trainer *t, const char *folder)
{
    require_ok(t, th_pretrained_options(t->ctx, folder, &chosen.model));
    if (chosen.model.bidirectional)
        refuse(PROGRAM, "this program needs a decoder, and this model is an encoder: ", folder);
}

/* Takes the options of the pretrained model, except the training options. */
static void use_pretrained_options(trainer *t)
{
    if (access(path_in(chosen.from, "last.safetensors"), F_OK) == 0)
        refuse(PROGRAM, "this is a run; --from takes a model folder, as " PROGRAM " export writes it: ", chosen.from);
    read_pretrained_options(t, chosen.from);
    chosen.model.dropout = chosen.model.block.dropout = chosen.model.block.attention_dropout = chosen.dropout;
    chosen.model.embedding_dropout = chosen.dropout;
    chosen.model.block.recompute = chosen.recompute;
    set_learning_rates();
    if (chosen.length > chosen.model.length) {
        char problem[120];
        snprintf(problem, sizeof problem, "--length %lld is more than the %lld positions of the model in ",
                 (long long)chosen.length, (long long)chosen.model.length);
        refuse(PROGRAM, problem, chosen.from);
    }
}

/* Returns whether both have the same tokens with the same numbers. */
static bool have_equal_tokens(const th_tokenizer *a, const th_tokenizer *b)
{
    const int64_t size = th_tokenizer_size(a);
    bool equal = size == th_tokenizer_size(b);
    for (int64_t i = 0; i < size && equal; i++) {
        size_t bytes_a = 0, bytes_b = 0;
        const char *token_a = th_tokenizer_bytes(a, i, &bytes_a), *token_b = th_tokenizer_bytes(b, i, &bytes_b);
        equal = bytes_a == bytes_b && (bytes_a == 0 || memcmp(token_a, token_b, bytes_a) == 0) &&
                th_tokenizer_is_special(a, i) == th_tokenizer_is_special(b, i);
    }
    return equal;
}

static bool has_tokenizer(const char *folder)
{
    return is_gguf(folder) || access(path_in(folder, "tokenizer.json"), F_OK) == 0 ||
           access(path_in(folder, "vocab.json"), F_OK) == 0;
}

/* Rejects a tokenizer that gives other numbers to the tokens than the model's tokenizer. If the model's folder has no
 * tokenizer, accepts a tokenizer from a file, and rejects one made from the text. */
static void refuse_other_tokenizer(trainer *t)
{
    bool accepted;
    if (strcmp(chosen.tokenizer, chosen.from) == 0)
        return;
    if (has_tokenizer(chosen.from)) {
        th_tokenizer *model_tokenizer = th_tokenizer_load(t->ctx, chosen.from);
        require_no_error(t);
        accepted = have_equal_tokens(model_tokenizer, t->tokenizer);
        th_tokenizer_free(model_tokenizer);
    } else
        accepted = access(chosen.tokenizer, F_OK) == 0;
    if (!accepted) {
        char problem[600];
        snprintf(problem, sizeof problem,
                 "--tokenizer %.200s does not have the tokens of the model in %.200s: leave it out to use the model's, "
                 "or give --other-tokenizer to train the model on other tokens",
                 chosen.tokenizer, chosen.from);
        refuse(PROGRAM, problem, "");
    }
}

/* A model may have more tokens than its tokenizer, as padding of its matrices, but not fewer. */
static void compare_vocabularies(const trainer *t, const char *folder)
{
    const int64_t tokens = th_tokenizer_size(t->tokenizer), vocabulary = chosen.model.vocabulary;
    char problem[120];
    if (tokens > vocabulary) {
        snprintf(problem, sizeof problem, "the tokenizer has %lld tokens, more than the %lld of the model in ",
                 (long long)tokens, (long long)vocabulary);
        refuse(PROGRAM, problem, folder);
    }
    if (tokens < vocabulary)
        fprintf(stderr, PROGRAM ": the tokenizer has %lld tokens, the model in %s %lld: the others stay unused\n",
                (long long)tokens, folder, (long long)vocabulary);
}

/* Chooses the token that ends a text. With the tokenizer of a pretrained model, the model has this token. Otherwise it
 * is END_OF_TEXT, if the tokenizer has it. */
static void choose_end_token(trainer *t)
{
    if (chosen.from && strcmp(chosen.tokenizer, chosen.from) == 0) {
        require_ok(t, th_pretrained_end_token(t->ctx, chosen.from, &chosen.end_token));
        return;
    }
    chosen.end_token = th_tokenizer_find(t->tokenizer, END_OF_TEXT);
    if (chosen.end_token >= 0 && !th_tokenizer_is_special(t->tokenizer, chosen.end_token))
        chosen.end_token = -1;
}

void size_model(const trainer *t)
{
    th_language_model_options *model = &chosen.model;
    if (!chosen.from)
        model->vocabulary = th_tokenizer_size(t->tokenizer);
    chosen.vocabulary = model->vocabulary;
    chosen.layers = model->layers;
    chosen.heads = model->heads;
    chosen.kv_heads = model->block.kv_heads;
    chosen.width = model->width;
    chosen.mlp_width = model->block.mlp_width;
    chosen.llama = model->block.norm == TH_RMS_NORM && model->block.gated && model->block.scores.rotary;
}

void choose_tokenizer(trainer *t, const texts *text, bool other_tokenizer)
{
    if (chosen.from)
        use_pretrained_options(t);
    t->tokenizer = make_tokenizer(t->ctx, text);
    require_no_error(t);
    if (chosen.from && !other_tokenizer)
        refuse_other_tokenizer(t);
    if (chosen.from)
        compare_vocabularies(t, chosen.from);
    choose_end_token(t);
}

bool is_model_folder(const char *folder)
{
    if (is_gguf(folder))
        return true;
    return access(path_in(folder, "config.json"), F_OK) == 0 && access(path_in(folder, "text.tokens"), F_OK) != 0 &&
           (access(path_in(folder, "model.safetensors"), F_OK) == 0 ||
            access(path_in(folder, "model.safetensors.index.json"), F_OK) == 0);
}

void open_model_folder(trainer *t, const char *folder, bool stored, const char *weights)
{
    const th_dtype type = weights ? parse_storage(weights) : TH_FLOAT32;
    *t = (trainer){.ctx = th_context_new(NULL)};
    chosen.from = chosen.tokenizer = folder;
    read_pretrained_options(t, folder);
    t->tokenizer = th_tokenizer_load(t->ctx, folder);
    require_no_error(t);
    compare_vocabularies(t, folder);
    choose_end_token(t);
    const th_folder_load_options options = {
        .frozen = true, .stored = stored && !weights, .type = type, .no_mapping = no_mapping, .model = &chosen.model};
    t->model = th_language_model_from_folder(t->ctx, folder, &options);
    require_no_error(t);
}

int64_t hash_tokenizer(const trainer *t)
{
    uint32_t hash = 2166136261; /* FNV-1a */
    th_text text = {0};
    read_file(t, path_in(t->run, "tokenizer.json"), &text);
    for (size_t i = 0; i < text.count; i++)
        hash = (hash ^ (unsigned char)text.bytes[i]) * 16777619;
    th_text_free(&text);
    return hash;
}

void write_settings(const trainer *t)
{
    char *text = settings_to_json();
    const size_t count = strlen(text);
    text[count] = '\n'; /* in place of the final NUL */
    require_ok(t, th_file_write(t->ctx, path_in(t->run, "config.json"), text, count + 1));
    free(text);
}

void read_settings(const trainer *t)
{
    th_text text = {0};
    const char *path = path_in(t->run, "config.json");
    read_file(t, path, &text);
    settings_from_json(text.bytes, path);
    th_text_free(&text);
}

void load_tokenizer(trainer *t)
{
    t->tokenizer = th_tokenizer_load(t->ctx, t->run);
    if (t->tokenizer && hash_tokenizer(t) != chosen.tokenizer_hash) {
        begin_last_message(PROGRAM);
        fprintf(stderr, "%s has changed since the run began\n", path_in(t->run, "tokenizer.json"));
        exit(EXIT_FAILURE);
    }
    require_no_error(t);
}

void open_run(trainer *t, const char *run, const char *checkpoint, bool weights)
{
    const char *path = path_in(run, checkpoint);
    if (access(path, F_OK) != 0) {
        if (!has_checkpoint(run))
            refuse_folder(run, "a run");
        refuse(PROGRAM, "this checkpoint of the run is missing (--last: the newest, instead of the best): ",
               path_in(run, checkpoint));
    }
    const char *text = th_checkpoint_configuration(t->ctx, path);
    require_no_error(t);
    settings_from_json(text, path);
    if (chosen.threads > 0)
        require_ok(t, th_set_threads(t->ctx, (int)chosen.threads));
    require_ok(t, share_processors(t->ctx, chosen.threads));
    require_ok(t, th_set_precision(t->ctx, parse_precision(PROGRAM, chosen.precision)));
    load_tokenizer(t);
    if (th_tokenizer_size(t->tokenizer) > chosen.model.vocabulary) {
        begin_last_message(PROGRAM);
        fprintf(stderr, "%s: \"model.vocabulary\" is %lld, but the tokenizer has %lld tokens\n", path,
                (long long)chosen.model.vocabulary, (long long)th_tokenizer_size(t->tokenizer));
        exit(EXIT_FAILURE);
    }
    if (chosen.lora == 0)
        require_ok(t, th_language_model_check_weights(t->ctx, &chosen.model, path));
    make_model(t);
    if (weights && chosen.lora == 0 && chosen.average == 0)
        require_ok(t, th_weights_load(t->model, path, NULL));
    else if (weights)
        require_adapters(t, th_checkpoint_load(path, &(th_checkpoint){.model = t->model, .only_model = true}));
}
