/* Everything that training works with, and what the files of this program share of it. */
#ifndef EXAMPLES_LANGUAGE_MODEL_TRAINER_H
#define EXAMPLES_LANGUAGE_MODEL_TRAINER_H

#include <tapehead/tapehead.h>

#include "corpus.h"
#include "report.h"
#include "settings.h"

typedef struct trainer {
    const char *run;
    th_context *ctx;
    th_tokenizer *tokenizer;
    th_module *model;
    th_optimizer *optimizer;
    th_windows *training, *validation;
    th_tensor *tokens, *targets; /* (B, T) */
    th_windows_position next;    /* where a checkpoint was in the training windows */
    double best;                 /* lowest validation loss, */
    int64_t worse;               /* and evaluations since */
    report report;
} trainer;

/* -- ../language_model.c -- */
/* argv[0], for the command that the program prints at its end. */
extern const char *program_path;
/* The model of the settings with new weights, tensors for a batch, and the optimizer. Each ends the program on an
 * error. */
void make_model(trainer *t);
void make_batch(trainer *t);
void make_optimizer(trainer *t);
/* Evaluates, trains for a step and writes a sample, with a batch that never changes. evaluate_only: evaluates only. */
th_status rehearse(trainer *t, bool evaluate_only);
/* The mean loss over a pass of windows, or over the first `batches` of it. */
th_status evaluate(trainer *t, th_windows *windows, int64_t batches, double *loss);

/* -- run.c: the folder of a run -- */
/* An error stays in the context, and what follows it does nothing; so it is asked for where it matters, not after each
 * call. Ends the program with the context's error, if it has one; */
void expect_no_error(const trainer *t);
/* the same, of a call that says how it went. */
void expect(const trainer *t, th_status status);
/* No other process may write into the run while this one lives. Ends the program where one does. */
void lock_run(const char *run);
/* Makes the folder for the run, and locks it. Ends the program if a run is there already, unless force will replace it.
 * If the program ends before replace_run, the folder does not change. */
void make_folder(const char *run, bool force);
/* The tokens of a new run, until it replaces the old one. */
#define NEXT_TOKENS "next.tokens"
/* Removes the files of the run that was in the folder, and gives the new one its tokens. */
void replace_run(const char *run);
/* A number that another tokenizer.json would not have; only for one that could be read. */
int64_t hash_of_tokenizer(const char *run);
/* config.json */
void write_settings(const char *run);
/* Chooses the tokenizer for the text, and the model's options, which depend on it or come from a folder. Ends the
 * program if the tokenizer is not the tokenizer of the model in the folder, unless other_tokenizer. */
void choose_model(trainer *t, const texts *text, bool other_tokenizer);
/* Whether a folder holds a model of transformers, and no run. */
bool is_model_folder(const char *folder);
/* Loads the tokenizer, the model and its weights from such a folder, without an optimizer and a batch. */
void open_model_folder(trainer *t, const char *folder);
/* Settings, tokenizer and model of a run that is there, with the weights of the checkpoint unless they are loaded
 * later. */
void open_run(trainer *t, const char *run, const char *checkpoint, bool weights);

/* -- length.c -- */
/* Chooses --length and --batch for the pretrained model unless they are given, and prints the choice to standard error.
 * tokens: the number of the text's tokens for training or, with evaluate_only, for measuring. */
void choose_windows(int64_t tokens, bool evaluate_only);

/* -- use.c: what there is to do with a trained model; subcommands, which return what main does -- */
int sample(int argc, char **argv);
int eval(int argc, char **argv);
int export(int argc, char **argv);
/* Returns the number of the text's tokens. */
int64_t count_tokens(trainer *t, const texts *text);
/* The loss over all tokens of the token file `path` from `begin` on, as a line on standard output. */
th_status print_loss(trainer *t, const char *path, int64_t begin);

#endif
