/* Programs about models in files: safetensors, weights, checkpoints, folders of Hugging Face. */
#include "subjects.h"

#include <string.h>

/* -- safetensors -- */

static th_status tensors_written(program_run *r)
{
    const th_named_tensor tensors[] = {{"weights", th_swap_axes(numbers(r, TH_SHAPE(3, 4), 101), 0, 1)},
                                       {"integers", integers(r, TH_SHAPE(5), 9, 102)},
                                       {"wide", th_arange(r->ctx, TH_FLOAT64, 0, 3, 1)}};
    const th_named_text texts[] = {{"format", "pt"}};
    TRY(th_error_code(r->ctx));
    TRY(th_safetensors_write(r->ctx, in_folder(r, "three.safetensors"), tensors, 3, texts, 1));
    add_file(r, in_folder(r, "three.safetensors"));
    return th_error_code(r->ctx);
}

static th_status tensors_of(program_run *r, th_safetensors *file)
{
    for (int64_t i = 0; i < th_safetensors_count(file); i++) {
        const th_stored_tensor *stored = th_safetensors_at(file, i);
        add_text(r, stored->name);
        if (th_safetensors_find(file, stored->name) == stored)
            add_tensor(r, th_safetensors_read(file, stored->name));
    }
    th_tensor *t = th_empty(r->ctx, TH_FLOAT64, TH_SHAPE(4, 3));
    TRY(th_error_code(r->ctx));
    TRY(th_safetensors_read_into(file, "weights", t));
    add_tensor(r, t);
    add_text(r, th_safetensors_metadata(file, "format"));
    return th_error_code(r->ctx);
}

static th_status tensors_read(program_run *r)
{
    th_safetensors *file = th_safetensors_open(r->ctx, in_folder(r, "three.safetensors"));
    if (file == NULL)
        return th_error_code(r->ctx);
    const th_status status = tensors_of(r, file);
    th_safetensors_close(file);
    return status;
}

/* A file of several parts. */
static th_status shards_read(program_run *r)
{
    th_safetensors *file = th_safetensors_open(r->ctx, FIXTURES "/hugging_face/llama_shards");
    if (file == NULL)
        return th_error_code(r->ctx);
    add_number(r, (double)th_safetensors_count(file));
    add_tensor(r, th_safetensors_read(file, th_safetensors_at(file, 2)->name));
    const th_status status = th_error_code(r->ctx);
    th_safetensors_close(file);
    return status;
}

const program safetensors = {.name = "safetensors", .step = {tensors_written, tensors_read, shards_read}};

/* -- weights and checkpoints -- */

static th_status trained_setup(program_run *r)
{
    const th_language_model_options options = {
        .vocabulary = 11, .length = 6, .width = 8, .heads = 2, .layers = 1, .dropout = 0.1};
    r->model = th_language_model_new(r->ctx, &options);
    r->optimizer = th_adam_w_new(r->model, &(th_adam_options){.learning_rate = 0.01});
    return th_error_code(r->ctx);
}

static th_status train(program_run *r)
{
    for (th_parameter_iterator p = th_module_parameters(r->model); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
    th_tensor *tokens = integers(r, TH_SHAPE(2, 6), 11, 103);
    TRY(th_backward(th_language_model_loss(r->model, tokens, tokens, NULL), NULL));
    TRY(th_optimizer_step(r->optimizer));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static const char *renamed(const char *parameter, void *user)
{
    (void)user;
    return parameter;
}

static th_status weights_there_and_back(program_run *r)
{
    const th_language_model_options *options = th_language_model_options_of(r->model);
    const char *path = in_folder(r, "weights.safetensors");
    const th_weights_options loading = {.name_in_file = renamed, .report = th_report_print, .report_user = r->out};
    TRY(th_weights_save(r->model, path));
    TRY(th_language_model_check_weights(r->ctx, options, path));
    TRY(th_weights_load(r->model, path, &loading));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

const program weights_alone = {
    .name = "weights_alone", .setup = trained_setup, .step = {train, weights_there_and_back, train}};

static th_status checkpoint(program_run *r, bool load)
{
    int64_t position = load ? 0 : 5;
    double best = load ? 0 : 1.5;
    const th_checkpoint_number numbers[] = {{.name = "position", .integer = &position},
                                            {.name = "best", .real = &best}};
    const th_checkpoint run = {.model = r->model,
                               .optimizer = r->optimizer,
                               .average = r->average,
                               .configuration = "{\"width\": 8}",
                               .numbers = numbers,
                               .n_numbers = 2};
    const char *path = in_folder(r, "last.safetensors");
    TRY(load ? th_checkpoint_load(path, &run) : th_checkpoint_save(path, &run));
    add_number(r, (double)position + best);
    add_file(r, path);
    return th_error_code(r->ctx);
}

static th_status checkpoint_saved(program_run *r)
{
    return checkpoint(r, false);
}

static th_status checkpoint_resumed(program_run *r)
{
    TRY(checkpoint(r, true));
    TRY(th_checkpoint_verify(r->ctx, in_folder(r, "last.safetensors")));
    add_text(r, th_checkpoint_configuration(r->ctx, in_folder(r, "last.safetensors")));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status averaged(program_run *r)
{
    if (r->average == NULL)
        r->average = th_weight_average_new(r->model, &(th_weight_average_options){.decay = 0.5});
    TRY(th_error_code(r->ctx));
    return th_weight_average_update(r->average);
}

/* The step after resuming repeats the step after saving. */
const program checkpoints = {
    .name = "checkpoints", .setup = trained_setup, .step = {train, checkpoint_saved, train, checkpoint_resumed, train}};

const program averaged_checkpoints = {.name = "averaged_checkpoints",
                                      .setup = trained_setup,
                                      .step = {train, averaged, checkpoint_saved, train, checkpoint_resumed}};

/* Another model and optimizer of the same context, which have no moments yet. */
static th_status new_setup(program_run *r)
{
    TRY(trained_setup(r));
    r->other = r->model;
    return th_error_code(r->ctx);
}

static th_status checkpoint_in_a_new_model(program_run *r)
{
    TRY(trained_setup(r));
    TRY(checkpoint(r, true));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

const program resumed_training = {.name = "resumed_training",
                                  .setup = new_setup,
                                  .step = {train, checkpoint_saved, checkpoint_in_a_new_model, train}};

/* -- folders of transformers -- */

static th_status imported(program_run *r, const char *folder)
{
    th_language_model_options options;
    int64_t end = 0;
    TRY(th_pretrained_options(r->ctx, folder, &options));
    TRY(th_pretrained_end_token(r->ctx, folder, &end));
    int64_t ends[4];
    int n_ends;
    TRY(th_pretrained_end_tokens(r->ctx, folder, ends, 4, &n_ends));
    r->model = th_language_model_new(r->ctx, &options);
    TRY(th_pretrained_load(r->model, folder,
                           &(th_pretrained_load_options){.report = th_report_print, .report_user = r->out}));
    add_number(r, (double)end);
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

static th_status imported_gpt2(program_run *r)
{
    return imported(r, FIXTURES "/hugging_face/gpt2");
}

static th_status imported_llama(program_run *r)
{
    r->other = th_language_model_from_pretrained(r->ctx, FIXTURES "/hugging_face/llama_shards");
    if (r->other == NULL)
        return th_error_code(r->ctx);
    add_number(r, th_module_crc32c(r->other));
    return imported(r, FIXTURES "/hugging_face/llama");
}

static th_status exported(program_run *r)
{
    static const th_export_file files[] = {{"chat_template.jinja", "text", 4}, {"generation_config.json", NULL, 0}};
    th_tokenizer *letters = th_tokenizer_characters_new(r->ctx, "abc", 3);
    const th_status status = letters
                                 ? th_language_model_export(r->model, in_folder(r, "exported"),
                                                            &(th_export_options){TH_END_TOKEN(3), .tokenizer = letters,
                                                                                 .files = files, .n_files = 2})
                                 : th_error_code(r->ctx);
    th_tokenizer_free(letters);
    TRY(status);
    add_file(r, in_folder(r, "exported/tokenizer.json"));
    add_file(r, in_folder(r, "exported/config.json"));
    add_file(r, in_folder(r, "exported/model.safetensors"));
    return th_error_code(r->ctx);
}

static th_status folder_loaded(program_run *r, const char *name)
{
    th_module *again = th_language_model_from_pretrained(r->ctx, in_folder(r, name));
    add_number(r, th_module_crc32c(again));
    th_module_free(again);
    again = th_language_model_from_folder(r->ctx, in_folder(r, name), &(th_folder_load_options){.stored = true});
    add_number(r, th_module_crc32c(again));
    th_module_free(again);
    return th_error_code(r->ctx);
}

static th_status exported_loaded(program_run *r)
{
    return folder_loaded(r, "exported");
}

static th_status shards_loaded(program_run *r)
{
    return folder_loaded(r, "shards");
}

/* Writes stored weights to several files. */
static th_status shards_exported(program_run *r)
{
    const th_export_options options = {.type = TH_BFLOAT16, .shard_bytes = 1000};
    TRY(th_module_freeze(r->model, true));
    TRY(th_module_store(r->model, TH_FLOAT16));
    TRY(th_language_model_export(r->model, in_folder(r, "shards"), &options));
    add_file(r, in_folder(r, "shards/model.safetensors.index.json"));
    th_safetensors *file = th_safetensors_open(r->ctx, in_folder(r, "shards"));
    for (int64_t i = 0; i < th_safetensors_count(file); i++)
        add_text(r, th_safetensors_at(file, i)->name);
    th_safetensors_close(file);
    return th_error_code(r->ctx);
}

const program hugging_face_gpt2 = {.name = "hugging_face_gpt2",
                                   .step = {imported_gpt2, exported, exported_loaded, shards_exported, shards_loaded}};
const program hugging_face_llama = {
    .name = "hugging_face_llama", .step = {imported_llama, exported, exported_loaded, shards_exported, shards_loaded}};

static th_status embedded(program_run *r)
{
    static const char folder[] = FIXTURES "/sentence_embeddings";
    static const char *const texts[] = {"the tape records each call", "order"};
    th_sentence_options options;
    TRY(th_sentence_options_read(r->ctx, folder, &options));
    th_module *model = th_language_model_from_pretrained(r->ctx, folder);
    th_tokenizer *tokenizer = model ? th_tokenizer_load(r->ctx, folder) : NULL;
    options.dense = model ? th_dense_new(r->ctx, 8, 3, &(th_dense_layer_options){.no_bias = true}) : NULL;
    if (options.dense && th_fill(th_module_find_parameter(options.dense, "weight"), 0.25) != TH_OK)
        return th_error_code(r->ctx);
    strcpy(options.prompt, "call: ");
    add_tensor(r, tokenizer ? th_sentence_embeddings(model, tokenizer, texts, 2, &options) : NULL);
    float encoded[2][8] = {{0}};
    if (tokenizer && th_sentence_encode(model, tokenizer, texts, 2, &options, encoded[0]) == TH_OK)
        for (int64_t i = 0; i < 2 * th_sentence_dimension(model, &options); i++)
            add_number(r, (double)encoded[0][i]);
    const th_status status = tokenizer && options.dense && th_error_code(r->ctx) == TH_OK
                                 ? th_sentence_export(model, in_folder(r, "sentence"), &options,
                                                      &(th_export_options){.tokenizer = tokenizer})
                                 : th_error_code(r->ctx);
    th_module_free(options.dense);
    th_tokenizer_free(tokenizer);
    th_module_free(model);
    return status;
}

static th_status sentence_folder_read(program_run *r)
{
    th_sentence_options options;
    TRY(th_sentence_options_read(r->ctx, in_folder(r, "sentence"), &options));
    add_tensor(r, th_module_find_parameter(options.dense, "weight"));
    th_module_free(options.dense);
    return th_sentence_prompt_read(r->ctx, in_folder(r, "sentence"), "default", &options);
}

const program sentence_embeddings = {.name = "sentence_embeddings", .step = {embedded, sentence_folder_read}};

/* -- GGUF -- */

static th_status gguf_setup(program_run *r)
{
    r->model = th_language_model_new(r->ctx, &(th_language_model_options){.vocabulary = 272,
                                                                          .length = 8,
                                                                          .width = 32,
                                                                          .heads = 2,
                                                                          .layers = 1,
                                                                          .positions = TH_POSITIONS_NONE,
                                                                          .block = {.norm = TH_RMS_NORM,
                                                                                    .gated = true,
                                                                                    .activation = TH_SILU,
                                                                                    .no_bias = true,
                                                                                    .scores = {.rotary = true}}});
    return th_error_code(r->ctx);
}

static th_status gguf_written(program_run *r)
{
    static const char text[] = "the numbers of the words of the text";
    th_tokenizer *tokenizer = th_tokenizer_train(r->ctx, text, sizeof text - 1, &(th_bpe_options){.vocabulary = 270});
    TRY(th_error_code(r->ctx));
    const th_status status = th_language_model_export_gguf(
        r->model, in_folder(r, "model.gguf"),
        &(th_gguf_export_options){.type = TH_Q8_0, .tokenizer = tokenizer, .chat_template = "{}", TH_END_TOKEN(3)});
    th_tokenizer_free(tokenizer);
    TRY(status);
    add_file(r, in_folder(r, "model.gguf"));
    return th_error_code(r->ctx);
}

static th_status gguf_read(program_run *r)
{
    int64_t begin = 0, end = 0;
    th_text text = {0};
    r->other = th_language_model_from_gguf(r->ctx, in_folder(r, "model.gguf"), &(th_gguf_load_options){.stored = true});
    TRY(th_error_code(r->ctx));
    add_number(r, (double)th_module_crc32c(r->other));
    th_tokenizer *tokenizer = th_tokenizer_from_gguf(r->ctx, in_folder(r, "model.gguf"));
    TRY(th_error_code(r->ctx));
    add_number(r, (double)th_tokenizer_size(tokenizer));
    th_tokenizer_free(tokenizer);
    TRY(th_gguf_begin_token(r->ctx, in_folder(r, "model.gguf"), &begin));
    TRY(th_gguf_end_token(r->ctx, in_folder(r, "model.gguf"), &end));
    add_number(r, (double)begin);
    add_number(r, (double)end);
    const th_status status = th_gguf_chat_template(r->ctx, in_folder(r, "model.gguf"), &text);
    if (status == TH_OK)
        add_text(r, text.bytes);
    th_text_free(&text);
    return status;
}

const program gguf = {.name = "gguf", .setup = gguf_setup, .step = {gguf_written, gguf_read}};

static th_status adapted(program_run *r)
{
    TRY(imported(r, FIXTURES "/hugging_face/llama"));
    return th_lora_attach(r->model, &(th_lora_options){.rank = 2});
}

static th_status adapter_saved(program_run *r)
{
    TRY(th_lora_save(r->model, in_folder(r, "adapter"), NULL));
    add_file(r, in_folder(r, "adapter/adapter_config.json"));
    add_file(r, in_folder(r, "adapter/adapter_model.safetensors"));
    TRY(th_lora_export_gguf(r->model, in_folder(r, "adapter.gguf"), NULL));
    add_file(r, in_folder(r, "adapter.gguf"));
    return th_error_code(r->ctx);
}

static th_status adapter_loaded(program_run *r)
{
    if (th_lora_count(r->model) > 0)
        TRY(th_lora_detach(r->model));
    TRY(th_lora_load(r->model, in_folder(r, "adapter")));
    add_number(r, th_module_crc32c(r->model));
    return th_error_code(r->ctx);
}

const program peft = {.name = "peft", .setup = adapted, .step = {adapter_saved, adapter_loaded}};
