/* Operations that write and read every kind of file: see calls_operations.h. */
#include "calls_operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tapehead/models.h"

enum { TOKENS = 40000 };

static const char *in(const calls_setting *s, const char *name)
{
    static char path[4][256];
    static int next;
    char *const to = path[next++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", s->folder, name);
    return to;
}

static void add_bits(calls_setting *s, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        s->bits = (s->bits ^ ((const unsigned char *)bytes)[i]) * 16777619u;
}

static void add_tensor(calls_setting *s, th_tensor *t)
{
    add_bits(s, th_data(t), (size_t)th_numel(t) * sizeof(float) * (th_dtype_of(t) == TH_FLOAT64 ? 2 : 1));
}

static void add_model(calls_setting *s, const th_module *m)
{
    const uint32_t crc = th_module_crc32c(m);
    add_bits(s, &crc, sizeof crc);
}

/* -- checkpoints -- */

static th_checkpoint checkpoint_of(const calls_setting *s)
{
    return (th_checkpoint){.model = s->model, .optimizer = s->optimizer, .configuration = "{\"width\": 8}"};
}

/* Makes a file of the old state, readable for the group. */
static void save_old(calls_setting *s)
{
    const th_checkpoint run = checkpoint_of(s);
    calls_expect(s, th_checkpoint_save(in(s, "run.safetensors"), &run) == TH_OK);
    calls_expect(s, chmod(in(s, "run.safetensors"), 0640) == 0);
    calls_train(s, 1);
}

static void nothing(calls_setting *s)
{
    (void)s;
}

static bool save_checkpoint(calls_setting *s)
{
    const th_checkpoint run = checkpoint_of(s);
    return th_checkpoint_save(in(s, "run.safetensors"), &run) == TH_OK;
}

static void link_old(calls_setting *s)
{
    save_old(s);
    calls_expect(s, symlink("run.safetensors", in(s, "newest.safetensors")) == 0);
}

static bool save_through_link(calls_setting *s)
{
    const th_checkpoint run = checkpoint_of(s);
    return th_checkpoint_save(in(s, "newest.safetensors"), &run) == TH_OK;
}

/* A killed process has left an unfinished file. */
static void leave_unfinished(calls_setting *s)
{
    save_old(s);
    FILE *file = fopen(in(s, "run.safetensors.unfinished0"), "w");
    calls_expect(s, file && fputs("half", file) >= 0 && fclose(file) == 0);
}

static bool load_checkpoint(calls_setting *s)
{
    const th_checkpoint run = checkpoint_of(s);
    const char *path = in(s, "run.safetensors");
    if (th_checkpoint_configuration(s->ctx, path) == NULL || th_checkpoint_verify(s->ctx, path) != TH_OK ||
        th_checkpoint_load(path, &run) != TH_OK)
        return false;
    add_model(s, s->model);
    return true;
}

static void save_weights_only(calls_setting *s)
{
    calls_expect(s, th_weights_save(s->model, in(s, "model.safetensors")) == TH_OK);
    calls_train(s, 1);
}

static bool load_weights(calls_setting *s)
{
    if (th_weights_load(s->model, s->folder, NULL) != TH_OK)
        return false;
    add_model(s, s->model);
    return true;
}

/* -- Hugging Face -- */

static void export_old(calls_setting *s)
{
    calls_expect(s, th_language_model_export(s->model, in(s, "hf"), NULL) == TH_OK);
    calls_train(s, 1);
}

static bool export_model(calls_setting *s)
{
    return th_language_model_export(s->model, in(s, "hf"), NULL) == TH_OK;
}

/* Writes the model with a tokenizer and a chat template. Before the first step of training they are others. */
static bool export_all(calls_setting *s)
{
    static const char *const letters[] = {"ab", "abcdefgh"}, *const templates[] = {"old", "a new template"};
    const bool new = th_step(s->ctx) > 2;
    const th_export_file files[] = {{"chat_template.jinja", templates[new], strlen(templates[new])},
                                    {"generation_config.json", new ? NULL : "{}", 2}};
    th_tokenizer *t = th_tokenizer_characters_new(s->ctx, letters[new], strlen(letters[new]));
    const th_export_options options = {.tokenizer = t, .files = files, .n_files = 2};
    const bool good = t && th_language_model_export(s->model, in(s, "hf"), &options) == TH_OK;
    th_tokenizer_free(t);
    return good;
}

static void export_all_old(calls_setting *s)
{
    calls_expect(s, export_all(s));
    calls_train(s, 1);
}

static bool save_adapter(calls_setting *s)
{
    return th_lora_save(s->model, in(s, "adapter"), NULL) == TH_OK;
}

static void attach(calls_setting *s)
{
    calls_expect(s, th_lora_attach(s->model, &(th_lora_options){.rank = 1, .alpha = 1}) == TH_OK);
}

/* The new adapter has another scale, so that both of its files differ. */
static void adapter_old(calls_setting *s)
{
    attach(s);
    calls_expect(s, save_adapter(s) && th_lora_detach(s->model) == TH_OK &&
                        th_lora_attach(s->model, &(th_lora_options){.rank = 2, .alpha = 3}) == TH_OK);
}

/* -- in several files -- */

static uint32_t old_model; /* its checksum; 0: none */

static bool export_files(calls_setting *s, int64_t bytes)
{
    return th_language_model_export(s->model, in(s, "hf"), &(th_export_options){.shard_bytes = bytes}) == TH_OK;
}

static void no_old(calls_setting *s)
{
    (void)s;
    old_model = 0;
}

static void export_old_file(calls_setting *s)
{
    old_model = th_module_crc32c(s->model);
    export_old(s);
}

static void export_old_shards(calls_setting *s)
{
    old_model = th_module_crc32c(s->model);
    calls_expect(s, export_files(s, 300));
    calls_train(s, 1);
}

/* Checks that the folder has a whole model, the old or the new one, or none that loads. */
static void check_folder(const calls_setting *s)
{
    th_context *ctx = th_context_new(NULL);
    const th_module *m = th_language_model_from_pretrained(ctx, in(s, "hf"));
    const uint32_t crc = m ? th_module_crc32c(m) : 0;
    th_context_free(ctx);
    if (m == NULL || crc == th_module_crc32c(s->model) || (old_model && crc == old_model))
        return;
    printf("a mixture of the old and the new model loads\n");
    exit(EXIT_FAILURE);
}

static bool export_checked(calls_setting *s, int64_t bytes)
{
    const bool done = export_files(s, bytes);
    if (!done)
        check_folder(s);
    return done;
}

static bool export_shards(calls_setting *s)
{
    return export_checked(s, 800);
}

static bool export_one_file(calls_setting *s)
{
    return export_checked(s, 0);
}

static bool import_model(calls_setting *s)
{
    th_module *m = th_language_model_from_pretrained(s->ctx, in(s, "hf"));
    if (m)
        add_model(s, m);
    th_module_free(m);
    return m != NULL;
}

static bool import_shards(calls_setting *s)
{
    th_safetensors *file = th_safetensors_open(s->ctx, FIXTURES "/hugging_face/gpt2_shards");
    if (file == NULL)
        return false;
    bool good = true;
    for (int64_t i = 0; i < th_safetensors_count(file) && good; i++) {
        th_tensor *t = th_safetensors_read(file, th_safetensors_at(file, i)->name);
        good = t != NULL;
        if (good)
            add_tensor(s, t);
        th_tensor_free(t);
    }
    th_safetensors_close(file);
    return good;
}

/* -- arrays, pictures, traces -- */

static bool write_array(calls_setting *s)
{
    th_tensor *t = th_module_find_parameter(s->model, "embedding.weight");
    if (th_npy_write(t, in(s, "array.npy")) != TH_OK)
        return false;
    th_tensor *again = th_npy_read(s->ctx, in(s, "array.npy"));
    if (again)
        add_tensor(s, again);
    th_tensor_free(again);
    return again != NULL;
}

static void array_old(calls_setting *s)
{
    calls_expect(s, write_array(s));
    calls_train(s, 1);
}

static bool draw(calls_setting *s)
{
    double y[300];
    for (int i = 0; i < 300; i++)
        y[i] = i * (i % 7);
    th_tensor *t = th_module_find_parameter(s->model, "embedding.weight");
    return th_picture_curves(s->ctx, in(s, "curves.svg"), &(th_curve){.count = 300, .y = y}, 1, NULL) == TH_OK &&
           th_picture_heatmaps(t, in(s, "map.svg"), NULL) == TH_OK;
}

static void profile(calls_setting *s)
{
    calls_expect(s, th_profile_begin(s->ctx, NULL) == TH_OK);
    calls_train(s, 1);
    calls_expect(s, th_profile_end(s->ctx) == TH_OK);
}

static bool write_trace(calls_setting *s)
{
    return th_profile_write_trace(s->ctx, in(s, "trace.json")) == TH_OK;
}

/* -- logs -- */

static bool write_log(calls_setting *s, const th_log_options *options, int64_t begin)
{
    th_json_log *log = th_json_log_open(s->ctx, in(s, "log.jsonl"), options);
    bool good = log != NULL;
    for (int64_t step = begin; good && step < begin + 3; step++)
        good = th_json_log_write(log, step, &(th_log_field){"loss", .value = 1.0 / (double)(step + 1)}, 1) == TH_OK;
    th_json_log_close(log);
    th_tensor *series = good ? th_json_log_series(s->ctx, in(s, "log.jsonl"), "loss") : NULL;
    if (series)
        add_tensor(s, series);
    th_tensor_free(series);
    return series != NULL;
}

static bool begin_log(calls_setting *s)
{
    return write_log(s, NULL, 0);
}

static void log_old(calls_setting *s)
{
    calls_expect(s, begin_log(s));
}

static bool resume_log(calls_setting *s)
{
    return write_log(s, &(th_log_options){.resume = true, .step = 1}, 2);
}

static bool write_events(calls_setting *s)
{
    th_event_log *log = th_event_log_open(s->ctx, s->folder, NULL);
    bool good = log != NULL;
    for (int64_t step = 0; good && step < 2; step++)
        good = th_event_log_write(log, step, &(th_log_field){"loss", .value = 0.5}, 1) == TH_OK;
    th_event_log_close(log);
    return good;
}

/* -- tokens -- */

static bool write_tokens(calls_setting *s)
{
    static int32_t token[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        token[i] = i % 300;
    th_token_writer *w = th_token_writer_open(s->ctx, in(s, "text.tokens"), 300);
    const bool appended = w && th_token_writer_append(w, token, TOKENS) == TH_OK;
    if (!appended)
        th_token_writer_free(w);
    return appended && th_token_writer_close(w) == TH_OK;
}

static void tokens_old(calls_setting *s)
{
    calls_expect(s, write_tokens(s));
}

static bool read_tokens(calls_setting *s)
{
    int32_t token[50];
    th_token_file *f = th_token_file_open(s->ctx, in(s, "text.tokens"), NULL);
    const bool good = f && th_token_file_read(f, TOKENS - 50, 50, token) == TH_OK;
    if (good)
        add_bits(s, token, sizeof token);
    th_token_file_close(f);
    return good;
}

static th_tokenizer *tokenizer_new(calls_setting *s)
{
    static const char text[] = "the cat sat on the mat; the rat sat on the cat";
    th_tokenizer *t = th_tokenizer_train(s->ctx, text, sizeof text - 1, &(th_bpe_options){.vocabulary = 270});
    calls_expect(s, t != NULL);
    return t;
}

static bool save_tokenizer(calls_setting *s)
{
    th_tokenizer *t = tokenizer_new(s);
    const bool good = th_tokenizer_save(t, s->folder) == TH_OK;
    th_tokenizer_free(t);
    return good;
}

static bool load_tokenizer(calls_setting *s)
{
    th_tokenizer *t = th_tokenizer_load(s->ctx, s->folder);
    th_token_list tokens = {0};
    const char text[] = "<|end|>the mat";
    const bool good = t && th_tokenizer_encode(t, text, sizeof text - 1, &tokens) == TH_OK;
    if (good)
        add_bits(s, tokens.token, tokens.count * sizeof *tokens.token);
    th_token_list_free(&tokens);
    th_tokenizer_free(t);
    return good;
}

/* tokenizer.json has a token more than vocab.json, so that reading the wrong files would show. */
static void tokenizer_old(calls_setting *s)
{
    th_tokenizer *t = tokenizer_new(s);
    calls_expect(s, th_tokenizer_save(t, s->folder) == TH_OK && th_tokenizer_add(t, "<|end|>") >= 0 &&
                        rename(in(s, "vocab.json"), in(s, "kept")) == 0 && th_tokenizer_save(t, s->folder) == TH_OK &&
                        rename(in(s, "kept"), in(s, "vocab.json")) == 0);
    th_tokenizer_free(t);
}

static void two_files_old(calls_setting *s)
{
    calls_expect(s, save_tokenizer(s) && unlink(in(s, "tokenizer.json")) == 0);
}

const calls_operation calls_operations[] = {
    {"save a checkpoint", nothing, save_checkpoint},
    {"replace a checkpoint", save_old, save_checkpoint},
    {"replace a checkpoint through a link", link_old, save_through_link},
    {"replace a checkpoint beside a leftover", leave_unfinished, save_checkpoint},
    {"load a checkpoint", save_old, load_checkpoint},
    {"load weights from a folder", save_weights_only, load_weights},
    {"export a model", nothing, export_model},
    {"replace an exported model", export_old, export_model},
    {"export shards", no_old, export_shards},
    {"replace an exported model by shards", export_old_file, export_shards},
    {"replace shards by fewer", export_old_shards, export_shards},
    {"replace shards by one file", export_old_shards, export_one_file},
    {"export a model with its tokenizer", nothing, export_all},
    {"replace a model with its tokenizer", export_all_old, export_all},
    {"save an adapter", attach, save_adapter},
    {"replace an adapter", adapter_old, save_adapter},
    {"import a model", export_old, import_model},
    {"read shards", nothing, import_shards},
    {"write and read an array", array_old, write_array},
    {"draw pictures", nothing, draw},
    {"write a trace", profile, write_trace},
    {"begin a log", nothing, begin_log},
    {"resume a log", log_old, resume_log},
    {"write events", nothing, write_events},
    {"write a token file", nothing, write_tokens},
    {"read a token file", tokens_old, read_tokens},
    {"save a tokenizer", nothing, save_tokenizer},
    {"load a tokenizer", tokenizer_old, load_tokenizer},
    {"load a tokenizer from two files", two_files_old, load_tokenizer},
};
const int calls_operation_count = sizeof calls_operations / sizeof *calls_operations;
