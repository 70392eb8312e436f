/* A table of all values, to compare the tape, the loops and the differences. */
#ifndef ATTENTION_BACKWARD_VALUES_H
#define ATTENTION_BACKWARD_VALUES_H

#include <stddef.h>

#include "loops.h"

enum kind { TOKENS, WEIGHT, PAIRS }; /* (T, E), (E, E), (H, T, T) */
enum { F, WQ, WK, WV, WO, Q, K, V, S, A, P, O, Y, VALUES, M = VALUES, TARGET, MATRICES };
extern const struct value {
    const char *name;
    size_t offset;
    enum kind kind;
    enum stage reader; /* the first stage that reads it: the computation restarts there after a change */
} values[MATRICES];

int rows_of(int which);
int columns_of(int which);
int blocks_of(int which); /* the number of matrices: one for each head, or one */
int count_of(int which);
/* Element i of a value in row-major order of its shape, i < count_of(which). */
double *element(struct numbers *n, int which, int i);
bool is_leaf(int which);
bool is_used(int which); /* whether the value is part of the computation that the command line selects */

/* -- gradients by central differences: changes each number, and recomputes the stages after it -- */
extern const double difference_step;
void central_differences(const struct numbers *n, struct numbers *g);

#endif
