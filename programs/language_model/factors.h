/* The factors of LongRoPE among the settings: numbers separated by spaces, with the digits that preserve every double. */
#ifndef EXAMPLES_LANGUAGE_MODEL_FACTORS_H
#define EXAMPLES_LANGUAGE_MODEL_FACTORS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_FACTORS = 160, FACTORS_TEXT = MAX_FACTORS * 25 };

/* Writes the factors to text, "" without any. Returns NULL if they do not fit. */
static inline const char *factors_to_text(const double *factors, int64_t count, char text[FACTORS_TEXT])
{
    int used = 0;
    text[0] = 0;
    if (count > MAX_FACTORS)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        used += snprintf(text + used, (size_t)(FACTORS_TEXT - used), "%s%.17g", i ? " " : "", factors[i]);
    return text;
}

/* Reads the factors of a text. Returns their number; -1 if the text is something else. */
static inline int64_t factors_from_text(const char *text, double factors[MAX_FACTORS])
{
    int64_t count = 0;
    for (char *end; *text; text = end) {
        const double factor = strtod(text, &end);
        if (end == text || count == MAX_FACTORS)
            return -1;
        factors[count++] = factor;
    }
    return count;
}

#endif
