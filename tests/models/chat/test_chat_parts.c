/* Parts of chat templates: white space that is trimmed, the text that recognizes a template, the tokens of a folder's
 * files, and the rules of each kind. */
#include <string.h>

#include "models/chat/writer.h"
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

/* Each character is trimmed on both sides if it is white space, and only then. */
START_TEST(white_space_characters)
{
    for (int c = 1; c < 0x10000; c++) {
        char text[16];
        const size_t n = encode(c, text), space = is_space(c) ? n : 0;
        memcpy(text + n, "a b", 3);
        memcpy(text + n + 3, text, n);
        const th_chat_string p = th_chat_trim((th_chat_string){text, 2 * n + 3});
        ck_assert_msg(p.at == text + space && p.count == 2 * n + 3 - 2 * space, "U+%04X", (unsigned)c);
        const th_chat_string alone = th_chat_trim((th_chat_string){text, n});
        ck_assert_msg(alone.count == n - space, "U+%04X alone", (unsigned)c);
        if (n > 1 && is_space(c)) /* a part of the character */
            ck_assert_uint_eq(th_chat_trim((th_chat_string){text, n - 1}).count, n - 1);
    }
    static const char mixed[] = " \n\xe3\x80\x80\xc2\xa0\t\xe2\x80\x83x\xe2\x80\xa8 \xc2\x85\r\n";
    const th_chat_string p = th_chat_trim((th_chat_string){mixed, sizeof mixed - 1});
    ck_assert(p.count == 1 && *p.at == 'x');
    ck_assert_uint_eq(th_chat_trim((th_chat_string){mixed, 0}).count, 0);
}
END_TEST

/* -- the text of a template -- */

#define CHATML_BEGIN                                                                                                   \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
#define CHATML_END "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
static const char chatml[] = CHATML_BEGIN CHATML_END;

static const char *kind_of(const char *text)
{
    const th_chat_kind *kind = th_chat_recognize(text, strlen(text));
    return kind ? kind->name : "none";
}

/* Replaces the first `from` in the template. */
static const char *with(const char *from, const char *to)
{
    static char text[600];
    const char *at = strstr(chatml, from);
    ck_assert_msg(at != NULL, "%s", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - chatml), chatml, to, at + strlen(from));
    return text;
}

START_TEST(texts_that_mean_the_same)
{
    static const char *const same[][2] = {
        {"{% for", "{%for"},
        {"{% for", "{%  \n\t for"},
        {"for message", "for \t\n message"},
        {"messages %}", "messages%}"},
        {"' + message['role']", "'+message[  'role' ]"},
        {"\\n", "\n"},
        {"\\n", "\r\n"},
        {"{% endif %}", "{% endif %}\n"},
        {"{% endif %}", "{% endif %}\r\n"},
        {"{% endif %}", "\r{% endif %}"},
        {"{{'<|", "\r{{'<|"},
    };
    ck_assert_str_eq(kind_of(chatml), "chatml");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(strcmp(kind_of(with(same[i][0], same[i][1])), "chatml") == 0, "%zu: %s", i,
                      with(same[i][0], same[i][1]));
}
END_TEST

START_TEST(texts_that_differ)
{
    static const char *const other[][2] = {
        {"for message", "formessage"},
        {"%}{{", "%} {{"},
        {"%}{{", "%}\n{{"},
        {"<|im_start|>", "<|im_ start|>"},
        {"\\n", "\\r"},
        {"\\n", " \\n"},
        {"\\n", "\\\n"},
        {"'<|", "\"<|"},
        {"{% for", "{# #}{% for"},
        {"{% for", "x{% for"},
        {"{% for", "\n{% for"},
        {"{% endif %}", "{% endif %} "},
        {"{% endif %}", "{% endif %}\n\n"},
        {"{% endif %}", "{% endif %}x"},
        {"{% endif %}", "{%- endif %}"},
        {"{% endif %}", "{% endif -%}"},
        {"{% for", "{%- for"},
        {"{% endif %}", ""},
        {"{% endif %}", "{% endif %"},
        {"{% endif %}", "{% endif"},
        {"'\\n'}}", "'\\n}}"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_msg(strcmp(kind_of(with(other[i][0], other[i][1])), "none") == 0, "%zu: %s", i,
                      with(other[i][0], other[i][1]));
    char text[sizeof chatml];
    strcpy(text, chatml);
    for (size_t i = 0; i < sizeof chatml - 1; i++) { /* each byte matters, except a space in a tag */
        const char kept = text[i];
        text[i] = kept == '?' ? '!' : '?';
        ck_assert_msg(strcmp(kind_of(text), kept == ' ' ? "?" : "chatml") != 0, "byte %zu", i);
        text[i] = kept;
    }
    for (size_t n = 0; n < sizeof chatml - 1; n++)
        ck_assert_ptr_null(th_chat_recognize(chatml, n));
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
    write_text("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"other\", \"template\": \"{{ y }}\"}]}");
    th_chat_template *chat = th_chat_template_load(ctx, folder);
    no_error();
    ck_assert_str_eq(th_chat_template_kind(chat), "plain");
    write_text("tokenizer_config.json", "{}");
    write_text("special_tokens_map.json", "[]");
    expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE,
                   "special_tokens_map.json is not a JSON object");
    unlink(in_folder("special_tokens_map.json"));
    write_text("chat_template.jinja", chatml);
    chat = th_chat_template_load(ctx, folder);
    ck_assert_str_eq(th_chat_template_kind(chat), "chatml");
    ck_assert_int_eq(truncate(in_folder("chat_template.jinja"), 1 << 20), 0); /* (the largest) */
    chat = th_chat_template_load(ctx, folder);
    no_error();
    ck_assert_str_eq(th_chat_template_kind(chat), "jinja");
    ck_assert_int_eq(truncate(in_folder("chat_template.jinja"), (1 << 20) + 1), 0);
    expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE,
                   "chat_template.jinja: the file is too large");
}
END_TEST

/* -- kinds -- */

/* Every kind has all of its texts, and ends an answer with its own token or the tokenizer's. */
START_TEST(texts_of_every_kind)
{
    static const char *const own[][2] = {{"chatml", "<|im_end|>"},   {"qwen", "<|im_end|>"},
                                         {"smollm", "<|im_end|>"},   {"llama-3", "<|eot_id|>"},
                                         {"gemma", "<end_of_turn>"}, {"phi", "<|end|>"}};
    for (int i = 0; th_chat_kind_name(i); i++) {
        const th_chat_kind *k = &th_chat_table[i];
        const char *end = "</s>";
        for (size_t j = 0; j < sizeof own / sizeof *own; j++)
            if (strncmp(k->name, own[j][0], strlen(own[j][0])) == 0)
                end = own[j][1];
        ck_assert_msg(k->prompt && k->stop && k->user.before && k->user.after && k->assistant.before &&
                          k->assistant.after,
                      "%s", k->name);
        ck_assert_msg((k->system.before != NULL && k->system.after != NULL) ||
                          (k->rules & (TH_CHAT_NO_SYSTEM | TH_CHAT_SMOLLM_3)) != 0,
                      "%s", k->name);
        th_chat_template *chat = th_chat_template_new(ctx, k->name, "<s>", "</s>");
        ck_assert_str_eq(th_chat_template_kind(chat), k->name);
        ck_assert_str_eq(th_chat_template_end(chat), end);
        th_chat_template_free(chat);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("chat_parts", setup, teardown);
    tcase_add_test(tests, white_space_characters);
    tcase_add_test(tests, texts_that_mean_the_same);
    tcase_add_test(tests, texts_that_differ);
    tcase_add_test(tests, tokens_of_the_files);
    tcase_add_test(tests, files_that_are_refused);
    tcase_add_test(tests, texts_of_every_kind);
    return run_suites();
}
