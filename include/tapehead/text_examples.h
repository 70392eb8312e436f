/* Examples for encoders from tables and JSON: texts with labels or scores, pairs, triplets, and words with labels.
 *
 *     th_text file = {0};
 *     th_text_examples data = {0};
 *     const th_text_example_options options = {.kind = TH_EXAMPLES_LABELS};
 *     if (th_file_read(ctx, "intents.csv", SIZE_MAX, &file) ||
 *         th_text_examples_read(ctx, file.bytes, file.count, "intents.csv", &options, &data))
 *         return report(ctx);
 *     ...
 *     th_text_examples_free(&data);
 *     th_text_free(&file);
 *
 * A table is CSV or TSV with a header (RFC 4180; the delimiter is a comma, a semicolon, a tab or a bar). JSON is an array of
 * objects, or an object in each line. The names of columns and members decide, whatever their case is.
 *
 * Words may also be in the form of CoNLL: a word in each line, its label in the last column, and an empty line after each
 * sentence. Tabs separate the columns, or spaces in a line without tabs. */
#ifndef TAPEHEAD_TEXT_EXAMPLES_H
#define TAPEHEAD_TEXT_EXAMPLES_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* What an example has. The first name that it has is used. */
typedef enum th_text_example_kind {
    /* One, two or three texts, and the score of a pair if there is one:
     *   1  anchor, query, question, question1, sentence1, text1, text_a, premise, sentence, text, utterance, review,
     *      content, title
     *   2  positive, answer, response, question2, sentence2, text2, text_b, hypothesis
     *   3  negative, hard_negative
     *   score, similarity_score, similarity, is_duplicate */
    TH_EXAMPLES_TEXTS,
    /* One or two of these texts, and a label, or an array of labels: label, labels, class, category, intent, sentiment,
     * topic, emotion, target, is_duplicate. A number or a truth value is a label, too. */
    TH_EXAMPLES_LABELS,
    /* One or two of these texts, and a number: score, similarity_score, similarity, label, value, rating, stars, target. */
    TH_EXAMPLES_SCORES,
    /* An array of words (tokens, words), and an array of as many labels (ner_tags, tags, labels, pos_tags), in JSON. CoNLL's
     * form has no names. */
    TH_EXAMPLES_WORDS,
    /* A question (question, query), a text that has its answer (context, passage, paragraph, document), and the answer
     * (answers, answer, answer_text): a text, or SQuAD's forms {"text": [...], "answer_start": [...]} and [{"text": ...,
     * "answer_start": ...}]. Beside a text, answer_start may be a member or a column. It counts characters, and without it the
     * answer is the first place in the text. Several answers are alternatives. */
    TH_EXAMPLES_ANSWERS
} th_text_example_kind;

typedef struct th_text_example_options {
    th_text_example_kind kind;
    const char *text[3]; /* the names of all texts, or of the words; text[0] NULL: those above */
    const char *label;   /* the name of the label, or of the score; NULL: those above */
    const char *columns; /* the names of a table without a header, between commas. An empty name: the column is left
                            out. NULL: the table has a header, or the text is JSON */
    /* [n_labels] the labels that may occur, with their numbers. NULL: all labels of the examples, in the order of their
     * numbers if all are numbers, otherwise in the order of their bytes. */
    const char *const *label_names;
    int64_t n_labels;
    bool texts_only; /* labels and scores are not needed, and not read: for prediction */
} th_text_example_options;

/* Initialize it with zeros. Example i has the texts text[text_begin[i]] to text[text_begin[i + 1] - 1], and likewise its
 * labels. Texts are UTF-8 and end with NUL. */
typedef struct th_text_examples {
    int64_t count;
    const char *const *text;
    const int64_t *text_begin;      /* [count + 1] */
    const int32_t *label;           /* indices into label_names; NULL: none */
    const int64_t *label_begin;     /* [count + 1]; NULL: none */
    const char *const *label_names; /* [n_labels] */
    int64_t n_labels;
    /* [labels] of TH_EXAMPLES_ANSWERS, where label_names has the answers: the byte of the second text where an answer
     * begins; NULL: none */
    const int64_t *answer_begin;
    const double *score;                   /* [count]; NULL: none */
    struct th_text_example_memory *memory; /* private */
} th_text_examples;

/* Reads all examples of a text of `bytes` bytes into data, which must be empty. name is the text's name in messages.
 * Errors: TH_ERROR_VALUE names the lines and the kinds of faults: a missing name, another kind of value, a label that
 * label_names lacks, another number of texts than in the first example, an empty text, a score that is not finite, an
 * answer that is not in its text. TH_ERROR_FILE, if the first fault is wrong JSON. TH_ERROR_ARGUMENT, TH_ERROR_MEMORY. data
 * is empty then. Its memory is the C library's, which the context does not count. */
TH_API th_status th_text_examples_read(th_context *ctx, const char *text, size_t bytes, const char *name,
                                       const th_text_example_options *options, th_text_examples *data) TH_MUST_CHECK;
/* Releases the memory; data is empty again. */
TH_API void th_text_examples_free(th_text_examples *data);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_text_examples_read(...) TH_AT_STATUS(th_text_examples_read(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
