/* Tools in conversations: the texts of the kinds whose models have tools, the parts that count, and what is refused.
 * scripts/interop/instructions.py compares the same kinds with transformers. */
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

#define QUESTION "{\"role\": \"user\", \"content\": \"Rain?\"}"
#define CALLED(id, arguments) "{\"id\": \"" id "\", \"function\": {\"name\": \"f\", \"arguments\": " arguments "}}"
#define CALLS(calls) "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [" calls "]}"
#define RESULT "{\"role\": \"tool\", \"content\": \"no\", \"tool_call_id\": \"call00001\"}"
#define ANSWER "{\"role\": \"assistant\", \"content\": \"No.\"}"
#define TOOLS "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\"}}]"
#define ONE_CALL                                                                                                       \
    "{\"messages\": [" QUESTION ", " CALLS(CALLED("call00001", "{\"a\": 1}")) ", " RESULT ", " ANSWER "], " TOOLS "}"

/* Checks the marked text of a conversation: brackets enclose what counts. */
static void check(const char *kind, const char *line, const char *wanted)
{
    th_tokenizer *bytes = th_tokenizer_bytes_new(ctx);
    th_chat_template *chat = th_chat_template_new(ctx, kind, "<s>", "</s>");
    th_token_list tokens = {0};
    th_text marks = {0};
    char shown[4000];
    size_t n = 0;
    const th_status status = th_instruction_encode(chat, bytes, line, strlen(line), "line 1", &tokens, &marks);
    no_error();
    ck_assert_int_eq(status, TH_OK);
    for (size_t i = 0; i <= tokens.count; i++) {
        const bool before = i > 0 && (marks.bytes[i - 1] & TH_TOKEN_GIVEN) == 0;
        const bool now = i < tokens.count && (marks.bytes[i] & TH_TOKEN_GIVEN) == 0;
        if (before != now)
            shown[n++] = now ? '{' : '}';
        if (i < tokens.count)
            shown[n++] = (char)tokens.token[i];
        ck_assert_uint_lt(n, sizeof shown - 2);
    }
    shown[n] = 0;
    ck_assert_str_eq(shown, wanted);
    th_token_list_free(&tokens);
    th_text_free(&marks);
    th_chat_template_free(chat);
    th_tokenizer_free(bytes);
}

#define QWEN_TOOLS                                                                                                     \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "  \
    "signatures within <tools></tools> XML tags:\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\", "  \
    "\"description\": \"d\"}}\n</tools>\n\nFor each function call, return a json object with function name and "       \
    "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "     \
    "<args-json-object>}\n</tool_call><|im_end|>\n"
#define QWEN_RESULT "<|im_start|>user\n<tool_response>\nno\n</tool_response><|im_end|>\n"

START_TEST(calls_of_tools)
{
    check("qwen-2.5", ONE_CALL,
          "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\n\n" QWEN_TOOLS
          "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant{\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
          "{\"a\": 1}}\n</tool_call><|im_end|>\n}" QWEN_RESULT "<|im_start|>assistant{\nNo.<|im_end|>\n}");
    check("qwen-3",
          "{\"messages\": [" QUESTION ", " CALLS(CALLED("1", "\"{}\"") ", " CALLED("2", "{}")) ", " RESULT ", " RESULT
                                                                                               "], " TOOLS "}",
          "<|im_start|>system\n" QWEN_TOOLS
          "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n{<think>\n\n</think>\n\n<tool_call>\n{\"name\": "
          "\"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
          "<|im_end|>\n}<|im_start|>user\n<tool_response>\nno\n</tool_response>\n<tool_response>\nno\n"
          "</tool_response><|im_end|>\n");
    check(
        "llama-3.1", ONE_CALL,
        "<s><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\nCutting Knowledge Date: December "
        "2023\nToday Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nGiven the following "
        "functions, please respond with a JSON for a function call with its proper arguments that best answers the "
        "given prompt.\n\nRespond in the format {\"name\": function name, \"parameters\": dictionary of argument name "
        "and its value}.Do not use variables.\n\n{\n    \"type\": \"function\",\n    \"function\": {\n        "
        "\"name\": "
        "\"f\",\n        \"description\": \"d\"\n    }\n}\n\nRain?<|eot_id|><|start_header_id|>assistant"
        "<|end_header_id|>\n\n{{\"name\": \"f\", \"parameters\": {\"a\": 1}}<|eot_id|>}<|start_header_id|>ipython"
        "<|end_header_id|>\n\n\"no\"<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{No.<|eot_id|>}");
    check("mistral-0.3-trim", ONE_CALL,
          "<s>[AVAILABLE_TOOLS] [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\"}}]"
          "[/AVAILABLE_TOOLS][INST] Rain?[/INST]{[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": "
          "\"call00001\"}]</s>}[TOOL_RESULTS] {\"content\": no, \"call_id\": \"call00001\"}[/TOOL_RESULTS]{ No.</s>}");
    check("mistral-nemo", ONE_CALL,
          "<s>[AVAILABLE_TOOLS][{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\"}}]"
          "[/AVAILABLE_TOOLS][INST]Rain?[/INST]{[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": "
          "\"call00001\"}]</s>}[TOOL_RESULTS]{\"content\": no, \"call_id\": \"call00001\"}[/TOOL_RESULTS]{No.</s>}");
    check("phi-4-mini",
          "{\"messages\": [{\"role\": \"system\", \"content\": \"a\", \"tools\": \"[1]\"}, " QUESTION ", " ANSWER "]}",
          "<|system|>a<|tool|>[1]<|/tool|><|end|><|user|>Rain?<|end|><|assistant|>{No.<|end|></s>}");
}
END_TEST

START_TEST(refused_tools)
{
    static const struct {
        const char *kind, *line, *words;
    } cases[] = {
        {"gemma", ONE_CALL, "the template does not write tools"},
        {"phi-4-mini", ONE_CALL, "the template does not write tools"},
        {"zephyr", "{\"messages\": [" CALLS(CALLED("1", "{}")) "]}",
         "message 1: it calls tools, which the template does"},
        {"llama-3.2", "{\"messages\": [" QUESTION ", " CALLS(CALLED("1", "{}") ", " CALLED("2", "{}")) "]}",
         "the model calls one tool at a time; a message has 2 calls"},
        {"mistral-nemo", "{\"messages\": [" QUESTION ", " CALLS(CALLED("1", "{}")) "]}",
         "the \"id\" of a call of a tool must have 9 characters"},
        {"mistral-nemo",
         "{\"messages\": [" QUESTION
         ", " CALLS(CALLED("call00001", "{}")) ", {\"role\": \"tool\", \"content\": \"a\"}]}",
         "must have 9 characters"},
        {"qwen-3", "{\"messages\": [" CALLS("{\"name\": 3}") "]}",
         "the \"tool_calls\" of message 1 of \"messages\" must be"},
        {"qwen-3", "{\"messages\": [" QUESTION ", " ANSWER "], \"tools\": \"f\"}", "\"tools\" is a text"},
    };
    th_tokenizer *bytes = th_tokenizer_bytes_new(ctx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_chat_template *chat = th_chat_template_new(ctx, cases[i].kind, "<s>", "</s>");
        th_token_list tokens = {0};
        th_text marks = {0};
        const char *line = cases[i].line;
        expect_status(th_instruction_encode(chat, bytes, line, strlen(line), "line 1", &tokens, &marks), TH_ERROR_VALUE,
                      cases[i].words);
        th_token_list_free(&tokens);
        th_text_free(&marks);
        th_chat_template_free(chat);
    }
}
END_TEST

/* Prompts of JSON, as an application with tools writes them. */
START_TEST(prompts_with_tools)
{
    static const char line[] = "{\"messages\": [" QUESTION "], \"chat_template_kwargs\": {\"enable_thinking\": false}}";
    th_chat_template *chat = th_chat_template_new(ctx, "qwen-3", NULL, NULL);
    th_text text = {0};
    ck_assert_int_eq(th_chat_write_json(chat, line, sizeof line - 1, NULL, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    expect_status(th_chat_write_json(chat, "{}", 2, NULL, &text), TH_ERROR_VALUE,
                  "\"messages\" must be an array of messages, and not empty; it is missing");
    expect_status(th_chat_write_json(chat, "{", 1, NULL, &text), TH_ERROR_FILE, "the conversation");
    expect_status(th_chat_write_json(chat, NULL, 0, NULL, &text), TH_ERROR_ARGUMENT, "the conversation is NULL");
    static const char bad[] = "{\"messages\": [" QUESTION "], \"chat_template_kwargs\": 3}";
    expect_status(th_chat_write_json(chat, bad, sizeof bad - 1, NULL, &text), TH_ERROR_VALUE,
                  "the variables must be an object");
    th_text_free(&text);
}
END_TEST

/* A template of a folder that changes earlier answers has no marks. The message names a kind that writes the same. */
START_TEST(kinds_that_can_mark)
{
    static const char talk[] = "{\"messages\": [" QUESTION ", " ANSWER ", " QUESTION ", " ANSWER "]}";
    th_text text = {0};
    ck_assert_int_eq(th_chat_template_text_as(ctx, "nowhere", "qwen-3", &text), TH_OK);
    char *all = strstr(text.bytes, "all_thoughts or");
    ck_assert_ptr_nonnull(all);
    memcpy(all, "false       ", strlen("false       ")); /* as in the model's own template */
    write_bytes(in_folder("chat_template.jinja"), text.bytes, text.count);
    th_chat_template *chat = th_chat_template_load(ctx, folder);
    no_error();
    th_token_list tokens = {0};
    th_text marks = {0};
    expect_status(
        th_instruction_encode(chat, th_tokenizer_bytes_new(ctx), talk, sizeof talk - 1, "line 1", &tokens, &marks),
        TH_ERROR_VALUE, "or the kind qwen-3, which writes the same text");
    th_token_list_free(&tokens);
    th_text_free(&marks);
    th_text_free(&text);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("chat tools", setup, teardown);
    tcase_add_test(tests, calls_of_tools);
    tcase_add_test(tests, refused_tools);
    tcase_add_test(tests, prompts_with_tools);
    tcase_add_test(tests, kinds_that_can_mark);
    return run_suites();
}
