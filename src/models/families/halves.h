/* The same attention with another pairing of rotary positions. */
#ifndef TH_MODELS_FAMILIES_HALVES_H
#define TH_MODELS_FAMILIES_HALVES_H

#include "models/core.h"
#include "tapehead/language_model.h"

/* Returns the parameter as it is for rotary positions that rotate halves. If the layer rotates neighbors, and the
 * parameter projects or normalizes queries or keys, this is a copy that belongs to the scope. Otherwise it is the
 * parameter. */
th_tensor *th_halves_of(const th_parameter_iterator *parameter, const th_language_model_options *options);

#endif
