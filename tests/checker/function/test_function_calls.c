/* What a user's function must not do while th_check_function calls it: return an error, crash, hang, write outside its
 * buffers, change what it only reads, leave elements unwritten, or change the mode of floating-point arithmetic. */
#include <fenv.h>
#include <signal.h>
#include <unistd.h>

#include "plain_functions.h"

static const th_port vector = TH_PORT("x", TH_FLOAT64, 6);
static int mistake; /* what the functions below do wrong; 0: nothing */

enum {
    RETURNS_ERROR = 1,
    CRASHES,
    HANGS,
    EXITS,
    WRITES_AFTER,
    WRITES_BEFORE,
    CHANGES_INPUT,
    CHANGES_ROUNDING,
    LEAVES_ELEMENT,
    BACKWARD_RETURNS_ERROR = 16,
    BACKWARD_CRASHES,
    BACKWARD_WRITES_AFTER,
    BACKWARD_CHANGES_COTANGENT,
    BACKWARD_CHANGES_OUTPUT,
    BACKWARD_LEAVES_ELEMENT,
    FLUSHES_TO_ZERO
};

static void flush_to_zero(void)
{
#if defined __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8000);
#endif
}

static int square(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    const double *x = in->data;
    double *y = out->data;
    for (int64_t i = 0; i < in->numel - (mistake == LEAVES_ELEMENT); i++)
        y[i] = x[i] * x[i];
    if (mistake == CRASHES)
        raise(SIGABRT);
    if (mistake == EXITS)
        _exit(3);
    while (mistake == HANGS)
        pause();
    if (mistake == WRITES_AFTER)
        y[in->numel] = 0;
    if (mistake == WRITES_BEFORE)
        y[-1] = 0;
    if (mistake == CHANGES_INPUT)
        ((double *)in->data)[1] = 0;
    if (mistake == CHANGES_ROUNDING)
        fesetround(FE_UPWARD);
    if (mistake == FLUSHES_TO_ZERO)
        flush_to_zero();
    return mistake == RETURNS_ERROR ? 42 : 0;
}

static int square_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user;
    const double *x = in->data, *dy = dout->data;
    double *dx = din->data;
    for (int64_t i = 0; i < in->numel - (mistake == BACKWARD_LEAVES_ELEMENT); i++)
        dx[i] = 2 * x[i] * dy[i];
    if (mistake == BACKWARD_CRASHES)
        raise(SIGUSR1);
    if (mistake == BACKWARD_WRITES_AFTER)
        dx[in->numel] = 0;
    if (mistake == BACKWARD_CHANGES_COTANGENT)
        ((double *)dout->data)[0] = 0;
    if (mistake == BACKWARD_CHANGES_OUTPUT)
        ((double *)out->data)[0] = 7;
    return mistake == BACKWARD_RETURNS_ERROR ? -3 : 0;
}

static th_status check_with(int what, const th_function_options *options)
{
    mistake = what;
    const th_function function = th_function_of("square", square, square_backward, NULL, 1, &vector, 1, &vector);
    return th_check_function(&function, options, &report);
}

START_TEST(mistakes_of_memory_are_named)
{
    static const struct {
        int mistake;
        const char *text;
    } cases[] = {{WRITES_AFTER, "forward writes outside x"},
                 {WRITES_BEFORE, "forward writes outside x"},
                 {CHANGES_INPUT, "forward changes x, which it must only read"},
                 {CHANGES_ROUNDING, "forward changes the rounding mode"},
                 {LEAVES_ELEMENT, "forward does not write element 5 of x"},
                 {BACKWARD_WRITES_AFTER, "backward writes outside the gradient of x"},
                 {BACKWARD_CHANGES_COTANGENT, "backward changes the gradient of x, which it must only read"},
                 {BACKWARD_CHANGES_OUTPUT, "backward changes x, which it must only read"},
                 {BACKWARD_LEAVES_ELEMENT, "backward does not write element 5 of the gradient of x"}};
    expect_right(check_with(0, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_wrong(check_with(cases[i].mistake, NULL), cases[i].text);
        ck_assert_int_eq(fegetround(), FE_TONEAREST);
    }
#if defined __x86_64__
    expect_wrong(check_with(FLUSHES_TO_ZERO, NULL), "flush-to-zero");
#endif
}
END_TEST

START_TEST(errors_of_the_function_stop_the_check)
{
    expect_verdict(check_with(RETURNS_ERROR, NULL), TH_GRADIENT_COULD_NOT_RUN, "square: forward returned 42");
    expect_verdict(check_with(BACKWARD_RETURNS_ERROR, NULL), TH_GRADIENT_COULD_NOT_RUN, "backward returned -3");
}
END_TEST

START_TEST(a_child_process_survives_crashes)
{
    const th_function_options isolated = {.isolate = true}, limited = {.isolate = true, .time_limit = 0.05};
    expect_right(check_with(0, &isolated));
    expect_right(check_with(0, &limited));
    expect_wrong(check_with(CRASHES, &isolated), "forward crashed with signal 6 (SIGABRT)");
    expect_wrong(check_with(BACKWARD_CRASHES, &isolated), "backward crashed with signal ");
    expect_wrong(check_with(EXITS, &isolated), "forward ended the process with exit status 3");
    expect_wrong(check_with(HANGS, &limited), "forward did not return within 0.05 seconds");
    expect_wrong(check_with(WRITES_AFTER, &isolated), "writes outside");
}
END_TEST

/* -- shapes -- */

static int calls_with_data;

static int sum_of_any(void *user, const th_buffer *in, th_buffer *out)
{
    double sum = 0;
    calls_with_data += in->data != NULL && out->data != NULL;
    for (int64_t i = 0; i < in->numel; i++)
        sum += ((const double *)in->data)[i];
    for (int64_t i = 0; i < out->numel; i++)
        ((double *)out->data)[i] = sum;
    return user != NULL;
}

static int sum_of_any_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                               th_buffer *din)
{
    double sum = 0;
    for (int64_t i = 0; i < out->numel; i++)
        sum += ((const double *)dout->data)[i];
    for (int64_t i = 0; i < in->numel; i++)
        ((double *)din->data)[i] = sum;
    return user != NULL;
}

START_TEST(scalars_and_arrays_without_elements)
{
    const th_port scalar = TH_PORT_SCALAR("x", TH_FLOAT64), empty = TH_PORT("x", TH_FLOAT64, 3, 0);
    const th_port *ports[] = {&scalar, &empty};
    for (int i = 0; i < 2; i++)
        for (int o = 0; o < 2; o++) {
            const th_function function =
                th_function_of("sum", sum_of_any, sum_of_any_backward, NULL, 1, ports[i], 1, ports[o]);
            calls_with_data = 0;
            if (i + o == 0)
                expect_right(check(&function));
            else
                expect_verdict(check(&function), TH_GRADIENT_NOTHING_COMPARED, "nothing was compared");
            ck_assert_int_gt(calls_with_data, 0);
        }
}
END_TEST

static int transposing_copy(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->size[0]; i++)
        for (int64_t j = 0; j < in->size[1]; j++)
            ((double *)out->data)[j * out->stride[0] + i * out->stride[1]] =
                ((const double *)in->data)[i * in->stride[0] + j * in->stride[1]];
    return 0;
}

static int transposing_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                                th_buffer *din)
{
    (void)in, (void)out;
    if (user) /* writes into the gaps between the rows */
        memset(din->data, 0, (size_t)(din->numel + 2) * sizeof(double));
    return transposing_copy(NULL, dout, din);
}

START_TEST(strided_buffers_have_guarded_gaps)
{
    th_port in = TH_PORT("x", TH_FLOAT64, 2, 3), out = TH_PORT("y", TH_FLOAT64, 3, 2);
    in.strided = out.strided = true;
    th_function function = th_function_of("transpose", transposing_copy, transposing_backward, NULL, 1, &in, 1, &out);
    expect_right(check(&function));
    function.user = &function;
    expect_wrong(check(&function), "backward writes outside the gradient of x");
}
END_TEST

/* -- reports for test runners -- */

START_TEST(results_are_written_as_tap_and_junit)
{
    th_function_report reports[2];
    check_with(0, NULL);
    reports[0] = report;
    check_with(LEAVES_ELEMENT, NULL);
    reports[1] = report;
    const char *const names[] = {"right", "a < b"};
    const char *const expected[] = {
        "TAP version 13\n1..2\nok 1 - right\nnot ok 2 - a < b\n# square: forward does not write element 5 of x\n",
        "<testcase classname=\"gradients\" name=\"right\"/>\n  <testcase classname=\"gradients\" name=\"a &lt; b\">"};
    for (int f = TH_REPORT_TAP; f <= TH_REPORT_JUNIT; f++) {
        char text[2000];
        FILE *file = fmemopen(text, sizeof text, "w");
        ck_assert_int_eq(th_write_function_reports(file, (th_report_format)f, 2, names, reports), TH_OK);
        fclose(file);
        ck_assert_msg(strstr(text, expected[f]) != NULL, "%s", text);
    }
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        ck_assert_int_eq(th_write_function_reports(full, TH_REPORT_TAP, 2, names, reports), TH_ERROR_FILE);
        fclose(full);
    }
}
END_TEST

START_TEST(an_assertion_for_check)
{
    mistake = 0;
    const th_function function = th_function_of("square", square, square_backward, NULL, 1, &vector, 1, &vector);
    ck_assert_function_gradient(&function);
    ck_assert_function_gradient_with(&function, (&(const th_function_options){.seed = 3}));
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("calls of plain functions", NULL, NULL);
    tcase_add_test(tcase, mistakes_of_memory_are_named);
    tcase_add_test(tcase, errors_of_the_function_stop_the_check);
    tcase_add_test(tcase, a_child_process_survives_crashes);
    tcase_add_test(tcase, scalars_and_arrays_without_elements);
    tcase_add_test(tcase, strided_buffers_have_guarded_gaps);
    tcase_add_test(tcase, results_are_written_as_tap_and_junit);
    tcase_add_test(tcase, an_assertion_for_check);
    return run_suites();
}
