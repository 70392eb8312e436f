/* Chat templates: the text of each kind, which templates are recognized, the tokens that count, and lines of
 * instruction data. scripts/interop/instructions.py compares with transformers and TRL. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static th_tokenizer *tokenizer;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
    tokenizer = th_tokenizer_bytes_new(ctx);
    ck_assert_int_eq(th_tokenizer_add(tokenizer, "<|im_start|>"), 256);
    ck_assert_int_eq(th_tokenizer_add(tokenizer, "<|im_end|>"), 257);
    ck_assert_int_eq(th_tokenizer_add(tokenizer, "</s>"), 258);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

static const th_chat_message talk[] = {
    {"system", " Be brief. "}, {"user", " Hi\n"}, {"assistant", "Hello "}, {"user", "Bye"}, {"assistant", "See you"}};

/* The text of `count` messages from `first` on. */
static char *text_of(const char *kind, size_t first, size_t count, th_chat_options options)
{
    th_text text = {0};
    th_chat_template *chat = th_chat_template_new(ctx, kind, "<s>", "</s>");
    ck_assert_int_eq(th_chat_write(chat, talk + first, count, &options, &text), TH_OK);
    th_chat_template_free(chat);
    return text.bytes;
}

static void check(const char *kind, size_t first, size_t count, bool prompt, const char *wanted)
{
    char *text = text_of(kind, first, count, (th_chat_options){.prompt = prompt});
    ck_assert_msg(strcmp(text, wanted) == 0, "%s: \"%s\", not \"%s\"", kind, text, wanted);
    free(text);
}

START_TEST(texts)
{
    check("plain", 0, 2, true, " Be brief. \n\nUser:  Hi\n\n\nAssistant:");
    check("plain", 3, 2, false, "User: Bye\n\nAssistant: See you</s>");
    check("chatml", 0, 3, false,
          "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\nHello "
          "<|im_end|>\n");
    check("chatml", 3, 1, true, "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
    check("qwen-2.5", 3, 1, true,
          "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
          "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
    check("smollm-2", 3, 1, false,
          "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\nBye<|im_end|>\n");
    check("llama-2", 0, 5, false,
          "<s>[INST] <<SYS>>\n Be brief. \n<</SYS>>\n\n Hi [/INST] Hello </s><s>[INST] Bye [/INST] See you </s>");
    check("llama-3", 0, 2, true,
          "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>"
          "\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
    check("llama-3.1", 3, 1, false,
          "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul "
          "2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>");
    check("mistral-1", 1, 4, false, "<s>[INST]  Hi\n [/INST]Hello </s>[INST] Bye [/INST]See you</s>");
    check("mistral-1-system", 0, 2, true, "<s> [INST]  Be brief. \n\n Hi\n [/INST]");
    check("gemma", 1, 2, false, "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n");
    check("gemma-3", 0, 2, true, "<s><start_of_turn>user\n Be brief. \n\nHi<end_of_turn>\n<start_of_turn>model\n");
    check("phi-3", 1, 2, false, "<|user|>\n Hi\n<|end|>\n<|assistant|>\nHello <|end|>\n</s>");
    check("phi-3", 1, 1, true, "<|user|>\n Hi\n<|end|>\n<|assistant|>\n");
    check("olmo-2", 1, 4, false,
          "<s><|user|>\n Hi\n\n<|assistant|>\nHello </s>\n<|user|>\nBye\n<|assistant|>\nSee you</s>");
    check("tulu", 3, 2, false, "<|user|>\nBye\n<|assistant|>\nSee you</s>");
    check("chatml-bos", 3, 1, true, "<s><|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
    check("mistral-0.1", 1, 2, false, "<s>[INST]  Hi\n [/INST]Hello </s> ");
    check("mistral-0.3", 0, 4, true, "<s>[INST]  Hi\n[/INST] Hello </s>[INST]  Be brief. \n\nBye[/INST]");
    check("mistral-0.3-trim", 1, 2, false, "<s>[INST]  Hi\n[/INST] Hello</s>");
    check("mistral-nemo", 1, 3, true, "<s>[INST] Hi\n[/INST]Hello </s>[INST]Bye[/INST]");
    check("mistral-small", 0, 2, true, "<s>[SYSTEM_PROMPT] Be brief. [/SYSTEM_PROMPT][INST] Hi\n[/INST]");
    check("phi-3-medium", 1, 3, true,
          "<s><|user|>\n Hi\n<|end|>\n<|assistant|>\nHello <|end|>\n<|user|>\nBye<|end|>\n<|assistant|>\n");
    check("phi-4-mini", 3, 2, false, "<|user|>Bye<|end|><|assistant|>See you<|end|></s>");
    check("zephyr", 3, 2, false, "<|user|>\nBye</s>\n<|assistant|>\nSee you</s>\n");
}
END_TEST

START_TEST(thoughts)
{
    const th_chat_message deep[] = {
        {"user", "1"}, {"assistant", "<think>\nA\n</think>\n\nB"}, {"user", "2"}, {"assistant", "C"}};
    th_chat_template *chat = th_chat_template_new(ctx, "qwen-3", NULL, NULL);
    th_text own = {0}, all = {0};
    ck_assert_int_eq(th_chat_write(chat, deep, 4, &(th_chat_options){0}, &own), TH_OK);
    ck_assert_int_eq(th_chat_write(chat, deep, 4, &(th_chat_options){.all_thoughts = true}, &all), TH_OK);
    ck_assert_str_eq(own.bytes, "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n<|im_start|>user\n2"
                                "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nC<|im_end|>\n");
    ck_assert_ptr_nonnull(strstr(all.bytes, "<|im_start|>assistant\n<think>\nA\n</think>\n\nB<|im_end|>"));
    th_text_free(&own);
    th_text_free(&all);
}
END_TEST

/* The text of SmolLM 3 with a system message, after the date. */
static void check_smollm(const th_chat_template *chat, const char *system, const char *wanted)
{
    const th_chat_message messages[] = {{"system", system}, {"user", "1"}, {"assistant", "\n2"}};
    th_text text = {0};
    const size_t first = system ? 0 : 1;
    ck_assert_int_eq(th_chat_write(chat, messages + first, 3 - first, &(th_chat_options){0}, &text), TH_OK);
    const char *mode = strstr(text.bytes, "Reasoning Mode");
    ck_assert_str_eq(mode ? mode : text.bytes, wanted);
    th_text_free(&text);
}

START_TEST(smollm_3)
{
    th_chat_template *chat = th_chat_template_new(ctx, "smollm-3", NULL, NULL);
    check_smollm(chat, "Hi /think ",
                 "Reasoning Mode: /think\n\n## Custom Instructions\n\nHi\n\n<|im_start|>user\n1<|im_end|>\n"
                 "<|im_start|>assistant\n2<|im_end|>\n");
    check_smollm(chat, "/no_think",
                 "Reasoning Mode: /no_think\n\n## Custom Instructions\n\nYou are a helpful AI assistant named SmolLM, "
                 "trained by Hugging Face.\n\n<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>"
                 "\n2<|im_end|>\n");
    check_smollm(
        chat, "Hi/system_override",
        "<|im_start|>system\nHi<|im_end|>\n<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n");
    check_smollm(chat, "Hi",
                 "Reasoning Mode: /think\n\n## Custom Instructions\n\nHi\n\n<|im_start|>user\n1<|im_end|>\n"
                 "<|im_start|>assistant\n2<|im_end|>\n");
    th_text text = {0};
    expect_status(th_chat_write(chat, &(th_chat_message){"user", "1"}, 1, NULL, &text), TH_ERROR_VALUE,
                  "SmolLM 3 needs a system message, such as /no_think");
    ck_assert_int_eq(th_chat_template_set_variables(chat, "{\"enable_thinking\": false}"), TH_OK);
    check_smollm(chat, NULL,
                 "Reasoning Mode: /no_think\n\n## Custom Instructions\n\nYou are a helpful AI assistant named SmolLM, "
                 "trained by Hugging Face.\n\n<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>"
                 "\n2<|im_end|>\n");
    th_text_free(&text);
}
END_TEST

START_TEST(refused_conversations)
{
    const struct {
        const char *kind, *words;
        th_chat_message message[3];
        size_t count;
    } cases[] = {
        {"gemma", "message 1: the model does not know system messages", {{"system", "a"}, {"user", "b"}}, 2},
        {"llama-2", "message 2: user and assistant must alternate", {{"user", "a"}, {"user", "b"}}, 2},
        {"llama-2", "message 1: user and assistant must alternate", {{"assistant", "a"}}, 1},
        {"gemma-3", "message 1: the system message needs", {{"system", "a"}}, 1},
        {"llama-3.1", "message 2: only the first message may be", {{"user", "a"}, {"system", "b"}}, 2},
        {"mistral-nemo",
         "message 1: the template leaves a system message out",
         {{"system", "a"}, {"user", "b"}, {"assistant", "c"}},
         3},
        {"smollm-3", "message 2: only the first message may be", {{"user", "a"}, {"system", "b"}}, 2},
        {"chatml", "message 1: the role is \"tool\\u001b\"", {{"tool\x1b", "a"}}, 1},
        {"gemma", "message 1: the role is \"tool\"; it must be system, user or assistant", {{"tool", "a"}}, 1},
        {"chatml", "the role or the content is NULL", {{"user", NULL}}, 1},
        {"chatml", "no messages", {{NULL, NULL}}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_text text = {0};
        th_chat_template *chat = th_chat_template_new(ctx, cases[i].kind, NULL, NULL);
        expect_status(th_chat_write(chat, cases[i].message, cases[i].count, NULL, &text), TH_ERROR_VALUE,
                      cases[i].words);
        th_text_free(&text);
    }
    expect_failure(th_chat_template_new(ctx, "klingon", NULL, NULL) == NULL, TH_ERROR_ARGUMENT,
                   "the kind klingon is unknown; the known kinds are plain, chatml");
}
END_TEST

/* Loads the template of a folder with these files; NULL: without the file. */
static th_chat_template *load(const char *jinja, const char *config)
{
    unlink(in_folder("chat_template.jinja"));
    unlink(in_folder("tokenizer_config.json"));
    if (jinja)
        write_bytes(in_folder("chat_template.jinja"), jinja, strlen(jinja));
    if (config)
        write_bytes(in_folder("tokenizer_config.json"), config, strlen(config));
    return th_chat_template_load(ctx, folder);
}

#define CHATML_BEGIN "{% for message in messages %}{{'<|im_start|>' + message['role'] + '"
#define CHATML_END                                                                                                     \
    "' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"                        \
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"

/* The template of a folder is run. Without one it is plain. */
START_TEST(templates_of_a_folder)
{
    th_chat_template *chat = load(CHATML_BEGIN "\\n" CHATML_END, NULL);
    no_error();
    ck_assert_str_eq(th_chat_template_kind(chat), "jinja");
    ck_assert_str_eq(th_chat_template_end(chat), "<|im_end|>");
    chat = load(NULL, "{\"eos_token\": {\"content\": \"<e>\"}, \"bos_token\": null, \"model_max_length\": "
                      "1000000000000000019884624838656}");
    ck_assert_str_eq(th_chat_template_kind(chat), "plain");
    ck_assert_str_eq(th_chat_template_end(chat), "<e>");
    ck_assert_ptr_null(th_chat_template_end(load(NULL, NULL)));
    no_error();
}
END_TEST

START_TEST(kinds_of_a_folder)
{
    th_text text = {0};
    th_chat_template *chat = load("{{ x }}", "{\"bos_token\": \"<b>\", \"eos_token\": \"<e>\"}");
    no_error();
    ck_assert_str_eq(th_chat_template_kind(chat), "jinja");
    chat = th_chat_template_load_as(ctx, folder, "gemma");
    ck_assert_int_eq(th_chat_write(chat, talk + 3, 1, &(th_chat_options){0}, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "<b><start_of_turn>user\nBye<end_of_turn>\n");
    text.count = 0;
    ck_assert_int_eq(th_chat_template_text(ctx, folder, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "{{ x }}");
    th_text_free(&text);
    load(NULL, "{\"chat_template\": \"{{ y }}\"}");
    th_error_clear(ctx);
    ck_assert_int_eq(th_chat_template_text(ctx, folder, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "{{ y }}");
    th_text_free(&text);
    load(NULL, NULL);
    ck_assert_int_eq(th_chat_template_text(ctx, folder, &text), TH_OK);
    ck_assert_ptr_null(text.bytes);
    expect_failure(th_chat_template_load_as(ctx, folder, "klingon") == NULL, TH_ERROR_ARGUMENT,
                   "the kind klingon is unknown");
    expect_status(th_chat_template_text(ctx, NULL, &text), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_chat_template_text(ctx, folder, NULL), TH_ERROR_ARGUMENT, "the text is NULL");
}
END_TEST

/* Checks the whole text that a template of the folder writes. */
static void check_written(const char *jinja, const char *wanted)
{
    th_text text = {0};
    th_chat_template *chat = load(jinja, "{\"eos_token\": \"</s>\"}");
    ck_assert_int_eq(th_chat_write(chat, talk, 4, &(th_chat_options){0}, &text), TH_OK);
    ck_assert_str_eq(text.bytes, wanted);
    th_text_free(&text);
}

/* Templates of no known kind are run. The white space at both ends is written. */
START_TEST(other_templates_are_run)
{
    check_written("\n" CHATML_BEGIN "\n" CHATML_END " \n\n",
                  "\n<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n"
                  "<|im_start|>assistant\nHello <|im_end|>\n<|im_start|>user\nBye<|im_end|>\n \n");
    ck_assert_str_eq(th_chat_template_end(load(CHATML_BEGIN "\n\n" CHATML_END, NULL)), "<|im_end|>");
    check_written("{{ messages | length }}{{ eos_token }}", "4</s>");
    th_text text = {0};
    const th_chat_template *chat = load("{{ raise_exception('No ' + messages[0].role) }}", NULL);
    no_error();
    expect_status(th_chat_write(chat, talk, 4, NULL, &text), TH_ERROR_VALUE,
                  "chat_template.jinja, line 1, column 19: the template refuses the conversation: No ");
    th_text_free(&text);
    expect_failure(load(NULL, "[1]") == NULL, TH_ERROR_FILE, "is not a JSON object");
    expect_failure(load(NULL, "{") == NULL, TH_ERROR_FILE, "tokenizer_config.json");
    static const char *const cut[] = {"{%", "{{", "{#", "{{ '", "{{ '\\", "{# #", "{%-", "{{}"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        expect_failure(load(cut[i], NULL) == NULL, TH_ERROR_FILE, "chat_template.jinja, line 1, column ");
}
END_TEST

/* Checks the tokens and marks of a line; wanted: the text, in which brackets enclose what counts. */
static void check_marks(th_chat_template *chat, const char *line, const char *wanted)
{
    th_token_list tokens = {0};
    th_text marks = {0}, text = {0};
    char shown[1000] = "";
    const th_status status = th_instruction_encode(chat, tokenizer, line, strlen(line), "line 1", &tokens, &marks);
    no_error();
    ck_assert_int_eq(status, TH_OK);
    ck_assert_uint_eq(tokens.count, marks.count);
    ck_assert(marks.bytes[0] & TH_TOKEN_BEGINS);
    bool inside = false;
    for (size_t i = 0; i < tokens.count; i++) {
        const bool counts = (marks.bytes[i] & TH_TOKEN_GIVEN) == 0;
        strcat(shown, counts == inside ? "" : counts ? "[" : "]");
        inside = counts;
        text.count = 0;
        ck_assert_int_eq(th_tokenizer_decode(tokenizer, &tokens.token[i], 1, &text), TH_OK);
        strcat(shown, text.bytes);
    }
    strcat(shown, inside ? "]" : "");
    ck_assert_str_eq(shown, wanted);
    th_token_list_free(&tokens);
    th_text_free(&marks);
    th_text_free(&text);
}

static void check_line(const char *kind, const char *line, const char *wanted)
{
    check_marks(th_chat_template_new(ctx, kind, NULL, "</s>"), line, wanted);
}

START_TEST(tokens_that_count)
{
    check_line(
        "chatml",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, "
        "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"\\nd\"}]}",
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]<|im_start|>user\nc<|im_end|>\n"
        "<|im_start|>assistant\n[\nd<|im_end|>\n]");
    check_line(
        "qwen-2.5",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
        "<|im_start|>system\n<|im_end|>\n<|im_start|>assistant[\nb<|im_end|>\n]");
    check_line("chatml",
               "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": [{\"role\": \"assistant\", "
               "\"content\": \"b\"}]}",
               "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]");
    check_line("chatml", "{\"prompt\": \"a: \", \"completion\": \"b\"}", "a: [b</s>]");
    check_line("chatml", "{\"prompt\": \"\", \"completion\": \"b</s>\"}", "[b</s>]");
    check_line("chatml", "{\"text\": \"ab\", \"id\": 7}", "[ab</s>]");
    check_line("chatml", "{\"messages\": null, \"prompt\": null, \"text\": \"ab\"}", "[ab</s>]");
    check_line("chatml",
               "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_calls\": []}, "
               "{\"role\": \"assistant\", \"content\": \"b\", \"tool_calls\": null}]}",
               "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>\n]");
    check_line("plain",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}",
               "User: a\n\nAssistant:[ b</s>]");
}
END_TEST

#define ROLES "{% for m in messages %}<{{ m.role }}>"
#define PROMPT "{% if add_generation_prompt %}<assistant>{% endif %}"
#define CONVERSATION                                                                                                   \
    "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, "         \
    "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\", \"name\": null}]"

/* An answer of a program is what follows its prompt, or a generation block. Tools are a variable. */
START_TEST(answers_of_programs)
{
    check_marks(load(ROLES "{{ m.content }};{% endfor %}" PROMPT, NULL), "{" CONVERSATION "}",
                "<user>a;<assistant>[b;]<user>c;<assistant>[d;]");
    check_marks(load(ROLES "{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}" PROMPT, NULL),
                "{" CONVERSATION "}", "<user>[a];<assistant>[b];<user>[c];<assistant>[d];");
    check_marks(load("{{ tools | tojson }}" ROLES "{{ m.content }}{% endfor %}" PROMPT, NULL),
                "{\"tools\": [{\"b\": 1, \"a\": \"\u00e9\"}], " CONVERSATION "}",
                "[{\"b\": 1, \"a\": \"\xc3\xa9\"}]<user>a<assistant>[b]<user>c<assistant>[d]");
    check_marks(load(ROLES "{{ m.content }}{% endfor %}" PROMPT, NULL),
                "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": [{\"role\": \"assistant\", "
                "\"content\": [1]}]}",
                "<user>a<assistant>[[1]]");
}
END_TEST

/* Texts of which none is the beginning of the next have no marks. */
START_TEST(answers_that_cannot_be_marked)
{
    static const struct {
        const char *template, *words;
    } cases[] = {
        {ROLES "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}",
         "line 7: chat_write: the answer in message 2 cannot be marked, because its prompt is not the beginning of its "
         "text: after 8 equal bytes one text has \"bot>\", the other \"assistant>b\""},
        {ROLES "{{ m.content if loop.last or m.role == 'user' }}{% endfor %}" PROMPT,
         "because the messages after it change its text"},
        {ROLES "{{ m.content.x.y }}{% endfor %}", "chat_template.jinja, line 1, column 52: 'x' is undefined"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char line[] = "{" CONVERSATION "}";
        th_token_list tokens = {0};
        th_text marks = {0};
        th_chat_template *chat = load(cases[i].template, NULL);
        no_error();
        expect_status(th_instruction_encode(chat, tokenizer, line, strlen(line), "line 7", &tokens, &marks),
                      TH_ERROR_VALUE, cases[i].words);
        th_token_list_free(&tokens);
        th_text_free(&marks);
    }
}
END_TEST

START_TEST(refused_lines)
{
    const struct {
        const char *line, *words;
        th_status code;
    } lines[] = {
        {"{", "line 7", TH_ERROR_FILE},
        {"[]", "line 7: the line is not a JSON object: []; each line is one example, such as {\"prompt\"",
         TH_ERROR_VALUE},
        {"prompt,completion", "line 7: the line is not a JSON object: prompt,completion; each", TH_ERROR_VALUE},
        {"", "line 7: the line is not a JSON object: ; each", TH_ERROR_VALUE},
        {"{\"text\": \"a\"} {\"text\": \"b\"}", "more text after its object: {\"text\": \"b\"}; each line is one",
         TH_ERROR_VALUE},
        {"{}", "line 7: it has no fields; the nearest format is {\"messages\"", TH_ERROR_VALUE},
        {"{\"prompt\": \"a\"}", "line 7: it has \"prompt\" (a text); the nearest", TH_ERROR_VALUE},
        {"{\"question\": \"a\", \"answer\": 3}", "it has \"question\" (a text) and \"answer\" (a number)",
         TH_ERROR_VALUE},
        {"{\"a\": 1, \"b\": {}, \"c\": null, \"d\": true, \"e\": 1.5, \"f\": [], \"g\": 1, \"h\": 1}",
         "\"a\" (a number), \"b\" (an object), \"c\" (null), \"d\" (true), \"e\" (a number), \"f\" (an array) and 2 "
         "more",
         TH_ERROR_VALUE},
        {"{\"prompt\": \"a\", \"completion\": []}", "\"prompt\" (a text) and \"completion\" (an array)",
         TH_ERROR_VALUE},
        {"{\"prompt\": [], \"completion\": []}", "\"prompt\" must be an array of messages, and not empty; it is empty",
         TH_ERROR_VALUE},
        {"{\"messages\": 3}", "\"messages\" must be an array of messages, and not empty; it is a number",
         TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"user\"}]}", "message 1 of \"messages\" must be like", TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"from\": \"human\", \"value\": \"a\"}]}",
         "\"a text\"}; it has \"from\" (a text) and \"value\" (a text)", TH_ERROR_VALUE},
        {"{\"messages\": [3]}",
         "message 1 of \"messages\" must be like {\"role\": \"user\", \"content\": \"a text\"}; it is a number",
         TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [7]}]}", "must be like", TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}", "nothing in this example counts",
         TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"bot\", \"content\": \"a\"}]}",
         "line 7: chat_write: the chat template chatml, line 9, column 28: the template refuses the conversation: "
         "message "
         "1: the role is \"bot\"; it must be system, user, assistant or tool",
         TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "nothing in this example counts",
         TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"tool_calls\": [1]}]}",
         "the \"tool_calls\" of message 1 of \"messages\" must be like [{\"function\":", TH_ERROR_VALUE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"chat_template_kwargs\": {\"messages\": 1}}",
         "line 7: chat_template_kwargs: the variable messages is set by the library", TH_ERROR_VALUE},
        {"{\"messages\": null}", "it has \"messages\" (null)", TH_ERROR_VALUE},
        {"{\"messages\": [], \"tools\": [1]}", "\"messages\" must be an array of messages", TH_ERROR_VALUE},
        {"{\"prompt\": \"a\", \"prompt\": \"a\"}", "line 7", TH_ERROR_FILE},
        {"{\"text\": \"\\ud800\"}", "line 7", TH_ERROR_FILE},
    };
    th_chat_template *chat = th_chat_template_new(ctx, "chatml", NULL, NULL);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        th_token_list tokens = {0};
        th_text marks = {0};
        const th_status status =
            th_instruction_encode(chat, tokenizer, lines[i].line, strlen(lines[i].line), "line 7", &tokens, &marks);
        ck_assert_msg(status == lines[i].code, "%s: %s", lines[i].line, th_error_text(ctx));
        expect_status(status, lines[i].code, lines[i].words);
        ck_assert_uint_eq(tokens.count, 0);
        ck_assert_uint_eq(marks.count, 0);
        th_token_list_free(&tokens);
        th_text_free(&marks);
    }
}
END_TEST

/* With time that grows with the square of the turns, this takes minutes. */
START_TEST(many_turns)
{
    enum { TURNS = 40000 };
    th_chat_message *messages = malloc(2 * TURNS * sizeof *messages);
    th_token_list tokens = {0};
    th_text marks = {0};
    size_t counted = 0;
    for (size_t i = 0; i < 2 * TURNS; i++)
        messages[i] = i % 2 ? (th_chat_message){"assistant", "yes"} : (th_chat_message){"user", "a"};
    th_chat_template *chat = th_chat_template_new(ctx, "mistral-0.1", "", "</s>");
    ck_assert_int_eq(th_chat_encode(chat, tokenizer, messages, 2 * TURNS, &(th_chat_options){0}, &tokens, &marks),
                     TH_OK);
    for (size_t i = 0; i < marks.count; i++)
        counted += marks.bytes[i] == 0;
    ck_assert_uint_eq(counted, (size_t)TURNS * 5); /* y, e, s, the end token and a space */
    free(messages);
    th_token_list_free(&tokens);
    th_text_free(&marks);
}
END_TEST

START_TEST(files_of_lines)
{
    static const char text[] = "\xef\xbb\xbf{\"prompt\": \"ab\", \"completion\": \"c\"}\r\n\n   \n{\"text\": \"de\"}";
    static const char bad[] = "{\"text\": \"a\"}\n\n{\"text\": 3}\n";
    th_instruction_counts counts = {0};
    th_chat_template *chat = th_chat_template_new(ctx, "plain", NULL, "</s>");
    th_token_writer *writer = th_token_writer_open_marked(ctx, in_folder("a.tokens"), th_tokenizer_size(tokenizer));
    ck_assert_int_eq(th_instructions_append(chat, tokenizer, text, sizeof text - 1, "data", writer, &counts), TH_OK);
    ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    ck_assert_int_eq(counts.examples, 2);
    ck_assert_int_eq(counts.tokens, 7);
    ck_assert_int_eq(counts.targets, 4); /* the first token of the second example is none */
    ck_assert_int_eq(counts.longest, 4);
    writer = th_token_writer_open_marked(ctx, in_folder("b.tokens"), th_tokenizer_size(tokenizer));
    expect_status(th_instructions_append(chat, tokenizer, bad, sizeof bad - 1, "data", writer, NULL), TH_ERROR_VALUE,
                  "data, line 3: it has \"text\" (a number)");
    th_token_writer_free(writer);
}
END_TEST

START_TEST(utf_16)
{
    static const char little[] = "\xff\xfe{\0\"\0", big[] = "\xfe\xff\0{\0\"";
    th_chat_template *chat = th_chat_template_new(ctx, "plain", NULL, "</s>");
    th_token_writer *writer = th_token_writer_open_marked(ctx, in_folder("c.tokens"), th_tokenizer_size(tokenizer));
    expect_status(th_instructions_append(chat, tokenizer, little, sizeof little - 1, "data", writer, NULL),
                  TH_ERROR_VALUE, "data is UTF-16");
    expect_status(th_instructions_append(chat, tokenizer, big, sizeof big - 1, NULL, writer, NULL), TH_ERROR_VALUE,
                  "the text is UTF-16");
    expect_status(th_instructions_append(chat, tokenizer, little + 2, sizeof little - 3, "data", writer, NULL),
                  TH_ERROR_VALUE, "data is UTF-16");
    th_token_writer_free(writer);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("chat", setup, teardown);
    tcase_add_test(tests, texts);
    tcase_add_test(tests, thoughts);
    tcase_add_test(tests, smollm_3);
    tcase_add_test(tests, refused_conversations);
    tcase_add_test(tests, templates_of_a_folder);
    tcase_add_test(tests, kinds_of_a_folder);
    tcase_add_test(tests, other_templates_are_run);
    tcase_add_test(tests, tokens_that_count);
    tcase_add_test(tests, answers_of_programs);
    tcase_add_test(tests, answers_that_cannot_be_marked);
    tcase_add_test(tests, refused_lines);
    tcase_add_test(tests, many_turns);
    tcase_add_test(tests, files_of_lines);
    tcase_add_test(tests, utf_16);
    return run_suites();
}
