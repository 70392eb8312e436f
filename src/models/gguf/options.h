/* The options of a language model and the values of a GGUF file. */
#ifndef TH_MODELS_GGUF_OPTIONS_H
#define TH_MODELS_GGUF_OPTIONS_H

#include "models/gguf/architecture.h"
#include "models/gguf/file.h"
#include "models/gguf/writer.h"

/* Returns the file's architecture; NULL with the error pending if it is not supported. */
const th_gguf_architecture *th_gguf_architecture_of(const th_gguf *file);
/* Reads the options. th_options_release releases their arrays. A value that is not known is TH_ERROR_FILE. */
th_status th_gguf_read_options(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *options);
/* Reads the positions of layers: rotary base and scaling, windows, layers without rotary positions. options has all
 * sizes. */
void th_gguf_read_positions(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *options);
/* Writes the values that th_gguf_read_options reads. options is normal. */
void th_gguf_write_options(th_gguf_writer *w, const th_gguf_architecture *a, const th_language_model_options *options);

/* Names of tensors with a factor for each pair of rotary positions: TH_GGUF_ONE_FACTOR; short and long. */
#define TH_GGUF_FREQUENCIES "rope_freqs.weight"
#define TH_GGUF_SHORT "rope_factors_short.weight"
#define TH_GGUF_LONG "rope_factors_long.weight"

/* Whether the scaling is stored as tensors of factors. */
bool th_gguf_has_factors(const th_gguf_architecture *a, const th_rotary_scaling *scaling);

#endif
