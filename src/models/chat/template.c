/* Chat templates of a kind, with the texts of their tokens. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"

static const char operation[] = "chat_template";

static void release_text(th_context *ctx, char *text)
{
    th_release(ctx, text, text ? strlen(text) + 1 : 0);
}

static void release(th_context *ctx, void *object)
{
    th_chat_template *chat = object;
    release_text(ctx, chat->bos);
    release_text(ctx, chat->eos);
    release_text(ctx, chat->thinking);
    release_text(ctx, chat->stop);
    th_jinja_free(chat->program);
    th_release(ctx, chat, sizeof *chat);
}

static char *copy_text(th_context *ctx, const char *text)
{
    text = text ? text : "";
    char *copied = th_allocate(ctx, strlen(text) + 1);
    return copied ? strcpy(copied, text) : NULL;
}

th_chat_template *th_chat_template_make(th_context *ctx, const th_chat_kind *kind, const char *bos, const char *eos)
{
    th_chat_template *chat = th_allocate(ctx, sizeof *chat);
    if (chat)
        *chat = (th_chat_template){.ctx = ctx, .kind = kind, .bos = copy_text(ctx, bos), .eos = copy_text(ctx, eos)};
    if (chat && chat->bos && chat->eos && th_attach_object(ctx, chat, release))
        return chat;
    if (chat)
        release(ctx, chat);
    th_fail_memory(ctx, operation, sizeof *chat);
    return NULL;
}

void th_chat_list_kinds(char text[TH_CHAT_LIST])
{
    text[0] = 0;
    for (int i = 0; i < TH_CHAT_KINDS; i++)
        th_append(text, TH_CHAT_LIST, "%s%s", i ? ", " : "", th_chat_table[i].name);
}

const th_chat_kind *th_chat_find_kind(th_context *ctx, const char *name)
{
    for (int i = 0; name && i < TH_CHAT_KINDS; i++)
        if (strcmp(name, th_chat_table[i].name) == 0)
            return &th_chat_table[i];
    char quoted[TH_QUOTED], kinds[TH_CHAT_LIST];
    th_chat_list_kinds(kinds);
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the kind %s is unknown; the known kinds are %s",
            name ? th_quote(name, quoted) : "NULL", kinds);
    return NULL;
}

th_chat_template *th_chat_template_new(th_context *ctx, const char *kind, const char *bos, const char *eos)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    const th_chat_kind *found = th_chat_find_kind(ctx, kind);
    return found ? th_chat_template_make(ctx, found, bos, eos) : NULL;
}

void th_chat_template_free(th_chat_template *chat)
{
    if (chat == NULL)
        return;
    th_detach_object(chat->ctx, chat);
    release(chat->ctx, chat);
}

const char *th_chat_template_kind(const th_chat_template *chat)
{
    return chat ? chat->kind->name : NULL;
}

const char *th_chat_template_end(const th_chat_template *chat)
{
    const char *stop = chat == NULL                            ? NULL
                       : chat->stop                            ? chat->stop
                       : strcmp(chat->kind->stop, TH_EOS) == 0 ? chat->eos
                                                               : chat->kind->stop;
    return stop && stop[0] ? stop : NULL;
}

bool th_chat_usable(const th_chat_template *chat, const char *name)
{
    if (chat)
        return !th_failed(chat->ctx);
    th_fail_last(TH_ERROR_ARGUMENT, name, "the chat template is NULL");
    return false;
}
