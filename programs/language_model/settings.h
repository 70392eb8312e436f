/* The settings of a run: the options of `train` and values derived from them. Every checkpoint contains them, so the
 * other subcommands need only the folder of the run. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SETTINGS_H
#define EXAMPLES_LANGUAGE_MODEL_SETTINGS_H

#include <tapehead/tapehead.h>

#include "precision.h"

#define PROGRAM "language_model"

#define STORE_ADVICE "; --weights q8_0 stores weights so" /* of note_int8, for frozen weights */

enum { DEFAULT_LENGTH = 64, DEFAULT_BATCH = 12 }; /* of windows; with --from see length.c */

/* Whether the command line has these options. With --from their defaults differ. */
typedef struct given_options {
    bool tokenizer, batch, lr, adam_lr, adjust_lr, steps, warmup, eval_every, log_every, epochs;
    bool decay, plateau, batch_growth;
} given_options;
extern given_options was_given;

typedef struct settings {
    /* the text */
    const char *tokenizer;       /* "characters", "bytes", "bpe", or a folder or tokenizer.json of transformers */
    int64_t vocabulary;          /* of bpe */
    double validation;           /* the share of the text, at its end, for validation */
    const char *validation_file; /* or the text for validation; NULL: a share */
    /* the model */
    bool llama, no_bias;
    int64_t layers, heads, kv_heads, width, mlp_width;
    int64_t length; /* of a window; 0 until choose_windows() */
    double dropout;
    const char *activation; /* of --activation; NULL: of GPT-2 or Llama */
    bool qk_norm, embedding_norm, value_residual, embedding_skip, uniform_init, zero_init;
    int64_t bigram; /* rows */
    double embedding_std;
    bool recompute;
    const char *from, *freeze; /* a folder of transformers; patterns of parameters */
    /* training */
    int64_t keep; /* checkpoints */
    int64_t steps, batch, shards, local_steps, accumulate, warmup, seed, threads, patience;
    double lr, min_lr, beta1, beta2, weight_decay, clip;
    const char *precision;
    const char *optimizer;    /* "adamw" or "muon" */
    double adam_lr, momentum; /* of Muon */
    int64_t newton_schulz;    /* steps; 0: the default */
    bool polar_express;
    const char *adjust_lr;    /* "original" or "match_rms_adamw" */
    const char *schedule;     /* of the learning rate (schedules.h) */
    double decay;             /* the share of the steps in which wsd decays */
    double plateau_factor;    /* of the learning rate, with the schedule plateau */
    int64_t plateau_patience; /* evaluations without an improvement that do not reduce the rate */
    double average;           /* the decay of averaged weights; 0: none */
    int64_t batch_from;       /* the batch of the first step; 0: as all others */
    double batch_growth;      /* the share of the steps in which the batch grows */
    /* tuning */
    int64_t lora; /* the rank; 0: no adapters */
    double lora_alpha, lora_dropout, epochs;
    const char *lora_targets, *weights, *chat, *template_variables, *template_date;
    /* reports */
    int64_t log_every, eval_every, eval_batches, sample_tokens;
    double temperature;
    const char *prompt;
    /* derived from these, the text and the pretrained model */
    bool marked;             /* the token file has marks: examples are packed, and only answers count */
    int64_t training_tokens; /* of the token file; the rest is for validation */
    int64_t tokenizer_hash;  /* of tokenizer.json, because the model knows tokens only by their numbers */
    int64_t end_token;       /* the token that ends a text; -1: none */
    th_language_model_options model;
} settings;

/* The settings of this process: defaults, changed by the command line or replaced by a checkpoint. They are global,
 * because there is one model at a time. */
extern settings chosen;

/* How conversations are written: the options of a variable with the members chat, template_variables and template_date. */
#define TEMPLATE_OPTIONS(use)                                                                                          \
    {"chat", "the chat template: a kind, a name of one of the model's templates, or plain (default: the model's)",     \
     .text = &(use).chat},                                                                                             \
        {"template-variables", "of the chat template, as JSON: {\"enable_thinking\": false}",                          \
         .text = &(use).template_variables},                                                                           \
    {                                                                                                                  \
        "template-date", "that the chat template writes, such as 2026-11-28 (default: today)",                         \
            .text = &(use).template_date                                                                               \
    }

enum { MAX_TEXT = 4096 }; /* bytes of one text among the settings */
enum { DEFAULT_KEEP = 2 };

/* The options of the settings. The table ends with an entry without a name. */
extern const program_option run_options[];
/* The settings that no option names: a checkpoint has them too. The table ends in the same way. */
extern const program_option derived_settings[];
/* Returns one table with the options of the settings, followed by `more`. */
const program_option *append_options(const program_option *more);
/* Rejects options that contradict each other, and fills in the options of the model. */
void complete_settings(void);
/* Returns whether --epochs tells the number of steps, so that it is known when the data is. */
bool steps_depend_on_data(void);
/* Rejects numbers of steps that --local-steps does not divide, because only outer steps can end or save a run. */
void check_local_steps(void);
/* Returns count, at least 1, rounded up to a multiple of --local-steps. */
int64_t round_up_to_local_steps(int64_t count);
/* Returns whether --local-steps divides a number of steps. */
bool local_steps_divide(int64_t steps);
/* Sets *dtype to the storage type of this name, for frozen weights. Returns false if the name is unknown. */
bool find_storage(const char *name, th_dtype *dtype);
/* Returns the storage type of this name. Ends the program if the name is unknown. */
th_dtype parse_storage(const char *name);
/* Sets *adjustment to the one of this name. Returns false if the name is unknown. */
bool find_adjustment(const char *name, th_muon_adjustment *adjustment);
/* Returns whether Muon updates the matrices. */
bool uses_muon(void);
/* Returns whether --activation takes this name. */
bool is_activation(const char *name);
#define ACTIVATION_NAMES "gelu, relu2, silu or swiglu"
/* Fills in the learning rates when the options of the model are known. complete_settings() calls it for a new model. */
void set_learning_rates(void);

enum { MAX_SETTINGS = 1 << 18 }; /* bytes of all settings as JSON */

/* Returns all settings as JSON. The caller frees the text. */
char *settings_to_json(void);
/* Reads the settings from such a JSON text. All input is untrusted: each setting must be within its limits, and all
 * must fit together. Otherwise it ends the program with a message that names the file, the setting, its value and its
 * limits. */
void settings_from_json(const char *text, const char *file);

#endif
