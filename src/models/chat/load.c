/* Creates chat templates from the files of a transformers folder, or from a GGUF file. */
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
    char name[TH_MAX_PATH + 128]; /* of the file that is read */
    th_text jinja, tool_jinja;    /* the template, and the one for conversations with tools; without bytes: none */
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

/* -- templates -- */

static const char usual_name[] = "default", tool_name[] = "tool_use"; /* of transformers */

/* Returns the template of that name in chat_template, which is a text, or an array of names and texts; NULL: none. */
static const char *find_template(const json_t *templates, const char *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach (templates, i, one) {
        const char *its_name = json_string_value(json_object_get(one, "name"));
        if (its_name && strcmp(its_name, name) == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return strcmp(name, usual_name) == 0 ? json_string_value(templates) : NULL;
}

/* Whether the folder has a file with the template of that name. Sets f->name. */
static bool has_template_file(folder *f, const char *name)
{
    char file[128];
    if (strcmp(name, usual_name) == 0)
        return has_file(f, "chat_template.jinja");
    if (strchr(name, '/') || strlen(name) > 60)
        return false;
    snprintf(file, sizeof file, "additional_chat_templates/%s.jinja", name);
    return has_file(f, file);
}

/* Reads the template of that name, if the folder has it. Returns false with the error pending. */
static bool read_template(folder *f, const configuration *config, const char *name, th_text *to)
{
    contents file;
    if (has_template_file(f, name)) {
        bool kept = read_file(f, MAX_TEMPLATE, &file);
        if (kept && !th_jinja_append(to, file.text, file.size - 1)) {
            th_fail_memory(f->ctx, operation, file.size);
            kept = false;
        }
        release_contents(f, &file);
        return kept;
    }
    (void)has_file(f, "tokenizer_config.json"); /* names it in messages */
    const char *jinja = find_template(config->member[TEMPLATE], name);
    if (jinja == NULL || th_jinja_append(to, jinja, strlen(jinja)))
        return true;
    th_fail_memory(f->ctx, operation, strlen(jinja));
    return false;
}

/* Refuses an array of templates if the template "default" is missing. */
static bool check_names(const folder *f, const json_t *templates)
{
    char list[300] = "", quoted[TH_QUOTED];
    const json_t *one;
    size_t i;
    if (f->jinja.bytes || json_array_size(templates) == 0)
        return true;
    json_array_foreach (templates, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        th_append(list, sizeof list, "%s%s", i ? ", " : "", name ? th_quote(name, quoted) : "(no name)");
    }
    th_fail(f->ctx, TH_ERROR_FILE, operation,
            "%.300s has the chat templates %s, and none is called default; name one of them", f->name, list);
    return false;
}

/* Reads the template with this name, and for NULL the usual one and the one for tools. Returns false with the error
 * pending. */
static bool read_templates(folder *f, const configuration *config, const char *name)
{
    if (name)
        return read_template(f, config, name, &f->jinja);
    return read_template(f, config, tool_name, &f->tool_jinja) && read_template(f, config, usual_name, &f->jinja) &&
           check_names(f, config->member[TEMPLATE]);
}

/* Reads the templates and the texts of tokens from a GGUF file. Returns false with the error pending. */
static bool read_gguf(folder *f, configuration *config, const char *name)
{
    snprintf(f->name, sizeof f->name, "%s", f->path);
    const bool read = th_gguf_read_chat(f->ctx, f->path, &f->jinja, &f->tool_jinja, &config->member[BOS],
                                        &config->member[EOS]) == TH_OK;
    if (name == NULL)
        return read;
    const th_text usual = f->jinja; /* a file has two templates at most */
    f->jinja = strcmp(name, tool_name) == 0 ? f->tool_jinja : (th_text){0};
    f->tool_jinja = usual;
    return read;
}

/* Reads tokenizer_config.json and the templates. Returns false with the error pending. */
static bool read_folder(folder *f, configuration *config, const char *name)
{
    if (th_gguf_is_file(f->path))
        return read_gguf(f, config, name);
    if (has_file(f, "tokenizer_config.json") && !read_configuration(f, config))
        return false;
    return read_templates(f, config, name);
}

/* Creates the template from what was read. */
static th_chat_template *make_template(folder *f, const th_chat_kind *kind, const char *name,
                                       const configuration *config, const configuration *map)
{
    char list[TH_CHAT_LIST], quoted[TH_QUOTED];
    const char *bos = token_of(config->member[BOS]), *eos = token_of(config->member[EOS]);
    bos = bos ? bos : token_of(map->member[BOS]);
    eos = eos ? eos : token_of(map->member[EOS]);
    if (kind == NULL && name == NULL && f->jinja.bytes == NULL)
        kind = th_chat_find_kind("plain");
    if (kind)
        return th_chat_template_of_kind(f->ctx, kind, bos, eos);
    if (f->jinja.bytes) {
        th_chat_source source = {.kind = th_chat_jinja, .name = f->name, .text = f->jinja, .bos = bos, .eos = eos};
        if (name == NULL)
            source.tool_text = f->tool_jinja;
        return th_chat_template_make(f->ctx, &source);
    }
    th_chat_list_kinds(list);
    th_fail(f->ctx, TH_ERROR_ARGUMENT, operation,
            "the kind %s is unknown, and %.200s has no template of this name; the known kinds are %s",
            th_quote(name, quoted), f->path, list);
    return NULL;
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

static void release_folder(folder *f)
{
    th_text_free(&f->jinja);
    th_text_free(&f->tool_jinja);
}

th_chat_template *th_chat_template_load_as(th_context *ctx, const char *path, const char *name)
{
    if (!usable_path(ctx, path))
        return NULL;
    const th_chat_kind *kind = name ? th_chat_find_kind(name) : NULL;
    folder f = {.ctx = ctx, .path = path}, tokens = {.ctx = ctx, .path = path};
    configuration config = {{NULL}}, map = {{NULL}};
    th_chat_template *chat = NULL;
    if (read_folder(&f, &config, name) &&
        (!has_file(&tokens, "special_tokens_map.json") || read_configuration(&tokens, &map)))
        chat = make_template(&f, kind, name, &config, &map);
    release_folder(&f);
    release_configuration(&config);
    release_configuration(&map);
    return chat;
}

th_chat_template *th_chat_template_load(th_context *ctx, const char *path)
{
    return th_chat_template_load_as(ctx, path, NULL);
}

/* Appends the program of a kind without the tags of its generation blocks, which only some programs know. Returns false
 * if out of memory. */
static bool append_kind(const th_chat_kind *kind, th_text *text)
{
    static const char *const tags[] = {"{%- generation %}", "{%- endgeneration %}"};
    th_text whole = {0};
    bool complete = th_chat_append_kind(kind, &whole);
    for (const char *at = whole.bytes; complete && *at;) {
        const char *tag = strstr(at, tags[0]), *end = strstr(at, tags[1]);
        const char *next = tag && (end == NULL || tag < end) ? tag : end;
        complete = th_jinja_append(text, at, next ? (size_t)(next - at) : strlen(at));
        at = next ? next + strlen(tags[next == end]) : "";
    }
    th_text_free(&whole);
    return complete;
}

th_status th_chat_template_text_as(th_context *ctx, const char *path, const char *name, th_text *text)
{
    if (!usable_path(ctx, path))
        return ctx ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    if (text == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the text is NULL");
    const th_chat_kind *kind = name ? th_chat_find_kind(name) : NULL;
    folder f = {.ctx = ctx, .path = path};
    configuration config = {{NULL}};
    bool complete = true;
    if (kind)
        complete = append_kind(kind, text);
    else if (read_folder(&f, &config, name) && f.jinja.bytes)
        complete = th_jinja_append(text, f.jinja.bytes, f.jinja.count);
    if (!complete)
        th_fail_memory(ctx, operation, MAX_TEMPLATE);
    release_folder(&f);
    release_configuration(&config);
    return th_error_code(ctx);
}

th_status th_chat_template_text(th_context *ctx, const char *path, th_text *text)
{
    return th_chat_template_text_as(ctx, path, NULL, text);
}
