/* The option --precision of the programs of this folder: a name that th_precision_name returns. */
#ifndef BENCH_PRECISION_H
#define BENCH_PRECISION_H

#include <string.h>
#include <tapehead/tapehead.h>

#include "options.h"

/* The precisions that change products of all operands. TH_PRECISION_INT8 changes those of stored weights only. */
static const th_precision precisions[] = {TH_PRECISION_FLOAT32, TH_PRECISION_BFLOAT16X3, TH_PRECISION_BFLOAT16};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

/* Returns the precision with this name; ends the program if the name is unknown. */
static inline th_precision precision_named(const char *program, const char *name)
{
    for (int p = TH_PRECISION_FLOAT32; p <= TH_PRECISION_INT8; p++)
        if (strcmp(name, th_precision_name((th_precision)p)) == 0)
            return (th_precision)p;
    refuse(program, "--precision must be float32, bfloat16x3, bfloat16 or int8, not ", name);
    return TH_PRECISION_FLOAT32;
}

#endif
