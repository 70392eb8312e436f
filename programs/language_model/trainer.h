/* The state of training, and the functions that the files of this program share. */
#ifndef EXAMPLES_LANGUAGE_MODEL_TRAINER_H
#define EXAMPLES_LANGUAGE_MODEL_TRAINER_H

#include <tapehead/models.h>

#include "corpus.h"
#include "report.h"
#include "settings.h"
#include "shared/subcommands.h"

typedef struct trainer {
    const char *run; /* the folder of the run */
    bool quiet;      /* no progress line */
    th_context *ctx;
    th_group *group; /* the processes that train together; NULL: this process alone */
    th_tokenizer *tokenizer;
    th_module *model;
    th_optimizer *optimizer;
    th_weight_average *average; /* NULL: the model is used with its own weights */
    th_windows *training, *validation;
    th_tensor *tokens, *targets;    /* (B / shards, T) */
    th_tensor *starts;              /* likewise: the documents of the tokens, if the token file has marks */
    th_windows_position next;       /* of the training windows, in a checkpoint */
    th_plateau_state plateau;       /* of --schedule plateau, in a checkpoint */
    double best;                    /* the lowest validation loss */
    int64_t evaluations_since_best; /* the number of evaluations since then */
    bool stopped;                   /* a signal has ended the training */
    report report;
} trainer;

/* -- the subcommands: train.c, resume.c, use.c, chat.c, export.c. Each returns the program's exit status -- */
int train(int argc, char **argv);
int tune(int argc, char **argv);
int chat(int argc, char **argv);
int resume(int argc, char **argv);
int sample(int argc, char **argv);
int eval(int argc, char **argv);
int export_folder(int argc, char **argv);
int export(int argc, char **argv);

/* -- model.c. Each function ends the program on an error -- */
/* Creates the model of the settings, with new weights. */
void make_model(trainer *t);
/* Creates the tensors of a batch, or of a shard of it. */
void make_batch(trainer *t);
/* Creates the optimizer, AdamW, for all parameters that are not frozen. It decays matrices only. With --average, also
 * creates the averages. */
void make_optimizer(trainer *t);

/* -- adapters.c -- */
/* Copies frozen weights into memory instead of mapping their file: then no change of the file changes the model or ends
 * the program. The option --no-mapping sets it. */
extern bool no_mapping;
#define NO_MAPPING_OPTION                                                                                              \
    {                                                                                                                  \
        "no-mapping",                                                                                                  \
            "copy the weights of a model folder, so that changes of its files do not change the model or end the "     \
            "program (538 MB of weights: 518 MiB of private memory instead of 5 MiB and the system's cache)",          \
            .flag = &no_mapping                                                                                        \
    }
/* Loads the model of --from, frozen and stored as --weights says, and attaches the adapters of --lora. It ends the
 * program on an error. */
void make_adapted_model(trainer *t);
/* Ends the program if a checkpoint could not be loaded. The message says if the reason is that the model of the
 * adapters has changed. */
void require_adapters(const trainer *t, th_status status);
/* Adds the adapters to the weights, which become float32, and removes them. */
void merge_adapters(trainer *t);

/* -- training.c -- */
/* Returns the loss of the current batch. options: NULL, or for th_cross_entropy. */
th_tensor *compute_batch_loss(const trainer *t, const th_cross_entropy_options *options);
/* Reads the next batch of windows. */
th_status next_batch(const trainer *t, th_windows *windows);
/* Opens the windows of a token file in the run: the first tokens for training, the rest for validation. */
void open_windows(trainer *t, const char *name);
/* Trains from the current step to the end, and prints the result. Returns the program's exit status. */
int run_training(trainer *t, bool resume);
/* Returns in *loss the mean loss over all windows, or over the first `batches` batches if that is not 0. */
th_status evaluate(trainer *t, th_windows *windows, int64_t batches, double *loss);
/* Loads the complete state of training from a checkpoint. */
th_status load_checkpoint(trainer *t, const char *name);
/* Evaluates the current batch, trains for a step on it, and generates a sample, to measure what they take. */
th_status run_trial_evaluation(trainer *t);
th_status run_trial_step(trainer *t);
th_status run_trial_sample(trainer *t);
/* Runs all three, to measure memory. evaluate_only: only evaluates. */
th_status run_memory_trial(trainer *t, bool evaluate_only);

/* -- run.c: the folder of a run -- */
/* Ends the program with the context's error, if there is one. An error stays in the context, and later calls do
 * nothing, so not every call is checked. */
void require_no_error(const trainer *t);
/* Ends the program with the context's error if a call returned an error. */
void require_ok(const trainer *t, th_status status);
/* Creates the context, with the options, and joins the group of processes. Ends the program on an error. */
void join_group(trainer *t, const th_context_options *options);
/* Returns whether this process is the first one. It alone writes files, and prints. */
bool is_first_process(const trainer *t);
/* All processes call this. If one process has an error, the program ends in all of them, and the first prints the
 * error. */
void agree_on_errors(const trainer *t);
/* Waits until the first process has done what the others need. The first process calls this function afterwards, and
 * the others call it before. An error of the first process ends the program in all processes. */
void wait_for_first(const trainer *t);
/* Creates and locks the folder of a run. Ends the program if it contains a run, unless force. If the program ends
 * before replace_run, the folder does not change. If it ends before keep_run_files, a new folder is removed. */
void create_run_folder(const char *run, bool force);
/* Notes the name of the new run's event log, which is removed if the program ends before keep_run_files. */
void note_event_log(const char *run);
/* The run has a checkpoint: its files stay. */
void keep_run_files(void);
/* The tokens of a new run, until it replaces the old one. */
#define NEXT_TOKENS "next.tokens"
/* What follows the name of a token file while it is written. A signal may leave such a file. */
#define UNFINISHED ".unfinished0"
/* Removes the files of the old run from the folder, and renames NEXT_TOKENS to text.tokens. */
void replace_run(const char *run);
/* Appends a file of at most 64 MiB to the text. Ends the program on an error. */
void read_file(const trainer *t, const char *path, th_text *text);
/* Returns a hash of the run's tokenizer.json, which shows whether the file was changed. */
int64_t hash_tokenizer(const trainer *t);
/* Writes config.json. */
void write_settings(const trainer *t);
/* Reads the settings from config.json, which another process has just written. */
void read_settings(const trainer *t);
/* Loads the run's tokenizer. Ends the program if it was changed. */
void load_tokenizer(trainer *t);
/* Chooses the tokenizer for the text, and the options of a model that comes from a folder. Ends the program if the
 * tokenizer is not the one of the model in the folder, unless other_tokenizer. */
void choose_tokenizer(trainer *t, const texts *text, bool other_tokenizer);
/* Sets the model's options that depend on the tokenizer. config.json then has the sizes of the model. */
void size_model(const trainer *t);
/* -- folder.c -- */
/* Ends the program because a path is not the folder of what is wanted ("a run", "a model"), with what it is instead and
 * what to do. */
_Noreturn void refuse_folder(const char *path, const char *wanted);

/* -- run.c again -- */
/* Returns whether a folder contains a model of transformers instead of a run. */
bool is_model_folder(const char *folder);
/* Loads tokenizer, model and weights from such a folder, without an optimizer and a batch. The model is frozen, and
 * parts of the file are mapped. stored: its weights may have a storage type. weights: the name of the type, or NULL. */
void open_model_folder(trainer *t, const char *folder, bool stored, const char *weights);
/* Loads settings, tokenizer and model of a run into a trainer with a context. weights: also the weights of the
 * checkpoint. */
void open_run(trainer *t, const char *run, const char *checkpoint, bool weights);

/* -- length.c -- */
/* Returns the bytes of this machine's memory; 0 if they are unknown. */
size_t machine_memory(void);
/* Writes a number of bytes for readers, such as "14.6 MiB", into text [size]. Returns text. */
const char *spell_bytes(size_t bytes, char *text, size_t size);
/* Returns whether training, or only evaluation, with these settings fits into half of the memory. */
bool fits_into_memory(bool evaluate_only);
/* Chooses --length and --batch for a pretrained model unless they are given, and prints them to standard error. tokens:
 * the number of tokens for training; with evaluate_only, for measuring. */
void choose_windows(int64_t tokens, bool evaluate_only);

/* -- temporary.c -- */
/* Calls `use` with a token file of the text, in a temporary folder that only this user can open. Then it removes
 * both. */
th_status with_token_file(trainer *t, const texts *text, th_status (*use)(trainer *t, const char *path));

/* -- use.c -- */
/* How sample, eval and chat use a model. */
typedef struct model_use {
    const char *weights;   /* NULL: as they are in the run or the file */
    const char *precision; /* NULL: the run's, or float32 for a model folder */
    bool use_newest;
} model_use;
#define MODEL_USE_OPTIONS(use)                                                                                         \
    {"weights", "store them as bfloat16, float16, q8_0 or q4_0 (default: as they are)", .text = &(use).weights},       \
        {"precision", PRECISION_HELP, .text = &(use).precision}, NO_MAPPING_OPTION,                                    \
    {                                                                                                                  \
        "last", "the newest checkpoint, instead of the best", .flag = &(use).use_newest                                \
    }
/* Opens a checkpoint of a run, or a model folder. stored: as for open_model_folder. */
void open_model(trainer *t, const char *run, const model_use *use, bool stored);
/* Returns the number of tokens in the text. */
int64_t count_tokens(trainer *t, const texts *text);
/* Prints the loss over all tokens of the token file `path` from `begin` on. */
th_status print_loss(trainer *t, const char *path, int64_t begin);

#endif
