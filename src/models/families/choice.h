/* The choice of an exported model's family or architecture: the first one that expresses the model's options. */
#ifndef TH_MODELS_FAMILIES_CHOICE_H
#define TH_MODELS_FAMILIES_CHOICE_H

#include "models/families/family.h"
#include "models/families/options.h"

typedef struct th_candidates {
    const char *noun, *format; /* in messages: "family", "transformers" */
    int count;
    const char *(*title)(int i); /* in messages */
    const th_family *(*family)(int i);
    /* Compares the normal options of a model with the options that a file of candidate i has. Returns the number of
     * differences; -1 if such a file cannot be read, -2 without memory. It may use another context. */
    int (*differences)(int i, const th_language_model_options *model, th_option_difference difference[TH_MAX_OPTIONS]);
} th_candidates;

/* Returns the first candidate that expresses the options, or only that one if `only` is not -1. Otherwise returns -1 and
 * stores an error, which names the differences from the closest candidate. */
int th_choose(th_context *ctx, const char *asker, const th_candidates *candidates,
              const th_language_model_options *options, int only);

#endif
