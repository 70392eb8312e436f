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
static inline th_precision parse_precision(const char *program, const char *word)
{
    th_precision precision = TH_PRECISION_FLOAT32;
    if (!find_precision(word, &precision))
        refuse(program, "--precision takes float32, bfloat16x3, bfloat16 or int8, not ", word);
    return precision;
}

/* Says that int8 changes nothing if no weight of the model is stored in blocks of 8 or 4 bits. advice: what to do, or
 * "". Returns whether it changes nothing. */
static inline bool note_int8(const char *program, const th_module *model, const char *advice)
{
    if (th_precision_of(model->ctx) != TH_PRECISION_INT8 || started_rank() > 0)
        return false;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_dtype_of(p.tensor) == TH_Q8_0 || th_dtype_of(p.tensor) == TH_Q4_0)
            return false;
    fprintf(
        stderr,
        "%s: --precision int8 changes nothing here: no weight is stored as q8_0 or q4_0, so products are float32%s\n",
        program, advice);
    return true;
}

/* Writes what the context's precision costs here, such as "bfloat16 takes 1.2 times as long as float32 on this
 * processor", to text. Returns false for float32, which needs no such line, and if it cannot be measured. */
static inline bool spell_precision_time(th_context *ctx, char *text, size_t size)
{
    const th_precision precision = th_precision_of(ctx);
    const double time = precision == TH_PRECISION_FLOAT32 ? 0 : th_precision_time(ctx, precision);
    snprintf(text, size, "%s takes %.1f times as long as float32 on this processor%s", th_precision_name(precision),
             time, precision == TH_PRECISION_INT8 ? ", for one token and weights in q8_0" : "");
    return time > 0;
}

/* Prints the text of spell_precision_time above the progress line, except for int8, which changes nothing in training.
 * bar: NULL in a program that prints nothing. */
static inline void note_precision_time(th_context *ctx, th_progress *bar)
{
    char text[128];
    if (bar && th_precision_of(ctx) != TH_PRECISION_INT8 && spell_precision_time(ctx, text, sizeof text))
        th_progress_note(bar, "%s", text);
}

/* Returns text for the last line of a program: "precision=bfloat16 ", or "" for the default. */
static inline const char *spell_precision(th_precision precision)
{
    static char field[32];
    snprintf(field, sizeof field, "precision=%s ", th_precision_name(precision));
    return precision == TH_PRECISION_FLOAT32 ? "" : field;
}

#endif
