/* Reads and writes config.json of a family. */
#ifndef TH_MODELS_FAMILIES_CONFIG_H
#define TH_MODELS_FAMILIES_CONFIG_H

#include <stdio.h>

#include "models/families/family.h"

enum { TH_MAX_END_TOKENS = 64 };

/* The contents of config.json. */
typedef struct th_foreign_config {
    const th_family *family;
    bool has_pictures; /* the model is the text part of one that reads pictures: the files have other tensors too */
    th_language_model_options options;
    double head_dropout[TH_HEAD_SPANS + 1]; /* of a new head of each kind, as config.json has it; 0: it has none */
    int64_t end_token;                      /* the first one of the list; -1: none */
    int64_t end_tokens[TH_MAX_END_TOKENS];  /* all of them */
    int n_end_tokens;
} th_foreign_config;

/* Reads a config.json. The caller releases the options' arrays. */
th_status th_foreign_config_read(th_context *ctx, const char *operation, const char *path,
                                 th_foreign_config *described);
/* Reads the text of a config.json; `name` is its name in messages. */
th_status th_foreign_config_parse(th_context *ctx, const char *operation, const char *name, const char *text,
                                  size_t bytes, th_foreign_config *described);
/* Sets the options that depend on others, and resets options that are equivalent to a default. */
void th_family_complete(const th_family *family, th_language_model_options *options);
/* Releases the arrays that the options point to. */
void th_foreign_config_release(th_context *ctx, th_foreign_config *described);

/* Writes config.json for a model of the family. Omits options that the family does not have. begin_token and
 * end_token are -1 for none. type: transformers' name, for example "float32". */
void th_foreign_config_write(FILE *file, const th_family *family, const th_language_model_options *options,
                             int64_t begin_token, int64_t end_token, const char *type);

#endif
