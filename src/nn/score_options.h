/* Copies of the arrays that th_score_options points to. A layer or model that stores options owns such copies. */
#ifndef TH_NN_SCORE_OPTIONS_H
#define TH_NN_SCORE_OPTIONS_H

#include "private_api.h"
#include "tapehead/layers.h"

/* The members of th_score_options that matter only with rotary positions: M(kind, member) for each. The kinds are
 * those of th_module_option. */
#define TH_ROTARY_OPTIONS(M)                                                                                           \
    M(CHOICE, rotary_pairing), M(REAL, rotary_base), M(INTEGER, rotary_width), M(CHOICE, rotary_scaling.kind),         \
        M(REAL, rotary_scaling.factor), M(REAL, rotary_scaling.low_freq_factor),                                       \
        M(REAL, rotary_scaling.high_freq_factor), M(INTEGER, rotary_scaling.original_length),                          \
        M(REAL, rotary_scaling.attention_factor), M(REAL, rotary_scaling.beta_fast),                                   \
        M(REAL, rotary_scaling.beta_slow), M(REAL, rotary_scaling.mscale), M(REAL, rotary_scaling.mscale_all_dim),     \
        M(FLAG, rotary_scaling.no_truncate), M(INTEGER, rotary_scaling.n_factors)

/* Replaces the arrays by copies. After an error the options have no arrays. Options that no layer uses may be invalid.
 */
th_status th_score_options_copy(th_context *ctx, th_score_options *options, const char *operation);

/* Replaces the arrays of th_score_options_copy by copies that live as long as the nodes of the tape. Backward reads
 * them, also after the layer is freed. Returns false with an error pending. */
bool th_score_factors_copy_to_tape(th_context *ctx, th_rotary_scaling *scaling, const char *operation);

/* Releases the arrays: one block of th_allocate with the short factors, then the long ones. */
TH_PRIVATE_API void th_score_options_release(th_context *ctx, th_score_options *options);

#endif
