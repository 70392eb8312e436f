/* The numbers of attention on three tokens, computed in plain loops (loops.c).
 *
 * T tokens (queries and keys); D head size; H heads; E = H D. Indices: t query, s key, h head, d column of a head,
 * i and j columns of E. */
#ifndef ATTENTION_BACKWARD_LOOPS_H
#define ATTENTION_BACKWARD_LOOPS_H

#include <stdbool.h>

enum { T = 3, D = 2, MAX_HEADS = 2, SIZE = D * MAX_HEADS };
typedef double matrix[SIZE][SIZE]; /* only the part that its shape selects is used */

/* Every number between the input and the loss. A second struct holds the gradients, which have the same shapes. */
struct numbers {
    matrix f, wq, wk, wv, wo; /* f (T, E), weights (E, E): only with two heads; otherwise q, k and v are the input */
    matrix q, k, v;           /* (T, E), head h in the columns from h D */
    matrix s[MAX_HEADS];      /* (T, T) scores: q times k / sqrt(D), without a soft cap */
    matrix a[MAX_HEADS];      /* (T, T) weights */
    matrix m[MAX_HEADS];      /* (T, T) dropout factors: 0 or 1 / (1 - p), a constant */
    matrix p[MAX_HEADS];      /* (T, T) a * m, written P */
    matrix o, y;              /* (T, E), y after the output projection */
    matrix target;            /* (T, E), a constant */
};

/* The computation that the command line selects. */
extern int heads;
extern bool causal;
extern double dropout;

/* The stages of the forward. */
enum stage { PROJECT, SCORE, SOFTMAX, DROP, MIX, MERGE, LOSS };

/* Recomputes all values from this stage on. Returns the loss. */
double forward_from(enum stage first, struct numbers *n);
/* Adds the gradients of the values n to g, which must be zero. */
void backward(const struct numbers *n, struct numbers *g);
/* One stage: computes head h of a from head h of s. */
void softmax(struct numbers *n, int h);

#endif
