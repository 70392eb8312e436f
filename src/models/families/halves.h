/* The same attention with another pairing of rotary positions. */
#ifndef TH_MODELS_FAMILIES_HALVES_H
#define TH_MODELS_FAMILIES_HALVES_H

#include "models/core.h"
#include "tapehead/language_model.h"

/* The leading rows of a tensor whose order changes: queries, keys, or both. */
typedef struct th_halves {
    int64_t rows; /* 0: none */
    int64_t head_width, rotated;
} th_halves;

/* Returns which rows of a parameter change. There are some if the layer rotates neighbors, and the parameter projects or
 * normalizes queries or keys. */
th_halves th_halves_of(const th_parameter_iterator *parameter, const th_language_model_options *options);
/* Returns the tensor as it is for rotary positions that rotate halves: a copy that belongs to the scope, or t itself if
 * no row changes. */
th_tensor *th_halves_order(th_tensor *t, const th_halves *halves);

#endif
