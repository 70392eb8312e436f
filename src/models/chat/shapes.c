/* The fields of examples: see examples.h. A table says which fields are a question and its answer, so a further format
 * is a line of it. */
#include <string.h>
#include <strings.h>

#include "models/chat/examples.h"
#include "models/files/json.h"

static const char operation[] = "instructions";
enum { MOST_NAMES = 4 };

/* An example with a question and an answer in two fields. */
typedef struct pair_shape {
    const char *question;
    const char *more[MOST_NAMES]; /* a text that follows the question in the same message */
    const char *answer[MOST_NAMES + 1];
} pair_shape;

static const pair_shape pairs[] = {
    {"instruction", {"input", "context"}, {"output", "response", "answer", "completion"}}, /* Alpaca, Dolly */
    {"question", {"context", "input"}, {"answer", "response", "output"}},
    {"query", {"context", "input"}, {"response", "answer", "output"}},
    {"prompt", {"input", "context"}, {"response", "answer", "output"}},
    {"problem", {NULL}, {"solution", "answer"}},
    {"input", {NULL}, {"output", "response"}},
    {"user", {NULL}, {"assistant"}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* Fields with an array of messages, and with a text for the system. */
static const char *const lists[] = {"messages", "conversations", "conversation", NULL};
static const char *const systems[] = {"system", "system_prompt", NULL};

/* Names of roles in ShareGPT and similar data. */
static const struct {
    const char *name, *role;
} roles[] = {{"human", "user"},      {"gpt", "assistant"}, {"chatgpt", "assistant"},       {"bot", "assistant"},
             {"model", "assistant"}, {"ai", "assistant"},  {"function_call", "assistant"}, {"observation", "tool"}};

const char *th_example_field(size_t i)
{
    static const char *const names[] = {"messages", "prompt", "completion", "text", "conversations", "conversation"};
    enum { NAMES = sizeof names / sizeof *names };
    if (i < NAMES)
        return names[i];
    i -= NAMES;
    return i < PAIRS ? pairs[i].question : i < 2 * PAIRS ? pairs[i - PAIRS].answer[0] : NULL;
}

/* -- values -- */

const char *th_example_kind_name(const json_t *value)
{
    static const char *const kinds[] = {"an object", "an array", "a text", "a number",
                                        "a number",  "true",     "false",  "null"};
    return kinds[json_typeof(value)];
}

void th_example_list_fields(const json_t *object, char list[TH_FIELDS])
{
    enum { MOST = 6 };
    char quoted[TH_QUOTED];
    const size_t count = json_object_size(object);
    size_t i = 0;
    list[0] = 0;
    for (void *field = json_object_iter((json_t *)(uintptr_t)object); field && i < MOST; i++) {
        th_append(list, TH_FIELDS, "%s\"%s\" (%s)",
                  i == 0          ? ""
                  : i + 1 < count ? ", "
                                  : " and ",
                  th_quote(json_object_iter_key(field), quoted), th_example_kind_name(json_object_iter_value(field)));
        field = json_object_iter_next((json_t *)(uintptr_t)object, field);
    }
    if (count > MOST)
        th_append(list, TH_FIELDS, " and %zu more", count - MOST);
    else if (count == 0)
        th_append(list, TH_FIELDS, "no fields");
}

/* Returns a member whatever the case of its name is; NULL for none, and for null. */
static json_t *find(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    const char *key;
    json_t *each;
    if (value == NULL)
        json_object_foreach ((json_t *)(uintptr_t)object, key, each)
            if (strcasecmp(key, name) == 0)
                value = each;
    return json_is_null(value) ? NULL : value;
}

/* Returns the first member of these names, or NULL. */
static json_t *find_any(const json_t *object, const char *const *names)
{
    json_t *value = NULL;
    for (; *names && value == NULL; names++)
        value = find(object, *names);
    return value;
}

/* Returns the text of the first member of these names; NULL: none, or it is empty. */
static const char *find_text(const json_t *object, const char *const *names)
{
    const char *text = json_string_value(find_any(object, names));
    return text && *text ? text : NULL;
}

/* -- building -- */

/* Returns {"role": role, "content": content}; content becomes its property. NULL if memory runs out. */
static json_t *message_of(const char *role, json_t *content)
{
    json_t *message = content ? json_object() : NULL;
    if (message && th_json_add(message, "role", json_string(role)) &&
        json_object_set(message, "content", content) == 0) {
        json_decref(content);
        return message;
    }
    json_decref(message);
    json_decref(content);
    return NULL;
}

/* Returns an object with this member, which becomes its property. NULL if memory runs out. */
static json_t *object_of(const char *name, json_t *value)
{
    json_t *object = value ? json_object() : NULL;
    if (object == NULL)
        json_decref(value);
    if (object && th_json_add(object, name, value))
        return object;
    json_decref(object);
    return NULL;
}

/* Returns a new object with the same members. NULL if memory runs out. (json_copy then loses members silently.) */
static json_t *copy_object(const json_t *object)
{
    json_t *copy = json_object();
    if (copy && json_object_update(copy, (json_t *)(uintptr_t)object) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

static bool append(json_t *messages, const char *role, json_t *content)
{
    return json_array_append_new(messages, message_of(role, content)) == 0;
}

/* Returns two texts with a line break between them, or the first alone. */
static json_t *join(const char *first, const char *second)
{
    return second ? json_sprintf("%s\n%s", first, second) : json_string(first);
}

/* Returns the value of a text of JSON; NULL if it is another text, or with an error pending if memory runs out. */
static json_t *parse(th_context *ctx, const char *text)
{
    const th_json_source source = {ctx, operation, "a field"};
    const th_json_limits limits = {.bytes = TH_MAX_EXAMPLE, .depth = TH_EXAMPLE_DEPTH};
    json_t *value = th_json_read(&source, text, strlen(text), &limits);
    if (th_error_code(ctx) == TH_ERROR_FILE)
        th_error_clear(ctx);
    return value;
}

/* Appends {"type": "function", "function": value}, or the value itself if it has a function. Returns false if memory runs
 * out. */
static bool append_function(json_t *list, json_t *value)
{
    if (json_object_get(value, "function"))
        return json_array_append(list, value) == 0;
    json_t *function = object_of("function", json_incref(value));
    const bool complete = function && th_json_add(function, "type", json_string("function"));
    return json_array_append_new(list, function) == 0 && complete;
}

/* Returns the functions of a text, or calls of functions, as OpenAI's API has them. The text is an object, or an array.
 * NULL as for parse. */
static json_t *parse_functions(th_context *ctx, const char *text)
{
    json_t *value = parse(ctx, text), *list = value ? json_array() : NULL, *each;
    bool complete = list != NULL;
    size_t i;
    if (json_is_object(value))
        complete = complete && append_function(list, value);
    json_array_foreach (value, i, each)
        complete = complete && append_function(list, each);
    if (value && !complete)
        th_fail_memory(ctx, operation, strlen(text));
    const bool usable = complete && (json_is_object(value) || json_is_array(value));
    json_decref(value);
    if (usable)
        return list;
    json_decref(list);
    return NULL;
}

/* Returns a new reference to an array that is not empty, or is the text of one in JSON, as tables have it. NULL as for
 * parse. */
static json_t *list_of(th_context *ctx, json_t *value)
{
    json_t *list = json_is_string(value) ? parse(ctx, json_string_value(value)) : json_incref(value);
    if (json_is_array(list) && json_array_size(list) > 0)
        return list;
    json_decref(list);
    return NULL;
}

/* -- messages -- */

static bool is_message(const json_t *value)
{
    return json_is_string(json_object_get(value, "role")) || json_is_string(json_object_get(value, "from"));
}

/* Returns the role of that name. */
static const char *plain_role(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].name, name) == 0)
            return roles[i].role;
    return name;
}

/* Returns a message of ShareGPT, such as {"from": "human", "value": "a text"}, with a role and a content. Other members
 * stay. NULL if memory runs out. */
static json_t *plain_message(th_context *ctx, const json_t *message)
{
    const json_t *role = json_object_get(message, "role");
    const char *name = json_string_value(role ? role : json_object_get(message, "from"));
    json_t *content = json_object_get(message, "content"), *plain = copy_object(message);
    content = content ? content : json_object_get(message, "value");
    const char *text = json_string_value(content);
    json_t *calls = text && strcmp(name, "function_call") == 0 ? parse_functions(ctx, text) : NULL;
    bool complete = plain && th_json_add(plain, "role", json_string(plain_role(name)));
    if (complete && calls)
        complete = th_json_add(plain, "content", json_string("")) && json_object_set(plain, "tool_calls", calls) == 0;
    else if (complete && content)
        complete = json_object_set(plain, "content", content) == 0;
    json_object_del(plain, "from");
    json_object_del(plain, "value");
    json_decref(calls);
    if (complete)
        return plain;
    json_decref(plain);
    return NULL;
}

static bool is_system(const json_t *message)
{
    return strcmp(json_string_value(json_object_get(message, "role")), "system") == 0;
}

/* Returns an example with the messages of an array. NULL as for th_example_read. */
static json_t *read_messages(th_context *ctx, const json_t *object, const char *name, const json_t *array,
                             char problem[TH_PROBLEM])
{
    const char *system = find_text(object, systems);
    json_t *messages = json_array(), *each;
    bool complete = messages != NULL;
    size_t i;
    json_array_foreach (array, i, each) {
        if (!is_message(each)) {
            th_append(problem, TH_PROBLEM,
                      "message %zu of \"%s\" must be like {\"from\": \"human\", \"value\": \"a text\"} or "
                      "{\"role\": \"user\", \"content\": \"a text\"}",
                      i + 1, name);
            json_decref(messages);
            return NULL;
        }
        json_t *plain = complete ? plain_message(ctx, each) : NULL;
        if (plain && i == 0 && system && !is_system(plain))
            complete = append(messages, "system", json_string(system));
        complete = json_array_append_new(messages, plain) == 0 && complete;
    }
    if (complete)
        return object_of("messages", messages);
    json_decref(messages);
    return NULL;
}

/* -- questions and answers -- */

typedef struct pair {
    const char *question, *more, *answer;
} pair;

/* Returns the shape whose fields the object has, and the fields; NULL: none. */
static const pair_shape *find_pair(const json_t *object, pair *fields)
{
    for (size_t i = 0; i < PAIRS; i++) {
        const json_t *question = find(object, pairs[i].question), *answer = find_any(object, pairs[i].answer);
        if (json_is_string(question) && json_is_string(answer)) {
            *fields = (pair){json_string_value(question), find_text(object, pairs[i].more), json_string_value(answer)};
            return &pairs[i];
        }
    }
    return NULL;
}

/* Whether a value is [["question", "answer"], ...]. */
static bool is_history(const json_t *value)
{
    const json_t *turn;
    size_t i;
    json_array_foreach (value, i, turn)
        if (!json_is_string(json_array_get(turn, 0)) || !json_is_string(json_array_get(turn, 1)))
            return false;
    return json_is_array(value);
}

/* Appends the earlier questions and answers. Returns false if memory runs out. */
static bool append_history(json_t *messages, const json_t *history)
{
    const json_t *turn;
    size_t i;
    json_array_foreach (history, i, turn)
        if (!append(messages, "user", json_incref(json_array_get(turn, 0))) ||
            !append(messages, "assistant", json_incref(json_array_get(turn, 1))))
            return false;
    return true;
}

/* Returns an example with the messages of a question and its answer. NULL as for th_example_read. */
static json_t *read_pair(const json_t *object, const pair *fields, char problem[TH_PROBLEM])
{
    const char *system = find_text(object, systems);
    const json_t *history = find(object, "history");
    if (history && !is_history(history)) {
        th_append(problem, TH_PROBLEM, "its \"history\" must be like [[\"a question\", \"its answer\"]]");
        return NULL;
    }
    if (*fields->answer == 0 || (*fields->question == 0 && fields->more == NULL)) {
        th_append(problem, TH_PROBLEM, "its %s is empty", *fields->answer == 0 ? "answer" : "question");
        return NULL;
    }
    json_t *messages = json_array();
    const bool first = *fields->question != 0;
    if (messages && (system == NULL || append(messages, "system", json_string(system))) &&
        append_history(messages, history) &&
        append(messages, "user", first ? join(fields->question, fields->more) : json_string(fields->more)) &&
        append(messages, "assistant", json_string(fields->answer)))
        return object_of("messages", messages);
    json_decref(messages);
    return NULL;
}

/* -- the nearest format -- */

/* Returns the first two fields with texts. */
static int find_two_texts(const json_t *object, const char *names[2])
{
    const char *key;
    json_t *value;
    int count = 0;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        if (json_is_string(value) && count < 2)
            names[count++] = key;
    return count;
}

/* Returns the first field with an array of objects; NULL: none. */
static const char *find_objects(const json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        if (json_is_object(json_array_get(value, 0)))
            return key;
    return NULL;
}

/* Writes the format of a question and its answer, and what the object's fields lack. */
static void describe_pair(const json_t *object, const char *question, const char *const *answers, char *problem)
{
    const bool asked = json_is_string(find(object, question));
    const char *answer = answers[0];
    for (; *answers; answers++)
        answer = find(object, *answers) ? *answers : answer;
    const char *wrong = asked ? answer : question;
    th_append(problem, TH_PROBLEM, "the nearest format is {\"%s\": \"a text\", \"%s\": \"a text\"}, and \"%s\" %s",
              question, answer, wrong, find(object, wrong) ? "must be a text" : "is missing");
}

/* Writes what is wrong with an object without known fields, and the format that is nearest to it. */
static void describe_nearest(const json_t *object, char problem[TH_PROBLEM])
{
    static const char *const completion[] = {"completion", NULL};
    char list[TH_FIELDS], quoted[2][TH_QUOTED];
    const char *names[2];
    th_example_list_fields(object, list);
    th_append(problem, TH_PROBLEM, "it has %s; ", list);
    if (find(object, "completion")) {
        describe_pair(object, "prompt", completion, problem);
        return;
    }
    for (int answered = 0; answered < 2; answered++)
        for (size_t i = 0; i < PAIRS; i++)
            if (answered ? find_any(object, pairs[i].answer) : find(object, pairs[i].question)) {
                describe_pair(object, pairs[i].question, pairs[i].answer, problem);
                return;
            }
    const char *inner = find_objects(object);
    if (inner)
        th_append(problem, TH_PROBLEM,
                  "if the objects in \"%s\" are the examples, write this array alone into the file",
                  th_quote(inner, quoted[0]));
    else if (!is_message(object) && find_two_texts(object, names) == 2)
        th_append(problem, TH_PROBLEM,
                  "the nearest format is {\"question\": \"a text\", \"answer\": \"a text\"}: rename \"%s\" to "
                  "\"question\" and \"%s\" to "
                  "\"answer\", if this is what they are",
                  th_quote(names[0], quoted[0]), th_quote(names[1], quoted[1]));
    else
        th_append(problem, TH_PROBLEM,
                  "the nearest format is {\"messages\": [{\"role\": \"user\", \"content\": \"a text\"}, {\"role\": "
                  "\"assistant\", \"content\": \"a text\"}]}");
}

/* -- all -- */

/* Whether the object has a form already. Other fields do not matter then. */
static bool has_form(const json_t *object)
{
    const json_t *messages = json_object_get(object, "messages"), *prompt = json_object_get(object, "prompt");
    const json_t *completion = json_object_get(object, "completion");
    if (messages && !json_is_null(messages))
        return !json_is_string(messages) && (json_object_get(json_array_get(messages, 0), "from") == NULL ||
                                             json_object_get(json_array_get(messages, 0), "role") != NULL);
    return (json_is_array(prompt) && json_is_array(completion)) ||
           (json_is_string(prompt) && json_is_string(completion)) || json_is_string(json_object_get(object, "text"));
}

bool th_example_has_columns(const json_t *object)
{
    pair fields;
    return has_form(object) || find_any(object, lists) || find_pair(object, &fields);
}

/* Returns an object with a form. NULL as for th_example_read. */
static json_t *read_form(th_context *ctx, json_t *object, char problem[TH_PROBLEM])
{
    pair fields;
    if (has_form(object))
        return json_incref(object);
    if (find(object, "chosen") && find(object, "rejected")) {
        th_append(problem, TH_PROBLEM,
                  "it compares two answers, \"chosen\" and \"rejected\"; write the messages and the chosen answer as "
                  "\"messages\"");
        return NULL;
    }
    for (size_t i = 0; lists[i] && th_error_code(ctx) == TH_OK; i++) {
        json_t *list = list_of(ctx, find(object, lists[i]));
        json_t *example = list ? read_messages(ctx, object, lists[i], list, problem) : NULL;
        json_decref(list);
        if (list)
            return example;
    }
    if (th_error_code(ctx) != TH_OK)
        return NULL;
    if (find_pair(object, &fields))
        return read_pair(object, &fields, problem);
    describe_nearest(object, problem);
    return NULL;
}

/* Returns a copy of the example whose "tools", a text, are an array; the example itself if the text is not JSON. Takes
 * ownership of the example. NULL if memory runs out. */
static json_t *with_tools(th_context *ctx, json_t *example, const char *text)
{
    json_t *tools = *text ? parse_functions(ctx, text) : json_array();
    if (tools == NULL)
        return example;
    json_t *copy = copy_object(example);
    json_decref(example);
    const bool complete = copy && json_object_set(copy, "tools", tools) == 0;
    json_decref(tools);
    if (complete)
        return copy;
    json_decref(copy);
    return NULL;
}

json_t *th_example_read(th_context *ctx, json_t *object, char problem[TH_PROBLEM])
{
    problem[0] = 0;
    json_t *example = read_form(ctx, object, problem), *tools = json_object_get(object, "tools");
    bool complete = example != NULL;
    json_t *variables = json_object_get(object, "chat_template_kwargs");
    if (complete && tools && example != object)
        complete = json_object_set(example, "tools", tools) == 0;
    if (complete && variables && example != object)
        complete = json_object_set(example, "chat_template_kwargs", variables) == 0;
    if (complete && json_is_string(tools))
        example = with_tools(ctx, example, json_string_value(tools));
    if (complete && example && th_error_code(ctx) == TH_OK)
        return example;
    json_decref(example);
    if (problem[0] == 0)
        th_fail_memory(ctx, operation, TH_PROBLEM);
    return NULL;
}
