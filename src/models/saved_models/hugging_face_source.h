/* A folder of transformers from which weights are read: its config.json and its open files. hugging_face_load.c reads
 * into a model, hugging_face_model.c makes one. */
#ifndef TH_MODELS_SAVED_MODELS_HUGGING_FACE_SOURCE_H
#define TH_MODELS_SAVED_MODELS_HUGGING_FACE_SOURCE_H

#include "models/families/tensors.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/safetensors.h"
#include "tapehead/hugging_face.h"

/* The files, and the settings for reading them. */
typedef struct th_folder_source {
    th_context *ctx;
    const char *operation, *folder;
    th_foreign_config config;
    th_safetensors *file;
    th_pretrained_load_options given;
    bool new_head; /* the model has another classifier or head than the file, which may lack its tensors */
} th_folder_source;

/* Reads config.json and opens the weights. Returns false with the error pending. */
bool th_folder_open(th_folder_source *s);
/* Closes what is open, also after th_folder_open has failed. */
void th_folder_close(th_folder_source *s);
/* Checks the options that shapes do not show against config.json. TH_ERROR_ARGUMENT. */
th_status th_folder_check_options(const th_folder_source *s, const th_language_model_options *given);

/* Lists the tensors of model under the file's names. */
th_status th_folder_list(const th_folder_source *s, th_module *model, th_foreign_tensors *list);
/* Does the same, and checks that the file has all of them and no others. Reports differences, and sorts the list. The
 * list has to be freed after an error too. */
th_status th_folder_match(const th_folder_source *s, th_module *model, th_foreign_tensors *list);
/* Reads the values of all parameters, after th_folder_match. Errors stay pending. */
void th_folder_read(const th_folder_source *s, th_module *model);
/* If config.json says that embedding and classifier are tied and the file has both, checks that they are equal. */
void th_folder_check_tied(const th_folder_source *s, th_tensor *embedding);

#endif
