/* Encoders in GGUF files: BERT's options, its head, and the pooling of sentence embeddings. */
#ifndef TH_MODELS_GGUF_ENCODER_H
#define TH_MODELS_GGUF_ENCODER_H

#include "models/gguf/architecture.h"
#include "models/gguf/file.h"
#include "models/gguf/writer.h"
#include "tapehead/sentence_embedding.h"

/* The head in GGUF files: a table that ends with {0}. */
extern const th_family_head th_gguf_heads[];

/* Reads what only encoders have. th_options_release releases the names of labels. */
void th_gguf_read_encoder(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *options);
/* Copies from the model what only tensors say. */
void th_gguf_copy_encoder(const th_language_model_options *model, th_language_model_options *read);
/* Writes what th_gguf_read_encoder reads. options is normal. */
void th_gguf_write_encoder(th_gguf_writer *w, const th_gguf_architecture *a, const th_language_model_options *options);

/* Checks that a file can describe the options. */
th_status th_gguf_check_sentence(th_context *ctx, const char *operation, const th_sentence_options *options);
/* Writes the pooling. sentence: NULL for none. */
void th_gguf_write_pooling(th_gguf_writer *w, const th_gguf_architecture *a, const th_language_model_options *options,
                           const th_sentence_options *sentence);

#endif
