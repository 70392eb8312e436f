/* Rotary positions in config.json: their base, their scaling, and the part of each head that is rotated. */
#ifndef TH_MODELS_FAMILIES_ROTARY_H
#define TH_MODELS_FAMILIES_ROTARY_H

#include "models/families/fields.h"
#include "models/families/writer.h"

/* Sets the rotary members of the scores of layers with or without a window. options has the sizes. The scaling may own
 * arrays that th_score_options_release releases. */
void th_rotary_read(const th_config *c, const th_family *family, const th_language_model_options *options, bool window,
                    th_score_options *scores);

/* Writes the rotary members of layers without a window, and of layers with one. They differ only in some families. */
void th_rotary_write(th_writer *w, const th_family *family, int64_t head_width, const th_score_options *full,
                     const th_score_options *window);

/* Returns transformers' name (rope_type) of a kind of scaling. */
const char *th_rotary_scaling_name(th_rotary_scaling_kind kind);
/* Finds the kind of scaling of a name. Returns false if the library does not have it. */
bool th_rotary_scaling_find(const char *name, th_rotary_scaling_kind *kind);

/* Returns the base of layers with or without a window if config.json does not have it. */
double th_rotary_usual_base(const th_family *family, bool window);

#endif
