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

enum { TEMPLATE, BOS, EOS, MEMBERS };
static const char *const member_name[MEMBERS] = {"chat_template", "bos_token", "eos_token"};

/* The members of a configuration that are used. Other members may have any value: model_max_length is often an integer
 * that fits no type. */
typedef struct configuration {
    json_t *member[MEMBERS];
} configuration;

typedef struct folder {
    th_context *ctx;
    const char *path;
    char name[TH_MAX_PATH + 32]; /* of the file that is read */
} folder;

/* A file in memory. */
typedef struct contents {
    char *text; /* [size], of which the last byte is NUL */
    size_t size;
} contents;

static bool has_file(folder *f, const char *name)
{
    snprintf(f->name, sizeof f->name, "%.*s/%s", TH_MAX_PATH - 1, f->path, name);
    return access(f->name, F_OK) == 0;
}

/* Reads the file f->name. Returns false with the error stored. */
static bool read_file(const folder *f, int64_t most, contents *c)
{
    const char *trouble;
    int64_t bytes;
    FILE *file = th_regular_open(f->name, &bytes, &trouble);
    *c = (contents){0};
    if (file == NULL || bytes > most) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->name, file ? "the file is too large" : trouble);
        if (file)
            fclose(file);
        return false;
    }
    c->size = (size_t)bytes + 1;
    c->text = th_allocate(f->ctx, c->size);
    const bool read = c->text && fread(c->text, 1, (size_t)bytes, file) == (size_t)bytes;
    fclose(file);
    if (c->text == NULL)
        th_fail_memory(f->ctx, operation, c->size);
    else if (!read)
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: it cannot be read", f->name);
    else
        c->text[bytes] = 0;
    return read;
}

static void release_contents(const folder *f, contents *c)
{
    th_release(f->ctx, c->text, c->size);
}

static void release_configuration(configuration *c)
{
    for (int i = 0; i < MEMBERS; i++)
        json_decref(c->member[i]);
}

/* Builds the member if it is used. Returns false with the error stored. */
static bool build_member(const th_json_source *source, const th_json_iterator *it, configuration *c)
{
    for (int i = 0; i < MEMBERS; i++) {
        const size_t count = strlen(member_name[i]);
        if (it->key_bytes != count + 2 || memcmp(it->key + 1, member_name[i], count) != 0)
            continue;
        json_decref(c->member[i]);
        c->member[i] = th_json_build(source, it->value, it->value_bytes);
        return c->member[i] != NULL;
    }
    return true;
}

/* Reads the members of the JSON file f->name. Returns false with the error stored. */
static bool read_configuration(const folder *f, configuration *c)
{
    const th_json_source source = {f->ctx, operation, f->name};
    const th_json_limits limits = {.bytes = MAX_CONFIG, .depth = CONFIG_DEPTH};
    contents file;
    size_t memory;
    bool read = read_file(f, MAX_CONFIG, &file);
    const char *begin = file.text;
    size_t bytes = file.size > 0 ? file.size - 1 : 0;
    for (; read && bytes > 0 && strchr(" \t\r\n", *begin); bytes--)
        begin++;
    if (read && (bytes == 0 || *begin != '{')) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s is not a JSON object", f->name);
        read = false;
    }
    read = read && th_json_measure(&source, begin, bytes, &limits, &memory) == TH_OK;
    if (read) {
        th_json_iterator it = th_json_iterate(&source, begin, bytes);
        while (read && th_json_next(&it))
            read = build_member(&source, &it, c);
        read = read && !it.failed;
    }
    release_contents(f, &file);
    return read;
}

/* Returns a token, which is a text or an object with its content; NULL if there is none. */
static const char *token_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* Returns the template of tokenizer_config.json: a text, or the one with the name "default" of several. NULL: none. */
static const char *template_of(const json_t *value)
{
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
static const th_chat_kind *kind_of(const folder *f, const char *jinja, size_t bytes)
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

/* Returns the kind of the template, or NULL with the error stored. */
static const th_chat_kind *find_kind(folder *f, const configuration *config)
{
    const char *jinja = template_of(config->member[TEMPLATE]);
    const th_chat_kind *kind = NULL;
    contents file;
    if (!has_file(f, "chat_template.jinja")) {
        (void)has_file(f, "tokenizer_config.json"); /* names it in messages */
        return kind_of(f, jinja, jinja ? strlen(jinja) : 0);
    }
    if (read_file(f, MAX_TEMPLATE, &file))
        kind = kind_of(f, file.text, file.size - 1);
    release_contents(f, &file);
    return kind;
}

/* Creates the template from the files. The caller releases both configurations. */
static th_chat_template *load(folder *f, configuration *config, configuration *map)
{
    if (has_file(f, "tokenizer_config.json") && !read_configuration(f, config))
        return NULL;
    const th_chat_kind *kind = find_kind(f, config);
    if (kind == NULL || (has_file(f, "special_tokens_map.json") && !read_configuration(f, map)))
        return NULL;
    const char *bos = token_of(config->member[BOS]), *eos = token_of(config->member[EOS]);
    return make(f->ctx, kind, bos ? bos : token_of(map->member[BOS]), eos ? eos : token_of(map->member[EOS]));
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
    configuration config = {{NULL}}, map = {{NULL}};
    th_chat_template *chat = load(&f, &config, &map);
    release_configuration(&config);
    release_configuration(&map);
    return chat;
}
