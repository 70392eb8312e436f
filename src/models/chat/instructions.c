/* Instruction data: examples become tokens with marks. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/chat/examples.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/files/json_build.h"
#include "models/text/grow.h"

static const char operation[] = "instructions";

/* One example and where its tokens go. */
typedef struct example {
    th_context *ctx;
    const th_chat_template *chat;
    th_tokenizer *tokenizer;
    const char *source;
    th_token_list *tokens;
    th_text *marks;
} example;

static th_status refuse(const example *e, const char *problem)
{
    return th_fail(e->ctx, TH_ERROR_VALUE, operation, "%.300s: %s", e->source, problem);
}

/* -- messages -- */

/* Adds the place to an error of another operation, with which the message begins. */
static th_status name_source(const example *e, th_status status)
{
    char text[600];
    if (status != TH_ERROR_VALUE)
        return status;
    snprintf(text, sizeof text, "%s", th_error_text(e->ctx));
    th_error_clear(e->ctx);
    return th_fail(e->ctx, TH_ERROR_VALUE, operation, "%.300s: %s", e->source, text);
}

/* Checks the messages of an array. */
static th_status prepare(const example *e, json_t *messages, const char *name)
{
    char problem[TH_PROBLEM];
    if (th_chat_prepare(e->chat, messages, name, problem))
        return TH_OK;
    return problem[0] ? refuse(e, problem) : th_fail_memory(e->ctx, operation, sizeof problem);
}

static th_status encode_conversation(const example *e, const th_chat_conversation *c, th_token_list *tokens,
                                     th_text *marks)
{
    th_jinja_result written = {0};
    th_status status = th_chat_render(e->chat, c, marks != NULL, &written);
    if (status == TH_OK)
        status = th_chat_encode_text(e->chat, e->tokenizer, &written, tokens, marks);
    th_jinja_result_free(&written);
    return name_source(e, status);
}

static th_status encode_messages(const example *e, const th_chat_conversation *given)
{
    th_chat_conversation c = *given;
    c.all_thoughts = true;
    const th_status status = prepare(e, c.messages, "messages");
    return status == TH_OK ? encode_conversation(e, &c, e->tokens, e->marks) : status;
}

/* -- prompt and completion -- */

/* Marks the new tokens from `from` on: those that they have in common with the prompt's are given. */
static th_status mark_completion(const example *e, size_t from, const th_token_list *prompt)
{
    const size_t count = e->tokens->count - from;
    size_t same = 0;
    while (same < prompt->count && same < count && prompt->token[same] == e->tokens->token[from + same])
        same++;
    return th_add_marks(e->marks, TH_TOKEN_GIVEN, same) && th_add_marks(e->marks, 0, count - same)
               ? TH_OK
               : th_fail_memory(e->ctx, operation, count);
}

/* Encodes a prompt and a completion. given: the tools and variables. */
static th_status encode_message_pair(const example *e, json_t *prompt, json_t *completion,
                                     const th_chat_conversation *given)
{
    th_token_list question = {0};
    th_chat_conversation c = *given;
    const size_t from = e->tokens->count;
    th_status status = prepare(e, prompt, "prompt");
    if (status == TH_OK)
        status = prepare(e, completion, "completion");
    json_t *all = json_array(); /* (json_copy loses elements silently if memory runs out) */
    if (status == TH_OK && (json_array_extend(all, prompt) != 0 || json_array_extend(all, completion) != 0))
        status = th_fail_memory(e->ctx, operation, json_array_size(prompt));
    c.messages = prompt;
    c.prompt = true;
    if (status == TH_OK)
        status = encode_conversation(e, &c, &question, NULL);
    c.messages = all;
    c.prompt = false;
    if (status == TH_OK)
        status = encode_conversation(e, &c, e->tokens, NULL);
    if (status == TH_OK)
        status = mark_completion(e, from, &question);
    json_decref(all);
    th_token_list_free(&question);
    return status;
}

/* -- texts -- */

/* Appends the tokens of a text, which ends with eos_token; it is added unless it is there. */
static th_status encode_text(const example *e, const char *first, const char *second)
{
    th_text text = {0};
    const char *eos = e->chat->eos;
    const size_t of_eos = strlen(eos), of_second = strlen(second);
    const bool ends = of_second >= of_eos && strcmp(second + of_second - of_eos, eos) == 0;
    const bool joined = th_jinja_append(&text, first, strlen(first)) && th_jinja_append(&text, second, of_second) &&
                        th_jinja_append(&text, eos, ends ? 0 : of_eos);
    const th_status status = joined ? th_tokenizer_encode_document(e->tokenizer, text.bytes, text.count, e->tokens)
                                    : th_fail_memory(e->ctx, operation, of_second);
    th_text_free(&text);
    return name_source(e, status);
}

static th_status encode_text_pair(const example *e, const char *prompt, const char *completion)
{
    th_token_list question = {0};
    const size_t from = e->tokens->count;
    th_status status = name_source(e, th_tokenizer_encode_document(e->tokenizer, prompt, strlen(prompt), &question));
    if (status == TH_OK)
        status = encode_text(e, prompt, completion);
    if (status == TH_OK)
        status = mark_completion(e, from, &question);
    th_token_list_free(&question);
    return status;
}

static th_status encode_whole_text(const example *e, const char *text)
{
    const size_t from = e->tokens->count;
    const th_status status = encode_text(e, "", text);
    if (status != TH_OK)
        return status;
    return th_add_marks(e->marks, 0, e->tokens->count - from) ? TH_OK : th_fail_memory(e->ctx, operation, from);
}

/* -- examples -- */

/* Encodes an example with a form (th_example_read). */
static th_status encode_object(const example *e, const json_t *object)
{
    json_t *messages = json_object_get(object, "messages"), *prompt = json_object_get(object, "prompt");
    json_t *completion = json_object_get(object, "completion"), *tools = json_object_get(object, "tools");
    json_t *variables = json_object_get(object, "chat_template_kwargs");
    if (json_is_string(tools))
        return refuse(e, "\"tools\" is a text; it must be an array");
    const th_chat_conversation c = {.messages = messages,
                                    .tools = json_array_size(tools) > 0 ? tools : NULL,
                                    .variables = json_is_null(variables) ? NULL : variables};
    if (c.variables && th_chat_check_variables(e->ctx, "chat_template_kwargs", c.variables))
        return name_source(e, th_error_code(e->ctx));
    if (messages && !json_is_null(messages))
        return encode_messages(e, &c);
    if (json_is_array(prompt) && json_is_array(completion))
        return encode_message_pair(e, prompt, completion, &c);
    if (json_is_string(prompt) && json_is_string(completion))
        return encode_text_pair(e, json_string_value(prompt), json_string_value(completion));
    return encode_whole_text(e, json_string_value(json_object_get(object, "text")));
}

/* Checks the marks of the new tokens, and marks the first one. */
static th_status check_targets(const example *e, size_t from)
{
    unsigned char *marks = (unsigned char *)e->marks->bytes + from;
    const size_t count = e->marks->count - from;
    size_t targets = 0;
    for (size_t i = 1; i < count; i++) /* the first token is never a target */
        targets += marks[i] == 0;
    if (targets == 0)
        return refuse(e, "nothing in this example counts: it has no answer of the assistant, or an empty completion");
    marks[0] |= TH_TOKEN_BEGINS;
    return TH_OK;
}

/* Encodes an example with any known fields. Without an error it has a token that counts. */
static th_status encode_example(const example *e, json_t *object)
{
    char problem[TH_PROBLEM];
    const size_t from = e->tokens->count;
    json_t *known = th_example_read(e->ctx, object, problem);
    th_status status = known ? encode_object(e, known) : problem[0] ? refuse(e, problem) : th_error_code(e->ctx);
    if (status == TH_OK)
        status = check_targets(e, from);
    json_decref(known);
    if (status != TH_OK)
        e->tokens->count = e->marks->count = from;
    return status;
}

/* Refuses a line that does not begin with an object, or has more than one. The rest is checked while it is read. */
static th_status check_object(const example *e, const char *line, size_t bytes)
{
    const char *end = line + bytes, *first = th_json_skip_space(line, end);
    const char *after = th_json_value_end(line, end);
    char problem[TH_QUOTED + 200], start[TH_QUOTED], quoted[TH_QUOTED];
    const bool object = first < end && *first == '{';
    const char *wrong = !object ? first : after ? th_json_skip_space(after, end) : end;
    if (object && wrong == end)
        return TH_OK;
    snprintf(start, sizeof start, "%.*s", (int)th_smaller(end - wrong, (int64_t)sizeof start - 1), wrong);
    snprintf(problem, sizeof problem,
             object ? "the line has more text after its object: %s; each line is one example, a JSON object"
                    : "the line is not a JSON object: %s; each line is one example, such as {\"prompt\": \"a text\", "
                      "\"completion\": \"a text\"}",
             th_quote(start, quoted));
    return refuse(e, problem);
}

/* Encodes an example of JSON. */
static th_status encode_text_of_object(const example *e, const char *text, size_t bytes)
{
    const th_json_source json = {e->ctx, operation, e->source};
    const th_json_limits limits = {.bytes = TH_MAX_EXAMPLE, .depth = TH_EXAMPLE_DEPTH};
    json_t *object = check_object(e, text, bytes) == TH_OK ? th_json_read(&json, text, bytes, &limits) : NULL;
    const th_status status = object ? encode_example(e, object) : th_error_code(e->ctx);
    json_decref(object);
    return status;
}

th_status th_instruction_encode(const th_chat_template *chat, th_tokenizer *tokenizer, const char *line, size_t bytes,
                                const char *source, th_token_list *tokens, th_text *marks)
{
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (tokenizer == NULL || line == NULL || tokens == NULL || marks == NULL || tokens->count != marks->count)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation,
                       "needs a tokenizer, a line, and lists of tokens and marks of the same length");
    const example e = {chat->ctx, chat, tokenizer, source ? source : "the line", tokens, marks};
    return encode_text_of_object(&e, line, bytes);
}

/* -- whole texts -- */

/* Encodes a record of the text. */
static th_status encode_record(const example *e, const th_example_reader *reader, const th_example_part *record)
{
    const char *problem = record->problem;
    if (problem == NULL && reader->columns == NULL)
        return encode_text_of_object(e, record->text, record->bytes);
    /* a row takes less than 4 times its bytes, and the names of its columns no memory */
    const size_t memory = 4 * record->bytes;
    if (problem == NULL && th_count_memory(e->ctx, memory, operation))
        return th_error_code(e->ctx);
    json_t *row = problem ? NULL : th_example_row(reader, record, &problem);
    const th_status status = row       ? encode_example(e, row)
                             : problem ? refuse(e, problem)
                                       : th_fail_memory(e->ctx, operation, memory);
    if (record->problem == NULL)
        th_uncount_memory(e->ctx, memory);
    json_decref(row);
    return status;
}
/* -- whole files -- */

/* Refuses texts that are not UTF-8. */
static th_status check_encoding(th_context *ctx, const char *text, size_t bytes, const char *name)
{
    const bool marked = bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
    if (marked || (bytes >= 2 && (text[0] == 0) != (text[1] == 0)))
        return th_fail(ctx, TH_ERROR_VALUE, operation, "%.300s is UTF-16; convert it to UTF-8", name);
    return TH_OK;
}

/* Returns an object with the columns of a table, which are empty texts. Returns NULL if memory runs out. */
static json_t *make_columns(const th_example_reader *reader)
{
    json_t *columns = json_object(), *name;
    bool complete = columns != NULL;
    size_t i;
    json_array_foreach (reader->columns, i, name)
        complete = complete && (json_string_length(name) == 0 ||
                                json_object_set_new(columns, json_string_value(name), json_string("")) == 0);
    if (complete)
        return columns;
    json_decref(columns);
    return NULL;
}

/* Refuses a table without known columns. Its rows need not be read. */
static th_status check_columns(const example *e, const th_example_reader *reader)
{
    json_t *columns = reader->columns ? make_columns(reader) : NULL;
    th_status status = TH_OK;
    if (reader->columns && columns == NULL)
        status = th_fail_memory(e->ctx, operation, sizeof *reader);
    else if (columns && !th_example_has_columns(columns))
        status = encode_example(e, columns);
    json_decref(columns);
    return status;
}

static void count_example(th_instruction_counts *counts, const th_token_list *tokens, const th_text *marks)
{
    counts->examples++;
    counts->tokens += (int64_t)tokens->count;
    counts->longest = th_larger(counts->longest, (int64_t)tokens->count);
    for (size_t i = 0; i < marks->count; i++)
        counts->targets += marks->bytes[i] == 0;
}

/* Reads all records. After the first fault nothing is written, and the other faults are collected. */
static th_status append_records(example *e, th_example_reader *reader, const char *name, th_token_writer *writer,
                                th_instruction_counts *counts)
{
    char source[400];
    th_example_part record;
    th_faults faults = {.kinds = 0};
    th_status status = TH_OK;
    int64_t examples = 0;
    for (; status == TH_OK && faults.count < TH_MAX_FAULTS && th_examples_next(reader, &record); examples++) {
        e->tokens->count = e->marks->count = 0;
        e->source = source;
        snprintf(source, sizeof source, "%.300s, line %lld", name, (long long)record.line);
        status = encode_record(e, reader, &record);
        if (status == TH_ERROR_VALUE || status == TH_ERROR_FILE) {
            th_faults_take(&faults, e->ctx, source, record.line);
            status = TH_OK;
        } else if (status == TH_OK && faults.count == 0) {
            status = th_token_writer_append_marked(writer, e->tokens->token, (const unsigned char *)e->marks->bytes,
                                                   (int64_t)e->tokens->count);
            if (status == TH_OK)
                count_example(counts, e->tokens, e->marks);
        }
    }
    return status == TH_OK && faults.count > 0 ? th_faults_fail(&faults, e->ctx, operation, name, examples) : status;
}

th_status th_instructions_append(const th_chat_template *chat, th_tokenizer *tokenizer, const char *text, size_t bytes,
                                 const char *name, th_token_writer *writer, th_instruction_counts *counts)
{
    th_token_list tokens = {0};
    th_text marks = {0};
    th_instruction_counts none = {0};
    th_example_reader reader;
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (text == NULL || writer == NULL)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation, "the text or the writer is NULL");
    name = name ? name : "the text";
    example e = {chat->ctx, chat, tokenizer, name, &tokens, &marks};
    th_status status = check_encoding(chat->ctx, text, bytes, name);
    const bool begun = status == TH_OK && th_examples_begin(&reader, text, bytes);
    if (status == TH_OK && !begun)
        status = th_fail_memory(chat->ctx, operation, sizeof reader);
    if (status == TH_OK)
        status = check_columns(&e, &reader);
    if (status == TH_OK)
        status = append_records(&e, &reader, name, writer, counts ? counts : &none);
    if (begun)
        th_examples_end(&reader);
    th_token_list_free(&tokens);
    th_text_free(&marks);
    return status;
}

/* -- recognizing -- */

/* Whether the beginning of a text of JSON has the key of a field of examples. */
static bool has_field(const char *text, size_t bytes)
{
    char key[32];
    for (size_t i = 0; th_example_field(i); i++) {
        snprintf(key, sizeof key, "\"%s\"", th_example_field(i));
        if (memmem(text, bytes, key, strlen(key)))
            return true;
    }
    return false;
}

/* Whether the text is an object, or an array of objects, at its beginning. */
static bool begins_with_object(const char *at, const char *end)
{
    if (at < end && *at == '[')
        at = th_json_skip_space(at + 1, end);
    if (at == end || *at != '{')
        return false;
    at = th_json_skip_space(at + 1, end);
    return at < end && *at == '"';
}

const char *th_instructions_format(const char *text, size_t bytes)
{
    enum { LEAST_SEARCHED = 4096, MOST_SEARCHED = 1 << 20 };
    const char *format = NULL;
    th_example_reader reader;
    if (text == NULL || !th_examples_begin(&reader, text, bytes))
        return NULL;
    const char *first = th_json_skip_space(reader.at, reader.end);
    if (reader.columns) {
        json_t *columns = make_columns(&reader);
        if (columns && th_example_has_columns(columns))
            format = reader.delimiter == '\t' ? "TSV" : "CSV";
        json_decref(columns);
    } else if (begins_with_object(first, reader.end)) {
        const char *newline = memchr(first, '\n', (size_t)(reader.end - first));
        const int64_t line = th_smaller((newline ? newline : reader.end) - first, MOST_SEARCHED);
        const int64_t searched = th_smaller(reader.end - first, th_larger(line, LEAST_SEARCHED));
        format = has_field(first, (size_t)searched) ? "JSON" : NULL;
    }
    th_examples_end(&reader);
    return format;
}
