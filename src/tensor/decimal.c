/* Decimal digits of floating numbers. snprintf rounds correctly, but its decimal point depends on the locale, so only
 * its digits are used. */
#include "tensor/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 128, FLOAT_DIGITS = 9, DOUBLE_DIGITS = 17 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Copies at most max digits of text before the first 'e'. Returns the text from 'e' on, or its end. */
static const char *copy_digits(const char *text, char *digits, size_t max)
{
    size_t count = 0;
    for (; *text && *text != 'e'; text++)
        if (is_digit(*text) && count < max)
            digits[count++] = *text;
    digits[count] = 0;
    return text;
}

static void trim_zeros(char *fraction)
{
    for (size_t n = strlen(fraction); n > 0 && fraction[n - 1] == '0'; n--)
        fraction[n - 1] = 0;
}

/* Computes the fewest significant digits that convert back to value. *exponent becomes the first digit's power of
 * ten. */
static void shortest_digits(double value, bool single, char *digits, int *exponent)
{
    char text[TEXT_BYTES];
    const int max = single ? FLOAT_DIGITS : DOUBLE_DIGITS;
    for (int count = 1; count <= max; count++) {
        snprintf(text, sizeof text, "%.*e", count - 1, fabs(value));
        if ((single ? (double)strtof(text, NULL) : strtod(text, NULL)) == fabs(value))
            break;
    }
    const char *rest = copy_digits(text, digits, TH_DECIMAL_DIGITS - 1);
    trim_zeros(digits + 1);
    *exponent = *rest ? atoi(rest + 1) : 0;
}

th_decimal th_decimal_positional(double value, bool single, int precision)
{
    th_decimal result = {.negative = signbit(value)};
    char digits[TH_DECIMAL_DIGITS];
    int exponent;
    shortest_digits(value, single, digits, &exponent);
    const int count = (int)strlen(digits), fraction_digits = count - 1 - exponent;
    if (precision >= 0 && fraction_digits > precision) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "%.*f", precision, fabs(value));
        copy_digits(text, digits, TH_DECIMAL_DIGITS - 1);
        const size_t whole = strlen(digits) - (size_t)precision;
        memcpy(result.whole, digits, whole);
        strcpy(result.fraction, digits + whole);
        trim_zeros(result.fraction);
        return result;
    }
    int whole = 0, fraction = 0;
    for (int power = exponent > 0 ? exponent : 0; power >= 0; power--) {
        const int digit = exponent - power;
        result.whole[whole++] = digit >= 0 && digit < count ? digits[digit] : '0';
    }
    for (int power = -1; exponent - power < count; power--) {
        const int digit = exponent - power;
        result.fraction[fraction++] = digit >= 0 ? digits[digit] : '0';
    }
    trim_zeros(result.fraction);
    return result;
}

th_decimal th_decimal_scientific(double value, bool single, int precision)
{
    char digits[TH_DECIMAL_DIGITS];
    int exponent;
    shortest_digits(value, single, digits, &exponent);
    const int fraction = (int)strlen(digits) - 1;
    th_decimal result = th_decimal_exact(value, precision >= 0 && fraction > precision ? precision : fraction);
    trim_zeros(result.fraction);
    return result;
}

th_decimal th_decimal_exact(double value, int digits)
{
    th_decimal result = {.negative = signbit(value)};
    char text[TEXT_BYTES], mantissa[TH_DECIMAL_DIGITS];
    snprintf(text, sizeof text, "%.*e", digits, fabs(value));
    const char *rest = copy_digits(text, mantissa, TH_DECIMAL_DIGITS - 1);
    const int exponent = *rest ? atoi(rest + 1) : 0;
    result.whole[0] = mantissa[0];
    strcpy(result.fraction, mantissa + 1);
    result.exponent_negative = exponent < 0;
    snprintf(result.exponent, sizeof result.exponent, "%02d", (exponent < 0 ? -exponent : exponent) % 1000);
    return result;
}
