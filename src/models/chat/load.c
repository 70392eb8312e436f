/* Creates chat templates from the files of a transformers folder, or from a GGUF file. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "models/chat/chat.h"
#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/gguf/folder.h"

static const char operation[] = "chat_template";
enum { MAX_TEMPLATE = 1 << 20, MAX_CONFIG = 64 << 20, CONFIG_DEPTH = 64 };

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
    th_text jinja;               /* the template, if the folder has one */
    bool has_template;
} folder;

/* A file in memory. */
typedef struct contents {
    char *text; /* [size]; the last byte is NUL */
    size_t size;
} contents;

static bool has_file(folder *f, const char *name)
{
    snprintf(f->name, sizeof f->name, "%.*s/%s", TH_MAX_PATH - 1, f->path, name);
    return access(f->name, F_OK) == 0;
}

/* Reads the file f->name. Returns false with the error pending. */
static bool read_file(const folder *f, int64_t most, contents *c)
{
    const char *reason;
    int64_t bytes;
    FILE *file = th_regular_open(f->name, &bytes, &reason);
    *c = (contents){0};
    if (file == NULL || bytes > most) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: %s", f->name, file ? "the file is too large" : reason);
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

/* Builds the member if it is used. Returns false with the error pending. */
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

/* Reads the members of the JSON file f->name. Returns false with the error pending. */
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

/* Returns a token, which is a text or an object with its content; NULL if it is missing. */
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

/* Reads the template. Returns false with the error pending. */
static bool read_template(folder *f, const configuration *config)
{
    contents file;
    if (has_file(f, "chat_template.jinja")) {
        f->has_template = read_file(f, MAX_TEMPLATE, &file);
        const bool kept = f->has_template && th_chat_append(&f->jinja, file.text, file.size - 1);
        release_contents(f, &file);
        return kept;
    }
    (void)has_file(f, "tokenizer_config.json"); /* names it in messages */
    const char *jinja = template_of(config->member[TEMPLATE]);
    f->has_template = jinja != NULL;
    return jinja == NULL || th_chat_append(&f->jinja, jinja, strlen(jinja));
}

/* Recognizes the template; without one it is plain. */
static const th_chat_kind *find_kind(const folder *f)
{
    if (!f->has_template)
        return &th_chat_table[TH_CHAT_PLAIN];
    const th_chat_kind *kind = th_chat_recognize(f->jinja.bytes, f->jinja.count);
    return kind ? kind : &th_chat_interpreted;
}

/* Parses the template, which then writes the conversations. Returns NULL with the error pending. */
static th_chat_template *interpret(const folder *f, const char *name, th_chat_template *chat)
{
    chat->program = th_jinja_parse(f->ctx, operation, name, f->jinja.bytes, f->jinja.count);
    chat->now = time(NULL);
    if (chat->program)
        chat->stop = th_chat_find_stop(chat);
    if (!th_failed(f->ctx))
        return chat;
    th_chat_template_free(chat);
    return NULL;
}

/* Reads the template and the texts of tokens from a GGUF file. Returns false with the error pending. */
static bool read_gguf(folder *f, configuration *config)
{
    snprintf(f->name, sizeof f->name, "%s", f->path);
    const th_status status = th_gguf_read_chat(f->ctx, f->path, &f->jinja, &config->member[BOS], &config->member[EOS]);
    f->has_template = f->jinja.count > 0;
    return status == TH_OK;
}

/* Reads tokenizer_config.json and the template. Returns false with the error pending. */
static bool read_folder(folder *f, configuration *config)
{
    if (th_gguf_is_file(f->path))
        return read_gguf(f, config);
    if (has_file(f, "tokenizer_config.json") && !read_configuration(f, config))
        return false;
    const bool read = read_template(f, config);
    if (!read && th_error_code(f->ctx) == TH_OK)
        th_fail_memory(f->ctx, operation, MAX_TEMPLATE);
    return read;
}

/* Creates the template from the files. name: the kind's name; NULL: the kind is recognized. The caller releases both
 * configurations and the text. */
static th_chat_template *make_template(folder *f, const char *name, configuration *config, configuration *map)
{
    if (!read_folder(f, config))
        return NULL;
    char jinja_name[sizeof f->name];
    snprintf(jinja_name, sizeof jinja_name, "%s", f->name);
    const th_chat_kind *kind = name ? th_chat_find_kind(f->ctx, name) : find_kind(f);
    if (kind == NULL || (has_file(f, "special_tokens_map.json") && !read_configuration(f, map)))
        return NULL;
    const char *bos = token_of(config->member[BOS]), *eos = token_of(config->member[EOS]);
    th_chat_template *chat = th_chat_template_make(f->ctx, kind, bos ? bos : token_of(map->member[BOS]),
                                                   eos ? eos : token_of(map->member[EOS]));
    if (chat && kind->rules & TH_CHAT_SMOLLM_3 && f->has_template)
        chat->thinking = th_chat_smollm_system_text(f->ctx, f->jinja.bytes);
    return chat && kind == &th_chat_interpreted ? interpret(f, jinja_name, chat) : chat;
}

/* Checks the arguments. */
static bool usable_path(th_context *ctx, const char *path)
{
    if (!th_usable_context(ctx, operation))
        return false;
    if (path && strlen(path) < TH_MAX_PATH)
        return true;
    th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL or too long");
    return false;
}

th_chat_template *th_chat_template_load_as(th_context *ctx, const char *path, const char *kind)
{
    if (!usable_path(ctx, path))
        return NULL;
    folder f = {.ctx = ctx, .path = path};
    configuration config = {{NULL}}, map = {{NULL}};
    th_chat_template *chat = make_template(&f, kind, &config, &map);
    th_text_free(&f.jinja);
    release_configuration(&config);
    release_configuration(&map);
    return chat;
}

th_chat_template *th_chat_template_load(th_context *ctx, const char *path)
{
    return th_chat_template_load_as(ctx, path, NULL);
}

th_status th_chat_template_text(th_context *ctx, const char *path, th_text *text)
{
    if (!usable_path(ctx, path))
        return ctx ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    if (text == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the text is NULL");
    folder f = {.ctx = ctx, .path = path};
    configuration config = {{NULL}};
    if (read_folder(&f, &config) && f.has_template && !th_chat_append(text, f.jinja.bytes, f.jinja.count))
        th_fail_memory(ctx, operation, f.jinja.count);
    th_text_free(&f.jinja);
    release_configuration(&config);
    return th_error_code(ctx);
}
