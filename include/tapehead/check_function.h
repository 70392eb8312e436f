/* Checks the gradient of a plain C function: it needs no tensor, module or tape.
 *
 *     static int forward(void *user, const th_buffer *in, th_buffer *out);
 *     static int backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din);
 *
 *     const th_port in[] = {TH_PORT("x", TH_FLOAT32, 8, 16, 33), TH_PORT("w", TH_FLOAT32, 32, 16, 3)};
 *     const th_port out[] = {TH_PORT("y", TH_FLOAT32, 8, 32, 31)};
 *     const th_function conv = {.name = "conv", .forward = forward, .backward = backward,
 *                               .inputs = in, .n_inputs = 2, .outputs = out, .n_outputs = 1};
 *     th_function_report report;
 *     if (th_check_function(&conv, NULL, &report))
 *         puts(report.text);
 *
 * scripts/amalgamate.sh --check makes tapehead_check.c and tapehead_check.h, which contain this and need only libm. */
#ifndef TAPEHEAD_CHECK_FUNCTION_H
#define TAPEHEAD_CHECK_FUNCTION_H

#include "tapehead/gradient_report.h"

TH_BEGIN_DECLS

/* The largest number of inputs, and of outputs. */
enum { TH_MAX_PORTS = 16 };

/* An array that a function reads or writes. */
typedef struct th_buffer {
    /* Not NULL, also without elements. In din, or as a tangent, NULL for an input that is not differentiated. */
    void *data;
    th_dtype dtype;
    int ndim;
    int64_t size[TH_MAX_DIMS];
    int64_t stride[TH_MAX_DIMS]; /* in elements; row-major unless th_port.strided is set */
    int64_t numel;               /* product of the sizes; 1 for a scalar */
} th_buffer;

/* Computes the outputs. Returns 0, or an error number of the user's, which stops the check. The outputs contain NaN
 * before the call. The function must not change the inputs. */
typedef int th_function_forward(void *user, const th_buffer *in, th_buffer *out);
/* Computes the gradients of the inputs (VJP): din[i] = sum over k of J[k][i]^T dout[k]. It must overwrite din, which
 * contains NaN before the call. dout of an integer output has data == NULL. */
typedef int th_function_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                                 th_buffer *din);
/* Computes the derivatives of the outputs along a tangent (JVP): dout[k] = sum over i of J[k][i] din[i]. */
typedef int th_function_jvp(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *din,
                            th_buffer *dout);

/* An input or output: its name, type and shape, and which values an input has. Fields after size may be 0. */
typedef struct th_port {
    const char *name;
    th_dtype dtype; /* TH_FLOAT64, TH_FLOAT32, TH_FLOAT16, TH_BFLOAT16, or TH_INT32, TH_INT64, TH_BOOL */
    int ndim;       /* 0: a scalar */
    int64_t size[TH_MAX_DIMS];
    /* Random values of an input: uniform in [low, high). If both are 0, floating values are uniform in [-2, 2) and
     * integers are 0 or 1. An integer range is [low, high), and so is the range of class indices, for example. */
    double low, high;
    const void *values; /* of an input: [numel], row-major, of its type; NULL: random */
    bool constant;      /* a floating input that the function does not differentiate; din has data == NULL */
    bool strided;       /* the buffer has gaps, and its last two axes are exchanged in memory */
} th_port;

#define TH_PORT_SIZES_(...)                                                                                            \
    TH_COUNT_(__VA_ARGS__),                                                                                            \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
/* A port with these sizes, as an initializer: TH_PORT("x", TH_FLOAT32, 8, 16). A size may be 0. */
#define TH_PORT(name, dtype, ...)                                                                                      \
    {                                                                                                                  \
        (name), (dtype), TH_PORT_SIZES_(__VA_ARGS__), 0, 0, NULL, false, false                                         \
    }
/* A port without dimensions, as an initializer. */
#define TH_PORT_SCALAR(name, dtype)                                                                                    \
    {                                                                                                                  \
        (name), (dtype), 0, {0}, 0, 0, NULL, false, false                                                              \
    }

/* Returns a port of this shape: th_port_of("x", TH_FLOAT32, TH_SHAPE(8, 16)). C++ has no designated initializers, so this
 * and th_function_of fill the structures there. */
static inline th_port th_port_of(const char *name, th_dtype dtype, th_shape shape)
{
    th_port port = TH_PORT_SCALAR(name, dtype);
    port.ndim = shape.ndim;
    for (int d = 0; d < shape.ndim && d < TH_MAX_DIMS; d++)
        port.size[d] = shape.size[d];
    return port;
}

/* A function and its derivative. All fields that are not used may be 0. */
typedef struct th_function {
    const char *name; /* in the report; NULL: "the function" */
    th_function_forward *forward;
    th_function_backward *backward; /* this, or jvp */
    th_function_jvp *jvp;
    th_function_forward *reference; /* the same function with float64 in place of every floating type; NULL: none */
    void *user;                     /* passed to each of them */
    const th_port *inputs;          /* [n_inputs] */
    const th_port *outputs;         /* [n_outputs] */
    int n_inputs, n_outputs;
    bool accumulates; /* backward adds to din, which contains 0 before the call, instead of overwriting it */
    /* The function is random. The check calls set_seed with the same number before each call of forward. */
    void (*set_seed)(void *user, uint64_t seed);
} th_function;

/* Returns a function with a backward. (A trailing _ keeps -Wshadow quiet where a program has the same names.) */
static inline th_function th_function_of(const char *name, th_function_forward *forward_,
                                         th_function_backward *backward_, void *user, int n_inputs,
                                         const th_port *inputs_, int n_outputs, const th_port *outputs_)
{
    th_function function = {name,    forward_, backward_, NULL,      NULL,  user,
                            inputs_, outputs_, n_inputs,  n_outputs, false, NULL};
    return function;
}

/* Options of a check. All fields may be 0. */
typedef struct th_function_options {
    th_gradient_mode mode;     /* TH_GRADIENT_AUTO, _FULL or _FAST */
    double step;               /* see th_gradient_options.step */
    double relative_tolerance; /* of the larger of gradient and quotient; 0: chosen from the type and the noise */
    double absolute_tolerance;
    uint64_t seed;           /* for values, cotangents, directions and samples */
    int directions, samples; /* for each input in fast mode; 0: 8 directions, 24 samples */
    bool only_this_point;    /* only gradients at the values of the ports: no other scales, no repeated operands */
    bool gradients_only;     /* only gradients: no checks of memory, of linearity and of repeated calls */
    bool isolate;            /* runs the check in a child process, so that the report can name a crash (POSIX) */
    double time_limit;       /* seconds for one call of the function; needs isolate; 0: none */
} th_function_options;

/* The report of a check. The fields up to uncertainty describe the worst comparison, as in th_gradient_report. */
typedef struct th_function_report {
    bool ok; /* the verdict is TH_GRADIENT_RIGHT */
    th_gradient_verdict verdict;
    th_gradient_mode mode;
    int64_t checked; /* number of comparisons */
    int input;       /* index of the worst input; -1: none */
    th_shape index;  /* of the element in that input */
    double analytic, numeric, error, uncertainty;
    double noise;                          /* of forward, relative to its largest output; 0: not measured */
    bool not_deterministic;                /* two equal calls gave different outputs or gradients */
    int64_t forward_calls, backward_calls; /* made by the check; a call of jvp is a call of backward */
    /* In fast mode: a mistake in one element, of this size relative to the largest gradient of its input, is missed with
     * at most this probability. 0 in full mode. */
    double missed_error, missed_probability;
    char text[TH_GRADIENT_TEXT]; /* "" if ok; else what is wrong, and a map of the wrong elements */
} th_function_report;

/* Checks the derivative of a function against central differences. report may be NULL.
 *
 * Some wrong rules stay hidden: a branch that no input reaches, a range of inputs so small that random ones miss it, a
 * mistake that is smaller than the tolerance, and wrong numbers for infinite inputs or NaN. Give values to the ports for
 * the first two.
 *
 * Returns TH_OK if it is right. Returns TH_ERROR_VALUE if it is wrong, if the check cannot tell, or if there was nothing
 * to compare; report->verdict says which. Returns TH_ERROR_ARGUMENT or TH_ERROR_MEMORY if the check could not run;
 * report->text has the reason. */
TH_API th_status th_check_function(const th_function *function, const th_function_options *options,
                                   th_function_report *report) TH_MUST_CHECK;

/* -- test frameworks -- */

/* Formats of results: the Test Anything Protocol, and XML as JUnit writes it. */
typedef enum th_report_format { TH_REPORT_TAP, TH_REPORT_JUNIT } th_report_format;
/* Writes the results of a number of checks, with a name for each. Returns TH_ERROR_FILE if the file cannot be written. */
TH_API th_status th_write_function_reports(FILE *file, th_report_format format, int count, const char *const *names,
                                           const th_function_report *reports) TH_MUST_CHECK;

/* Asserts in a test for Check (check.h) that the gradient of a th_function is right. */
#define ck_assert_function_gradient(f) ck_assert_function_gradient_with((f), NULL)
/* As ck_assert_function_gradient, with th_function_options. */
#define ck_assert_function_gradient_with(f, options)                                                                   \
    do {                                                                                                               \
        th_function_report th_report_;                                                                                 \
        const th_status th_status_ = th_check_function((f), (options), &th_report_);                                   \
        ck_assert_msg(th_status_ == TH_OK, "%s", th_report_.text);                                                     \
    } while (0)
/* The same for GoogleTest (gtest/gtest.h). */
#define EXPECT_FUNCTION_GRADIENT(f)                                                                                    \
    do {                                                                                                               \
        th_function_report th_report_;                                                                                 \
        EXPECT_EQ(th_check_function((f), nullptr, &th_report_), TH_OK) << th_report_.text;                             \
    } while (0)

TH_END_DECLS

#endif
