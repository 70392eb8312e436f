/* Heads: the outputs of transformers' classes for classification and question answering, and the names of their labels in
 * config.json. */
#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/family.h"
#include "models/families/fields.h"
#include "models/families/writer.h"

static const char *const problems[] = {[TH_PROBLEM_ONE_LABEL] = "single_label_classification",
                                       [TH_PROBLEM_SEVERAL_LABELS] = "multi_label_classification",
                                       [TH_PROBLEM_REGRESSION] = "regression"};

const th_family_head *th_family_head_find(const th_family *family, th_head_kind kind)
{
    for (const th_family_head *h = family->heads; h && h->architecture; h++)
        if (h->options.kind == kind)
            return h;
    return NULL;
}

th_status th_family_replace_head(th_context *ctx, const char *operation, const th_family *family,
                                 const th_head_options *given, const double *dropout,
                                 th_language_model_options *options)
{
    const th_family_head *head = th_family_head_find(family, given->kind);
    if (head == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s has no head of kind %d", family->title, (int)given->kind);
    options->no_classifier = options->untied = options->classifier_bias = options->classifier_transform = false;
    const th_pooling_kind pooling = head->pooling_key ? options->head.pooling : head->options.pooling;
    options->head = head->options;
    options->head.pooling = pooling;
    options->head.labels = given->labels;
    options->head.label_names = given->label_names;
    options->head.problem = given->problem;
    if (given->dropout != 0 || dropout[given->kind] != 0)
        options->head.dropout = given->dropout != 0 ? given->dropout : dropout[given->kind];
    return TH_OK;
}

void th_options_release(th_context *ctx, th_language_model_options *options)
{
    th_layers_release(ctx, options);
    th_label_names_release(ctx, options->head.label_names, options->head.labels);
    options->head.label_names = NULL;
}

/* -- reading -- */

/* Returns the head that `architectures` names, or NULL. */
static const th_family_head *named_head(const th_config *c, const th_family *family)
{
    const json_t *list = json_object_get(c->object, "architectures"), *entry;
    size_t i;
    for (const th_family_head *h = family->heads; h && h->architecture; h++)
        json_array_foreach (list, i, entry)
            if (json_is_string(entry) && strcmp(json_string_value(entry), h->architecture) == 0)
                return h;
    return NULL;
}

/* Reads the members "0", "1" ... of id2label. */
static void read_names(const th_config *c, const json_t *id2label, th_head_options *head)
{
    th_context *ctx = c->source.ctx;
    const size_t count = json_object_size(id2label), bytes = count * sizeof(char *);
    const char **names = th_allocate(ctx, bytes);
    if (names == NULL) {
        (void)th_fail_memory(ctx, c->source.operation, bytes);
        return;
    }
    for (size_t i = 0; i < count && !th_failed(ctx); i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        names[i] = json_string_value(json_object_get(id2label, key));
        if (names[i] == NULL)
            th_config_fail(c, "\"id2label\" has %zu members, but none of them is \"%zu\" with a name", count, i);
    }
    head->labels = (int64_t)count;
    if (!th_failed(ctx))
        head->label_names = th_label_names_copy(ctx, c->source.operation, names, head->labels);
    th_release(ctx, names, bytes);
}

static th_problem read_problem(const th_config *c)
{
    const char *name = th_config_string(c, "problem_type", NULL);
    if (name == NULL)
        return TH_PROBLEM_BY_TARGETS;
    for (int i = TH_PROBLEM_ONE_LABEL; i <= TH_PROBLEM_REGRESSION; i++)
        if (strcmp(name, problems[i]) == 0)
            return (th_problem)i;
    th_config_refuse(c, "problem type \"%s\" is not supported", name);
    return TH_PROBLEM_BY_TARGETS;
}

/* Reads the pooling of a sequence. */
static th_pooling_kind read_pooling(const th_config *c, const char *key)
{
    const char *name = th_config_string(c, key, "cls");
    const bool mean = strcmp(name, "mean") == 0;
    if (!mean && strcmp(name, "cls") != 0)
        th_config_refuse(c, "pooling \"%s\" is not supported; cls and mean are", name);
    return mean ? TH_POOL_MEAN : TH_POOL_CLS;
}

void th_head_read_dropout(const th_config *c, const th_family *family, double dropout[TH_HEAD_SPANS + 1])
{
    for (const th_family_head *h = family->heads; h && h->architecture && !th_failed(c->source.ctx); h++)
        if (h->dropout_key)
            dropout[h->options.kind] =
                th_config_number_in(c, h->dropout_key, (th_range){0, 0.999999}, h->options.dropout);
}

bool th_head_read(const th_config *c, const th_family *family, th_language_model_options *options)
{
    const th_family_head *named = named_head(c, family), *sequence = th_family_head_find(family, TH_HEAD_SEQUENCE);
    th_head_options *head = &options->head;
    if (named)
        *head = named->options;
    if (sequence && sequence->pooling_key) /* also without a head, for a new one */
        head->pooling = read_pooling(c, sequence->pooling_key);
    if (named == NULL)
        return false;
    head->problem = read_problem(c);
    if (named->dropout_key)
        head->dropout = th_config_number_in(c, named->dropout_key, (th_range){0, 0.999999}, head->dropout);
    const json_t *id2label = th_config_object(c, "id2label");
    if (id2label)
        read_names(c, id2label, head);
    else
        head->labels = th_config_integer(c, "num_labels", 1, 2);
    return true;
}

/* -- writing -- */

static void put_label_name(th_writer *w, const th_head_options *head, int64_t i)
{
    char usual[32];
    snprintf(usual, sizeof usual, "LABEL_%lld", (long long)i);
    th_put_string(w, head->label_names ? head->label_names[i] : usual);
}

void th_head_write(th_writer *w, const th_family_head *family_head, const th_head_options *head)
{
    th_put_key(w, "id2label");
    for (int64_t i = 0; i < head->labels; i++) {
        fprintf(w->file, "%s\"%lld\": ", i ? ", " : "{", (long long)i);
        put_label_name(w, head, i);
    }
    fputs("}", w->file);
    th_put_key(w, "label2id");
    for (int64_t i = 0; i < head->labels; i++) {
        fputs(i ? ", " : "{", w->file);
        put_label_name(w, head, i);
        fprintf(w->file, ": %lld", (long long)i);
    }
    fputs("}", w->file);
    if (head->problem != TH_PROBLEM_BY_TARGETS)
        th_put_text(w, "problem_type", problems[head->problem]);
    if (family_head->dropout_key)
        th_put_number(w, family_head->dropout_key, head->dropout);
    if (family_head->pooling_key)
        th_put_text(w, family_head->pooling_key, head->pooling == TH_POOL_MEAN ? "mean" : "cls");
}
