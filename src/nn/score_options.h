/* Copies of the arrays that th_score_options points to. A layer or model that stores options owns such copies. */
#ifndef TH_NN_SCORE_OPTIONS_H
#define TH_NN_SCORE_OPTIONS_H

#include "private_api.h"
#include "tapehead/layers.h"

/* Replaces the arrays by copies. After an error the options have no arrays. Options that no layer uses may be invalid.
 */
th_status th_score_options_copy(th_context *ctx, th_score_options *scores, const char *operation);

/* Replaces the arrays, copied before, by copies that live as long as the nodes of the tape: backward reads them, also after
 * the layer is freed. Returns false with an error pending. */
bool th_score_factors_on_tape(th_context *ctx, th_rotary_scaling *scaling, const char *operation);

/* Releases the arrays: one block of th_allocate with the short factors, then the long ones. */
TH_PRIVATE_API void th_score_options_release(th_context *ctx, th_score_options *scores);

#endif
