/* Shared by the tests of th_check_function: a report, a function of each element of one input, and expectations. */
#ifndef TESTS_PLAIN_FUNCTIONS_H
#define TESTS_PLAIN_FUNCTIONS_H

#include <math.h>
#include <string.h>

#include "tapehead/check_function.h"

#include "suite.h"

static th_function_report report;

static inline double load(const th_buffer *b, int64_t i)
{
    return b->dtype == TH_FLOAT64 ? ((const double *)b->data)[i] : (double)((const float *)b->data)[i];
}

static inline void store(const th_buffer *b, int64_t i, double value)
{
    if (b->dtype == TH_FLOAT64)
        ((double *)b->data)[i] = value;
    else
        ((float *)b->data)[i] = (float)value;
}

/* A function of each element, and its derivative. */
typedef struct elementwise {
    double (*value)(double x);
    double (*slope)(double x);
} elementwise;

static inline int elementwise_forward(void *user, const th_buffer *in, th_buffer *out)
{
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, ((const elementwise *)user)->value(load(in, i)));
    return 0;
}

static inline int elementwise_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                                       th_buffer *din)
{
    (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, ((const elementwise *)user)->slope(load(in, i)) * load(dout, i));
    return 0;
}

/* Checks a function with the default options. */
static inline th_status check(const th_function *function)
{
    return th_check_function(function, NULL, &report);
}

static inline th_status check_elementwise(double (*value)(double), double (*slope)(double), const th_port *port)
{
    elementwise user = {value, slope};
    const th_function function =
        th_function_of("f", elementwise_forward, elementwise_backward, &user, 1, port, 1, port);
    return check(&function);
}

#define expect_right(status)                                                                                           \
    do {                                                                                                               \
        const th_status status_ = (status);                                                                            \
        ck_assert_msg(status_ == TH_OK && report.verdict == TH_GRADIENT_RIGHT && report.text[0] == '\0',               \
                      "status %d: %s", (int)status_, report.text);                                                     \
    } while (0)

/* Expects a verdict other than right, and words of the report. */
#define expect_verdict(status, expected, words)                                                                        \
    do {                                                                                                               \
        const th_status status_ = (status);                                                                            \
        ck_assert_msg(status_ == TH_ERROR_VALUE && report.verdict == (expected), "status %d, verdict %d: %s",          \
                      (int)status_, (int)report.verdict, report.text);                                                 \
        ck_assert_msg(strstr(report.text, words) != NULL, "no \"%s\" in\n%s", words, report.text);                     \
    } while (0)
#define expect_wrong(status, words) expect_verdict(status, TH_GRADIENT_WRONG, words)

#endif
