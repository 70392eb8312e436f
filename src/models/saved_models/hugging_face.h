/* Shared by reading and writing folders of Hugging Face transformers. models/families knows the models in them. */
#ifndef TH_MODELS_SAVED_MODELS_HUGGING_FACE_H
#define TH_MODELS_SAVED_MODELS_HUGGING_FACE_H

#include "models/core/files.h"
#include "models/families/config.h"

/* Sets path to a file of the folder. Returns false with the error pending if the path is too long. */
bool th_hugging_face_path(th_context *ctx, const char *operation, const char *folder, const char *name,
                          char path[TH_MAX_PATH]);

/* Returns the first family that expresses the options, or only the given one; NULL with TH_ERROR_ARGUMENT pending. */
const th_family *th_hugging_face_family(th_context *ctx, const char *asker, const th_language_model_options *options,
                                        const th_family *only);

/* Reads config.json in a folder. The caller releases the options' arrays. */
th_status th_hugging_face_read_config(th_context *ctx, const char *operation, const char *folder,
                                      th_foreign_config *described);

#endif
