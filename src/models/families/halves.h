/* The same attention with another pairing of rotary positions. */
#ifndef TH_MODELS_FAMILIES_HALVES_H
#define TH_MODELS_FAMILIES_HALVES_H

#include "models/core.h"
#include "tapehead/language_model.h"

/* Returns the parameter; or, if it is a projection or norm of queries or keys in a layer whose rotary positions rotate
 * neighbors, a copy for rotary positions that rotate halves. The copy belongs to the scope. */
th_tensor *th_halves_of(const th_parameter_iterator *parameter, const th_language_model_options *options);

#endif
