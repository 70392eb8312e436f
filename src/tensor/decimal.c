/* Decimal digits of floating numbers. snprintf rounds correctly, but its decimal point depends on the locale, so only
 * its digits are used. */
#include "tensor/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 128, FLOAT_DIGITS = 9, DOUBLE_DIGITS = 17 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Copies at most max digits of text before the first 'e'. Returns the text from 'e' on, or its end. */
static const char *take_digits(const char *text, char *digits, size_t max)
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

/* Computes the fewest significant digits that convert back to value. *exponent is the power of ten of the first. */
static void shortest_digits(double value, bool single, char *digits, int *exponent)
{
    char text[TEXT];
    const int max = single ? FLOAT_DIGITS : DOUBLE_DIGITS;
    for (int count = 1; count <= max; count++) {
        snprintf(text, sizeof text, "%.*e", count - 1, fabs(value));
        if ((single ? (double)strtof(text, NULL) : strtod(text, NULL)) == fabs(value))
            break;
    }
    const char *rest = take_digits(text, digits, TH_DECIMAL_PART - 1);
    trim_zeros(digits + 1);
    *exponent = *rest ? atoi(rest + 1) : 0;
}

th_decimal th_decimal_positional(double value, bool single, int precision)
{
    th_decimal result = {.negative = signbit(value)};
    char digits[TH_DECIMAL_PART];
    int exponent;
    shortest_digits(value, single, digits, &exponent);
    const int count = (int)strlen(digits), places = count - 1 - exponent;
    if (precision >= 0 && places > precision) {
        char text[TEXT];
        snprintf(text, sizeof text, "%.*f", precision, fabs(value));
        take_digits(text, digits, TH_DECIMAL_PART - 1);
        const size_t whole = strlen(digits) - (size_t)precision;
        memcpy(result.whole, digits, whole);
        strcpy(result.fraction, digits + whole);
        trim_zeros(result.fraction);
        return result;
    }
    int whole = 0, fraction = 0;
    for (int power = exponent > 0 ? exponent : 0; power >= 0; power--) {
        const int at = exponent - power;
        result.whole[whole++] = at >= 0 && at < count ? digits[at] : '0';
    }
    for (int power = -1; exponent - power < count; power--) {
        const int at = exponent - power;
        result.fraction[fraction++] = at >= 0 ? digits[at] : '0';
    }
    trim_zeros(result.fraction);
    return result;
}

th_decimal th_decimal_scientific(double value, bool single, int precision)
{
    char digits[TH_DECIMAL_PART];
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
    char text[TEXT], all[TH_DECIMAL_PART];
    snprintf(text, sizeof text, "%.*e", digits, fabs(value));
    const char *rest = take_digits(text, all, TH_DECIMAL_PART - 1);
    const int exponent = *rest ? atoi(rest + 1) : 0;
    result.whole[0] = all[0];
    strcpy(result.fraction, all + 1);
    result.exponent_negative = exponent < 0;
    snprintf(result.exponent, sizeof result.exponent, "%02d", (exponent < 0 ? -exponent : exponent) % 1000);
    return result;
}
