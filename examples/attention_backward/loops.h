/* The numbers of attention on three tokens, and what computes them in plain loops (loops.c, the file to read).
 *
 * T tokens, queries and keys alike; D head size; H heads; E = H D. Indices: t query, s key, h head, d column of a head,
 * i and j columns of E. */
#ifndef ATTENTION_BACKWARD_LOOPS_H
#define ATTENTION_BACKWARD_LOOPS_H

#include <stdbool.h>

enum { T = 3, D = 2, MAX_HEADS = 2, SIZE = D * MAX_HEADS };
typedef double matrix[SIZE][SIZE]; /* as much of it as its shape says */

/* Every number between the input and the loss. Gradients have the shapes of their values: they are another of these. */
struct numbers {
    matrix x, wq, wk, wv, wo;  /* x (T, E), weights (E, E): only with two heads, else q, k and v are the input */
    matrix q, k, v;            /* (T, E), head h in the columns from h D */
    matrix s[MAX_HEADS];       /* (T, T) scores */
    matrix a[MAX_HEADS];       /* (T, T) weights */
    matrix m[MAX_HEADS];       /* (T, T) dropout's factors: 0 or 1 / (1 - p), a constant */
    matrix dropped[MAX_HEADS]; /* (T, T) a * m, written Ã */
    matrix o, y;               /* (T, E), y after the output projection */
    matrix target;             /* (T, E), a constant */
};

/* What is computed, as the command line says. */
extern int heads;
extern bool causal;
extern double dropout;

/* The stages of the forward. */
enum stage { PROJECT, SCORE, SOFTMAX, DROP, MIX, MERGE, LOSS };

/* The loss, everything from this stage on recomputed. */
double forward_from(enum stage first, struct numbers *n);
/* n holds the values, g, all zeros, receives the gradients. */
void backward(const struct numbers *n, struct numbers *g);
/* One stage alone: head h of a from head h of s. */
void softmax(struct numbers *n, int h);

#endif
