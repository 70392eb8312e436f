/* Gradient checking: the gradient that a tape computes against central differences, in float64.
 * What other checkers let through (sums as cotangents, absolute differences, NaN, redrawn randomness, a check that
 * compared nothing) is an error here. */
#ifndef TAPEHEAD_GRADIENT_CHECK_H
#define TAPEHEAD_GRADIENT_CHECK_H

#include "tapehead/base.h"
#include "tapehead/op.h"

TH_BEGIN_DECLS

/* A function to check: any composition of operations, of inputs and of whatever parameters it uses. user is passed
 * through (a module, say). It is run many times and must return the same for the same inputs (random operations are
 * replayed). What it makes in a run, constants say, is gone when the run is over
 * (unless it keeps that from the first run on, or fails in it). A parameter that it reads in some
 * runs only, behind a branch, is found and checked too. It may leave scopes or th_no_grad open, clear the tape, or call
 * backward; it may not free what it has not made, make modules without freeing them, change its inputs or parameters in
 * place, step an optimizer, cast a module, or check a gradient itself: each of these is an error that says so. */
typedef th_tensor *th_gradient_function(void *user, th_tensor *const *inputs);

typedef enum th_gradient_mode {
    TH_GRADIENT_AUTO, /* full where that is at most about 20,000 runs of the function's elements, else fast */
    TH_GRADIENT_FULL, /* every element of the Jacobian: each input element perturbed, each output element sent back */
    TH_GRADIENT_FAST  /* random directions on both sides, and sampled elements under a random cotangent of the finite
                         outputs; no directions through what has so few elements that all are sampled */
} th_gradient_mode;

enum { TH_GRADIENT_TEXT = 4096 };

typedef struct th_gradient_options {
    th_gradient_mode mode;
    const char *name;               /* of the function, in the report; NULL: "the function" */
    const char *const *input_names; /* [n_inputs]; NULL: x, or x0, x1, ... */
    double step; /* 0: 1e-5 (float32: 1e-2), and where that does not settle it longer and shorter ones. Given: it alone
                    shows what is right. Either is times the element's magnitude where that is above 1 */
    double relative_tolerance; /* of the larger of both numbers; 0: 1e-5 (float32: 2e-2) */
    double absolute_tolerance; /* on top of that; 0: none but the rounding of the difference quotient, which is
                                  estimated */
    bool float32;              /* for a function that has no float64 */
    uint64_t seed;             /* of cotangents, directions, samples */
    int directions, samples;   /* of the fast mode; 0: 8 and 24 for each input */
} th_gradient_options;

/* What came out. */
typedef enum th_gradient_verdict {
    TH_GRADIENT_COULD_NOT_RUN,   /* the error is pending and names the reason: arguments, or the function itself */
    TH_GRADIENT_RIGHT,           /* all that was compared agrees */
    TH_GRADIENT_WRONG,           /* somewhere it clearly does not */
    TH_GRADIENT_CANNOT_TELL,     /* nothing is wrong, but somewhere no difference quotient can be trusted: a kink or a
                                    jump at this very point, a value that is not a number, rounding that hides it all */
    TH_GRADIENT_NOTHING_COMPARED /* no element on one side or the other */
} th_gradient_verdict;

typedef struct th_gradient_report {
    bool ok; /* the verdict is TH_GRADIENT_RIGHT */
    th_gradient_verdict verdict;
    th_gradient_mode mode; /* the one that ran */
    int64_t checked;       /* comparisons made */
    int input; /* the worst one's: index into inputs, n_inputs and up for parameters; -1: all right, or none made */
    th_shape index;                  /* the worst element */
    double analytic, numeric, error; /* there; error is relative to the larger of both (infinite for NaN) */
    double uncertainty;              /* how far off `numeric` may be itself */
    char text[TH_GRADIENT_TEXT];     /* "" when ok: what is not, where, a map, and what kind of mistake fits */
} th_gradient_report;

/* Checks the gradient of function(user, inputs) with respect to every floating input and every parameter that it uses.
 * Inputs are copied (in float64), parameters are swapped to float64 meanwhile and come back bit for bit, gradients too,
 * and so do the context's settings and random calls. Clears the tape. report may be NULL.
 *
 * A derivative is right when it agrees with a difference quotient to the relative tolerance (and the absolute one), or
 * as closely as the quotient's rounding lets one see, provided that a thousandth too much (float32: a tenth) would
 * show, that it is below a ten-thousandth of the largest of its input or parameter, or that both are 0 as far as the
 * output's own precision goes. It is wrong when three steps of different length agree with each other and not with it,
 * unless that may be rounding of numbers inside the function. The derivative by an infinite element is 0: no finite
 * step moves it.
 *
 * In float64 the context's precision (th_set_precision) has no effect. With .float32 products have it: in bfloat16x3
 * the same tolerances hold; in bfloat16 the outputs do not follow steps that are smaller than the rounding of the
 * operands, and of all but the simplest functions it cannot be told whether the gradient is right.
 *
 * Returns TH_OK when the gradient is right; TH_ERROR_VALUE when it is wrong, when that cannot be told, and when nothing
 * was compared (nothing pending: the report says it); any other code, pending, when the function could not be run. */
TH_API th_status th_check_gradient(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                                   th_tensor *const *inputs, const th_gradient_options *options,
                                   th_gradient_report *report) TH_MUST_CHECK;

/* A function of one tensor, such as a layer: th_check_gradient_of(my_layer, layer, x, NULL, &report). */
typedef th_tensor *th_gradient_function_of_one(void *user, th_tensor *x);
TH_API th_status th_check_gradient_of(th_gradient_function_of_one *function, void *user, th_tensor *x,
                                      const th_gradient_options *options, th_gradient_report *report) TH_MUST_CHECK;

/* Checks an operation, built-in or your own, on its samples. On each sample it tries all of this:
 *
 * - Gradients against difference quotients, as th_check_gradient does, with contiguous and with strided inputs, for one
 *   differentiable output at a time. All other gradients are compared with these. They may differ by 1e-9 of the
 *   input's largest gradient (float32: 1e-3; in bfloat16: 5e-2). They may also differ by rounding of the largest
 *   gradient or output.
 * - Every subset of inputs that require a gradient, with subsets of the output gradients. With more than 4 inputs: each
 *   input alone, all inputs except one, and pairs.
 * - The middle of a graph. The inputs are results of other operations, so the library uses TH_OP_IN_PLACE,
 *   TH_OP_OVER_INPUT, TH_OP_RECOMPUTE and .early. Or the values are recomputed. Or other operations also read the
 *   inputs and outputs, so gradients are added up. Or two backwards add to the same gradients. Inputs are contiguous,
 *   strided, or dense with two axes exchanged.
 * - The same tensor as two inputs, for every two inputs of equal type and shape.
 * - Linearity: output gradients times -2^30 and 2^-30. And with either half of their elements set to 0, the results
 *   must add up to the gradients of the whole.
 * - Memory. Each forward and backward runs twice, between guards, with other values in uninitialized memory. It must
 *   write every element of its outputs and gradients, and nothing beside them or beside the scratch memory that its
 *   plan reserved. It must not change its operands, depend on uninitialized memory, or give two results for the same
 *   inputs. Floating operands that were not saved, whose data is NULL in a real backward, are NaN here. The report
 *   names one that backward uses.
 * - Empty tensors: each size among the inputs is replaced by 0, if the shape rule accepts that (not with index inputs).
 * - A context of shapes only, where the plan must reserve the same scratch memory.
 *
 * The report of a wrong rule names the conditions under which it is wrong: "add3 (sample "rows") is wrong if only x1
 * requires a gradient: the gradient of x1[0,2] is 0.5, it should be 1". In such a report, input is an index among the
 * sample's inputs, numeric is the right gradient, and text has no map. `checked` counts difference quotients only.
 *
 * Forward and backward run hundreds of times for each sample. A sample may be empty, but at least one must have a
 * gradient to compare. Returns as above. An operation without samples or without a backward is TH_ERROR_VALUE
 * (TH_GRADIENT_NOTHING_COMPARED), and the report says why. So is one that has a reason for having no backward. */
TH_API th_status th_check_op(th_context *ctx, const th_op *op, const th_gradient_options *options,
                             th_gradient_report *report) TH_MUST_CHECK;

/* Inputs as a sample describes them, of this floating type, owned by the caller: inputs[sample->n_inputs], NULL where
 * absent. */
TH_API th_status th_sample_inputs(th_context *ctx, const th_sample *sample, th_dtype dtype, uint64_t seed,
                                  th_tensor **inputs) TH_MUST_CHECK;

TH_END_DECLS

#endif
