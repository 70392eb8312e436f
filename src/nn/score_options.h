/* Copies of the arrays that th_score_options points to. A layer or a model owns the copies in its options. */
#ifndef TH_NN_SCORE_OPTIONS_H
#define TH_NN_SCORE_OPTIONS_H

#include "private_api.h"
#include "tapehead/layers.h"

/* Calls M(kind, member) for each member of th_score_options that only rotary positions use. th_module_option defines
 * the kinds. */
#define TH_ROTARY_OPTIONS(M)                                                                                           \
    M(CHOICE, rotary_pairing), M(REAL, rotary_base), M(INTEGER, rotary_width), M(CHOICE, rotary_scaling.kind),         \
        M(REAL, rotary_scaling.factor), M(REAL, rotary_scaling.low_freq_factor),                                       \
        M(REAL, rotary_scaling.high_freq_factor), M(INTEGER, rotary_scaling.original_length),                          \
        M(REAL, rotary_scaling.attention_factor), M(REAL, rotary_scaling.beta_fast),                                   \
        M(REAL, rotary_scaling.beta_slow), M(REAL, rotary_scaling.mscale), M(REAL, rotary_scaling.mscale_all_dim),     \
        M(FLAG, rotary_scaling.no_truncate), M(INTEGER, rotary_scaling.n_factors)

/* Replaces the arrays by copies that the options own. Removes them if the options do not use them, and after an
 * error. */
th_status th_score_options_own_arrays(th_context *ctx, th_score_options *options, const char *operation);

/* Replaces the arrays of th_score_options_own_arrays by copies in the memory of the tape's nodes. Backward reads
 * them, even after the layer is freed. Returns false with an error pending. */
bool th_score_factors_copy_to_tape(th_context *ctx, th_rotary_scaling *scaling, const char *operation);

/* Releases the arrays: one block of th_allocate with the short factors, then the long ones. */
TH_PRIVATE_API void th_score_options_release(th_context *ctx, th_score_options *options);

#endif
