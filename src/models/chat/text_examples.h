/* Examples for encoders, while they are read: text_examples.c collects them, text_example_memory.c makes the result. Texts and
 * labels are collected in one block of bytes each, and become pointers at the end, because the block moves while it grows. */
#ifndef TH_MODELS_CHAT_TEXT_EXAMPLES_H
#define TH_MODELS_CHAT_TEXT_EXAMPLES_H

#include "tapehead/text_examples.h"

/* Texts, each with a NUL at its end. */
typedef struct th_strings {
    char *bytes;
    size_t count, capacity;
    size_t *begin; /* [n] of each text in bytes */
    size_t n, begins;
} th_strings;

typedef struct th_example_collection {
    th_context *ctx;
    const th_text_example_options *options;
    char source[400]; /* of the present example, with which its error begins */
    th_strings text, label;
    int64_t *text_end, *label_end; /* [count] */
    int64_t *answer_begin;         /* [label.n] of answers: a byte of the context */
    double *score;                 /* [count] */
    size_t count, text_ends, label_ends, scores, answer_begins;
    int64_t n_texts; /* of the first example */
    bool has_score;  /* of the first example */
} th_example_collection;

/* Appends a text. Returns false if memory runs out. */
bool th_add_string(th_strings *strings, const char *text);

/* Whether the examples have labels. */
static inline bool th_examples_have_labels(const th_example_collection *c)
{
    const th_text_example_kind kind = c->options->kind;
    return !c->options->texts_only &&
           (kind == TH_EXAMPLES_LABELS || kind == TH_EXAMPLES_WORDS || kind == TH_EXAMPLES_ANSWERS);
}

/* Makes the result of complete examples. name: of the text, for the message about an unknown label. */
th_status th_finish_examples(th_example_collection *collection, const char *name, th_text_examples *data);

#endif
