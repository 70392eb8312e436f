/* Compares a file with the language model that its settings describe, before such a model takes memory. A few bytes of
 * settings can describe a model of any size. */
#ifndef TH_MODELS_SAVED_MODELS_SHAPES_FIRST_H
#define TH_MODELS_SAVED_MODELS_SHAPES_FIRST_H

#include "models/saved_models/safetensors.h"
#include "tapehead/language_model.h"

/* Compares the file with a model that has shapes only. Stores what differs in the context of the file. */
typedef void th_compare_shapes(th_module *model, void *user);

/* Makes the model of the options with shapes only, calls compare with it, and frees it. Errors are pending in the
 * context of the file; more layers than the file has tensors are TH_ERROR_FILE. Options that no model can have are not
 * reported: making the real model reports them. path is the name of the file in messages. */
th_status th_shapes_first(const th_safetensors *file, const th_language_model_options *options, const char *path,
                          const char *operation, th_compare_shapes *compare, void *user);

#endif
