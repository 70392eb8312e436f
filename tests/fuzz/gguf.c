/* Fuzz target: GGUF files. A model that can be read is read twice with the same bits, with weights as float32 and as they are
 * stored; it is written and read again. A tokenizer encodes and decodes; it is written, and encodes the same text again. */
#include "tapehead/tapehead.h"

#include "fuzz.h"

enum { MEMORY = 16 << 20, MAX_PARAMETERS = 1 << 16, MAX_TOKENS = 1 << 12 };

static void check_export(th_context *ctx, th_module *model)
{
    const char *path = fuzz_path("b.gguf");
    const th_status status = th_language_model_export_gguf(model, path, NULL);
    if (fuzz_failed_with(ctx, status != TH_OK, TH_ERROR_ARGUMENT))
        return;
    th_module *again = th_language_model_from_gguf(ctx, path, NULL);
    FUZZ_CHECK(again != NULL, "%s", th_error_message(ctx));
    FUZZ_CHECK(th_module_count(again) >= th_module_count(model), "the model became smaller");
}

static void check_model(const char *path)
{
    th_context *ctx = fuzz_context(MEMORY);
    th_module *model = th_language_model_from_gguf(ctx, path, NULL);
    const bool failed = fuzz_rejected(ctx, model == NULL, path);
    th_module *frozen = th_language_model_from_gguf(ctx, path, &(th_gguf_load_options){.stored = true});
    if (fuzz_rejected(ctx, frozen == NULL, path) || failed) {
        fuzz_context_free(ctx);
        return;
    }
    FUZZ_CHECK(th_module_count(frozen) == th_module_count(model), "the stored model has another size");
    FUZZ_CHECK(th_module_store(frozen, TH_FLOAT32) == TH_OK, "%s", th_error_message(ctx));
    FUZZ_CHECK(th_module_crc32c(frozen) == th_module_crc32c(model), "stored weights differ");
    if (th_module_count(model) <= MAX_PARAMETERS)
        check_export(ctx, model);
    fuzz_context_free(ctx);
}

/* Writes the tokenizer with a small model. The tokenizer of that file gives the same tokens. */
static void check_written_tokenizer(th_context *ctx, const th_tokenizer *t, const char *text, size_t bytes,
                                    const th_token_list *tokens)
{
    const th_language_model_options tiny = {
        .vocabulary = th_tokenizer_size(t), .length = 8, .width = 2, .heads = 1, .layers = 1};
    const char *path = fuzz_path("c.gguf");
    th_token_list again = {0};
    if (th_tokenizer_size(t) > MAX_TOKENS)
        return;
    th_module *model = th_language_model_new(ctx, &tiny);
    FUZZ_CHECK(model != NULL, "%s", th_error_message(ctx));
    const th_status status = th_language_model_export_gguf(model, path, &(th_gguf_export_options){.tokenizer = t});
    if (fuzz_failed_with(ctx, status != TH_OK, TH_ERROR_ARGUMENT))
        return;
    th_tokenizer *written = th_tokenizer_from_gguf(ctx, path);
    FUZZ_CHECK(written != NULL, "%s", th_error_message(ctx));
    FUZZ_CHECK(th_tokenizer_encode(written, text, bytes, &again) == TH_OK, "%s", th_error_message(ctx));
    FUZZ_CHECK(again.count == tokens->count &&
                   (again.count == 0 || memcmp(again.token, tokens->token, again.count * sizeof *again.token) == 0),
               "the written tokenizer has other tokens");
    th_token_list_free(&again);
}

static void check_tokenizer(const char *path)
{
    static const char text[] = "It's a text.\n 12 \xff";
    th_token_list tokens = {0};
    th_text decoded = {0}, template = {0};
    int64_t end = -1;
    th_context *ctx = fuzz_context(MEMORY);
    (void)fuzz_rejected(ctx, th_gguf_chat_template(ctx, path, &template) != TH_OK, path);
    (void)fuzz_rejected(ctx, th_gguf_end_token(ctx, path, &end) != TH_OK, path);
    FUZZ_CHECK(end >= -1, "the end token is %lld", (long long)end);
    th_tokenizer *t = th_tokenizer_from_gguf(ctx, path);
    if (!fuzz_rejected(ctx, t == NULL, path) &&
        !fuzz_failed(ctx, th_tokenizer_encode(t, text, sizeof text - 1, &tokens) != TH_OK)) {
        (void)fuzz_failed(ctx, th_tokenizer_decode(t, tokens.token, tokens.count, &decoded) != TH_OK);
        check_written_tokenizer(ctx, t, text, sizeof text - 1, &tokens);
    }
    th_token_list_free(&tokens);
    th_text_free(&decoded);
    th_text_free(&template);
    fuzz_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)fuzz_write("a.gguf", data, size);
    check_model(fuzz_path("a.gguf"));
    check_tokenizer(fuzz_path("a.gguf"));
    return 0;
}
