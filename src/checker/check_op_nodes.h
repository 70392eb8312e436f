/* The nodes around an operation in the graph of th_check_op. Views lay its operands out, copies make results of leaves,
 * and probes have known gradients. */
#ifndef TH_CHECKER_CHECK_OP_NODES_H
#define TH_CHECKER_CHECK_OP_NODES_H

#include "tapehead/op.h"

/* The memory layout of an operand: row-major; the last two axes exchanged, with gaps; the same without gaps. */
typedef enum th_layout { TH_LAYOUT_PLAIN, TH_LAYOUT_GAPS, TH_LAYOUT_EXCHANGED, TH_LAYOUTS } th_layout;

/* Returns a tensor that th_operand_view turns into x in this layout. Frees x, unless it returns x. NULL with the error
 * pending. */
th_tensor *th_operand_base(th_tensor *x, th_layout layout);
/* Returns the view of a base in this layout. */
th_tensor *th_operand_view(th_tensor *base, th_layout layout);

/* y = x, in the layout of x. */
extern const th_op th_op_check_copy;

/* A probe is y = factor * sum over all inputs x and their elements of c x. */
enum { TH_MAX_PROBED = TH_MAX_SAMPLE_INPUTS + 2 * TH_MAX_OUTPUTS + 1 };

typedef struct th_probe_attributes {
    double factor;
    const double *c[TH_MAX_PROBED]; /* [elements of input i], row-major; NULL: 1 for each */
    int half[TH_MAX_PROBED];        /* 1: elements 0, 2, ... have the factor 0; 2: elements 1, 3, ... */
} th_probe_attributes;

/* The inputs of a probe, and their constants. */
typedef struct th_probe {
    th_tensor *input[TH_MAX_PROBED];
    th_probe_attributes attributes;
    int count;
} th_probe;

/* Adds an input with its constants; half: see th_probe_attributes. */
void th_probe_add(th_probe *p, th_tensor *t, const double *c, int half);
/* Applies the probe to its inputs. */
th_tensor *th_probe_apply(const th_probe *p);

#endif
