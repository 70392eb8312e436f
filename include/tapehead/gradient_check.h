/* Gradient checking: compares the gradients of a tape with central differences, in float64.
 *
 * Mistakes that many gradient checkers miss are errors here. The output gradient is random instead of ones. Differences
 * are relative. A NaN is never right. Random operations repeat their numbers. A check that compared nothing fails. */
#ifndef TAPEHEAD_GRADIENT_CHECK_H
#define TAPEHEAD_GRADIENT_CHECK_H

#include "tapehead/gradient_report.h"
#include "tapehead/op.h"

TH_BEGIN_DECLS

/* A function to check: any composition of operations on the inputs and on parameters. th_check_gradient passes user to
 * it unchanged; user is a module, for example.
 *
 * The function runs many times and must return the same result for the same inputs; random operations repeat their
 * numbers. Tensors that it makes in a run, such as constants, are released after the run. A tensor that it makes in the
 * first run and reads in later runs is kept. The check also finds parameters that only some runs read.
 *
 * The function may return without closing its scopes or its th_no_grad_begin. It may clear the tape or call backward.
 * It must not free objects that it did not make, or make modules without freeing them. It must not change its inputs or
 * parameters in place, step an optimizer, cast a module, or check a gradient itself. Each of these is an error with a
 * message. */
typedef th_tensor *th_gradient_function(void *user, th_tensor *const *inputs);

/* Checks the gradient of function(user, inputs) with respect to every floating input and every parameter that the
 * function reads. report may be NULL.
 *
 * The function receives copies of the inputs in float64. During the check, parameters are float64, too. Afterwards all
 * values, gradients, settings and random numbers of the context are the same as before, bit for bit. Clears the tape.
 *
 * A derivative is right if it agrees with a difference quotient to the tolerances. It is also right if it differs by at
 * most the quotient's rounding error, and one of these is true:
 *
 * - That error is small enough to show a mistake of a thousandth (float32: a tenth) of the derivative.
 * - The derivative is below a ten-thousandth (float32: a tenth) of the largest one of its input or parameter.
 * - Both numbers are 0 within the precision of the output.
 *
 * A derivative is wrong if the quotients of three different steps agree with each other and not with it, unless
 * rounding inside the function may explain that. Before the first such verdict the check measures this rounding: it runs
 * the function a few times and changes the last places of every intermediate result. A derivative that is NaN or
 * infinite is wrong, too, unless an output is. The derivative with respect to an infinite element must be 0, because
 * a finite step does not change such an element.
 *
 * In float64 the precision of the context (th_set_precision) has no effect. With .float32 it changes products. In
 * bfloat16x3 the same tolerances hold. In bfloat16 the rounding of the operands hides a small step. So the check cannot
 * tell whether the gradient is right, except for the simplest functions. In int8 the check uses float32, because the
 * gradients are those of float32 products.
 *
 * Returns TH_OK if the gradient is right. Returns TH_ERROR_VALUE, with a report and without a pending error, if it is
 * wrong, if the check cannot tell, or if it compared nothing. Returns any other code, with a pending error, if the
 * function could not run. */
TH_API th_status th_check_gradient(th_context *ctx, th_gradient_function *function, void *user, int n_inputs,
                                   th_tensor *const *inputs, const th_gradient_options *options,
                                   th_gradient_report *report) TH_MUST_CHECK;

/* A function of one tensor to check, such as the forward of a layer. */
typedef th_tensor *th_gradient_function_of_one(void *user, th_tensor *x);

/* Checks a function of one tensor like th_check_gradient: th_check_gradient_of(my_layer, layer, x, NULL, &report). */
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
 * - The operation inside a graph. Its inputs are results of other operations, so the library uses TH_OP_IN_PLACE,
 *   TH_OP_OVER_INPUT, TH_OP_RECOMPUTE and .precomputed. The graph also exists with recomputed values, with other
 *   operations that read the same inputs and outputs (so that gradients are added up), and with two backwards that add
 *   to the same gradients. Inputs are contiguous, strided, or dense with two axes exchanged.
 * - The same tensor as two inputs, for every two inputs of equal type and shape.
 * - Another call with other inputs between forward and backward. A rule that keeps values of the last call is wrong.
 * - Each input expanded along its first and its last axis, so that a stride is 0. The results must be those of equal
 *   elements, unless these change when the last places of the elements change.
 * - Evaluation mode, in a context in training mode, and the reverse. If an output or a gradient changes, all of these
 *   checks run in both modes. An operation may reject the other mode.
 * - NaN in an element of each input, and an infinity if the sample gives no range. If outputs depend on another element,
 *   and none of them on this one, the other element must have its usual gradient. Forward shows which outputs depend on
 *   an element. So a kernel must accept a NaN in every floating input.
 * - 0 in an element of each input, if its range contains 0. A derivative that exists there must be right. At a kink, any
 *   number between the slopes on both sides is right. Nothing else that the check cannot tell there is an error.
 * - Linearity. If the output gradients are multiplied by -2^30 or 2^-30, so are the gradients. If one half of the
 *   elements of the output gradients is set to 0, then the other, the two results add up to the whole gradients.
 * - Memory. Each forward and backward runs twice, with different values in uninitialized memory, and with guards before
 *   and after each array. It must write every element of its outputs and gradients, and no memory outside them and the
 *   scratch memory that its plan reserved. It must not change its operands, depend on uninitialized memory, or give two
 *   results for the same inputs. Floating operands that were not saved have data == NULL in a real backward; here they
 *   are NaN. If backward uses one, the report names it.
 * - Empty tensors: each size among the inputs is replaced by 0, if the shape rule accepts that (not with index inputs).
 *   In a real run an array without elements has data == NULL. Here it points to guarded memory, and the report names a
 *   kernel that writes there, or whose results depend on it.
 * - A shapes-only context, in which the plan must reserve the same scratch memory.
 *
 * The report of a wrong rule names the conditions under which it is wrong: "add3 (sample "rows") is wrong if only x1
 * requires a gradient: the gradient of x1[0,2] is 0.5; it should be 1". In such a report, input is an index among the
 * sample's inputs, numeric is the right gradient, and text has no map. `checked` counts difference quotients only.
 *
 * The check sees a rule only at the points of the samples. It cannot find a rule that is wrong in a region without a
 * sample's value: beyond a threshold, in a small interval, or for sizes that no sample has. It also cannot find a read
 * of unreserved memory that changes no result. Other values of th_gradient_options.seed give other points.
 *
 * Forward and backward run hundreds of times for each sample. A sample may be empty, but at least one must have a
 * gradient to compare. Returns the codes of th_check_gradient. An operation without samples or without a backward is
 * TH_ERROR_VALUE (TH_GRADIENT_NOTHING_COMPARED), and the report has the reason. So is an operation that declares why it
 * has no backward. */
TH_API th_status th_check_op(th_context *ctx, const th_op *op, const th_gradient_options *options,
                             th_gradient_report *report) TH_MUST_CHECK;

/* Creates the inputs that a sample describes: inputs[sample->n_inputs], of this floating type. Absent inputs are NULL.
 * The numbers are a function of the seed. Different seeds give independent numbers. The caller frees the tensors. */
TH_API th_status th_sample_inputs(th_context *ctx, const th_sample *sample, th_dtype dtype, uint64_t seed,
                                  th_tensor **inputs) TH_MUST_CHECK;

TH_END_DECLS

#endif
