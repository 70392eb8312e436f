/* Assertions for test suites under Check (libcheck). Only this header needs Check; the library does not. */
#ifndef TAPEHEAD_CHECK_H
#define TAPEHEAD_CHECK_H

#include <check.h>

#include "tapehead/context.h"
#include "tapehead/gradient_check.h"
#include "tapehead/tensor.h"

/* Fails, with the report, unless the gradient of function(user, x) is right: for x and for every parameter that the
 * function uses. function: th_tensor *(*)(void *user, th_tensor *x); user: a module, say; x: owned, any floating type
 * (it is copied). */
#define ck_assert_gradient(function, user, x) ck_assert_gradient_with(function, user, x, NULL)
/* The same with th_gradient_options. */
#define ck_assert_gradient_with(function, user, x, options)                                                            \
    do {                                                                                                               \
        th_tensor *th_x_ = (x);                                                                                        \
        th_gradient_report th_report_;                                                                                 \
        th_gradient_options th_options_ = th_gradient_options_named((options), #function);                             \
        const th_status th_status_ = th_check_gradient_of((function), (user), th_x_, &th_options_, &th_report_);       \
        ck_assert_msg(th_status_ == TH_OK, "%s", th_gradient_failure(th_context_of(th_x_), &th_report_));              \
    } while (0)

/* Fails, with the report, unless the operation's gradient is right on all its samples. */
#define ck_assert_op(ctx, op) ck_assert_op_with(ctx, op, NULL)
#define ck_assert_op_with(ctx, op, options)                                                                            \
    do {                                                                                                               \
        th_context *th_ctx_ = (ctx);                                                                                   \
        th_gradient_report th_report_;                                                                                 \
        const th_status th_status_ = th_check_op(th_ctx_, (op), (options), &th_report_);                               \
        ck_assert_msg(th_status_ == TH_OK, "%s", th_gradient_failure(th_ctx_, &th_report_));                           \
    } while (0)

/* The options with a name where they have none; NULL: all defaults. */
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

/* What to say of a failed check: the report, or the error that kept the function from running. */
static inline const char *th_gradient_failure(const th_context *ctx, const th_gradient_report *report)
{
    return report->text[0] ? report->text : th_error_message(ctx);
}

#endif
