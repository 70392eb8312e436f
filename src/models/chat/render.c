/* Writes the text of a conversation by the data of its kind, and notes the parts that count for the loss. */
#include <string.h>

#include "models/chat/writer.h"
#include "models/core/context.h"
#include "models/text/grow.h"

static const char operation[] = "chat_write";

/* -- messages -- */

static void begin_span(th_chat_writer *w)
{
    th_chat_text *to = w->to;
    if (!TH_GROW(to->span, to->capacity, to->spans + 1)) {
        w->failed = true;
        return;
    }
    const size_t at = to->text.count;
    to->span[to->spans++] = (th_chat_span){th_chat_has_rule(w, TH_CHAT_COUNTS_LEAD) && at > 0 ? at - 1 : at, 0};
}

static void end_span(th_chat_writer *w)
{
    if (!w->failed)
        w->to->span[w->to->spans - 1].end = w->to->text.count;
}

/* Returns the content of a system message that comes first; NULL without one. */
static const char *leading_system_text(const th_chat_message *messages)
{
    return strcmp(messages[0].role, "system") == 0 ? messages[0].content : NULL;
}

static void put_answer(th_chat_writer *w, const th_chat_message *messages, size_t count, size_t i, bool prompt)
{
    if (th_chat_has_rule(w, TH_CHAT_COUNTS_HEADER))
        begin_span(w);
    th_chat_put_template_text(w, w->kind->assistant.before);
    if (!th_chat_has_rule(w, TH_CHAT_COUNTS_HEADER))
        begin_span(w);
    if (th_chat_has_rule(w, TH_CHAT_SMOLLM_3))
        th_chat_put_smollm_answer(w, leading_system_text(messages), messages[i].content);
    else if (th_chat_has_rule(w, TH_CHAT_THINKS))
        th_chat_put_thoughts(w, messages, count, i);
    else
        th_chat_put_string(w, th_chat_content(w, &messages[i]));
    const bool open = th_chat_has_rule(w, TH_CHAT_LAST_OPEN) && i + 1 == count;
    th_chat_put_template_text(w, open ? TH_EOS : w->kind->assistant.after);
    if (i + 1 == count && !prompt)
        th_chat_put_template_text(w, w->kind->end);
    end_span(w);
}

/* Writes a message of the user. system: the system message that belongs inside; NULL: none. */
static void put_question(th_chat_writer *w, const th_chat_message *message, const th_chat_message *system)
{
    th_chat_put_template_text(w, w->kind->user.before);
    const size_t begin = w->to->text.count;
    if (system) {
        th_chat_put_template_text(w, w->kind->system.before);
        th_chat_put_string(w, th_chat_content(w, system));
        th_chat_put_template_text(w, w->kind->system.after);
    }
    const th_chat_string raw = {message->content, strlen(message->content)};
    th_chat_put_string(w, system && th_chat_has_rule(w, TH_CHAT_TRIMS_USER) ? raw : th_chat_content(w, message));
    if (th_chat_has_rule(w, TH_CHAT_TRIMS_USER) &&
        !w->failed) { /* white space at the beginning only comes from the system's text */
        const th_chat_string all = {w->to->text.bytes + begin, w->to->text.count - begin};
        w->to->text.count = (size_t)(th_chat_trim(all).at + th_chat_trim(all).count - w->to->text.bytes);
    }
    th_chat_put_template_text(w, w->kind->user.after);
}

static void put_system(th_chat_writer *w, th_chat_string content)
{
    if (content.count == 0 && th_chat_has_rule(w, TH_CHAT_SKIPS_EMPTY_SYSTEM))
        return;
    th_chat_put_template_text(w, w->kind->system.before);
    th_chat_put_string(w, content);
    th_chat_put_template_text(w, w->kind->system.after);
}

static bool has_role(const th_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static void put_messages(th_chat_writer *w, const th_chat_message *messages, size_t count, bool prompt)
{
    const char *usual = w->kind->default_system;
    const bool inside = th_chat_has_rule(w, TH_CHAT_SYSTEM_INSIDE), system = has_role(&messages[0], "system");
    const size_t holder = th_chat_has_rule(w, TH_CHAT_SYSTEM_LAST) ? count - 1 : 1; /* of the system's text */
    th_chat_put_template_text(w, w->kind->begin);
    if (th_chat_has_rule(w, TH_CHAT_SMOLLM_3))
        th_chat_put_smollm_system(w, leading_system_text(messages));
    else if (!system && (usual || th_chat_has_rule(w, TH_CHAT_ALWAYS_SYSTEM)))
        put_system(w, (th_chat_string){usual ? usual : "", usual ? strlen(usual) : 0});
    for (size_t i = 0; i < count && !w->failed; i++)
        if (has_role(&messages[i], "assistant"))
            put_answer(w, messages, count, i, prompt);
        else if (has_role(&messages[i], "user"))
            put_question(w, &messages[i], inside && system && i == holder ? &messages[0] : NULL);
        else if (!inside && !th_chat_has_rule(w, TH_CHAT_SMOLLM_3))
            put_system(w, th_chat_content(w, &messages[i]));
    if (prompt) {
        th_chat_put_template_text(w, w->kind->prompt);
        if (th_chat_has_rule(w, TH_CHAT_SMOLLM_3))
            th_chat_put_smollm_answer(w, leading_system_text(messages), NULL);
    } else if (!has_role(&messages[count - 1], "assistant"))
        th_chat_put_template_text(w, w->kind->end);
}

/* -- checks -- */

static th_status refuse(const th_chat_writer *w, size_t message, const char *reason)
{
    return th_fail(w->chat->ctx, TH_ERROR_VALUE, operation, "message %zu: %s (chat template %s)", message + 1, reason,
                   w->kind->name);
}

static th_status check_message(const th_chat_writer *w, const th_chat_message *messages, size_t i)
{
    const th_chat_message *m = &messages[i];
    char quoted[TH_QUOTED], reason[160];
    if (m->role == NULL || m->content == NULL)
        return refuse(w, i, "the role or the content is NULL");
    const bool system = has_role(m, "system");
    if (!system && !has_role(m, "user") && !has_role(m, "assistant")) {
        snprintf(reason, sizeof reason, "the role is \"%s\"; it must be system, user or assistant",
                 th_quote(m->role, quoted));
        return refuse(w, i, reason);
    }
    if (system && th_chat_has_rule(w, TH_CHAT_NO_SYSTEM))
        return refuse(w, i, "the model does not know system messages; put the text into the first message of the user");
    if (system && i > 0 && (w->kind->rules & (TH_CHAT_ALTERNATES | TH_CHAT_ALWAYS_SYSTEM)))
        return refuse(w, i, "only the first message may be a system message");
    const size_t turn = i - (has_role(&messages[0], "system") ? 1 : 0);
    if (!system && th_chat_has_rule(w, TH_CHAT_ALTERNATES) && has_role(m, "user") != (turn % 2 == 0))
        return refuse(w, i, "user and assistant must alternate, beginning with the user");
    return TH_OK;
}

static th_status check_conversation(const th_chat_writer *w, const th_chat_message *messages, size_t count)
{
    if (messages == NULL || count == 0)
        return th_fail(w->chat->ctx, TH_ERROR_VALUE, operation, "the conversation has no messages");
    for (size_t i = 0; i < count; i++)
        if (check_message(w, messages, i) != TH_OK)
            return th_error_code(w->chat->ctx);
    if (count == 1 && has_role(&messages[0], "system") && th_chat_has_rule(w, TH_CHAT_SYSTEM_INSIDE))
        return refuse(w, 0, "the system message needs a message of the user after it");
    if (has_role(&messages[0], "system") && !has_role(&messages[count - 1], "user") &&
        th_chat_has_rule(w, TH_CHAT_SYSTEM_LAST))
        return refuse(w, 0,
                      "the template leaves a system message out when the conversation ends with an answer; put the "
                      "text into the first message of the user");
    if (th_chat_has_rule(w, TH_CHAT_SMOLLM_3) && !th_chat_can_write_smollm(w, leading_system_text(messages)))
        return refuse(w, 0, "without the template's file, SmolLM 3 needs a system message, such as /no_think");
    return TH_OK;
}

th_status th_chat_render(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                         const th_chat_options *options, bool marks, th_chat_text *to)
{
    const th_chat_options usual = {.prompt = true}, given = options ? *options : usual;
    if (chat->program)
        return th_chat_interpret_messages(chat, messages, count, given.prompt, marks, to);
    th_chat_writer w = {.chat = chat, .kind = chat->kind, .to = to, .all_thoughts = given.all_thoughts};
    if (check_conversation(&w, messages, count) != TH_OK)
        return th_error_code(chat->ctx);
    w.failed = !th_chat_append(&to->text, "", 0);
    put_messages(&w, messages, count, given.prompt);
    return w.failed ? th_fail_memory(chat->ctx, operation, to->text.count) : TH_OK;
}

th_status th_chat_write(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                        const th_chat_options *options, th_text *text)
{
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (text == NULL)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation, "the text is NULL");
    th_chat_text written = {0};
    th_status status = th_chat_render(chat, messages, count, options, false, &written);
    if (status == TH_OK && !th_chat_append(text, written.text.bytes, written.text.count))
        status = th_fail_memory(chat->ctx, operation, written.text.count);
    th_chat_text_free(&written);
    return status;
}
