/* Prints values and gradients, and compares them. */
#ifndef ATTENTION_BACKWARD_PRINT_H
#define ATTENTION_BACKWARD_PRINT_H

#include "values.h"

enum { TAPE, LOOPS, DIFFERENCE, WAYS }; /* how a gradient was computed */
extern int compared, wrong;

/* Compares element (row, column) of the matrix `name` in three versions, which must agree. NaN never agrees. */
void compare(const char *name, int row, int column, double tape, double loops, double difference);

/* Writes "S", or "S of head 1" if there are several heads; "dS" with the prefix "d". */
void name_matrix(char *name, size_t size, const char *prefix, int which, int block);

void show_forward(struct numbers *n, double loss);
/* gradient: [WAYS]; jacobian: of the softmax in head 0's last row, computed by the tape. */
void show_backward(struct numbers *n, struct numbers *gradient, matrix jacobian);

#endif
