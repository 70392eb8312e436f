/* Templates of models that think before they answer: Qwen 3 and SmolLM 3. */
#include <stdlib.h>
#include <string.h>

#include "models/chat/writer.h"
#include "models/core/context.h"

/* -- Qwen 3 -- */

static th_chat_string trim_newlines(th_chat_string p)
{
    for (; p.count > 0 && *p.at == '\n'; p.count--)
        p.at++;
    while (p.count > 0 && p.at[p.count - 1] == '\n')
        p.count--;
    return p;
}

/* Divides an answer into its thoughts and the rest, as Qwen 3's template does. */
static void split_thoughts(th_chat_string content, th_chat_string *thoughts, th_chat_string *rest)
{
    static const char open[] = "<think>", close[] = "</think>";
    const size_t open_bytes = sizeof open - 1, close_bytes = sizeof close - 1;
    const char *first = NULL, *last = NULL, *end = content.at + content.count;
    for (const char *p = content.at; (p = strstr(p, close)) != NULL && p < end; p += close_bytes) {
        first = first ? first : p;
        last = p;
    }
    *thoughts = (th_chat_string){content.at, 0};
    *rest = content;
    if (first == NULL)
        return;
    *thoughts = (th_chat_string){content.at, (size_t)(first - content.at)};
    for (const char *p = content.at; (p = strstr(p, open)) != NULL && p < first; p += open_bytes)
        *thoughts = (th_chat_string){p + open_bytes, (size_t)(first - p) - open_bytes};
    *rest = (th_chat_string){last + close_bytes, (size_t)(end - last) - close_bytes};
    *thoughts = trim_newlines(*thoughts);
}

static th_chat_string skip_newlines(th_chat_string p)
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
        const bool is_tool_result = strncmp(m->content, open, sizeof open - 1) == 0 && n >= sizeof close - 1 &&
                                    strcmp(m->content + n - (sizeof close - 1), close) == 0;
        if (strcmp(m->role, "user") == 0 && !is_tool_result)
            return i - 1;
    }
    return count - 1;
}

void th_chat_put_thoughts(th_chat_writer *w, const th_chat_message *messages, size_t count, size_t i)
{
    th_chat_string thoughts, rest;
    const th_chat_string content = th_chat_content(w, &messages[i]);
    split_thoughts(content, &thoughts, &rest);
    const bool has_thoughts = thoughts.count > 0, last = i + 1 == count;
    if (w->all_thoughts || (i > last_question(messages, count) && (last || has_thoughts))) {
        th_chat_put_template_text(w, "<think>\n");
        th_chat_put_string(w, thoughts);
        th_chat_put_template_text(w, "\n</think>\n\n");
        th_chat_put_string(w, skip_newlines(rest));
    } else
        th_chat_put_string(w, rest.at == content.at ? rest : skip_newlines(rest));
}

/* -- SmolLM 3 -- */

/* Removes every copy of a word from a text. */
static void remove_word(char *text, const char *word)
{
    const size_t count = strlen(word);
    char *to = text;
    for (const char *at = text; *at;)
        if (strncmp(at, word, count) == 0)
            at += count;
        else
            *to++ = *at++;
    *to = 0;
}

/* Removes white space at the end, as Python's str.rstrip. */
static void trim_end(char *text)
{
    const th_chat_string kept = th_chat_trim((th_chat_string){text, strlen(text)});
    text[kept.count == 0 ? 0 : kept.at - text + (ptrdiff_t)kept.count] = 0;
}

/* Returns whether the model thinks, which the system message can forbid with /no_think. */
static bool allows_thinking(const char *system)
{
    return system == NULL || strstr(system, "/no_think") == NULL;
}

char *th_chat_smollm_system_text(th_context *ctx, const char *jinja)
{
    static const char branch[] = "elif reasoning_mode == \"/think\"", open[] = "{{- \"", close[] = "\\n\\n\" -}}";
    const char *at = strstr(jinja, branch), *begin = at ? strstr(at, open) : NULL;
    const char *end = begin ? strstr(begin, close) : NULL;
    const size_t count = end ? (size_t)(end - begin) - (sizeof open - 1) : 0;
    char *thinking = end ? th_allocate(ctx, count + 1) : NULL;
    if (thinking) {
        memcpy(thinking, begin + sizeof open - 1, count);
        thinking[count] = 0;
    }
    return thinking;
}

static void put_metadata(th_chat_writer *w, bool think, const char *instructions)
{
    th_chat_put_template_text(w, "## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: ");
    th_chat_put_today(w, true);
    th_chat_put_template_text(w, think ? "\nReasoning Mode: /think\n\n" : "\nReasoning Mode: /no_think\n\n");
    th_chat_put_template_text(w, "## Custom Instructions\n\n");
    if (instructions[0]) {
        th_chat_put_string(w, (th_chat_string){instructions, strlen(instructions)});
        th_chat_put_template_text(w, "\n\n");
        return;
    }
    th_chat_put_template_text(w, think ? w->chat->thinking : w->kind->default_system);
    th_chat_put_template_text(w, "\n\n");
}

bool th_chat_can_write_smollm(const th_chat_writer *w, const char *system)
{
    if (w->chat->thinking || !allows_thinking(system))
        return true;
    for (const char *at = system ? system : ""; *at;)
        if (strncmp(at, "/think", 6) == 0)
            at += 6;
        else {
            const th_chat_string rest = th_chat_trim((th_chat_string){at, 1});
            if (rest.count > 0)
                return true;
            at++;
        }
    return false;
}

void th_chat_put_smollm_system(th_chat_writer *w, const char *system)
{
    char *custom = strdup(system ? system : "");
    if (custom == NULL) {
        w->failed = true;
        return;
    }
    remove_word(custom, "/no_think");
    remove_word(custom, "/think");
    trim_end(custom);
    th_chat_put_template_text(w, "<|im_start|>system\n");
    if (system && strstr(system, "/system_override")) {
        remove_word(custom, "/system_override");
        trim_end(custom);
        th_chat_put_string(w, (th_chat_string){custom, strlen(custom)});
        th_chat_put_template_text(w, "<|im_end|>\n");
    } else
        put_metadata(w, allows_thinking(system), custom); /* without an end, as in the template */
    free(custom);
}

void th_chat_put_smollm_answer(th_chat_writer *w, const char *system, const char *content)
{
    if (!allows_thinking(system))
        th_chat_put_template_text(w, "<think>\n\n</think>\n");
    if (content)
        th_chat_put_string(w, skip_newlines((th_chat_string){content, strlen(content)}));
}
