/* Writes conversations by the program of a template, and finds the parts that count for the loss. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/text/grow.h"

static const char operation[] = "chat_write";

typedef struct rendering {
    const th_chat_template *chat;
    const th_chat_conversation *conversation;
    const th_jinja *program;
} rendering;

/* -- variables -- */

/* The variables that the library sets. */
static const char *const reserved[] = {"messages", "tools", "add_generation_prompt"};

th_status th_chat_check_variables(th_context *ctx, const char *name, const json_t *variables)
{
    if (!json_is_object(variables))
        return th_fail(ctx, TH_ERROR_VALUE, name,
                       "the variables must be an object, such as {\"enable_thinking\": false}");
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (json_object_get(variables, reserved[i]))
            return th_fail(ctx, TH_ERROR_VALUE, name, "the variable %s is set by the library", reserved[i]);
    return TH_OK;
}

/* Returns a copy of a message without the members that are null. NULL if memory runs out. (json_copy then loses members
 * silently.) */
static json_t *clean_message(const json_t *message)
{
    json_t *clean = json_object(), *value;
    bool complete = clean != NULL;
    const char *key;
    json_object_foreach ((json_t *)(uintptr_t)message, key, value)
        complete = complete && (json_is_null(value) || json_object_set(clean, key, value) == 0);
    if (complete)
        return clean;
    json_decref(clean);
    return NULL;
}

/* Adds a token, unless it is missing. */
static bool add_token(json_t *variables, const char *name, const char *token)
{
    return token[0] == 0 || th_json_add(variables, name, json_string(token));
}

static bool add_all(json_t *variables, const json_t *more)
{
    return more == NULL || json_object_update(variables, (json_t *)(uintptr_t)more) == 0;
}

/* Returns the variables for the first `count` messages; NULL if out of memory. Later ones replace earlier ones, as in
 * transformers. */
static json_t *make_variables(const rendering *r, size_t count, bool prompt)
{
    const th_chat_conversation *c = r->conversation;
    json_t *variables = json_object(), *messages = json_array();
    bool made = variables && messages;
    for (size_t i = 0; made && i < count; i++)
        made = json_array_append_new(messages, clean_message(json_array_get(c->messages, i))) == 0;
    made = made && th_json_add(variables, "documents", json_null()) &&
           add_token(variables, "bos_token", r->chat->bos) && add_token(variables, "eos_token", r->chat->eos) &&
           (!c->all_thoughts || th_json_add(variables, "all_thoughts", json_true())) &&
           add_all(variables, r->chat->variables) && add_all(variables, c->variables) &&
           json_object_set(variables, "messages", messages) == 0 &&
           th_json_add(variables, "add_generation_prompt", json_boolean(prompt)) &&
           th_json_add(variables, "tools", c->tools ? json_incref(c->tools) : json_null());
    json_decref(messages);
    if (!made)
        json_decref(variables);
    return made ? variables : NULL;
}

static th_status render(const rendering *r, size_t count, bool prompt, th_jinja_result *result)
{
    json_t *variables = make_variables(r, count, prompt);
    if (variables == NULL)
        return th_fail_memory(r->chat->ctx, operation, count);
    const th_status status = th_jinja_render(r->program, operation, variables, r->chat->now, NULL, result);
    json_decref(variables);
    return status;
}

/* -- the parts that count -- */

/* Returns the name of the kind that writes a text; NULL: none. */
static const char *find_kind(const rendering *r, const th_text *text)
{
    th_context *ctx = r->chat->ctx;
    const char *name = NULL;
    th_chat_conversation c = *r->conversation;
    c.all_thoughts = false; /* only the kinds know this variable */
    for (int i = 0; name == NULL && th_chat_kind_name(i); i++) {
        th_jinja_result written = {0};
        th_chat_template *chat =
            th_chat_template_of_kind(ctx, th_chat_find_kind(th_chat_kind_name(i)), r->chat->bos, r->chat->eos);
        if (chat && th_chat_render(chat, &c, false, &written) == TH_OK && written.text.count == text->count &&
            memcmp(written.text.bytes, text->bytes, text->count) == 0)
            name = th_chat_kind_name(i);
        th_error_clear(ctx);
        th_chat_template_free(chat);
        th_jinja_result_free(&written);
    }
    return name;
}

/* Refuses a conversation in which a shorter text is not the beginning of a longer one. whole: the conversation's text. */
static th_status check_beginning(const rendering *r, const th_text *shorter, const th_text *longer, size_t answer,
                                 const char *what, const th_text *whole)
{
    size_t same = 0;
    char quoted[2][TH_QUOTED], part[2][41], advice[120] = "";
    while (same < shorter->count && same < longer->count && shorter->bytes[same] == longer->bytes[same])
        same++;
    if (same == shorter->count)
        return TH_OK;
    const char *kind = find_kind(r, whole);
    if (kind)
        snprintf(advice, sizeof advice, ", or the kind %s, which writes the same text", kind);
    snprintf(part[0], sizeof part[0], "%s", shorter->bytes + same);
    snprintf(part[1], sizeof part[1], "%s", longer->bytes + same);
    return th_fail(r->chat->ctx, TH_ERROR_VALUE, operation,
                   "the answer in message %zu cannot be marked, because %s: after %zu equal bytes one text has \"%s\", "
                   "the other \"%s\". Use a template with {%% generation %%} blocks%s",
                   answer + 1, what, same, th_quote(part[0], quoted[0]), th_quote(part[1], quoted[1]), advice);
}

/* Adds the part of the answer in message i: what follows its prompt in the text through it. */
static th_status mark_answer(const rendering *r, size_t i, th_jinja_result *to)
{
    th_jinja_result prompt = {0}, through = {0};
    th_status status = render(r, i, true, &prompt);
    if (status == TH_OK)
        status = render(r, i + 1, false, &through);
    if (status == TH_OK)
        status = check_beginning(r, &prompt.text, &through.text, i, "its prompt is not the beginning of its text",
                                 &to->text);
    if (status == TH_OK)
        status = check_beginning(r, &through.text, &to->text, i, "the messages after it change its text", &to->text);
    if (status == TH_OK && !TH_GROW(to->span, to->capacity, to->spans + 1))
        status = th_fail_memory(r->chat->ctx, operation, to->spans);
    if (status == TH_OK)
        to->span[to->spans++] = (th_jinja_span){prompt.text.count, through.text.count};
    th_jinja_result_free(&prompt);
    th_jinja_result_free(&through);
    return status;
}

static th_status mark_answers(const rendering *r, th_jinja_result *to)
{
    th_status status = TH_OK;
    for (size_t i = 0; i < json_array_size(r->conversation->messages) && status == TH_OK; i++) {
        const char *role = json_string_value(json_object_get(json_array_get(r->conversation->messages, i), "role"));
        if (role && strcmp(role, "assistant") == 0)
            status = mark_answer(r, i, to);
    }
    return status;
}

th_status th_chat_render(const th_chat_template *chat, const th_chat_conversation *c, bool marks, th_jinja_result *to)
{
    const rendering r = {chat, c, c->tools && chat->tool_program ? chat->tool_program : chat->program};
    const th_status status = render(&r, json_array_size(c->messages), c->prompt, to);
    return status == TH_OK && marks && !th_jinja_marks_answers(r.program) ? mark_answers(&r, to) : status;
}

/* -- messages of the caller -- */

/* Creates a string. Bytes that are not UTF-8 become U+FFFD: the answer of a model may have some. NULL if out of memory. */
static json_t *create_string(const char *text)
{
    th_text valid = {0};
    bool complete = th_jinja_append(&valid, "", 0);
    while (*text && complete) {
        const char *character;
        size_t size;
        text += th_next_valid_utf8(text, &character, &size);
        complete = th_jinja_append(&valid, character, size);
    }
    json_t *string = complete ? json_stringn_nocheck(valid.bytes, valid.count) : NULL;
    th_text_free(&valid);
    return string;
}

/* Appends a message to a list. Returns false if out of memory. */
static bool add_message(json_t *list, const th_chat_message *message)
{
    json_t *object = json_object();
    const bool complete = th_json_add(object, "role", create_string(message->role)) &&
                          th_json_add(object, "content", create_string(message->content));
    return json_array_append_new(list, object) == 0 && complete;
}

th_status th_chat_render_messages(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                                  const th_chat_options *options, bool marks, th_jinja_result *to)
{
    json_t *list = json_array();
    th_status status = TH_OK;
    if (messages == NULL || count == 0)
        status = th_fail(chat->ctx, TH_ERROR_VALUE, operation, "the conversation has no messages");
    for (size_t i = 0; i < count && status == TH_OK; i++)
        if (messages[i].role == NULL || messages[i].content == NULL)
            status =
                th_fail(chat->ctx, TH_ERROR_VALUE, operation, "message %zu: the role or the content is NULL", i + 1);
        else if (!add_message(list, &messages[i]))
            status = th_fail_memory(chat->ctx, operation, count);
    const th_chat_conversation conversation = {
        .messages = list, .prompt = options ? options->prompt : true, .all_thoughts = options && options->all_thoughts};
    if (status == TH_OK)
        status = th_chat_render(chat, &conversation, marks, to);
    json_decref(list);
    return status;
}

/* Appends a text that was written. Takes ownership of it. */
static th_status append_written(const th_chat_template *chat, th_status status, th_jinja_result *written, th_text *text)
{
    if (status == TH_OK && !th_jinja_append(text, written->text.bytes, written->text.count))
        status = th_fail_memory(chat->ctx, operation, written->text.count);
    th_jinja_result_free(written);
    return status;
}

/* Checks the template and the text of a call. */
static th_status check_call(const th_chat_template *chat, const th_text *text)
{
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    return text ? TH_OK : th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation, "the text is NULL");
}

th_status th_chat_write(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                        const th_chat_options *options, th_text *text)
{
    th_jinja_result written = {0};
    const th_status status = check_call(chat, text);
    return status == TH_OK
               ? append_written(chat, th_chat_render_messages(chat, messages, count, options, false, &written),
                                &written, text)
               : status;
}

th_status th_chat_write_json(const th_chat_template *chat, const char *json, size_t bytes,
                             const th_chat_options *options, th_text *text)
{
    char problem[TH_PROBLEM];
    th_status status = check_call(chat, text);
    if (status != TH_OK || json == NULL)
        return status == TH_OK ? th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation, "the conversation is NULL") : status;
    const th_json_source source = {chat->ctx, operation, "the conversation"};
    const th_json_limits limits = {.bytes = TH_MAX_EXAMPLE, .depth = TH_EXAMPLE_DEPTH};
    json_t *object = th_json_read(&source, json, bytes, &limits), *tools = json_object_get(object, "tools");
    th_chat_conversation c = {.messages = json_object_get(object, "messages"),
                              .tools = json_array_size(tools) > 0 ? tools : NULL,
                              .variables = json_object_get(object, "chat_template_kwargs"),
                              .prompt = options ? options->prompt : true,
                              .all_thoughts = options && options->all_thoughts};
    th_jinja_result written = {0};
    status = th_error_code(chat->ctx);
    if (status == TH_OK && c.variables)
        status = th_chat_check_variables(chat->ctx, operation, c.variables);
    if (status == TH_OK && !th_chat_prepare(chat, c.messages, "messages", problem))
        status = problem[0] ? th_fail(chat->ctx, TH_ERROR_VALUE, operation, "%s", problem)
                            : th_fail_memory(chat->ctx, operation, bytes);
    if (status == TH_OK)
        status = append_written(chat, th_chat_render(chat, &c, false, &written), &written, text);
    json_decref(object);
    return status;
}

/* -- the end of an answer -- */

/* Returns a copy of the tag at the beginning of a text; NULL if it has none, if it is eos, or out of memory, with an error. */
static char *copy_tag(const th_chat_template *chat, const char *text)
{
    const size_t count = *text == '<' ? strcspn(text, ">") + 1 : 0, of_eos = strlen(chat->eos);
    if (count < 2 || count > strlen(text) || (of_eos > 0 && strncmp(text, chat->eos, of_eos) == 0))
        return NULL;
    char *tag = th_allocate(chat->ctx, count + 1);
    if (tag == NULL) {
        th_fail_memory(chat->ctx, operation, count + 1);
        return NULL;
    }
    memcpy(tag, text, count);
    tag[count] = 0;
    return tag;
}

char *th_chat_find_stop(const th_chat_template *chat)
{
    static const char mark[] = "zqxjkv";
    json_t *messages =
        json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "a", "role", "assistant", "content", mark);
    json_t *variables = json_pack("{s:b}", "enable_thinking", 0); /* SmolLM 3 then needs no system message */
    const th_chat_conversation conversation = {.messages = messages, .variables = variables};
    th_jinja_result written = {0};
    char *stop = NULL;
    const th_status status = messages && variables ? th_chat_render(chat, &conversation, false, &written)
                                                   : th_fail_memory(chat->ctx, operation, sizeof written);
    const char *end = status == TH_OK ? strstr(written.text.bytes, mark) : NULL;
    if (end)
        stop = copy_tag(chat, end + sizeof mark - 1 + strspn(end + sizeof mark - 1, " \n"));
    if (status == TH_ERROR_VALUE)
        th_error_clear(chat->ctx); /* a template may refuse this conversation */
    th_jinja_result_free(&written);
    json_decref(messages);
    json_decref(variables);
    return stop;
}
