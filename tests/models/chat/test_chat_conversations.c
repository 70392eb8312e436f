/* The texts of conversations in all kinds of chat templates equal those in tests/fixtures/chat/conversations.txt. Tokens
 * that cross the parts of a conversation, or that are not the text, are marked correctly. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "folder.h"

#include "context.h"

static th_tokenizer *bytes;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
    bytes = th_tokenizer_bytes_new(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* -- conversations -- */

enum { MAX_MESSAGES = 6 };
#define SYSTEM(text)                                                                                                   \
    {                                                                                                                  \
        "system", text                                                                                                 \
    }
#define USER(text)                                                                                                     \
    {                                                                                                                  \
        "user", text                                                                                                   \
    }
#define ANSWER(text)                                                                                                   \
    {                                                                                                                  \
        "assistant", text                                                                                              \
    }
#define THOUGHT "<think>\nwell\n</think>\n\n"
static const th_chat_message conversations[][MAX_MESSAGES] = {
    {USER("Hi")},
    {USER(" \n Hi \n "), ANSWER(" \n Hello \n ")},
    {SYSTEM(" Be brief.\n"), USER("Hi")},
    {SYSTEM("Be brief."), USER("Hi"), ANSWER("Hello"), USER("Bye")},
    {SYSTEM("Be brief."), USER("Hi"), ANSWER("Hello"), USER("Bye"), ANSWER("See you")},
    {USER("1"), ANSWER("2"), USER("3"), ANSWER("4"), USER("5"), ANSWER("6")},
    {SYSTEM(""), USER("Hi"), ANSWER("Hello")},
    {SYSTEM("/no_think"), USER("Hi"), ANSWER("Hello")},
    {SYSTEM("Be brief."), USER(""), ANSWER("")},
    {SYSTEM("Be brief.")},
    {ANSWER("Hello"), USER("Hi")},
    {USER("Hi"), USER("Ho")},
    {USER("Hi"), SYSTEM("Be brief."), ANSWER("Hello")},
    {SYSTEM("a"), SYSTEM("b"), USER("c")},
    {USER("1"), ANSWER(THOUGHT "2"), USER("3"), ANSWER(THOUGHT "4")},
    {USER("1"), ANSWER(THOUGHT "2"), USER("3")},
    {USER("1"), ANSWER("<think>\n"), USER("2"), ANSWER("</think>3")},
    {USER("\xc3\xa9 <think>x</think>"), ANSWER("\n\n<think></think>\n\n\n4")},
    {SYSTEM("Be brief."), USER(" \n "), ANSWER(" \n ")},
    {USER("\n\n")},
    {{"tool", "Hi"}},
    {{"user", NULL}},
};
enum { CONVERSATIONS = sizeof conversations / sizeof *conversations };

static size_t length_of(const th_chat_message *messages)
{
    size_t n = 0;
    while (n < MAX_MESSAGES && messages[n].role)
        n++;
    return n;
}

static uint32_t hash_of(const char *text, size_t count)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* Appends the conversation's text, with [ and ] around the parts that count. The date of SmolLM 3 is left out. */
static void append_marked(th_text *to, const th_token_list *tokens, const th_text *marks)
{
    char out[4096];
    size_t n = 0;
    for (size_t i = 0; i <= tokens->count; i++) {
        const bool before = i > 0 && marks->bytes[i - 1] == 0, now = i < tokens->count && marks->bytes[i] == 0;
        if (before != now)
            out[n++] = now ? '[' : ']';
        if (i < tokens->count)
            out[n++] = (char)tokens->token[i];
        ck_assert_uint_lt(n, sizeof out - 2);
    }
    out[n] = 0;
    char *date = strstr(out, "Today Date: "), *end = date ? strchr(date, '\n') : NULL;
    if (end)
        memmove(date, end, strlen(end) + 1);
    snprintf(to->bytes, to->capacity, "%s", out);
    to->count = strlen(out);
}

/* Writes one conversation in one way. Returns the hash of its marked text, or the code of the error. */
static uint32_t result_of(const th_chat_template *chat, int c, const th_chat_options *options, th_text *text)
{
    th_token_list tokens = {0};
    th_text marks = {0}, plain = {0};
    const th_chat_message *messages = conversations[c];
    const size_t n = length_of(messages);
    const th_status status = th_chat_encode(chat, bytes, messages, n, options, &tokens, &marks);
    ck_assert_int_eq(th_chat_write(chat, messages, n, options, &plain), status);
    th_error_clear(ctx);
    snprintf(text->bytes, text->capacity, "refused");
    if (status == TH_OK) {
        ck_assert_uint_eq(plain.count, tokens.count); /* a token is a byte */
        for (size_t i = 0; i < plain.count; i++)
            ck_assert_int_eq(tokens.token[i], (unsigned char)plain.bytes[i]);
        append_marked(text, &tokens, &marks);
    }
    th_token_list_free(&tokens);
    th_text_free(&marks);
    th_text_free(&plain);
    return status == TH_OK ? hash_of(text->bytes, text->count) : (uint32_t)status;
}

/* A line is "kind conversation: hash hash hash": a whole text, a prompt, and a text with all thoughts. */
START_TEST(the_texts_of_all_kinds)
{
    static const th_chat_options options[] = {{0}, {.prompt = true}, {.all_thoughts = true}};
    char buffer[4096], kind[40];
    th_text text = {.bytes = buffer, .capacity = sizeof buffer};
    FILE *file = fopen(FIXTURES "/chat/conversations.txt", "r");
    ck_assert_ptr_nonnull(file);
    for (int k = 0; th_chat_kind_name(k); k++) {
        th_chat_template *chat = th_chat_template_new(ctx, th_chat_kind_name(k), "<s>", "</s>");
        ck_assert_ptr_nonnull(chat);
        for (int c = 0; c < CONVERSATIONS; c++) {
            int number = -1;
            ck_assert_int_eq(fscanf(file, "%39s %d:", kind, &number), 2);
            ck_assert_msg(strcmp(kind, th_chat_kind_name(k)) == 0 && number == c, "%s %d", kind, number);
            for (int o = 0; o < 3; o++) {
                uint32_t wanted;
                ck_assert_int_eq(fscanf(file, "%x", &wanted), 1);
                const uint32_t found = result_of(chat, c, &options[o], &text);
                ck_assert_msg(found == wanted, "%s, conversation %d, options %d: hash %x, text \"%s\"", kind, c, o,
                              found, text.bytes);
            }
        }
        th_chat_template_free(chat);
    }
    ck_assert_int_eq(fscanf(file, "%39s", kind), EOF);
    fclose(file);
}
END_TEST

/* A template of more than 1 MB is not read. */
START_TEST(templates_that_are_too_large)
{
    write_bytes(in_folder("chat_template.jinja"), "", 0);
    ck_assert_int_eq(truncate(in_folder("chat_template.jinja"), (1 << 20) + 1), 0);
    const int descriptor = next_descriptor();
    expect_failure(th_chat_template_load(ctx, folder) == NULL, TH_ERROR_FILE, "too large");
    ck_assert_int_eq(next_descriptor(), descriptor);
}
END_TEST

/* -- tokens that count -- */

/* The bytes of the text that count. */
static th_text counted_bytes(const th_chat_template *chat, const th_chat_message *messages, th_text *text)
{
    th_token_list tokens = {0};
    th_text marks = {0};
    const size_t n = length_of(messages);
    ck_assert_int_eq(th_chat_encode(chat, bytes, messages, n, &(th_chat_options){0}, &tokens, &marks), TH_OK);
    ck_assert_int_eq(th_chat_write(chat, messages, n, &(th_chat_options){0}, text), TH_OK);
    th_token_list_free(&tokens);
    return marks;
}

/* A token counts if one of its bytes does: tokens may cross the parts. */
START_TEST(tokens_across_the_parts)
{
    static const char corpus[] =
        "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\n3";
    int crossing = 0;
    for (int vocabulary = 257; vocabulary < 340; vocabulary += 6) {
        th_tokenizer *t = th_tokenizer_train(ctx, corpus, sizeof corpus - 1,
                                             &(th_bpe_options){.vocabulary = vocabulary, .pattern = "[^~]+"});
        th_chat_template *chat = th_chat_template_new(ctx, "chatml", NULL, NULL);
        for (int c = 1; c < 8; c++) {
            const th_chat_message *messages = conversations[c];
            th_text text = {0}, marks = {0}, whole = counted_bytes(chat, messages, &text);
            th_token_list tokens = {0};
            ck_assert_int_eq(
                th_chat_encode(chat, t, messages, length_of(messages), &(th_chat_options){0}, &tokens, &marks), TH_OK);
            ck_assert_uint_eq(marks.count, tokens.count);
            size_t at = 0;
            for (size_t i = 0; i < tokens.count; i++) {
                size_t n, counted = 0;
                ck_assert_ptr_nonnull(th_tokenizer_bytes(t, tokens.token[i], &n));
                for (size_t j = at; j < at + n; j++)
                    counted += whole.bytes[j] == 0;
                ck_assert_int_eq(marks.bytes[i], counted > 0 ? 0 : TH_TOKEN_GIVEN);
                crossing += counted > 0 && counted < n;
                at += n;
            }
            ck_assert_uint_eq(at, whole.count);
            th_token_list_free(&tokens);
            th_text_free(&marks);
            th_text_free(&whole);
            th_text_free(&text);
        }
        th_chat_template_free(chat);
        th_tokenizer_free(t);
    }
    ck_assert_int_gt(crossing, 20);
}
END_TEST

/* A tokenizer that changes the text marks the same tokens as for the changed text. */
START_TEST(tokens_of_a_changed_text)
{
    static const char saved[] = "\"normalizer\": null", lower[] = "\"normalizer\": {\"type\": \"Lowercase\"}";
    static const th_chat_message upper[] = {USER("HELLO You"), ANSWER("YES Is"), USER("Or"), ANSWER("NO")},
                                 small[] = {USER("hello you"), ANSWER("yes is"), USER("or"), ANSWER("no")};
    char changed[1 << 16];
    size_t size;
    ck_assert_int_eq(th_tokenizer_save(bytes, folder), TH_OK);
    char *json = read_bytes(in_folder("tokenizer.json"), &size), *at = strstr(json, "\"normalizer\"");
    ck_assert_ptr_nonnull(at);
    char *end = strstr(at, "null");
    ck_assert(end && end - at < (ptrdiff_t)sizeof saved);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - json), json, lower, end + 4);
    write_bytes(in_folder("tokenizer.json"), changed, strlen(changed));
    free(json);
    th_tokenizer *t = th_tokenizer_load(ctx, folder);
    no_error();
    th_chat_template *chat = th_chat_template_new(ctx, "chatml", NULL, NULL);
    th_token_list a = {0}, b = {0};
    th_text x = {0}, y = {0};
    ck_assert_int_eq(th_chat_encode(chat, t, upper, 4, &(th_chat_options){0}, &a, &x), TH_OK);
    ck_assert_int_eq(th_chat_encode(chat, bytes, small, 4, &(th_chat_options){0}, &b, &y), TH_OK);
    ck_assert_uint_eq(a.count, b.count);
    ck_assert_mem_eq(a.token, b.token, a.count * sizeof *a.token);
    ck_assert_uint_eq(x.count, a.count);
    ck_assert_mem_eq(x.bytes, y.bytes, x.count);
    th_chat_template_free(chat);
    th_token_list_free(&a);
    th_token_list_free(&b);
    th_text_free(&x);
    th_text_free(&y);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("chat conversations", setup, teardown);
    tcase_add_test(tests, the_texts_of_all_kinds);
    tcase_add_test(tests, templates_that_are_too_large);
    tcase_add_test(tests, tokens_across_the_parts);
    tcase_add_test(tests, tokens_of_a_changed_text);
    return run_suites();
}
