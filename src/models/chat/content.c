/* Checks the messages of JSON, and joins contents that consist of parts. */
#include <stdio.h>
#include <string.h>

#include "models/chat/chat.h"

/* Whether a value has content. Datasets with columns write null, or an empty list, if an example does not have it. */
static bool is_used(const json_t *value)
{
    return value && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0);
}

/* Returns the text of a part of a content, such as {"type": "text", "text": "a text"}; NULL: it has another type. */
static const char *text_of_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    if (type == NULL || strcmp(type, "text") != 0)
        return json_string_value(part);
    return json_string_value(text ? text : json_object_get(part, "value"));
}

/* Replaces the content of a message, if it is an array of texts, with the texts one after the other. place: the message,
 * for the problem. */
static bool join_parts(json_t *message, const char *place, char problem[TH_PROBLEM])
{
    const json_t *parts = json_object_get(message, "content"), *part;
    th_text text = {0};
    size_t at;
    bool complete = true;
    if (!json_is_array(parts))
        return true;
    json_array_foreach (parts, at, part) {
        const char *words = text_of_part(part);
        if (words == NULL)
            snprintf(problem, TH_PROBLEM,
                     "part %zu of %s is not a text: it must be like {\"type\": \"text\", \"text\": \"a text\"}", at + 1,
                     place);
        complete = complete && words && th_jinja_append(&text, words, strlen(words));
    }
    complete = complete &&
               json_object_set_new(message, "content", json_stringn(text.bytes ? text.bytes : "", text.count)) == 0;
    th_text_free(&text);
    return complete;
}

/* Whether each call has a function with a name and arguments. */
static bool are_calls(const json_t *calls)
{
    const json_t *call;
    size_t i;
    json_array_foreach (calls, i, call) {
        const json_t *function = json_object_get(call, "function");
        function = function ? function : call;
        if (!json_is_string(json_object_get(function, "name")) || json_object_get(function, "arguments") == NULL)
            return false;
    }
    return json_is_array(calls);
}

/* Checks a message for a kind of the table, whose programs know texts and calls only. The role "developer" is OpenAI's
 * newer name of "system". */
static bool check_message(json_t *message, const char *place, char problem[TH_PROBLEM])
{
    char fields[TH_FIELDS];
    const char *role = json_string_value(json_object_get(message, "role"));
    if (role && strcmp(role, "developer") == 0 && json_object_set_new(message, "role", json_string("system")) != 0)
        return false;
    if (!join_parts(message, place, problem))
        return false;
    const json_t *content = json_object_get(message, "content"), *calls = json_object_get(message, "tool_calls");
    const bool calling = is_used(calls), empty = calling && !is_used(content);
    if (json_is_string(json_object_get(message, "role")) && (json_is_string(content) || empty) &&
        (!calling || are_calls(calls)))
        return true;
    if (calling && (json_is_string(content) || empty)) {
        snprintf(problem, TH_PROBLEM,
                 "the \"tool_calls\" of %s must be like [{\"function\": {\"name\": \"a text\", \"arguments\": {}}}]",
                 place);
        return false;
    }
    if (json_is_object(message))
        th_example_list_fields(message, fields);
    snprintf(problem, TH_PROBLEM, "%s must be like {\"role\": \"user\", \"content\": \"a text\"}; it %s %s", place,
             json_is_object(message) ? "has" : "is", json_is_object(message) ? fields : th_example_kind_name(message));
    return false;
}

bool th_chat_prepare(const th_chat_template *chat, json_t *messages, const char *name, char problem[TH_PROBLEM])
{
    const bool of_table = strcmp(chat->kind, th_chat_jinja) != 0;
    char place[TH_QUOTED + 60];
    json_t *message;
    size_t i;
    problem[0] = 0;
    if (json_array_size(messages) == 0) {
        snprintf(problem, TH_PROBLEM, "\"%s\" must be an array of messages, and not empty; it is %s", name,
                 json_is_array(messages) ? "empty"
                 : messages              ? th_example_kind_name(messages)
                                         : "missing");
        return false;
    }
    json_array_foreach (messages, i, message) {
        snprintf(place, sizeof place, "message %zu of \"%s\"", i + 1, name);
        if (of_table && !check_message(message, place, problem))
            return false;
        if (!of_table && !json_is_string(json_object_get(message, "role"))) {
            snprintf(problem, TH_PROBLEM, "%s has no \"role\"", place);
            return false;
        }
    }
    return true;
}
