/* Creates chat templates: of a kind, or from the files of a transformers folder. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "models/chat/chat.h"
#include "models/files/json.h"
#include "models/files/regular_file.h"

static const char operation[] = "chat_template";
enum { MAX_TEMPLATE = 1 << 20, MAX_CONFIG = 64 << 20, CONFIG_DEPTH = 64 };

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
    th_release(ctx, chat, sizeof *chat);
}

static char *copy(th_context *ctx, const char *text)
{
    text = text ? text : "";
    char *copied = th_allocate(ctx, strlen(text) + 1);
    return copied ? strcpy(copied, text) : NULL;
}

static th_chat_template *make(th_context *ctx, const th_chat_kind *kind, const char *bos, const char *eos)
{
    th_chat_template *chat = th_allocate(ctx, sizeof *chat);
    if (chat)
        *chat = (th_chat_template){.ctx = ctx, .kind = kind, .bos = copy(ctx, bos), .eos = copy(ctx, eos)};
    if (chat && chat->bos && chat->eos && th_attach(ctx, chat, release))
        return chat;
    if (chat)
        release(ctx, chat);
    th_fail_memory(ctx, operation, sizeof *chat);
    return NULL;
}

/* Writes the names of all kinds: "plain, chatml, ...". */
static void list_kinds(char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < TH_CHAT_KINDS; i++)
        th_append(text, size, "%s%s", i ? ", " : "", th_chat_table[i].name);
}

th_chat_template *th_chat_template_new(th_context *ctx, const char *kind, const char *bos, const char *eos)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    for (int i = 0; kind && i < TH_CHAT_KINDS; i++)
        if (strcmp(kind, th_chat_table[i].name) == 0)
            return make(ctx, &th_chat_table[i], bos, eos);
    char quoted[TH_QUOTED], kinds[300];
    list_kinds(kinds, sizeof kinds);
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the kind %s is unknown; the known kinds are %s",
            kind ? th_quote(kind, quoted) : "NULL", kinds);
    return NULL;
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
    const char *stop = chat == NULL ? NULL : strcmp(chat->kind->stop, TH_EOS) == 0 ? chat->eos : chat->kind->stop;
    return stop && stop[0] ? stop : NULL;
}

bool th_chat_usable(const th_chat_template *chat, const char *name)
{
    if (chat)
        return !th_failed(chat->ctx);
    th_fail_last(TH_ERROR_ARGUMENT, name, "the chat template is NULL");
    return false;
}

/* -- the files of a folder -- */

typedef struct folder {
    th_context *ctx;
    const char *path;
    json_t *config; /* tokenizer_config.json; NULL: none */
    size_t config_memory;
    char name[TH_MAX_PATH + 32]; /* of the file that is read */
} folder;

static bool has_file(folder *f, const char *name)
{
    snprintf(f->name, sizeof f->name, "%.*s/%s", TH_MAX_PATH - 1, f->path, name);
    return access(f->name, F_OK) == 0;
}

static json_t *read_config(folder *f, size_t *memory)
{
    const th_json_source source = {f->ctx, operation, f->name};
    const th_json_limits limits = {.bytes = MAX_CONFIG, .depth = CONFIG_DEPTH, .memory = 8 * (size_t)MAX_CONFIG};
    json_t *value = th_json_read_file(&source, &limits, memory);
    if (value == NULL || json_is_object(value))
        return value;
    th_json_release(f->ctx, value, *memory);
    th_fail(f->ctx, TH_ERROR_FILE, operation, "%s is not a JSON object", f->name);
    return NULL;
}

/* Returns a token of a configuration, which is a text or an object with its content; NULL if there is none. */
static const char *token_of(const json_t *config, const char *name)
{
    const json_t *token = json_object_get(config, name);
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* Returns the template in tokenizer_config.json: a text, or the one with the name "default" of several. NULL: none. */
static const char *template_of(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template");
    const json_t *one;
    size_t i;
    json_array_foreach (value, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(value);
}

/* Recognizes a template; a NULL one is plain. Returns NULL with the error stored. */
static const th_chat_kind *kind_of(folder *f, const char *jinja, size_t bytes)
{
    const th_chat_kind *kind = jinja ? th_chat_recognize(jinja, bytes) : &th_chat_table[TH_CHAT_PLAIN];
    char kinds[300];
    list_kinds(kinds, sizeof kinds);
    if (kind == NULL)
        th_fail(f->ctx, TH_ERROR_FILE, operation,
                "the chat template in %.200s is not one of those that this library knows (%s). If it writes the same "
                "text as one of them, name that kind; plain uses no template",
                f->name, kinds);
    return kind;
}

/* Reads chat_template.jinja. Returns its kind, or NULL with the error stored. */
static const th_chat_kind *kind_of_file(folder *f)
{
    const char *trouble;
    int64_t bytes;
    FILE *file = th_regular_open(f->name, &bytes, &trouble);
    if (file == NULL || bytes > MAX_TEMPLATE) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->name,
                file ? "a chat template has at most 1 MiB" : trouble);
        if (file)
            fclose(file);
        return NULL;
    }
    const size_t size = (size_t)bytes + 1;
    char *text = th_allocate(f->ctx, size);
    const th_chat_kind *kind = NULL;
    if (text == NULL)
        th_fail_memory(f->ctx, operation, size);
    else if (fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: it cannot be read", f->name);
    else
        kind = kind_of(f, text, (size_t)bytes);
    th_release(f->ctx, text, size);
    fclose(file);
    return kind;
}

static const th_chat_kind *kind_of_config(folder *f, const char *jinja)
{
    (void)has_file(f, "tokenizer_config.json"); /* names it in messages */
    return kind_of(f, jinja, jinja ? strlen(jinja) : 0);
}

/* Creates the template from the files. f->config is released afterwards. */
static th_chat_template *load(folder *f)
{
    if (has_file(f, "tokenizer_config.json") && (f->config = read_config(f, &f->config_memory)) == NULL)
        return NULL;
    const char *jinja = template_of(f->config), *bos = token_of(f->config, "bos_token");
    const char *eos = token_of(f->config, "eos_token");
    const th_chat_kind *kind = has_file(f, "chat_template.jinja") ? kind_of_file(f) : kind_of_config(f, jinja);
    if (kind == NULL)
        return NULL;
    size_t memory = 0;
    json_t *map = NULL;
    if ((bos == NULL || eos == NULL) && has_file(f, "special_tokens_map.json") &&
        (map = read_config(f, &memory)) == NULL)
        return NULL;
    th_chat_template *chat =
        make(f->ctx, kind, bos ? bos : token_of(map, "bos_token"), eos ? eos : token_of(map, "eos_token"));
    th_json_release(f->ctx, map, memory);
    return chat;
}

th_chat_template *th_chat_template_load(th_context *ctx, const char *path)
{
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL || strlen(path) >= TH_MAX_PATH) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL or too long");
        return NULL;
    }
    folder f = {.ctx = ctx, .path = path};
    th_chat_template *chat = load(&f);
    th_json_release(ctx, f.config, f.config_memory);
    return chat;
}
