/* Writes the text of a conversation by the data of its kind, and notes the parts that count for the loss. */
#include <string.h>
#include <time.h>

#include "models/chat/chat.h"
#include "models/text/grow.h"

static const char operation[] = "chat_write";

bool th_chat_append(th_text *text, const char *bytes, size_t count)
{
    if (count > PTRDIFF_MAX - 1 - text->count || !TH_GROW(text->bytes, text->capacity, text->count + count + 1))
        return false;
    if (count > 0)
        memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = 0;
    return true;
}

void th_chat_text_free(th_chat_text *text)
{
    th_text_free(&text->text);
    free(text->span);
    *text = (th_chat_text){0};
}

typedef struct writer {
    const th_chat_template *chat;
    const th_chat_kind *kind;
    th_chat_text *to;
    bool all_thoughts;
    bool failed; /* out of memory */
} writer;

static bool has(const writer *w, th_chat_rule rule)
{
    return (w->kind->rules & (unsigned)rule) != 0;
}

/* -- pieces of text -- */

/* A part of a message's content. */
typedef struct part {
    const char *at;
    size_t count;
} part;

static void put_part(writer *w, part p)
{
    w->failed |= !th_chat_append(&w->to->text, p.at, p.count);
}

static void put_date(writer *w)
{
    static const char *const month[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char text[32] = "26 Jul 2024"; /* the template's own date */
    const time_t now = time(NULL);
    struct tm day;
    if (has(w, TH_CHAT_TODAY) && localtime_r(&now, &day))
        snprintf(text, sizeof text, "%02d %s %04d", day.tm_mday, month[day.tm_mon], day.tm_year + 1900);
    put_part(w, (part){text, strlen(text)});
}

/* Writes a text of the kind, whose marks stand for tokens and the date. NULL: nothing. */
static void put(writer *w, const char *text)
{
    for (; text && *text; text++)
        if (*text == TH_BOS[0])
            put_part(w, (part){w->chat->bos, strlen(w->chat->bos)});
        else if (*text == TH_EOS[0])
            put_part(w, (part){w->chat->eos, strlen(w->chat->eos)});
        else if (*text == TH_DAY[0])
            put_date(w);
        else
            put_part(w, (part){text, 1});
}

/* -- white space -- */

/* The length of the white space character at p, as Python's str.strip has them; 0 for another character. */
static size_t space_at(const char *p, size_t count)
{
    static const struct {
        const char *bytes;
        size_t count;
    } others[] = {{"\xc2\x85", 2},     {"\xc2\xa0", 2},     {"\xe1\x9a\x80", 3}, {"\xe2\x80\xa8", 3},
                  {"\xe2\x80\xa9", 3}, {"\xe2\x80\xaf", 3}, {"\xe2\x81\x9f", 3}, {"\xe3\x80\x80", 3}};
    if (count == 0)
        return 0;
    const unsigned char c = (unsigned char)*p;
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f))
        return 1;
    if (count >= 3 && memcmp(p, "\xe2\x80", 2) == 0 && (unsigned char)p[2] >= 0x80 && (unsigned char)p[2] <= 0x8a)
        return 3;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (count >= others[i].count && memcmp(p, others[i].bytes, others[i].count) == 0)
            return others[i].count;
    return 0;
}

static part trim(part p)
{
    for (size_t n; (n = space_at(p.at, p.count)) > 0; p.count -= n)
        p.at += n;
    for (bool again = true; again;) {
        again = false;
        for (size_t n = 1; n <= 3 && n <= p.count && !again; n++)
            if (space_at(p.at + p.count - n, n) == n) {
                p.count -= n;
                again = true;
            }
    }
    return p;
}

static part trim_newlines(part p)
{
    for (; p.count > 0 && *p.at == '\n'; p.count--)
        p.at++;
    while (p.count > 0 && p.at[p.count - 1] == '\n')
        p.count--;
    return p;
}

static part content_of(const writer *w, const th_chat_message *message)
{
    const part all = {message->content, strlen(message->content)};
    const bool system = strcmp(message->role, "system") == 0;
    return has(w, TH_CHAT_TRIMS) && !(system && has(w, TH_CHAT_SYSTEM_AS_IS)) ? trim(all) : all;
}

/* -- Qwen 3 -- */

/* Divides an answer into its thoughts and the rest, as Qwen 3's template does. */
static void split_thoughts(part content, part *thoughts, part *rest)
{
    static const char open[] = "<think>", close[] = "</think>";
    const size_t of_open = sizeof open - 1, of_close = sizeof close - 1;
    const char *first = NULL, *last = NULL, *end = content.at + content.count;
    for (const char *p = content.at; (p = strstr(p, close)) != NULL && p < end; p += of_close) {
        first = first ? first : p;
        last = p;
    }
    *thoughts = (part){content.at, 0};
    *rest = content;
    if (first == NULL)
        return;
    *thoughts = (part){content.at, (size_t)(first - content.at)};
    for (const char *p = content.at; (p = strstr(p, open)) != NULL && p < first; p += of_open)
        *thoughts = (part){p + of_open, (size_t)(first - p) - of_open};
    *rest = (part){last + of_close, (size_t)(end - last) - of_close};
    *thoughts = trim_newlines(*thoughts);
}

static part skip_newlines(part p)
{
    for (; p.count > 0 && *p.at == '\n'; p.count--)
        p.at++;
    return p;
}

/* Returns the index of the last question: the last message of the user that is not the result of a tool. */
static size_t last_question(const th_chat_message *messages, size_t count)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    for (size_t i = count; i > 0; i--) {
        const th_chat_message *m = &messages[i - 1];
        const size_t n = strlen(m->content);
        const bool result = strncmp(m->content, open, sizeof open - 1) == 0 && n >= sizeof close - 1 &&
                            strcmp(m->content + n - (sizeof close - 1), close) == 0;
        if (strcmp(m->role, "user") == 0 && !result)
            return i - 1;
    }
    return count - 1;
}

static void put_thoughts(writer *w, const th_chat_message *messages, size_t count, size_t i)
{
    part thoughts, rest;
    const part content = content_of(w, &messages[i]);
    split_thoughts(content, &thoughts, &rest);
    const bool has_thoughts = thoughts.count > 0, last = i + 1 == count;
    if (w->all_thoughts || (i > last_question(messages, count) && (last || has_thoughts))) {
        put(w, "<think>\n");
        put_part(w, thoughts);
        put(w, "\n</think>\n\n");
        put_part(w, skip_newlines(rest));
    } else
        put_part(w, rest.at == content.at ? rest : skip_newlines(rest));
}

/* -- messages -- */

static void begin_span(writer *w)
{
    th_chat_text *to = w->to;
    if (!TH_GROW(to->span, to->capacity, to->spans + 1)) {
        w->failed = true;
        return;
    }
    const size_t at = to->text.count;
    to->span[to->spans++] = (th_chat_span){has(w, TH_CHAT_COUNTS_LEAD) && at > 0 ? at - 1 : at, 0};
}

static void end_span(writer *w)
{
    if (!w->failed)
        w->to->span[w->to->spans - 1].end = w->to->text.count;
}

static void put_answer(writer *w, const th_chat_message *messages, size_t count, size_t i, bool prompt)
{
    put(w, w->kind->assistant.before);
    begin_span(w);
    if (has(w, TH_CHAT_THINKS))
        put_thoughts(w, messages, count, i);
    else
        put_part(w, content_of(w, &messages[i]));
    const bool open = has(w, TH_CHAT_LAST_OPEN) && i + 1 == count;
    put(w, open ? TH_EOS : w->kind->assistant.after);
    if (i + 1 == count && !prompt)
        put(w, w->kind->end);
    end_span(w);
}

/* Writes a message of the user. system: the system message that belongs inside; NULL: none. */
static void put_question(writer *w, const th_chat_message *message, const th_chat_message *system)
{
    put(w, w->kind->user.before);
    const size_t begin = w->to->text.count;
    if (system) {
        put(w, w->kind->system.before);
        put_part(w, content_of(w, system));
        put(w, w->kind->system.after);
    }
    const part raw = {message->content, strlen(message->content)};
    put_part(w, system && has(w, TH_CHAT_TRIMS_USER) ? raw : content_of(w, message));
    if (has(w, TH_CHAT_TRIMS_USER) && !w->failed) { /* white space at the beginning only comes from the system's text */
        const part all = {w->to->text.bytes + begin, w->to->text.count - begin};
        w->to->text.count = (size_t)(trim(all).at + trim(all).count - w->to->text.bytes);
    }
    put(w, w->kind->user.after);
}

static void put_system(writer *w, part content)
{
    if (content.count == 0 && has(w, TH_CHAT_SKIPS_EMPTY_SYSTEM))
        return;
    put(w, w->kind->system.before);
    put_part(w, content);
    put(w, w->kind->system.after);
}

static bool is(const th_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static void put_messages(writer *w, const th_chat_message *messages, size_t count, bool prompt)
{
    const char *usual = w->kind->default_system;
    const bool inside = has(w, TH_CHAT_SYSTEM_INSIDE), system = is(&messages[0], "system");
    put(w, w->kind->begin);
    if (!system && (usual || has(w, TH_CHAT_ALWAYS_SYSTEM)))
        put_system(w, (part){usual ? usual : "", usual ? strlen(usual) : 0});
    for (size_t i = 0; i < count && !w->failed; i++)
        if (is(&messages[i], "assistant"))
            put_answer(w, messages, count, i, prompt);
        else if (is(&messages[i], "user"))
            put_question(w, &messages[i], inside && system && i == 1 ? &messages[0] : NULL);
        else if (!inside)
            put_system(w, content_of(w, &messages[i]));
    if (prompt)
        put(w, w->kind->prompt);
    else if (!is(&messages[count - 1], "assistant"))
        put(w, w->kind->end);
}

/* -- checks -- */

static th_status refuse(const writer *w, size_t message, const char *reason)
{
    return th_fail(w->chat->ctx, TH_ERROR_VALUE, operation, "message %zu: %s (chat template %s)", message + 1, reason,
                   w->kind->name);
}

static th_status check_message(const writer *w, const th_chat_message *messages, size_t i)
{
    const th_chat_message *m = &messages[i];
    char quoted[TH_QUOTED], reason[160];
    if (m->role == NULL || m->content == NULL)
        return refuse(w, i, "the role or the content is NULL");
    const bool system = is(m, "system");
    if (!system && !is(m, "user") && !is(m, "assistant")) {
        snprintf(reason, sizeof reason, "the role is \"%s\"; it must be system, user or assistant",
                 th_quote(m->role, quoted));
        return refuse(w, i, reason);
    }
    if (system && has(w, TH_CHAT_NO_SYSTEM))
        return refuse(w, i, "the model does not know system messages; put the text into the first message of the user");
    if (system && i > 0 && (w->kind->rules & (TH_CHAT_ALTERNATES | TH_CHAT_ALWAYS_SYSTEM)))
        return refuse(w, i, "only the first message may be a system message");
    const size_t turn = i - (is(&messages[0], "system") ? 1 : 0);
    if (!system && has(w, TH_CHAT_ALTERNATES) && is(m, "user") != (turn % 2 == 0))
        return refuse(w, i, "user and assistant must alternate, beginning with the user");
    return TH_OK;
}

static th_status check(const writer *w, const th_chat_message *messages, size_t count)
{
    if (messages == NULL || count == 0)
        return th_fail(w->chat->ctx, TH_ERROR_VALUE, operation, "the conversation has no messages");
    for (size_t i = 0; i < count; i++)
        if (check_message(w, messages, i) != TH_OK)
            return th_error_code(w->chat->ctx);
    if (count == 1 && is(&messages[0], "system") && has(w, TH_CHAT_SYSTEM_INSIDE))
        return refuse(w, 0, "the system message needs a message of the user after it");
    return TH_OK;
}

th_status th_chat_render(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                         const th_chat_options *options, th_chat_text *to)
{
    const th_chat_options usual = {.prompt = true}, given = options ? *options : usual;
    writer w = {.chat = chat, .kind = chat->kind, .to = to, .all_thoughts = given.all_thoughts};
    if (check(&w, messages, count) != TH_OK)
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
    th_status status = th_chat_render(chat, messages, count, options, &written);
    if (status == TH_OK && !th_chat_append(text, written.text.bytes, written.text.count))
        status = th_fail_memory(chat->ctx, operation, written.text.count);
    th_chat_text_free(&written);
    return status;
}
