/* Options of language models: requires them, and compares those of two models by what the models compute. */
#ifndef TH_MODELS_FAMILIES_OPTIONS_H
#define TH_MODELS_FAMILIES_OPTIONS_H

#include "tapehead/language_model.h"

/* Returns the options of a language model. Returns NULL for another module, with TH_ERROR_ARGUMENT pending. */
const th_language_model_options *th_require_language_model(const th_module *model, const char *operation);

/* Returns the options of layer i's scores. */
const th_score_options *th_scores_of_layer(const th_language_model_options *options, int64_t i);

/* Returns the options with every default filled in, and with members that have no effect at 0. So equal models have
 * equal options. Arrays are shared, not copied. */
th_language_model_options th_normal_options(const th_language_model_options *options);

typedef struct th_option_difference {
    char name[64]; /* .block.scores.window */
    double a, b;
} th_option_difference;

enum { TH_MAX_OPTIONS = 80 };
/* Writes the members that differ between normal options of models with the same sizes. Options that matter only in
 * training, and sizes that shapes of weights show, are not compared. Returns their number. */
int th_options_compare(const th_language_model_options *a, const th_language_model_options *b,
                       th_option_difference difference[TH_MAX_OPTIONS]);

#endif
