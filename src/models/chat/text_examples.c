/* Reads examples for encoders: see tapehead/text_examples.h. The records are those of models/chat/examples.h. */
#include "models/chat/text_examples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "models/chat/examples.h"
#include "models/core/context.h"
#include "models/files/json.h"
#include "models/text/grow.h"

static const char operation[] = "text_examples";

enum { TEXTS = 3 };

/* -- names -- */

static const char *const text_names[TEXTS][16] = {
    {"anchor", "query", "question", "question1", "sentence1", "text1", "text_a", "premise", "sentence", "text",
     "utterance", "review", "content", "title"},
    {"positive", "answer", "response", "question2", "sentence2", "text2", "text_b", "hypothesis"},
    {"negative", "hard_negative"},
};
static const char *const word_names[] = {"tokens", "words", NULL};
static const char *const label_names[][12] = {
    [TH_EXAMPLES_TEXTS] = {"score", "similarity_score", "similarity", "is_duplicate"},
    [TH_EXAMPLES_LABELS] = {"label", "labels", "class", "category", "intent", "sentiment", "topic", "emotion", "target",
                            "is_duplicate"},
    [TH_EXAMPLES_SCORES] = {"score", "similarity_score", "similarity", "label", "value", "rating", "stars", "target"},
    [TH_EXAMPLES_WORDS] = {"ner_tags", "tags", "labels", "pos_tags"},
    [TH_EXAMPLES_ANSWERS] = {"answers", "answer", "answer_text"},
};
static const char *const question_names[] = {"question", "query", NULL};
static const char *const context_names[] = {"context", "passage", "paragraph", "document", NULL};
static const char *const start_names[] = {"answer_start", NULL};
static const char *const text_roles[TEXTS] = {"text", "second text", "third text"};

/* Returns the member with the name `given`, or else with the first of `names`, whatever its case is. NULL for none, and
 * for null. */
static json_t *find_member(const json_t *object, const char *given, const char *const *names)
{
    const char *const only[] = {given, NULL};
    for (names = given ? only : names; *names; names++) {
        const char *key;
        json_t *value;
        json_object_foreach ((json_t *)(uintptr_t)object, key, value)
            if (strcasecmp(key, *names) == 0 && !json_is_null(value))
                return value;
    }
    return NULL;
}

/* -- the examples so far -- */

static th_status fail_memory(const th_example_collection *c)
{
    return th_fail_memory(c->ctx, operation, c->text.count + c->label.count);
}

static th_status refuse(const th_example_collection *c, const char *problem)
{
    return th_fail(c->ctx, TH_ERROR_VALUE, operation, "%.300s: %s", c->source, problem);
}

/* Returns the first member of an object within the object that has one of the names; NULL: none. *outer: its key. */
static const char *find_inner(const json_t *object, const char *const *names, const char **outer)
{
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, *outer, value)
        for (const char *const *name = names; json_is_object(value) && *name; name++)
            if (json_object_get(value, *name))
                return *name;
    return NULL;
}

/* Returns the member that is an array of arrays or objects: "train" or the first one; NULL: none. */
static const char *find_records(const json_t *object)
{
    const char *key, *found = NULL;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        const json_t *first = json_array_get(value, 0);
        if ((json_is_array(first) || json_is_object(first)) && (found == NULL || strcmp(key, "train") == 0))
            found = key;
    }
    return found;
}

/* Appends how to convert an object that has the wanted member, or whole lists of examples, within it. */
static void append_conversion(const th_example_collection *c, const json_t *object, const char *const *names,
                              char problem[TH_PROBLEM])
{
    char quoted[TH_QUOTED];
    const char *outer, *inner = find_inner(object, names, &outer), *list = find_records(object);
    if (inner)
        th_append(problem, TH_PROBLEM,
                  ". \"%s\" within \"%s\" must be a member of the example itself: jq writes {%s: .%s.%s}", inner,
                  th_quote(outer, quoted), inner, quoted, inner);
    else if (list && c->options->kind == TH_EXAMPLES_ANSWERS && strcmp(list, "data") == 0)
        th_append(problem, TH_PROBLEM,
                  ". This command writes SQuAD's examples into lines: jq -c '.data[].paragraphs[] | .context as $c | "
                  ".qas[] | {question, context: $c, answers}'");
    else if (list)
        th_append(problem, TH_PROBLEM,
                  ". If \"%s\" is the list of the examples, this command writes one in each line: jq -c '.%s[]%s'",
                  th_quote(list, quoted), quoted,
                  json_is_array(json_array_get(json_object_get(object, list), 0)) ? " | {text: .[0], label: .[1]}"
                                                                                  : "");
}

/* Refuses an example without a wanted member. */
static th_status refuse_missing(const th_example_collection *c, const json_t *object, const char *role,
                                const char *given, const char *const *names)
{
    char problem[TH_PROBLEM] = "", fields[TH_FIELDS];
    const char *const *const all = names;
    th_example_list_fields(object, fields);
    th_append(problem, sizeof problem, "it has no %s: its fields are %s. The %s is called ", role, fields, role);
    if (given)
        th_append(problem, sizeof problem, "\"%.100s\"", given);
    for (; !given && *names; names++)
        th_append(problem, sizeof problem, "\"%s\"%s", *names, names[1] == NULL ? "" : names[2] ? ", " : " or ");
    append_conversion(c, object, given ? (const char *const[]){given, NULL} : all, problem);
    return refuse(c, problem);
}

bool th_add_string(th_strings *s, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    if (!TH_GROW(s->bytes, s->capacity, s->count + bytes) || !TH_GROW(s->begin, s->begins, s->n + 1))
        return false;
    memcpy(s->bytes + s->count, text, bytes);
    s->begin[s->n++] = s->count;
    s->count += bytes;
    return true;
}

/* -- one example -- */

static th_status add_text_to(const th_example_collection *c, th_strings *list, const json_t *value, const char *role)
{
    char problem[200];
    if (!json_is_string(value)) {
        snprintf(problem, sizeof problem, "the %s is %s, not a text", role, th_example_kind_name(value));
        return refuse(c, problem);
    }
    if (json_string_length(value) == 0) {
        snprintf(problem, sizeof problem, "the %s is empty", role);
        return refuse(c, problem);
    }
    return th_add_string(list, json_string_value(value)) ? TH_OK : fail_memory(c);
}

static th_status add_text(th_example_collection *c, const json_t *value, const char *role)
{
    return add_text_to(c, &c->text, value, role);
}

/* Adds the texts of an example. Only the first one is needed. */
static th_status add_texts(th_example_collection *c, const json_t *object)
{
    const th_text_example_options *o = c->options;
    const int most = o->kind == TH_EXAMPLES_TEXTS ? TEXTS : 2;
    const size_t begin = c->text.n;
    for (int i = 0; i < most; i++) {
        if (i > 0 && o->text[0] && o->text[i] == NULL)
            break;
        const json_t *value = find_member(object, o->text[i], text_names[i]);
        if (value == NULL && (i == 0 || o->text[i]))
            return refuse_missing(c, object, text_roles[i], o->text[i], text_names[i]);
        if (value == NULL)
            break;
        if (add_text(c, value, text_roles[i]))
            return th_error_code(c->ctx);
    }
    if (c->count == 0)
        c->n_texts = (int64_t)(c->text.n - begin);
    if ((int64_t)(c->text.n - begin) == c->n_texts)
        return TH_OK;
    char problem[120];
    snprintf(problem, sizeof problem, "it has %zu texts, and the first example has %lld", c->text.n - begin,
             (long long)c->n_texts);
    return refuse(c, problem);
}

/* Adds a label: a text, a number or a truth value. */
static th_status add_label(th_example_collection *c, const json_t *value)
{
    char number[64], problem[200];
    const char *name = number;
    if (json_is_string(value))
        name = json_string_value(value);
    else if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        name = json_is_true(value) ? "true" : "false";
    else {
        snprintf(problem, sizeof problem, "a label is %s, not a text or a whole number", th_example_kind_name(value));
        return refuse(c, problem);
    }
    if (name[0] == 0)
        return refuse(c, "the label is empty");
    return th_add_string(&c->label, name) ? TH_OK : fail_memory(c);
}

static th_status add_labels(th_example_collection *c, const json_t *object)
{
    const char *const *names = label_names[c->options->kind];
    json_t *value = find_member(object, c->options->label, names), *element;
    size_t i;
    if (value == NULL)
        return refuse_missing(c, object, "label", c->options->label, names);
    if (!json_is_array(value))
        return add_label(c, value);
    json_array_foreach (value, i, element)
        if (add_label(c, element))
            return th_error_code(c->ctx);
    return TH_OK;
}

/* Sets *score to a number, or to the number that a text spells. */
static bool read_number(const th_example_collection *c, const json_t *value, double *score)
{
    const th_json_source source = {c->ctx, operation, c->source};
    json_t *number = NULL;
    if (json_is_string(value) && json_string_length(value) > 0 && json_string_length(value) < TH_JSON_MAX_NUMBER) {
        number = th_json_build(&source, json_string_value(value), json_string_length(value));
        if (number == NULL)
            th_error_clear(c->ctx);
        value = number;
    }
    *score = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    const bool is_number = json_is_number(value) || json_is_boolean(value);
    json_decref(number);
    return is_number && isfinite(*score);
}

static th_status add_score(th_example_collection *c, const json_t *object)
{
    const th_text_example_options *o = c->options;
    const char *const *names = label_names[o->kind];
    const json_t *value = find_member(object, o->label, names);
    const bool needed = o->kind == TH_EXAMPLES_SCORES || o->label || (c->count > 0 && c->has_score);
    double score = 0;
    if (value == NULL && needed)
        return refuse_missing(c, object, "score", o->label, names);
    if (value && !read_number(c, value, &score))
        return refuse(c, "the score is not a finite number");
    if (c->count == 0)
        c->has_score = value != NULL;
    else if (value && !c->has_score)
        return refuse(c, "it has a score, and the first example has none");
    if (!TH_GROW(c->score, c->scores, c->count + 1))
        return fail_memory(c);
    c->score[c->count] = score;
    return TH_OK;
}

/* Adds an example of words with labels. */
static th_status add_words(th_example_collection *c, const json_t *object)
{
    const json_t *words = find_member(object, c->options->text[0], word_names), *word;
    size_t i;
    if (words == NULL)
        return refuse_missing(c, object, "list of words", c->options->text[0], word_names);
    if (!json_is_array(words) || json_array_size(words) == 0)
        return refuse(c, "the words are not an array with texts");
    json_array_foreach (words, i, word)
        if (add_text(c, word, "word"))
            return th_error_code(c->ctx);
    if (c->options->texts_only)
        return TH_OK;
    const size_t before = c->label.n;
    if (add_labels(c, object))
        return th_error_code(c->ctx);
    return c->label.n - before == json_array_size(words) ? TH_OK : refuse(c, "it has not as many labels as words");
}

/* -- questions with answers -- */

/* Returns the byte where character number `characters` begins; -1 if the text is shorter. */
static int64_t byte_of_character(const char *text, double characters)
{
    double count = -1;
    for (int64_t i = 0; text[i]; i++) {
        count += (text[i] & 0xc0) != 0x80;
        if (count == characters) /* (a character begins here) */
            return i;
    }
    return -1;
}

/* Adds an answer and where it begins. start: a number of characters; NULL: the first place is taken. */
static th_status add_answer(th_example_collection *c, const char *context, const json_t *answer, const json_t *start)
{
    char problem[300], quoted[TH_QUOTED];
    double characters = 0;
    if (answer == NULL)
        return refuse(c, "an answer has no text");
    if (add_text_to(c, &c->label, answer, "answer"))
        return th_error_code(c->ctx);
    const char *text = json_string_value(answer), *found = strstr(context, text);
    if (start && !read_number(c, start, &characters))
        return refuse(c, "the answer_start is not a number");
    const int64_t begin = start ? byte_of_character(context, characters) : found ? found - context : -1;
    if (begin < 0 || strncmp(context + begin, text, strlen(text)) != 0) {
        snprintf(problem, sizeof problem, "the answer \"%s\" is not %s of the text", th_quote(text, quoted),
                 start ? "at the character answer_start" : "a part");
        return refuse(c, problem);
    }
    if (!TH_GROW(c->answer_begin, c->answer_begins, c->label.n))
        return fail_memory(c);
    c->answer_begin[c->label.n - 1] = begin;
    return TH_OK;
}

/* Adds answers in each of the forms. */
static th_status add_answers(th_example_collection *c, const json_t *object, const char *context)
{
    const char *const *names = label_names[TH_EXAMPLES_ANSWERS];
    const json_t *value = find_member(object, c->options->label, names);
    if (value == NULL)
        return refuse_missing(c, object, "answer", c->options->label, names);
    const json_t *list = json_is_object(value) ? json_object_get(value, "text") : value,
                 *starts = json_is_object(value)  ? json_object_get(value, "answer_start")
                           : json_is_array(value) ? NULL
                                                  : find_member(object, NULL, start_names);
    const size_t count = json_is_array(list) ? json_array_size(list) : 1;
    if (count == 0)
        return refuse(c, "it has no answer; each question needs one that is a part of its text");
    for (size_t i = 0; i < count; i++) {
        const json_t *answer = json_is_array(list) ? json_array_get(list, i) : list,
                     *start = json_is_array(starts) ? json_array_get(starts, i) : starts;
        if (json_is_object(answer)) {
            start = json_object_get(answer, "answer_start");
            answer = json_object_get(answer, "text");
        }
        if (add_answer(c, context, answer, start))
            return th_error_code(c->ctx);
    }
    return TH_OK;
}

static th_status add_question(th_example_collection *c, const json_t *object)
{
    static const char *const roles[] = {"question", "context"};
    const char *const *const names[] = {question_names, context_names};
    const json_t *value[2];
    for (int i = 0; i < 2; i++) {
        const char *given = c->options->text[0] ? c->options->text[i] : NULL;
        value[i] = find_member(object, given, names[i]);
        if (value[i] == NULL)
            return refuse_missing(c, object, roles[i], given, names[i]);
        if (add_text(c, value[i], roles[i]))
            return th_error_code(c->ctx);
    }
    return c->options->texts_only ? TH_OK : add_answers(c, object, json_string_value(value[1]));
}

static th_status add_example(th_example_collection *c, const json_t *object)
{
    const th_text_example_options *o = c->options;
    th_status status = o->kind == TH_EXAMPLES_WORDS     ? add_words(c, object)
                       : o->kind == TH_EXAMPLES_ANSWERS ? add_question(c, object)
                                                        : add_texts(c, object);
    if (status == TH_OK && !o->texts_only && o->kind == TH_EXAMPLES_LABELS)
        status = add_labels(c, object);
    if (status == TH_OK && !o->texts_only && (o->kind == TH_EXAMPLES_TEXTS || o->kind == TH_EXAMPLES_SCORES))
        status = add_score(c, object);
    if (status != TH_OK)
        return status;
    if (!TH_GROW(c->text_end, c->text_ends, c->count + 1) || !TH_GROW(c->label_end, c->label_ends, c->count + 1))
        return fail_memory(c);
    c->text_end[c->count] = (int64_t)c->text.n;
    c->label_end[c->count++] = (int64_t)c->label.n;
    return TH_OK;
}

/* -- all examples -- */

/* Returns a sentence with the members that add_words finds. */
static json_t *read_sentence(const th_example_collection *c, const th_example_part *record, const char **problem)
{
    const th_text_example_options *o = c->options;
    return th_example_sentence(record, o->text[0] ? o->text[0] : word_names[0],
                               o->label ? o->label : label_names[TH_EXAMPLES_WORDS][0], problem);
}

static th_status add_record(th_example_collection *c, const th_example_reader *reader, const th_example_part *record)
{
    const th_json_source json = {c->ctx, operation, c->source};
    const th_json_limits limits = {.bytes = TH_MAX_EXAMPLE, .depth = TH_EXAMPLE_DEPTH};
    const char *problem = record->problem;
    const bool is_json = reader->columns == NULL && !reader->sentences;
    if (is_json && !reader->in_array && *record->text != '{' && problem == NULL)
        problem = "the line is neither an object of JSON nor a row of a table, which has the names of its columns in "
                  "the first "
                  "line";
    json_t *object = problem             ? NULL
                     : reader->columns   ? th_example_row(reader, record, &problem)
                     : reader->sentences ? read_sentence(c, record, &problem)
                                         : th_json_read(&json, record->text, record->bytes, &limits);
    th_status status;
    if (problem)
        status = refuse(c, problem);
    else if (object == NULL)
        status = is_json ? th_error_code(c->ctx) : fail_memory(c);
    else if (json_is_array(object))
        status =
            refuse(c, "the example is an array, not an object. For pairs of a text and its label, this command writes "
                      "objects: jq -c '.[] | {text: .[0], label: .[1]}'");
    else if (!json_is_object(object))
        status = refuse(c, "the example is not a JSON object, such as {\"text\": \"...\", \"label\": \"...\"}");
    else
        status = add_example(c, object);
    json_decref(object);
    return status;
}

static th_status add_records(th_example_collection *c, th_example_reader *reader, const char *name)
{
    th_example_part record;
    th_faults faults = {.kinds = 0};
    th_status status = TH_OK;
    int64_t examples = 0;
    for (; status == TH_OK && faults.count < TH_MAX_FAULTS && th_examples_next(reader, &record); examples++) {
        snprintf(c->source, sizeof c->source, "%.300s, line %lld", name, (long long)record.line);
        status = add_record(c, reader, &record);
        if (status == TH_ERROR_VALUE || status == TH_ERROR_FILE) {
            th_faults_take(&faults, c->ctx, c->source, record.line);
            status = TH_OK;
        }
    }
    if (status == TH_OK && faults.count > 0)
        return th_faults_fail(&faults, c->ctx, operation, name, examples);
    if (status == TH_OK && c->count == 0)
        return th_fail(c->ctx, TH_ERROR_VALUE, operation, "%.300s has no examples", name);
    return status;
}

static void free_collection(th_example_collection *c)
{
    free(c->text.bytes);
    free(c->text.begin);
    free(c->label.bytes);
    free(c->label.begin);
    free(c->text_end);
    free(c->label_end);
    free(c->answer_begin);
    free(c->score);
}

th_status th_text_examples_read(th_context *ctx, const char *text, size_t bytes, const char *name,
                                const th_text_example_options *options, th_text_examples *data)
{
    const th_text_example_options given = options ? *options : (th_text_example_options){.kind = TH_EXAMPLES_TEXTS};
    if (!th_usable_context(ctx, operation))
        return ctx ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    if (text == NULL || data == NULL || given.kind < TH_EXAMPLES_TEXTS || given.kind > TH_EXAMPLES_ANSWERS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a text, a kind of examples and where they go");
    th_example_reader reader;
    th_example_collection c = {.ctx = ctx, .options = &given};
    *data = (th_text_examples){.count = 0};
    name = name ? name : "the text";
    const bool begun = given.kind == TH_EXAMPLES_WORDS ? th_examples_begin_words(&reader, text, bytes)
                       : given.columns                 ? th_examples_begin_table(&reader, text, bytes, given.columns)
                                                       : th_examples_begin(&reader, text, bytes);
    if (!begun) {
        th_examples_end(&reader);
        return fail_memory(&c);
    }
    th_status status = add_records(&c, &reader, name);
    th_examples_end(&reader);
    if (status == TH_OK)
        status = th_finish_examples(&c, name, data);
    free_collection(&c);
    return status;
}
