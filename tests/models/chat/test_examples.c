/* Examples as people have them: formats of texts, fields, and the faults of a file. What counts is in brackets. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static th_tokenizer *tokenizer;
static th_chat_template *chat;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
    tokenizer = th_tokenizer_bytes_new(ctx);
    ck_assert_int_eq(th_tokenizer_add(tokenizer, "</s>"), 256);
    chat = th_chat_template_new(ctx, "plain", NULL, "</s>");
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* -- what a text becomes -- */

static th_status append(const char *text, size_t bytes, th_instruction_counts *counts)
{
    th_token_writer *writer = th_token_writer_open_marked(ctx, in_folder("a.tokens"), th_tokenizer_size(tokenizer));
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
    const th_status status = th_instructions_append(chat, tokenizer, text, bytes, "data", writer, counts);
    if (status == TH_OK)
        ck_assert_int_eq(th_token_writer_close(writer), TH_OK);
    else
        th_token_writer_free(writer);
    return status;
}

/* Writes the text of all examples, one after the other, with brackets around what counts and | before each. */
static void show(char *shown)
{
    th_token_file *file = th_token_file_open(ctx, in_folder("a.tokens"), NULL);
    bool inside = false;
    *shown = 0;
    for (int64_t i = 0; i < th_token_file_count(file); i++) {
        th_text text = {0};
        int32_t token;
        unsigned char mark;
        ck_assert_int_eq(th_token_file_read(file, i, 1, &token), TH_OK);
        ck_assert_int_eq(th_token_file_read_marks(file, i, 1, &mark), TH_OK);
        ck_assert_int_eq(th_tokenizer_decode(tokenizer, &token, 1, &text), TH_OK);
        const bool counts = (mark & TH_TOKEN_GIVEN) == 0;
        strcat(shown, counts == inside ? "" : counts ? "[" : "]");
        strcat(shown, mark & TH_TOKEN_BEGINS ? "|" : "");
        strcat(shown, text.bytes);
        inside = counts;
        th_text_free(&text);
    }
    strcat(shown, inside ? "]" : "");
    th_token_file_close(file);
}

static void check_text(const char *text, size_t bytes, const char *wanted)
{
    char shown[4000];
    char *copy = malloc(bytes); /* of exact size, for the sanitizers */
    memcpy(copy, text, bytes);
    const th_status status = append(copy, bytes, NULL);
    free(copy);
    ck_assert_msg(status == TH_OK, "%s: %s", text, th_error_text(ctx));
    show(shown);
    ck_assert_msg(strcmp(shown, wanted) == 0, "%s\nis\n%s\nnot\n%s", text, shown, wanted);
}

#define CHECK(text, wanted) check_text(text, sizeof(text) - 1, wanted)
#define REFUSED(text, words) expect_status(append(text, sizeof(text) - 1, NULL), TH_ERROR_VALUE, words)

/* The text of the kind plain. */
#define TURN(question, answer) "|User: " question "\n\nAssistant:[ " answer "</s>"
#define ONE TURN("a", "b") "]"
#define TWO TURN("a", "b") "]" TURN("c", "d") "]"

/* -- formats -- */

START_TEST(values_of_json)
{
    static const char *const texts[] = {
        "{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\"c\",\"answer\":\"d\"}",
        "\xef\xbb\xbf{\"question\":\"a\",\"answer\":\"b\"}\r\n\r\n{\"question\":\"c\",\"answer\":\"d\"}\r\n",
        "{\n  \"question\": \"a\",\n  \"answer\": \"b\"\n}\n{\n  \"question\": \"c\",\n  \"answer\": \"d\"\n}\n",
        "[{\"question\":\"a\",\"answer\":\"b\"},{\"question\":\"c\",\"answer\":\"d\"}]",
        "\n [\n  {\n    \"question\": \"a\",\n    \"answer\": \"b\"\n  },\n  {\n    \"question\": \"c\",\n    "
        "\"answer\": \"d\"\n  }\n ]\n\n",
        "[{\"question\":\"a\",\"answer\":\"b\"}]\n[{\"question\":\"c\",\"answer\":\"d\"}]",
        "{\"question\":\"a\",\"answer\":\"b\", \"x\": [{\"y\": \"}\\\"]\"}]}  \n[\n]"
        "\n\t{\"question\":\"c\",\"answer\":\"d\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_text(texts[i], strlen(texts[i]), TWO);
        ck_assert_str_eq(th_instructions_format(texts[i], strlen(texts[i])), "JSON");
    }
}
END_TEST

START_TEST(tables)
{
    static const struct {
        const char *text, *format, *wanted;
    } cases[] = {
        {"question,answer\na,b\nc,d\n", "CSV", TWO},
        {"\xef\xbb\xbfQuestion,Answer\r\na,b\r\n\r\nc,d", "CSV", TWO},
        {",\"question\",id, answer \n0,a,7,b\n1,c,8,d\n", "CSV", TWO},
        {"answer;question\nb;a\n\"d\";\"c\"\n", "CSV", TWO},
        {"question\tanswer\na\tb\nc\td\n", "TSV", TWO},
        {"context\tquestion\tanswer\n\ta\tb\n\tc\td\n", "TSV", TWO},
        {"question,answer\n\"a, \"\"x\"\"\n y\",\"b\"\n", "CSV", TURN("a, \"x\"\n y", "b") "]"},
        {"Prompt,completion\na,b\n", "CSV", "|a[b</s>]"},
        {"text\nab\n\"c\nd\"\n", "CSV", "[|ab</s>|c\nd</s>]"},
        {"question|answer\na|b\nc|d\n", "CSV", TWO},
        {"messages\n\"[{\"\"role\"\":\"\"user\"\",\"\"content\"\":\"\"a\"\"},{\"\"role\"\":\"\"assistant\"\","
         "\"\"content\"\":\"\"b\"\"}]\"\n",
         "CSV", ONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_text(cases[i].text, strlen(cases[i].text), cases[i].wanted);
        ck_assert_str_eq(th_instructions_format(cases[i].text, strlen(cases[i].text)), cases[i].format);
    }
}
END_TEST

START_TEST(rows_with_faults)
{
    REFUSED("question,answer\na,b\nc\n", "data, line 3: the row has fewer fields than the header");
    REFUSED("question,answer\na,b,c\n", "data, line 2: the row has more fields than the header");
    REFUSED("question,answer\n\"a\nb\",c\nd,\"e",
            "data, line 4: a field of this row begins with a quotation mark, and the");
    REFUSED("question,answer\n\"a\"b,c\n", "data, line 2: text follows the closing quotation mark of a field");
    REFUSED("question,answer\na,caf\xe9\n", "data, line 2: the row is not UTF-8; `iconv -f windows-1252 -t utf-8`");
    REFUSED("question,answer\na,b\0c\n", "data, line 2: the row has a NUL character");
    REFUSED("question,answer\na,\n", "data, line 2: its answer is empty");
    REFUSED("height,width\n1,2\n", "data: it has \"height\" (a text) and \"width\" (a text); the nearest format is");
}
END_TEST

/* A file that another program has cut, and lines that are not JSON, do not hide the lines after them. */
START_TEST(json_with_faults)
{
    REFUSED("[{\"text\": \"a\"}, 5, {\"text\": \"b\"}]", "data, line 1: the line is not a JSON object: 5; each");
    REFUSED("[\n{\"text\": \"a\"},\n", "data, line 3: the array of examples has no end, so the file is not complete");
    REFUSED("{\"text\": \"a\"}, {\"text\": \"b\"}", "data, line 1: the line has more text after its object: , {");
    REFUSED("{\"text\": \"a\"}\nwords\n{\"text\": 1}\n",
            "data, line 2: the line is not a JSON object: words; each line is one example");
    expect_status(append("{\"text\": \"a\n{\"text\": 1}\n", 23, NULL), TH_ERROR_FILE,
                  "byte 11: the text ends too early (1 such); line 2: it has \"text\" (a number)");
    expect_status(append("{\"text\": \"a\"\n{\"text\": 1}\n", 24, NULL), TH_ERROR_FILE, "; line 2: it has \"text\"");
    expect_status(append("{\"text\": \"a\"\n{\"text\": 1}\n}\n", 27, NULL), TH_ERROR_FILE,
                  "; line 2: it has \"text\" (a number)");
    expect_status(append("{\n  \"text\": \"a\"\n", 16, NULL), TH_ERROR_FILE, "line 1: byte 1: the text ends too early");
    expect_status(append("{\"text\": \"caf\xe9\"}", 16, NULL), TH_ERROR_FILE,
                  "a string is not UTF-8; `iconv -f windows-1252 -t utf-8` converts older texts");
    expect_status(append("{\"text\": \"a\0b\"}", 15, NULL), TH_ERROR_FILE, "line 1: byte 11: a NUL is not allowed");
}
END_TEST

/* -- fields -- */

START_TEST(questions_and_answers)
{
    CHECK("{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}", ONE);
    CHECK("{\"instruction\": \"a\", \"input\": \"x\", \"output\": \"b\"}", TURN("a\nx", "b") "]");
    CHECK("{\"instruction\": \"\", \"input\": \"a\", \"output\": \"b\"}", ONE);
    CHECK("{\"Instruction\": \"a\", \"context\": null, \"Response\": \"b\", \"category\": \"c\"}", ONE);
    CHECK("{\"question\": \"a\", \"context\": \"x\", \"answer\": \"b\"}", TURN("a\nx", "b") "]");
    CHECK("{\"prompt\": \"a\", \"response\": \"b\"}", ONE);
    CHECK("{\"query\": \"a\", \"answer\": \"b\"}", ONE);
    CHECK("{\"problem\": \"a\", \"solution\": \"b\"}", ONE);
    CHECK("{\"input\": \"a\", \"output\": \"b\"}", ONE);
    CHECK("{\"user\": \"a\", \"assistant\": \"b\"}", ONE);
    CHECK("{\"system_prompt\": \"s\", \"question\": \"a\", \"response\": \"b\"}",
          "|s\n\nUser: a\n\nAssistant:[ b</s>]");
    CHECK("{\"instruction\": \"c\", \"output\": \"d\", \"history\": [[\"a\", \"b\"]]}",
          "|User: a\n\nAssistant:[ b</s>\n\n]User: c\n\nAssistant:[ d</s>]");
    CHECK("{\"instruction\": \"a\", \"output\": \"b\", \"text\": \"c\"}", "[|c</s>]"); /* a form comes first */
    REFUSED("{\"question\": \"\", \"answer\": \"b\"}", "data, line 1: its question is empty");
    REFUSED("{\"question\": \"a\", \"answer\": \"b\", \"history\": [\"a\"]}", "its \"history\" must be like [[");
}
END_TEST

START_TEST(share_gpt)
{
    CHECK("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}", ONE);
    CHECK("{\"messages\": [{\"from\": \"user\", \"value\": \"a\"}, {\"from\": \"bot\", \"value\": \"b\"}]}", ONE);
    CHECK(
        "{\"conversation\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
        ONE);
    CHECK("{\"conversations\": \"[{\\\"from\\\": \\\"human\\\", \\\"value\\\": \\\"a\\\"}, {\\\"from\\\": \\\"gpt\\\", "
          "\\\"value\\\": \\\"b\\\"}]\"}",
          ONE);
    CHECK("{\"messages\": [{\"role\": \"developer\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"a\"}, "
          "{\"role\": \"assistant\", \"content\": \"b\"}]}",
          "|s\n\nUser: a\n\nAssistant:[ b</s>]");
    CHECK("{\"system\": \"s\", \"tools\": \"[]\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "
          "{\"from\": "
          "\"gpt\", \"value\": \"b\"}]}",
          "|s\n\nUser: a\n\nAssistant:[ b</s>]");
    REFUSED("{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"x\": 1}]}",
            "message 2 of \"conversations\" must be like {\"from\": \"human\"");
    REFUSED("{\"conversations\": [{\"from\": \"critic\", \"value\": \"a\"}]}", "the role is \"critic\"; it must be");
    REFUSED("{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}]}",
            "the template does not write tools; chatml, qwen-2.5, ");
    REFUSED("{\"tools\": \"f\", \"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}]}",
            "\"tools\" is a text; it must be an array");
}
END_TEST

static const char tool_template[] =
    "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}"
    "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}";

/* A template that is run gets calls and tools as OpenAI's API has them. */
START_TEST(calls_of_share_gpt)
{
    FILE *file = fopen(in_folder("chat_template.jinja"), "w");
    fputs(tool_template, file);
    fclose(file);
    chat = th_chat_template_load(ctx, in_folder("."));
    CHECK("{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"conversations\": [{\"from\": \"function_call\", \"value\": "
          "\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"x\\\": 1}}\"}, {\"from\": \"observation\", \"value\": "
          "\"7\"}]}",
          "|[{\"function\": {\"name\": \"f\"}, \"type\": \"function\"}]<assistant>[{\"function\": {\"name\": \"f\", "
          "\"arguments\": {\"x\": 1}}, \"type\": \"function\"}]<tool>[7]");
}
END_TEST

START_TEST(parts_of_contents)
{
    CHECK("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, \"x\", {\"type\": "
          "\"text\", \"value\": \"y\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": "
          "\"b\"}]}]}",
          TURN("axy", "b") "]");
    REFUSED("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {}}]}]}",
            "part 1 of message 1 of \"messages\" is not a text");
}
END_TEST

START_TEST(the_nearest_format)
{
    REFUSED("{\"prompt\": \"a\"}",
            "data, line 1: it has \"prompt\" (a text); the nearest format is {\"prompt\": \"a text\", "
            "\"response\": \"a text\"}, and \"response\" is missing");
    REFUSED("{\"prompt\": 1, \"completion\": \"a\"}", "\"completion\": \"a text\"}, and \"prompt\" must be a text");
    REFUSED("{\"question\": \"a\", \"response\": 3}", "{\"question\": \"a text\", \"response\": \"a text\"}, and "
                                                      "\"response\" must be a text");
    REFUSED("{\"output\": \"a\", \"id\": 3}",
            "{\"instruction\": \"a text\", \"output\": \"a text\"}, and \"instruction\" is "
            "missing");
    REFUSED("{\"original\": \"a\", \"plain\": \"b\"}", "{\"question\": \"a text\", \"answer\": \"a text\"}: rename "
                                                       "\"original\" to \"question\" and \"plain\" to \"answer\"");
    REFUSED("{\"version\": 1, \"data\": [{\"text\": \"a\"}]}",
            "it has \"version\" (a number) and \"data\" (an array); if the objects in \"data\" are the examples, write "
            "this array alone into the file");
    REFUSED("{\"id\": 1, \"turns\": [\"a\"]}",
            "it has \"id\" (a number) and \"turns\" (an array); the nearest format is "
            "{\"messages\": [{\"role\"");
    REFUSED("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", "it compares two answers, \"chosen\" and");
}
END_TEST

/* -- faults of a file -- */

START_TEST(kinds_of_faults)
{
    th_instruction_counts counts = {0};
    static const char text[] = "{\"text\": \"a\"}\n{\"x\": 1}\n{\"messages\": [3]}\n{\"x\": 2}\n"
                               "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, 3]}\n{\"text\": \"b\"}\n";
    expect_status(append(text, sizeof text - 1, &counts), TH_ERROR_VALUE,
                  "instructions: data, line 2: it has \"x\" (a ");
    ck_assert_int_eq(counts.examples, 1);
    expect_status(append(text, sizeof text - 1, &counts), TH_ERROR_VALUE, " (2 such); line 3: message 1 of");
    expect_status(append(text, sizeof text - 1, &counts), TH_ERROR_VALUE,
                  " (2 such). In all, 4 of 6 examples have faults");
    REFUSED("{\"a\":1}\n{\"b\":1}\n{\"c\":1}\n{\"d\":1}\n{\"e\":1}\n{\"f\":1}\n",
            "; 2 have other faults. In all, 6 of 6 examples have faults");
}
END_TEST

START_TEST(many_faults)
{
    enum { LINES = 3000 };
    static const char line[] = "{\"x\": 1}\n";
    char *text = malloc(LINES * (sizeof line - 1));
    for (int i = 0; i < LINES; i++)
        memcpy(text + (size_t)i * (sizeof line - 1), line, sizeof line - 1);
    expect_status(append(text, LINES * (sizeof line - 1), NULL), TH_ERROR_VALUE,
                  "In all, 1000 of 1000 examples have faults, and the rest was not read");
    free(text);
}
END_TEST

/* A line with an open bracket must not be searched for its end in all lines after it: this takes minutes then. */
START_TEST(open_brackets)
{
    enum { LINES = 200000 };
    static const char line[] = "{\"text\": [\"a\",\n";
    const size_t bytes = sizeof line - 1;
    char *text = malloc(LINES * bytes);
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + i * bytes, line, bytes);
    expect_status(append(text, LINES * bytes, NULL), TH_ERROR_FILE, "and the rest was not read");
    free(text);
}
END_TEST

START_TEST(texts_without_examples)
{
    static const char *const texts[] = {
        "",  " \n", "words\n",      "a,b\n1,2\n", "{\"a\": 1}",        "[1, 2]",
        "{", "[",   "text words\n", "question\n", "\"question,answer", "question,an\xff,answer\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(th_instructions_format(texts[i], strlen(texts[i])) == NULL, "%s", texts[i]);
    ck_assert_ptr_null(th_instructions_format(NULL, 0));
    ck_assert_int_eq(append("", 0, NULL), TH_OK);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("examples", setup, teardown);
    tcase_add_test(tests, values_of_json);
    tcase_add_test(tests, tables);
    tcase_add_test(tests, rows_with_faults);
    tcase_add_test(tests, json_with_faults);
    tcase_add_test(tests, questions_and_answers);
    tcase_add_test(tests, share_gpt);
    tcase_add_test(tests, calls_of_share_gpt);
    tcase_add_test(tests, parts_of_contents);
    tcase_add_test(tests, the_nearest_format);
    tcase_add_test(tests, kinds_of_faults);
    tcase_add_test(tests, many_faults);
    tcase_add_test(tests, open_brackets);
    tcase_add_test(tests, texts_without_examples);
    return run_suites();
}
