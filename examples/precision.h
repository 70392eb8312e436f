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

/* Says that int8 changes nothing if no weight of the model is stored in blocks of 8 or 4 bits. advice: what to do, or
 * "". */
static inline void note_int8(const char *program, const th_module *model, const char *advice)
{
    if (th_precision_of(model->ctx) != TH_PRECISION_INT8 || started_rank() > 0)
        return;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_dtype_of(p.tensor) == TH_Q8_0 || th_dtype_of(p.tensor) == TH_Q4_0)
            return;
    fprintf(
        stderr,
        "%s: --precision int8 changes nothing here: no weight is stored as q8_0 or q4_0, so products are float32%s\n",
        program, advice);
}

/* Returns text for the last line of a program: "precision=bfloat16 ", or "" for the default. */
static inline const char *spell_precision(th_precision precision)
{
    static char field[32];
    snprintf(field, sizeof field, "precision=%s ", th_precision_name(precision));
    return precision == TH_PRECISION_FLOAT32 ? "" : field;
}

#endif
