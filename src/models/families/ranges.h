/* The ranges of real numbers in config.json and in GGUF files. They contain the numbers of all known models, and
 * exclude those with which float32 only gives zeros, infinities or NaN. */
#ifndef TH_MODELS_FAMILIES_RANGES_H
#define TH_MODELS_FAMILIES_RANGES_H

#include <stdbool.h>

typedef struct th_range {
    double low, high;
} th_range;

/* Initializers of a th_range. */
#define TH_EPS_RANGE                                                                                                   \
    {                                                                                                                  \
        1e-20, 1                                                                                                       \
    } /* epsilon of norms */
#define TH_CAP_RANGE                                                                                                   \
    {                                                                                                                  \
        1e-3, 1e6                                                                                                      \
    } /* soft caps */
#define TH_BASE_RANGE                                                                                                  \
    {                                                                                                                  \
        1, 1e15                                                                                                        \
    } /* base of rotary positions */
#define TH_PART_RANGE                                                                                                  \
    {                                                                                                                  \
        1e-6, 1                                                                                                        \
    } /* part of a head that is rotated */
#define TH_MULTIPLIER_RANGE                                                                                            \
    {                                                                                                                  \
        1e-6, 1e6                                                                                                      \
    } /* multipliers of the embedding, the scores, the branches and the logits */
#define TH_SCALING_RANGE                                                                                               \
    {                                                                                                                  \
        1e-6, 1e6                                                                                                      \
    } /* each number of the scaling of rotary positions */

static inline bool th_in_range(th_range range, double value) /* false for NaN */
{
    return value >= range.low && value <= range.high;
}

#endif
