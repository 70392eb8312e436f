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

typedef struct message_list {
    th_chat_message *message; /* texts belong to the JSON value */
    size_t count, capacity;
} message_list;

/* Whether a value has content. Datasets with columns write null, or an empty list, if an example does not have it. */
static bool is_used(const json_t *value)
{
    return value && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0);
}

/* Returns the text of a part of a content, such as {"type": "text", "text": "a text"}; NULL: it has another type. */
static const char *text_of_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    if (type == NULL || strcmp(type, "text") != 0)
        return json_string_value(part);
    return json_string_value(text ? text : json_object_get(part, "value"));
}

/* Replaces the content of a message, if it is an array of texts, with the texts one after the other. */
static th_status join_parts(const example *e, json_t *message, size_t i, const char *name)
{
    const json_t *parts = json_object_get(message, "content"), *part;
    char problem[TH_PROBLEM];
    th_text text = {0};
    size_t at;
    bool complete = true;
    if (!json_is_array(parts))
        return TH_OK;
    json_array_foreach (parts, at, part) {
        const char *words = text_of_part(part);
        if (words == NULL) {
            snprintf(problem, sizeof problem,
                     "part %zu of message %zu of \"%s\" is not a text: it must be like {\"type\": \"text\", \"text\": "
                     "\"a text\"}",
                     at + 1, i + 1, name);
            th_text_free(&text);
            return refuse(e, problem);
        }
        complete = complete && th_chat_append(&text, words, strlen(words));
    }
    complete = complete &&
               json_object_set_new(message, "content", json_stringn(text.bytes ? text.bytes : "", text.count)) == 0;
    const size_t bytes = text.count;
    th_text_free(&text);
    return complete ? TH_OK : th_fail_memory(e->ctx, operation, bytes);
}

/* Appends the messages of an array. */
static th_status add_messages(const example *e, json_t *array, const char *name, message_list *list)
{
    char problem[TH_PROBLEM], fields[TH_FIELDS];
    json_t *value;
    size_t i;
    if (!json_is_array(array) || json_array_size(array) == 0) {
        snprintf(problem, sizeof problem, "\"%s\" must be an array of messages, and not empty; it is %s", name,
                 json_is_array(array) ? "empty" : th_example_kind_name(array));
        return refuse(e, problem);
    }
    json_array_foreach (array, i, value) {
        const char *role = json_string_value(json_object_get(value, "role"));
        if (join_parts(e, value, i, name) != TH_OK)
            return th_error_code(e->ctx);
        const json_t *content = json_object_get(value, "content");
        if (is_used(json_object_get(value, "tool_calls"))) {
            snprintf(problem, sizeof problem, "message %zu of \"%s\" calls tools, which are not supported", i + 1,
                     name);
            return refuse(e, problem);
        }
        if (role == NULL || !json_is_string(content)) {
            if (json_is_object(value))
                th_example_list_fields(value, fields);
            snprintf(problem, sizeof problem,
                     "message %zu of \"%s\" must be like {\"role\": \"user\", \"content\": \"a text\"}; it %s %s",
                     i + 1, name, json_is_object(value) ? "has" : "is",
                     json_is_object(value) ? fields : th_example_kind_name(value));
            return refuse(e, problem);
        }
        if (!TH_GROW(list->message, list->capacity, list->count + 1))
            return th_fail_memory(e->ctx, operation, list->count * sizeof *list->message);
        list->message[list->count++] = (th_chat_message){role, json_string_value(content)};
    }
    return TH_OK;
}

/* Adds the place to an error of th_chat_encode, whose message begins with the operation. */
static th_status name_source(const example *e, th_status status)
{
    char text[600];
    if (status != TH_ERROR_VALUE)
        return status;
    snprintf(text, sizeof text, "%s", th_error_text(e->ctx));
    th_error_clear(e->ctx);
    return th_fail(e->ctx, TH_ERROR_VALUE, operation, "%.300s: %s", e->source, text);
}

/* Whether each item of an array is an object with a role, which a program needs. */
static th_status check_roles(const example *e, const json_t *array, const char *name)
{
    char problem[200];
    const json_t *value;
    size_t i;
    if (json_array_size(array) == 0) {
        snprintf(problem, sizeof problem, "\"%s\" must be an array of messages, and not empty", name);
        return refuse(e, problem);
    }
    json_array_foreach (array, i, value) {
        if (!json_is_string(json_object_get(value, "role"))) {
            snprintf(problem, sizeof problem, "message %zu of \"%s\" has no \"role\"", i + 1, name);
            return refuse(e, problem);
        }
    }
    return TH_OK;
}

/* Encodes messages by the template's program. */
static th_status encode_by_program(const example *e, json_t *messages, json_t *tools, bool prompt,
                                   th_token_list *tokens, th_text *marks)
{
    th_chat_text written = {0};
    th_status status = th_chat_interpret(e->chat, messages, tools, prompt, marks != NULL, &written);
    if (status == TH_OK)
        status = th_chat_encode_text(e->chat, e->tokenizer, &written, tokens, marks);
    th_chat_text_free(&written);
    return name_source(e, status);
}

static th_status encode_conversation(const example *e, json_t *messages, json_t *tools)
{
    if (e->chat->program)
        return check_roles(e, messages, "messages") == TH_OK
                   ? encode_by_program(e, messages, tools, false, e->tokens, e->marks)
                   : th_error_code(e->ctx);
    message_list list = {0};
    const th_chat_options whole = {.all_thoughts = true};
    th_status status = add_messages(e, messages, "messages", &list);
    if (status == TH_OK)
        status = name_source(
            e, th_chat_encode(e->chat, e->tokenizer, list.message, list.count, &whole, e->tokens, e->marks));
    free(list.message);
    return status;
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

/* Encodes a prompt and a completion by the template's program. */
static th_status encode_pair_by_program(const example *e, json_t *prompt, json_t *completion, json_t *tools)
{
    th_token_list question = {0};
    const size_t from = e->tokens->count;
    th_status status = check_roles(e, prompt, "prompt");
    if (status == TH_OK)
        status = check_roles(e, completion, "completion");
    json_t *all = json_array(); /* (json_copy loses elements silently if memory runs out) */
    if (status == TH_OK && (json_array_extend(all, prompt) != 0 || json_array_extend(all, completion) != 0))
        status = th_fail_memory(e->ctx, operation, json_array_size(prompt));
    if (status == TH_OK)
        status = encode_by_program(e, prompt, tools, true, &question, NULL);
    if (status == TH_OK)
        status = encode_by_program(e, all, tools, false, e->tokens, NULL);
    if (status == TH_OK)
        status = mark_completion(e, from, &question);
    json_decref(all);
    th_token_list_free(&question);
    return status;
}

static th_status encode_message_pair(const example *e, json_t *prompt, json_t *completion, json_t *tools)
{
    if (e->chat->program)
        return encode_pair_by_program(e, prompt, completion, tools);
    message_list list = {0};
    th_token_list question = {0};
    const size_t from = e->tokens->count;
    const th_chat_options whole = {0};
    th_status status = add_messages(e, prompt, "prompt", &list);
    if (status == TH_OK)
        status = name_source(e, th_chat_encode(e->chat, e->tokenizer, list.message, list.count, NULL, &question, NULL));
    if (status == TH_OK)
        status = add_messages(e, completion, "completion", &list);
    if (status == TH_OK)
        status =
            name_source(e, th_chat_encode(e->chat, e->tokenizer, list.message, list.count, &whole, e->tokens, NULL));
    if (status == TH_OK)
        status = mark_completion(e, from, &question);
    th_token_list_free(&question);
    free(list.message);
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
    const bool joined = th_chat_append(&text, first, strlen(first)) && th_chat_append(&text, second, of_second) &&
                        th_chat_append(&text, eos, ends ? 0 : of_eos);
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
    if (json_is_string(tools))
        return refuse(e, "\"tools\" is a text; it must be an array");
    if (e->chat->program == NULL && json_array_size(tools) > 0)
        return refuse(e, "the chat template is of a known kind, which does not write \"tools\"; remove them");
    tools = json_array_size(tools) > 0 ? tools : NULL;
    if (messages && !json_is_null(messages))
        return encode_conversation(e, messages, tools);
    if (json_is_array(prompt) && json_is_array(completion))
        return encode_message_pair(e, prompt, completion, tools);
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
    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
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
    return status == TH_OK && faults.count > 0 ? th_faults_fail(&faults, e->ctx, name, examples) : status;
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
