/* The graph in which th_check_op runs an operation, and the conditions of a run. */
#ifndef TH_CHECKER_CHECK_OP_GRAPH_H
#define TH_CHECKER_CHECK_OP_GRAPH_H

#include "checker/check_op_guard.h"
#include "checker/check_op_nodes.h"
#include "checker/checker.h"

/* The conditions under which an operation runs. If all members except the masks are 0, they are the same as for
 * difference quotients. */
typedef struct th_variant {
    uint32_t required; /* bit i: input i requires a gradient */
    uint32_t given;    /* bit k: output k has a gradient */
    uint32_t flags;    /* which of the operation's TH_OP_IN_PLACE, TH_OP_OVER_INPUT and TH_OP_RECOMPUTE stay set */
    bool precomputed;  /* th_op.precomputed stays set */
    bool results;      /* its inputs are results of other operations, not leaves */
    bool recomputed;   /* in a scope whose values are recomputed */
    bool shared;       /* its inputs are read before and after it, its outputs twice: gradients are added up */
    int half;          /* 1: output gradients are 0 in elements 0, 2, ...; 2: in elements 1, 3, ... Not with shared */
    int times;         /* number of forwards and backwards, which add to the same gradients; 0: 1 */
    int same[2];       /* the first of these inputs is used for both; if they are equal, nothing changes */
    int expanded;      /* 1 + i: input i is expanded from its leaf, so that a stride is 0; 0: none */
    int special;       /* 1 + i: an element of input i is NaN or infinite; 0: none */
    bool followed;     /* another call, with other inputs, comes between forward and backward */
    bool other_mode;   /* in evaluation mode if the context is in training mode, and the reverse */
    double scale;      /* factor of the output gradients; 0: 1 */
} th_variant;

/* Returns whether two inputs are the same tensor. */
static inline bool th_variant_is_same(const th_variant *variant)
{
    return variant->same[0] != variant->same[1];
}

/* Returns whether the inputs have other values than the sample's. The right gradients are then th_graph.pair. */
static inline bool th_variant_is_elsewhere(const th_variant *variant)
{
    return th_variant_is_same(variant) || variant->expanded > 0 || variant->special > 0;
}

/* The number of inputs or outputs in a mask, and the first of them. */
static inline int th_mask_count(uint32_t mask)
{
    return __builtin_popcount(mask);
}
static inline int th_mask_first(uint32_t mask)
{
    return __builtin_ctz(mask);
}

/* A sample's inputs, and the values and gradients that runs are compared with. */
typedef struct th_graph {
    th_context *ctx;
    th_guard *guard;
    const th_sample *sample;
    th_layout layout;
    th_tensor **inputs; /* bases */
    th_tensor **others; /* the inputs of another call, or NULL */
    const char *mode;   /* of the context, for the report: "" if it is the caller's */
    const bool *checked;
    th_settings settings; /* the context's */
    uint64_t random;
    double unit;                        /* the last place of 1 in the floating type, or of products in bfloat16 */
    double tolerance;                   /* for numbers that should be equal, relative to the largest of their kind */
    uint32_t checked_mask, output_mask; /* inputs that are checked, outputs that have a gradient */
    int64_t columns, first[TH_MAX_SAMPLE_INPUTS]; /* elements of all checked inputs; the first one of each input */
    int64_t rows[TH_MAX_OUTPUTS];                 /* elements of output k; 0 before its first use */
    double *value[TH_MAX_OUTPUTS], *cotangent[TH_MAX_OUTPUTS]; /* [rows] */
    double *value_here[TH_MAX_OUTPUTS]; /* [rows]: of the sample's inputs, while value belongs to others */
    double *extra;                      /* [columns]: the gradient that other readers of the inputs bring */
    double *gradient;                   /* [columns]: of the last run */
    double *reference[TH_MAX_OUTPUTS];  /* [columns]: under the cotangent of output k alone */
    double *pair;                       /* [columns]: of all outputs, where inputs have other values */
    double pair_size;                   /* the largest number in pair, or the size of the terms of a sum there */
    char finding[TH_FINDING_TEXT];      /* a mistake in the last run, other than in gradients; or "" */
} th_graph;

/* Allocates the graph's arrays. Returns false with the error pending. Call th_graph_end in either case. */
bool th_graph_begin(th_graph *graph);
void th_graph_end(th_graph *graph);
/* The outputs of the next run become the values that later runs must repeat. th_graph_come_back restores the ones
 * before. Calls must not nest. */
void th_graph_go_elsewhere(th_graph *graph);
void th_graph_come_back(th_graph *graph);
/* Returns whether a equals b within the tolerance for numbers of this size, or both are NaN. */
bool th_graph_close(const th_graph *graph, double a, double b, double size);
/* Returns the number of elements of input i. */
int64_t th_graph_numel(const th_graph *graph, int i);
/* Runs forward, and backward where an input requires a gradient. Gradients go to graph->gradient, other mistakes to
 * graph->finding. False with the error pending. The tape is clear before and after. */
bool th_graph_run(th_graph *graph, const th_variant *variant);

#endif
