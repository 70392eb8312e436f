/* Rules that all functions of models and files keep. While an error is pending, they return its code, and change neither
 * the error nor a model nor a file. Functions that change a model are refused while a gradient of it is checked. No
 * function leaves a scope, a file or memory behind, also if its files are damaged. */
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "tapehead/gradient_check.h"
#include "tapehead/models.h"
#include "tensor/context_struct.h"

#include "written_models.h"

static th_module *model, *dense, *adapted;
static th_optimizer *sgd;
static th_cache *cache;
static th_tokenizer *tokenizer;
static th_chat_template *chat;
static th_safetensors *weights;
static th_text text;
static th_token_list tokens;
static th_language_model_options options;
static int64_t number;
static double norm;

static const th_chat_message messages[] = {{"user", "Hello"}};
static const th_named_tensor *const no_tensors = NULL;

/* -- the calls -- */

#define STATUS(name, call)                                                                                             \
    static th_status name(void)                                                                                        \
    {                                                                                                                  \
        return call;                                                                                                   \
    }
#define POINTER(name, call)                                                                                            \
    static th_status name(void)                                                                                        \
    {                                                                                                                  \
        const void *made = call;                                                                                       \
        return made ? TH_OK : th_error_code(ctx);                                                                      \
    }

/* layers and optimizers */
STATUS(freeze, th_module_freeze(model, true))
STATUS(cast, th_module_cast(model, TH_FLOAT64))
STATUS(store, th_module_store(model, TH_BFLOAT16))
STATUS(step, th_optimizer_step(sgd))
STATUS(clip, th_clip_gradients(dense, 1, &norm))
STATUS(reset, th_cache_reset(cache))
STATUS(attach, th_lora_attach(model, NULL))
STATUS(merge, th_lora_merge(adapted))
STATUS(unmerge, th_lora_unmerge(adapted))
STATUS(detach, th_lora_detach(adapted))
STATUS(copy, th_lora_copy(model, adapted))
POINTER(dense_new, th_dense_new(ctx, 2, 2, NULL))
POINTER(embedding_new, th_embedding_new(ctx, 2, 2))
POINTER(layer_norm_new, th_layer_norm_new(ctx, 2, NULL))
POINTER(rms_norm_new, th_rms_norm_new(ctx, 2, NULL))
POINTER(dropout_new, th_dropout_new(ctx, 0.5))
POINTER(attention_new, th_multi_head_attention_new(ctx, 4, 2, NULL))
POINTER(block_new, th_transformer_block_new(ctx, 4, 2, NULL))
POINTER(encoder_new, th_transformer_encoder_new(ctx, 1, 4, 2, NULL))
POINTER(decoder_new, th_transformer_decoder_new(ctx, 1, 4, 2, NULL))
POINTER(transformer_new, th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = 3,
                                                                           .target_vocabulary = 3,
                                                                           .length = 4,
                                                                           .width = 4,
                                                                           .heads = 2,
                                                                           .encoder_layers = 1,
                                                                           .decoder_layers = 1}))
POINTER(language_model_new, th_language_model_new(ctx, &models[WHOLE].options))
POINTER(list_new, th_module_list_new(ctx))
POINTER(sgd_new, th_sgd_new(dense, &(th_sgd_options){.learning_rate = 1}))
POINTER(adam_new, th_adam_new(dense, &(th_adam_options){.learning_rate = 1}))
POINTER(adam_w_new, th_adam_w_new(dense, &(th_adam_options){.learning_rate = 1}))
POINTER(cache_new, th_cache_new(model, 1, 4))
POINTER(forward, th_module_forward(model, tokens_of(ctx)))
POINTER(loss, th_language_model_loss(model, tokens_of(ctx), tokens_of(ctx), NULL))
POINTER(residual, th_dense_residual(dense, tokens_of(ctx), tokens_of(ctx)))

/* files */
STATUS(weights_save, th_weights_save(model, in_folder("new")))
STATUS(weights_load, th_weights_load(model, in_folder("weights"), NULL))
STATUS(checkpoint_save, th_checkpoint_save(in_folder("new"), &(th_checkpoint){.model = model}))
STATUS(checkpoint_load, th_checkpoint_load(in_folder("checkpoint"), &(th_checkpoint){.model = model}))
STATUS(checkpoint_verify, th_checkpoint_verify(ctx, in_folder("checkpoint")))
STATUS(check_weights, th_language_model_check_weights(ctx, &models[WHOLE].options, in_folder("weights")))
STATUS(adapter_save, th_lora_save(adapted, in_folder("new"), NULL))
STATUS(adapter_load, th_lora_load(model, in_folder("adapter")))
STATUS(export_folder, th_language_model_export(model, in_folder("new"), NULL))
STATUS(folder_load, th_pretrained_load(model, in_folder("model"), NULL))
STATUS(folder_options, th_pretrained_options(ctx, in_folder("model"), &options))
STATUS(folder_end, th_pretrained_end_token(ctx, in_folder("model"), &number))
STATUS(export_gguf, th_language_model_export_gguf(model, in_folder("new"), NULL))
STATUS(gguf_template, th_gguf_chat_template(ctx, in_folder("model.gguf"), &text))
STATUS(gguf_end, th_gguf_end_token(ctx, in_folder("model.gguf"), &number))
STATUS(safetensors_write, th_safetensors_write(ctx, in_folder("new"), no_tensors, 0, NULL, 0))
STATUS(safetensors_read_into,
       th_safetensors_read_into(weights, "norm.weight", th_module_find_parameter(model, "norm.weight")))
STATUS(npy_write, th_npy_write(th_module_find_parameter(model, "norm.weight"), in_folder("new")))
STATUS(tape_html, th_tape_write_html(ctx, in_folder("new"), NULL))
STATUS(tape_python, th_tape_write_python(ctx, in_folder("new"), NULL))
POINTER(from_pretrained, th_language_model_from_pretrained(ctx, in_folder("model")))
POINTER(from_folder, th_language_model_from_folder(ctx, in_folder("model"), &(th_folder_load_options){.frozen = true}))
POINTER(from_shards, th_language_model_from_folder(ctx, in_folder("shards"), NULL))
POINTER(from_gguf, th_language_model_from_gguf(ctx, in_folder("model.gguf"), NULL))
POINTER(from_gguf_frozen,
        th_language_model_from_gguf(ctx, in_folder("model.gguf"), &(th_gguf_load_options){.frozen = true}))
POINTER(gguf_tokenizer, th_tokenizer_from_gguf(ctx, in_folder("model.gguf")))
POINTER(safetensors_open, th_safetensors_open(ctx, in_folder("model/model.safetensors")))
POINTER(safetensors_read, th_safetensors_read(weights, "norm.weight"))
POINTER(npy_read, th_npy_read(ctx, in_folder("weights.npy")))

/* texts */
STATUS(tokenizer_save, th_tokenizer_save(tokenizer, in_folder("new")))
STATUS(encode, th_tokenizer_encode(tokenizer, "text", 4, &tokens))
STATUS(encode_document, th_tokenizer_encode_document(tokenizer, "text", 4, &tokens))
STATUS(decode, th_tokenizer_decode(tokenizer, (const int32_t[]){1}, 1, &text))
STATUS(chat_write, th_chat_write(chat, messages, 1, NULL, &text))
STATUS(chat_encode, th_chat_encode(chat, tokenizer, messages, 1, NULL, &tokens, NULL))
STATUS(chat_text, th_chat_template_text(ctx, in_folder("model"), &text))
STATUS(instruction,
       th_instruction_encode(chat, tokenizer, "{\"prompt\": \"a\", \"completion\": \"b\"}", 34, "x", &tokens, &text))
POINTER(chat_new, th_chat_template_new(ctx, "chatml", NULL, NULL))
POINTER(chat_load, th_chat_template_load_as(ctx, in_folder("model"), "chatml"))
POINTER(tune_new, th_tune_new(model, tokenizer, chat, NULL))
POINTER(bytes_new, th_tokenizer_bytes_new(ctx))
POINTER(characters_new, th_tokenizer_characters_new(ctx, "abc", 3))
POINTER(train, th_tokenizer_train(ctx, "abc", 3, &(th_bpe_options){.vocabulary = 257}))
POINTER(train_word_piece, th_tokenizer_train_word_piece(ctx, "abc", 3, &(th_word_piece_options){.vocabulary = 20}))

#define CALL(name)                                                                                                     \
    {                                                                                                                  \
#name, name                                                                                                    \
    }
static const struct call {
    const char *name;
    th_status (*run)(void);
} calls[] = {
    CALL(step),

    CALL(clip),
    CALL(reset),
    CALL(merge),
    CALL(unmerge),
    CALL(detach),
    CALL(copy),
    CALL(dense_new),
    CALL(embedding_new),
    CALL(layer_norm_new),
    CALL(rms_norm_new),
    CALL(dropout_new),
    CALL(attention_new),
    CALL(block_new),
    CALL(encoder_new),
    CALL(decoder_new),
    CALL(transformer_new),
    CALL(language_model_new),
    CALL(list_new),
    CALL(sgd_new),
    CALL(adam_new),
    CALL(adam_w_new),
    CALL(cache_new),
    CALL(forward),
    CALL(loss),
    CALL(residual),
    CALL(weights_save),
    CALL(weights_load),
    CALL(checkpoint_save),
    CALL(checkpoint_load),
    CALL(checkpoint_verify),
    CALL(check_weights),
    CALL(adapter_save),
    CALL(adapter_load),
    CALL(attach),
    CALL(export_folder),
    CALL(folder_load),
    CALL(folder_options),
    CALL(folder_end),
    CALL(export_gguf),
    CALL(gguf_template),
    CALL(gguf_end),
    CALL(safetensors_write),
    CALL(safetensors_read_into),
    CALL(npy_write),
    CALL(tape_html),
    CALL(tape_python),
    CALL(from_pretrained),
    CALL(from_shards),
    CALL(from_folder),
    CALL(from_gguf),
    CALL(from_gguf_frozen),
    CALL(gguf_tokenizer),
    CALL(safetensors_open),
    CALL(safetensors_read),
    CALL(npy_read),
    CALL(tokenizer_save),
    CALL(encode),
    CALL(encode_document),
    CALL(decode),
    CALL(chat_write),
    CALL(chat_encode),
    CALL(chat_text),
    CALL(instruction),
    CALL(chat_new),
    CALL(chat_load),
    CALL(tune_new),
    CALL(bytes_new),
    CALL(characters_new),
    CALL(train),
    CALL(train_word_piece),
    CALL(freeze),
    CALL(cast),
    CALL(store),
};
enum { CALLS = sizeof calls / sizeof *calls };

/* -- objects and files for the calls -- */

static void make_models(void)
{
    static const char *const patterns[] = {"q_proj"};
    model = model_of(ctx, &models[WHOLE].options);
    adapted = model_of(ctx, &models[WHOLE].options);
    dense = th_dense_new(ctx, 2, 3, NULL);
    sgd = th_sgd_new(dense, &(th_sgd_options){.learning_rate = 1});
    cache = th_cache_new(model, 1, 8);
    ck_assert_int_eq(th_lora_attach(adapted, &(th_lora_options){.patterns = patterns, .n_patterns = 1}), TH_OK);
}

static void make_files(void)
{
    const th_gguf_export_options with_tokenizer = {.chat_template = "{{ messages }}"};
    const th_export_options in_shards = {.shard_bytes = 1 << 15};
    ck_assert(mkdir(in_folder("model"), 0700) == 0 && mkdir(in_folder("adapter"), 0700) == 0);
    ck_assert_int_eq(mkdir(in_folder("shards"), 0700), 0);
    ck_assert_int_eq(th_language_model_export(model, in_folder("shards"), &in_shards), TH_OK);
    ck_assert_int_eq(th_language_model_export(model, in_folder("model"), NULL), TH_OK);
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("model.gguf"), &with_tokenizer), TH_OK);
    ck_assert_int_eq(th_weights_save(model, in_folder("weights")), TH_OK);
    ck_assert_int_eq(th_checkpoint_save(in_folder("checkpoint"), &(th_checkpoint){.model = model}), TH_OK);
    ck_assert_int_eq(th_lora_save(adapted, in_folder("adapter"), NULL), TH_OK);
    ck_assert_int_eq(th_npy_write(th_module_find_parameter(model, "norm.weight"), in_folder("weights.npy")), TH_OK);
    weights = th_safetensors_open(ctx, in_folder("model/model.safetensors"));
}

static int64_t json_blocks, json_calls, json_fail_at;
static int descriptor; /* that the next file gets */

static void *allocate_json(size_t size)
{
    if (++json_calls == json_fail_at)
        return NULL;
    json_blocks++;
    return malloc(size);
}

static void release_json(void *memory_)
{
    json_blocks -= memory_ != NULL;
    free(memory_);
}

static void setup_all(void)
{
    json_set_alloc_funcs(allocate_json, release_json);
    json_blocks = 0;
    setup();
    descriptor = next_descriptor();
    make_models();
    make_files();
    tokenizer = th_tokenizer_bytes_new(ctx);
    chat = th_chat_template_new(ctx, "chatml", NULL, NULL);
    no_error();
}

static void teardown_all(void)
{
    th_safetensors_close(weights);
    th_chat_template_free(chat);
    th_text_free(&text);
    th_token_list_free(&tokens);
    teardown();
    ck_assert_int_eq(json_blocks, 0);
    ck_assert_int_eq(next_descriptor(), descriptor);
}

/* -- the tests -- */

/* Checks that a call left no trace. */
static void expect_unchanged(const char *name, uint32_t bits, uint32_t other_bits, int files)
{
    ck_assert_msg(th_module_crc32c(model) == bits && th_module_crc32c(adapted) == other_bits, "%s changed a model",
                  name);
    ck_assert_msg(count_files() == files && access(in_folder("new"), F_OK) != 0, "%s wrote a file", name);
    ck_assert_msg(text.count == 0 && tokens.count == 0, "%s appended something", name);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(model, "norm.weight")), TH_FLOAT32);
    ck_assert_int_gt(th_module_count_trainable(model), 0);
}

START_TEST(the_error_is_returned)
{
    const uint32_t bits = th_module_crc32c(model), other_bits = th_module_crc32c(adapted);
    const int files = count_files();
    th_reshape(th_module_find_parameter(model, "norm.weight"), TH_SHAPE(3));
    char message[400];
    snprintf(message, sizeof message, "%s", th_error_message(ctx));
    for (int i = 0; i < CALLS; i++) {
        const th_status status = calls[i].run();
        ck_assert_msg(status == TH_ERROR_SHAPE, "%s returns %d", calls[i].name, (int)status);
        ck_assert_msg(strcmp(th_error_message(ctx), message) == 0, "%s: %s", calls[i].name, th_error_message(ctx));
        th_error_clear(ctx);
        expect_unchanged(calls[i].name, bits, other_bits, files);
        th_reshape(th_module_find_parameter(model, "norm.weight"), TH_SHAPE(3));
        snprintf(message, sizeof message, "%s", th_error_message(ctx));
    }
    th_error_clear(ctx);
}
END_TEST

static th_tensor *checked(void *user, th_tensor *x)
{
    const struct call *call = user;
    const th_status status = call->run();
    ck_assert_msg(status == TH_ERROR_STATE, "%s returns %d", call->name, (int)status);
    return th_mul(x, x);
}

START_TEST(a_checked_model_does_not_change)
{
    static const struct call refused[] = {CALL(cast),         CALL(store),       CALL(step),   CALL(attach),
                                          CALL(merge),        CALL(unmerge),     CALL(detach), CALL(weights_load),
                                          CALL(adapter_load), CALL(folder_load), CALL(copy),   CALL(tune_new)};
    const uint32_t bits = th_module_crc32c(model), other_bits = th_module_crc32c(adapted);
    const int files = count_files();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        th_tensor *x = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2));
        th_gradient_report report;
        const th_status status = th_check_gradient_of(checked, (void *)(uintptr_t)&refused[i], x, NULL, &report);
        ck_assert_msg(status == TH_ERROR_STATE, "%s: the check returns %d", refused[i].name, (int)status);
        expect_error(TH_ERROR_STATE, "must not be called while the gradient of its caller is being checked");
        expect_unchanged(refused[i].name, bits, other_bits, files);
    }
}
END_TEST

/* Runs all calls. Returns how many failed. */
static int run_all(const char *what)
{
    const int scopes = ctx->scope_depth, no_grad = ctx->no_grad_depth;
    int failed = 0;
    for (int i = 0; i < CALLS; i++) {
        const th_status status = calls[i].run();
        ck_assert_msg(status == th_error_code(ctx), "%s, %s returns %d with the error %d", what, calls[i].name,
                      (int)status, (int)th_error_code(ctx));
        ck_assert_msg(ctx->scope_depth == scopes && ctx->no_grad_depth == no_grad, "%s, %s: %d scopes, %d no_grad",
                      what, calls[i].name, ctx->scope_depth, ctx->no_grad_depth);
        failed += status != TH_OK;
        th_error_clear(ctx);
        th_tape_clear(ctx);
    }
    return failed;
}

START_TEST(nothing_stays_open)
{
    const int failed = run_all("valid files");
    ck_assert_int_lt(failed, 20);
}
END_TEST

/* Each file is cut, and has wrong bytes: every call is an error or not, and nothing is left. */
START_TEST(damaged_files_leave_nothing)
{
    static const char *const files[] = {
        "model/config.json",           "model/model.safetensors",           "model.gguf", "weights", "checkpoint",
        "adapter/adapter_config.json", "adapter/adapter_model.safetensors", "weights.npy"};
    size_t bytes;
    char *file = read_bytes(in_folder(files[_i]), &bytes), *damaged = malloc(bytes);
    int failed = 0;
    th_safetensors_close(weights);
    weights = NULL;
    for (int part = 0; part < 16; part++) {
        const size_t at = part < 8 ? (bytes - 1) * (size_t)part / 7 : (size_t)(part - 8) * 7 % bytes;
        memcpy(damaged, file, bytes);
        if (part >= 8)
            damaged[at] = (char)(damaged[at] ^ (part % 2 ? 0x41 : 0x02));
        write_bytes(in_folder(files[_i]), damaged, part < 8 ? at : bytes);
        failed += run_all(files[_i]);
    }
    ck_assert_int_gt(failed, 16);
    free(file);
    free(damaged);
}
END_TEST

/* Runs a call while an allocation fails. The call is an error, or succeeds with less memory. A second call of some functions
 * is out of order. */
static void expect_memory(const struct call *call, int64_t at, th_status usual)
{
    const int scopes = ctx->scope_depth, no_grad = ctx->no_grad_depth;
    const th_status status = call->run();
    ck_assert_msg(status == th_error_code(ctx), "%s, allocation %d: returns %d with the error %d", call->name, (int)at,
                  (int)status, (int)th_error_code(ctx));
    const bool possible = status == TH_OK || status == usual || status == TH_ERROR_MEMORY || status == TH_ERROR_STATE;
    ck_assert_msg(possible, "%s, allocation %d: %s", call->name, (int)at, th_error_message(ctx));
    ck_assert_msg(ctx->scope_depth == scopes && ctx->no_grad_depth == no_grad,
                  "%s, allocation %d: %d scopes, %d no_grad", call->name, (int)at, ctx->scope_depth,
                  ctx->no_grad_depth);
    th_error_clear(ctx);
    th_tape_clear(ctx);
}

/* Every allocation of every call fails in turn. The allocations of the JSON library fail too. */
START_TEST(memory_may_run_out)
{
    const struct call *call = &calls[_i];
    const th_status usual = call->run(); /* some fail because of calls before them */
    th_error_clear(ctx);
    th_tape_clear(ctx);
    bool reached = true;
    for (int64_t at = 1; reached; at += 1 + at / 24) {
        memory.fail_at = memory.calls + at;
        expect_memory(call, at, usual);
        reached = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
    }
    reached = true;
    for (int64_t at = 1; reached; at += 1 + at / 24) {
        json_fail_at = json_calls + at;
        expect_memory(call, at, usual);
        reached = json_calls >= json_fail_at;
        json_fail_at = 0;
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("calls", setup_all, teardown_all);
    tcase_add_test(tests, the_error_is_returned);
    tcase_add_test(tests, a_checked_model_does_not_change);
    tcase_add_test(tests, nothing_stays_open);
    tcase_add_loop_test(tests, damaged_files_leave_nothing, 0, 8);
    tcase_add_loop_test(tests, memory_may_run_out, 0, CALLS);
    return run_suites();
}
