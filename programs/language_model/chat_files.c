/* The files of a model folder that tell how to chat with the model. A run that tunes the model keeps copies, and export
 * copies them again, so neither needs the first folder. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "checkpoints.h"
#include "shared/system.h"
#include "tuning.h"

static const char template_file[] = "chat_template.jinja";
/* The texts of tokens, and the tokens that end an answer. */
static const char *const settings_files[] = {"tokenizer_config.json", "special_tokens_map.json",
                                             "generation_config.json"};

static const char tool_folder[] = "additional_chat_templates";
static const char tool_file[] = "additional_chat_templates/tool_use.jinja";

const char *chat_template_folder(const trainer *t)
{
    return t->run ? t->run : chosen.from;
}

/* -- reading -- */

/* Adds the next text as a file. An empty text removes a file of this name. */
static void add_file(chat_files *c, const char *name)
{
    const th_text *text = &c->text[c->count];
    c->file[c->count++] = (th_export_file){name, text->count > 0 ? text->bytes : NULL, text->count};
}

/* Adds the folder's files that belong to the template, after the template itself. */
static void add_settings_files(trainer *t, const char *folder, chat_files *c)
{
    for (size_t i = 0; i < sizeof settings_files / sizeof *settings_files; i++) {
        const char *path = path_in(folder, settings_files[i]);
        if (access(path, F_OK) == 0)
            read_file(t, path, &c->text[c->count]);
        if (c->text[c->count].count > 0 || i > 0) /* th_tokenizer_save writes the first one */
            add_file(c, settings_files[i]);
    }
}

void read_chat_files(trainer *t, chat_files *c)
{
    *c = (chat_files){.count = 0};
    require_ok(t, th_chat_template_text(t->ctx, t->run, &c->text[0]));
    if (c->text[0].count == 0 && chosen.chat) /* a run of an older version */
        require_ok(t, th_chat_template_text_as(t->ctx, t->run, chosen.chat, &c->text[0]));
    require_ok(t, th_chat_template_text_as(t->ctx, t->run, "tool_use", &c->tool_template));
    add_file(c, template_file);
    add_settings_files(t, t->run, c);
}

/* Returns the token that the tokenizer puts before a text; -1 if it puts none. */
static int64_t find_first_token(trainer *t)
{
    th_token_list tokens = {0};
    require_ok(t, th_tokenizer_encode_document(t->tokenizer, "", 0, &tokens));
    const bool begins = tokens.count > 1 || (tokens.count == 1 && tokens.token[0] != chosen.end_token);
    const int64_t first = begins ? tokens.token[0] : -1;
    th_token_list_free(&tokens);
    return first;
}

int64_t find_begin_token(trainer *t, const char *folder)
{
    const char *path = path_in(folder, settings_files[0]);
    th_text file = {0};
    int64_t begin = -1;
    if (is_gguf(folder)) {
        require_ok(t, th_gguf_begin_token(t->ctx, folder, &begin));
        return begin >= 0 ? begin : find_first_token(t);
    }
    if (access(path, F_OK) == 0)
        read_file(t, path, &file);
    json_t *config = json_loadb(file.bytes ? file.bytes : "", file.count, 0, NULL);
    const json_t *value = json_object_get(config, "bos_token"), *content = json_object_get(value, "content");
    const char *text = json_string_value(content ? content : value);
    const int64_t token = text ? th_tokenizer_find(t->tokenizer, text) : -1;
    json_decref(config);
    th_text_free(&file);
    return token >= 0 ? token : find_first_token(t);
}

static bool add_token(trainer *t, json_t *config, const char *name, int64_t token)
{
    size_t bytes = 0;
    const char *text = token >= 0 ? th_tokenizer_bytes(t->tokenizer, token, &bytes) : NULL;
    return text == NULL || json_object_set_new(config, name, json_stringn(text, bytes)) == 0;
}

void make_gguf_chat_files(trainer *t, const th_text *jinja, int64_t begin, chat_files *c)
{
    json_t *config = json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", /* as th_tokenizer_save */
                               "clean_up_tokenization_spaces", 0);
    *c = (chat_files){.count = 0};
    c->text[0] = *jinja;
    add_file(c, template_file);
    for (size_t i = 1; i < sizeof settings_files / sizeof *settings_files; i++)
        add_file(c, settings_files[i]);
    if (config && add_token(t, config, "bos_token", begin) && add_token(t, config, "eos_token", chosen.end_token))
        c->text[c->count].bytes = json_dumps(config, JSON_INDENT(2));
    if (c->text[c->count].bytes == NULL)
        give_up(PROGRAM, "out of memory");
    c->text[c->count].count = strlen(c->text[c->count].bytes);
    add_file(c, settings_files[0]);
    json_decref(config);
}

/* Adds the files as export would write them for a GGUF file, after the template. */
static void add_gguf_settings_files(trainer *t, const char *path, chat_files *c)
{
    const th_text jinja = c->text[0], tool_template = c->tool_template;
    chat_files made;
    make_gguf_chat_files(t, &jinja, find_begin_token(t, path), &made);
    *c = made;
    c->tool_template = tool_template;
}

/* Reads the templates that write the run's conversations from the folder of --from. */
static void read_base_templates(trainer *t, bool instructions, chat_files *c)
{
    th_text *jinja = &c->text[0];
    if (chosen.chat == NULL) {
        require_ok(t, th_chat_template_text(t->ctx, chosen.from, jinja));
        require_ok(t, th_chat_template_text_as(t->ctx, chosen.from, "tool_use", &c->tool_template));
    }
    if (instructions && jinja->count == 0 && chosen.chat == NULL)
        chosen.chat = "plain";
    if (chosen.chat)
        require_ok(t, th_chat_template_text_as(t->ctx, chosen.from, chosen.chat, jinja));
}

void read_base_chat_files(trainer *t, bool instructions, chat_files *c)
{
    *c = (chat_files){.count = 0};
    const bool is_base_tokenizer = chosen.from && strcmp(chosen.tokenizer, chosen.from) == 0;
    if (is_base_tokenizer)
        read_base_templates(t, instructions, c);
    add_file(c, template_file);
    if (is_base_tokenizer && is_gguf(chosen.from))
        add_gguf_settings_files(t, chosen.from, c);
    else if (is_base_tokenizer)
        add_settings_files(t, chosen.from, c);
    for (size_t i = 1; i < sizeof settings_files / sizeof *settings_files && !is_base_tokenizer; i++)
        add_file(c, settings_files[i]);
}

/* -- writing -- */

void write_chat_files(trainer *t, const chat_files *c)
{
    for (int i = 0; i < c->count; i++) {
        const th_export_file *file = &c->file[i];
        const char *path = path_in(t->run, file->name);
        if (file->bytes)
            require_ok(t, th_file_write(t->ctx, path, file->bytes, file->count));
        else if (unlink(path) != 0 && errno != ENOENT)
            give_up_file(path, "removed");
    }
    write_tool_template(t, t->run, c);
}

void write_tool_template(trainer *t, const char *folder, const chat_files *c)
{
    const char *subfolder = path_in(folder, tool_folder);
    if (c->tool_template.count > 0 && mkdir(subfolder, 0777) != 0 && errno != EEXIST)
        give_up_file(subfolder, "created");
    const char *path = path_in(folder, tool_file);
    if (c->tool_template.count > 0)
        require_ok(t, th_file_write(t->ctx, path, c->tool_template.bytes, c->tool_template.count));
    else if (unlink(path) != 0 && errno != ENOENT)
        give_up_file(path, "removed");
}

void free_chat_files(chat_files *c)
{
    for (int i = 0; i < CHAT_FILES; i++)
        th_text_free(&c->text[i]);
    th_text_free(&c->tool_template);
}
