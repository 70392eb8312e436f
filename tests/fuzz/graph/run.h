/* A run of a program in one setting, and its results. */
#ifndef TESTS_FUZZ_GRAPH_RUN_H
#define TESTS_FUZZ_GRAPH_RUN_H

#include "program.h"

enum { MAX_PARAMETERS = 400, MAX_GRADIENTS = MAX_LEAVES + MAX_PARAMETERS };

/* An array in the memory of the program, as numbers of float64 whatever its type was. */
typedef struct array {
    shape shape;
    double *data; /* may be NULL */
} array;

typedef enum layout { CONTIGUOUS, STEPPED, TRANSPOSED, LAYOUTS } layout;

/* A setting. All zero: contiguous leaves, the program's own precision and type, plain scopes, one thread. */
typedef struct setting {
    const char *name;
    int threads;  /* 0: 1 */
    bool strided; /* leaves are views with gaps or exchanged axes */
    bool profile, no_scopes, recompute, keep_values, composed, weights, keep_gradients, wrt, twice, forward_only;
    bool loss_only;        /* no backward */
    bool double_precision; /* float64 */
    bool full_precision;   /* float32 instead of the program's precision */
    unsigned track;        /* runs only the lines that have this track */
    int64_t sequence;      /* of ALONE and TRIM: the sequence that runs alone; -1: all */
    bool trimmed;          /* without padding */
    bool padding;          /* the cotangents of padding are 0 */
    bool pieces;           /* tokens first .. end - 1 with caches */
    bool document;         /* tokens first .. end - 1, a document, alone */
    int64_t first, end;
    double shift;                 /* leaves and parameters are moved along a direction */
    int shifted;                  /* 0: all, otherwise 1 + the only one that is moved */
    const struct outcome *frozen; /* constants for lines that are frozen */
} setting;

typedef struct outcome {
    array value[MAX_VALUES];
    array gradient[MAX_GRADIENTS]; /* of leaves, then of parameters */
    int gradients;
    double loss;                 /* sum of cotangent x output over all outputs */
    double slope[MAX_GRADIENTS]; /* of each leaf and parameter: sum of gradient x direction */
    th_status status;
    int failed_line; /* -1: none, or backward */
    char message[300];
    size_t leaked; /* of `twice`: the bytes that are live after the second step and not after the first one */
    bool has_gradients;
} outcome;

/* The state of one run. */
typedef struct run {
    const program *p;
    const setting *s;
    th_context *ctx;
    th_dtype dtype;
    th_tensor *tensor[MAX_VALUES];
    th_tensor *base[MAX_LEAVES];  /* the owners of leaves */
    th_module *module[MAX_LINES]; /* the layer of a line */
    th_cache *cache[MAX_LINES];
    array keys[MAX_LINES], values[MAX_LINES]; /* with pieces: what attention read so far, (..., capacity, D) */
    th_tensor *parameter[MAX_PARAMETERS];
    int parameters;
    bool no_grad;
    outcome *out;
} run;

/* Runs the program. out must be released with outcome_free. */
void program_run(const program *p, const setting *s, outcome *out);
/* Runs the tokens of a program piece by piece in one context, and puts the pieces together: value[i] are whole. */
void program_run_pieces(const program *p, setting s, outcome *out);
void outcome_free(outcome *out);

/* Opens a context with the modules of a program; closes it. program_run does both. */
void run_open(run *r);
void run_close(run *r);

/* Returns whether a line takes part in a setting. */
bool line_runs(const program *p, const setting *s, const line *l);

/* -- for the kinds -- */

/* Returns the size of an axis in this run: sequences and tokens may be fewer. */
int64_t size_in_run(const run *r, char letter, int64_t size);
/* Returns a shape with the sizes of this run. */
th_shape shape_in_run(const run *r, const shape *s);
/* Creates a tensor in the run's floating type. */
th_tensor *tensor_from(run *r, const array *a, content c, bool wide);

/* -- arrays -- */

array array_new(shape s);
void array_free(array *a);
/* Copies elements of an axis range of `whole` for all axes: first[i] .. first[i] + part->shape.size[i] - 1. */
array array_part(const array *whole, const int64_t *first, const int64_t *size);
/* Copies part into whole at first. */
void array_put(array *whole, const array *part, const int64_t *first);
array array_of(const th_tensor *t, const shape *letters);

#endif
