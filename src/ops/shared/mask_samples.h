/* Macros for the samples of operations with a mask. REAL, INTEGERS and KEEP are one input each. The other macros are
 * the four inputs of a mask (valid_lengths, keep, additive, positions), of which at most one is given. */
#ifndef TH_OPS_SHARED_MASK_SAMPLES_H
#define TH_OPS_SHARED_MASK_SAMPLES_H

#include "tapehead/op.h"

#define REAL(...)                                                                                                      \
    {                                                                                                                  \
        .shape = TH_SIZES(__VA_ARGS__)                                                                                 \
    }
#define INTEGERS(least, past, ...)                                                                                     \
    {                                                                                                                  \
        .shape = TH_SIZES(__VA_ARGS__), .kind = TH_SAMPLE_INDEX, .low = (least), .high = (past)                        \
    }
#define KEEP(...)                                                                                                      \
    {                                                                                                                  \
        .shape = TH_SIZES(__VA_ARGS__), .kind = TH_SAMPLE_BOOL, .high = 0.8                                            \
    }

#define UNMASKED TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT
#define LENGTHS(...) INTEGERS(__VA_ARGS__), TH_ABSENT, TH_ABSENT, TH_ABSENT
#define KEEPS(...) TH_ABSENT, KEEP(__VA_ARGS__), TH_ABSENT, TH_ABSENT
#define ADDS(...) TH_ABSENT, TH_ABSENT, REAL(__VA_ARGS__), TH_ABSENT
#define POSITIONED(...) TH_ABSENT, TH_ABSENT, TH_ABSENT, INTEGERS(__VA_ARGS__)

#endif
