/* Conversations that a Jinja program writes, and the parts that count for the loss. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"
#include "models/jinja/jinja.h"
#include "models/text/grow.h"

static const char operation[] = "chat_write";

const th_chat_kind th_chat_interpreted = {.name = "jinja", .stop = TH_EOS};

/* A conversation for the program. */
typedef struct conversation {
    const th_chat_template *chat;
    json_t *messages; /* borrowed */
    json_t *tools;    /* borrowed; NULL: none */
} conversation;

/* -- variables -- */

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

/* Returns the variables of a rendering of the first `count` messages; NULL if out of memory. */
static json_t *make_variables(const conversation *c, size_t count, bool prompt)
{
    json_t *variables = json_object(), *messages = json_array();
    bool made = variables && messages;
    for (size_t i = 0; made && i < count; i++)
        made = json_array_append_new(messages, clean_message(json_array_get(c->messages, i))) == 0;
    made = made && json_object_set(variables, "messages", messages) == 0 &&
           json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt)) == 0 &&
           json_object_set_new(variables, "tools", c->tools ? json_incref(c->tools) : json_null()) == 0 &&
           json_object_set_new(variables, "documents", json_null()) == 0;
    if (made && c->chat->bos[0])
        made = json_object_set_new(variables, "bos_token", json_string(c->chat->bos)) == 0;
    if (made && c->chat->eos[0])
        made = json_object_set_new(variables, "eos_token", json_string(c->chat->eos)) == 0;
    json_decref(messages);
    if (!made)
        json_decref(variables);
    return made ? variables : NULL;
}

static th_status render(const conversation *c, size_t count, bool prompt, th_jinja_result *result)
{
    json_t *variables = make_variables(c, count, prompt);
    if (variables == NULL)
        return th_fail_memory(c->chat->ctx, operation, count);
    const th_status status = th_jinja_render(c->chat->program, operation, variables, c->chat->now, NULL, result);
    json_decref(variables);
    return status;
}

/* -- the parts that count -- */

static th_status add_span(const conversation *c, th_chat_text *to, size_t begin, size_t end)
{
    if (!TH_GROW(to->span, to->capacity, to->spans + 1))
        return th_fail_memory(c->chat->ctx, operation, to->spans);
    to->span[to->spans++] = (th_chat_span){begin, end};
    return TH_OK;
}

/* Refuses a conversation in which a shorter text is not the beginning of a longer one. */
static th_status check_beginning(const conversation *c, const th_text *shorter, const th_text *longer, size_t answer,
                                 const char *what)
{
    size_t same = 0;
    char quoted[2][TH_QUOTED], part[2][41];
    while (same < shorter->count && same < longer->count && shorter->bytes[same] == longer->bytes[same])
        same++;
    if (same == shorter->count)
        return TH_OK;
    snprintf(part[0], sizeof part[0], "%s", shorter->bytes + same);
    snprintf(part[1], sizeof part[1], "%s", longer->bytes + same);
    return th_fail(c->chat->ctx, TH_ERROR_VALUE, operation,
                   "the answer in message %zu cannot be marked, because %s: after %zu equal bytes one text has \"%s\", "
                   "the other \"%s\". Use a template with {%% generation %%} blocks",
                   answer + 1, what, same, th_quote(part[0], quoted[0]), th_quote(part[1], quoted[1]));
}

/* Adds the part of the answer in message i: what follows its prompt in the text through it. */
static th_status mark_answer(const conversation *c, size_t i, th_chat_text *to)
{
    th_jinja_result prompt = {0}, through = {0};
    th_status status = render(c, i, true, &prompt);
    if (status == TH_OK)
        status = render(c, i + 1, false, &through);
    if (status == TH_OK)
        status = check_beginning(c, &prompt.text, &through.text, i, "its prompt is not the beginning of its text");
    if (status == TH_OK)
        status = check_beginning(c, &through.text, &to->text, i, "the messages after it change its text");
    if (status == TH_OK)
        status = add_span(c, to, prompt.text.count, through.text.count);
    th_jinja_result_free(&prompt);
    th_jinja_result_free(&through);
    return status;
}

static th_status mark_answers(const conversation *c, const th_jinja_result *whole, th_chat_text *to)
{
    th_status status = TH_OK;
    if (th_jinja_marks_answers(c->chat->program)) {
        for (size_t i = 0; i < whole->spans && status == TH_OK; i++)
            status = add_span(c, to, whole->span[i].begin, whole->span[i].end);
        return status;
    }
    for (size_t i = 0; i < json_array_size(c->messages) && status == TH_OK; i++) {
        const char *role = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
        if (role && strcmp(role, "assistant") == 0)
            status = mark_answer(c, i, to);
    }
    return status;
}

th_status th_chat_interpret(const th_chat_template *chat, json_t *messages, json_t *tools, bool prompt, bool marks,
                            th_chat_text *to)
{
    const conversation c = {chat, messages, tools};
    th_jinja_result whole = {0};
    th_status status = render(&c, json_array_size(messages), prompt, &whole);
    if (status == TH_OK && !th_chat_append(&to->text, whole.text.bytes, whole.text.count))
        status = th_fail_memory(chat->ctx, operation, whole.text.count);
    if (status == TH_OK && marks)
        status = mark_answers(&c, &whole, to);
    th_jinja_result_free(&whole);
    return status;
}

/* -- messages of the caller -- */

th_status th_chat_interpret_messages(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                                     bool prompt, bool marks, th_chat_text *to)
{
    json_t *list = json_array();
    th_status status = TH_OK;
    if (messages == NULL || count == 0)
        status = th_fail(chat->ctx, TH_ERROR_VALUE, operation, "the conversation has no messages");
    for (size_t i = 0; i < count && status == TH_OK; i++) {
        json_t *message = json_object(), *role = json_string(messages[i].role),
               *content = json_string(messages[i].content);
        if (role == NULL || content == NULL)
            status = th_fail(chat->ctx, TH_ERROR_VALUE, operation,
                             "message %zu: the role or the content is NULL or not UTF-8", i + 1);
        /* Each call takes its value, even if it fails. */
        int failed = json_object_set_new(message, "role", role);
        failed |= json_object_set_new(message, "content", content);
        failed |= json_array_append_new(list, message);
        if (failed && status == TH_OK)
            status = th_fail_memory(chat->ctx, operation, count);
    }
    if (status == TH_OK)
        status = th_chat_interpret(chat, list, NULL, prompt, marks, to);
    json_decref(list);
    return status;
}

char *th_chat_find_stop(const th_chat_template *chat)
{
    static const char mark[] = "zqxjkv";
    const th_chat_message messages[] = {{"user", "a"}, {"assistant", mark}};
    th_chat_text written = {0};
    char *stop = NULL;
    const th_status status = th_chat_interpret_messages(chat, messages, 2, false, false, &written);
    const char *end = status == TH_OK ? strstr(written.text.bytes, mark) : NULL;
    end = end ? end + sizeof mark - 1 : "";
    end += strspn(end, " \n");
    const size_t count = *end == '<' ? strcspn(end, ">") + 1 : 0, of_eos = strlen(chat->eos);
    if (count > 1 && count <= strlen(end) && !(of_eos > 0 && strncmp(end, chat->eos, of_eos) == 0)) {
        stop = th_allocate(chat->ctx, count + 1);
        if (stop) {
            memcpy(stop, end, count);
            stop[count] = 0;
        }
    }
    if (status == TH_ERROR_VALUE)
        th_error_clear(chat->ctx); /* a template may refuse this conversation */
    th_chat_text_free(&written);
    return stop;
}
