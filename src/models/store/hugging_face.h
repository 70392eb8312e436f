/* Shared by reading and writing models of Hugging Face transformers: the two architectures, and the names that
 * transformers uses. */
#ifndef TH_MODELS_STORE_HUGGING_FACE_H
#define TH_MODELS_STORE_HUGGING_FACE_H

#include "models/core.h"
#include "tapehead/language_model.h"
#include "tapehead/safetensors.h"

typedef enum th_architecture { TH_GPT2, TH_LLAMA } th_architecture;

/* Sets path to a file of the folder. Returns false with the error stored if the path is too long. */
bool th_hugging_face_path(th_context *ctx, const char *operation, const char *folder, const char *name,
                          char path[TH_MAX_PATH]);

/* -- config.json (hugging_face_config.c) -- */
enum { TH_MAX_END_TOKENS = 64 };

/* The contents of config.json. */
typedef struct th_foreign_config {
    th_architecture architecture;
    th_language_model_options options;
    int64_t end_token;                     /* the first of the list, -1: none, or outside the vocabulary */
    int64_t end_tokens[TH_MAX_END_TOKENS]; /* all that are inside the vocabulary */
    int n_end_tokens;
} th_foreign_config;

/* Reads config.json in a folder. The caller releases the options' arrays. */
th_status th_hugging_face_read_config(th_context *ctx, const char *operation, const char *folder,
                                      th_foreign_config *described);
/* Releases the arrays that the options point to. */
void th_foreign_config_release(th_context *ctx, th_foreign_config *described);

/* -- names (hugging_face_names.c) -- */
/* All tensors of a model under the architecture's names, in the order of the model's parameters. Each is a view of a
 * parameter: whole, transposed, or some of its rows. The views belong to the open scope. */
typedef struct th_foreign_tensors {
    th_named_tensor *tensor;
    int64_t count;
    size_t bytes; /* of the memory */
} th_foreign_tensors;

/* Lists the tensors. TH_ERROR_ARGUMENT if the architecture has no name for a parameter. */
th_status th_foreign_tensors_list(th_module *model, th_architecture architecture, const char *operation,
                                  th_foreign_tensors *list);
/* Releases the list; the views belong to the scope. */
void th_foreign_tensors_free(th_context *ctx, th_foreign_tensors *list);
/* Returns the prefix of names that a file may omit: "transformer." */
const char *th_foreign_prefix(th_architecture architecture);
/* Returns transformers' name of an activation. */
const char *th_activation_name(th_activation activation);
/* Finds the activation of a name. Returns false if the library does not have it. */
bool th_activation_find(const char *name, th_activation *activation);
/* Returns transformers' name (rope_type) of a kind of rotary scaling. */
const char *th_rotary_scaling_name(th_rotary_scaling_kind kind);
/* Finds the kind of rotary scaling of a name. Returns false if the library does not have it. */
bool th_rotary_scaling_find(const char *name, th_rotary_scaling_kind *kind);

#endif
