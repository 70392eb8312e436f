/* Parts of chat templates: white space that is trimmed, the tokens and the named templates of a folder's files, and the
 * programs of the kinds. */
#include <string.h>
#include <sys/stat.h>

#include "models/chat/chat.h"
#include "tapehead/models.h"

#include "folder.h"
#include "memory.h"

#include "context.h"

static test_memory memory;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    make_folder();
}

static void teardown(void)
{
    close_context();
    remove_folder();
    ck_assert_uint_eq(memory.bytes, 0);
}

/* -- white space -- */

/* Whether Python's str.isspace is true. */
static bool is_space(int c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static size_t encode(int c, char text[3])
{
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        text[0] = (char)(0xc0 | c >> 6);
        text[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    text[0] = (char)(0xe0 | c >> 12);
    text[1] = (char)(0x80 | (c >> 6 & 63));
    text[2] = (char)(0x80 | (c & 63));
    return 3;
}

/* Checks what the program, which trims the variable `text`, writes for these bytes. */
static void check_trimmed(const th_jinja *program, const char *text, size_t count, size_t first, size_t kept)
{
    th_jinja_result result = {0};
    json_t *variables = json_pack("{s:s%}", "text", text, count);
    ck_assert_ptr_nonnull(variables);
    ck_assert_int_eq(th_jinja_render(program, "jinja", variables, 0, NULL, &result), TH_OK);
    ck_assert_uint_eq(result.text.count, kept);
    ck_assert_mem_eq(result.text.bytes, text + first, kept);
    th_jinja_result_free(&result);
    json_decref(variables);
}

/* Each character is trimmed on both sides if it is white space, and only then. */
START_TEST(white_space_characters)
{
    static const char trim[] = "{{ text.strip() }}";
    th_jinja *program = th_jinja_parse(ctx, "jinja", "trim", trim, sizeof trim - 1);
    for (int c = 1; c < 0x10000; c++) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        char text[16];
        const size_t n = encode(c, text), space = is_space(c) ? n : 0;
        memcpy(text + n, "a b", 3);
        memcpy(text + n + 3, text, n);
        check_trimmed(program, text, 2 * n + 3, space, 2 * n + 3 - 2 * space);
        check_trimmed(program, text, n, space, n - space);
    }
    static const char mixed[] = " \n\xe3\x80\x80\xc2\xa0\t\xe2\x80\x83x\xe2\x80\xa8 \xc2\x85\r\n";
    check_trimmed(program, mixed, sizeof mixed - 1, (size_t)(strchr(mixed, 'x') - mixed), 1);
    th_jinja_free(program);
}
END_TEST

/* -- the tokens of a folder -- */

static void write_text(const char *name, const char *text)
{
    if (text)
        write_bytes(in_folder(name), text, strlen(text));
    else
        unlink(in_folder(name));
}

/* The beginning and the end of a text, as the files of the folder say. */
START_TEST(tokens_of_the_files)
{
    static const struct {
        const char *config, *map, *begin, *end;
    } cases[] = {
        {NULL, NULL, "", ""},
        {"{}", "{}", "", ""},
        {"{\"bos_token\": \"<b>\", \"eos_token\": \"<e>\"}", NULL, "<b>", "<e>"},
        {"{\"bos_token\": {\"content\": \"<b>\"}, \"eos_token\": {\"content\": \"<e>\", \"lstrip\": false}}", NULL,
         "<b>", "<e>"},
        {"{\"bos_token\": null}", "{\"bos_token\": \"<m>\", \"eos_token\": {\"content\": \"<n>\"}}", "<m>", "<n>"},
        {"{\"bos_token\": \"<b>\"}", "{\"bos_token\": \"<m>\", \"eos_token\": \"<n>\"}", "<b>", "<n>"},
        {"{\"eos_token\": \"<e>\"}", "{\"bos_token\": \"<m>\", \"eos_token\": \"<n>\"}", "<m>", "<e>"},
        {NULL, "{\"bos_token\": \"<m>\"}", "<m>", ""},
        {" \n\t\r{\"xbos_token\": \"<x>\", \"bos_tokens\": 3, \"eos_tokem\": 1e999, \"bos_token\": \"<b>\"}", NULL,
         "<b>", ""},
    };
    static const th_chat_message talk[] = {{"user", "Hi"}, {"assistant", "Yes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_text text = {0};
        char wanted[100];
        write_text("tokenizer_config.json", cases[i].config);
        write_text("special_tokens_map.json", cases[i].map);
        th_chat_template *chat = th_chat_template_load_as(ctx, folder, "mistral-nemo");
        ck_assert_msg(chat != NULL, "%s", th_error_message(ctx));
        ck_assert_int_eq(th_chat_write(chat, talk, 2, &(th_chat_options){0}, &text), TH_OK);
        snprintf(wanted, sizeof wanted, "%s[INST]Hi[/INST]Yes%s", cases[i].begin, cases[i].end);
        ck_assert_str_eq(text.bytes, wanted);
        ck_assert_msg(cases[i].end[0] ? strcmp(th_chat_template_end(chat), cases[i].end) == 0
                                      : th_chat_template_end(chat) == NULL,
                      "case %zu", i);
        th_text_free(&text);
        th_chat_template_free(chat);
    }
}
END_TEST

START_TEST(files_that_are_refused)
{
    static const struct {
        const char *config, *words;
    } cases[] = {
        {"", "tokenizer_config.json is not a JSON object"},
        {" \n", "tokenizer_config.json is not a JSON object"},
        {"[]", "tokenizer_config.json is not a JSON object"},
        {"{\"bos_token\": \"\\ud800\"}", "tokenizer_config.json"},
        {"{\"a\": 1} x", "tokenizer_config.json"},
        {"{\"chat_template\": \"\\n{{ x\"}", "tokenizer_config.json, line 2, column 5: the tag has no end"},
        {"{\"chat_template\": [{\"name\": \"default\", \"template\": \"{% y %}\"}]}", "the statement 'y' is unknown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("tokenizer_config.json", cases[i].config);
        expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE, cases[i].words);
    }
    write_text("tokenizer_config.json", "{}");
    write_text("special_tokens_map.json", "[]");
    expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE,
                   "special_tokens_map.json is not a JSON object");
    unlink(in_folder("special_tokens_map.json"));
    write_text("chat_template.jinja", "{{ x }}");
    ck_assert_int_eq(truncate(in_folder("chat_template.jinja"), 1 << 20), 0); /* (the largest) */
    const th_chat_template *chat = th_chat_template_load(ctx, folder);
    no_error();
    ck_assert_str_eq(th_chat_template_kind(chat), "jinja");
    ck_assert_int_eq(truncate(in_folder("chat_template.jinja"), (1 << 20) + 1), 0);
    expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE,
                   "chat_template.jinja: the file is too large");
}
END_TEST

/* -- named templates -- */

/* Checks what a template of the folder writes, with tools or without. name: as for th_chat_template_load_as. */
static void check_named(const char *name, bool with_tools, const char *wanted)
{
    static const char with[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{}]}";
    static const char without[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": []}";
    const char *conversation = with_tools ? with : without;
    th_text text = {0};
    th_chat_template *chat = th_chat_template_load_as(ctx, folder, name);
    no_error();
    ck_assert_int_eq(th_chat_write_json(chat, conversation, strlen(conversation), NULL, &text), TH_OK);
    ck_assert_str_eq(text.bytes, wanted);
    text.count = 0;
    if (with_tools) { /* instruction data chooses in the same way */
        th_token_list tokens = {0};
        th_text marks = {0};
        static const char line[] =
            "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": [{\"role\": "
            "\"assistant\", \"content\": \"b\"}], \"tools\": [{}]}";
        th_tokenizer *bytes = th_tokenizer_bytes_new(ctx);
        expect_status(th_instruction_encode(chat, bytes, line, sizeof line - 1, NULL, &tokens, &marks), TH_ERROR_VALUE,
                      "nothing in this example counts"); /* the prompt is the whole text */
        th_tokenizer_free(bytes);
        th_token_list_free(&tokens);
        th_text_free(&marks);
    }
    th_text_free(&text);
    th_chat_template_free(chat);
}

/* Of several templates, tool_use writes conversations with tools, and default all others. A name chooses another. */
START_TEST(templates_with_names)
{
    static const char array[] = "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, {\"name\": "
                                "\"tool_use\", \"template\": \"T{{ tools | length }}\"}, {\"name\": \"default\", "
                                "\"template\": \"D\"}]}";
    th_text text = {0};
    write_text("tokenizer_config.json", array);
    check_named(NULL, false, "D");
    check_named(NULL, true, "T1");
    check_named("rag", true, "R");
    check_named("default", true, "D");
    ck_assert_int_eq(mkdir(in_folder("additional_chat_templates"), 0700), 0);
    write_text("additional_chat_templates/tool_use.jinja", "F");
    write_text("chat_template.jinja", "C");
    check_named(NULL, false, "C");
    check_named(NULL, true, "F");
    check_named("tool_use", false, "F");
    ck_assert_int_eq(th_chat_template_text_as(ctx, folder, "tool_use", &text), TH_OK);
    ck_assert_int_eq(th_chat_template_text_as(ctx, folder, "unknown", &text), TH_OK);
    ck_assert_str_eq(text.bytes, "F");
    expect_failure(th_chat_template_load_as(ctx, folder, "../x") == NULL, TH_ERROR_ARGUMENT,
                   "the kind ../x is unknown, and ");
    unlink(in_folder("additional_chat_templates/tool_use.jinja"));
    rmdir(in_folder("additional_chat_templates"));
    write_text("chat_template.jinja", NULL);
    write_text("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"other\", \"template\": \"{{ y }}\"}, 3]}");
    expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE,
                   "has the chat templates other, (no name), and none is called default");
    th_text_free(&text);
}
END_TEST

/* -- variables -- */

START_TEST(variables_and_the_date)
{
    static const char template[] = "{{ a }}{{ b }}{{ messages | length }}{{ bos_token }}{{ strftime_now('%d %B %Y') }}";
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"chat_template_kwargs\": "
                               "{\"b\": 3}}";
    static const th_chat_message hi = {"user", "Hi"};
    static const char *const dates[] = {"",           "2026-11-31",  "2026-1-1",  "2026-13-01",
                                        "20x6-11-28", "2026-11-28 ", "1969-01-01"};
    th_text text = {0};
    write_text("chat_template.jinja", template);
    write_text("tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    th_chat_template *chat = th_chat_template_load(ctx, folder);
    ck_assert_int_eq(th_chat_template_set_date(chat, "2026-02-05"), TH_OK);
    ck_assert_int_eq(th_chat_template_set_variables(chat, "{\"a\": [true, null], \"bos_token\": \"<t>\"}"), TH_OK);
    ck_assert_int_eq(th_chat_write(chat, &hi, 1, NULL, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "[True, None]1<t>05 February 2026");
    text.count = 0;
    ck_assert_int_eq(th_chat_write_json(chat, line, sizeof line - 1, NULL, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "[True, None]31<t>05 February 2026");
    expect_status(th_chat_template_set_variables(chat, "{\"tools\": 3}"), TH_ERROR_VALUE,
                  "the variable tools is set by the library");
    expect_status(th_chat_template_set_variables(chat, "[1]"), TH_ERROR_VALUE, "must be an object");
    expect_status(th_chat_template_set_variables(chat, "{"), TH_ERROR_FILE, "the variables");
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
        expect_status(th_chat_template_set_date(chat, dates[i]), TH_ERROR_ARGUMENT, "it must be like 2026-11-28");
    ck_assert_int_eq(th_chat_template_set_variables(chat, NULL), TH_OK);
    text.count = 0;
    ck_assert_int_eq(th_chat_write(chat, &hi, 1, NULL, &text), TH_OK);
    ck_assert_str_eq(text.bytes, "1<s>05 February 2026");
    th_text_free(&text);
    unlink(in_folder("chat_template.jinja"));
}
END_TEST

/* -- kinds -- */

/* Every kind ends an answer with its own token or the tokenizer's. Its text for other programs has no generation blocks,
 * and writes the same. */
START_TEST(texts_of_every_kind)
{
    static const char *const own[][2] = {{"chatml", "<|im_end|>"},   {"qwen", "<|im_end|>"},
                                         {"smollm", "<|im_end|>"},   {"llama-3", "<|eot_id|>"},
                                         {"gemma", "<end_of_turn>"}, {"phi", "<|end|>"}};
    static const th_chat_message talk[] = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}};
    write_text("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    for (int i = 0; th_chat_kind_name(i); i++) {
        const char *kind = th_chat_kind_name(i), *end = "</s>";
        th_text shown = {0}, text[2] = {{0}, {0}};
        for (size_t j = 0; j < sizeof own / sizeof *own; j++)
            if (strncmp(kind, own[j][0], strlen(own[j][0])) == 0)
                end = own[j][1];
        th_chat_template *chat = th_chat_template_new(ctx, kind, "<s>", "</s>");
        ck_assert_str_eq(th_chat_template_kind(chat), kind);
        ck_assert_str_eq(th_chat_template_end(chat), end);
        ck_assert_int_eq(th_chat_template_text_as(ctx, folder, kind, &shown), TH_OK);
        ck_assert_ptr_null(strstr(shown.bytes, "generation %}"));
        write_text("chat_template.jinja", shown.bytes);
        th_chat_template *loaded = th_chat_template_load(ctx, folder);
        ck_assert_msg(loaded != NULL, "%s: %s", kind, th_error_message(ctx));
        ck_assert_str_eq(th_chat_template_kind(loaded), "jinja");
        ck_assert_int_eq(th_chat_template_set_variables(chat, "{\"enable_thinking\": false}"), TH_OK);
        ck_assert_int_eq(th_chat_template_set_variables(loaded, "{\"enable_thinking\": false}"), TH_OK);
        for (size_t count = 3; count <= 4; count++) {
            text[0].count = text[1].count = 0;
            ck_assert_int_eq(th_chat_write(chat, talk, count, &(th_chat_options){.prompt = count == 3}, &text[0]),
                             TH_OK);
            ck_assert_int_eq(th_chat_write(loaded, talk, count, &(th_chat_options){.prompt = count == 3}, &text[1]),
                             TH_OK);
            ck_assert_str_eq(text[0].bytes, text[1].bytes);
        }
        for (int j = 0; j < 2; j++)
            th_text_free(&text[j]);
        th_text_free(&shown);
        th_chat_template_free(chat);
        th_chat_template_free(loaded);
    }
    unlink(in_folder("chat_template.jinja"));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("chat_parts", setup, teardown);
    tcase_add_test(tests, white_space_characters);
    tcase_add_test(tests, tokens_of_the_files);
    tcase_add_test(tests, files_that_are_refused);
    tcase_add_test(tests, templates_with_names);
    tcase_add_test(tests, variables_and_the_date);
    tcase_add_test(tests, texts_of_every_kind);
    return run_suites();
}
