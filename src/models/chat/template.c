/* Creates and frees chat templates; their variables and their date. */
#include <stdio.h>
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"
#include "models/files/json.h"

static const char operation[] = "chat_template";
const char th_chat_jinja[] = "jinja";
enum { MAX_VARIABLES = 1 << 20, VARIABLES_DEPTH = 64 };

/* -- creating -- */

static void release_text(th_context *ctx, char *text)
{
    th_release(ctx, text, text ? strlen(text) + 1 : 0);
}

static void release(th_context *ctx, void *object)
{
    th_chat_template *chat = object;
    release_text(ctx, chat->bos);
    release_text(ctx, chat->eos);
    release_text(ctx, chat->stop);
    th_jinja_free(chat->program);
    th_jinja_free(chat->tool_program);
    json_decref(chat->variables);
    th_release(ctx, chat, sizeof *chat);
}

static char *copy_text(th_context *ctx, const char *text)
{
    text = text ? text : "";
    char *copied = th_allocate(ctx, strlen(text) + 1);
    return copied ? strcpy(copied, text) : NULL;
}

static bool parse(th_jinja **program, th_context *ctx, const char *name, const th_text *text)
{
    if (text->bytes)
        *program = th_jinja_parse(ctx, operation, name, text->bytes, text->count);
    return text->bytes == NULL || *program != NULL;
}

th_chat_template *th_chat_template_make(th_context *ctx, const th_chat_source *source)
{
    th_chat_template *chat = th_allocate(ctx, sizeof *chat);
    if (chat)
        *chat = (th_chat_template){.ctx = ctx,
                                   .kind = source->kind,
                                   .bos = copy_text(ctx, source->bos),
                                   .eos = copy_text(ctx, source->eos),
                                   .now = time(NULL)};
    if (chat && chat->bos && chat->eos && th_attach_object(ctx, chat, release)) {
        if (parse(&chat->program, ctx, source->name, &source->text) &&
            parse(&chat->tool_program, ctx, "the template tool_use", &source->tool_text))
            chat->stop = th_chat_find_stop(chat);
        if (!th_failed(ctx))
            return chat;
        th_chat_template_free(chat);
        return NULL;
    }
    if (chat)
        release(ctx, chat);
    th_fail_memory(ctx, operation, sizeof *chat);
    return NULL;
}

th_chat_template *th_chat_template_of_kind(th_context *ctx, const th_chat_kind *kind, const char *bos, const char *eos)
{
    char name[80];
    th_chat_source source = {.kind = kind->name, .name = name, .bos = bos, .eos = eos};
    snprintf(name, sizeof name, "the chat template %s", kind->name);
    if (!th_chat_append_kind(kind, &source.text))
        th_fail_memory(ctx, operation, source.text.count);
    th_chat_template *chat = th_failed(ctx) ? NULL : th_chat_template_make(ctx, &source);
    th_text_free(&source.text);
    return chat;
}

th_chat_template *th_chat_template_new(th_context *ctx, const char *name, const char *bos, const char *eos)
{
    char quoted[TH_QUOTED], list[TH_CHAT_LIST];
    if (!th_usable_context(ctx, operation))
        return NULL;
    const th_chat_kind *kind = name ? th_chat_find_kind(name) : NULL;
    if (kind)
        return th_chat_template_of_kind(ctx, kind, bos, eos);
    th_chat_list_kinds(list);
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the kind %s is unknown; the known kinds are %s",
            name ? th_quote(name, quoted) : "NULL", list);
    return NULL;
}

void th_chat_template_free(th_chat_template *chat)
{
    if (chat == NULL)
        return;
    th_detach_object(chat->ctx, chat);
    release(chat->ctx, chat);
}

/* -- properties -- */

const char *th_chat_template_kind(const th_chat_template *chat)
{
    return chat ? chat->kind : NULL;
}

const char *th_chat_template_end(const th_chat_template *chat)
{
    const char *stop = chat == NULL ? NULL : chat->stop ? chat->stop : chat->eos;
    return stop && stop[0] ? stop : NULL;
}

bool th_chat_usable(const th_chat_template *chat, const char *name)
{
    if (chat)
        return !th_failed(chat->ctx);
    th_fail_last(TH_ERROR_ARGUMENT, name, "the chat template is NULL");
    return false;
}

th_status th_chat_template_set_end(th_chat_template *chat, const char *eos)
{
    static const char name[] = "chat_template_set_end";
    if (!th_chat_usable(chat, name))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (eos == NULL)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, name, "the token is NULL");
    char *copy = copy_text(chat->ctx, eos);
    if (copy == NULL)
        return th_fail_memory(chat->ctx, name, strlen(eos));
    release_text(chat->ctx, chat->eos);
    release_text(chat->ctx, chat->stop);
    chat->eos = copy;
    chat->stop = th_chat_find_stop(chat);
    return th_error_code(chat->ctx);
}

th_status th_chat_template_set_variables(th_chat_template *chat, const char *json)
{
    static const char name[] = "chat_template_set_variables";
    if (!th_chat_usable(chat, name))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    const th_json_source source = {chat->ctx, name, "the variables"};
    const th_json_limits limits = {.bytes = MAX_VARIABLES, .depth = VARIABLES_DEPTH};
    json_t *variables = json ? th_json_read(&source, json, strlen(json), &limits) : NULL;
    th_status status = th_error_code(chat->ctx);
    if (status == TH_OK && variables)
        status = th_chat_check_variables(chat->ctx, name, variables);
    if (status != TH_OK) {
        json_decref(variables);
        return status;
    }
    json_decref(chat->variables);
    chat->variables = variables;
    return TH_OK;
}

th_status th_chat_template_set_date(th_chat_template *chat, const char *date)
{
    static const char name[] = "chat_template_set_date";
    if (!th_chat_usable(chat, name))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    int year = 0, month = 0, day = 0, count = 0;
    if (date && strlen(date) == 10 && strspn(date, "-0123456789") == 10)
        (void)sscanf(date, "%4d-%2d-%2d%n", &year, &month, &day, &count);
    struct tm noon = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = 12, .tm_isdst = -1};
    const time_t now = count == 10 && year >= 1970 ? mktime(&noon) : (time_t)-1;
    if (now == (time_t)-1 || noon.tm_mday != day || noon.tm_mon != month - 1) {
        char quoted[TH_QUOTED];
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, name, "the date is %s; it must be like 2026-11-28",
                       date ? th_quote(date, quoted) : "NULL");
    }
    chat->now = now;
    return TH_OK;
}
