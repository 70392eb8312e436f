/* Copies of the arrays that th_score_options points to. A layer or model that stores options owns such copies. */
#ifndef TH_NN_SCORE_OPTIONS_H
#define TH_NN_SCORE_OPTIONS_H

#include "private_api.h"
#include "tapehead/layers.h"

/* Replaces the arrays by copies. After an error the options have no arrays. Options that no layer uses may be invalid.
 */
th_status th_score_options_copy(th_context *ctx, th_score_options *scores, const char *operation);

/* Releases the arrays: one block of th_allocate with the short factors, then the long ones. */
TH_PRIVATE_API void th_score_options_release(th_context *ctx, th_score_options *scores);

#endif
