/* Layers whose attention differs: windows, and layers without rotary positions. */
#ifndef TH_MODELS_FAMILIES_LAYERS_H
#define TH_MODELS_FAMILIES_LAYERS_H

#include "models/families/fields.h"
#include "models/families/writer.h"

/* Sets block.scores, other_scores and other_layers. options has everything else, also the members of block.scores that
 * all layers have. th_layers_release releases the arrays. */
void th_layers_read(const th_config *c, const th_family *family, th_language_model_options *options);
/* Releases the arrays that the options own. */
void th_layers_release(th_context *ctx, th_language_model_options *options);
/* Writes the fields that describe the scores of all layers. options is normal (options.h). */
void th_layers_write(th_writer *w, const th_family *family, const th_language_model_options *options);

#endif
