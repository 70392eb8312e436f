/* Chat templates, instruction data, marks of tokens and packed windows. */
#include "subjects.h"

#include <string.h>

static const char lines[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n"
    "{\"prompt\": \"abc\", \"completion\": \"de\"}\n"
    "{\"prompt\": [{\"role\": \"user\", \"content\": \"x\"}], \"completion\": [{\"role\": \"assistant\", \"content\": "
    "\"yz\"}]}\n";

/* Other formats and fields, as the lines. */
static const char array[] = "[{\"system\": \"s\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "
                            "{\"from\": \"gpt\", \"value\": \"b\"}]},"
                            "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\", \"history\": [[\"d\", "
                            "\"e\"]], \"tools\": \"[]\"}]\n";
static const char table[] = "question,answer\n\"a\nb\",c\n";

static th_status template_loaded(program_run *r)
{
    static const char config[] = "{\"eos_token\": {\"content\": \"</s>\"}, \"model_max_length\": 1e30}";
    (void)remove(in_folder(r, "chat_template.jinja")); /* of the last step, in an earlier run */
    FILE *file = fopen(in_folder(r, "tokenizer_config.json"), "w");
    if (file) {
        fputs(config, file);
        fclose(file);
    }
    th_chat_template *chat = th_chat_template_load(r->ctx, in_folder(r, "."));
    if (chat == NULL)
        return th_error_code(r->ctx);
    add_text(r, th_chat_template_kind(chat));
    add_text(r, th_chat_template_end(chat));
    th_chat_template_free(chat);
    chat = th_chat_template_load_as(r->ctx, in_folder(r, "."), "chatml");
    if (chat == NULL)
        return th_error_code(r->ctx);
    add_text(r, th_chat_template_end(chat));
    th_chat_template_free(chat);
    th_text text = {0};
    th_status status = th_chat_template_text(r->ctx, in_folder(r, "."), &text);
    if (status == TH_OK)
        status = th_chat_template_text_as(r->ctx, in_folder(r, "."), "chatml", &text);
    add_number(r, (double)text.count);
    th_text_free(&text);
    return status;
}

/* Sets the end, the variables and the date, and writes a conversation in JSON. */
static th_status conversation_written(program_run *r, th_chat_template *chat, th_text *text)
{
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}";
    th_status status = th_chat_template_set_end(chat, "</s>");
    if (status == TH_OK)
        status = th_chat_template_set_variables(chat, "{\"usual_system\": \"Be brief.\"}");
    if (status == TH_OK)
        status = th_chat_template_set_date(chat, "2026-11-28");
    return status == TH_OK ? th_chat_write_json(chat, json, sizeof json - 1, NULL, text) : th_error_code(r->ctx);
}

static th_status conversation_encoded(program_run *r)
{
    static const th_chat_message message = {"user", "Hello"};
    th_tokenizer *tokenizer = th_tokenizer_bytes_new(r->ctx);
    th_chat_template *chat = th_chat_template_new(r->ctx, th_chat_kind_name(1), NULL, NULL);
    th_text text = {0}, marks = {0};
    th_token_list tokens = {0};
    th_status status = th_error_code(r->ctx);
    add_text(r, th_instructions_format(lines, sizeof lines - 1));
    if (status == TH_OK)
        status = th_chat_write(chat, &message, 1, NULL, &text);
    if (status == TH_OK)
        status = conversation_written(r, chat, &text);
    if (status == TH_OK)
        status = th_chat_encode(chat, tokenizer, &message, 1, NULL, &tokens, &marks);
    if (status == TH_OK)
        status = th_instruction_encode(chat, tokenizer, lines, strcspn(lines, "\n"), "line", &tokens, &marks);
    if (status == TH_OK) {
        add_bytes(r, text.bytes, text.count);
        add_bytes(r, tokens.token, tokens.count * sizeof *tokens.token);
        add_bytes(r, marks.bytes, marks.count);
    }
    th_text_free(&text);
    th_text_free(&marks);
    th_token_list_free(&tokens);
    th_chat_template_free(chat);
    th_tokenizer_free(tokenizer);
    return status;
}

static th_status examples_read(program_run *r)
{
    static const char rows[] = "text,label\na,x\n\"b\nc\",y\n";
    th_text_examples data = {0};
    const th_text_example_options options = {.kind = TH_EXAMPLES_LABELS};
    TRY(th_text_examples_read(r->ctx, rows, sizeof rows - 1, "rows", &options, &data));
    for (int64_t i = 0; i < data.count; i++) {
        add_text(r, data.text[i]);
        add_text(r, data.label_names[data.label[i]]);
    }
    int64_t next[1];
    th_batches batches = {.count = data.count, .batch = 1, .shuffle = true, .seed = 1};
    add_number(r, (double)(th_batches_next(&batches, next) + 10 * next[0]));
    th_text_examples_free(&data);
    return TH_OK;
}

static th_status lines_written(program_run *r)
{
    th_tokenizer *tokenizer = th_tokenizer_bytes_new(r->ctx);
    th_chat_template *chat = th_chat_template_new(r->ctx, "plain", NULL, "\n");
    th_token_writer *writer = th_token_writer_open_marked(r->ctx, in_folder(r, "marked.tokens"), 256);
    th_status status = th_error_code(r->ctx);
    if (status == TH_OK)
        status = th_instructions_append(chat, tokenizer, lines, sizeof lines - 1, "lines", writer, NULL);
    if (status == TH_OK)
        status = th_instructions_append(chat, tokenizer, array, sizeof array - 1, "array", writer, NULL);
    if (status == TH_OK)
        status = th_instructions_append(chat, tokenizer, table, sizeof table - 1, "table", writer, NULL);
    if (status == TH_OK)
        status = th_token_writer_append_marked(writer, (const int32_t[]){1, 2},
                                               (const unsigned char[]){TH_TOKEN_BEGINS, 0}, 2);
    if (status == TH_OK)
        status = th_token_writer_close(writer);
    else
        th_token_writer_free(writer);
    th_chat_template_free(chat);
    th_tokenizer_free(tokenizer);
    return status;
}

static th_status windows_read(program_run *r, th_windows *windows)
{
    th_tensor *batch[3];
    for (int i = 0; i < 3; i++)
        batch[i] = th_empty(r->ctx, TH_INT32, TH_SHAPE(2, 24));
    TRY(th_error_code(r->ctx));
    TRY(th_windows_next_packed(windows, batch[0], batch[1], batch[2]));
    for (int i = 0; i < 3; i++)
        add_tensor(r, batch[i]);
    return TH_OK;
}

static th_status windows_packed(program_run *r)
{
    unsigned char marks[8];
    th_token_file *file = th_token_file_open(r->ctx, in_folder(r, "marked.tokens"), NULL);
    if (file == NULL)
        return th_error_code(r->ctx);
    add_number(r, th_token_file_has_marks(file));
    th_status status = th_token_file_read_marks(file, 0, 8, marks);
    add_bytes(r, marks, status == TH_OK ? sizeof marks : 0);
    th_windows *windows = th_windows_new(file, &(th_windows_options){.length = 24, .pack = true});
    th_token_file_close(file);
    if (status == TH_OK)
        status = windows ? windows_read(r, windows) : th_error_code(r->ctx);
    th_windows_free(windows);
    return status;
}

/* Calls and tools of ShareGPT, by a template that is run. */
static th_status calls_encoded(program_run *r)
{
    static const char template[] =
        "{{ tools | tojson }}{% for m in messages %}{% generation %}{{ m.content }}{{ m.tool_calls | tojson }}"
        "{% endgeneration %}{% endfor %}";
    static const char line[] =
        "{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"conversations\": [{\"from\": \"function_call\", "
        "\"value\": \"{\\\"name\\\": \\\"f\\\"}\", \"id\": 7}]}";
    TRY(th_file_write(r->ctx, in_folder(r, "chat_template.jinja"), template, sizeof template - 1));
    th_tokenizer *tokenizer = th_tokenizer_bytes_new(r->ctx);
    th_chat_template *chat = th_chat_template_load(r->ctx, in_folder(r, "."));
    th_text marks = {0};
    th_token_list tokens = {0};
    th_status status = th_error_code(r->ctx);
    if (status == TH_OK)
        status = th_instruction_encode(chat, tokenizer, line, sizeof line - 1, "line", &tokens, &marks);
    if (status == TH_OK) {
        add_bytes(r, tokens.token, tokens.count * sizeof *tokens.token);
        add_bytes(r, marks.bytes, marks.count);
    }
    th_text_free(&marks);
    th_token_list_free(&tokens);
    th_chat_template_free(chat);
    th_tokenizer_free(tokenizer);
    return status;
}

const program instruction_data = {
    .name = "instruction_data",
    .step = {template_loaded, conversation_encoded, examples_read, lines_written, windows_packed, calls_encoded}};
