/* The modes, options and results of a gradient check. They need no tensor, module or tape. */
#ifndef TAPEHEAD_GRADIENT_REPORT_H
#define TAPEHEAD_GRADIENT_REPORT_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* How many elements a check compares. */
typedef enum th_gradient_mode {
    /* TH_GRADIENT_FULL if that needs at most about 20,000 runs of the function, otherwise TH_GRADIENT_FAST. */
    TH_GRADIENT_AUTO,
    /* Every element of the Jacobian: perturbs each input element, and runs backward from each output element. */
    TH_GRADIENT_FULL,
    /* Random elements of each input and parameter, and random directions, which change all of its elements at once (no
     * directions if all elements are compared anyway). The cotangent is random, for the finite outputs. */
    TH_GRADIENT_FAST
} th_gradient_mode;

/* The size of a report's text in bytes. */
enum { TH_GRADIENT_TEXT = 4096 };

/* Options of a check. All fields may be 0. */
typedef struct th_gradient_options {
    th_gradient_mode mode;
    const char *name;               /* name of the function in the report; NULL: "the function" */
    const char *const *input_names; /* [n_inputs]; NULL: x, or x0, x1, ... */
    /* The step of the central differences. For an element x with |x| > 1 it is multiplied by |x|. 0: 1e-5 (float32:
     * 1e-2), then longer and shorter steps if that one does not decide. With any other value, only this step can show
     * that a derivative is right. */
    double step;
    double relative_tolerance; /* of the larger of gradient and quotient; 0: 1e-5 (float32: 2e-2) */
    double absolute_tolerance; /* added to that; 0: only the estimated rounding error of the difference quotient */
    bool float32;              /* runs in float32, for a function that does not support float64 */
    uint64_t seed;             /* for the random cotangents, directions and samples */
    int directions, samples;   /* number for each input in fast mode; 0: 8 directions, 24 samples */
} th_gradient_options;

/* The result of a check. */
typedef enum th_gradient_verdict {
    /* The check did not run. The pending error has the reason: an argument, or an error of the function. */
    TH_GRADIENT_COULD_NOT_RUN,
    /* All comparisons agree. */
    TH_GRADIENT_RIGHT,
    /* At least one comparison clearly disagrees. */
    TH_GRADIENT_WRONG,
    /* No comparison clearly disagrees, but at least one difference quotient is unreliable. The reason is a kink or a
     * jump at this point, NaN or an infinite value, or rounding that hides the derivative. */
    TH_GRADIENT_CANNOT_TELL,
    /* There was nothing to compare: no floating input or parameter, or no elements. */
    TH_GRADIENT_NOTHING_COMPARED
} th_gradient_verdict;

/* The report of a check. input, index and the four numbers after them describe the worst comparison. */
typedef struct th_gradient_report {
    bool ok; /* the verdict is TH_GRADIENT_RIGHT */
    th_gradient_verdict verdict;
    th_gradient_mode mode;    /* the mode that ran: full or fast */
    int64_t checked;          /* number of comparisons */
    int input;                /* index into inputs; n_inputs and up: a parameter; -1: all right, or nothing compared */
    th_shape index;           /* of the element in that input */
    double analytic, numeric; /* the gradient, and the difference quotient */
    double error;             /* relative to the larger of both; infinite for NaN */
    double uncertainty;       /* the error that numeric itself may have */
    char text[TH_GRADIENT_TEXT]; /* "" if ok; else the worst element, the kind of mistake that fits, and a map */
} th_gradient_report;

TH_END_DECLS

#endif
