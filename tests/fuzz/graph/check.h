/* The comparisons of a program's runs. */
#ifndef TESTS_FUZZ_GRAPH_CHECK_H
#define TESTS_FUZZ_GRAPH_CHECK_H

#include "run.h"

/* What does not hold for a program. */
typedef struct finding {
    char check[64]; /* "" without a finding */
    char text[640];
} finding;

/* Stores the first finding. Returns false. */
bool report(finding *f, const char *check, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* How two outcomes are compared. */
typedef struct comparison {
    const char *check;
    bool values, gradients;
    bool leaves_only;      /* no gradients of parameters; an omitted gradient is 0 */
    const char *axes;      /* only gradients of leaves with all of these axes; NULL: of all leaves and parameters */
    const outcome *spread; /* NULL: equal bits; otherwise differences up to those between spread[0] and spread[1] count
                              as rounding */
    double tolerance;      /* relative to the largest number */
    double factor;         /* of the other outcome's gradients */
} comparison;

/* Compares each array of `whole` with that of `part`, whose run is a part of the whole in setting s (NULL: all of it).
 * Returns false with a finding. */
bool same_outcomes(const program *p, const comparison *c, const outcome *whole, const outcome *part, const setting *s,
                   finding *f);

/* Returns whether a line draws random numbers: a second step has other ones. */
bool random_numbers(const program *p);

/* Each returns false with a finding. base: the outcome of the plain run. */
bool check_bits(const program *p, const outcome *base, finding *f);
bool check_sequences(const program *p, finding *f);
bool check_generation(const program *p, finding *f);
bool check_values(const program *p, const outcome *base, finding *f);

/* Runs all checks. Drops lines that the library refuses in every setting. */
bool check_program(program *p, finding *f);
/* Drops lines as long as the same check fails. */
void minimize(program *p, finding *f);

#endif
