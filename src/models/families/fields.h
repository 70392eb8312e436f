/* Reads single fields of config.json. A missing field, or one that is null, has a default. */
#ifndef TH_MODELS_FAMILIES_FIELDS_H
#define TH_MODELS_FAMILIES_FIELDS_H

#include "models/families/family.h"
#include "models/files/json.h"

enum { TH_CONFIG_MAX_SIZE = INT32_MAX, TH_CONFIG_MAX_LAYERS = 4096 };

/* Of config.json and generation_config.json. */
extern const th_json_limits th_config_limits;

typedef struct th_config {
    th_json_source source;
    const json_t *object; /* the fields: of the whole file, or of one of its members */
} th_config;

/* Whether the field exists and is not null. */
bool th_config_is_given(const th_config *c, const char *key);
/* Sets TH_ERROR_FILE: a sentence that contains %s, and the detail for it, which is quoted. */
void th_config_refuse(const th_config *c, const char *sentence, const char *detail) TH_FORMAT(2, 0);
/* Sets TH_ERROR_FILE: a sentence. Texts from the file must be quoted. */
void th_config_fail(const th_config *c, const char *sentence, ...) TH_FORMAT(2, 3);

/* Each returns the field's value, or `default_value`. A value of another type or range is an error. */
int64_t th_config_integer(const th_config *c, const char *key, int64_t lowest, int64_t default_value);
double th_config_number(const th_config *c, const char *key, double default_value);
double th_config_number_in(const th_config *c, const char *key, th_range range, double default_value);
bool th_config_flag(const th_config *c, const char *key, bool default_value);
const char *th_config_string(const th_config *c, const char *key, const char *default_value);
/* Returns a member that must be an object or null; NULL if it is missing, null or empty. */
const json_t *th_config_object(const th_config *c, const char *key);

/* -- the fields of a family -- */

/* Sets the options that the family's fields describe. */
void th_fields_read(const th_config *c, const th_family *family, th_language_model_options *options);

/* Returns transformers' name of an activation; `usual` if that is another name of it. */
const char *th_activation_name(th_activation activation, const char *usual);
/* Finds the activation of a name. Returns false if the library does not have it. */
bool th_activation_find(const char *name, th_activation *activation);

#endif
