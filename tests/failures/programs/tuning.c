/* A tuner inside a program, and copies of its adapters. */
#include "subjects.h"

#include <string.h>

static const th_language_model_options sizes = {.vocabulary = 256, .length = 64, .width = 8, .heads = 2, .layers = 1};

static th_status models_made(program_run *r)
{
    r->model = th_language_model_new(r->ctx, &sizes);
    r->other = th_language_model_new(r->ctx, &sizes);
    return th_error_code(r->ctx);
}

static th_status taught(program_run *r, th_tune *tune)
{
    static const th_chat_message messages[] = {{"user", "a"}, {"assistant", "b"}};
    static const char line[] = "{\"prompt\": \"abc\", \"completion\": \"de\"}";
    TRY(th_tune_add(tune, messages, 2));
    TRY(th_tune_add_json(tune, line, sizeof line - 1, "line"));
    for (int i = 0; i < 3; i++)
        TRY(th_tune_step(tune));
    const th_tune_progress p = th_tune_progress_of(tune);
    add_number(r, p.loss + (double)(100 * p.steps + p.targets));
    add_number(r, th_optimizer_learning_rate(th_tune_optimizer(tune)));
    TRY(th_tune_save(tune, in_folder(r, "tuned")));
    add_file(r, in_folder(r, "tuned/adapter_model.safetensors"));
    TRY(th_tune_save(tune, in_folder(r, "tuned.gguf")));
    add_file(r, in_folder(r, "tuned.gguf"));
    return th_error_code(r->ctx);
}

/* (A repeated step begins with the random numbers of the first attempt, and without its adapters.) */
static th_status tuned(program_run *r)
{
    th_set_seed(r->ctx, PROGRAM_SEED);
    th_set_step(r->ctx, 0);
    if (th_lora_count(r->model) > 0)
        TRY(th_lora_detach(r->model));
    th_tokenizer *tokenizer = th_tokenizer_bytes_new(r->ctx);
    th_chat_template *chat = th_chat_template_new(r->ctx, "plain", NULL, "\n");
    th_tune *tune =
        th_tune_new(r->model, tokenizer, chat,
                    &(th_tune_options){
                        .lora = {.rank = 2, .dropout = 0.1}, .length = 20, .micro_batches = 3, .base_model = "base"});
    const th_status status = tune ? taught(r, tune) : th_error_code(r->ctx);
    th_tune_free(tune);
    th_chat_template_free(chat);
    th_tokenizer_free(tokenizer);
    return status;
}

static th_status adapters_copied(program_run *r)
{
    if (th_lora_count(r->other) > 0)
        TRY(th_lora_detach(r->other));
    TRY(th_lora_copy(r->other, r->model));
    add_number(r, th_module_crc32c(r->other));
    return th_error_code(r->ctx);
}

const program tuning_inside = {.name = "tuning_inside", .setup = models_made, .step = {tuned, adapters_copied}};
