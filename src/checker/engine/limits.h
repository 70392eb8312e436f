/* The constants of the gradient checker: every number that decides a verdict. */
#ifndef TH_CHECKER_ENGINE_LIMITS_H
#define TH_CHECKER_ENGINE_LIMITS_H

enum {
    TH_STEPS = 24,                /* lengths of the step: 18 are shorter than the usual one, 5 are longer */
    TH_USUAL_STEP = TH_STEPS - 6, /* its index; step 0 is the shortest */
    TH_UPWARD_STEPS = 5,          /* steps for a leaf on which nothing seems to depend: the usual one and longer ones */
    TH_STEPS_TO_TELL_WRONG = 5,   /* enough steps to find a wrong derivative: three of them must agree */
    TH_DOUBTFUL_LINES = 16 /* after this many lines that it cannot tell, the check tries only one step, to save time */
};

/* The kinds of numbers in which a function computes. */
typedef enum th_number_kind {
    TH_KIND_FLOAT64,
    TH_KIND_FLOAT32,
    TH_KIND_FLOAT16,
    TH_KIND_BFLOAT16,
    TH_KINDS
} th_number_kind;

/* Numbers that differ between the kinds. */
static const struct th_limits {
    double step[TH_KINDS], ratio[TH_KINDS], relative[TH_KINDS], visible[TH_KINDS], negligible[TH_KINDS],
        small[TH_KINDS], hidden[TH_KINDS], sums[TH_KINDS], conditions[TH_KINDS];
} th_limits = {
    /* The usual step, where truncation and rounding are both small. */
    .step = {1e-5, 1e-2, 1e-1, 2e-1},
    /* Of neighboring steps: with the ratio r, the longer one has r^2 times the truncation and 1 / r of the rounding. */
    .ratio = {10, 4, 2, 2},
    /* The default of the option relative_tolerance. */
    .relative = {1e-5, 2e-2, 6e-2, 1.5e-1},
    /* A mistake of about this fraction must be found: limits distance plus uncertainty. */
    .visible = {8e-4, 1e-1, 2e-1, 4e-1},
    /* A derivative is 0 if its uncertainty is at most this fraction of the output. */
    .negligible = {1e-8, 2e-3, 1e-2, 8e-2},
    /* Rounding may hide a derivative of at most this fraction of the variable's largest one. */
    .small = {1e-4, 1e-1, 2e-1, 3e-1},
    /* Rounding inside the function may be this fraction of the variable's largest derivative. */
    .hidden = {1e-10, 1e-3, 2e-2, 1e-1},
    /* Analytic sums are equal if they differ by this fraction of the sum of magnitudes. */
    .sums = {1e-7, 1e-3, 2e-2, 1e-1},
    /* th_check_op: gradients of two conditions are equal up to this fraction of the largest. */
    .conditions = {1e-9, 1e-3, 2e-2, 1e-1},
};

#define TH_BFLOAT16_EQUAL 5e-2     /* th_limits.sums and th_limits.conditions in bfloat16 */
#define TH_BFLOAT16_EPSILON 0x1p-7 /* from 1 to the next bfloat16 number: 8 digits */
#define TH_ROUNDING_SAFETY 8       /* the true rounding error may be this many times its estimate */
#define TH_AGREEMENT 0.125 /* quotients agree if they differ by this fraction of their distance from the derivative */
#define TH_FLOAT32_FRACTION                                                                                            \
    0x1p-22                 /* of the largest derivative: float32 inside a float64 function explains such errors */
#define TH_VISIBLE_FACTOR 4 /* the uncertainty, with TH_ROUNDING_SAFETY, may be this many times th_limits.visible */
/* In units of the last place: */
#define TH_ZERO_UNITS 4096         /* of the output: an analytic derivative that rounding hides is 0 up to this */
#define TH_EQUAL_UNITS 16          /* of the output: two derivatives up to this are equal */
#define TH_HIDDEN_UNITS 64         /* of 1, input or output: rounding inside the function, which no output shows */
#define TH_SHORTEST_STEP_UNITS 256 /* of the input: shorter steps show only rounding */

/* -- experiment --
 *
 * An experiment: each constant was multiplied by 1/64, 1/8, 1/2, 2, 8 and 64; if that changed nothing, also by 0 and a
 * million. The tests were test_gradient_verdict, test_gradient_check, test_gradients, test_false_rules and
 * test_precision_gradients. The range is from the smallest to the largest value with which all tests pass. Below it the
 * first test on the right fails, above it the second; their names are abbreviated. The lengths of the steps,
 * the default tolerance and TH_BFLOAT16_EQUAL were not part of the experiment. A later one measured negligible, sums,
 * conditions and TH_ZERO_UNITS, with test_check_op and test_gradient_report and without test_precision_gradients.
 *
 *     constant                 range           below                      above
 *     TH_STEPS_TO_TELL_WRONG   5 to 10         given_tolerances           every_broken_gradient
 *     TH_DOUBTFUL_LINES        2 to 1024       every_operation            -
 *     visible, float64         4e-4 to 8e-4    tolerances_follow          a_thousandth_too_much
 *     visible, float32         5e-2 to 8e-1    losses_of_models           what_is_wrong_is_not_right
 *     negligible, float64      1e-8            zero_within_the_precision  zero_within_the_precision
 *     negligible, float32      2e-3            zero_within_the_precision  zero_within_the_precision
 *     small, float64           0 to 6.4e-3     -                          a_map_shows
 *     small, float32           5e-2 to 6.4     losses_of_models           -
 *     hidden, float64          1.25e-11 to 1e-4  rounding_inside          -
 *     hidden, float32          0 to 6.4e-2     -                          in_bfloat16
 *     sums, float64            1.6e-9 to 8e-7  analytic_sums_may_differ   slightly_nonlinear
 *     sums, float32            1.6e-5 to 2e-3  analytic_sums_may_differ   slightly_nonlinear
 *     conditions, float64      1.25e-10 to 8e-9  close_tolerances         close_tolerances
 *     conditions, float32      5e-4 to 2e-3    close_tolerances           close_tolerances
 *     TH_BFLOAT16_EPSILON      2^-8 to 1/2     in_bfloat16                -
 *     TH_ROUNDING_SAFETY       4 to 8          losses_of_models           tolerances_follow
 *     TH_AGREEMENT             1/64 to 1/4     tolerances_follow          losses_of_models
 *     TH_VISIBLE_FACTOR        2 to 256        tolerances_follow          -
 *     TH_ZERO_UNITS            4096            zero_within_the_precision  zero_within_the_precision
 *     TH_EQUAL_UNITS           0 to 1024       -                          a_thousandth_too_much
 *     TH_HIDDEN_UNITS          1 to 6e7        rounding_inside            -
 *     TH_SHORTEST_STEP_UNITS   0 to 16384      -                          functions_that_change */

#endif
