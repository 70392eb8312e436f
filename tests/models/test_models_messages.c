/* The whole message of every wrong argument of the functions for chat templates, instruction data and GGUF files: it
 * begins with the function's name, and has the wrong value. */
#include <string.h>

#include "tapehead/models.h"

#include "written_models.h"

static void expect_message(th_status code, const char *message)
{
    ck_assert_msg(th_error_code(ctx) == code, "code %d: %s", (int)th_error_code(ctx), th_error_text(ctx));
    ck_assert_str_eq(th_error_text(ctx), message);
    th_error_clear(ctx);
}

#define ARGUMENT(call, message)                                                                                        \
    do {                                                                                                               \
        ck_assert_int_eq((call), TH_ERROR_ARGUMENT);                                                                   \
        expect_message(TH_ERROR_ARGUMENT, message);                                                                    \
    } while (0)

/* -- chat -- */

#define KINDS                                                                                                          \
    "plain, chatml, chatml-bos, qwen-1.5, qwen-2, qwen-2.5, qwen-2.5-math, qwen-3, smollm-2, smollm-3, llama-2, "      \
    "llama-3, llama-3.1, llama-3.2, mistral-1, mistral-0.1, mistral-1-system, mistral-0.3, mistral-0.3-trim, "         \
    "mistral-nemo, mistral-small, gemma, gemma-3, phi-3, phi-3.5, phi-3-medium, phi-4-mini, olmo-2, tulu, zephyr"

START_TEST(chat_templates)
{
    th_text text = {0};
    static char long_path[4097];
    ck_assert_ptr_null(th_chat_template_new(ctx, NULL, NULL, NULL));
    expect_message(TH_ERROR_ARGUMENT, "chat_template: the kind NULL is unknown; the known kinds are " KINDS);
    ck_assert_ptr_null(th_chat_template_new(ctx, "Plain", NULL, NULL));
    expect_message(TH_ERROR_ARGUMENT, "chat_template: the kind Plain is unknown; the known kinds are " KINDS);
    ck_assert_ptr_null(th_chat_template_load(ctx, NULL));
    expect_message(TH_ERROR_ARGUMENT, "chat_template: the path is NULL or too long");
    for (size_t bytes = 4094; bytes <= 4096; bytes++) {
        memset(long_path, '/', bytes);
        long_path[bytes] = 0;
        const th_chat_template *chat = th_chat_template_load(ctx, long_path);
        ck_assert_int_eq(chat == NULL, bytes == 4096);
        if (chat == NULL)
            expect_message(TH_ERROR_ARGUMENT, "chat_template: the path is NULL or too long");
    }
    ARGUMENT(th_chat_template_text(ctx, NULL, &text), "chat_template: the path is NULL or too long");
    ARGUMENT(th_chat_template_text(ctx, folder, NULL), "chat_template: the text is NULL");
    ck_assert_int_eq(th_chat_template_text(NULL, folder, &text), TH_ERROR_ARGUMENT);
    expect_message(TH_ERROR_ARGUMENT, "chat_template: the context is NULL");
    ck_assert_ptr_null(th_chat_template_kind(NULL));
    ck_assert_ptr_null(th_chat_template_end(NULL));
    ck_assert_ptr_null(th_chat_kind_name(-1));
    ck_assert_ptr_null(th_chat_kind_name(30));
    ck_assert_str_eq(th_chat_kind_name(29), "zephyr");
}
END_TEST

START_TEST(conversations)
{
    static const th_chat_message hello = {"user", "hello"};
    th_text text = {0}, marks = {0};
    th_token_list tokens = {0};
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    th_chat_template *chat = th_chat_template_new(ctx, "chatml", NULL, NULL);
    ck_assert_int_eq(th_chat_write(NULL, &hello, 1, NULL, &text), TH_ERROR_ARGUMENT);
    expect_message(TH_ERROR_ARGUMENT, "chat_write: the chat template is NULL");
    ck_assert_int_eq(th_chat_encode(NULL, t, &hello, 1, NULL, &tokens, &marks), TH_ERROR_ARGUMENT);
    expect_message(TH_ERROR_ARGUMENT, "chat_encode: the chat template is NULL");
    ARGUMENT(th_chat_write(chat, &hello, 1, NULL, NULL), "chat_write: the text is NULL");
    ARGUMENT(th_chat_encode(chat, NULL, &hello, 1, NULL, &tokens, &marks),
             "chat_encode: the tokenizer or the list of tokens is NULL");
    ARGUMENT(th_chat_encode(chat, t, &hello, 1, NULL, NULL, &marks),
             "chat_encode: the tokenizer or the list of tokens is NULL");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(th_chat_write(chat, i ? &hello : NULL, i ? 0 : 1, NULL, &text), TH_ERROR_VALUE);
        expect_message(TH_ERROR_VALUE, "chat_write: the conversation has no messages");
        ck_assert_int_eq(th_chat_encode(chat, t, i ? &hello : NULL, i ? 0 : 1, NULL, &tokens, &marks), TH_ERROR_VALUE);
        expect_message(TH_ERROR_VALUE, "chat_write: the conversation has no messages");
    }
    ck_assert(tokens.count == 0 && marks.count == 0 && text.count == 0);
}
END_TEST

START_TEST(refused_messages)
{
    static const struct {
        const char *kind, *message;
        th_chat_message talk[3];
        size_t count;
    } cases[] = {
        {"chatml", "1: the role or the content is NULL", {{NULL, "a"}}, 1},
        {"chatml", "2: the role or the content is NULL", {{"user", "a"}, {"user", NULL}}, 2},
        {"chatml",
         "2: the role is \"bot\"; it must be system, user, assistant or tool",
         {{"user", "a"}, {"bot", "b"}},
         2},
        {"gemma",
         "1: the model does not know system messages; put the text into the first message of the user",
         {{"system", "a"}, {"user", "b"}},
         2},
        {"llama-3.1",
         "3: only the first message may be a system message",
         {{"user", "a"}, {"assistant", "b"}, {"system", "c"}},
         3},
        {"gemma-3", "2: only the first message may be a system message", {{"system", "a"}, {"system", "b"}}, 2},
        {"mistral-nemo",
         "3: user and assistant must alternate, beginning with the user",
         {{"system", "a"}, {"user", "b"}, {"user", "c"}},
         3},
        {"llama-2", "1: the system message needs a message of the user after it", {{"system", "a"}}, 1},
        {"mistral-0.3",
         "1: the template leaves a system message out when the conversation ends with an answer; put the text into the "
         "first message of the user",
         {{"system", "a"}, {"user", "b"}, {"assistant", "c"}},
         3},
        {"smollm-3",
         "1: SmolLM 3 needs a system message, such as /no_think, or the model's own template",
         {{"user", "a"}},
         1},
    };
    char message[500];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_text text = {0};
        const th_chat_template *chat = th_chat_template_new(ctx, cases[i].kind, NULL, NULL);
        ck_assert_int_eq(th_chat_write(chat, cases[i].talk, cases[i].count, NULL, &text), TH_ERROR_VALUE);
        const bool by_program = strstr(cases[i].message, "NULL") == NULL;
        const char *text_of_error = th_error_text(ctx), *place = strstr(text_of_error, ", line ");
        snprintf(message, sizeof message,
                 "chat_write: the chat template %s%.*s: the template refuses the conversation: "
                 "message %s",
                 cases[i].kind, place ? (int)strcspn(place, ":") : 0, place ? place : "", cases[i].message);
        if (!by_program)
            snprintf(message, sizeof message, "chat_write: message %s", cases[i].message);
        expect_message(TH_ERROR_VALUE, message);
    }
}
END_TEST

#define NEAREST                                                                                                        \
    "; the nearest format is {\"messages\": [{\"role\": \"user\", \"content\": \"a text\"}, {\"role\": "               \
    "\"assistant\", "                                                                                                  \
    "\"content\": \"a text\"}]}"

START_TEST(instructions)
{
    static const char needs[] =
        "instructions: needs a tokenizer, a line, and lists of tokens and marks of the same length";
    th_token_list tokens = {0};
    th_text marks = {0}, longer = {.count = 1};
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    const th_chat_template *chat = th_chat_template_new(ctx, "chatml", NULL, NULL);
    th_token_writer *writer = th_token_writer_open_marked(ctx, in_folder("a.tokens"), 256);
    ck_assert_int_eq(th_instruction_encode(NULL, t, "{}", 2, "x", &tokens, &marks), TH_ERROR_ARGUMENT);
    expect_message(TH_ERROR_ARGUMENT, "instructions: the chat template is NULL");
    ARGUMENT(th_instruction_encode(chat, NULL, "{}", 2, "x", &tokens, &marks), needs);
    ARGUMENT(th_instruction_encode(chat, t, NULL, 2, "x", &tokens, &marks), needs);
    ARGUMENT(th_instruction_encode(chat, t, "{}", 2, "x", NULL, &marks), needs);
    ARGUMENT(th_instruction_encode(chat, t, "{}", 2, "x", &tokens, NULL), needs);
    ARGUMENT(th_instruction_encode(chat, t, "{}", 2, "x", &tokens, &longer), needs);
    ck_assert_int_eq(th_instructions_append(NULL, t, "", 0, "x", writer, NULL), TH_ERROR_ARGUMENT);
    expect_message(TH_ERROR_ARGUMENT, "instructions: the chat template is NULL");
    ARGUMENT(th_instructions_append(chat, t, NULL, 0, "x", writer, NULL),
             "instructions: the text or the writer is NULL");
    ARGUMENT(th_instructions_append(chat, t, "", 0, "x", NULL, NULL), "instructions: the text or the writer is NULL");
    static const struct {
        const char *line, *message;
    } lines[] = {
        {"[]", "the line is not a JSON object: []; each line is one example, such as {\"prompt\": \"a text\", "
               "\"completion\": \"a text\"}"},
        {" {} 5", "the line has more text after its object: 5; each line is one example, a JSON object"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"a\", "
         "\"tool_calls\": [1]}]}",
         "the \"tool_calls\" of message 2 of \"messages\" must be like [{\"function\": {\"name\": \"a text\", "
         "\"arguments\": {}}}]"},
        {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": [5]}",
         "message 1 of \"completion\" must be like {\"role\": \"user\", \"content\": \"a text\"}; it is a number"},
        {"{\"prompt\": [{}], \"completion\": [5]}",
         "message 1 of \"prompt\" must be like {\"role\": \"user\", \"content\": \"a text\"}; it has no fields"},
        {"{\"messages\": {}}", "\"messages\" must be an array of messages, and not empty; it is an object"},
        {"{\"tools\": \"x\", \"text\": \"a\"}", "\"tools\" is a text; it must be an array"},
        {"{\"a\": 1, \"b\": false, \"c\": \"\"}", "it has \"a\" (a number), \"b\" (false) and \"c\" (a text)" NEAREST},
        {"{\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1, \"e\": 1, \"f\": 1}",
         "it has \"a\" (a number), \"b\" (a number), \"c\" (a number), \"d\" (a number), \"e\" (a number) and \"f\" (a "
         "number)" NEAREST},
        {"{\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1, \"e\": 1, \"f\": 1, \"g\": 1}",
         "it has \"a\" (a number), \"b\" (a number), \"c\" (a number), \"d\" (a number), \"e\" (a number), \"f\" (a "
         "number) and 1 more" NEAREST},
        {"{\"prompt\": \"a\", \"completion\": \"\"}",
         "nothing in this example counts: it has no answer of the assistant, or an empty completion"},
        {"{\"messages\": [{\"role\": \"x\", \"content\": \"a\"}]}",
         "chat_write: the chat template chatml, line 9, column 28: the template refuses the conversation: message 1: "
         "the "
         "role is \"x\"; it must be system, user, assistant or tool"},
    };
    char message[500];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int named = 0; named < 2; named++) {
            const char *line = lines[i].line;
            ck_assert_int_eq(
                th_instruction_encode(chat, t, line, strlen(line), named ? "line 8" : NULL, &tokens, &marks),
                TH_ERROR_VALUE);
            snprintf(message, sizeof message, "instructions: %s: %s", named ? "line 8" : "the line", lines[i].message);
            expect_message(TH_ERROR_VALUE, message);
            ck_assert(tokens.count == 0 && marks.count == 0);
        }
    th_token_writer_free(writer);
    th_token_list_free(&tokens);
    th_text_free(&marks);
}
END_TEST

/* -- GGUF -- */

#define ARCHITECTURES                                                                                                  \
    "qwen2, llama, qwen3, smollm3, phi3, olmo2, gemma2, gemma3, gptneox, phi2, minicpm, granite, bert and gpt2"

START_TEST(gguf_files)
{
    th_text text = {0};
    int64_t token = 5;
    ck_assert_ptr_null(th_language_model_from_gguf(ctx, NULL, NULL));
    expect_message(TH_ERROR_ARGUMENT, "language_model_from_gguf: the path is NULL");
    ck_assert_ptr_null(th_language_model_from_gguf(ctx, "x", &(th_gguf_load_options){.type = TH_INT32}));
    expect_message(TH_ERROR_TYPE, "language_model_from_gguf: weights are not stored as int32");
    ck_assert_ptr_null(th_tokenizer_from_gguf(ctx, NULL));
    expect_message(TH_ERROR_ARGUMENT, "tokenizer_from_gguf: the path is NULL");
    ARGUMENT(th_gguf_chat_template(ctx, NULL, &text), "gguf_chat_template: the path is NULL");
    ARGUMENT(th_gguf_chat_template(ctx, "x", NULL), "gguf_chat_template: the text is NULL");
    ARGUMENT(th_gguf_begin_token(ctx, NULL, &token), "gguf_begin_token: the path is NULL");
    ARGUMENT(th_gguf_begin_token(ctx, "x", NULL), "gguf_begin_token: token is NULL");
    ARGUMENT(th_gguf_end_token(ctx, NULL, &token), "gguf_end_token: the path is NULL");
    ARGUMENT(th_gguf_end_token(ctx, "x", NULL), "gguf_end_token: token is NULL");
    ck_assert_int_eq(th_gguf_end_token(NULL, "x", &token), TH_ERROR_ARGUMENT);
    expect_message(TH_ERROR_ARGUMENT, "gguf_end_token: the context is NULL");
    ck_assert_ptr_null(th_language_model_from_gguf(ctx, "no/file", NULL));
    expect_message(TH_ERROR_FILE, "language_model_from_gguf: no/file: No such file or directory");
    ck_assert_ptr_null(th_tokenizer_from_gguf(ctx, "no/file"));
    expect_message(TH_ERROR_FILE, "tokenizer_from_gguf: no/file: No such file or directory");
    ck_assert_int_eq(token, 5);
}
END_TEST

#define EXPORT(given, code, message)                                                                                   \
    do {                                                                                                               \
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), (given)), code);                    \
        expect_message(code, "language_model_export_gguf: " message);                                                  \
    } while (0)

START_TEST(gguf_exports)
{
    th_module *model = model_of(ctx, &models[WHOLE].options), *dense = th_dense_new(ctx, 2, 2, NULL);
    static char long_path[4100];
    memset(long_path, '/', 4065);
    ck_assert_int_eq(th_language_model_export_gguf(NULL, "x", NULL), TH_ERROR_ARGUMENT);
    th_error_clear(ctx);
    ARGUMENT(th_language_model_export_gguf(dense, "x", NULL),
             "language_model_export_gguf: the module is a dense, not a language model");
    ARGUMENT(th_language_model_export_gguf(model, NULL, NULL), "language_model_export_gguf: the path is NULL");
    ARGUMENT(th_language_model_export_gguf(model, long_path, NULL), "language_model_export_gguf: the path is too long");
    long_path[4064] = 0;
    ck_assert_int_eq(th_language_model_export_gguf(model, long_path, NULL), TH_ERROR_FILE);
    th_error_clear(ctx);
    EXPORT(&(th_gguf_export_options){.type = TH_INT64}, TH_ERROR_TYPE,
           "the type is int64; float32, float16, bfloat16, q8_0 and q4_0 are allowed");
    EXPORT((&(th_gguf_export_options){TH_END_TOKEN(-1)}), TH_ERROR_ARGUMENT,
           "end token -1 is outside the vocabulary of 41");
    EXPORT((&(th_gguf_export_options){TH_END_TOKEN(41)}), TH_ERROR_ARGUMENT,
           "end token 41 is outside the vocabulary of 41");
    EXPORT((&(th_gguf_export_options){.begin_token = -2, .has_begin_token = true}), TH_ERROR_ARGUMENT,
           "begin token -2 is outside the vocabulary of 41");
    EXPORT((&(th_gguf_export_options){.begin_token = 41, .has_begin_token = true}), TH_ERROR_ARGUMENT,
           "begin token 41 is outside the vocabulary of 41");
    EXPORT(&(th_gguf_export_options){.architecture = "Llama"}, TH_ERROR_ARGUMENT,
           "unknown architecture \"Llama\"; " ARCHITECTURES " are supported");
    for (int64_t token = -1; token <= 40; token += 41 - (token < 0)) {
        int64_t end = 77, begin = 77;
        const th_gguf_export_options given = {
            .begin_token = token, .has_begin_token = true, .end_token = 40, .has_end_token = token >= 0};
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), &given), TH_OK);
        ck_assert_int_eq(th_gguf_end_token(ctx, in_folder("a.gguf"), &end), TH_OK);
        ck_assert_int_eq(th_gguf_begin_token(ctx, in_folder("a.gguf"), &begin), TH_OK);
        ck_assert_int_eq(end, token >= 0 ? 40 : -1);
        ck_assert_int_eq(begin, token);
    }
    th_tokenizer *t = th_tokenizer_characters_new(ctx, "ab", 2), *bytes = th_tokenizer_bytes_new(ctx);
    EXPORT(&(th_gguf_export_options){.tokenizer = t}, TH_ERROR_ARGUMENT,
           "the tokenizer is neither byte-level BPE, SentencePiece's BPE nor BERT's WordPiece, the kinds that are "
           "written");
    EXPORT(&(th_gguf_export_options){.tokenizer = bytes}, TH_ERROR_ARGUMENT,
           "the tokenizer has 256 tokens, and the model 41");
    t = th_tokenizer_train(ctx, "abc", 3, &(th_bpe_options){.vocabulary = 257, .pattern = "[a-z]+"});
    EXPORT(
        &(th_gguf_export_options){.tokenizer = t}, TH_ERROR_ARGUMENT,
        "the tokenizer has another split than those of GGUF: gpt-2, llama-bpe, dbrx, glm4, qwen2, stablelm2, smollm, "
        "default, falcon, tekken, gpt-4o, deepseek-llm, deepseek-coder, deepseek-v3, qwen35, seed-coder and minicpm5");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("models_messages", setup, teardown);
    tcase_add_test(tests, chat_templates);
    tcase_add_test(tests, conversations);
    tcase_add_test(tests, refused_messages);
    tcase_add_test(tests, instructions);
    tcase_add_test(tests, gguf_files);
    tcase_add_test(tests, gguf_exports);
    return run_suites();
}
