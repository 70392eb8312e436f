/* What a run is made of: the settings of `train`, which every checkpoint carries, so that the other subcommands need
 * nothing but the folder of the run. */
#ifndef EXAMPLES_LANGUAGE_MODEL_SETTINGS_H
#define EXAMPLES_LANGUAGE_MODEL_SETTINGS_H

#include <tapehead/tapehead.h>

#include "../precision.h"

#define PROGRAM "language_model"

enum { USUAL_LENGTH = 64, USUAL_BATCH = 12 }; /* of windows; with --from see length.c */

/* The options that the command line gives. The others have different defaults with --from. */
typedef struct given_options {
    bool tokenizer, batch, lr;
} given_options;
extern given_options was_given;

typedef struct settings {
    /* the text */
    const char *tokenizer; /* "characters", "bytes", "bpe", or a folder or tokenizer.json of transformers */
    int64_t vocabulary;    /* of bpe */
    double validation;     /* the share of the text, its end, that is held out */
    /* the model */
    bool llama;
    int64_t layers, heads, kv_heads, width, mlp_width;
    int64_t length; /* of a window; 0 until choose_windows() */
    double dropout;
    bool recompute;
    const char *from, *freeze; /* a folder of transformers; patterns of parameters */
    /* training */
    int64_t keep; /* checkpoints */
    int64_t steps, batch, accumulate, warmup, seed, threads, patience;
    double lr, min_lr, beta1, beta2, weight_decay, clip;
    const char *precision;
    /* reports */
    int64_t log_every, eval_every, eval_batches, sample_tokens;
    double temperature;
    const char *prompt;
    /* what follows from these, the text and the pretrained model */
    int64_t training_tokens; /* of the token file; the rest is for validation */
    int64_t tokenizer_hash;  /* of tokenizer.json, whose tokens the model knows by their numbers only */
    int64_t end_token;       /* that ends a text; -1: the tokenizer has none */
    th_language_model_options model;
} settings;

/* The settings of this process: defaults, then what the command line or a checkpoint says. There is one model at a
 * time, so they are global, and whoever needs one reads it here. */
extern settings chosen;

/* The options that become settings, and then more of them, as one table. */
const program_option *options_with(const program_option *more);
/* Refuses options that contradict each other, and fills in the model's. */
void settle(void);
/* Fills in the learning rates when the options of the model are known. settle() calls it for a new model. */
void settle_rates(void);

/* All settings as JSON. To be freed. */
char *settings_to_json(void);
/* Reads the settings from such a text. All input is untrusted: each setting must be within its limits, and all must fit
 * together. Otherwise it ends the program with a message that names the file, the setting, its value and its limits. */
void settings_from_json(const char *text, const char *file);

#endif
