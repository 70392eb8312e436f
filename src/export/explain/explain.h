/* One element of a gradient as a sum (th_tape_explain). explain.c goes through the nodes that contribute to it;
 * terms.c splits a node's contribution into terms; factor.c knows the factors of products. */
#ifndef TH_EXPORT_EXPLAIN_H
#define TH_EXPORT_EXPLAIN_H

#include "export/listing.h"

/* An element of an operand: its index along each axis. */
typedef struct th_element {
    int64_t index[TH_MAX_DIMS];
} th_element;

/* Returns an element of an array, which must have data, as a double. */
double th_element_value(const th_array *array, const th_element *element);

/* What multiplies an element of dy in a term. */
typedef struct th_factor {
    int input; /* the operand that it is an element of; -1: it is 1 */
    th_element element;
} th_factor;

/* Returns whether the operation is a product or a sum whose factors are elements of its operands. */
bool th_factor_is_known(const th_node *node, int input);
/* Returns whether output element `at` depends on element `element` of this input, and sets *factor. */
bool th_find_factor(const th_node *node, int input, const th_element *element, const th_element *at, th_factor *factor);

/* One term of a contribution: dy[output_element] * factor. */
typedef struct th_term {
    int output;
    th_element output_element;
    double dy, factor, value;
    bool has_source; /* factor is an element of an operand, or 1: see source */
    th_factor source;
} th_term;

enum { TH_MAX_TERMS = 8 };
/* The largest terms of a contribution, and the sum of all others. */
typedef struct th_terms {
    th_term term[TH_MAX_TERMS];
    int count;
    int64_t others;
    double others_sum;
    bool split; /* false: the operation is not a known product, and dy is too large to try each of its elements */
} th_terms;

/* Splits the contribution of a node to one element of input `input`. Errors: TH_ERROR_MEMORY, TH_ERROR_STATE. */
th_status th_split_terms(th_listing *listing, int64_t node, int input, const th_element *element, th_terms *terms);

#endif
