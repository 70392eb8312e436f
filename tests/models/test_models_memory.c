/* Files and conversations of models when memory runs out: every allocation of the C library fails in turn, and every
 * allocation of the context. The call fails with TH_ERROR_MEMORY (TH_ERROR_FILE where jansson gives no reason), nothing
 * leaks, and the file that was there stays. */
#include <stdio.h>
#include <string.h>

#include "tapehead/models.h"

#include "counted_malloc.h"
#include "folder.h"

#include "context.h"

static test_memory memory;
static th_tokenizer *tokenizer;
static th_module *model;

static const th_language_model_options small = {.vocabulary = 258,
                                                .length = 4,
                                                .width = 4,
                                                .heads = 2,
                                                .layers = 1,
                                                .positions = TH_POSITIONS_NONE,
                                                .block = {.norm = TH_RMS_NORM,
                                                          .gated = true,
                                                          .activation = TH_SILU,
                                                          .mlp_width = 4,
                                                          .no_bias = true,
                                                          .scores = {.rotary = true}}};

/* Opens a context with a tokenizer and a model, which are used and do not fail. */
static void open_all(void)
{
    memory.fail_at = 0;
    ctx = th_context_new(&(th_context_options){.threads = 1, .seed = 3, .allocator = allocator_of(&memory)});
    tokenizer = th_tokenizer_bytes_new(ctx);
    ck_assert_int_eq(th_tokenizer_add(tokenizer, "<e>"), 256);
    ck_assert_int_eq(th_tokenizer_add(tokenizer, "<b>"), 257);
    model = th_language_model_new(ctx, &small);
    no_error();
}

static th_status export_file(const char *name)
{
    const th_gguf_export_options given = {.tokenizer = tokenizer, .chat_template = "{{ x }}", TH_END_TOKEN(256)};
    return th_language_model_export_gguf(model, in_folder(name), &given);
}

static const char config[] = "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 3, \"sliding_window_pattern\": "
                             "2, \"eos_token_id\": [1, 2], "
                             "\"head_dim\": 4, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"longrope\", "
                             "\"short_factor\": [1, 2], "
                             "\"long_factor\": [2, 3], \"factor\": 2, \"original_max_position_embeddings\": 65536}}}";
static const char chat_config[] = "{\"bos_token\": \"<b>\", \"eos_token\": {\"content\": \"<e>\"}, \"chat_template\": "
                                  "[{\"name\": \"default\", \"template\": \"x\"}]}";

static void write_text(const char *name, const char *text)
{
    write_bytes(in_folder(name), text, strlen(text));
}

static void setup(void)
{
    make_folder();
    open_all();
    ck_assert_int_eq(export_file("a.gguf"), TH_OK);
    write_text("config.json", config);
    write_text("generation_config.json", "{\"eos_token_id\": [3, 4]}");
    write_text("tokenizer_config.json", chat_config);
    write_text("special_tokens_map.json", "{\"bos_token\": \"<b>\"}");
}

static void teardown(void)
{
    close_context();
    remove_folder();
    ck_assert_uint_eq(memory.bytes, 0);
}

/* -- actions -- */

static bool export_gguf(void)
{
    return export_file("b.gguf") == TH_OK;
}

static bool load_gguf(void)
{
    th_module *read = th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL);
    th_module_free(read);
    return read != NULL;
}

static bool load_stored_gguf(void)
{
    th_module *read = th_language_model_from_gguf(ctx, in_folder("a.gguf"),
                                                  &(th_gguf_load_options){.stored = true, .no_mapping = true});
    th_module_free(read);
    return read != NULL;
}

static bool tokenizer_of_gguf(void)
{
    th_tokenizer *read = th_tokenizer_from_gguf(ctx, in_folder("a.gguf"));
    th_tokenizer_free(read);
    return read != NULL;
}

static bool texts_of_gguf(void)
{
    th_text text = {0};
    int64_t token = 0;
    const bool good = th_gguf_chat_template(ctx, in_folder("a.gguf"), &text) == TH_OK &&
                      th_gguf_begin_token(ctx, in_folder("a.gguf"), &token) == TH_OK &&
                      th_gguf_end_token(ctx, in_folder("a.gguf"), &token) == TH_OK;
    th_text_free(&text);
    return good;
}

static bool options_of_folder(void)
{
    int64_t tokens[4];
    int n;
    th_language_model_options o;
    return th_pretrained_options(ctx, folder, &o) == TH_OK &&
           th_pretrained_end_tokens(ctx, folder, tokens, 4, &n) == TH_OK;
}

static bool export_folder(void)
{
    return th_language_model_export(model, in_folder("model"), &(th_export_options){TH_END_TOKEN(3)}) == TH_OK;
}

static bool load_chat(void)
{
    th_text text = {0};
    th_chat_template *chat = th_chat_template_load_as(ctx, folder, "llama-3");
    const bool good = chat && th_chat_template_text(ctx, folder, &text) == TH_OK;
    th_text_free(&text);
    th_chat_template_free(chat);
    return good;
}

static const th_chat_message talk[] = {{"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello"}};

static bool use_chat(const char *kind)
{
    th_text text = {0}, marks = {0};
    th_token_list tokens = {0};
    th_chat_template *chat = th_chat_template_new(ctx, kind, "<b>", "<e>");
    const bool good = chat && th_chat_write(chat, talk, 3, NULL, &text) == TH_OK &&
                      th_chat_encode(chat, tokenizer, talk, 3, &(th_chat_options){0}, &tokens, &marks) == TH_OK;
    th_text_free(&text);
    th_text_free(&marks);
    th_token_list_free(&tokens);
    th_chat_template_free(chat);
    return good;
}

/* A tokenizer that changes the text: marks come from the tokens of its beginnings. */
static bool use_a_changed_text(void)
{
    static const char tokens_of_all[] = "{\"normalizer\": {\"type\": \"Lowercase\"}, \"model\": {\"unk_token\": \"_\", "
                                        "\"vocab\": {\"i\": 0, \"m\": 1, \"_\": 2, \"h\": 3}, "
                                        "\"merges\": []}}";
    const long made = calls, failing = fail_at;
    fail_at = 0;
    write_text("tokenizer.json", tokens_of_all);
    calls = made;
    fail_at = failing;
    th_text marks = {0};
    th_token_list tokens = {0};
    th_tokenizer *changing = th_tokenizer_load(ctx, in_folder("tokenizer.json"));
    th_chat_template *chat = changing ? th_chat_template_new(ctx, "chatml", "<b>", "<e>") : NULL;
    const bool good = chat && th_chat_encode(chat, changing, talk, 3, &(th_chat_options){0}, &tokens, &marks) == TH_OK;
    th_text_free(&marks);
    th_token_list_free(&tokens);
    th_chat_template_free(chat);
    th_tokenizer_free(changing);
    return good;
}

static bool use_qwen(void)
{
    return use_chat("qwen-3");
}

static bool use_smollm(void)
{
    return use_chat("smollm-3");
}

static bool use_llama_2(void)
{
    return use_chat("llama-2");
}

static bool encode_lines(void)
{
    static const char lines[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"
        "{\"prompt\": \"abc\", \"completion\": \"de\"}\n{\"text\": \"xyz\"}\n"
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"x\"}], \"completion\": [{\"role\": \"assistant\", "
        "\"content\": \"yz\"}]}\n";
    th_chat_template *chat = th_chat_template_new(ctx, "chatml", NULL, "<e>");
    th_token_writer *writer = chat ? th_token_writer_open_marked(ctx, in_folder("a.tokens"), 258) : NULL;
    th_status status = writer ? th_instructions_append(chat, tokenizer, lines, sizeof lines - 1, "data", writer, NULL)
                              : TH_ERROR_MEMORY;
    if (status == TH_OK)
        status = th_token_writer_close(writer);
    else
        th_token_writer_free(writer);
    th_chat_template_free(chat);
    return status == TH_OK;
}

static const struct {
    const char *name;
    bool (*act)(void);
} actions[] = {
    {"export_gguf", export_gguf},
    {"load_gguf", load_gguf},
    {"load_stored_gguf", load_stored_gguf},
    {"tokenizer_of_gguf", tokenizer_of_gguf},
    {"texts_of_gguf", texts_of_gguf},
    {"options_of_folder", options_of_folder},
    {"export_folder", export_folder},
    {"load_chat", load_chat},
    {"use_a_changed_text", use_a_changed_text},
    {"use_qwen", use_qwen},
    {"use_smollm", use_smollm},
    {"use_llama_2", use_llama_2},
    {"encode_lines", encode_lines},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

/* -- every allocation fails -- */

/* Runs the action without the n-th allocation: of the C library, or of the context. Returns how many it made. */
static long run_without(int action, bool of_context, long n)
{
    char message[400];
    const long before = live;
    open_all();
    memory.calls = calls = 0;
    memory.fail_at = of_context ? n : 0;
    fail_at = of_context ? 0 : n;
    const bool good = actions[action].act();
    const long made = of_context ? (long)memory.calls : calls;
    memory.fail_at = fail_at = 0;
    const th_status code = th_error_code(ctx);
    snprintf(message, sizeof message, "%s without %ld of %ld: %s", actions[action].name, n, made,
             th_error_message(ctx));
    th_context_free(ctx);
    const bool refused = code == TH_ERROR_MEMORY || (code == TH_ERROR_FILE && !of_context);
    ck_assert_msg(good ? code == TH_OK : refused, "%s", message);
    ck_assert_msg(n == 0 ? good : !good || !of_context, "%s", message);
    ck_assert_msg(n == 0 || live == before, "%ld are lost: %s", live - before, message);
    ck_assert_uint_eq(memory.bytes, 0);
    return made;
}

/* The first and the last allocations fail in turn, and a sample of the others. */
START_TEST(without_memory)
{
    if (!counts_malloc())
        return;
    close_context();
    for (int of_context = 0; of_context < 2; of_context++) {
        const long all = run_without(_i, of_context, 0);
        for (long n = 1; n <= all; n += n < 60 || all - n < 60 ? 1 : 1 + n / 12)
            run_without(_i, of_context, n);
    }
    open_all();
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("models_memory", setup, teardown);
    tcase_add_loop_test(tests, without_memory, 0, ACTIONS);
    return run_suites();
}
