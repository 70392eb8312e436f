/* Frequency scaling of rotary positions: its checks and its formula, for the operation, the attention layer and the
 * reader of config.json. */
#ifndef TH_OPS_SHARED_ROTARY_SCALING_H
#define TH_OPS_SHARED_ROTARY_SCALING_H

#include "private_api.h"
#include "tapehead/ops.h"

enum { TH_ROTARY_TROUBLE = 160 };

/* Returns whether the scaling is valid; if not, writes the reason to trouble. */
TH_PRIVATE_API bool th_rotary_scaling_usable(const th_rotary_scaling *scaling, char trouble[TH_ROTARY_TROUBLE]);
/* Returns the scaled frequency. Frequencies are in radians from one position to the next. */
double th_rotary_scaled(const th_rotary_scaling *scaling, double frequency);

#endif
