/* Instruction data: lines of JSON become tokens with marks. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/files/json.h"
#include "models/files/json_build.h"
#include "models/text/grow.h"

static const char operation[] = "instructions";
enum { MAX_LINE = 64 << 20, DEPTH = 64 };

/* One line and where its tokens go. */
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

/* -- what a value is, for messages -- */

static const char *json_kind_name(const json_t *value)
{
    static const char *const kinds[] = {"an object", "an array", "a text", "a number",
                                        "a number",  "true",     "false",  "null"};
    return kinds[json_typeof(value)];
}

/* Writes the names and kinds of an object's fields: "question" (a text), "answers" (an array) and 2 more. */
static void list_fields(const json_t *object, char *list, size_t bytes)
{
    enum { MOST = 6 };
    char quoted[TH_QUOTED];
    const size_t count = json_object_size(object);
    size_t i = 0, at = 0;
    for (void *field = json_object_iter((json_t *)(uintptr_t)object); field && i < MOST; i++) {
        at += (size_t)snprintf(list + at, bytes - at, "%s\"%s\" (%s)",
                               i == 0          ? ""
                               : i + 1 < count ? ", "
                                               : " and ",
                               th_quote(json_object_iter_key(field), quoted),
                               json_kind_name(json_object_iter_value(field)));
        field = json_object_iter_next((json_t *)(uintptr_t)object, field);
    }
    if (count > MOST)
        snprintf(list + at, bytes - at, " and %zu more", count - MOST);
    else if (count == 0)
        snprintf(list, bytes, "no fields");
}
enum { FIELDS = 6 * (TH_QUOTED + 20) + 40 }; /* bytes of such a list */

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

/* Appends the messages of an array. */
static th_status add_messages(const example *e, const json_t *array, const char *name, message_list *list)
{
    char problem[FIELDS + 200], fields[FIELDS];
    const json_t *value;
    size_t i;
    if (!json_is_array(array) || json_array_size(array) == 0) {
        snprintf(problem, sizeof problem, "\"%s\" must be an array of messages, and not empty; it is %s", name,
                 json_is_array(array) ? "empty" : json_kind_name(array));
        return refuse(e, problem);
    }
    json_array_foreach (array, i, value) {
        const char *role = json_string_value(json_object_get(value, "role"));
        const json_t *content = json_object_get(value, "content");
        if (is_used(json_object_get(value, "tool_calls"))) {
            snprintf(problem, sizeof problem, "message %zu of \"%s\" calls tools, which are not supported", i + 1,
                     name);
            return refuse(e, problem);
        }
        if (role == NULL || !json_is_string(content)) {
            if (json_is_object(value))
                list_fields(value, fields, sizeof fields);
            snprintf(problem, sizeof problem,
                     "message %zu of \"%s\" must be like {\"role\": \"user\", \"content\": \"a text\"}; it %s %s",
                     i + 1, name, json_is_object(value) ? "has" : "is",
                     json_is_object(value) ? fields : json_kind_name(value));
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
    json_t *all = json_copy(prompt);
    if (status == TH_OK && (all == NULL || json_array_extend(all, completion) != 0))
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

/* -- lines -- */

static th_status refuse_fields(const example *e, const json_t *object)
{
    char fields[FIELDS], problem[FIELDS + 250];
    list_fields(object, fields, sizeof fields);
    snprintf(
        problem, sizeof problem,
        "an example is an object with \"messages\", with \"prompt\" and \"completion\" (two texts, or two arrays of "
        "messages), or with \"text\"; this one has %s",
        fields);
    return refuse(e, problem);
}

static th_status encode_object(const example *e, const json_t *object)
{
    json_t *messages = json_object_get(object, "messages"), *prompt = json_object_get(object, "prompt");
    json_t *completion = json_object_get(object, "completion"), *tools = json_object_get(object, "tools");
    const json_t *text = json_object_get(object, "text");
    if (json_is_string(tools))
        return refuse(e, "\"tools\" is a text; it must be an array");
    if (e->chat->program == NULL && json_array_size(tools) > 0)
        return refuse(e, "the chat template is of a known kind, which does not write \"tools\"");
    tools = json_array_size(tools) > 0 ? tools : NULL;
    if (messages && !json_is_null(messages))
        return encode_conversation(e, messages, tools);
    if (json_is_array(prompt) && json_is_array(completion))
        return encode_message_pair(e, prompt, completion, tools);
    if (json_is_string(prompt) && json_is_string(completion))
        return encode_text_pair(e, json_string_value(prompt), json_string_value(completion));
    if (json_is_string(text))
        return encode_whole_text(e, json_string_value(text));
    return refuse_fields(e, object);
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

/* Refuses a line that does not begin with an object, or has more than one. The rest is checked while it is read. */
static th_status check_line(const example *e, const char *line, size_t bytes)
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

th_status th_instruction_encode(const th_chat_template *chat, th_tokenizer *tokenizer, const char *line, size_t bytes,
                                const char *source, th_token_list *tokens, th_text *marks)
{
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (tokenizer == NULL || line == NULL || tokens == NULL || marks == NULL || tokens->count != marks->count)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation,
                       "needs a tokenizer, a line, and lists of tokens and marks of the same length");
    const example e = {chat->ctx, chat, tokenizer, source ? source : "the line", tokens, marks};
    const th_json_source json = {chat->ctx, operation, e.source};
    const th_json_limits limits = {.bytes = MAX_LINE, .depth = DEPTH};
    const size_t from = tokens->count;
    json_t *value = check_line(&e, line, bytes) == TH_OK ? th_json_read(&json, line, bytes, &limits) : NULL;
    if (value == NULL)
        return th_error_code(chat->ctx);
    th_status status = encode_object(&e, value);
    if (status == TH_OK)
        status = check_targets(&e, from);
    json_decref(value);
    if (status != TH_OK)
        tokens->count = marks->count = from;
    return status;
}

/* -- whole files -- */

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

/* Refuses files that are not lines of JSON at all, with a reason that the error of the first line does not give. */
static th_status check_kind(th_context *ctx, const char *text, size_t bytes, const char *name)
{
    size_t first = 0;
    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return th_fail(ctx, TH_ERROR_VALUE, operation, "%.300s is UTF-16; convert it to UTF-8", name);
    while (first < bytes && (is_blank(text + first, 1) || text[first] == '\n'))
        first++;
    if (first < bytes && text[first] == '[')
        return th_fail(ctx, TH_ERROR_VALUE, operation,
                       "%.300s is a JSON array; write each of its examples as an object in a line of its own", name);
    return TH_OK;
}

/* Says that the value of a line continues in a later line, after the error that its text ends too early. after: the
 * texts of the lines behind it. */
static th_status name_later_line(const example *e, const char *line, size_t bytes, const char *after, int64_t number)
{
    const char *end = th_json_value_end(line, line + bytes) ? NULL : th_json_value_end(line, after);
    char problem[200];
    if (end == NULL)
        return th_error_code(e->ctx);
    for (const char *at = line; at < end; at++)
        number += *at == '\n';
    snprintf(problem, sizeof problem,
             "its object continues to line %lld; each line must have one whole example (`jq -c .` writes objects so)",
             (long long)number);
    th_error_clear(e->ctx);
    return refuse(e, problem);
}

static void count_example(th_instruction_counts *counts, const th_token_list *tokens, const th_text *marks)
{
    counts->examples++;
    counts->tokens += (int64_t)tokens->count;
    counts->longest = th_larger(counts->longest, (int64_t)tokens->count);
    for (size_t i = 0; i < marks->count; i++)
        counts->targets += marks->bytes[i] == 0;
}

th_status th_instructions_append(const th_chat_template *chat, th_tokenizer *tokenizer, const char *text, size_t bytes,
                                 const char *name, th_token_writer *writer, th_instruction_counts *counts)
{
    th_token_list tokens = {0};
    th_text marks = {0};
    th_instruction_counts none = {0};
    char source[400];
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (text == NULL || writer == NULL)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation, "the text or the writer is NULL");
    const char *at = text, *end = text + bytes;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* a byte order mark */
    th_status status = check_kind(chat->ctx, at, (size_t)(end - at), name ? name : "the text");
    for (int64_t number = 1; at < end && status == TH_OK; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t count = (size_t)((newline ? newline : end) - at);
        tokens.count = marks.count = 0;
        snprintf(source, sizeof source, "%.300s, line %lld", name ? name : "the text", (long long)number);
        if (!is_blank(at, count)) {
            status = th_instruction_encode(chat, tokenizer, at, count, source, &tokens, &marks);
            if (status == TH_ERROR_FILE)
                status = name_later_line(&(example){.ctx = chat->ctx, .source = source}, at, count, end, number);
            if (status == TH_OK)
                status = th_token_writer_append_marked(writer, tokens.token, (const unsigned char *)marks.bytes,
                                                       (int64_t)tokens.count);
            if (status == TH_OK)
                count_example(counts ? counts : &none, &tokens, &marks);
        }
        at = newline ? newline + 1 : end;
    }
    th_token_list_free(&tokens);
    th_text_free(&marks);
    return status;
}
