/* A floating number in decimal digits as NumPy writes them: the fewest digits that read back as the same number, cut
 * (with correct rounding) at a precision. Independent of the locale. */
#ifndef TH_TENSOR_DECIMAL_H
#define TH_TENSOR_DECIMAL_H

#include <stdbool.h>

#include "private_api.h"

enum { TH_DECIMAL_PART = 64, TH_MAX_PRECISION = 24 };

/* -1.25e-07 is negative, whole "1", fraction "25", exponent "07" and negative; no trailing zeros in the fraction. */
typedef struct th_decimal {
    bool negative, exponent_negative;
    char whole[TH_DECIMAL_PART], fraction[TH_DECIMAL_PART];
    char exponent[8]; /* at least two digits; "" in positional notation */
} th_decimal;

/* value is finite; single: it is a float32. precision <= TH_MAX_PRECISION counts digits of the fraction; negative: as
 * many as it takes. Positional notation is for magnitudes below 1e17. */
TH_PRIVATE_API th_decimal th_decimal_positional(double value, bool single, int precision);
TH_PRIVATE_API th_decimal th_decimal_scientific(double value, bool single, int precision);
/* Scientific notation with exactly `digits` digits in the fraction, of the number itself: 0.1 as float32
 * is 1.00000001e-01. */
th_decimal th_decimal_exact(double value, int digits);

#endif
