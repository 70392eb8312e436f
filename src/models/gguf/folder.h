/* GGUF files in place of folders of transformers. The functions that read a model, its options, its tokenizer or its
 * chat template from a folder also take the path of a GGUF file. */
#ifndef TH_MODELS_GGUF_FOLDER_H
#define TH_MODELS_GGUF_FOLDER_H

#include <jansson.h>

#include "tapehead/hugging_face.h"
#include "tapehead/sentence_embedding.h"
#include "tapehead/tokenizer.h"

struct th_foreign_config;

/* Whether the path is a regular file that begins with "GGUF". */
bool th_gguf_is_file(const char *path);
/* Reads the options and the end token. th_foreign_config_release releases the arrays. */
th_status th_gguf_describe(th_context *ctx, const char *operation, const char *path,
                           struct th_foreign_config *described);
/* Returns the model; NULL with the error pending. */
th_module *th_gguf_load_as_folder(th_context *ctx, const char *operation, const char *path,
                                  const th_folder_load_options *options);
/* Reads the weights into a model. */
th_status th_gguf_load_into(th_module *model, const char *operation, const char *path);
/* Appends the chat template to jinja, and the one for conversations with tools to tool_jinja, if the file has them. Sets
 * *begin and *end to the texts of the tokens that begin and end a text; NULL: the file has no such token. The caller
 * releases them with json_decref. */
th_status th_gguf_read_chat(th_context *ctx, const char *path, th_text *jinja, th_text *tool_jinja, json_t **begin,
                            json_t **end);
/* Sets the options of sentence embeddings: the pooling, and the model's length. */
th_status th_gguf_read_sentence(th_context *ctx, const char *operation, const char *path, th_sentence_options *options);

#endif
