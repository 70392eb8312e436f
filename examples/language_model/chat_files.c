/* The files of a model folder that tell how to chat with the model. A run that tunes the model keeps copies, and export
 * copies them again, so neither needs the first folder. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "checkpoints.h"
#include "tuning.h"

static const char template_file[] = "chat_template.jinja";
/* The texts of tokens, and the tokens that end an answer. */
static const char *const settings_files[] = {"tokenizer_config.json", "special_tokens_map.json",
                                             "generation_config.json"};

/* Writes what the kind plain writes. scripts/interop/chat_templates.py has the same text. */
static const char plain_template[] =
    "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}"
    "{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n\\n' }}"
    "{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] }}{{ eos_token }}"
    "{% if not loop.last %}{{ '\\n\\n' }}{% endif %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

const char *chat_folder(const trainer *t)
{
    return t->run ? t->run : chosen.from;
}

/* Writes a file of the folder. Ends the program on an error. */
static void write_bytes(const char *folder, const char *name, const char *bytes, size_t count)
{
    const char *path = in_run(folder, name);
    FILE *file = fopen(path, "w");
    const bool written = file && fwrite(bytes, 1, count, file) == count;
    if (file == NULL || fclose(file) != 0 || !written) {
        const int error = errno;
        if (file)
            unlink(path); /* a part of a file would be worse than none */
        errno = error;
        give_up_file(path, "written");
    }
}

/* Copies a file, if it is there. Returns whether it is. */
static bool copy_file(const char *from, const char *to, const char *name)
{
    char buffer[1 << 16];
    FILE *file = fopen(in_run(from, name), "r");
    if (file == NULL && errno != ENOENT)
        give_up_file(in_run(from, name), "read");
    if (file == NULL)
        return false;
    char *bytes = NULL;
    size_t count = 0, n = 0;
    while ((n = fread(buffer, 1, sizeof buffer, file)) > 0) {
        char *more = realloc(bytes, count + n);
        if (more == NULL)
            give_up(PROGRAM, "out of memory");
        bytes = more;
        memcpy(bytes + count, buffer, n);
        count += n;
    }
    if (ferror(file))
        give_up_file(in_run(from, name), "read");
    fclose(file);
    write_bytes(to, name, bytes ? bytes : "", count);
    free(bytes);
    return true;
}

/* Removes an old template if the text is empty. */
static void write_template(const char *folder, const th_text *jinja)
{
    if (jinja->count > 0)
        write_bytes(folder, template_file, jinja->bytes, jinja->count);
    else
        unlink(in_run(folder, template_file));
}

/* Writes the chat template of one folder to another. */
static void copy_template(trainer *t, const char *from, const char *to)
{
    th_text jinja = {0};
    expect(t, th_chat_template_text(t->ctx, from, &jinja));
    write_template(to, &jinja);
    th_text_free(&jinja);
}

/* Returns the token that the tokenizer puts before a text; -1 if it puts none. */
static int64_t first_token(trainer *t)
{
    th_token_list tokens = {0};
    expect(t, th_tokenizer_encode_document(t->tokenizer, "", 0, &tokens));
    const bool begins = tokens.count > 1 || (tokens.count == 1 && tokens.token[0] != chosen.end_token);
    const int64_t first = begins ? tokens.token[0] : -1;
    th_token_list_free(&tokens);
    return first;
}

static bool add_token(trainer *t, json_t *config, const char *name, int64_t token)
{
    size_t bytes = 0;
    const char *text = token >= 0 ? th_tokenizer_bytes(t->tokenizer, token, &bytes) : NULL;
    return text == NULL || json_object_set_new(config, name, json_stringn(text, bytes)) == 0;
}

void write_chat(trainer *t, const char *folder, const th_text *jinja)
{
    const char *name = settings_files[0];
    json_t *config = json_load_file(in_run(folder, name), 0, NULL);
    char *text = NULL;
    if (config && add_token(t, config, "bos_token", first_token(t)) &&
        add_token(t, config, "eos_token", chosen.end_token))
        text = json_dumps(config, JSON_INDENT(2));
    if (text == NULL)
        give_up(PROGRAM, "out of memory");
    write_bytes(folder, name, text, strlen(text));
    free(text);
    json_decref(config);
    write_template(folder, jinja);
}

static void copy_settings(const char *from, const char *to)
{
    for (size_t i = 0; i < sizeof settings_files / sizeof *settings_files; i++)
        if (!copy_file(from, to, settings_files[i]) && i > 0) /* th_tokenizer_save has written the first one */
            unlink(in_run(to, settings_files[i]));
}

/* Returns whether the base's template is another kind than --chat. An unknown template may be of that kind. */
static bool contradicts(trainer *t)
{
    const th_chat_template *base = th_chat_template_load(t->ctx, chosen.from);
    const bool other = base && chosen.chat && strcmp(th_chat_template_kind(base), chosen.chat) != 0;
    if (other)
        fprintf(stderr, PROGRAM ": the chat template in %s is of the kind %s; the run keeps %s, and no template\n",
                chosen.from, th_chat_template_kind(base), chosen.chat);
    th_error_clear(t->ctx);
    return other;
}

void keep_chat(trainer *t, bool instructions)
{
    th_text jinja = {0};
    if (chosen.from == NULL || strcmp(chosen.tokenizer, chosen.from) != 0) {
        unlink(in_run(t->run, template_file));
        return;
    }
    copy_settings(chosen.from, t->run);
    expect(t, th_chat_template_text(t->ctx, chosen.from, &jinja));
    if (instructions && chosen.chat == NULL && jinja.count == 0)
        chosen.chat = "plain";
    th_text_free(&jinja);
    if (chosen.chat && strcmp(chosen.chat, "plain") == 0)
        write_bytes(t->run, template_file, plain_template, sizeof plain_template - 1);
    else if (contradicts(t))
        unlink(in_run(t->run, template_file));
    else
        copy_template(t, chosen.from, t->run);
}

void export_chat(trainer *t, const char *folder)
{
    if (chosen.from && strcmp(chosen.tokenizer, chosen.from) == 0)
        copy_settings(t->run, folder);
    copy_template(t, t->run, folder);
}
