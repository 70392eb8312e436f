/* What the files of this program share. B examples in a batch, T tokens, E width, L labels. */
#ifndef PROGRAMS_ENCODER_ENCODER_H
#define PROGRAMS_ENCODER_ENCODER_H

#include <tapehead/models.h>

#include "options.h"
#include "precision.h"
#include "shared/run_folder.h"
#include "shared/subcommands.h"

#define PROGRAM "encoder"

typedef enum encoder_task {
    TASK_EMBED,    /* sentence embeddings, trained on pairs, triplets, or pairs with scores */
    TASK_CLASSIFY, /* one label of a text, or several */
    TASK_TOKENS,   /* a label of each word */
    TASK_REGRESS,  /* a number */
    TASK_SPANS     /* the answer of a question, which is a part of a text */
} encoder_task;

/* A model with what surrounds it. */
typedef struct encoder {
    th_context *ctx;
    th_tokenizer *tokenizer;
    th_module *model;
    th_module *trained; /* what an optimizer changes: the model, or a list of it and the dense layer of TASK_EMBED */
    encoder_task task;
    bool several_labels;           /* of a text, in TASK_CLASSIFY */
    th_sentence_options sentences; /* of TASK_EMBED */
    int64_t length;                /* the largest number of tokens of a text */
    const char *const *label_names;
    int64_t n_labels;
} encoder;

/* -- the subcommands: each returns the program's exit status -- */
int train(int argc, char **argv);
int resume(int argc, char **argv);
int eval(int argc, char **argv);
int predict(int argc, char **argv);
int embed(int argc, char **argv);
int search(int argc, char **argv);
int export(int argc, char **argv);

/* -- settings.c -- */
typedef struct settings {
    const char *model, *data, *run; /* the words of the command line */
    const char *task, *loss, *validation_file, *precision, *pooling, *freeze;
    const char *text_columns, *label_column, *columns;
    double validation; /* the share of the examples for validation, if there is no file */
    int64_t epochs, batch, length, seed, threads, lora, log_every;
    double lr, warmup, weight_decay, clip, dropout;
    bool in_order, force, quiet;
} settings;
extern settings chosen;

/* Reads the command line of train into `chosen`. Ends the program for wrong options. */
void read_settings(int argc, char **argv);
/* Returns the words of the command line, one in each line, for a checkpoint. */
const char *settings_to_text(int argc, char **argv);
/* Reads such words into `chosen`. */
void settings_from_text(char *text);
/* Returns the task of --task. Ends the program for another word. */
encoder_task parse_task(const char *word);

/* -- model.c: each function ends the program on an error -- */
/* Ends the program with the context's error, if there is one. */
void require_no_error(const th_context *ctx);
/* Ends the program with the context's error if a call returned an error. */
void require_ok(const th_context *ctx, th_status status);
/* Loads a model to use it: of a run, or a folder of transformers or sentence-transformers. type: of stored weights, as for
 * th_folder_load_options. */
void open_encoder(encoder *e, const char *path, th_dtype type);
/* Loads the model of `chosen` to train it. data: the examples, whose labels a new head gets. */
void open_pretrained(encoder *e, const th_text_examples *data);
/* Writes the model to a folder, with its adapters merged. */
void save_encoder(encoder *e, const char *folder, th_dtype type);
/* Returns the folder of a run's best model, or the path itself. */
const char *model_folder(const char *path);

/* -- data.c -- */
/* Reads the examples of a file, a pipe or "-". Ends the program on an error. */
void read_examples(th_context *ctx, const char *path, const th_text_example_options *options, th_text_examples *data);
/* Returns the options for the task's examples: the names of --text, --label and --columns, and the model's labels if it has
 * some. */
th_text_example_options example_options(encoder_task task, const encoder *e);
/* Ends the program if the model cannot use the examples of a file. */
void check_examples(const encoder *e, const th_text_examples *data, const char *path);
/* Does the same for the examples of `chosen`, with its loss. validation: empty if a share of data is for validation. */
void check_training_examples(const encoder *e, const th_text_examples *data, const th_text_examples *validation);
/* Returns whether an example has no label, or several. */
bool have_several_labels(const th_text_examples *data);
/* Some of the examples, in some order. */
typedef struct selection {
    const th_text_examples *data;
    const int64_t *rows; /* [count] */
    int64_t count;
} selection;
/* Returns `count` rows from `begin` on. */
selection part_of(const selection *s, int64_t begin, int64_t count);
/* Returns the numbers of all rows: 0, 1, 2 ..., or shuffled by the seed. The caller frees them. */
int64_t *order_rows(int64_t count, bool shuffle, uint64_t seed);
/* Returns the rows, sorted by the bytes of their texts, so that a batch needs little padding. The caller frees them. */
int64_t *sort_rows_by_length(const selection *s);
/* Returns how many texts an example has. */
int64_t texts_of(const th_text_examples *data);
/* Makes the batch of the selection's texts, or of their words. */
th_status make_text_batch(const encoder *e, const selection *s, th_text_batch *batch);
/* Returns both texts of each example, one after the other, in memory that is valid until the next call. */
const char *const *list_pairs(const selection *s);
/* Sets embeddings[0 .. columns - 1] to the embeddings (B, E) of the texts in these places of each example, NULL with the
 * error pending. */
void embed_columns(const encoder *e, const selection *s, int64_t column, int64_t columns, th_tensor **embeddings);
/* Returns the logits of the selection's batch: (B, L), or (B, T, L) for words. */
th_tensor *compute_logits(const encoder *e, const th_text_batch *batch);

/* -- tasks.c -- */
/* Returns the loss of a batch, a scalar. NULL with the error pending. */
th_tensor *compute_loss(const encoder *e, const selection *s);
enum { MAX_MEASURES = 4 };
/* The measures of an evaluation. The first one decides which model is the best: more is better. */
typedef struct evaluation {
    double loss; /* NaN: none */
    struct {
        const char *name;
        double value;
    } measure[MAX_MEASURES];
    int measures;
} evaluation;
/* Measures the model on the examples. confusion: NULL, or the path of a picture that a classifier gets. */
th_status evaluate(const encoder *e, const selection *s, int64_t batch, const char *confusion, evaluation *result);

/* -- attention.c -- */
/* Draws the attention weights of a short example of the selection. */
th_status draw_attention(const encoder *e, const selection *s, const char *path);

/* -- spans.c -- */
/* An answer: bytes begin to end - 1 of the text. */
typedef struct answer_span {
    int64_t begin, end;
    double score, probability; /* the sum of both logits; the product of both shares of the window */
} answer_span;
/* Returns the loss of the windows of the examples, a scalar. NULL with the error pending. */
th_tensor *span_batch_loss(const encoder *e, const selection *s);
/* Sets span[i] to the best answer of the question texts[2 i] in the text texts[2 i + 1], [n]. */
th_status answer_questions(const encoder *e, const char *const *texts, int64_t n, answer_span *span);
/* Does the same for examples. *loss: the mean loss of the windows, whose number is *windows. */
th_status evaluate_spans(const encoder *e, const selection *s, answer_span *span, double *loss, int64_t *windows);
/* Compares an answer with the answers of an example as SQuAD's script does (Rajpurkar et al. 2016): the largest exact match, 0 or
 * 1, and the largest F1 of words. Only letters of ASCII become lower case. */
void score_answer(const th_text_examples *data, int64_t row, const answer_span *span, double *exact, double *f1);

/* -- use.c -- */
/* How the subcommands use a model. */
typedef struct model_use {
    int64_t threads;
    const char *weights, *precision;
} model_use;
#define USE_OPTIONS(use)                                                                                               \
    {"weights", "store them as bfloat16, float16, q8_0 or q4_0 (default: float32)", .text = &(use).weights},           \
        {"precision", PRECISION_HELP, .text = &(use).precision},                                                       \
    {                                                                                                                  \
        "threads", "0: one for each processor", .integer = &(use).threads, .low = 0, .high = 1024                      \
    }
#define DEFAULT_USE                                                                                                    \
    {                                                                                                                  \
        .precision = "float32"                                                                                         \
    }
/* Opens a model for a subcommand. Ends the program on an error. */
encoder open_for_use(const char *path, const model_use *use);

/* -- lines.c -- */
/* The lines of a file that are not empty, without their line breaks. */
typedef struct line_list {
    char *bytes;
    const char **line;
    int64_t count;
} line_list;
/* Reads the lines of a file, of a pipe, or of "-". Ends the program on an error. */
line_list read_lines(const char *path);
/* Does the same if the word is a file or "-". Otherwise the word itself is the line. */
line_list read_lines_or_text(const char *word);
void free_lines(line_list *list);

#endif
