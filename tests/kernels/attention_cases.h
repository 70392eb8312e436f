/* Attention problems for tests: all options and many sizes, in memory without spare elements. */
#ifndef TESTS_ATTENTION_CASES_H
#define TESTS_ATTENTION_CASES_H

#include "kernels/attention/attention.h"

/* -- cases -- */

/* The shape of a mask: (B, 1, 1, S), (T, 1), (T, S), (H, T, S), (B, H, T, S). */
typedef enum mask_shape { NO_MASK, PER_KEY, PER_QUERY, PER_PAIR, PER_HEAD, PER_ITEM } mask_shape;

/* The memory layout of queries, keys and values. */
typedef enum layout {
    SEPARATE, /* (B, H, T, D) each */
    PACKED,   /* q, k, v in one (B, T, 3, H, D) buffer, o in (B, T, H, Dv), gradients alike: T = S, D = Dv, no groups */
    REVERSED  /* (D, T, H, B): adjacent columns are far apart in memory */
} layout;

typedef struct attention_case {
    const char *name;
    int64_t batch, heads, group; /* heads: of k and v; group: of q for each of those */
    int64_t queries, keys, width, value_width;
    bool causal, bottom_right, window;
    int64_t left, right;
    int lengths;   /* 1: (B), 2: (B, T) */
    int positions; /* 1: (T), 2: (B, T) */
    mask_shape keep, additive;
    int slopes; /* 1: (H), 2: (B, H) */
    double dropout, scale, soft_cap;
    bool with_lse; /* has a cotangent */
    layout layout;
    bool add;
} attention_case;

/* Initializes the sizes of a case. */
#define SIZES(b, h, g, t, s, d, dv)                                                                                    \
    .batch = (b), .heads = (h), .group = (g), .queries = (t), .keys = (s), .width = (d), .value_width = (dv)

enum { CASES = 59 };
extern const attention_case cases[CASES];

/* Draws a number from (-1, 1). */
double uniform(uint64_t *state);

/* -- operands -- */

/* The memory of an operand, without spare elements, and the view of it that kernels get. */
typedef struct operand {
    th_attention_array view;
    int64_t count; /* number of elements in memory */
    bool owns;
} operand;

enum {
    Q,
    K,
    V,
    O,
    LSE,
    LENGTHS,
    POSITIONS,
    KEEP,
    ADDITIVE,
    SLOPES,
    DO,
    DLSE,
    DQ,
    DK,
    DV,
    DADDITIVE,
    DSLOPES,
    OPERANDS
};

enum { RESULTS = 7 };
extern const int results[RESULTS]; /* the operands that are results */

/* An attention problem: its case, its operands, and the arguments of the kernels. */
typedef struct problem {
    attention_case c;
    th_dtype dtype;
    int64_t batch, heads, group, queries, keys, width, value_width;
    operand operands[OPERANDS];
    th_attention attention;
} problem;

int64_t element_size(th_dtype dtype);

/* The dimensions of an operand: (B, heads of k, group, rows, columns). Dimensions that it does not have are 1. */
typedef struct dims {
    int64_t size[5];
} dims;

/* Returns the offset of an element. Leading dimension 0: B, 1: heads, 2: group. */
int64_t offset(const operand *x, int64_t b, int64_t h, int64_t g, int64_t row, int64_t column);

/* Returns an element of operand `which`. */
double get(const problem *p, int which, int64_t b, int64_t h, int64_t g, int64_t row, int64_t column);

/* Sets the element at an offset of operand `which`. */
void put_at(const problem *p, int which, int64_t at, double value);

/* Creates a problem with random operands, the same for each call. free_problem frees it. */
problem *make_problem(const attention_case *c, th_dtype dtype);

void free_problem(problem *p);

/* Runs the forward. */
void run_forward(problem *p, const th_machine *machine, int threads);

/* Runs forward and backward. */
void run(problem *p, const th_machine *machine, int threads);

#endif
