/* Rotary frequencies as th_rotary_scaling changes them, and what such a scaling must be: the operation, the attention
 * layer and the reader of config.json ask here. */
#ifndef TH_OPS_SHARED_ROTARY_SCALING_H
#define TH_OPS_SHARED_ROTARY_SCALING_H

#include "private_api.h"
#include "tapehead/ops.h"

enum { TH_ROTARY_TROUBLE = 160 };
/* Whether it can be used; otherwise trouble says why not. */
TH_PRIVATE_API bool th_rotary_scaling_usable(const th_rotary_scaling *scaling, char trouble[TH_ROTARY_TROUBLE]);
/* What becomes of a frequency, in radians from one position to the next. */
double th_rotary_scaled(const th_rotary_scaling *scaling, double frequency);

#endif
