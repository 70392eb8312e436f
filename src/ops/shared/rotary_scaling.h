/* Frequency scaling of rotary positions: its checks and its formulas, for the operation, the attention layer, the
 * exporter of the tape and the reader of config.json. */
#ifndef TH_OPS_SHARED_ROTARY_SCALING_H
#define TH_OPS_SHARED_ROTARY_SCALING_H

#include "private_api.h"
#include "tapehead/ops.h"

enum { TH_ROTARY_REASON = 160 };

/* Returns whether the scaling is valid for `width` rotated elements; if not, writes the reason. */
TH_PRIVATE_API bool th_rotary_scaling_usable(const th_rotary_scaling *scaling, double base, int64_t width,
                                             char reason[TH_ROTARY_REASON]);

/* Returns whether the frequencies depend on the length of the sequence. */
TH_PRIVATE_API bool th_rotary_depends_on_length(const th_rotary_scaling *scaling);

/* Writes the frequencies (width / 2) for a sequence of this length, in radians from one position to the next. */
TH_PRIVATE_API void th_rotary_frequencies(const th_rotary_scaling *scaling, double base, int64_t width, double length,
                                          double *frequency);

/* Returns the factor of cosines and sines. */
TH_PRIVATE_API double th_rotary_attention_factor(const th_rotary_scaling *scaling);

#endif
