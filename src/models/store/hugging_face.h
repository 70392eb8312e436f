/* What reading and writing models of Hugging Face transformers share: which of the two architectures a model is, and
 * how things are called there. */
#ifndef TH_MODELS_STORE_HUGGING_FACE_H
#define TH_MODELS_STORE_HUGGING_FACE_H

#include "tapehead/language_model.h"
#include "tapehead/safetensors.h"

typedef enum th_architecture { TH_GPT2, TH_LLAMA } th_architecture;

enum { TH_MAX_FOLDER = 4096 };

/* A file of the folder, into path (of TH_MAX_FOLDER bytes). false with the error stored: the name is too long. */
bool th_hugging_face_path(th_context *ctx, const char *operation, const char *folder, const char *name, char *path);

/* -- config.json (hugging_face_config.c) -- */
/* What config.json describes. */
typedef struct th_foreign_config {
    th_architecture architecture;
    th_language_model_options options;
    int64_t end_token; /* -1: none */
} th_foreign_config;

th_status th_hugging_face_read_config(th_context *ctx, const char *operation, const char *folder,
                                      th_foreign_config *described);

/* -- names (hugging_face_names.c) -- */
/* All tensors of a model under the names that its architecture has for them, in the order of its parameters. Each is a
 * view of a parameter: whole, transposed, or some of its rows; the views belong to the open scope. */
typedef struct th_foreign_tensors {
    th_named_tensor *tensor;
    int64_t count;
    size_t bytes; /* of the memory */
} th_foreign_tensors;

/* TH_ERROR_ARGUMENT for a parameter that the architecture has no name for. */
th_status th_foreign_tensors_list(th_module *model, th_architecture architecture, const char *operation,
                                  th_foreign_tensors *list);
void th_foreign_tensors_free(th_context *ctx, th_foreign_tensors *list);
/* The part of their names that a file may leave out: "transformer." */
const char *th_foreign_prefix(th_architecture architecture);
/* How transformers calls an activation; and which one a name means: false when it is none of ours. */
const char *th_activation_name(th_activation activation);
bool th_activation_find(const char *name, th_activation *activation);
/* The same of the ways of scaling rotary positions, which are called rope_type there. */
const char *th_rotary_scaling_name(th_rotary_scaling_kind kind);
bool th_rotary_scaling_find(const char *name, th_rotary_scaling_kind *kind);

#endif
