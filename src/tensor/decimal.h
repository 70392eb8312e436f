/* Decimal digits of floating numbers, as NumPy writes them: the fewest digits that convert back to the same number,
 * correctly rounded to a precision if one is given. The locale has no influence. */
#ifndef TH_TENSOR_DECIMAL_H
#define TH_TENSOR_DECIMAL_H

#include <stdbool.h>

#include "private_api.h"

enum { TH_DECIMAL_DIGITS = 64, TH_MAX_PRECISION = 24 };

/* The parts of a number: -1.25e-07 is negative, with whole "1", fraction "25", exponent "07" and exponent_negative.
 * The fraction has no trailing zeros. */
typedef struct th_decimal {
    bool negative, exponent_negative;
    char whole[TH_DECIMAL_DIGITS], fraction[TH_DECIMAL_DIGITS];
    char exponent[8]; /* at least two digits; "" in positional notation */
} th_decimal;

/* Converts a finite value to positional notation. Its magnitude must be below 1e17. single: the value is a float32.
 * precision is the maximum number of digits in the fraction, at most TH_MAX_PRECISION; negative: no maximum. */
TH_PRIVATE_API th_decimal th_decimal_positional(double value, bool single, int precision);
/* Converts a finite value to scientific notation. single and precision as above. */
TH_PRIVATE_API th_decimal th_decimal_scientific(double value, bool single, int precision);
/* Converts to scientific notation with exactly `digits` digits in the fraction, of the exact value: the float32 0.1
 * with 8 digits is 1.00000001e-01. */
th_decimal th_decimal_exact(double value, int digits);

#endif
