/* Assertions for test suites under Check (libcheck). Only this header needs Check; the library does not. */
#ifndef TAPEHEAD_CHECK_H
#define TAPEHEAD_CHECK_H

#include <check.h>

#include "tapehead/context.h"
#include "tapehead/gradient_check.h"
#include "tapehead/tensor.h"

/* Asserts that the gradient of function(user, x) is right for x and for every parameter that the function reads. If it
 * is not, the test fails with the text of the report. The function is a th_gradient_function_of_one. user is a module,
 * for example. x is an owned tensor of any floating type. */
#define ck_assert_gradient(function, user, x) ck_assert_gradient_with(function, user, x, NULL)
/* Asserts that a gradient is right, as ck_assert_gradient does, with th_gradient_options. */
#define ck_assert_gradient_with(function, user, x, options)                                                            \
    do {                                                                                                               \
        th_tensor *th_x_ = (x);                                                                                        \
        th_gradient_report th_report_;                                                                                 \
        th_gradient_options th_options_ = th_gradient_options_named((options), #function);                             \
        const th_status th_status_ = th_check_gradient_of((function), (user), th_x_, &th_options_, &th_report_);       \
        ck_assert_msg(th_status_ == TH_OK, "%s", th_gradient_failure(th_context_of(th_x_), &th_report_));              \
    } while (0)

/* Asserts that the operation passes th_check_op on all its samples. If not, the test fails with the report's text. */
#define ck_assert_op(ctx, op) ck_assert_op_with(ctx, op, NULL)
/* Asserts that an operation passes th_check_op, as ck_assert_op does, with th_gradient_options. */
#define ck_assert_op_with(ctx, op, options)                                                                            \
    do {                                                                                                               \
        th_context *th_ctx_ = (ctx);                                                                                   \
        th_gradient_report th_report_;                                                                                 \
        const th_status th_status_ = th_check_op(th_ctx_, (op), (options), &th_report_);                               \
        ck_assert_msg(th_status_ == TH_OK, "%s", th_gradient_failure(th_ctx_, &th_report_));                           \
    } while (0)

/* Returns a copy of the options. If they have no name, the copy gets this name. For NULL it copies the defaults. */
static inline th_gradient_options th_gradient_options_named(const th_gradient_options *options, const char *name)
{
    th_gradient_options named;
    if (options)
        named = *options;
    else
        for (size_t i = 0; i < sizeof named; i++)
            ((unsigned char *)&named)[i] = 0;
    if (!named.name)
        named.name = name;
    return named;
}

/* Returns the message of a failed check: the text of the report, or the pending error if the text is empty. */
static inline const char *th_gradient_failure(const th_context *ctx, const th_gradient_report *report)
{
    return report->text[0] ? report->text : th_error_message(ctx);
}

#endif
