/* The result of reading examples: blocks of memory that th_text_examples_free releases, and the numbers of labels. */
#include <stdlib.h>
#include <string.h>

#include "models/chat/text_examples.h"
#include "models/core/context.h"

static const char operation[] = "text_examples";

static th_status fail_memory(const th_example_collection *c)
{
    return th_fail_memory(c->ctx, operation, c->text.count + c->label.count);
}

/* -- labels -- */

static bool is_whole_number(const char *name)
{
    const char *digits = name + (*name == '-');
    return strspn(digits, "0123456789") == strlen(digits) && *digits && strlen(digits) < 18;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_numbers(const void *a, const void *b)
{
    const long long x = atoll(*(const char *const *)a), y = atoll(*(const char *const *)b);
    return (x > y) - (x < y);
}

/* Sorts names and removes repetitions. Returns how many remain. */
static size_t sort_names(const char **names, size_t count)
{
    bool numbers = true;
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++)
        numbers = numbers && is_whole_number(names[i]);
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (distinct == 0 || strcmp(names[i], names[distinct - 1]) != 0)
            names[distinct++] = names[i];
    if (numbers)
        qsort(names, distinct, sizeof *names, compare_numbers);
    return distinct;
}

/* A label's name and number, sorted by name. */
typedef struct named_label {
    const char *name;
    int32_t number;
} named_label;

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const named_label *)a)->name, ((const named_label *)b)->name);
}

static named_label *sort_labels(const char *const *names, int64_t count)
{
    named_label *sorted = malloc((size_t)(count ? count : 1) * sizeof *sorted);
    for (int64_t i = 0; sorted && i < count; i++)
        sorted[i] = (named_label){names[i], (int32_t)i};
    if (sorted)
        qsort(sorted, (size_t)count, sizeof *sorted, compare_labels);
    return sorted;
}

/* Returns the number of a label; -1 if it is not in the list. */
static int32_t find_label(const named_label *sorted, int64_t count, const char *name)
{
    const named_label key = {.name = name};
    const named_label *found = bsearch(&key, sorted, (size_t)count, sizeof *sorted, compare_labels);
    return found ? found->number : -1;
}

/* -- the result -- */

static const char **make_pointers(const th_strings *s)
{
    const char **pointers = malloc((s->n ? s->n : 1) * sizeof *pointers);
    for (size_t i = 0; pointers && i < s->n; i++)
        pointers[i] = s->bytes + s->begin[i];
    return pointers;
}

static int64_t *make_begins(const int64_t *ends, size_t count)
{
    int64_t *begins = calloc(count + 1, sizeof *begins);
    if (begins && count > 0)
        memcpy(begins + 1, ends, count * sizeof *begins);
    return begins;
}

/* The memory of th_text_examples. */
struct th_text_example_memory {
    char *text, *label, *label_name; /* bytes */
    const char **texts, **labels, **label_names;
    int64_t *text_begin, *label_begin;
    int32_t *numbers;
    int64_t *answer_begin;
    double *score;
};

static void free_memory(struct th_text_example_memory *m)
{
    free(m->text);
    free(m->label);
    free(m->label_name);
    free(m->texts);
    free(m->labels);
    free(m->label_names);
    free(m->text_begin);
    free(m->label_begin);
    free(m->numbers);
    free(m->answer_begin);
    free(m->score);
    free(m);
}

/* Takes over what the collection has. Returns NULL if memory runs out. */
static struct th_text_example_memory *take_memory(th_example_collection *c)
{
    struct th_text_example_memory *m = calloc(1, sizeof *m);
    if (m) {
        m->texts = make_pointers(&c->text);
        m->labels = make_pointers(&c->label);
        m->text_begin = make_begins(c->text_end, c->count);
        m->label_begin = make_begins(c->label_end, c->count);
        m->text = c->text.bytes;
        m->label = c->label.bytes;
        m->score = c->score;
        m->answer_begin = c->answer_begin;
        c->text.bytes = c->label.bytes = NULL;
        c->answer_begin = NULL;
        c->score = NULL;
        if (m->texts && m->labels && m->text_begin && m->label_begin)
            return m;
        free_memory(m);
    }
    (void)fail_memory(c);
    return NULL;
}

/* Copies the names of the options, or collects those of the examples. Returns how many there are; -1 without memory. */
static int64_t make_label_names(th_example_collection *c, struct th_text_example_memory *m)
{
    const th_text_example_options *o = c->options;
    th_strings names = {.bytes = NULL};
    bool complete = true;
    for (int64_t i = 0; o->label_names && i < o->n_labels; i++)
        complete = complete && th_add_string(&names, o->label_names[i]);
    if (o->label_names) {
        m->label_name = names.bytes;
        m->label_names = complete ? make_pointers(&names) : NULL;
        free(names.begin);
        return m->label_names ? o->n_labels : -1;
    }
    m->label_names = malloc((c->label.n ? c->label.n : 1) * sizeof *m->label_names);
    if (m->label_names == NULL)
        return -1;
    if (c->label.n)
        memcpy(m->label_names, m->labels, c->label.n * sizeof *m->label_names);
    return (int64_t)sort_names(m->label_names, c->label.n);
}

static th_status refuse_label(const th_example_collection *c, const struct th_text_example_memory *m, const char *name,
                              const char *label, int64_t n_labels)
{
    enum { MOST = 6 };
    char quoted[TH_QUOTED], list[MOST * (TH_QUOTED + 4) + 8] = "";
    for (int64_t i = 0; i < n_labels && i < MOST; i++)
        th_append(list, sizeof list, "%s\"%s\"", i ? ", " : "", th_quote(m->label_names[i], quoted));
    return th_fail(c->ctx, TH_ERROR_VALUE, operation, "%.300s: the label \"%s\" is none of the %lld known labels: %s%s",
                   name, th_quote(label, quoted), (long long)n_labels, list, n_labels > MOST ? " ..." : "");
}

/* Sets the number of each label. Refuses labels that the options do not have. */
static th_status number_labels(th_example_collection *c, struct th_text_example_memory *m, const char *name,
                               int64_t n_labels)
{
    named_label *sorted = sort_labels(m->label_names, n_labels);
    m->numbers = malloc((c->label.n ? c->label.n : 1) * sizeof *m->numbers);
    size_t unknown = c->label.n;
    for (size_t i = 0; sorted && m->numbers && i < c->label.n; i++) {
        m->numbers[i] = find_label(sorted, n_labels, m->labels[i]);
        if (m->numbers[i] < 0 && unknown == c->label.n)
            unknown = i;
    }
    free(sorted);
    if (sorted == NULL || m->numbers == NULL)
        return fail_memory(c);
    return unknown < c->label.n ? refuse_label(c, m, name, m->labels[unknown], n_labels) : TH_OK;
}

th_status th_finish_examples(th_example_collection *c, const char *name, th_text_examples *data)
{
    struct th_text_example_memory *m = take_memory(c);
    if (m == NULL)
        return th_error_code(c->ctx);
    const bool labels = th_examples_have_labels(c);
    const int64_t n_labels = labels ? make_label_names(c, m) : 0;
    if (n_labels < 0)
        (void)fail_memory(c);
    else if (labels)
        (void)number_labels(c, m, name, n_labels);
    if (th_error_code(c->ctx) != TH_OK) {
        free_memory(m);
        return th_error_code(c->ctx);
    }
    *data = (th_text_examples){.count = (int64_t)c->count,
                               .text = m->texts,
                               .text_begin = m->text_begin,
                               .label = labels ? m->numbers : NULL,
                               .label_begin = labels ? m->label_begin : NULL,
                               .label_names = labels ? m->label_names : NULL,
                               .n_labels = n_labels,
                               .answer_begin = m->answer_begin,
                               .score = c->has_score ? m->score : NULL,
                               .memory = m};
    return TH_OK;
}

void th_text_examples_free(th_text_examples *data)
{
    if (data == NULL)
        return;
    if (data->memory)
        free_memory(data->memory);
    *data = (th_text_examples){.count = 0};
}
