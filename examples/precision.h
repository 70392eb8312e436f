/* The option --precision of the examples: the th_precision of matrix products. */
#ifndef EXAMPLES_PRECISION_H
#define EXAMPLES_PRECISION_H

#include <string.h>
#include <tapehead/tapehead.h>

#include "options.h"

#define PRECISION_HELP "of matrix products: float32, bfloat16x3, bfloat16 or int8"

/* Finds a precision by its name. Returns false for an unknown name. */
static inline bool find_precision(const char *word, th_precision *precision)
{
    for (int p = TH_PRECISION_FLOAT32; p <= TH_PRECISION_INT8; p++)
        if (strcmp(word, th_precision_name((th_precision)p)) == 0) {
            *precision = (th_precision)p;
            return true;
        }
    return false;
}

/* Returns a precision by its name. Ends the program for an unknown name. */
static inline th_precision precision_called(const char *program, const char *word)
{
    th_precision precision = TH_PRECISION_FLOAT32;
    if (!find_precision(word, &precision))
        refuse(program, "--precision takes float32, bfloat16x3, bfloat16 or int8, not ", word);
    return precision;
}

/* Returns text for the last line of a program: "precision=bfloat16 ", or "" for the default. */
static inline const char *spell_precision(th_precision precision)
{
    static char field[32];
    snprintf(field, sizeof field, "precision=%s ", th_precision_name(precision));
    return precision == TH_PRECISION_FLOAT32 ? "" : field;
}

#endif
