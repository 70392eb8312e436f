/* The engine of the gradient checker: it compares derivatives with difference quotients and gives a verdict. It needs
 * no tensor, module or tape: its caller runs the function. th_check_gradient (checker.h) and th_check_function
 * (function.h) use it.
 *
 *     compare.c     visits all derivatives (full), or samples and random directions (fast)
 *     search.c      finds a wrong element among millions: random directions, then halves
 *     quotients.c   computes difference quotients along one line, with several lengths of the step
 *     verdict.c     compares one analytic derivative with these quotients
 *     report.c      writes the text of the report */
#ifndef TH_CHECKER_ENGINE_ENGINE_H
#define TH_CHECKER_ENGINE_ENGINE_H

#include "checker/engine/limits.h"
#include "tapehead/gradient_report.h"

/* A block of numbers that the function reads: an input or a parameter. */
typedef struct th_variable {
    char name[96];
    int input_number; /* index of the input; n_inputs and up for parameters */
    int ndim;
    int64_t size[TH_MAX_DIMS];
    int64_t numel;
    int64_t first_column; /* column of element 0 among all checked elements */
    bool checked;         /* the check compares its gradient */
} th_variable;

typedef struct th_engine th_engine;

/* How the engine runs the function. A function that returns bool returns false if the check cannot continue. */
typedef struct th_engine_calls {
    th_variable *(*variable)(const th_engine *engine, int64_t i);
    /* Reads or writes one element, rounded to its type. */
    double (*element)(const th_engine *engine, const th_variable *variable, int64_t element);
    void (*set_element)(th_engine *engine, th_variable *variable, int64_t element, double value);
    /* Writes start[e] + h * direction[e] to the elements e from first to end - 1. */
    void (*move)(th_engine *engine, th_variable *variable, int64_t first, int64_t end, const double *start,
                 const double *direction, double h);
    /* Runs the function, and writes the output's elements to values[rows]. */
    bool (*compute_output)(th_engine *engine, double *values);
    /* Measures how much rounding inside the function changes its outputs, and allocates engine->noise. */
    bool (*measure_noise)(th_engine *engine);
    /* Runs the function for calls of compute_gradients, and sets the output's shape. Call end_gradients in any case. */
    bool (*begin_gradients)(th_engine *engine, th_shape *output_shape);
    /* Writes the gradients of all checked variables under this cotangent to gradient[columns]. Runs backward `times`
     * times, and adds the gradients. */
    bool (*compute_gradients)(th_engine *engine, const double *cotangent, int times, double *gradient);
    bool (*end_gradients)(th_engine *engine);
    /* Allocates an array of zeros; NULL if there is no memory. */
    double *(*allocate)(th_engine *engine, int64_t count);
    void (*release)(th_engine *engine, double *memory, int64_t count);
} th_engine_calls;

struct th_engine {
    const th_engine_calls *calls;
    th_gradient_options options;
    th_number_kind kind;          /* of the numbers in which the function computes */
    th_number_kind gradient_kind; /* of the analytic gradients: less exact if the outputs come from a reference */
    double epsilon;               /* from 1 to the next number of the outputs' type */
    double unit;        /* the same for the function's computations; larger if products round their operands */
    bool at_kinks;      /* see th_check_gradient_at_kinks */
    bool searches;      /* the fast mode searches for wrong elements with th_search_element */
    bool products_hide; /* products round their operands to bfloat16 */
    uint64_t random;
    int64_t variables;                       /* their number */
    int64_t columns;                         /* elements of all checked variables */
    int64_t rows;                            /* elements of the output */
    double *base;                            /* [rows]: the output at the unchanged inputs */
    double output_scale;                     /* largest finite magnitude in base */
    bool base_is_finite;                     /* base has no NaN and no infinity */
    double *noise;                           /* [rows]: see th_engine_calls.measure_noise; NULL: not measured yet */
    double *gradient_noise;                  /* [columns]: the measured rounding of analytic gradients; NULL: none */
    const char *extra;                       /* a sentence for the report of a wrong gradient; NULL: none */
    double missed_error, missed_probability; /* of the search: see th_function_report */
    th_gradient_report *report;
};

/* Computes output_scale and base_is_finite from base. */
void th_engine_set_base(th_engine *engine);
/* Returns the mode of the options, or the one that the size of the Jacobian suggests. */
th_gradient_mode th_engine_mode(const th_engine *engine);
/* Compares every element of the Jacobian (full), or samples and random directions. Writes the worst to the report.
 * Returns false if a run failed. */
bool th_engine_compare(th_engine *engine, bool full);
/* Returns the largest finite magnitude. */
double th_largest_magnitude(const double *values, int64_t count);
/* Returns a random sign times a magnitude that is uniform in [0.25, 1): no coefficient is close to 0. */
double th_random_coefficient(uint64_t *random);

#endif
